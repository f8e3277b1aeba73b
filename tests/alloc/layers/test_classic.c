/* SPDX-License-Identifier: MIT
 *
 * test_classic.c: one heap under one lock, over Kingsley's heap.
 */
#include "tests/unit/allocator_unit.h"

#include <string.h>

#include "alloc/presets/historic.h"
#include "vm/pages.h"
#include "vm/window.h"

static const struct allocator *const heap = &bsd_classic;
static const struct allocator_case whole = {&bsd_classic, .rounds = 5};

static int make_heap(void **state)
{
    (void)state;
    return heap->init(NULL) ? 0 : -1;
}

static void test_everything_lies_in_one_segment_without_a_shadow(void **state)
{
    (void)state;
    char *small = heap->alloc(100), *large = heap->alloc((size_t)8 << 20);
    assert_true(window_holds(window_unit(small)));
    assert_true(window_holds(window_unit(large))); /* no layer of large blocks */
    assert_int_equal(window.shadow_shift, 0);
    heap->free(small);
    heap->free(large);
    assert_ptr_equal(heap->alloc(100), small);
    heap->free(small);
    assert_int_equal(heap->cached_bytes(), 0);
}

static void free_twice(void *block)
{
    heap->free(block);
    heap->free(block);
}

static void free_inside(void *block)
{
    heap->free((char *)block + 16);
}

static void test_what_the_algorithm_checks_is_said(void **state)
{
    (void)state;
    void *block = memset(heap->alloc(200), 0, 200);
    assert_aborts(free_twice, block, "allotrope: free(0x");
    assert_aborts(free_inside, block, "not a live block");
    assert_int_equal(heap->usable_size((char *)block + 16), 0);
    heap->free(block);
}

static void test_waste_is_the_header_and_what_alignment_skips(void **state)
{
    (void)state;
    void *plain = heap->alloc(100), *aligned = heap->alloc_aligned(4096, 100);
    assert_int_equal(heap->waste(plain).header_bytes, 8);
    assert_int_equal(heap->waste(plain).alignment_bytes, 0);
    assert_int_equal(heap->waste(aligned).header_bytes, 8);
    assert_int_equal(heap->waste(aligned).alignment_bytes + heap->usable_size(aligned) + 8, 8192);
    heap->free(plain);
    heap->free(aligned);
}

static void allocate_to_the_limit(void *argument)
{
    const size_t spare_bytes = (size_t)32 << 20;
    (void)argument;
    void *spare = pages_map(spare_bytes, PAGE_BYTES);
    limit_address_space((size_t)16 << 20);
    size_t got = 0;
    void *last = NULL, *block;
    while ((block = heap->alloc(65000))) {
        last = block;
        got += 65000;
    }
    require(got > (size_t)12 << 20);
    require(!heap->resize(last, (size_t)64 << 20));
    heap->free(last);
    require(heap->alloc(65000) == last);
    require(pages_unmap(spare, spare_bytes)); /* a look at everything needs memory too */
    require(heap->is_valid());
}

static void test_refused_memory_is_survived(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(allocate_to_the_limit, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_lies_in_one_segment_without_a_shadow),
        ALLOCATOR_TEST(test_impossible_sizes_are_refused_and_the_shim_is_told, whole),
        ALLOCATOR_TEST(test_agrees_with_a_model, whole),
        ALLOCATOR_TEST(test_threads_agree_with_models_and_free_each_others_blocks, whole),
        ALLOCATOR_TEST(test_fork_while_threads_allocate, whole),
        ALLOCATOR_TEST(test_a_thread_allocates_while_another_forks, whole),
        cmocka_unit_test(test_what_the_algorithm_checks_is_said),
        ALLOCATOR_TEST(test_foreign_pointers_are_reported_and_ignored, whole),
        cmocka_unit_test(test_waste_is_the_header_and_what_alignment_skips),
        cmocka_unit_test(test_refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
