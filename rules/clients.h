/**
 * @file rules/clients.h  The plans of clients: a table, out of a file of its own.
 *
 * Model:     text, a line `client,plan` for each client -> an immutable table. Open
 *            addressing, at most half full; an entry is 32 bits: where the client lies in one
 *            block of bytes, and some of its hash, so that hardly ever another client is
 *            compared. The hash is that of table.h, with a secret of each table's own.
 * Ownership: rules_clients_load / rules_clients_free; nothing of the text is kept.
 * Threads:   immutable once loaded: any number of threads look clients up.
 * Errors:    diagnostics, all of one run up to RULES_DIAGS_MAX. The program calls
 *            sodium_init first.
 * Limits:    the constants below. A client takes its bytes, 3, and 8 to 16 of the table.
 */
#ifndef RULES_CLIENTS_H
#define RULES_CLIENTS_H

#include "rules/rules.h"

enum {
    RULES_CLIENTS_MAX = 1000000,
    RULES_CLIENTS_BYTES_MAX = 100 * 1000 * 1000, /* of the file */
    RULES_CLIENT_BYTES_MAX = 255,
    RULES_CLIENTS_PLANS_MAX = 1024, /* different ones */
};

/** What the descriptor that names clients holds, and so how they are compared. */
enum rules_clients_kind {
    RULES_CLIENTS_TEXT = 0,
    RULES_CLIENTS_ADDRESS, /* IPv4 whole, IPv6 by its /64 */
};

struct rules_clients;

/**
 * Read and check a file of clients.
 *
 * @param text   not needed after the call
 * @param diags  gets the errors; it stops where there are RULES_DIAGS_MAX of them
 * @return the table, owned by the caller, or NULL when diags has errors
 * @cost   in proportion to the text, whatever it says
 */
RULES_MUST_USE struct rules_clients *rules_clients_load(struct rules_bytes text,
                                                        enum rules_clients_kind kind,
                                                        struct rules_diags *diags);

/** Free a table that no thread can still use. NULL is fine. */
void rules_clients_free(struct rules_clients *clients);

uint32_t rules_clients_count(const struct rules_clients *clients);

/** @return how many different plans the clients have */
uint32_t rules_clients_n_plans(const struct rules_clients *clients);

/** @return plan `idx`, which is below that, with a NUL behind it */
struct rules_bytes rules_clients_plan(const struct rules_clients *clients,
                                      uint32_t idx);

/** Where a set says that the plans of clients are. */
struct rules_clients_file {
    const char *path; /* as the rules file has it, which it is relative to */
    enum rules_clients_kind kind;
};

/** @return NULL: the rules name no file of clients */
const struct rules_clients_file *rules_set_clients(const struct rules_set *set);

/**
 * Find the plan of a client.
 *
 * @param client  as sent: text is read as an address where clients are addresses, an
 *                address is written as text (RFC 5952) where they are not
 * @return the plan, which lives as long as the table; empty: none
 * @cost   one hash, mostly one comparison; no allocation
 */
struct rules_bytes rules_clients_find(const struct rules_clients *clients,
                                      struct rules_value client);

/**
 * Say the plan of a request that does not say it itself, before it is evaluated.
 *
 * @param clients  of the file that the set names
 * @param request  its descriptor `plan` may be set, to what lives as long as the table
 */
void rules_clients_apply(const struct rules_clients *clients,
                         const struct rules_set *set, struct rules_request *request);

#endif
