/* SPDX-License-Identifier: MIT
 *
 * test_checked.c: malloc and its kin of `blocks:checked` where the kernel gives no more memory.
 */
#include <string.h>

#include "alloc/blocks/heap.h"
#include "alloc/checked/checked.h"
#include "tests/unit/unit.h"

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

static int start(void **state)
{
    static uint64_t options[OPTIONS_BYTES / sizeof(uint64_t)];
    (void)state;
    options_set_initial(blocks_checked.options, options);
    return blocks_checked.init(options) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_shrinks_where_there_is_no_memory_to_move_it),
        cmocka_unit_test(test_freed_large_blocks_wait_no_longer_where_there_is_no_memory),
    };
    return cmocka_run_group_tests_name("checked", tests, start, NULL);
}
