/* SPDX-License-Identifier: MIT
 *
 * test_large.c: blocks above 32 KiB: when their memory goes back to the kernel, by a clock of the
 * test's, and how they grow, shrink and move.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/blocks/large.h"
#include "alloc/blocks/lookup.h"
#include "tests/unit/unit.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

enum { MIB = 1 << 20 };
static const size_t mapping_from = (size_t)32 << 20;

static uint64_t now_ns = UINT64_C(1) << 40;

static uint64_t now(void)
{
    return now_ns;
}

static size_t resident_pages(const char *start, size_t bytes)
{
    unsigned char in_memory[4096];
    size_t count = 0, pages = bytes / PAGE_BYTES;
    assert_in_range(pages, 1, sizeof in_memory);
    assert_int_equal(mincore((void *)(uintptr_t)start, bytes, in_memory), 0);
    for (size_t i = 0; i < pages; i++)
        count += in_memory[i] & 1;
    return count;
}

/* A pattern that no other block of the test has. */
static void write_pattern(char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 512)
        *(uint64_t *)(block + i) = i * UINT64_C(0x9E3779B97F4A7C15) + 1;
}

static bool has_pattern(const char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 512)
        if (*(const uint64_t *)(block + i) != i * UINT64_C(0x9E3779B97F4A7C15) + 1)
            return false;
    return true;
}

static void free_all_that_decays(void)
{
    now_ns += UINT64_C(60) * 1000000000;
    for (size_t i = 0; i < 200; i++)
        blocks_free(blocks_alloc(64 << 10));
}

/* When memory goes back. */

static void test_a_freed_block_keeps_its_memory_for_a_moment_and_gives_it_back_with_time(
    void **state)
{
    (void)state;
    char *block = blocks_alloc(8 * MIB);
    write_pattern(block, 8 * MIB);
    blocks_free(block);
    size_t kept = resident_pages(block, 8 * MIB);
    assert_in_range(kept, 4 * MIB / PAGE_BYTES, 8 * MIB / PAGE_BYTES);
    now_ns += UINT64_C(10) * 1000000000;
    blocks_free(blocks_alloc(64 << 10)); /* two operations, of which each gives back a step */
    assert_in_range(kept - resident_pages(block, 8 * MIB), 1, 2 * MIB / PAGE_BYTES);
    free_all_that_decays();
    assert_in_range(resident_pages(block, 8 * MIB), 0, 2 * MIB / PAGE_BYTES);
    assert_true(blocks_is_valid());
}

static void test_of_a_very_large_block_most_goes_back_at_once(void **state)
{
    (void)state;
    large_blocks_map_from(SIZE_MAX);
    char *block = blocks_alloc((size_t)512 * MIB);
    assert_non_null(block);
    assert_int_equal(slab_at(block)->state, SLAB_RUN);
    blocks_free(block);
    assert_in_range(blocks_heap.runs.dirty_granules, 1, 300); /* of 8192 */
    large_blocks_map_from(mapping_from);
    free_all_that_decays();
}

static void test_a_mapping_goes_back_whole_and_at_once(void **state)
{
    (void)state;
    size_t mapped = blocks_heap.mapped_granules;
    char *block = blocks_alloc(mapping_from);
    assert_int_equal(slab_at(block)->state, SLAB_MAPPING);
    assert_int_equal(blocks_heap.mapped_granules, mapped + mapping_from / GRANULE_BYTES);
    write_pattern(block, MIB);
    blocks_free(block);
    assert_int_equal(blocks_heap.mapped_granules, mapped);
    assert_null(granule_map_get(block));
    assert_false(is_readable(block));
}

static void test_what_the_heap_keeps_serves_zeros_where_they_are_wanted(void **state)
{
    (void)state;
    char *dirty = blocks_alloc(4 * MIB);
    memset(dirty, 0xA5, 4 * MIB);
    blocks_free(dirty);
    size_t kept = resident_pages(dirty, 4 * MIB);
    uint64_t calls = page_calls.madvise;
    char *block = large_block_alloc(BLOCK_ALIGNMENT, 4 * MIB, RUN_ZERO);
    assert_ptr_equal(block, dirty);
    assert_int_equal(page_calls.madvise, calls); /* nothing goes back for that */
    assert_in_range(resident_pages(block, 4 * MIB), kept, 4 * MIB / PAGE_BYTES);
    assert_true(is_zero(block, 4 * MIB));
    blocks_free(block);
    char *plain = large_block_alloc(BLOCK_ALIGNMENT, 512 << 10, RUN_ANY); /* of what is dirty */
    assert_false(slab_at(plain)->zero);
    blocks_free(plain);
}

/* Which a page of zeros that the kernel shows to all who read does not count as. */
static size_t process_resident_bytes(void)
{
    char text[100] = "";
    unsigned long total, resident;
    int file = open("/proc/self/statm", O_RDONLY);
    assert_true(read(file, text, sizeof text - 1) > 0);
    close(file);
    assert_int_equal(sscanf(text, "%lu %lu", &total, &resident), 2);
    return resident * PAGE_BYTES;
}

static void test_zeros_take_no_memory_where_nobody_has_written(void **state)
{
    (void)state;
    free_all_that_decays();
    blocks_heap.runs.decay.asked = 32 * MIB / GRANULE_BYTES; /* all is kept */
    char *sparse = blocks_alloc(16 * MIB);
    for (size_t i = 0; i < 16 * MIB; i += MIB)
        sparse[i] = 1;
    blocks_free(sparse);
    size_t before = process_resident_bytes();
    char *block = large_block_alloc(BLOCK_ALIGNMENT, 16 * MIB, RUN_ZERO);
    assert_ptr_equal(block, sparse);
    assert_in_range(process_resident_bytes(), 0, before + 2 * MIB);
    assert_true(is_zero(block, 16 * MIB));
    blocks_heap.runs.decay.asked = 0;
    blocks_free(block);
    free_all_that_decays();
}

/* Size and place. */

static void test_counts_are_of_blocks_in_use_and_usable_bytes(void **state)
{
    (void)state;
    uint64_t blocks = blocks_heap.large_blocks, bytes = blocks_heap.large_bytes;
    char *run = blocks_alloc(100001), *mapping = blocks_alloc(mapping_from + 1);
    assert_int_equal(blocks_heap.large_blocks, blocks + 2);
    assert_int_equal(blocks_heap.large_bytes,
                     bytes + 25 * PAGE_BYTES + mapping_from + PAGE_BYTES); /* whole pages */
    assert_true(large_block_resize_in_place(slab_at(run), 5 * PAGE_BYTES));
    assert_int_equal(blocks_heap.large_bytes, bytes + 5 * PAGE_BYTES + mapping_from + PAGE_BYTES);
    blocks_free(run);
    blocks_free(mapping);
    assert_int_equal(blocks_heap.large_blocks, blocks);
    assert_int_equal(blocks_heap.large_bytes, bytes);
}

/* Three neighbours of 1 MiB in the heap's space. */
static void alloc_neighbours(char *blocks[3])
{
    free_all_that_decays();
    for (size_t i = 0; i < 3; i++)
        blocks[i] = blocks_alloc(MIB);
    for (size_t i = 1; i < 3; i++)
        assert_ptr_equal(blocks[i], blocks[i - 1] + MIB);
}

static void test_a_run_grows_over_free_granules_and_not_over_a_neighbour(void **state)
{
    (void)state;
    char *blocks[3];
    alloc_neighbours(blocks);
    struct slab *slab = slab_at(blocks[0]);
    write_pattern(blocks[0], MIB);
    assert_false(large_block_resize_in_place(slab, 2 * MIB));
    assert_null(large_block_resize(slab, 2 * MIB));
    assert_int_equal(slab->block_bytes, MIB);
    blocks_free(blocks[1]);
    assert_true(large_block_resize_in_place(slab, 2 * MIB));
    assert_int_equal(slab->block_bytes, 2 * MIB);
    assert_ptr_equal(slab_at(blocks[1] + MIB - 1), slab);
    assert_false(large_block_resize_in_place(slab, 2 * MIB + 1));
    assert_true(has_pattern(blocks[0], MIB));
    blocks_free(blocks[0]);
    blocks_free(blocks[2]);
    assert_true(blocks_is_valid());
}

static void test_a_run_that_shrinks_leaves_its_tail_to_others(void **state)
{
    (void)state;
    char *blocks[3];
    alloc_neighbours(blocks);
    size_t used = blocks_heap.used_granules;
    write_pattern(blocks[0], MIB);
    assert_true(large_block_resize_in_place(slab_at(blocks[0]), MIB / 2));
    assert_int_equal(blocks_heap.used_granules, used - MIB / 2 / GRANULE_BYTES);
    assert_null(slab_at(blocks[0] + MIB / 2));
    char *next = blocks_alloc(MIB / 2);
    assert_ptr_equal(next, blocks[0] + MIB / 2);
    write_pattern(next, MIB / 2);
    assert_true(has_pattern(blocks[0], MIB / 2));
    blocks_free(next);
    for (size_t i = 0; i < 3; i++)
        blocks_free(blocks[i]);
}

static void test_a_block_that_will_grow_moves_its_pages_and_not_its_bytes(void **state)
{
    (void)state;
    char *block = large_block_alloc_to_grow(MIB);
    struct slab *slab = slab_at(block);
    assert_int_equal(slab->state, SLAB_MAPPING);
    write_pattern(block, MIB);
    size_t mapped = blocks_heap.mapped_granules;
    char *behind = mmap(block + MIB, PAGE_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_false(large_block_resize_in_place(slab, 3 * MIB));
    assert_ptr_equal(slab_at(block), slab);
    assert_int_equal(slab->block_bytes, MIB);
    char *moved = large_block_resize(slab, 3 * MIB);
    assert_ptr_not_equal(moved, block);
    assert_int_equal((uintptr_t)moved % GRANULE_BYTES, 0);
    assert_true(has_pattern(moved, MIB));
    assert_ptr_equal(slab_at(moved + 3 * MIB - 1), slab);
    assert_null(granule_map_get(block));
    assert_int_equal(blocks_heap.mapped_granules, mapped + 2 * MIB / GRANULE_BYTES);
    if (behind != MAP_FAILED)
        munmap(behind, PAGE_BYTES);
    blocks_free(moved);
}

/* By M_MMAP_MAX 0. */
static void test_a_block_that_will_grow_is_no_mapping_where_the_program_wants_none(void **state)
{
    (void)state;
    large_blocks_map_from(SIZE_MAX);
    char *block = large_block_alloc_to_grow(MIB);
    assert_int_equal(slab_at(block)->state, SLAB_RUN);
    blocks_free(block);
    large_blocks_map_from(32 * MIB);
}

/* It would take tables for the owners of all those addresses, too. */
static void test_a_block_does_not_move_to_memory_that_cannot_be_had(void **state)
{
    (void)state;
    const size_t too_large = (size_t)1 << 42;
    char *block = blocks_alloc(mapping_from);
    uint64_t maps = page_calls.mmap, moves = page_calls.mremap;
    void *resized = large_block_resize(slab_at(block), too_large);
    maps = page_calls.mmap - maps;
    moves = page_calls.mremap - moves;
    blocks_free(resized ? resized : block);
    if (resized)
        skip(); /* this kernel promises whatever is asked for */
    assert_in_range(maps, 0, 100);
    assert_int_equal(moves, 2); /* tries to grow in place */
}

static void test_a_mapping_shrinks_in_place_to_half_and_is_copied_below(void **state)
{
    (void)state;
    char *block = blocks_alloc(2 * mapping_from);
    struct slab *slab = slab_at(block);
    write_pattern(block, MIB);
    assert_ptr_equal(large_block_resize(slab, mapping_from), block);
    assert_true(has_pattern(block, MIB));
    assert_null(granule_map_get(block + mapping_from));
    assert_false(is_readable(block + mapping_from));
    assert_null(large_block_resize(slab, mapping_from / 2 - PAGE_BYTES));
    assert_int_equal(slab->block_bytes, mapping_from);
    blocks_free(block);
}

static void test_an_alignment_above_a_granule_is_a_mappings(void **state)
{
    (void)state;
    char *block = large_block_alloc(MIB, 100000, RUN_ANY);
    assert_int_equal(slab_at(block)->state, SLAB_MAPPING);
    assert_int_equal((uintptr_t)block % MIB, 0);
    blocks_free(block);
}

/* The upper halves of all blocks' addresses are few: large.c. */
static bool lies_below_window(const char *block)
{
    return (uintptr_t)block < window.base && window.base - (uintptr_t)block < (uintptr_t)53 << 30;
}

static void test_mappings_lie_below_the_window(void **state)
{
    (void)state;
    enum { MAPPINGS = 8, TURNS = 200 };
    char *blocks[MAPPINGS] = {0};
    for (int turn = 0; turn < TURNS; turn++) { /* 6 GiB of addresses in all */
        char **block = &blocks[turn * 5 % MAPPINGS];
        blocks_free(*block);
        *block = blocks_alloc(mapping_from);
        assert_true(lies_below_window(*block));
        write_pattern(*block, 4096);
        for (int i = 0; i < MAPPINGS; i++)
            assert_true(!blocks[i] || has_pattern(blocks[i], 4096));
    }
    char *aligned = blocks_alloc_aligned((size_t)1 << 30, MIB);
    assert_true(lies_below_window(aligned));
    blocks_free(aligned);
    for (int i = 0; i < MAPPINGS; i++)
        blocks_free(blocks[i]);
}

/* The places begin again from above, where an old mapping still is. */
static void test_an_old_mapping_sends_no_other_away_from_the_window(void **state)
{
    (void)state;
    char *old = blocks_alloc(mapping_from);
    write_pattern(old, 4096);
    for (int i = 0; i < 2000; i++) { /* 125 GiB of addresses */
        char *block = blocks_alloc(mapping_from);
        assert_true(lies_below_window(block));
        blocks_free(block);
    }
    assert_true(has_pattern(old, 4096));
    blocks_free(old);
}

static bool crosses_4_gib(const char *block, size_t bytes)
{
    uintptr_t start = (uintptr_t)block;
    return (start - 1) >> 32 != (start + bytes) >> 32;
}

static void test_no_mapping_crosses_a_multiple_of_4_gib_in_its_room(void **state)
{
    (void)state;
    enum { MAPPINGS = 100 };
    char *blocks[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        blocks[i] = blocks_alloc(mapping_from + (size_t)i * 700000);
        assert_false(crosses_4_gib(blocks[i], 2 * mapping_from + (size_t)i * 1400000));
    }
    for (int i = 0; i < MAPPINGS; i++)
        blocks_free(blocks[i]);
}

static void test_mappings_that_move_lie_below_the_window(void **state)
{
    (void)state;
    char *block = blocks_alloc(mapping_from), *neighbour = blocks_alloc(mapping_from);
    write_pattern(block, mapping_from);
    for (size_t bytes = mapping_from; bytes <= 16 * mapping_from; bytes += 3 * mapping_from) {
        block = blocks_resize(block, bytes);
        assert_true(lies_below_window(block) && has_pattern(block, mapping_from));
    }
    blocks_free(block);
    blocks_free(neighbour);
}

/* With room to grow they would take 80 GiB; there are 48. */
static void test_mappings_find_a_place_when_that_below_the_window_is_used_up(void **state)
{
    (void)state;
    enum { MAPPINGS = 40 };
    const size_t bytes = (size_t)1 << 30;
    char *blocks[MAPPINGS];
    for (int i = 0; i < MAPPINGS; i++) {
        blocks[i] = blocks_alloc(bytes);
        assert_non_null(blocks[i]);
        write_pattern(blocks[i], 4096);
    }
    for (int i = 0; i < MAPPINGS; i++) {
        assert_true(has_pattern(blocks[i], 4096));
        blocks_free(blocks[i]);
    }
    assert_true(blocks_is_valid());
}

static void test_sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    char *block = blocks_alloc(MIB);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 65535, (size_t)PTRDIFF_MAX,
                                   (size_t)PTRDIFF_MAX - GRANULE_BYTES + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_null(large_block_alloc(BLOCK_ALIGNMENT, sizes[i], RUN_ANY));
        assert_null(large_block_alloc_to_grow(sizes[i]));
        assert_null(large_block_resize(slab_at(block), sizes[i]));
    }
    assert_int_equal(slab_at(block)->block_bytes, MIB);
    blocks_free(block);
}

static void test_a_closed_block_cannot_be_read_and_its_memory_serves_after_its_free(void **state)
{
    (void)state;
    char *block = blocks_alloc(MIB);
    write_pattern(block, MIB);
    blocks_lock();
    assert_true(large_block_close(slab_at(block)));
    blocks_unlock();
    assert_false(is_readable(block));
    assert_false(is_readable(block + MIB - 1));
    blocks_free(block);
    char *next = blocks_alloc(MIB);
    assert_ptr_equal(next, block);
    write_pattern(next, MIB);
    blocks_free(next);
}

static int start(void **state)
{
    (void)state;
    if (!blocks_init(25, NULL) || !blocks_alloc(1))
        return -1;
    blocks_heap.runs.now_ns = now;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_heap_keeps_serves_zeros_where_they_are_wanted),
        cmocka_unit_test(test_zeros_take_no_memory_where_nobody_has_written),
        cmocka_unit_test(
            test_a_freed_block_keeps_its_memory_for_a_moment_and_gives_it_back_with_time),
        cmocka_unit_test(test_of_a_very_large_block_most_goes_back_at_once),
        cmocka_unit_test(test_a_mapping_goes_back_whole_and_at_once),
        cmocka_unit_test(test_counts_are_of_blocks_in_use_and_usable_bytes),
        cmocka_unit_test(test_a_run_grows_over_free_granules_and_not_over_a_neighbour),
        cmocka_unit_test(test_a_run_that_shrinks_leaves_its_tail_to_others),
        cmocka_unit_test(test_a_block_that_will_grow_moves_its_pages_and_not_its_bytes),
        cmocka_unit_test(test_a_block_that_will_grow_is_no_mapping_where_the_program_wants_none),
        cmocka_unit_test(test_a_block_does_not_move_to_memory_that_cannot_be_had),
        cmocka_unit_test(test_a_mapping_shrinks_in_place_to_half_and_is_copied_below),
        cmocka_unit_test(test_an_alignment_above_a_granule_is_a_mappings),
        cmocka_unit_test(test_mappings_lie_below_the_window),
        cmocka_unit_test(test_an_old_mapping_sends_no_other_away_from_the_window),
        cmocka_unit_test(test_no_mapping_crosses_a_multiple_of_4_gib_in_its_room),
        cmocka_unit_test(test_mappings_that_move_lie_below_the_window),
        cmocka_unit_test(test_mappings_find_a_place_when_that_below_the_window_is_used_up),
        cmocka_unit_test(test_sizes_that_cannot_be_are_refused),
        cmocka_unit_test(test_a_closed_block_cannot_be_read_and_its_memory_serves_after_its_free),
    };
    return cmocka_run_group_tests_name("large blocks", tests, start, NULL);
}
