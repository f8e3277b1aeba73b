/* SPDX-License-Identifier: MIT
 *
 * test_fork_block.c: blocks that are made while the heap is frozen, and are not made when there is
 * no memory to note that they are to be entered. What defers is this file's own.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/large.h"
#include "alloc/fork_block.h"
#include "vm/deferred.h"
#include "vm/freeze.h"

static bool is_full;      /* there is no memory to note a call; else it is made at once */
static const void *asked; /* the first word of the last call */

bool defer(deferred_call *call, const uintptr_t words[DEFERRED_WORDS])
{
    asked = (const void *)words[0];
    if (!is_full)
        call(words);
    return !is_full;
}

bool defer_one(deferred_call *call, const void *word)
{
    return defer(call, (const uintptr_t[DEFERRED_WORDS]){(uintptr_t)word});
}

void deferred_run(void)
{
}

typedef void *alloc_frozen(size_t alignment, size_t size);

/* It is not made, and its mapping is gone. */
static void assert_not_made(alloc_frozen *alloc)
{
    is_full = true;
    void *block = alloc(BLOCK_ALIGNMENT, 5000);
    is_full = false;
    assert_null(block);
    assert_non_null(asked);
    assert_false(is_readable(asked));
    assert_null(granule_map_get((const char *)asked + GRANULE_BYTES));
}

static void count_visit(void *argument, const struct block_info *info)
{
    (void)info;
    ++*(uint64_t *)argument;
}

static void assert_entered(uint64_t expected)
{
    uint64_t blocks = 0, bytes = 0, listed = 0;
    fork_blocks_count(&blocks, &bytes);
    fork_blocks_each(count_visit, &listed);
    assert_int_equal(blocks, expected);
    assert_int_equal(bytes, expected * 8192);
    assert_int_equal(listed, expected);
}

/* By a thread that goes the frozen way, as in fork. */

static _Atomic pid_t allocating_thread;
static _Atomic bool was_seen_asleep, is_over, was_seen_in_time;

static void *allocate_until_seen(void *unused)
{
    enum { MOST = 20000 };
    allocating_thread = gettid();
    for (int i = 0; i < MOST && !was_seen_asleep; i++) {
        require(!operation_begin());
        void *block = fork_block_alloc(BLOCK_ALIGNMENT, 5000);
        frozen_end();
        require(block != NULL);
        fork_block_free(fork_block_at(block), block);
    }
    was_seen_in_time = was_seen_asleep;
    is_over = true;
    return unused;
}

static void test_who_maps_a_block_during_a_fork_sleeps_before(void **state)
{
    (void)state;
    pthread_t thread;
    freeze_begin();
    freeze_end();
    require(pthread_create(&thread, NULL, allocate_until_seen, NULL) == 0);
    while (!was_seen_asleep && !is_over)
        was_seen_asleep = allocating_thread && sleeps_in_futex(allocating_thread);
    pthread_join(thread, NULL);
    thaw_begin();
    thaw_end();
    assert_true(was_seen_in_time);
}

static void test_without_memory_for_its_entry_no_block_is_made(void **state)
{
    (void)state;
    void *first = fork_block_alloc(BLOCK_ALIGNMENT, 5000);
    assert_not_made(fork_block_alloc);
    void *last = fork_block_alloc(BLOCK_ALIGNMENT, 5000);
    assert_entered(2);
    fork_block_free(fork_block_at(first), first);
    fork_block_free(fork_block_at(last), last);
    assert_entered(0);
}

/* A collection would not find its slab, and follow it once only. */
static void test_without_memory_for_its_entry_no_slab_is_made(void **state)
{
    (void)state;
    struct allocator_statistics statistics;
    assert_true(blocks_init(25, NULL));
    void *listed = large_block_alloc_frozen(BLOCK_ALIGNMENT, 5000);
    assert_not_made(large_block_alloc_frozen);
    assert_true(blocks_is_valid());
    blocks_statistics(&statistics);
    assert_int_equal(statistics.large_blocks, 1);
    blocks_free(listed);
    assert_true(blocks_is_valid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_maps_a_block_during_a_fork_sleeps_before),
        cmocka_unit_test(test_without_memory_for_its_entry_no_block_is_made),
        cmocka_unit_test(test_without_memory_for_its_entry_no_slab_is_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
