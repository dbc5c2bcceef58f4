/* hold_thread TID: stops that thread, and no other of its process, for as long as it lives. */
#include <stdio.h>
#include <stdlib.h>

#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    pid_t tid = argc == 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
    if (tid <= 0) {
        (void)fputs("usage: hold_thread TID\n", stderr);
        return 2;
    }
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0
        || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) {
        perror("hold_thread");
        return 1;
    }
    /* The process is not gone before we have seen its thread go. */
    int status = 0;
    while (waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status)) {
    }
    return 0;
}
