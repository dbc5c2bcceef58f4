/**
 * @file tests/support/fake_seam.h  A seam on which calls stay until a test ends them.
 *
 * Model:     calls are kept in the order in which they were begun; time stands until it is
 *            made to pass. A key's slot is the number before its first colon, else 0; its
 *            node is the last digit of that.
 * Ownership: the test's; fake_seam_init is all there is.
 * Threads:   one.
 * Errors:    a breach of the seam's contract aborts.
 */
#ifndef TESTS_SUPPORT_FAKE_SEAM_H
#define TESTS_SUPPORT_FAKE_SEAM_H

#include "agent/store/seam.h"

enum {
    FAKE_SEAM_CALLS_MAX = 8192,
    FAKE_SEAM_NODES = 10,
    FAKE_SEAM_VALUES_MAX = 512,
};

struct fake_seam {
    struct seam seam;
    struct instant now;
    bool is_down;    /* calls end at once, unsent */
    uint64_t random; /* each number drawn */
    struct seam_timer *timers;
    unsigned n_begun; /* calls so far */
    unsigned n_rejected;
    unsigned n_open;                              /* with the seam */
    struct seam_call *calls[FAKE_SEAM_CALLS_MAX]; /* NULL: over */
};

void fake_seam_init(struct fake_seam *fake, struct instant at);

/** Let time pass, and timers fire when they are due. */
void fake_seam_pass(struct fake_seam *fake, int64_t us);

/** The call that was begun as that one, and is still with the seam. */
struct seam_call *fake_seam_call(struct fake_seam *fake, unsigned idx);

/** End a call: with numbers where it is answered, by `late` where it is late already. */
void fake_seam_answer(struct fake_seam *fake, unsigned idx, const int64_t *numbers,
                      unsigned n);

/** End it so; after SEAM_TIMEOUT it is late. */
void fake_seam_end(struct fake_seam *fake, unsigned idx, enum seam_outcome outcome);

#endif
