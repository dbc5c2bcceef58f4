/* The normal form of a path is idempotent and what a slow, obvious model says. */

#include "rules/path.h"

#include "tests/support/prng.h"
#include "tests/unit/rules/support.h"

enum {
    CASES = 500000,
    PATH_BYTES = 48
};

static bool is_hex(char c)
{
    return c != '\0' && strchr("0123456789abcdefABCDEF", c) != NULL;
}

static int hex(char c)
{
    static const char digits[] = "0123456789abcdef";

    return (int)(strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) - digits);
}

static bool is_unreserved(int c)
{
    return c != 0
           && strchr(
                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~",
                  c)
                  != NULL;
}

static bool unescape(const char *path, char *out)
{
    for (; *path != '\0'; path++) {
        if (*path != '%') {
            *out++ = *path;
            continue;
        }
        if (!is_hex(path[1]) || !is_hex(path[2])) {
            return false;
        }

        int byte = hex(path[1]) * 16 + hex(path[2]);

        out += is_unreserved(byte) ? sprintf(out, "%c", byte)
                                   : sprintf(out, "%%%02X", (unsigned)byte);
        path += 2;
    }
    *out = '\0';
    return true;
}

/** Cut, unescape, split, fold, join: one thing at a time. */
static bool model(const char *path, char *out)
{
    char cut[PATH_BYTES + 1] = "";
    char plain[PATH_BYTES + 1] = "";
    char *segs[PATH_BYTES];
    size_t n = 0;

    if (path[0] != '/') {
        return false;
    }
    memcpy(cut, path, strcspn(path, "?#"));
    if (!unescape(cut, plain)) {
        return false;
    }
    for (char *p = plain; *p != '\0';) {
        char *seg = p + 1;

        p = seg + strcspn(seg, "/");
        segs[n] = seg;
        n += p > seg;
    }
    for (size_t i = 0; i < n; i++) {
        segs[i][strcspn(segs[i], "/")] = '\0';
    }

    size_t n_kept = 0;

    for (size_t i = 0; i < n; i++) {
        if (strcmp(segs[i], "..") == 0) {
            n_kept -= n_kept > 0;
        } else if (strcmp(segs[i], ".") != 0) {
            segs[n_kept++] = segs[i];
        }
    }
    strcpy(out, n_kept == 0 ? "/" : "");
    for (size_t i = 0; i < n_kept; i++) {
        strcat(strcat(out, "/"), segs[i]);
    }
    return true;
}

static void path_make(struct prng *prng, char *path)
{
    static const char *const pieces[] = {"/",   "/",   "//",  ".",   "..",  "a",  "B",
                                         "%2e", "%2E", "%2f", "%61", "%zz", "%",  "?",
                                         "#",   "*",   "~",   "%00", "/.",  "/.."};
    size_t n = prng_below(prng, 12);

    strcpy(path, prng_below(prng, 10) > 0 ? "/" : "");
    for (size_t i = 0; i < n; i++) {
        strcat(path, pieces[prng_below(prng, sizeof pieces / sizeof pieces[0])]);
    }
}

static void test_model(void **state)
{
    struct prng prng;
    uint64_t seed = prng_seed(11);

    (void)state;
    prng_init(&prng, seed);
    for (int i = 0; i < CASES; i++) {
        char path[PATH_BYTES + 1];
        char want[PATH_BYTES + 1] = "";
        uint8_t once[RULES_PATH_BYTES_MAX];
        uint8_t twice[RULES_PATH_BYTES_MAX];
        size_t len = 0;
        size_t len_twice = 0;
        bool is_good;

        path_make(&prng, path);
        is_good = rules_path_normalise(bytes_of(path), once, &len);
        if (is_good != model(path, want)
            || (is_good && (len != strlen(want) || memcmp(once, want, len) != 0))) {
            fail_msg("SEED=%llu %s: %.*s, not %s", (unsigned long long)seed, path,
                     (int)len, (const char *)once, want);
        }
        if (rules_path_is_normal(bytes_of(path))
            && (!is_good || strcmp(path, want) != 0)) {
            fail_msg("SEED=%llu %s: is not normal", (unsigned long long)seed, path);
        }
        if (!is_good) {
            continue;
        }
        assert_true(len <= strlen(path));
        if (!rules_path_normalise((struct rules_bytes){once, len}, twice, &len_twice)
            || len_twice != len || memcmp(once, twice, len) != 0) {
            fail_msg("SEED=%llu %s: not idempotent", (unsigned long long)seed, path);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
