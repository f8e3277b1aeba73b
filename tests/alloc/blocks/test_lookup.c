/* SPDX-License-Identifier: MIT
 *
 * test_lookup.c: which addresses are blocks, and what is said of those that are none.
 */
#include "alloc/blocks/lookup.h"

#include "tests/unit/blocks_unit.h"
#include "tests/unit/said_lines.h"

enum { BYTES = 112, LARGE_BYTES = 300000 };

static bool has_reclaimed;
static struct {
    const void *block;
    size_t bytes;
    const char *function;
} used; /* the last suspect */

static bool tell_whether_reclaimed(void)
{
    return has_reclaimed;
}

static void note_use(const void *block, size_t bytes, const char *function)
{
    used.block = block;
    used.bytes = bytes;
    used.function = function;
}

static const struct blocks_collector collector = {.before_growth = grow,
                                                  .has_reclaimed = tell_whether_reclaimed,
                                                  .suspect_used = note_use,
                                                  .rows = SLAB_ROWS};

static int make_heap(void **state)
{
    (void)state;
    return blocks_init(25, &collector) ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    has_reclaimed = false;
    used.block = NULL;
    hear_lines();
    return 0;
}

static char *new_block(size_t bytes)
{
    char *block = blocks_alloc(bytes);
    assert_non_null(block);
    return block;
}

/* As a collection does that finds the block dead and leaves it. */
static void make_suspect(const char *block)
{
    struct slab *slab = slab_at(block);
    size_t index;
    assert_true(slab_find(slab, block, &index));
    blocks_lock();
    *slab_suspects(slab, index / SLAB_WORD_BLOCKS) |= slab_bit(index);
    if (!slab_is_large(slab))
        blocks_clear_live(slab, index / SLAB_WORD_BLOCKS, slab_bit(index), false);
    blocks_unlock();
}

static void test_a_live_block_has_its_size_at_its_start_alone(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, BYTES, 5000, LARGE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = new_block(sizes[i]);
        size_t usable = blocks_usable_size(block);
        assert_true(usable >= sizes[i]);
        assert_int_equal(usable, slab_at(block)->block_bytes);
        assert_int_equal(blocks_usable_size(block + 1), 0);
        assert_int_equal(blocks_usable_size(block + usable / 2), 0);
        blocks_free(block);
        assert_int_equal(blocks_usable_size(block), 0);
    }
    assert_int_equal(blocks_usable_size(state), 0); /* on the stack */
}

static void test_a_suspect_has_its_size_until_it_is_free(void **state)
{
    (void)state;
    static const size_t sizes[] = {BYTES, LARGE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = new_block(sizes[i]);
        size_t usable = blocks_usable_size(block);
        make_suspect(block);
        assert_int_equal(blocks_usable_size(block), usable);
        assert_int_equal(blocks_usable_size(block + 16), 0);
        blocks_free(block);
        assert_int_equal(blocks_usable_size(block), 0);
    }
}

static void test_the_memory_of_all_blocks_is_owned(void **state)
{
    (void)state;
    static const size_t sizes[] = {BYTES, LARGE_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = new_block(sizes[i]);
        assert_true(blocks_owns(block));
        assert_true(blocks_owns(block + sizes[i] - 1));
        assert_ptr_equal(blocks_slab_of(block + 1), slab_at(block));
        blocks_free(block);
    }
    assert_false(blocks_owns(state));
    assert_false(blocks_owns(NULL));
    assert_null(blocks_slab_of(state));
}

static void test_a_suspect_that_is_used_is_told_to_the_collector(void **state)
{
    (void)state;
    char *block = new_block(BYTES);
    make_suspect(block);
    expect_suspect("realloc", block);
    assert_ptr_equal(used.block, block);
    assert_int_equal(used.bytes, BYTES);
    assert_string_equal(used.function, "realloc");
    assert_int_equal(said.count, 0);
    blocks_free(block);
}

static void use(void *block)
{
    message_log = NULL;
    expect_suspect("realloc", block);
}

static void test_what_is_no_suspect_ends_the_process(void **state)
{
    (void)state;
    char *block = new_block(BYTES), *suspect = new_block(BYTES), *freed = new_block(BYTES);
    make_suspect(suspect);
    blocks_free(freed);
    assert_aborts(use, block, "): not a live block");
    assert_aborts(use, suspect + 16, "): not a live block");
    assert_aborts(use, freed, "): not a live block");
    blocks_free(block);
    blocks_free(suspect);
}

static void report_dead(void *block)
{
    message_log = NULL;
    report_not_live("free", block);
}

static void report_dead_after_collection(void *block)
{
    has_reclaimed = true;
    report_dead(block);
}

static void report_dead_without_collector(void *block)
{
    blocks_heap.collector = NULL;
    report_dead(block);
}

/* A collection may be the reason. So its remedy is named, but only then. */
static void test_what_is_not_live_may_have_been_reclaimed(void **state)
{
    (void)state;
    static const char by_handler[] =
        "or handed out twice because a signal handler called malloc)\n";
    assert_aborts(report_dead, state, by_handler);
    assert_aborts(report_dead_without_collector, state, by_handler);
    assert_aborts(report_dead_after_collection, state,
                  "the collector has reclaimed the block: leaks=keep keeps such blocks, `allotrope "
                  "verify-gc -- COMMAND` finds them)\n");
}

static void test_what_is_not_of_the_heap_is_reported_and_ignored(void **state)
{
    (void)state;
    const void *stranger = (const void *)(uintptr_t)0xabc0;
    assert_null(slab_of_block(stranger, "free"));
    assert_int_equal(said.count, 1);
    assert_string_equal(said.lines[0],
                        "allotrope: free(0xabc0): not a block of this heap; ignored\n");
    has_reclaimed = true;
    assert_null(slab_of_block(stranger, "free"));
    assert_int_equal(said.count, 2);
    assert_non_null(strstr(said.lines[1], "; ignored. If it was one, the program hides pointers "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_live_block_has_its_size_at_its_start_alone, start),
        cmocka_unit_test_setup(test_a_suspect_has_its_size_until_it_is_free, start),
        cmocka_unit_test_setup(test_the_memory_of_all_blocks_is_owned, start),
        cmocka_unit_test_setup(test_a_suspect_that_is_used_is_told_to_the_collector, start),
        cmocka_unit_test_setup(test_what_is_no_suspect_ends_the_process, start),
        cmocka_unit_test_setup(test_what_is_not_live_may_have_been_reclaimed, start),
        cmocka_unit_test_setup(test_what_is_not_of_the_heap_is_reported_and_ignored, start),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
