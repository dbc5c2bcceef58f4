#include "agent/control/state.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sodium.h>

#include "agent/log.h"
#include "agent/thread.h"

struct state {
    char *dir;
    bool has_snapshot;
    struct snapshot snapshot;
    struct store *store;
    struct ev_loop *loop; /* NULL: no periodic snapshots */
    struct ev_timer timer;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock: */
    bool is_wanted; /* a snapshot, by the thread */
    bool is_writing;
    bool is_quitting;
    struct state_report report;
};

/* At start, while somebody is looking: at the stop it would be too late. */
static void check_writable(const char *dir)
{
    if (access(dir, W_OK | X_OK) != 0) {
        log_warning(
            "%s: %s: counters will not be kept: let the agent's user write there", dir,
            strerrordesc_np(errno));
    }
}

/* Answers false when it has said what is wrong with the snapshot or the directory. */
static bool find_snapshot(struct state *state)
{
    char error[SNAPSHOT_ERROR_BYTES_MAX];
    enum snapshot_found found = snapshot_open(state->dir, &state->snapshot, error);
    state->has_snapshot = found == SNAPSHOT_GOOD;
    if (found == SNAPSHOT_BAD) {
        log_warning("no counters restored: %s", error);
    } else if (error[0] != '\0') {
        log_warning("%s", error);
    }
    return found != SNAPSHOT_BAD;
}

struct state *state_open(const char *dir, bool wants_snapshot)
{
    struct state *state = calloc(1, sizeof(*state));
    if (state == NULL || (state->dir = strdup(dir)) == NULL) {
        log_error("state_dir: out of memory");
        free(state);
        return NULL;
    }
    (void)pthread_mutex_init(&state->lock, NULL);
    (void)pthread_cond_init(&state->changed, NULL);
    if (!wants_snapshot || find_snapshot(state)) {
        check_writable(dir);
    }
    return state;
}

const struct image_origin *state_origin(const struct state *state)
{
    return state->has_snapshot ? &state->snapshot.origin : NULL;
}

void state_restore(struct state *state, struct store *store, struct counters *counters)
{
    if (!state->has_snapshot) {
        return;
    }
    if (!snapshot_restore(&state->snapshot, store, counters)) {
        log_warning("%s/" SNAPSHOT_FILE ": it changed while it was read", state->dir);
    }
    snapshot_close(&state->snapshot);
    state->has_snapshot = false;
    log_info("%s/" SNAPSHOT_FILE ": counters restored: %" PRIu64, state->dir,
             counter_get(counters, COUNTER_LOCAL_RESTORED));
}

/* Say what changed, keep what is asked for. Under the lock. */
static void note(struct state *state, bool is_written, uint64_t n_records,
                 const char *error)
{
    struct state_report *report = &state->report;
    if (!is_written) {
        report->n_failed++;
        if (strcmp(report->error, error) != 0) {
            log_warning("no snapshot of the counters: %s", error);
        }
        memcpy(report->error, error, sizeof(report->error));
        return;
    }
    if (report->error[0] != '\0') {
        log_info("%s: snapshots of the counters are written again", state->dir);
    }
    report->error[0] = '\0';
    report->n_written++;
    report->n_records = n_records;
    report->written_at = clock_now();
}

static void write_snapshot(struct state *state, struct store *store)
{
    char error[SNAPSHOT_ERROR_BYTES_MAX] = "";
    uint64_t n_records = 0;
    bool is_written = snapshot_write(state->dir, store, &n_records, error);
    (void)pthread_mutex_lock(&state->lock);
    note(state, is_written, n_records, error);
    (void)pthread_mutex_unlock(&state->lock);
}

static void *run(void *arg)
{
    struct state *state = arg;
    (void)pthread_mutex_lock(&state->lock);
    while (!state->is_quitting) {
        if (!state->is_wanted) {
            (void)pthread_cond_wait(&state->changed, &state->lock);
            continue;
        }
        state->is_wanted = false;
        state->is_writing = true;
        (void)pthread_mutex_unlock(&state->lock);
        write_snapshot(state, state->store);
        (void)pthread_mutex_lock(&state->lock);
        state->is_writing = false;
    }
    (void)pthread_mutex_unlock(&state->lock);
    return NULL;
}

static void on_period(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct state *state = CONTAINER_OF(timer, struct state, timer);
    (void)loop;
    (void)events;
    (void)pthread_mutex_lock(&state->lock);
    state->is_wanted = !state->is_writing;
    (void)pthread_cond_signal(&state->changed);
    (void)pthread_mutex_unlock(&state->lock);
}

/* NOLINTNEXTLINE(readability-function-size): the macros of ev.h nest */
bool state_start(struct state *state, struct ev_loop *loop, struct store *store,
                 double period_s)
{
    state->store = store;
    int rc = thread_start(&state->thread, run, state);
    if (rc != 0) {
        log_error("state_dir: no thread to write snapshots: %s", strerrordesc_np(rc));
        return false;
    }
    state->loop = loop;
    ev_timer_init(&state->timer, on_period, period_s, period_s);
    ev_timer_start(loop, &state->timer);
    return true;
}

static void stop_thread(struct state *state)
{
    if (state->loop == NULL) {
        return;
    }
    ev_timer_stop(state->loop, &state->timer);
    state->loop = NULL;
    (void)pthread_mutex_lock(&state->lock);
    state->is_quitting = true;
    (void)pthread_cond_signal(&state->changed);
    (void)pthread_mutex_unlock(&state->lock);
    (void)pthread_join(state->thread, NULL);
}

void state_write(struct state *state, struct store *store)
{
    stop_thread(state);
    state->report.error[0] = '\0'; /* said again: this is the last chance */
    write_snapshot(state, store);
    if (state->report.error[0] == '\0') {
        log_info("%s/" SNAPSHOT_FILE ": counters kept: %" PRIu64, state->dir,
                 state->report.n_records);
    }
}

void state_free(struct state *state)
{
    if (state == NULL) {
        return;
    }
    stop_thread(state);
    if (state->has_snapshot) {
        snapshot_close(&state->snapshot);
    }
    (void)pthread_mutex_destroy(&state->lock);
    (void)pthread_cond_destroy(&state->changed);
    free(state->dir);
    free(state);
}

void state_read_report(struct state *state, struct state_report *report)
{
    (void)pthread_mutex_lock(&state->lock);
    *report = state->report;
    (void)pthread_mutex_unlock(&state->lock);
}

const char *state_dir(const struct state *state)
{
    return state->dir;
}
