/**
 * @file agent/store/redis_parts.h  What the parts of the Redis store know together.
 *
 * Model:     redis.c answers what this process can answer by itself, and what is left it asks
 *            about: redis_call.c plans the calls of a take, sends them, and concludes the take
 *            when all that it waits for is there. redis_follow.c sees to it that where Redis
 *            refused a moment ago one asks for all, and redis_group.c that takes which want
 *            the same of one counter at one time go in one call.
 */
#ifndef AGENT_STORE_REDIS_PARTS_H
#define AGENT_STORE_REDIS_PARTS_H

#include "agent/redis/script.h"
#include "agent/store/hot.h"
#include "agent/store/lease_calls.h"
#include "agent/store/policy.h"
#include "agent/store/probe.h"
#include "agent/store/redis.h"
#include "agent/store/refusals.h"
#include "agent/store/shards.h"
#include "agent/store/sync_calls.h"

struct context;

enum {
    REDIS_GROUPS =
        1024 /* counters of which a call may be under way for several takes */
};

/** The charges of a take that are in one slot. */
struct call {
    struct seam_call seam;
    struct context *context;
    unsigned slot;
    unsigned first; /* of its charges, in the context's order */
    unsigned n;
    unsigned n_takes; /* that it asks for: the context's, and its members' */
    bool is_waited_for;
    enum store_failure failure; /* if any: policies decide; an answer may come yet */
    bool has_answer;
    bool is_allowed; /* its answer */
    bool is_second;  /* other shards were tried before */
    struct seam_bytes arg;
};

/** What a charge leaves behind when its take is over. */
struct trace {
    unsigned at; /* in the take */
    uint32_t count_idx;
    bool is_lenient;
    bool is_shadow;
    bool is_charged;
    bool is_allowed;
    struct limit limit; /* without its calendar, which is the set's */
    int64_t cost;
    int64_t place;
};

/** What is answered before Redis is asked, and what is left to ask. */
struct ahead {
    uint32_t asked;  /* bit i: charge i is asked about */
    uint32_t synced; /* charged to pools that are exchanged */
    uint32_t cut;    /* of such pools that are cut off: policies decide */
    uint32_t held;   /* of a peek: what would be spent from leases */
    struct lease_spending spending;
};

/** What Redis said a moment ago of charges. */
struct finding {
    uint32_t refused; /* these are refused again */
    unsigned doubt;   /* of refusals: the first that one is in; REFUSALS_N: none */
    unsigned at;      /* the charge that is */
};

struct ring {
    struct ring *prev;
    struct ring *next;
};

/** A take with calls under way, or that waits for the answer to another; or a settlement. */
struct context {
    struct redis_store *store;
    struct store_take *take;   /* NULL: it is over */
    struct counters *counters; /* NULL: gone */
    struct instant asked_at;
    bool is_peek;

    struct ahead ahead;
    struct sharding sharding;
    unsigned doubt;       /* it asks for all whose counter is in it; REFUSALS_N: none */
    unsigned doubtful_at; /* the charge that is */
    unsigned n_rounds;    /* of askers before it that were allowed */
    struct refusals_counter counter; /* that it asks about; set with the group */
    unsigned group; /* of its counter; REDIS_GROUPS: it goes by itself */
    unsigned n_members;
    struct ring members;   /* takes that its call asks for, too */
    struct ring followers; /* they wait for its answer */
    struct ring place;     /* where it waits itself */
    struct seam_timer patience;

    unsigned n_refused; /* of the takes that it asked for, when they were over */
    unsigned n_waiting; /* calls that the take waits for */
    unsigned n_open;    /* calls with the seam */
    unsigned n_calls;
    struct context *next; /* of those that are free */
    struct call calls[STORE_CHARGES_MAX];
    struct trace traces[STORE_CHARGES_MAX]; /* by call */
    struct seam_bytes names[STORE_CHARGES_MAX];
    uint8_t args[STORE_CHARGES_MAX * (SCRIPT_CHARGE_BYTES_MAX + 1)];
    uint8_t settle_args[STORE_CHARGES_MAX * SCRIPT_SETTLEMENT_BYTES_MAX];
    size_t n_kept;
    uint8_t kept[STORE_CHARGES_MAX * STORE_KEY_BYTES_MAX]; /* names and keys */
};

struct redis_store {
    struct store store;
    struct policies policies;   /* and what these know, for all */
    struct instant finish_by;   /* 0: it is not to finish */
    struct lease_calls *leases; /* NULL: charges of that kind are asked about */
    struct sync_calls *syncs;   /* likewise */
    struct refusals *refusals;
    struct hot *hot; /* or NULL */
    struct prober prober;
    int64_t round_trip_us;                /* the last one */
    struct context *groups[REDIS_GROUPS]; /* who asks */
    unsigned n_under_way;
    unsigned n_used; /* of contexts, ever */
    struct context *free;
    struct context contexts[REDIS_TAKES_MAX];
};

static inline void ring_init(struct ring *ring)
{
    ring->prev = ring->next = ring;
}

static inline void ring_remove(struct ring *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
}

/** As the last where `before` is the ring. */
static inline void ring_add(struct ring *before, struct ring *member)
{
    member->prev = before->prev;
    member->next = before;
    before->prev->next = member;
    before->prev = member;
}

static inline uint32_t redis_draw(struct redis_store *redis)
{
    return (uint32_t)seam_random(redis->policies.seam);
}

/** For asking. */
static inline int64_t redis_time_left_us(const struct store_take *take,
                                         struct instant now)
{
    return instant_diff_us(take->deadline, now) - REDIS_RESERVE_US;
}

/** @return NULL: too much is under way */
struct context *redis_context_take(struct redis_store *redis,
                                   struct counters *counters);
void redis_context_put_if_over(struct context *context);

/** Keep bytes that go when the take was begun. @return where they stand */
uint8_t *redis_context_keep(struct context *context, const void *bytes, size_t n);

/** The call of a context to a slot: made, with no charges, where there is none. */
struct call *redis_call_of_slot(struct context *context, unsigned slot);

/** Which charge belongs to which call; their order is that of the calls. */
void redis_plan_calls(struct context *context);

/** Fill a take from the reply to it. @return false: it is none */
MUST_USE bool redis_read_take(const struct seam_reply *reply, struct store_take *take,
                              struct script_repairs *repairs);

/** Send it, where its node is asked at all. */
void redis_call_ask(struct call *call);

/** Begin to settle the first `n` charges of a call, whose argument is written. */
void redis_call_settle(struct call *call, unsigned n, size_t arg_bytes,
                       seam_call_fn *done);

/** The end of a call that settles. @return whether it came to pass */
bool redis_call_read_settled(struct call *call, const struct seam_reply *reply,
                             unsigned *n_changed);
void redis_call_end(struct call *call);

/** All that the take waits for is there, or given up. */
void redis_conclude(struct context *context);

/** What was charged before Redis was asked. */
void redis_give_back_ahead(struct redis_store *redis, struct store_take *take,
                           const struct ahead *ahead);

/**
 * Look up what Redis refused a moment ago, of some charges, and answer these. Not charges
 * that refuse nobody, since whether they are charged hangs on what Redis says; nor peeks,
 * which tell what counters hold. Shards are in no doubt: who is refused by one asks another.
 */
struct finding redis_find_refusals(struct redis_store *redis, struct store_take *take,
                                   uint32_t mask, struct instant now);

/** Ask Redis; or, where another asks that is in the same doubt, wait for its answer. */
void redis_ask_or_follow(struct context *context, const struct finding *finding);

/** Wait at that place among the followers of another; for half of the time that there is,
 *  then ask. */
void redis_follow(struct context *context, struct ring *before);

/**
 * Who asks for the counter of a take that is about to, if others may wait for that; it is
 * from then on of this group, if it may be of one.
 */
struct context *redis_group_find(struct context *context);

/** The group of a context that asks now is its own, if nobody else asks. */
void redis_group_begin(struct context *context);

/** Nobody is to wait for a context any more. */
void redis_group_end(struct context *context);

/** How many of those that wait for a take are to ask when it is over. */
unsigned redis_group_room(const struct context *context);

/** One that has waited is to ask: as the leader, or as a member of a leader that has room for
 *  it, or after that one. @return the leader */
struct context *redis_group_add(struct context *leader, struct context *context,
                                unsigned room);

/** The answer to a call is that of its members, who came later. */
void redis_group_answer(struct context *leader, const struct store_take *answer);

/** Together it is too much: members wait again, while the leader asks for itself. */
void redis_group_split(struct context *leader);

/** Members are over with their leader. */
void redis_group_conclude(struct context *leader);

/** How many of those that wait for a take are to ask when it is over: as it is answered. */
unsigned redis_count_askers(struct context *context);

/** Those that waited: what was refused meanwhile is refused again, so many ask, and the rest
 *  waits for the last of these. */
void redis_let_followers_go(struct context *context, unsigned n_askers);

/** A refusal before Redis was asked; `refused`: of the charges left to ask, those that do. */
void redis_refuse_ahead(struct redis_store *redis, struct store_take *take,
                        const struct ahead *ahead, const struct sharding *sharding,
                        uint32_t refused);

/** Nobody is asked: there is no need, no time, or too much is under way. */
void redis_conclude_unasked(struct redis_store *redis, struct store_take *take,
                            const struct ahead *ahead, const struct sharding *sharding);

#endif
