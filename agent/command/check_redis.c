#include "agent/command/check_redis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/command/check_code.h"
#include "agent/redis/scout.h"
#include "agent/redis/script.h"
#include "agent/redis/slots.h"

enum {
    STEP_WORDS_MAX = 5,
    KEY_BYTES_MAX = 64,
    ANSWER_BYTES_MAX = 16384, /* of a section of INFO */
    REPLY_BYTES_MAX = 65536,
    REPLY_VALUES_MAX = 2048, /* ROLE names every replica */
    DENIED_BYTES_MAX = 160,
    WHY_BYTES_MAX = 320,
    TRIES_MAX = 64 * SEAM_SLOTS_MAX,
};

/* Stand for keys of the check: of a string, as counters are, and of a set, as agents are. */
static const char key_word[] = "key";
static const char set_key_word[] = "set";

/* All that the agent and its scripts say to a node that has keys (agent/README.md). Whatever
 * of it is allowed, no key stays for longer than a second. */
static const char *const steps[][STEP_WORDS_MAX] = {
    {"time"},
    {"set", key_word, "", "px", "1000"},
    {"mget", key_word},
    {"pttl", key_word},
    {"zadd", set_key_word, "0", "check"},
    {"pexpire", set_key_word, "1000"},
    {"zcard", set_key_word},
    {"zrem", set_key_word, "check"},
    {"zremrangebyscore", set_key_word, "0", "0"},
    {"del", key_word, set_key_word},
};

struct answer {
    enum seam_type type;
    enum seam_error error;
    size_t len;
    char text[ANSWER_BYTES_MAX]; /* of an array: its first value */
};

struct asker {
    const struct redis_options *options;
    const char *prefix;
    struct rules_diags *diags;
    struct scout *scout;
    struct ev_loop *loop;
    struct ev_timer waking;
    struct link_options link_options;
    struct link *link;
    struct instant end; /* of all */
    /* the node that is asked */
    unsigned node_idx;
    struct check_redis_node *node;
    struct instant node_end;
    char key[KEY_BYTES_MAX];
    char set_key[KEY_BYTES_MAX];
    unsigned n_downs;
    char why[WHY_BYTES_MAX]; /* it went down */
    struct seam_request request;
    bool is_over;
    bool is_answered;
    struct answer answer;
    bool is_key_denied;
    char denied[DENIED_BYTES_MAX]; /* as ACL SETUSER takes it: " +zadd +zcard" */
};

#define TELL(a, severity, code, ...)                                          \
    rules_diags_add((a)->diags, severity, (struct rules_mark){0}, NULL, code, \
                    __VA_ARGS__)

/* ---- asking ---- */

static void on_waking(struct ev_loop *loop, struct ev_timer *waking, int events)
{
    (void)loop; /* what runs it goes on */
    (void)waking;
    (void)events;
}

static void on_up(struct link *l, void *data)
{
    (void)l;
    (void)data;
}

static void on_down(struct link *l, const char *why, void *data)
{
    struct asker *a = data;
    (void)l;
    a->n_downs++;
    (void)snprintf(a->why, sizeof(a->why), "%s", why);
}

static void on_reply(struct seam_request *request, const struct seam_reply *reply)
{
    struct asker *a = CONTAINER_OF(request, struct asker, request);
    a->is_over = true;
    a->is_answered = reply != NULL;
    if (reply == NULL) {
        return;
    }
    bool is_array = reply->values[0].type == SEAM_ARRAY && reply->n_values > 1;
    const struct seam_value *value = &reply->values[is_array ? 1 : 0];
    bool has_text = value->type == SEAM_STRING || value->type == SEAM_STATUS
                    || value->type == SEAM_ERROR_TEXT;
    size_t len = has_text ? value->text_bytes : 0;
    a->answer.type = reply->values[0].type;
    a->answer.error = reply_error(reply);
    a->answer.len = len < ANSWER_BYTES_MAX ? len : ANSWER_BYTES_MAX - 1;
    memcpy(a->answer.text, has_text ? value->text : "", a->answer.len);
    a->answer.text[a->answer.len] = '\0';
}

static bool is_late(const struct asker *a)
{
    return instant_diff_us(a->node_end, clock_now()) <= 0;
}

/* Let the loop turn once, until the node's time is over at most. */
static void turn(struct asker *a)
{
    int64_t left_us = instant_diff_us(a->node_end, clock_now());
    ev_now_update(a->loop);
    ev_timer_set(&a->waking, (double)(left_us > 0 ? left_us : 0) / (double)US_PER_S,
                 0.);
    ev_timer_start(a->loop, &a->waking);
    (void)ev_run(a->loop, EVRUN_ONCE);
    ev_timer_stop(a->loop, &a->waking);
}

/* @return whether there is an answer, of whatever kind */
static bool ask(struct asker *a, struct resp *resp)
{
    struct instant began = clock_now();
    a->is_over = false;
    a->is_answered = false;
    a->request = (struct seam_request){.done = on_reply};
    if (!link_send(a->link, resp, &a->request)) {
        return false;
    }
    while (!a->is_over && !is_late(a)) {
        turn(a);
    }
    a->node->round_trip_us = instant_diff_us(clock_now(), began);
    return a->is_answered;
}

static bool ask_words(struct asker *a, const char *const *words)
{
    struct resp resp = link_commands(a->link);
    size_t n = 0;
    while (n < STEP_WORDS_MAX && words[n] != NULL) {
        n++;
    }
    resp_command(&resp, n);
    for (size_t i = 0; i < n; i++) {
        resp_text(&resp, words[i] == key_word       ? a->key
                         : words[i] == set_key_word ? a->set_key
                                                    : words[i]);
    }
    return ask(a, &resp);
}

/* ---- what is wrong ---- */

/* Whether it is about who we are, and what we may. */
static bool is_of_rights(const char *why)
{
    return strstr(why, "NOPERM") != NULL || strstr(why, "NOAUTH") != NULL
           || strstr(why, "WRONGPASS") != NULL
           || strstr(why, "invalid password") != NULL
           || strstr(why, "without any password") != NULL;
}

/* Redis 6: "... to access one of the keys", 7: "... to access a key". */
static bool is_of_keys(const char *why)
{
    return strstr(why, "to access") != NULL && strstr(why, "key") != NULL;
}

/* Where it is of another kind than agent.yaml says: what to do about that; else NULL. */
static const char *mend_of_mode(const char *why)
{
    bool is_unknown = strstr(why, "unknown command") != NULL;
    if (strstr(why, "cluster support disabled") != NULL) {
        return "it is no cluster: leave `cluster` out";
    }
    if (is_unknown && strstr(why, "SENTINEL") != NULL) {
        return "it is no Sentinel: leave `sentinel` out";
    }
    if (is_unknown && strstr(why, "CLUSTER") != NULL) {
        return "it is no cluster: leave `cluster` out; if it is a Sentinel, say "
               "`sentinel`";
    }
    if (is_unknown && strstr(why, "SCRIPT") != NULL) {
        return "it keeps no keys: if it is a Sentinel, say `sentinel`";
    }
    return NULL;
}

static void tell_down(struct asker *a, const char *name, const char *why)
{
    const char *separator = name[0] != '\0' ? ": " : "";
    const char *mend = mend_of_mode(why);
    if (is_of_rights(why)) {
        TELL(a, RULES_ERROR, check_code_redis_denied,
             "%.60s%s%.120s: see user and password_file of redis, and the ACL line in "
             "agent/README.md",
             name, separator, why);
    } else if (mend != NULL) {
        TELL(a, RULES_ERROR, check_code_redis_mode, "%.60s%s%.100s: %s", name,
             separator, why, mend);
    } else {
        TELL(a, RULES_ERROR, check_code_redis_unreachable, "%.60s%s%.180s", name,
             separator, why);
    }
}

/* What a server says in place of an answer. */
static void tell_error(struct asker *a, const char *command)
{
    const char *name = a->node->name;
    switch ((int)a->answer.error) {
    case SEAM_ERROR_MOVED:
        TELL(
            a, RULES_ERROR, check_code_redis_mode,
            "%.60s is of a cluster, and agent.yaml's redis does not say `cluster: true`",
            name);
        break;
    case SEAM_ERROR_READ_ONLY:
        TELL(a, RULES_ERROR, check_code_redis_replica,
             "%.60s is a replica: counters can only be kept by the primary", name);
        break;
    default:
        TELL(a, RULES_ERROR, check_code_redis_refuses, "%.60s: %.20s: %.150s", name,
             command, a->answer.text);
        break;
    }
}

/* @return whether there is more to ask of the node */
static bool take_step(struct asker *a, bool is_answered, const char *command)
{
    if (!is_answered) {
        tell_down(a, a->node->name, a->n_downs > 0 ? a->why : "no answer");
        return false;
    }
    if (a->answer.error == SEAM_ERROR_DENIED && is_of_keys(a->answer.text)) {
        a->is_key_denied = true;
        return true;
    }
    if (a->answer.error == SEAM_ERROR_DENIED) {
        size_t len = strlen(a->denied);
        (void)snprintf(a->denied + len, sizeof(a->denied) - len, " +%s", command);
        return true;
    }
    if (a->answer.error != SEAM_ERROR_NONE) {
        tell_error(a, command);
        return false;
    }
    return true;
}

/* ---- who it is ---- */

/* Copy the value of a field of INFO. */
static void read_field(const struct asker *a, const char *name,
                       char value[CHECK_REDIS_WORD_BYTES_MAX])
{
    const char *at = strstr(a->answer.text, name);
    value[0] = '\0';
    if (at != NULL) {
        at += strlen(name);
        (void)snprintf(value, CHECK_REDIS_WORD_BYTES_MAX, "%.*s",
                       (int)strcspn(at, "\r\n"), at);
    }
}

static void take_server(struct asker *a)
{
    char mode[CHECK_REDIS_WORD_BYTES_MAX];
    bool is_cluster = a->options->mode == REDIS_CLUSTER;
    read_field(a, "\nredis_version:", a->node->version);
    read_field(a, "\nredis_mode:", mode);
    if (strtol(a->node->version, NULL, 10) < CHECK_REDIS_MAJOR_MIN) {
        TELL(a, RULES_ERROR, check_code_redis_old,
             "%.60s is version %.31s: want Redis %d or newer", a->node->name,
             a->node->version, CHECK_REDIS_MAJOR_MIN);
    }
    if (strcmp(mode, "cluster") == 0 && !is_cluster) {
        TELL(
            a, RULES_ERROR, check_code_redis_mode,
            "%.60s is of a cluster, and agent.yaml's redis does not say `cluster: true`",
            a->node->name);
    }
}

static void take_memory(struct asker *a)
{
    char bytes[CHECK_REDIS_WORD_BYTES_MAX];
    const char *policy = a->node->eviction;
    read_field(a, "\nmaxmemory_policy:", a->node->eviction);
    read_field(a, "\nmaxmemory:", bytes);
    a->node->memory_bytes = bytes[0] != '\0' ? strtoll(bytes, NULL, 10) : -1;
    if (policy[0] != '\0' && strcmp(policy, "noeviction") != 0
        && strcmp(policy, "volatile-ttl") != 0) {
        TELL(
            a, RULES_WARNING, check_code_redis_evicts,
            "%.60s: under pressure maxmemory-policy %.31s takes counters away that are "
            "in use, whose clients begin anew: CONFIG SET maxmemory-policy volatile-ttl",
            a->node->name, policy);
    }
}

/* @return whether the node is still there */
static bool ask_info(struct asker *a, const char *section,
                     void (*take)(struct asker *a))
{
    const char *const words[STEP_WORDS_MAX] = {"info", section};
    if (!ask_words(a, words)) {
        tell_down(a, a->node->name, a->n_downs > 0 ? a->why : "no answer");
        return false;
    }
    if (a->answer.type == SEAM_STRING) {
        take(a);
    }
    return true;
}

static bool ask_who(struct asker *a)
{
    bool is_there = ask_info(a, "server", take_server)
                    && ask_info(a, "memory", take_memory);
    if (is_there && a->node->version[0] == '\0') {
        TELL(a, RULES_WARNING, check_code_redis_unseen,
             "%.60s does not tell its version, nor how it evicts: allow the user +info "
             "to have that looked at",
             a->node->name);
    }
    return is_there;
}

/* @return whether it is one that keeps counters */
static bool ask_role(struct asker *a)
{
    static const char *const words[STEP_WORDS_MAX] = {"role"};
    bool is_answered = ask_words(a, words);
    if (!take_step(a, is_answered, words[0])) {
        return false;
    }
    if (a->answer.error != SEAM_ERROR_NONE) {
        return true; /* not allowed; told with the rest */
    }
    bool is_replica = strcmp(a->answer.text, "slave") == 0;
    (void)snprintf(a->node->role, sizeof(a->node->role), "%s",
                   is_replica ? "replica" : "primary");
    if (is_replica) {
        TELL(a, RULES_ERROR, check_code_redis_replica,
             "%.60s is a replica: counters can only be kept by the primary",
             a->node->name);
    }
    return !is_replica;
}

/* ---- what it does ---- */

/* Names in a slot of the node. @return false when it seems to have none */
static bool find_keys(struct asker *a)
{
    bool is_found = false;
    for (unsigned i = 0; !is_found && i < TRIES_MAX; i++) {
        int len = snprintf(a->key, sizeof(a->key), "%.32s:check:{%u}", a->prefix, i);
        unsigned slot = a->options->mode == REDIS_CLUSTER
                            ? slots_of_key(a->key, (size_t)len)
                            : 0;
        is_found = a->scout->draft.slots[slot] == a->node_idx;
    }
    (void)snprintf(a->set_key, sizeof(a->set_key), "%.50s:agents", a->key);
    return is_found;
}

/* As the agent does for a request, but that it is a peek. */
static void ask_script(struct asker *a)
{
    static const struct limit limit = {.algorithm = LIMIT_SLIDING_WINDOW,
                                       .requests = 1,
                                       .size = 1,
                                       .per_ticks = US_PER_S,
                                       .tick_us = 1};
    static struct store_take take; /* large */
    static uint8_t arg[SCRIPT_TAKE_BYTES_MAX];
    take.is_peek = true;
    take.n_charges = 1;
    take.charges[0] = (struct store_charge){.limit = &limit, .cost = 1};
    struct resp resp = link_commands(a->link);
    resp_command(&resp, 5);
    resp_text(&resp, "evalsha");
    resp_text(&resp, script_take.sha1);
    resp_number(&resp, 1);
    resp_text(&resp, a->key);
    resp_arg(&resp, arg, script_encode_take(&take, arg));
    (void)take_step(a, ask(a, &resp), "evalsha");
}

static void ask_steps(struct asker *a)
{
    static const char *const asking[STEP_WORDS_MAX] = {"asking"};
    bool is_there = true;
    for (size_t i = 0; is_there && i < ARRAY_LEN(steps); i++) {
        is_there = take_step(a, ask_words(a, steps[i]), steps[i][0]);
    }
    if (is_there && a->options->mode == REDIS_CLUSTER) {
        is_there = take_step(a, ask_words(a, asking), asking[0]);
    }
    /* A script that may not what it calls is refused for that, which is told already. */
    if (is_there && a->denied[0] == '\0' && !a->is_key_denied) {
        ask_script(a);
    }
}

static void tell_denied(struct asker *a)
{
    const char *user = a->options->user != NULL ? a->options->user : "default";
    if (a->denied[0] != '\0') {
        TELL(a, RULES_ERROR, check_code_redis_denied,
             "%.60s: the user lacks rights: ACL SETUSER %.60s%s", a->node->name, user,
             a->denied);
    }
    if (a->is_key_denied) {
        TELL(a, RULES_ERROR, check_code_redis_denied,
             "%.60s: the user may not use our keys: ACL SETUSER %.60s ~%.32s:*",
             a->node->name, user, a->prefix);
    }
}

static void ask_node(struct asker *a)
{
    if (ask_who(a) && ask_role(a)) {
        ask_steps(a);
    }
    tell_denied(a);
}

/* ---- all nodes ---- */

/* Each address is tried once. */
static bool reach(struct asker *a, const struct redis_node *node)
{
    a->n_downs = 0;
    link_use(a->link, node->endpoint.host, node->addresses, node->n_addresses);
    while (!link_is_ready(a->link) && a->n_downs < node->n_addresses && !is_late(a)) {
        turn(a);
    }
    return link_is_ready(a->link);
}

static void look_at_node(struct asker *a, unsigned idx, struct check_redis *found)
{
    const struct redis_node *node = &a->scout->draft.nodes[idx];
    struct instant now = clock_now();
    struct instant node_end = instant_add_us(now, CHECK_REDIS_NODE_US);
    a->node_idx = idx;
    a->node = &found->nodes[found->n_nodes];
    a->node_end = instant_diff_us(a->end, node_end) < 0 ? a->end : node_end;
    a->denied[0] = '\0';
    a->is_key_denied = false;
    endpoint_print(&node->endpoint, a->node->name);
    a->node->memory_bytes = -1;
    if (!find_keys(a)) {
        return; /* a node of a cluster without slots, which is not asked */
    }
    if (reach(a, node)) {
        found->n_nodes++;
        ask_node(a);
    } else {
        tell_down(a, a->node->name, a->n_downs > 0 ? a->why : "no answer");
    }
    link_use(a->link, "", NULL, 0);
}

static void look_at_nodes(struct asker *a, struct check_redis *found)
{
    const struct redis_map *map = &a->scout->draft;
    unsigned n_lost = 0;
    bool is_outside = strstr(a->scout->why, "node_networks") != NULL;
    for (unsigned i = 0; a->options->mode == REDIS_CLUSTER && i < SEAM_SLOTS_MAX; i++) {
        n_lost += map->slots[i] == SEAM_NO_NODE;
    }
    if (n_lost > 0) {
        TELL(a, RULES_ERROR, check_code_redis_unreachable,
             "%u slots of the cluster have no node that may be asked%s%.150s", n_lost,
             is_outside ? ": " : "", is_outside ? a->scout->why : "");
    }
    for (unsigned i = 0; i < map->n_nodes; i++) {
        if (map->nodes[i].is_used) {
            look_at_node(a, i, found);
        }
    }
}

static void on_end(struct ev_loop *loop, struct ev_timer *timer, int events)
{
    struct scout *scout = timer->data;
    (void)loop;
    (void)events;
    atomic_store(&scout->is_stopping, true);
}

static void resolving(struct scout *scout, bool begins)
{
    (void)scout; /* nobody waits for us meanwhile */
    (void)begins;
}

static void look(struct asker *a, struct check_redis *found)
{
    struct ev_timer end;
    ev_timer_init(&end, on_end, (double)CHECK_REDIS_US / (double)US_PER_S, 0.);
    end.data = a->scout;
    ev_now_update(a->scout->loop);
    ev_timer_start(a->scout->loop, &end);
    if (scout_look(a->scout, clock_now())) {
        look_at_nodes(a, found);
    } else {
        tell_down(a, "", a->scout->why);
    }
    ev_timer_stop(a->scout->loop, &end);
}

static bool asker_init(struct asker *a)
{
    a->link_options = (struct link_options){
        .user = a->options->user,
        .password = a->options->password,
        .client_name = "spoa-ratelimit-check",
        .database = a->options->database,
        .scripts = a->options->scripts,
        .n_scripts = a->options->n_scripts,
        .tls = a->options->tls,
        .server_name = a->options->server_name,
        .reply_limits = {.values_max = REPLY_VALUES_MAX, .bytes_max = REPLY_BYTES_MAX},
    };
    a->end = instant_add_us(clock_now(), CHECK_REDIS_US);
    a->loop = ev_loop_new(EVBACKEND_EPOLL | EVFLAG_NOENV | EVFLAG_NOSIGMASK);
    if (a->loop == NULL) {
        return false;
    }
    ev_timer_init(&a->waking, on_waking, 0., 0.);
    a->link = link_new(a->loop, &a->link_options,
                       (struct link_owner){on_up, on_down, a}, 0);
    return a->link != NULL;
}

static void asker_fini(struct asker *a)
{
    link_free(a->link);
    if (a->loop != NULL) {
        ev_loop_destroy(a->loop);
    }
}

bool check_redis_find(const struct redis_options *options, const char *prefix,
                      struct rules_diags *diags, struct check_redis *found)
{
    struct asker *a = calloc(1, sizeof(*a));
    struct scout *scout = calloc(1, sizeof(*scout));
    found->nodes = calloc(SEAM_NODES_MAX, sizeof(*found->nodes));
    bool is_ok = a != NULL && scout != NULL && found->nodes != NULL;
    if (is_ok) {
        a->options = options;
        a->prefix = prefix;
        a->diags = diags;
        a->scout = scout;
        scout->resolving = resolving;
        is_ok = asker_init(a) && scout_init(scout, options);
        if (is_ok) {
            look(a, found);
            scout_fini(scout);
        }
        asker_fini(a);
    }
    free(scout);
    free(a);
    return is_ok;
}

void check_redis_fini(struct check_redis *found)
{
    free(found->nodes);
}
