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

int64_t calendar_find(const struct calendar *calendar, struct instant now,
                      int64_t *end_us)
{
    unsigned turn = 0;
    int64_t number = 0;
    int64_t next_us = 0;
    do {
        turn = atomic_load_explicit(&calendar->turn, memory_order_acquire);
        unsigned table = turn % 2;
        int i = 0;
        do {
            next_us = atomic_load_explicit(&calendar->tables[table][i + 1].us,
                                           memory_order_acquire);
            i++;
        } while (next_us <= now.us && i < CALENDAR_STARTS - 1);
        number = atomic_load_explicit(&calendar->tables[table][i - 1].number,
                                      memory_order_acquire);
    } while (atomic_load_explicit(&calendar->turn, memory_order_relaxed) != turn);
    *end_us = next_us > now.us ? next_us : now.us + US_PER_S;
    return number;
}
