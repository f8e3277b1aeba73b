/* SPDX-License-Identifier: MIT
 *
 * test_checked.c: malloc and its kin of `blocks:checked` where the kernel gives no more memory, and
 * where two threads do the same at once.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "alloc/blocks/lookup.h"
#include "alloc/checked/trailer.h"
#include "tests/unit/checked_unit.h"
#include "tests/unit/single_step.h"

enum { BYTES = 1000, LARGE = 40001, MOST_BLOCKS = 100000 };

static char *take(size_t size)
{
    char *block = blocks_checked.alloc(size);
    return block ? memset(block, 'A', size) : NULL;
}

/* Returns the last block that was to be had. */
static char *use_up_all_memory(void)
{
    char *last = NULL;
    blocks_heap.runs.area.held = true;
    for (size_t i = 0; i < MOST_BLOCKS; i++) {
        char *block = take(BYTES);
        if (!block)
            return last;
        last = block;
    }
    _exit(98);
}

static void expect_shrunk(char *block, size_t size)
{
    char *shrunk = blocks_checked.resize(block, size);
    require(shrunk == block);
    require(blocks_checked.usable_size(block) == size);
    for (size_t i = 0; i < size; i++)
        require(block[i] == 'A');
    blocks_checked.operators->free_sized(block, size);
}

static void shrink(void *unused)
{
    (void)unused;
    char *large = take(LARGE);
    char *block = use_up_all_memory();
    require(!blocks_checked.resize(block, 2 * LARGE));
    expect_shrunk(large, 100);
    require(take(BYTES)); /* as the large block's memory serves others */
    block = use_up_all_memory();
    expect_shrunk(block, 10);
    blocks_checked.at_exit();
}

static void test_a_block_shrinks_where_there_is_no_memory_to_move_it(void **state)
{
    (void)state;
    const struct ending ending = run_child(shrink, NULL);
    assert_succeeded(&ending);
    assert_string_equal(ending.errors, "");
}

static void take_from_what_waits(void *unused)
{
    (void)unused;
    char *first = take(LARGE), *second = take(LARGE);
    use_up_all_memory();
    blocks_checked.free(first);
    require(take(10));
    use_up_all_memory();
    blocks_checked.free(second);
    require(blocks_checked.alloc_aligned(64, 100));
}

static void test_freed_large_blocks_wait_no_longer_where_there_is_no_memory(void **state)
{
    (void)state;
    assert_child_succeeds(take_from_what_waits, NULL);
}

static char *shared;
static bool was_freed_again;

static void *make_shared(void *unused)
{
    shared = take(BYTES);
    return unused;
}

/* As another thread that frees the block when this one has just begun to. */
static void free_again(int number)
{
    (void)number;
    size_t slot_bytes = slab_at(shared)->block_bytes;
    if (was_freed_again ||
        !trailer_is_dead(trailer_decode(shared, trailer_load(shared, slot_bytes))))
        return;
    was_freed_again = true;
    blocks_checked.free(shared);
}

static void free_from_two_threads(void *unused)
{
    const struct sigaction action = {.sa_handler = free_again};
    pthread_t thread;
    (void)unused;
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    require(pthread_create(&thread, NULL, make_shared, NULL) == 0);
    pthread_join(thread, NULL);
    step(true);
    blocks_checked.free(shared);
    step(false);
}

static void test_a_block_that_two_threads_free_at_once_is_freed_twice(void **state)
{
    (void)state;
    const struct ending ending = run_child(free_from_two_threads, NULL);
    assert_int_equal(ending.signal, SIGABRT);
    if (!strstr(ending.errors, "freed twice: block of 1000 bytes"))
        fail_msg("%s", ending.errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_shrinks_where_there_is_no_memory_to_move_it),
        cmocka_unit_test(test_a_block_that_two_threads_free_at_once_is_freed_twice),
        cmocka_unit_test(test_freed_large_blocks_wait_no_longer_where_there_is_no_memory),
    };
    return cmocka_run_group_tests_name("checked", tests, start_checked, NULL);
}
