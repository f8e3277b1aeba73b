/* SPDX-License-Identifier: MIT
 *
 * test_gc_classic_pins.c: gc:classic's pins while another thread forks: nobody waits, and what was
 * asked for counts afterwards. Without memory for a pin there are no collections any more.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "alloc/options.h"
#include "gc/classic/gc_classic.h"
#include "vm/fork_chain.h"

enum { BLOCKS = 60, BYTES = 112, MOST_STALE = BLOCKS / 5 };

static const struct allocator *const gc = &gc_classic;
static uintptr_t complements[BLOCKS]; /* of the blocks' addresses, which no collector sees */

static int start(void **state)
{
    (void)state;
    static uint64_t values[OPTIONS_BYTES / sizeof(uint64_t)];
    options_set_initial(gc->options, values);
    return gc->init(values) ? 0 : -1;
}

static void *block(int i)
{
    return (void *)~complements[i];
}

/* At the heap's start, which is handed out first. */
static __attribute__((noinline)) void make_blocks(void)
{
    gc->trim();
    for (int i = 0; i < BLOCKS; i++) {
        void *made = gc->alloc(BYTES);
        memset(made, 0x5A, BYTES);
        complements[i] = ~(uintptr_t)made;
    }
}

/* What the stack has of them is overwritten. */
static __attribute__((noinline)) void clean_stack(void)
{
    volatile char dirt[16384];
    for (size_t i = 0; i < sizeof dirt; i++)
        dirt[i] = 0;
}

static __attribute__((noinline)) int count_whole(void)
{
    int whole = 0;
    for (int i = 0; i < BLOCKS; i++)
        whole += *(unsigned char *)block(i) == 0x5A && ((char *)block(i))[BYTES - 1] == 0x5A;
    return whole;
}

/* Collections are given up when a thread gets no processor in time. */
static int count_whole_after_collections(void)
{
    for (int i = 0; i < 5; i++) {
        clean_stack();
        gc->trim();
    }
    for (int i = 0; i < 10 * BLOCKS; i++) /* what was reclaimed is handed out again */
        memset(gc->alloc(BYTES), 0xEE, BYTES);
    return count_whole();
}

static void *pin_all(void *unused)
{
    for (int i = 0; i < BLOCKS; i++)
        gc->pin(block(i));
    return unused;
}

static void *free_all(void *unused)
{
    for (int i = 0; i < BLOCKS; i++)
        gc->free(block(i));
    return unused;
}

static void in_thread(void *(*work)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void in_thread_during_fork(void *(*work)(void *))
{
    fork_chain_prepare();
    in_thread(work);
    fork_chain_parent();
}

static void test_what_nobody_pins_is_reclaimed(void **state)
{
    (void)state;
    make_blocks();
    assert_in_range(count_whole_after_collections(), 0, MOST_STALE);
}

static void test_a_pin_during_a_fork_waits_for_nobody_and_counts(void **state)
{
    (void)state;
    make_blocks();
    in_thread_during_fork(pin_all);
    assert_int_equal(count_whole_after_collections(), BLOCKS);
    in_thread(free_all);
    assert_in_range(count_whole_after_collections(), 0, MOST_STALE);
}

static void test_a_free_during_a_fork_ends_the_pin(void **state)
{
    (void)state;
    make_blocks();
    in_thread(pin_all);
    assert_int_equal(count_whole_after_collections(), BLOCKS);
    in_thread_during_fork(free_all);
    assert_in_range(count_whole_after_collections(), 0, MOST_STALE);
}

static void test_a_free_after_a_pin_during_the_same_fork_ends_it(void **state)
{
    (void)state;
    make_blocks();
    fork_chain_prepare();
    in_thread(pin_all);
    in_thread(free_all);
    fork_chain_parent();
    assert_in_range(count_whole_after_collections(), 0, MOST_STALE);
}

enum { MANY = 20000 }; /* more than the table of pins has room for */
static void *many[MANY];

static void make_many(void)
{
    for (int i = 0; i < MANY; i++)
        many[i] = gc->alloc(16);
}

static void pin_without_memory(void)
{
    struct rlimit before, none;
    require(getrlimit(RLIMIT_AS, &before) == 0);
    none = (struct rlimit){1, before.rlim_max};
    fork_chain_prepare();
    for (int i = 0; i < MANY; i++)
        gc->pin(many[i]);
    in_thread(pin_all);
    require(setrlimit(RLIMIT_AS, &none) == 0);
    fork_chain_parent();
    require(setrlimit(RLIMIT_AS, &before) == 0);
}

/* The last test: it stays so. */
static void test_without_memory_for_a_pin_nothing_is_reclaimed(void **state)
{
    (void)state;
    make_many();
    make_blocks();
    pin_without_memory();
    assert_int_equal(count_whole_after_collections(), BLOCKS);
}

int main(void)
{
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    alarm(600);    /* who waits for the thread that forks waits for ever */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_nobody_pins_is_reclaimed),
        cmocka_unit_test(test_a_pin_during_a_fork_waits_for_nobody_and_counts),
        cmocka_unit_test(test_a_free_during_a_fork_ends_the_pin),
        cmocka_unit_test(test_a_free_after_a_pin_during_the_same_fork_ends_it),
        cmocka_unit_test(test_without_memory_for_a_pin_nothing_is_reclaimed),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
