/*
 * Replays inputs through a fuzz target where there is no libFuzzer: every argument is a
 * file or a folder of files.
 */
#include <dirent.h>

#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"

enum {
    INPUT_BYTES_MAX = 1 << 20,
    PATH_BYTES_MAX = 4096,
};

static bool run_file(const char *path)
{
    static uint8_t input[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        perror(path);
        return false;
    }
    size_t len = fread(input, 1, sizeof(input), file);
    bool ok = ferror(file) == 0 && feof(file) != 0;
    (void)fclose(file);
    if (!ok) {
        (void)fprintf(stderr, "%s: cannot be read, or is too large\n", path);
        return false;
    }
    uint8_t *copy = fuzz_copy(input, len);
    (void)LLVMFuzzerTestOneInput(copy, len);
    free(copy);
    return true;
}

/* Returns how many inputs were run; 0 when one could not be. */
static unsigned run_folder(const char *path)
{
    unsigned n_run = 0;
    bool ok = true;
    DIR *folder = opendir(path);
    if (folder == NULL) {
        return run_file(path) ? 1 : 0;
    }
    const struct dirent *entry = readdir(folder); /* NOLINT(concurrency-mt-unsafe) */
    for (; ok && entry != NULL; entry = readdir(folder)) { /* NOLINT */
        char name[PATH_BYTES_MAX];
        struct stat st;
        int n = snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        ok = n > 0 && (size_t)n < sizeof(name) && stat(name, &st) == 0;
        if (ok && S_ISREG(st.st_mode)) {
            ok = run_file(name);
            n_run++;
        }
    }
    (void)closedir(folder);
    return ok ? n_run : 0;
}

int main(int argc, char **argv)
{
    unsigned n_run = 0;
    for (int i = 1; i < argc; i++) {
        unsigned n = run_folder(argv[i]);
        if (n == 0) {
            (void)fprintf(stderr, "%s: no inputs\n", argv[i]);
            return EXIT_FAILURE;
        }
        n_run += n;
    }
    (void)printf("%u inputs\n", n_run);
    return n_run > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
