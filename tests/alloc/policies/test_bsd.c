/* SPDX-License-Identifier: MIT
 *
 * test_bsd.c: Kingsley's heap alone, over memory that the test deals out: adjoining or apart, and
 * refused when the test says so.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/policies/bsd.h"
#include "vm/pages.h"

enum { SEGMENTS = 16, GAP = 1 << 16 };
static const size_t SOURCE_BYTES = (size_t)64 << 20;

struct source {
    struct page_source pages;
    char *memory;
    char *starts[SEGMENTS], *ends[SEGMENTS];
    size_t count;
    size_t calls_until_refusal; /* counts down; 0: refuses */
    size_t calls_until_apart;   /* counts down; at 0 a segment begins */
    struct bsd_heap heap;
};

static struct source *of(struct page_source *pages)
{
    return (struct source *)((char *)pages - offsetof(struct source, pages));
}

static void *extend(struct page_source *pages, size_t bytes)
{
    struct source *source = of(pages);
    assert_int_equal(bytes % 8, 0);
    if (source->calls_until_refusal == 0)
        return NULL;
    source->calls_until_refusal--;
    if (source->count == 0 || source->calls_until_apart-- == 0) {
        char *last = source->count > 0 ? source->ends[source->count - 1] : source->memory;
        assert_true(source->count < SEGMENTS);
        char *start = source->memory + round_up((size_t)(last - source->memory) + 1, GAP);
        source->starts[source->count] = source->ends[source->count] = start;
        source->count++;
        source->calls_until_apart = SIZE_MAX;
    }
    char *start = source->ends[source->count - 1];
    if (bytes > (size_t)(source->memory + SOURCE_BYTES - start))
        return NULL;
    source->ends[source->count - 1] += bytes;
    return start;
}

static bool retract(struct page_source *pages, size_t bytes)
{
    struct source *source = of(pages);
    size_t last = source->count - 1;
    if (source->count == 0 || bytes > (size_t)(source->ends[last] - source->starts[last]))
        return false;
    source->ends[last] -= bytes;
    return true;
}

static bool segment(struct page_source *pages, size_t index, char **start, char **end)
{
    struct source *source = of(pages);
    if (index >= source->count)
        return false;
    *start = source->starts[index];
    *end = source->ends[index];
    return true;
}

static size_t handed_out(const struct source *source)
{
    size_t bytes = 0;
    for (size_t i = 0; i < source->count; i++)
        bytes += (size_t)(source->ends[i] - source->starts[i]);
    return bytes;
}

static int make_heap(void **state)
{
    struct source *source = calloc(1, sizeof *source);
    source->pages = (struct page_source){extend, retract, segment};
    source->memory = pages_map(SOURCE_BYTES, GAP);
    source->calls_until_refusal = source->calls_until_apart = SIZE_MAX;
    bsd_policy.init(&source->heap, &source->pages, NULL);
    *state = source;
    return source->memory ? 0 : -1;
}

static int drop_heap(void **state)
{
    struct source *source = *state;
    pages_unmap(source->memory, SOURCE_BYTES);
    free(source);
    return 0;
}

static void *take(struct source *source, size_t size)
{
    void *block = bsd_policy.alloc(&source->heap, size);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % BLOCK_ALIGNMENT, 0);
    return block;
}

static void give(struct source *source, void *block)
{
    bsd_policy.free(&source->heap, block);
}

static size_t usable(struct source *source, const void *block)
{
    return bsd_policy.usable_size(&source->heap, block);
}

static bool is_valid(struct source *source)
{
    return bsd_policy.is_valid(&source->heap);
}

static void test_class_is_the_least_power_that_holds_request_and_header(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300000; size++) {
        unsigned expected = 4;
        while (((size_t)1 << expected) < size + 8)
            expected++;
        assert_int_equal(bsd_class_of(size), expected);
    }
    assert_int_equal(bsd_class_of(((size_t)1 << 47) - 8), 47);
    assert_int_equal(bsd_class_of(((size_t)1 << 47) - 7), 48);
}

static void test_a_block_holds_its_class_at_both_boundaries(void **state)
{
    struct source *source = *state;
    for (unsigned size_class = 4; size_class <= 20; size_class++) {
        size_t most = ((size_t)1 << size_class) - 8;
        char *largest = take(source, most), *next = take(source, most + 1);
        assert_int_equal(usable(source, largest), most);
        assert_int_equal(usable(source, next), 2 * most + 8);
        memset(largest, 0xFF, most);
        memset(next, 0xFF, 2 * most + 8);
        assert_true(is_valid(source));
    }
    assert_int_equal(usable(source, take(source, 0)), 8);
}

static void test_refill_is_2048_bytes_in_ascending_order(void **state)
{
    struct source *source = *state;
    for (unsigned size_class = 4; size_class <= 11; size_class++) {
        size_t block_bytes = (size_t)1 << size_class, before = handed_out(source);
        char *first = take(source, block_bytes - 8);
        /* The first refill of all also passes over the 8 bytes that align payloads. */
        assert_int_equal(handed_out(source) - before, 2048 + (size_class == 4 ? 8 : 0));
        for (size_t i = 1; i < 2048 / block_bytes; i++)
            assert_ptr_equal(take(source, block_bytes - 8), first + i * block_bytes);
        assert_int_equal(handed_out(source) - before, 2048 + (size_class == 4 ? 8 : 0));
    }
}

static void test_a_refill_of_large_blocks_is_one_block(void **state)
{
    struct source *source = *state;
    take(source, 1);
    for (unsigned size_class = 12; size_class <= 22; size_class++) {
        size_t before = handed_out(source);
        take(source, ((size_t)1 << size_class) - 8);
        assert_int_equal(handed_out(source) - before, (size_t)1 << size_class);
    }
}

static void test_last_in_first_out(void **state)
{
    struct source *source = *state;
    void *blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = take(source, 100);
    static const int order[] = {3, 0, 4, 1, 2};
    for (int i = 0; i < 5; i++)
        give(source, blocks[order[i]]);
    for (int i = 5; i-- > 0;)
        assert_ptr_equal(take(source, 90), blocks[order[i]]);
}

static void test_blocks_are_never_merged_split_or_returned(void **state)
{
    struct source *source = *state;
    void *blocks[128]; /* one refill of the least class */
    for (int i = 0; i < 128; i++)
        blocks[i] = take(source, 8);
    void *large = take(source, 4088);
    size_t before = handed_out(source);
    for (int i = 0; i < 128; i++)
        give(source, blocks[i]);
    take(source, 2040); /* as large as all of them: not made of them */
    assert_int_equal(handed_out(source), before + 2048);
    give(source, large);
    take(source, 1000); /* smaller than the free one: not cut from it */
    assert_int_equal(handed_out(source), before + 2 * 2048);
    assert_null(bsd_policy.trim);
    assert_true(is_valid(source));
}

/* The expression of 1982, on the payload of the block: stay while
 * size <= payload && size > payload / 2 - header. */
static void test_realloc_stays_in_place_as_published(void **state)
{
    struct source *source = *state;
    for (unsigned size_class = 4; size_class <= 14; size_class++) {
        long payload = (1L << size_class) - 8;
        char *block = take(source, (size_t)payload);
        memset(block, 0x5A, (size_t)payload);
        for (long size = 1; size <= payload + 2; size++)
            assert_int_equal(bsd_policy.resize(&source->heap, block, (size_t)size),
                             size <= payload && size > payload / 2 - 8);
        assert_int_equal(usable(source, block), payload); /* blocks never change their size */
        assert_int_equal(block[payload - 1], 0x5A);
    }
}

static void test_aligned_blocks(void **state)
{
    struct source *source = *state;
    void *blocks[200];
    size_t count = 0;
    for (size_t alignment = 32; alignment <= (size_t)1 << 20; alignment *= 2)
        for (size_t size = 0; size <= 3000; size = 3 * size + 1) {
            char *block = bsd_policy.alloc_aligned(&source->heap, alignment, size);
            assert_non_null(block);
            assert_int_equal((uintptr_t)block % alignment, 0);
            assert_in_range(usable(source, block), size, SIZE_MAX);
            memset(block, 0xFF, usable(source, block));
            struct block_waste waste = bsd_policy.waste(&source->heap, block);
            assert_int_equal(waste.header_bytes, 8);
            assert_true(waste.alignment_bytes < alignment);
            /* Waste and what can be used are the whole block. */
            size_t bytes = usable(source, block) + waste.alignment_bytes + 8;
            assert_int_equal(bytes & (bytes - 1), 0);
            blocks[count++] = block;
        }
    assert_true(is_valid(source));
    size_t before = handed_out(source);
    while (count > 0)
        give(source, blocks[--count]);
    assert_true(is_valid(source));
    assert_non_null(bsd_policy.alloc_aligned(&source->heap, 1 << 20, 1));
    assert_int_equal(handed_out(source), before);
}

static void test_impossible_alignments_and_sizes_are_refused(void **state)
{
    struct source *source = *state;
    take(source, 1);
    size_t before = handed_out(source);
    assert_null(bsd_policy.alloc(&source->heap, (size_t)1 << 47));
    assert_null(bsd_policy.alloc(&source->heap, PTRDIFF_MAX));
    assert_null(bsd_policy.alloc_aligned(&source->heap, (size_t)1 << 62, (size_t)3 << 62));
    assert_null(bsd_policy.alloc_aligned(&source->heap, (size_t)1 << 63, 1));
    assert_null(bsd_policy.alloc_aligned(&source->heap, 32, PTRDIFF_MAX));
    assert_int_equal(handed_out(source), before);
    assert_true(is_valid(source));
}

struct tally {
    size_t blocks[3], bytes[3];
};

static void add_to_tally(void *argument, const struct block_info *info)
{
    struct tally *tally = argument;
    assert_int_equal(info->usable_bytes, info->block_bytes - 8);
    tally->blocks[info->state]++;
    tally->bytes[info->state] += info->block_bytes;
}

/* Random requests against a table of what is held: contents stay, the walk and the statistics
 * see what the table says, and together with the free blocks it tiles everything. */
static void test_agrees_with_a_model(void **state)
{
    enum { HELD = 400 };
    struct source *source = *state;
    struct {
        unsigned char *start;
        size_t size;
    } held[HELD] = {0};
    uint64_t random = 5;
    for (int step = 0; step < 30000; step++) {
        unsigned which = (unsigned)(next_random(&random) % HELD);
        unsigned char pattern = (unsigned char)which;
        if (held[which].start) {
            for (size_t i = 0; i < held[which].size; i++)
                assert_int_equal(held[which].start[i], pattern);
            give(source, held[which].start);
            held[which].start = NULL;
        } else {
            size_t size = next_random(&random) % (next_random(&random) % 64 == 0 ? 20000 : 300);
            held[which].start =
                next_random(&random) % 16 == 0
                    ? bsd_policy.alloc_aligned(&source->heap,
                                               (size_t)32 << next_random(&random) % 6, size)
                    : take(source, size);
            held[which].size = size;
            memset(held[which].start, pattern, size);
        }
        if (step % 3000 == 0)
            assert_true(is_valid(source));
    }
    struct tally tally = {0};
    struct heap_statistics statistics = {0};
    size_t live = 0;
    for (int i = 0; i < HELD; i++)
        live += held[i].start != NULL;
    bsd_policy.walk(&source->heap, add_to_tally, &tally);
    bsd_policy.statistics(&source->heap, &statistics);
    assert_int_equal(tally.blocks[BLOCK_LIVE], live);
    assert_int_equal(tally.blocks[BLOCK_CACHED], 0);
    assert_int_equal(tally.blocks[BLOCK_FREE], statistics.free_blocks);
    assert_int_equal(tally.bytes[BLOCK_FREE], statistics.free_bytes);
    assert_int_equal(tally.bytes[BLOCK_FREE] + tally.bytes[BLOCK_LIVE],
                     handed_out(source) - 8 * source->count);
}

static void test_memory_may_come_apart(void **state)
{
    struct source *source = *state;
    void *blocks[60];
    for (int i = 0; i < 60; i++) {
        if (i % 6 == 5)
            source->calls_until_apart = (size_t)(i / 6 % 2);
        blocks[i] = take(source, (size_t)40 << i % 10);
        memset(blocks[i], 0xFF, (size_t)40 << i % 10);
    }
    assert_true(source->count > 5);
    assert_true(is_valid(source));
    for (int i = 0; i < 60; i++)
        give(source, blocks[i]);
    assert_true(is_valid(source));
}

/* However many extensions succeed before the refusal, the heap stays whole and goes on when
 * there is memory again. */
static void test_refused_memory_leaves_the_heap_whole(void **state)
{
    struct source *source = *state;
    for (size_t calls = 0; calls < 4; calls++)
        for (size_t apart = 0; apart < 3; apart++) {
            drop_heap(state);
            make_heap(state);
            source = *state;
            if (apart > 0) {
                take(source, 100);
                source->calls_until_apart = apart - 1;
            }
            source->calls_until_refusal = calls;
            for (unsigned size_class = 4; size_class < 15; size_class++)
                bsd_policy.alloc(&source->heap, (size_t)1 << size_class);
            assert_null(bsd_policy.alloc(&source->heap, 100000));
            assert_true(is_valid(source));
            source->calls_until_refusal = SIZE_MAX;
            memset(take(source, 100000), 0xFF, 100000);
            assert_true(is_valid(source));
        }
}

static void free_it_twice(void *argument)
{
    void *block = take(argument, 50);
    give(argument, block);
    give(argument, block);
}

static void free_inside(void *argument)
{
    char *block = take(argument, 500);
    memset(block, 0, 500);
    give(argument, block + 64);
}

static void free_unaligned(void *argument)
{
    char *block = take(argument, 500);
    memset(block, 0, 500);
    give(argument, block + 1);
}

static void free_overwritten(void *argument)
{
    char *block = take(argument, 50), *next = take(argument, 50);
    memset(block, 'x', (size_t)(next - block));
    give(argument, next);
}

static void free_aligned_twice(void *argument)
{
    struct source *source = argument;
    /* Two, so that one of them has a back header. */
    void *blocks[2];
    for (int i = 0; i < 2; i++)
        blocks[i] = bsd_policy.alloc_aligned(&source->heap, 64, 1000);
    void *block =
        bsd_policy.waste(&source->heap, blocks[0]).alignment_bytes > 0 ? blocks[0] : blocks[1];
    give(source, block);
    give(source, block);
}

static void test_what_is_no_live_block_is_refused(void **state)
{
    assert_child_aborts(free_it_twice, *state, "allotrope: free(0x");
    assert_child_aborts(free_it_twice, *state, "freed twice");
    assert_child_aborts(free_inside, *state, "not a live block");
    assert_child_aborts(free_unaligned, *state, "not a live block");
    assert_child_aborts(free_overwritten, *state, "its header was overwritten");
    assert_child_aborts(free_aligned_twice, *state, "not a live block");
}

static void test_usable_size_of_what_is_no_block_is_nothing(void **state)
{
    struct source *source = *state;
    char *block = take(source, 500);
    memset(block, 0, 500);
    assert_int_equal(usable(source, block + 16), 0);
    give(source, block);
    assert_int_equal(usable(source, block), 0);
}

/* Each kind of damage, one at a time, on a heap that is valid before and, mended, after. */
static void test_is_valid_sees_planted_corruption(void **state)
{
    struct source *source = *state;
    void *blocks[20];
    for (int i = 0; i < 20; i++)
        blocks[i] = take(source, 100);
    for (int i = 0; i < 20; i += 2)
        give(source, blocks[i]);
    assert_true(is_valid(source));

    uint64_t *header = bsd_header(blocks[1]), saved = *header;
    *header ^= 1; /* its state */
    assert_false(is_valid(source));
    *header = saved ^ 1ULL << 40; /* its magic */
    assert_false(is_valid(source));
    *header = header_word(header, 8, HEADER_LIVE); /* another class, with the right magic */
    assert_false(is_valid(source));
    *header = saved;
    assert_true(is_valid(source));

    struct bsd_free_block *first = source->heap.free[7], *second = first->next;
    first->next = second->next; /* one lost from its list */
    assert_false(is_valid(source));
    first->next = first; /* a circular list */
    assert_false(is_valid(source));
    first->next = (struct bsd_free_block *)bsd_header(blocks[1]); /* a live block on the list */
    assert_false(is_valid(source));
    first->next = second;
    assert_true(is_valid(source));

    source->heap.free[6] = second; /* on two lists */
    assert_false(is_valid(source));
    source->heap.free[6] = NULL;
    assert_true(is_valid(source));
}

#define WITH_HEAP(test) cmocka_unit_test_setup_teardown(test, make_heap, drop_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_HEAP(test_class_is_the_least_power_that_holds_request_and_header),
        WITH_HEAP(test_a_block_holds_its_class_at_both_boundaries),
        WITH_HEAP(test_refill_is_2048_bytes_in_ascending_order),
        WITH_HEAP(test_a_refill_of_large_blocks_is_one_block),
        WITH_HEAP(test_last_in_first_out),
        WITH_HEAP(test_blocks_are_never_merged_split_or_returned),
        WITH_HEAP(test_realloc_stays_in_place_as_published),
        WITH_HEAP(test_aligned_blocks),
        WITH_HEAP(test_impossible_alignments_and_sizes_are_refused),
        WITH_HEAP(test_agrees_with_a_model),
        WITH_HEAP(test_memory_may_come_apart),
        WITH_HEAP(test_refused_memory_leaves_the_heap_whole),
        WITH_HEAP(test_what_is_no_live_block_is_refused),
        WITH_HEAP(test_usable_size_of_what_is_no_block_is_nothing),
        WITH_HEAP(test_is_valid_sees_planted_corruption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
