/* SPDX-License-Identifier: MIT
 *
 * test_large.c: blocks that are mappings of their own.
 */
#include "tests/unit/model.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "alloc/layers/large.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

enum { MIB = 1 << 20 };

static struct large_block *record_of(const void *block)
{
    struct owner *owner = granule_map_get(block);
    assert_non_null(owner);
    assert_int_equal(owner->kind, OWNER_LARGE);
    return (struct large_block *)owner;
}

static void give(void *block)
{
    large_free(record_of(block), block);
}

static void *resize(void *block, size_t size)
{
    return large_resize(record_of(block), block, size);
}

static void test_blocks_are_zero_aligned_and_of_whole_pages(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)1 << 28; alignment *= 4) {
        char *block = large_alloc(alignment, 3 * MIB + 1, true);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % alignment, 0);
        assert_int_equal((uintptr_t)block % GRANULE_BYTES, 0);
        assert_int_equal(record_of(block)->usable_bytes, 3 * MIB + PAGE_BYTES);
        assert_ptr_equal(record_of(block + 3 * MIB), record_of(block));
        assert_true(is_zero(block, 3 * MIB + PAGE_BYTES));
        memset(block, 1, 3 * MIB + PAGE_BYTES);
        give(block);
    }
}

static void test_a_freed_block_leaves_the_account_and_the_map_at_once(void **state)
{
    (void)state;
    uint64_t blocks, bytes;
    large_trim(0);
    size_t mapped = mapped_bytes();
    char *block = large_alloc(16, MIB, true);
    large_statistics(&blocks, &bytes);
    assert_int_equal(blocks, 1);
    assert_int_equal(bytes, MIB);
    assert_in_range(mapped_bytes() - mapped, MIB, MIB + 65536); /* and perhaps a record */
    give(block);
    large_statistics(&blocks, &bytes);
    assert_int_equal(blocks, 0);
    assert_int_equal(bytes, 0);
    assert_null(granule_map_get(block));
    assert_null(granule_map_get(block + MIB - 1));
    assert_int_equal(large_trim(0), MIB);
    assert_int_equal(large_trim(0), 0);
    assert_false(is_readable(block));
    assert_in_range(mapped_bytes() - mapped, 0, 65536);
}

/* The pages are those that were there, so nothing has to be cleared or faulted in. */
static void test_a_freed_block_serves_the_next_of_about_its_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {MIB, MIB / 2 + PAGE_BYTES, MIB - 1, 2 * MIB, MIB + 1, 300000};
    large_trim(0);
    char *block = large_alloc(16, 3 * MIB / 2, false);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t mapped = mapped_bytes() - record_of(block)->usable_bytes;
        memset(block, 7, record_of(block)->usable_bytes);
        give(block);
        block = large_alloc(16, sizes[i], false);
        assert_int_equal(record_of(block)->usable_bytes, round_up(sizes[i], PAGE_BYTES));
        assert_ptr_equal(record_of(block + sizes[i] - 1), record_of(block));
        bool is_near = i + 1 < sizeof sizes / sizeof *sizes;
        assert_int_equal(block[0], is_near ? 7 : 0);
        if (is_near)
            assert_int_equal(mapped_bytes() - mapped, record_of(block)->usable_bytes);
    }
    memset(block, 7, 300000);
    give(block);
    block = large_alloc(16, 400000, true);
    assert_true(is_zero(block, 400000));
    give(block);
}

static void test_what_is_kept_is_bounded_and_the_oldest_goes_first(void **state)
{
    (void)state;
    enum { BLOCKS = 20, BYTES = 65536 };
    char *blocks[BLOCKS], *larger = large_alloc(16, 3 * MIB, false);
    large_trim(0);
    give(larger);
    assert_false(is_readable(larger));
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = large_alloc(16, BYTES, false);
    for (int i = 0; i < BLOCKS; i++)
        give(blocks[i]);
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(is_readable(blocks[i]), i >= 4);
    assert_int_equal(large_trim(0), 16 * BYTES);
}

/* A quarter of what is in use. */
static void test_more_is_kept_beside_more_that_is_in_use(void **state)
{
    (void)state;
    char *held = large_alloc(16, 16 * MIB, false), *block = large_alloc(16, 4 * MIB, false);
    give(block);
    assert_true(is_readable(block));
    give(held);
    assert_int_equal(large_trim(0), 0);
    assert_false(is_readable(block) || is_readable(held));
}

/* A block that grows from a size that nothing kept is near to. */
static void test_what_is_kept_gives_way_to_a_block_that_grows(void **state)
{
    (void)state;
    large_trim(0);
    char *kept = large_alloc(16, 2 * MIB, false), *block = large_alloc(16, MIB / 4, false);
    give(kept);
    assert_true(is_readable(kept));
    block = large_resize(record_of(block), block, MIB / 2);
    /* Not whether the address is readable: the block may have grown into it. */
    assert_int_equal(large_trim(0), 0);
    give(block);
    large_trim(0);
}

/* Size 0 counts as 1; what no address space can hold is refused. */
static void test_no_bytes_are_a_page_and_impossible_sizes_are_refused(void **state)
{
    (void)state;
    char *least = large_alloc(16, 0, true);
    assert_int_equal(record_of(least)->usable_bytes, PAGE_BYTES);
    assert_null(large_alloc(16, PTRDIFF_MAX, true));
    assert_null(large_alloc(16, SIZE_MAX, true));
    assert_null(large_alloc((size_t)1 << 62, MIB, true));
    assert_null(resize(least, SIZE_MAX - 4096));
    assert_null(resize(least, (size_t)1 << 50));
    least[0] = 1;
    give(least);
}

static void fill(unsigned char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 1024)
        block[i] = (unsigned char)(i >> 10);
}

static void assert_filled(const unsigned char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 1024)
        assert_int_equal(block[i], (unsigned char)(i >> 10));
}

/* With its contents, its entries in the granule map, and the account. */
static void test_resizing_keeps_contents_map_and_account(void **state)
{
    (void)state;
    static const size_t sizes[] = {MIB,     MIB + 1,  2 * MIB,   64 * MIB,  63 * MIB, 300000,
                                   5 * MIB, 1,        40 * MIB,  4096,      4097,     65536,
                                   65537,   1000 * 7, 128 * MIB, 128 * MIB, MIB};
    unsigned char *block = large_alloc(16, 100, true), *neighbour = large_alloc(16, MIB, true);
    size_t old = 100;
    fill(block, old);
    fill(neighbour, MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *before = block;
        block = resize(block, sizes[i]);
        assert_non_null(block);
        assert_filled(block, old < sizes[i] ? old : sizes[i]);
        fill(block, sizes[i]);
        old = sizes[i];
        struct large_block *record = record_of(block);
        assert_int_equal(record->usable_bytes, round_up(sizes[i], PAGE_BYTES));
        assert_ptr_equal(record->payload, block);
        assert_ptr_equal(granule_map_get(block + sizes[i] - 1), record);
        assert_ptr_not_equal(granule_map_get(block + round_up(sizes[i], GRANULE_BYTES)), record);
        if (before != block)
            assert_ptr_not_equal(granule_map_get(before), record);
        uint64_t blocks, bytes;
        large_statistics(&blocks, &bytes);
        assert_int_equal(blocks, 2);
        assert_int_equal(bytes, round_up(sizes[i], PAGE_BYTES) + MIB);
    }
    assert_filled(neighbour, MIB);
    give(block);
    give(neighbour);
}

static void test_a_block_moves_when_its_way_is_barred(void **state)
{
    (void)state;
    char *block = large_alloc(16, MIB, true);
    assert_true(pages_in_use(block + MIB, PAGE_BYTES) || pages_map_at(block + MIB, PAGE_BYTES));
    block[0] = 1;
    block[MIB - 1] = 2;
    char *moved = resize(block, 8 * MIB);
    assert_non_null(moved);
    assert_ptr_not_equal(moved, block);
    assert_int_equal(moved[0], 1);
    assert_int_equal(moved[MIB - 1], 2);
    assert_true(is_zero(moved + MIB, 7 * MIB));
    assert_false(is_readable(block));
    give(moved);
}

static void free_inside(void *block)
{
    struct large_block *record = granule_map_get(block);
    large_free(record, (char *)block + 16);
}

static void resize_inside(void *block)
{
    struct large_block *record = granule_map_get(block);
    large_resize(record, (char *)block + PAGE_BYTES, 1);
}

/* It would take tables for the owners of all those addresses, too. */
static void test_a_block_does_not_move_to_memory_that_cannot_be_had(void **state)
{
    (void)state;
    const size_t too_large = (size_t)1 << 42;
    char *block = large_alloc(16, MIB, false);
    uint64_t maps = page_calls.mmap, moves = page_calls.mremap;
    void *resized = resize(block, too_large);
    maps = page_calls.mmap - maps;
    moves = page_calls.mremap - moves;
    give(resized ? resized : block);
    if (resized)
        skip(); /* this kernel promises whatever is asked for */
    assert_in_range(maps, 0, 100);
    assert_int_equal(moves, 2); /* tries to grow in place */
}

static void test_a_pointer_into_a_block_is_refused(void **state)
{
    (void)state;
    void *block = large_alloc(16, MIB, true);
    assert_aborts(free_inside, block, "points into a block, not to its start");
    assert_aborts(resize_inside, block, "allotrope: realloc(0x");
    give(block);
}

/* The layer as an allocator, for the model. */

static void *alloc_zeroed(size_t size)
{
    return large_alloc(BLOCK_ALIGNMENT, size, true);
}

static void *alloc(size_t size)
{
    return large_alloc(BLOCK_ALIGNMENT, size, false);
}

static void *alloc_aligned(size_t alignment, size_t size)
{
    return large_alloc(alignment, size, false);
}

static size_t usable_size(const void *block)
{
    return record_of(block)->usable_bytes;
}

static bool owns(const void *address)
{
    return granule_map_get(address) != NULL;
}

static const struct allocator large = {
    .alloc = alloc,
    .alloc_zeroed = alloc_zeroed,
    .alloc_aligned = alloc_aligned,
    .free = give,
    .resize = resize,
    .usable_size = usable_size,
    .owns = owns,
    .walk = large_walk,
};

static void add_bytes(void *argument, const struct block_info *info)
{
    assert_int_equal(info->state, BLOCK_LIVE);
    *(size_t *)argument += info->usable_bytes;
}

static void test_agrees_with_a_model(void **state)
{
    (void)state;
    static struct model model = {.allocator = &large, .entries = 40};
    uint64_t random = 6, blocks, bytes;
    size_t walked_bytes = 0;
    for (int step = 0; step < 1000; step++) {
        const char *wrong = model_request(&model, random_below(&random, 2 * MIB));
        if (wrong)
            fail_msg("%s", wrong);
    }
    struct meeting meeting = model_meet(&model, 1);
    large_walk(add_bytes, &walked_bytes);
    large_statistics(&blocks, &bytes);
    assert_int_equal(meeting.unknown + meeting.elsewhere, 0);
    assert_int_equal(meeting.live, meeting.held);
    assert_int_equal(meeting.live, blocks);
    assert_int_equal(walked_bytes, bytes);
    assert_null(model_drop(&model));
    large_statistics(&blocks, &bytes);
    assert_int_equal(blocks, 0);
}

/* locked: the kernel refuses to discard as well. */
static void free_and_allocate_without_mappings(void *locked)
{
    /* Neighbours, which the kernel joins into one mapping: freeing the middle one splits it. */
    char *blocks[3];
    large_trim(0);
    for (int i = 0; i < 3; i++) {
        blocks[i] = large_alloc(16, MIB, true);
        require(blocks[i] != NULL);
        memset(blocks[i], 1, MIB);
    }
    if (blocks[0] != blocks[1] + MIB || blocks[1] != blocks[2] + MIB ||
        (locked && syscall(SYS_mlock, blocks[2], 3 * MIB) != 0) || !exhaust_mappings())
        _exit(CHILD_CANNOT_TELL);
    uint64_t refused = page_calls.unmap_refused, count, bytes;
    large_free(granule_map_get(blocks[1]), blocks[1]);
    large_trim(0);
    require(page_calls.unmap_refused == refused + 1);
    require(granule_map_get(blocks[1]) == NULL);
    large_statistics(&count, &bytes);
    require(count == 2 && bytes == 2 * MIB);
    /* Mapping memory may still succeed beside another mapping; parked blocks come after that. */
    limit_address_space(0);
    require(large_alloc(16, 2 * MIB, true) == NULL);
    char *aligned = large_alloc(4 * MIB, MIB, true), *again;
    /* One address in 64 is aligned so: then it is the parked block. */
    require(aligned == ((uintptr_t)blocks[1] % (4 * MIB) == 0 ? blocks[1] : NULL));
    if (aligned) {
        large_free(granule_map_get(aligned), aligned);
        large_trim(0);
    }
    again = large_alloc(16, MIB / 2, true);
    require(again == blocks[1]);
    require(is_zero(again, MIB));
    require(((struct large_block *)granule_map_get(again))->payload == again);
    large_free(granule_map_get(again), again);
    large_trim(0);
    require(large_alloc(16, MIB, true) == blocks[1]);
}

static void test_a_block_that_cannot_be_unmapped_is_parked_and_used_again(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(free_and_allocate_without_mappings, NULL);
}

static void test_a_parked_block_whose_contents_stayed_is_cleared(void **state)
{
    bool locked = true;
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(free_and_allocate_without_mappings, &locked);
}

static void shrink_without_mappings(void *argument)
{
    (void)argument;
    large_trim(0);
    char *upper = large_alloc(16, MIB, true), *lower = large_alloc(16, MIB, true);
    require(upper && lower);
    memset(lower, 1, MIB);
    if (upper != lower + MIB || !exhaust_mappings())
        _exit(CHILD_CANNOT_TELL);
    char *shrunk = large_resize(granule_map_get(lower), lower, MIB / 2);
    require(shrunk != NULL);
    require(shrunk[0] == 1 && shrunk[MIB / 2 - 1] == 1);
    struct large_block *record = granule_map_get(shrunk);
    require(record->payload == shrunk);
    shrunk[record->usable_bytes - 1] = 2;
    large_free(record, shrunk);
}

static void test_shrinking_never_fails(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(shrink_without_mappings, NULL);
}

static void allocate_to_the_limit(void *argument)
{
    (void)argument;
    limit_address_space(16 * MIB);
    char *block = large_alloc(16, 8 * MIB, true);
    require(block != NULL);
    memset(block, 1, 8 * MIB);
    require(!large_alloc(16, 16 * MIB, true));
    require(!large_resize(granule_map_get(block), block, 64 * MIB));
    require(((struct large_block *)granule_map_get(block))->usable_bytes == 8 * MIB);
    require(block[8 * MIB - 1] == 1);
    large_free(granule_map_get(block), block);
    require((block = large_alloc(16, 8 * MIB, true)) != NULL);
}

static void test_refused_memory_changes_nothing(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(allocate_to_the_limit, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_zero_aligned_and_of_whole_pages),
        cmocka_unit_test(test_a_freed_block_leaves_the_account_and_the_map_at_once),
        cmocka_unit_test(test_a_freed_block_serves_the_next_of_about_its_size),
        cmocka_unit_test(test_what_is_kept_is_bounded_and_the_oldest_goes_first),
        cmocka_unit_test(test_more_is_kept_beside_more_that_is_in_use),
        cmocka_unit_test(test_what_is_kept_gives_way_to_a_block_that_grows),
        cmocka_unit_test(test_no_bytes_are_a_page_and_impossible_sizes_are_refused),
        cmocka_unit_test(test_resizing_keeps_contents_map_and_account),
        cmocka_unit_test(test_a_block_moves_when_its_way_is_barred),
        cmocka_unit_test(test_a_block_does_not_move_to_memory_that_cannot_be_had),
        cmocka_unit_test(test_a_pointer_into_a_block_is_refused),
        cmocka_unit_test(test_agrees_with_a_model),
        cmocka_unit_test(test_a_block_that_cannot_be_unmapped_is_parked_and_used_again),
        cmocka_unit_test(test_a_parked_block_whose_contents_stayed_is_cleared),
        cmocka_unit_test(test_shrinking_never_fails),
        cmocka_unit_test(test_refused_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
