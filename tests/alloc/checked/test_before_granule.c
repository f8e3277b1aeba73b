/* SPDX-License-Identifier: MIT
 *
 * test_before_granule.c: what lies before a block at a granule's start, in another slab.
 */
#include <pthread.h>

#include "alloc/checked/sweep.h"
#include "alloc/checked/trailer.h"
#include "tests/unit/unit.h"

/* Slots of 48 bytes leave a remainder at the end of their slab, slots of 64 leave none. */
enum { WITH_REMAINDER = 48, WITHOUT = 64 };

/* The first block of a slab, of which the slab before is the calling thread's, too. */
static char *first_of_second_slab(size_t bytes)
{
    const char *before = NULL;
    for (;;) {
        char *block = blocks_alloc(bytes);
        assert_non_null(block);
        if ((uintptr_t)block % GRANULE_BYTES != 0)
            continue;
        if (before && block == before + GRANULE_BYTES)
            return block;
        before = block;
    }
}

static void expect_a_write_is_seen(size_t bytes)
{
    char *block = first_of_second_slab(bytes);
    assert_true(is_whole_before_granule(block));
    for (ptrdiff_t i = 1; i <= TRAILER_BYTES; i += TRAILER_BYTES - 1) {
        block[-i] = 'A';
        assert_false(is_whole_before_granule(block));
        block[-i] = 0;
    }
    assert_true(is_whole_before_granule(block));
}

static void test_a_write_is_seen_in_a_remainder(void **state)
{
    (void)state;
    expect_a_write_is_seen(WITH_REMAINDER);
}

static void test_a_write_is_seen_in_a_slot(void **state)
{
    (void)state;
    expect_a_write_is_seen(WITHOUT);
}

static void *look(void *block)
{
    blocks_alloc(1); /* a heap of its own */
    return is_whole_before_granule(block) ? block : NULL;
}

/* Whatever is there. */
static void test_what_is_another_threads_is_not_looked_at(void **state)
{
    (void)state;
    pthread_t thread;
    void *seen_whole;
    char *block = first_of_second_slab(WITH_REMAINDER);
    block[-1] = 'A';
    assert_int_equal(pthread_create(&thread, NULL, look, block), 0);
    pthread_join(thread, &seen_whole);
    assert_ptr_equal(seen_whole, block);
    assert_false(is_whole_before_granule(block));
    block[-1] = 0;
}

static int start(void **state)
{
    (void)state;
    trailer_init();
    return blocks_init(25, NULL) && blocks_alloc(1) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_is_seen_in_a_remainder),
        cmocka_unit_test(test_a_write_is_seen_in_a_slot),
        cmocka_unit_test(test_what_is_another_threads_is_not_looked_at),
    };
    return cmocka_run_group_tests_name("before a granule", tests, start, NULL);
}
