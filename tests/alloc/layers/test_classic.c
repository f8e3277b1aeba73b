/* SPDX-License-Identifier: MIT
 *
 * test_classic.c: one heap under one lock, over Kingsley's heap.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/presets/historic.h"
#include "tests/unit/allocator_model.h"
#include "vm/pages.h"
#include "vm/window.h"

static const struct allocator *const heap = &bsd_classic;

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

static unsigned refusals;

static void note_refusal(void)
{
    refusals++;
}

static void test_impossible_sizes_are_refused_and_the_shim_is_told(void **state)
{
    (void)state;
    allocator_out_of_memory = note_refusal;
    assert_null(heap->alloc((size_t)PTRDIFF_MAX + 1));
    assert_null(heap->alloc(PTRDIFF_MAX));
    assert_int_equal(refusals, 2);
    allocator_out_of_memory = NULL;
    assert_null(heap->alloc_zeroed(SIZE_MAX));
    assert_null(heap->alloc_aligned(8, SIZE_MAX));
    assert_null(heap->alloc_aligned(64, SIZE_MAX));
    assert_null(heap->alloc_aligned((size_t)1 << 62, 1));
    void *block = heap->alloc(100);
    assert_null(heap->resize(block, PTRDIFF_MAX));
    heap->free(block);
    assert_true(heap->is_valid());
}

static struct model models[4];

static void count_live(void *argument, const struct block_info *info)
{
    *(size_t *)argument += info->state == BLOCK_LIVE;
}

static void test_agrees_with_a_model(void **state)
{
    (void)state;
    models[0] = (struct model){.allocator = heap, .random = 7};
    for (int round = 0; round < 5; round++) {
        const char *wrong = model_run(&models[0], UNDER_SANITIZER ? 2000 : 10000);
        if (wrong)
            fail_msg("%s", wrong);
        size_t held = 0, live = 0;
        for (int i = 0; i < MODEL_BLOCKS; i++)
            held += models[0].blocks[i].start != NULL;
        heap->walk(count_live, &live);
        assert_int_equal(live, held);
        assert_true(heap->is_valid());
    }
    assert_null(model_drop(&models[0]));
    model_assert_walk(models, 1);
}

static void *run_model(void *argument)
{
    const char *wrong = model_run(argument, UNDER_SANITIZER ? 3000 : 20000);
    heap->thread_exit();
    /* A thread without a cache does not notice its end. */
    if (!wrong)
        wrong = model_run(argument, 1000);
    return (void *)wrong;
}

static void test_threads_agree_with_models(void **state)
{
    (void)state;
    pthread_t threads[4];
    void *wrong;
    for (unsigned i = 0; i < 4; i++) {
        models[i] = (struct model){.allocator = heap, .random = 100 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, run_model, &models[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    /* And free what another allocated. */
    for (int i = 0; i < 4; i++)
        assert_null(model_drop(&models[i]));
    model_assert_walk(models, 4);
}

static void test_fork_while_threads_allocate(void **state)
{
    (void)state;
    if (UNDER_THREAD_SANITIZER)
        skip(); /* which does not survive it itself */
    model_assert_forks(heap);
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
    assert_child_aborts(free_twice, block, "allotrope: free(0x");
    assert_child_aborts(free_inside, block, "not a live block");
    assert_int_equal(heap->usable_size((char *)block + 16), 0);
    heap->free(block);
}

static void free_foreign(void *argument)
{
    int on_the_stack;
    heap->free(argument);
    heap->free(&on_the_stack);
    require(heap->alloc(100) != NULL);
}

static void test_foreign_pointers_are_reported_and_ignored(void **state)
{
    (void)state;
    char *foreign = malloc(100);
    struct ending ending = run_child(free_foreign, foreign);
    assert_int_equal(ending.exit_status, 0);
    assert_non_null(strstr(ending.errors, "): not a block of this heap; ignored\n"));
    assert_false(heap->owns(foreign));
    assert_int_equal(heap->usable_size(foreign), 0);
    free(foreign);
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
    const size_t spare_bytes = (size_t)4 << 20;
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
        cmocka_unit_test(test_impossible_sizes_are_refused_and_the_shim_is_told),
        cmocka_unit_test(test_agrees_with_a_model),
        cmocka_unit_test(test_threads_agree_with_models),
        cmocka_unit_test(test_fork_while_threads_allocate),
        cmocka_unit_test(test_what_the_algorithm_checks_is_said),
        cmocka_unit_test(test_foreign_pointers_are_reported_and_ignored),
        cmocka_unit_test(test_waste_is_the_header_and_what_alignment_skips),
        cmocka_unit_test(test_refused_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
