/* reassembly.c: buffers, one thread and several. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/net/reassembly.h"

#include "tests/support/death.h"

enum {
    THREADS = 4,
    TURNS = 20000,
    HELD = 20, /* by a thread: together more than there are */
};

static struct reassembly *r;

static int set_up(void **context)
{
    (void)context;
    r = reassembly_new();
    return r == NULL;
}

static int tear_down(void **context)
{
    (void)context;
    reassembly_free(r);
    return 0;
}

static void each_buffer_is_taken_once(void **context)
{
    (void)context;
    uint8_t *taken[REASSEMBLY_BUFFERS_MAX];
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        taken[i] = reassembly_take(r);
        assert_non_null(taken[i]);
        memset(taken[i], (int)i, SPOP_REASSEMBLY_BYTES_MAX);
    }
    assert_null(reassembly_take(r));
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) { /* none overlaps another */
        assert_int_equal(taken[i][0], i);
        assert_int_equal(taken[i][SPOP_REASSEMBLY_BYTES_MAX - 1], i);
    }
    reassembly_give(r, taken[40]);
    assert_ptr_equal(reassembly_take(r), taken[40]);
    assert_null(reassembly_take(r));
    for (unsigned i = 0; i < REASSEMBLY_BUFFERS_MAX; i++) {
        reassembly_give(r, taken[i]);
    }
}

static void the_lowest_free_one_is_taken(void **context)
{
    (void)context;
    uint8_t *first = reassembly_take(r);
    uint8_t *second = reassembly_take(r);
    reassembly_give(r, first);
    assert_ptr_equal(reassembly_take(r), first);
    reassembly_give(r, second);
    reassembly_give(r, first);
    assert_ptr_equal(reassembly_take(r), first);
    reassembly_give(r, first);
}

struct taker {
    pthread_t thread;
    uint8_t mark;
    unsigned n_wrong;
    uint8_t *held[HELD];
};

/* Take as many as there are for one, and mark them. */
static void take_all(struct taker *t)
{
    for (int i = 0; i < HELD; i++) {
        t->held[i] = reassembly_take(r);
        if (t->held[i] != NULL) {
            t->held[i][0] = t->mark;
        }
    }
}

/* Find the marks, and give all back. */
static void give_all(struct taker *t)
{
    for (int i = 0; i < HELD; i++) {
        if (t->held[i] != NULL) {
            t->n_wrong += t->held[i][0] != t->mark;
            reassembly_give(r, t->held[i]);
        }
    }
}

static void *take_and_give(void *arg)
{
    for (int turn = 0; turn < TURNS; turn++) {
        take_all(arg);
        give_all(arg);
    }
    return NULL;
}

static void no_two_threads_have_the_same(void **context)
{
    (void)context;
    static struct taker takers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        takers[i].mark = (uint8_t)i;
        assert_int_equal(pthread_create(&takers[i].thread, NULL, take_and_give,
                                        &takers[i]),
                         0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(takers[i].thread, NULL), 0);
        assert_int_equal(takers[i].n_wrong, 0);
    }
}

static void give_twice(void *arg)
{
    reassembly_give(r, arg);
    reassembly_give(r, arg);
}

static void give_another(void *arg)
{
    reassembly_give(r, (uint8_t *)arg + 1);
}

static void free_one_in_use(void *arg)
{
    (void)arg;
    reassembly_free(r);
}

static void our_own_mistakes_abort(void **context)
{
    (void)context;
    uint8_t *taken = reassembly_take(r);
    assert_true(death_by_abort(give_twice, taken));
    assert_true(death_by_abort(give_another, taken));
    assert_true(death_by_abort(free_one_in_use, NULL));
    reassembly_give(r, taken);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_buffer_is_taken_once),
        TEST(the_lowest_free_one_is_taken),
        TEST(no_two_threads_have_the_same),
        TEST(our_own_mistakes_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
