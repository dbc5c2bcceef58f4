#include "agent/limit/calendar.h"

void calendar_fill(struct calendar *calendar, const struct calendar_start *starts)
{
    unsigned turn = atomic_load_explicit(&calendar->turn, memory_order_relaxed) + 1;
    for (int i = 0; i < CALENDAR_STARTS; i++) {
        /* Release: who reads one of these while it still takes the table for the
         * current one sees that the turn was taken since. */
        atomic_store_explicit(&calendar->tables[turn % 2][i].number, starts[i].number,
                              memory_order_release);
        atomic_store_explicit(&calendar->tables[turn % 2][i].us, starts[i].us,
                              memory_order_release);
    }
    atomic_store_explicit(&calendar->turn, turn, memory_order_release);
}

static void read_start(const struct calendar *calendar, unsigned table, int i,
                       struct calendar_start *start)
{
    start->number = atomic_load_explicit(&calendar->tables[table][i].number,
                                         memory_order_acquire);
    start->us = atomic_load_explicit(&calendar->tables[table][i].us,
                                     memory_order_acquire);
}

void calendar_copy(struct calendar *to, const struct calendar *from)
{
    struct calendar_start starts[CALENDAR_STARTS];
    unsigned turn = 0;
    do {
        turn = atomic_load_explicit(&from->turn, memory_order_acquire);
        for (int i = 0; i < CALENDAR_STARTS; i++) {
            read_start(from, turn % 2, i, &starts[i]);
        }
    } while (atomic_load_explicit(&from->turn, memory_order_relaxed) != turn);
    to->is_even = from->is_even;
    calendar_fill(to, starts);
}

/* The last start of a table that is not after `now`; the first where all are. Never the
 * last of all, whose window has no end. */
static int find(const struct calendar *calendar, unsigned table, struct instant now,
                int64_t *next_us)
{
    int i = 0;
    do {
        i++;
        *next_us = atomic_load_explicit(&calendar->tables[table][i].us,
                                        memory_order_acquire);
    } while (*next_us <= now.us && i < CALENDAR_STARTS - 1);
    return i - 1;
}

int64_t calendar_find(const struct calendar *calendar, struct instant now,
                      int64_t *end_us)
{
    unsigned turn = 0;
    int64_t number = 0;
    int64_t next_us = 0;
    do {
        turn = atomic_load_explicit(&calendar->turn, memory_order_acquire);
        int i = find(calendar, turn % 2, now, &next_us);
        number = atomic_load_explicit(&calendar->tables[turn % 2][i].number,
                                      memory_order_acquire);
    } while (atomic_load_explicit(&calendar->turn, memory_order_relaxed) != turn);
    *end_us = next_us > now.us ? next_us : now.us + US_PER_S;
    return number;
}

/* The starts that calendar_upcoming tells, on both clocks. */
static void read_upcoming(const struct calendar *calendar, struct instant now,
                          struct calendar_start starts[CALENDAR_UPCOMING])
{
    unsigned turn = 0;
    do {
        int64_t next_us = 0;
        turn = atomic_load_explicit(&calendar->turn, memory_order_acquire);
        int first = find(calendar, turn % 2, now, &next_us);
        if (first > CALENDAR_STARTS - CALENDAR_UPCOMING) {
            first = CALENDAR_STARTS - CALENDAR_UPCOMING;
        }
        for (int i = 0; i < CALENDAR_UPCOMING; i++) {
            read_start(calendar, turn % 2, first + i, &starts[i]);
        }
    } while (atomic_load_explicit(&calendar->turn, memory_order_relaxed) != turn);
}

void calendar_upcoming(const struct calendar *calendar, struct instant now,
                       int64_t numbers[CALENDAR_UPCOMING])
{
    struct calendar_start starts[CALENDAR_UPCOMING];
    read_upcoming(calendar, now, starts);
    for (int i = 0; i < CALENDAR_UPCOMING; i++) {
        numbers[i] = starts[i].number;
    }
}

struct instant calendar_of_wall(const struct calendar *calendar, struct instant now,
                                struct instant wall)
{
    struct calendar_start starts[CALENDAR_UPCOMING];
    read_upcoming(calendar, now, starts);
    int64_t us = starts[1].us + (wall.us - starts[1].number * US_PER_S);
    int64_t last_us = starts[2].us - 1;
    us = us < starts[0].us ? starts[0].us : us;
    return (struct instant){us < last_us ? us : last_us};
}
