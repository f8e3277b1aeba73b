/* SPDX-License-Identifier: MIT
 *
 * test_scan.c: the words of blocks of which pages are not in memory. Which these are the test says
 * in the kernel's place.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/mark.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/pages.h"

static bool resident_each_told(uintptr_t start, uintptr_t end, resident_visitor *visit,
                               void *argument);

#define resident_each resident_each_told
#include "gc/mark/scan.c"

enum { PAGES = 128, OUTSIDE = 40, UNTOLD = PAGES };

/* The pages of a block, from the start of the first one that is all its own: all are in memory but
 * this one. UNTOLD: the kernel does not tell. */
static struct {
    char *pages;
    size_t outside;
} told;

static bool resident_each_told(uintptr_t start, uintptr_t end, resident_visitor *visit,
                               void *argument)
{
    uintptr_t outside = (uintptr_t)told.pages + told.outside * PAGE_BYTES;
    if (told.outside == UNTOLD)
        return false;
    visit(argument, start, outside, true);
    visit(argument, outside, outside + PAGE_BYTES, false);
    visit(argument, outside + PAGE_BYTES, end, true);
    return true;
}

static int make_heap(void **state)
{
    (void)state;
    return process_open() && blocks_init(25, NULL) && mark_init(1, 1 << 20) ? 0 : -1;
}

static bool is_marked(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return slab->words[index / SLAB_WORD_BLOCKS].mark & slab_bit(index);
}

static void *new_block(size_t bytes)
{
    void *block = blocks_alloc(bytes);
    assert_non_null(block);
    return memset(block, 0, blocks_usable_size(block));
}

/* A block that is not marked without the word there. */
static const void *point_from(char *at)
{
    const char *block = new_block(64), *inside = block + 8;
    memcpy(at, &inside, sizeof inside);
    return block;
}

static char *new_large_block(size_t outside)
{
    const struct mapping *mappings;
    size_t count;
    char *large = new_block((PAGES + 1) * PAGE_BYTES);
    told.pages = (char *)round_up((uintptr_t)large, PAGE_BYTES);
    told.outside = outside;
    require(process_read_mappings(&mappings, &count));
    return large;
}

static void mark_from(const char *block, bool only_resident)
{
    struct mark_result result;
    const char *inside = block + 8;
    blocks_lock();
    blocks_set_local_free_bits(true);
    mark_begin();
    mark.only_resident = false; /* once true it is so for good */
    if (only_resident)
        mark_skip_unreadable(true);
    mark_roots(&inside, &inside + 1);
    mark_finish(0, &result);
    blocks_set_local_free_bits(false);
    blocks_unlock();
}

static void assert_all_words_count(size_t outside, bool only_resident)
{
    const char *large = new_large_block(outside);
    char *page = told.pages + OUTSIDE * PAGE_BYTES;
    const void *found[] = {
        point_from(page - 200),
        point_from(page - 4),
        point_from(page + 200),
        point_from(page + PAGE_BYTES - 4),
        point_from(page + PAGE_BYTES + 200),
        point_from(told.pages + (PAGES - 1) * PAGE_BYTES - 4),
    };
    mark_from(large, only_resident);
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        assert_true(is_marked(found[i]));
}

static void test_words_across_pages_in_memory_and_in_swap_count(void **state)
{
    (void)state;
    assert_all_words_count(OUTSIDE, false);
}

static void test_a_page_that_has_left_memory_is_read_where_pages_may_fault(void **state)
{
    (void)state;
    assert_all_words_count(OUTSIDE, true);
}

static void test_where_the_kernel_does_not_tell_all_is_read(void **state)
{
    (void)state;
    assert_all_words_count(UNTOLD, false);
    assert_all_words_count(UNTOLD, true);
}

/* The page is taken away when the mappings have been read, as a guard that they do not tell of. */
static void mark_beside_guard(void *unused)
{
    (void)unused;
    const char *large = new_large_block(OUTSIDE);
    char *page = told.pages + OUTSIDE * PAGE_BYTES;
    const void *before = point_from(page - 8), *behind = point_from(page + PAGE_BYTES);
    require(process_forked());
    require(munmap(page, PAGE_BYTES) == 0);
    mark_from(large, true);
    require(is_marked(before) && is_marked(behind));
    told.outside = UNTOLD;
    mark_from(large, true);
    require(is_marked(before) && is_marked(behind));
}

static void test_a_page_that_cannot_be_read_hides_no_other(void **state)
{
    (void)state;
    assert_child_succeeds(mark_beside_guard, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_across_pages_in_memory_and_in_swap_count),
        cmocka_unit_test(test_a_page_that_has_left_memory_is_read_where_pages_may_fault),
        cmocka_unit_test(test_where_the_kernel_does_not_tell_all_is_read),
        cmocka_unit_test(test_a_page_that_cannot_be_read_hides_no_other),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
