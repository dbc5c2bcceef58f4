/**
 * @file tests/support/fake_agent.h  An agent with the manners that a test wants, on a
 *       thread of its own and a UNIX socket of its own.
 */
#ifndef TESTS_SUPPORT_FAKE_AGENT_H
#define TESTS_SUPPORT_FAKE_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum fake_manners {
    FAKE_GOOD = 0,
    FAKE_WITHOUT_VERDICT, /* ACKs that say nothing */
    FAKE_DENYING,         /* every third, by `action` alone */
    FAKE_NO_SPOP,         /* an HTTP response to whatever comes */
    FAKE_OLD,             /* its HELLO has version 1.0 */
    FAKE_SMALL,           /* agrees to 256 bytes and takes no fragments */
    FAKE_NOT_PIPELINING,  /* and ends the process when it is not heeded */
    FAKE_SILENT,          /* takes connections and says nothing */
    FAKE_TWICE,           /* the tenth ACK of a connection comes twice */
    FAKE_BAD_ACTIONS,     /* the tenth ACK cannot be read */
    FAKE_CLOSING,         /* closes at the tenth NOTIFY */
    FAKE_DISCONNECTING,   /* says DISCONNECT 13 at the tenth NOTIFY */
    FAKE_DROPPING,        /* the tenth NOTIFY is never answered */
};

struct fake_agent {
    enum fake_manners manners;
    char dir[32];
    char path[64];
    int listening_fd;
    _Atomic bool is_stopping;
    _Atomic unsigned n_notifies; /* received */
    pthread_t thread;
};

bool fake_agent_start(struct fake_agent *agent, enum fake_manners manners);
void fake_agent_stop(struct fake_agent *agent);

#endif
