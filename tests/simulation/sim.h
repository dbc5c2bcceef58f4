/**
 * @file tests/simulation/sim.h  A Redis that is not there: nodes, hosts and a network in
 *       virtual time.
 *
 * Model:     behind each host's seam calls travel to the node of their slot, are carried out
 *            there by the C twins of the scripts (centre.h) on the server's clock, and
 *            their answers travel back. Nothing happens but in sim_run, in the order of
 *            virtual time; the same seed gives the same run. Faults are settings of hosts
 *            and nodes, which tests change between runs.
 * Ownership: sim_new / sim_free.
 * Threads:   one.
 * Errors:    a breach of the seam's contract aborts.
 */
#ifndef TESTS_SIMULATION_SIM_H
#define TESTS_SIMULATION_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/limit/limit.h"
#include "agent/store/seam.h"

#include "tests/simulation/centre.h"

enum {
    SIM_NODES_MAX = 8,
    SIM_HOSTS_MAX = 64,
    SIM_IN_FLIGHT_MAX = 1024, /* of a host */
};

enum sim_health {
    SIM_UP = 0,
    SIM_DOWN,    /* connections break, and are refused */
    SIM_STOPPED, /* answers nothing; what came meanwhile is carried out when it is up */
    SIM_FAILING, /* answers everything with an error */
    SIM_MISTAKEN, /* says of every slot that another node has it */
    SIM_BABBLING, /* answers with what no script says */
};

struct sim;

struct sim *sim_new(uint64_t seed, unsigned n_nodes, unsigned n_hosts);
void sim_free(struct sim *sim);

struct seam *sim_seam(struct sim *sim, unsigned host);

/** True time. Clocks of hosts and nodes are before it by their skew. */
struct instant sim_now(const struct sim *sim);

/** Let time pass, and everything happen that is due. */
void sim_run(struct sim *sim, int64_t us);

/** One way, each call anew. */
void sim_set_latency(struct sim *sim, unsigned host, int64_t min_us, int64_t max_us);

/** A share of calls that break the connection on the way there, or on the way back. */
void sim_set_loss(struct sim *sim, unsigned host, unsigned permille);

/** A host that is cut off: nothing arrives, on either side, and nothing is refused. */
void sim_set_cut(struct sim *sim, unsigned host, bool is_cut);
void sim_set_host_skew(struct sim *sim, unsigned host, int64_t us);

void sim_set_health(struct sim *sim, unsigned node, enum sim_health health);
/** End all faults of nodes and hosts, but for clocks. */
void sim_heal(struct sim *sim);
void sim_set_node_skew(struct sim *sim, unsigned node, int64_t us);

/** Forget all counters of a node. */
void sim_flush(struct sim *sim, unsigned node);

/** Let another node have a slot from now on, with its counters as that has them: none, or
 *  those of before. What arrives at the old one is refused. */
void sim_move_slot(struct sim *sim, unsigned slot, unsigned node);

/** What became of what a call was to do with one counter. */
enum sim_step {
    SIM_SENT =
        0,     /* what the host decided (centre_intents); also to a node that is down */
    SIM_DONE,  /* by the node: what was refused, or came too late, is not told */
    SIM_HEARD, /* and its answer came back, be it late; no CENTRE_TAKE_BACK */
};

struct sim_tale {
    enum sim_step step;
    unsigned script;
    uint64_t tag; /* of the call; 0: none */
    struct seam_bytes key;
    enum centre_act act; /* and what follows is as in struct centre_deed */
    int64_t amount;
    int64_t spent;
    const uint8_t *host;
    uint32_t seq;
};

/** One who sees all of it, calls of probes too, and may give each call a tag as it begins. */
struct sim_witness {
    void (*see)(struct sim_witness *witness, const struct sim_tale *tale);
    uint64_t (*tag)(struct sim_witness *witness, const struct seam_call *call);
};

void sim_set_witness(struct sim *sim, struct sim_witness *witness);

/** What a counter holds on the node that has its slot. */
int64_t sim_used(struct sim *sim, const struct limit *limit, const char *key);

/** Scripts that nodes carried out; of one kind. */
uint64_t sim_n_scripts(const struct sim *sim, unsigned script);

/** ... on one node. */
uint64_t sim_n_done(const struct sim *sim, unsigned node);

/** Calls that are under way. */
unsigned sim_n_in_flight(const struct sim *sim);

#endif
