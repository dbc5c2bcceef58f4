#define _DEFAULT_SOURCE /* fork */ /* NOLINT(readability-identifier-naming) */

#include "tests/support/death.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/types.h>
#include <sys/wait.h>

bool death_by_abort(void (*run)(void *arg), void *arg)
{
    pid_t child = fork();
    if (child < 0) {
        abort();
    }
    if (child == 0) {
        /* The assertion's own message would look like a failure of the test. */
        if (!freopen("/dev/null", "w", stderr)) {
            _exit(2);
        }
        (void)signal(SIGABRT, SIG_DFL);
        run(arg);
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        abort();
    }
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
