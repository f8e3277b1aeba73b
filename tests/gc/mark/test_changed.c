/* SPDX-License-Identifier: MIT
 *
 * test_changed.c: which blocks on written pages are followed again, and which of their words. Here
 * it is a cycle, in which these are the blocks with a mark.
 */
#include "tests/unit/blocks_unit.h"

#include <string.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/mark.h"
#include "gc/mark/marker.h"
#include "vm/own_memory.h"
#include "vm/pages.h"

enum { STACK_BYTES = 1 << 20, SMALL_BYTES = 64, MANY = 3 * SLAB_WORD_BLOCKS };

static int make_heap(void **state)
{
    (void)state;
    own_memory_forked(); /* else mark_prepare takes us for a child, which has no helpers */
    return blocks_init(25, NULL) && mark_init(1, STACK_BYTES) ? 0 : -1;
}

static char *new_block(size_t bytes)
{
    char *block = blocks_alloc(bytes);
    assert_non_null(block);
    return memset(block, 0, blocks_usable_size(block)); /* whatever was there before */
}

static void put_pointer(char *block, size_t offset, const char *to)
{
    memcpy(block + offset, &to, sizeof to);
}

static uint64_t *mark_of(const char *block, uint64_t *bit)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    *bit = slab_bit(index);
    return &slab->words[index / SLAB_WORD_BLOCKS].mark;
}

static bool is_marked(const char *block)
{
    uint64_t bit;
    return (*mark_of(block, &bit) & bit) != 0;
}

/* It was followed before. */
static void set_mark(const char *block)
{
    uint64_t bit, *mark_bits = mark_of(block, &bit);
    *mark_bits |= bit;
}

/* What a collection does before and after; nothing else runs. */
static void begin_marking(void)
{
    mark_prepare();
    blocks_lock();
    blocks_set_local_free_bits(true);
    mark_begin();
}

static void end_marking(void)
{
    struct mark_result unused;
    mark_changed_done();
    mark_finish(0, &unused);
    blocks_set_local_free_bits(false);
    blocks_unlock();
}

static uintptr_t page_of(const char *address)
{
    return round_down((uintptr_t)address, PAGE_BYTES);
}

/* Follows what lies on so many pages again, from that of the address on. The block has a mark, but
 * for NULL. Returns how many bytes were read. */
static uint64_t follow(const char *block, const char *address, size_t pages)
{
    begin_marking();
    if (block)
        set_mark(block);
    uintptr_t page = page_of(address);
    uint64_t bytes = mark_changed(page, page + pages * PAGE_BYTES);
    end_marking();
    return bytes;
}

static void test_a_block_with_a_mark_is_followed_whatever_its_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {SMALL_BYTES, 240, 5000, 30000, 300000};
    char *to = new_block(SMALL_BYTES);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *from = new_block(sizes[i]);
        for (size_t offset = 0; offset <= sizes[i] - 8; offset += sizes[i] > 400 ? 412 : 4) {
            put_pointer(from, offset, to);
            follow(from, from + offset, 1);
            assert_true(is_marked(to));
            put_pointer(from, offset, NULL);
        }
        blocks_free(from);
    }
    blocks_free(to);
}

static void test_a_block_without_a_mark_is_not_followed(void **state)
{
    (void)state;
    char *from = new_block(SMALL_BYTES), *to = new_block(SMALL_BYTES);
    put_pointer(from, 0, to);
    assert_int_equal(follow(NULL, from, 1), 0);
    assert_false(is_marked(from));
    assert_false(is_marked(to));
    blocks_free(from);
    blocks_free(to);
}

static void test_a_retired_block_is_not_followed(void **state)
{
    (void)state;
    char *from = new_block(SMALL_BYTES), *to = new_block(SMALL_BYTES);
    put_pointer(from, 0, to);
    blocks_retire(from, "free");
    assert_int_equal(follow(from, from, 1), 0);
    assert_false(is_marked(to));
    blocks_unretire(from);
    blocks_free(from);
    blocks_free(to);
}

/* Its mark is set, and means nothing. */
static void test_a_block_that_is_not_live_is_not_followed(void **state)
{
    (void)state;
    char *from = new_block(SMALL_BYTES), *to = new_block(SMALL_BYTES);
    put_pointer(from, 16, to);
    blocks_free(from);
    assert_int_equal(follow(from, from, 1), 0);
    assert_false(is_marked(to));
    blocks_free(to);
}

static void test_only_what_lies_on_the_pages_is_read(void **state)
{
    (void)state;
    char *from = new_block(5 * PAGE_BYTES), *to = new_block(SMALL_BYTES);
    char *page = (char *)page_of(from + PAGE_BYTES - 1); /* the first that is all the block's */
    const size_t offset = (size_t)(page - from) + 2 * PAGE_BYTES + 100;
    put_pointer(from, offset, to);
    for (size_t i = 0; i < 4; i++) {
        follow(from, page + i * PAGE_BYTES, 1);
        assert_int_equal(is_marked(to), i == 2);
    }
    follow(from, page, 2);
    assert_false(is_marked(to));
    follow(from, page, 3);
    assert_true(is_marked(to));
    blocks_free(from);
    blocks_free(to);
}

/* [edges overlap] */
static void test_a_word_across_an_edge_is_read_whichever_page_was_written(void **state)
{
    (void)state;
    char *from = new_block(5 * PAGE_BYTES), *to = new_block(SMALL_BYTES);
    char *edge = (char *)page_of(from + PAGE_BYTES - 1) + PAGE_BYTES;
    put_pointer(edge - 4, 0, to);
    follow(from, edge - 1, 1);
    assert_true(is_marked(to));
    follow(from, edge, 1);
    assert_true(is_marked(to));
    follow(from, edge + PAGE_BYTES, 1);
    assert_false(is_marked(to));
    blocks_free(from);
    blocks_free(to);
}

/* Blocks side by side are read in one go, from one word of bits to the next. */
static void test_of_many_blocks_those_with_a_mark_are_followed(void **state)
{
    (void)state;
    static char *from[MANY], *to[MANY];
    const char *lowest = NULL, *highest = NULL;
    for (size_t i = 0; i < MANY; i++) {
        from[i] = new_block(SMALL_BYTES);
        lowest = !lowest || from[i] < lowest ? from[i] : lowest;
        highest = from[i] > highest ? from[i] : highest;
    }
    for (size_t i = 0; i < MANY; i++) {
        to[i] = new_block(1000);
        put_pointer(from[i], 24, to[i]);
    }
    for (size_t gap = 2; gap < 70; gap += 5) {
        begin_marking();
        for (size_t i = 0; i < MANY; i++)
            if (i % gap > 0)
                set_mark(from[i]);
        mark_changed(page_of(lowest), page_of(highest) + PAGE_BYTES);
        end_marking();
        for (size_t i = 0; i < MANY; i++)
            assert_int_equal(is_marked(to[i]), i % gap > 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        blocks_free(from[i]);
        blocks_free(to[i]);
    }
}

static void test_the_bytes_that_are_read_are_told(void **state)
{
    (void)state;
    char *small = new_block(SMALL_BYTES), *large = new_block(5 * PAGE_BYTES);
    const char *middle = (const char *)page_of(large + 2 * PAGE_BYTES);
    assert_int_equal(follow(small, (const char *)page_of(small), 1), SMALL_BYTES);
    assert_int_equal(follow(large, middle, 1), PAGE_BYTES + 2 * VECTOR_BYTES);
    assert_int_equal(follow(large, large, 6), blocks_usable_size(large));
    blocks_free(small);
    blocks_free(large);
}

static void test_pages_without_blocks_are_passed_over(void **state)
{
    (void)state;
    const char nothing[2] = "";
    char *from = new_block(SMALL_BYTES), *to = new_block(SMALL_BYTES);
    put_pointer(from, 0, to);
    assert_int_equal(follow(NULL, nothing, 1), 0);
    /* From the memory before the slab into it. */
    uintptr_t base = (uintptr_t)blocks_slab_of(from)->base, before = base - 3 * GRANULE_BYTES;
    begin_marking();
    set_mark(from);
    uint64_t bytes = mark_changed(before, page_of(from) + PAGE_BYTES);
    end_marking();
    assert_int_equal(bytes, SMALL_BYTES);
    assert_true(is_marked(to));
    blocks_free(from);
    blocks_free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_with_a_mark_is_followed_whatever_its_size),
        cmocka_unit_test(test_a_block_without_a_mark_is_not_followed),
        cmocka_unit_test(test_a_retired_block_is_not_followed),
        cmocka_unit_test(test_a_block_that_is_not_live_is_not_followed),
        cmocka_unit_test(test_only_what_lies_on_the_pages_is_read),
        cmocka_unit_test(test_a_word_across_an_edge_is_read_whichever_page_was_written),
        cmocka_unit_test(test_of_many_blocks_those_with_a_mark_are_followed),
        cmocka_unit_test(test_the_bytes_that_are_read_are_told),
        cmocka_unit_test(test_pages_without_blocks_are_passed_over),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
