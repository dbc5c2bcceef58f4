#include "agent/bench/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/clock.h"

bool process_read(long pid, struct process_usage *usage)
{
    char path[64];
    char text[1024];
    uint64_t user_ticks = 0;
    uint64_t system_ticks = 0;
    int64_t rss_pages = 0;
    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    const char *line = fgets(text, sizeof(text), file);
    (void)fclose(file);
    const char *rest = line != NULL ? strrchr(line, ')') : NULL; /* names hold blanks */
    if (rest == NULL
        /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
        || sscanf(rest,
                  ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                  " %*d %*d %*d %*d %*d %*d %*u %*u %" SCNd64,
                  &user_ticks, &system_ticks, &rss_pages)
               != 3) {
        return false;
    }
    usage->cpu_us = (int64_t)(user_ticks + system_ticks) * US_PER_S
                    / sysconf(_SC_CLK_TCK);
    usage->rss_bytes = rss_pages * sysconf(_SC_PAGESIZE);
    return true;
}
