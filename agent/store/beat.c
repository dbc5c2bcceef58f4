#include "agent/store/beat.h"

#include <stdio.h>
#include <string.h>

#include "agent/log.h"
#include "agent/store/redis.h"

enum {
    SIGN_LIVES = '+',
    SIGN_ENDS = '-',
    SIGN_ASKS = '?',
};

static void speak(struct beat *beat, struct beat_word *word, char sign,
                  const char *name, seam_call_fn *done, seam_call_fn *late)
{
    size_t name_bytes = strlen(name);
    struct instant now = seam_now(beat->options.seam);
    word->text[0] = sign;
    memcpy(word->text + 1, name, name_bytes);
    word->arg = (struct seam_bytes){.ptr = word->text, .len = 1 + name_bytes};
    word->call = (struct seam_call){
        .script = REDIS_SCRIPT_BEAT,
        .keys = &beat->key,
        .n_keys = 1,
        .args = &word->arg,
        .n_args = 1,
        .deadline = instant_add_us(now, BEAT_TIMEOUT_US),
        .done = done,
        .late = late,
    };
    seam_run(beat->options.seam, &word->call);
}

static void set_timer(struct beat *beat, int64_t us)
{
    beat->timer.at = instant_add_us(seam_now(beat->options.seam), us);
    seam_timer_set(beat->options.seam, &beat->timer);
}

/* What a person can mend. Else it passes, or counters are refused as well, which is said. */
static const char *how_to_mend(enum seam_error error)
{
    return error == SEAM_ERROR_DENIED ? "let the user do what agent/README.md lists"
           : error == SEAM_ERROR_WRONG_TYPE ? "it holds something foreign, delete it"
           : error == SEAM_ERROR_OTHER      ? "Redis cannot run the script"
                                            : NULL;
}

static void note_refusal(struct beat *beat, enum seam_error error)
{
    const char *mend = how_to_mend(error);
    if (mend != NULL && error != beat->refused) {
        log_warning("redis: no heartbeat in %s: %s; shares go by %u agents",
                    beat->key_text, mend, health_n_agents(beat->options.health));
    }
    beat->refused = error;
}

/* @return false: it is no answer of this script */
static bool hear(struct beat *beat, const struct seam_reply *reply)
{
    const struct seam_value *value = &reply->values[0];
    if (value->type != SEAM_INTEGER || value->integer < 0) {
        return false;
    }
    unsigned n = value->integer < BEAT_AGENTS_MAX ? (unsigned)value->integer
                                                  : BEAT_AGENTS_MAX;
    health_hear_agents(beat->options.health,
                       head_count_hear(&beat->count, n, seam_now(beat->options.seam)));
    return true;
}

static void on_late(struct seam_call *call, const struct seam_reply *reply)
{
    (void)reply;
    CONTAINER_OF(call, struct beat, word.call)->is_under_way = false;
}

static void on_heard(struct seam_call *call, const struct seam_reply *reply)
{
    struct beat *beat = CONTAINER_OF(call, struct beat, word.call);
    beat->is_under_way = call->outcome == SEAM_TIMEOUT;
    switch (call->outcome) {
    case SEAM_OK:
        note_refusal(beat, SEAM_ERROR_NONE);
        if (!hear(beat, reply)) {
            seam_reject(beat->options.seam, call);
        }
        return;
    case SEAM_ERROR:
        note_refusal(beat, call->error);
        return;
    case SEAM_DOWN:
    case SEAM_FULL:
        set_timer(beat, BEAT_RETRY_US);
        return;
    case SEAM_TIMEOUT:
    case SEAM_LOST:
        return;
    }
    NEVER("outcome");
}

/* How many there are the next call hears, which says that this one lives. */
static void on_ended(struct seam_call *call, const struct seam_reply *reply)
{
    struct beat *beat = CONTAINER_OF(call, struct beat, word.call);
    (void)reply;
    beat->is_under_way = call->outcome == SEAM_TIMEOUT;
    if (call->outcome == SEAM_DOWN || call->outcome == SEAM_FULL) {
        set_timer(beat, BEAT_RETRY_US);
        return;
    }
    beat->options.ended = NULL;
    set_timer(beat, 0);
}

static bool is_asked(const struct beat *beat)
{
    struct instant now = seam_now(beat->options.seam);
    struct instant asked_at = health_asked_at(beat->options.health);
    return instant_diff_us(now, asked_at) <= BEAT_IDLE_US;
}

static void on_timer(struct seam_timer *timer)
{
    struct beat *beat = CONTAINER_OF(timer, struct beat, timer);
    const struct beat_options *options = &beat->options;
    set_timer(beat, BEAT_US);
    if (beat->is_under_way) {
        return;
    }
    beat->is_under_way = true;
    if (options->ended != NULL) {
        speak(beat, &beat->word, SIGN_ENDS, options->ended, on_ended, on_late);
    } else if (is_asked(beat)) {
        speak(beat, &beat->word, SIGN_LIVES, options->name, on_heard, on_late);
    } else {
        speak(beat, &beat->word, SIGN_ASKS, "", on_heard, on_late);
    }
}

void beat_start(struct beat *beat, const struct beat_options *options)
{
    ENSURE(strlen(options->name) <= BEAT_NAME_BYTES_MAX
           && (options->ended == NULL || strlen(options->ended) <= BEAT_NAME_BYTES_MAX)
           && strlen(options->prefix) <= BEAT_PREFIX_BYTES_MAX);
    beat->options = *options;
    beat->key.ptr = beat->key_text;
    beat->key.len = (size_t)snprintf(beat->key_text, sizeof(beat->key_text),
                                     "%s:nodes:{all}", options->prefix);
    beat->count.n = health_n_agents(options->health);
    beat->count.heard_at = seam_now(options->seam);
    beat->timer.fire = on_timer;
    set_timer(beat, BEAT_RETRY_US);
}

static void ignore(struct seam_call *call, const struct seam_reply *reply)
{
    (void)call;
    (void)reply;
}

void beat_leave(struct beat *beat)
{
    seam_timer_stop(beat->options.seam, &beat->timer);
    speak(beat, &beat->last_word, SIGN_ENDS, beat->options.name, ignore, ignore);
}
