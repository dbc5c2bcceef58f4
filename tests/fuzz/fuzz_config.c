/*
 * An agent.yaml.
 *
 * Laws:      config_read says true and leaves values in their ranges, or says false and
 *            prints why.
 * Must reach: every field of the table in config.c, each with a good and a bad value of
 *            every kind of node.
 */
#include <unistd.h>

#include <sys/mman.h>

#include "agent/config.h"

#include "tests/fuzz/fuzz.h"

static void check_config(const struct config *config)
{
    FUZZ_CHECK(config->n_listen <= SERVER_LISTENERS_MAX);
    FUZZ_CHECK(config->n_runtimes <= CONFIG_RUNTIMES_MAX);
    FUZZ_CHECK(config->n_workers >= 1 && config->n_workers <= SERVER_WORKERS_MAX);
    FUZZ_CHECK(config->memory_bytes >= 1 << 20);
    FUZZ_CHECK(config->retry_jitter_permille >= 0
               && config->retry_jitter_permille <= 1000);
    FUZZ_CHECK(config_variables(config) < VARIABLE_BIT(VARIABLES_N));
    FUZZ_CHECK(memchr(config->rules_path, '\0', sizeof(config->rules_path)) != NULL);
    for (unsigned i = 0; i < config->n_runtimes; i++) {
        FUZZ_CHECK(config->runtimes[i].unix_mode <= 0777);
    }
}

/* A file that is memory: config_read takes a path. */
static int make_file(char *path, size_t cap, const uint8_t *data, size_t len)
{
    int fd = memfd_create("agent.yaml", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, len) == (ssize_t)len);
    (void)snprintf(path, cap, "/proc/self/fd/%d", fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static struct config config;
    char path[64];
    char *printed = NULL;
    size_t printed_len = 0;
    FILE *errors = open_memstream(&printed, &printed_len);
    FUZZ_CHECK(errors != NULL);
    int fd = make_file(path, sizeof(path), data, len);
    config_init(&config);
    bool ok = config_read(&config, path, errors);
    FUZZ_CHECK(fclose(errors) == 0);
    FUZZ_CHECK(ok == (printed_len == 0));
    if (ok) {
        check_config(&config);
    }
    free(printed);
    (void)close(fd);
    return 0;
}
