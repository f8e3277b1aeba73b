/* SPDX-License-Identifier: MIT
 *
 * test_layered.c: the layers of today, over Kingsley's heap. Allocators are process-wide: what
 * needs other options is tried in children, before this process's own is made.
 */
#include "tests/unit/allocator_unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/presets/historic.h"
#include "alloc/layers/layered.h"
#include "vm/fork_chain.h"
#include "vm/message.h"
#include "vm/pages.h"

static const struct allocator *const heap = &bsd_default;
static const struct allocator_case whole = {&bsd_default, .rounds = 10};

enum { ARENAS = 2, CACHE_BYTES = 1 << 20, LARGE_BYTES = 1 << 18 };

static void init(uint64_t arenas, uint64_t cache, uint64_t large)
{
    static struct layered_options options;
    options =
        (struct layered_options){.arenas = arenas, .cache_bytes = cache, .large_bytes = large};
    require(heap->init(&options));
}

static void cache_nothing(void *argument)
{
    struct allocator_statistics statistics;
    (void)argument;
    init(1, 0, LARGE_BYTES);
    for (size_t size = 1; size < 100000; size = 2 * size + 1) {
        void *block = heap->alloc(size), *other = heap->alloc(size);
        require(block && other);
        heap->free(block);
        heap->free(other);
        require(heap->alloc(size) == other); /* straight from the heap's own list */
    }
    heap->statistics(&statistics);
    require(statistics.heap.cached_blocks == 0 && heap->cached_bytes() == 0);
}

static void cache_at_most(void *argument)
{
    size_t most = *(size_t *)argument;
    void *blocks[64];
    init(1, most, LARGE_BYTES);
    for (int round = 0; round < 50; round++)
        for (size_t size = 1; size <= 65528; size += size / 2 + 1) {
            for (int i = 0; i < 64; i++)
                blocks[i] = heap->alloc(size);
            for (int i = 0; i < 64; i++)
                heap->free(blocks[i]);
            require(heap->cached_bytes() <= 2 * most + mapped_bytes() / 4);
        }
    require(heap->cached_bytes() > most / 8);
    require(heap->is_valid());
}

static void test_thread_and_depot_keep_no_more_than_the_option_says(void **state)
{
    (void)state;
    static const size_t most[] = {1000, 65536, CACHE_BYTES, 1 << 24};
    assert_child_succeeds(cache_nothing, NULL);
    for (size_t i = 0; i < sizeof most / sizeof *most; i++)
        assert_child_succeeds(cache_at_most, (void *)&most[i]);
}

static void map_from_65536(void *argument)
{
    struct allocator_statistics statistics;
    (void)argument;
    init(1, CACHE_BYTES, 65536);
    require(heap->alloc(65535) != NULL);
    heap->statistics(&statistics);
    require(statistics.large_blocks == 0);
    require(heap->alloc(65536) != NULL);
    require(heap->alloc_aligned(4096, 65536) != NULL);
    require(heap->alloc_zeroed(65536) != NULL);
    heap->statistics(&statistics);
    require(statistics.large_blocks == 3);
}

static void test_large_blocks_begin_at_the_option(void **state)
{
    (void)state;
    assert_child_succeeds(map_from_65536, NULL);
}

static void shrink_without_memory(void *unused)
{
    (void)unused;
    init(1, CACHE_BYTES, LARGE_BYTES);
    char *block = heap->alloc(60000), *large = heap->alloc(2 * LARGE_BYTES);
    require(block && large);
    block[39] = large[39] = 1;
    limit_address_space(0);
    for (size_t size = 40000; size >= 40; size /= 10)
        while (heap->alloc(size))
            ;
    require(!heap->resize(block, 70000) && !heap->resize(large, 3 * LARGE_BYTES));
    require(heap->resize(block, 40) == block && block[39] == 1);
    require(heap->resize(large, 40) == large && large[39] == 1);
    heap->free(block);
    heap->free(large);
}

static void test_a_block_stays_where_there_is_no_memory_for_a_smaller_one(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(shrink_without_memory, NULL);
}

/* From here on with this process's own. */
static void test_blocks_of_every_layer_are_aligned_usable_and_zeroed_when_asked(void **state)
{
    (void)state;
    init(ARENAS, CACHE_BYTES, LARGE_BYTES);
    for (size_t size = 0; size < 600000; size += 1 + size / 5) {
        unsigned char *block = heap->alloc(size);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % BLOCK_ALIGNMENT, 0);
        size_t usable = heap->usable_size(block);
        assert_true(usable >= size && usable > 0);
        memset(block, 0xFF, usable);
        assert_int_equal(heap->usable_size(block), usable);
        heap->free(block);
        unsigned char *zeroed = heap->alloc_zeroed(size);
        assert_true(is_zero(zeroed, size));
        heap->free(zeroed);
    }
    assert_true(heap->is_valid());
}

/* Holes that exceed the next request by less than makes a block: the heap gives them whole, and
 * they suit another bin. Once that is full the heap must not be asked for more of them. */
static void take_blocks_that_suit_another_bin(void *argument)
{
    enum { EACH = 10000, SIZES = 8 };
    static char *blocks[EACH];
    static char options[OPTIONS_BYTES] __attribute__((aligned(16)));
    const struct allocator *knuth = &knuth_default;
    struct allocator_statistics statistics;
    (void)argument;
    options_set_initial(knuth->options, options);
    require(knuth->init(options));
    for (size_t size = 256; size > 256 - 16 * SIZES; size -= 16) {
        for (int i = 0; i < EACH; i++)
            blocks[i] = knuth->alloc(size);
        for (int i = 0; i < EACH; i += 2)
            knuth->free(blocks[i]);
    }
    knuth->statistics(&statistics);
    require(statistics.heap.searches > 0);
    require(statistics.heap.searches < EACH * SIZES);
}

static void test_the_heap_is_not_asked_again_for_what_suits_a_full_bin(void **state)
{
    (void)state;
    assert_child_succeeds(take_blocks_that_suit_another_bin, NULL);
}

static void test_the_block_freed_last_is_taken_first(void **state)
{
    (void)state;
    for (size_t size = 1; size < 60000; size *= 3) {
        void *first = heap->alloc(size), *second = heap->alloc(size);
        heap->free(first);
        heap->free(second);
        assert_ptr_equal(heap->alloc(size), second);
        heap->free(second);
    }
}

struct states {
    void *block;
    enum block_state state;
    size_t seen;
};

static void find_state(void *argument, const struct block_info *info)
{
    struct states *wanted = argument;
    if (info->payload == wanted->block) {
        wanted->state = info->state;
        wanted->seen++;
    }
}

static enum block_state state_in_walk(void *block)
{
    struct states wanted = {.block = block};
    heap->walk(find_state, &wanted);
    assert_int_equal(wanted.seen, 1);
    return wanted.state;
}

static void test_a_walk_tells_live_from_cached(void **state)
{
    (void)state;
    void *small = heap->alloc(100), *large = heap->alloc(LARGE_BYTES);
    void *aligned[2] = {heap->alloc_aligned(256, 100), heap->alloc_aligned(256, 100)};
    assert_int_equal(state_in_walk(small), BLOCK_LIVE);
    assert_int_equal(state_in_walk(large), BLOCK_LIVE);
    assert_int_equal(state_in_walk(aligned[0]), BLOCK_LIVE);
    assert_int_equal(state_in_walk(aligned[1]), BLOCK_LIVE);
    size_t cached = heap->cached_bytes();
    heap->free(small);
    assert_int_equal(state_in_walk(small), BLOCK_CACHED);
    assert_int_equal(heap->cached_bytes(), cached + 120);
    heap->trim();
    assert_int_equal(state_in_walk(small), BLOCK_FREE);
    assert_int_equal(heap->cached_bytes(), 0);
    heap->free(large);
    heap->free(aligned[0]);
    heap->free(aligned[1]);
}

static void *live_on(void *argument)
{
    struct model *model = argument;
    const char *wrong = model_run(model, 3000);
    heap->thread_exit();
    size_t cached = heap->cached_bytes();
    if (!wrong)
        wrong = model_run(model, 3000);
    if (!wrong)
        wrong = model_drop(model);
    if (!wrong && heap->cached_bytes() != cached)
        wrong = "a dead thread caches";
    heap->thread_exit();
    return (void *)wrong;
}

static void test_a_thread_is_served_after_its_end(void **state)
{
    (void)state;
    static struct model model = {.allocator = &bsd_default, .random = 8};
    pthread_t thread;
    void *wrong;
    pthread_create(&thread, NULL, live_on, &model);
    pthread_join(thread, &wrong);
    if (wrong)
        fail_msg("%s", (char *)wrong);
    assert_walk_meets(&model, 1);
}

static void free_twice(void *block)
{
    heap->free(block);
    heap->free(block);
}

/* The second time the block is in the heap, not in the cache. */
static void free_again_after_trim(void *block)
{
    heap->free(block);
    heap->trim();
    heap->free(block);
}

static void free_inside(void *block)
{
    heap->free((char *)block + 16);
}

static void free_unaligned(void *block)
{
    heap->free((char *)block + 1);
}

static void resize_freed(void *block)
{
    heap->free(block);
    heap->resize(block, 200);
}

static void test_bad_pointers_are_found_in_every_layer(void **state)
{
    (void)state;
    void *blocks[] = {heap->alloc(50), heap->alloc(5000), heap->alloc(100000),
                      heap->alloc_aligned(512, 100), heap->alloc(LARGE_BYTES)};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        bool large = i == 4;
        /* A large block's memory is gone with it: the second free is one of a stranger. */
        if (!large) {
            assert_aborts(free_twice, blocks[i], "allotrope: free(0x");
            assert_aborts(free_twice, blocks[i], "): not a live block (freed twice");
            assert_aborts(free_again_after_trim, blocks[i], "not a live block");
            assert_aborts(resize_freed, blocks[i], "allotrope: realloc(0x");
        }
        const char *fault = large ? "points into a block" : "or points into one)";
        assert_aborts(free_inside, blocks[i], fault);
        assert_aborts(free_unaligned, blocks[i], fault);
        assert_int_equal(heap->usable_size((char *)blocks[i] + 16), 0);
        heap->free(blocks[i]);
        assert_int_equal(heap->usable_size(blocks[i]), 0);
    }
}

static void free_twice_while_frozen(void *block)
{
    fork_chain_prepare();
    free_twice(block);
    fork_chain_parent();
}

/* A large block is a stranger's from its first free on. */
static void free_large_twice_while_frozen(void *block)
{
    struct allocator_statistics before, after;
    heap->statistics(&before);
    uint64_t faults = pointer_faults();
    free_twice_while_frozen(block);
    require(pointer_faults() == faults + 1);
    heap->statistics(&after);
    require(after.large_blocks == before.large_blocks - 1);
    require(after.large_bytes == before.large_bytes - LARGE_BYTES);
    void *first = heap->alloc(LARGE_BYTES), *second = heap->alloc(LARGE_BYTES);
    require(first != second && heap->is_valid());
}

static void test_a_second_free_is_found_while_the_heap_is_frozen(void **state)
{
    (void)state;
    void *small = heap->alloc(100000), *large = heap->alloc(LARGE_BYTES);
    assert_aborts(free_twice_while_frozen, small, "): not a live block (freed twice");
    assert_child_succeeds(free_large_twice_while_frozen, large);
    heap->free(small);
    heap->free(large);
}

/* The kernel moves only whole mappings, and the program may have split one. */
static void test_a_large_block_whose_mapping_was_split_still_grows(void **state)
{
    (void)state;
    char *block = heap->alloc(4 * LARGE_BYTES);
    memset(block, 1, 4 * LARGE_BYTES);
    assert_int_equal(madvise(block + LARGE_BYTES, PAGE_BYTES, MADV_DONTFORK), 0);
    char *grown = heap->resize(block, 64 * LARGE_BYTES);
    assert_non_null(grown);
    assert_int_equal(grown[4 * LARGE_BYTES - 1], 1);
    heap->free(grown);
}

static void test_blocks_move_between_the_layers_with_their_contents(void **state)
{
    (void)state;
    static const size_t sizes[] = {10,     200,         70000, LARGE_BYTES, 4 * LARGE_BYTES,
                                   300000, LARGE_BYTES, 90000, 65528,       65529,
                                   1,      1 << 22,     24};
    unsigned char *block = heap->alloc(1);
    block[0] = 0x77;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = heap->resize(block, sizes[i]);
        assert_non_null(block);
        assert_int_equal(block[0], 0x77);
        assert_true(heap->usable_size(block) >= sizes[i]);
        block[sizes[i] - 1] = 0x77;
    }
    heap->free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thread_and_depot_keep_no_more_than_the_option_says),
        cmocka_unit_test(test_the_heap_is_not_asked_again_for_what_suits_a_full_bin),
        cmocka_unit_test(test_large_blocks_begin_at_the_option),
        cmocka_unit_test(test_a_block_stays_where_there_is_no_memory_for_a_smaller_one),
        cmocka_unit_test(test_blocks_of_every_layer_are_aligned_usable_and_zeroed_when_asked),
        cmocka_unit_test(test_the_block_freed_last_is_taken_first),
        ALLOCATOR_TEST(test_impossible_sizes_are_refused_and_the_shim_is_told, whole),
        ALLOCATOR_TEST(test_agrees_with_a_model, whole),
        ALLOCATOR_TEST(test_threads_agree_with_models_and_free_each_others_blocks, whole),
        cmocka_unit_test(test_a_walk_tells_live_from_cached),
        cmocka_unit_test(test_a_thread_is_served_after_its_end),
        ALLOCATOR_TEST(test_fork_while_threads_allocate, whole),
        ALLOCATOR_TEST(test_a_thread_allocates_while_another_forks, whole),
        ALLOCATOR_TEST(test_a_forked_child_has_the_free_blocks_of_all_threads, whole),
        cmocka_unit_test(test_bad_pointers_are_found_in_every_layer),
        ALLOCATOR_TEST(test_foreign_pointers_are_reported_and_ignored, whole),
        cmocka_unit_test(test_a_second_free_is_found_while_the_heap_is_frozen),
        cmocka_unit_test(test_a_large_block_whose_mapping_was_split_still_grows),
        cmocka_unit_test(test_blocks_move_between_the_layers_with_their_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
