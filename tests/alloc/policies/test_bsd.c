/* SPDX-License-Identifier: MIT
 *
 * test_bsd.c: Kingsley's heap alone, over memory that the test deals out: adjoining or apart, and
 * refused when the test says so.
 */
#include "tests/unit/heap_unit.h"

#include "tests/unit/model.h"

static const struct heap_case plain = {&bsd_policy, {NULL}};

/* Calls for memory that succeed before the one that jumps, and before those that are refused. */
static size_t calls_until_jump, calls_until_refusal;

static enum source_decision count_down(void *argument)
{
    (void)argument;
    if (calls_until_refusal == 0)
        return SOURCE_REFUSE;
    calls_until_refusal--;
    return calls_until_jump-- == 0 ? SOURCE_JUMP : SOURCE_ADJOIN;
}

static size_t handed_out(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < heap.source.segment_count; i++)
        bytes += (size_t)(heap.source.segments[i].end - heap.source.segments[i].start);
    return bytes;
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
    (void)state;
    for (unsigned size_class = 4; size_class <= 20; size_class++) {
        size_t most = ((size_t)1 << size_class) - 8;
        char *largest = take(most), *next = take(most + 1);
        assert_int_equal(usable(largest), most);
        assert_int_equal(usable(next), 2 * most + 8);
        memset(largest, 0xFF, most);
        memset(next, 0xFF, 2 * most + 8);
        assert_true(heap_is_valid());
    }
    assert_int_equal(usable(take(0)), 8);
}

static void test_refill_is_2048_bytes_in_ascending_order(void **state)
{
    (void)state;
    for (unsigned size_class = 4; size_class <= 11; size_class++) {
        size_t block_bytes = (size_t)1 << size_class, before = handed_out();
        char *first = take(block_bytes - 8);
        /* The first refill of all also passes over the 8 bytes that align payloads. */
        assert_int_equal(handed_out() - before, 2048 + (size_class == 4 ? 8 : 0));
        for (size_t i = 1; i < 2048 / block_bytes; i++)
            assert_ptr_equal(take(block_bytes - 8), first + i * block_bytes);
        assert_int_equal(handed_out() - before, 2048 + (size_class == 4 ? 8 : 0));
    }
}

static void test_a_refill_of_large_blocks_is_one_block(void **state)
{
    (void)state;
    take(1);
    for (unsigned size_class = 12; size_class <= 22; size_class++) {
        size_t before = handed_out();
        take(((size_t)1 << size_class) - 8);
        assert_int_equal(handed_out() - before, (size_t)1 << size_class);
    }
}

static void test_the_block_freed_last_is_taken_first(void **state)
{
    (void)state;
    void *blocks[5];
    for (int i = 0; i < 5; i++)
        blocks[i] = take(100);
    static const int order[] = {3, 0, 4, 1, 2};
    for (int i = 0; i < 5; i++)
        give(blocks[order[i]]);
    for (int i = 5; i-- > 0;)
        assert_ptr_equal(take(90), blocks[order[i]]);
}

static void test_blocks_are_never_merged_split_or_returned(void **state)
{
    (void)state;
    void *blocks[128]; /* one refill of the least class */
    for (int i = 0; i < 128; i++)
        blocks[i] = take(8);
    void *large = take(4088);
    size_t before = handed_out();
    for (int i = 0; i < 128; i++)
        give(blocks[i]);
    take(2040); /* as large as all of them: not made of them */
    assert_int_equal(handed_out(), before + 2048);
    give(large);
    take(1000); /* smaller than the free one: not cut from it */
    assert_int_equal(handed_out(), before + 2 * 2048);
    assert_null(bsd_policy.trim);
    assert_true(heap_is_valid());
}

/* The expression of 1982, on the payload of the block: stay while
 * size <= payload && size > payload / 2 - header. It is unsigned: of the smallest class the
 * difference wraps, and no block stays. */
static void test_realloc_stays_in_place_as_published(void **state)
{
    (void)state;
    for (unsigned size_class = 4; size_class <= 14; size_class++) {
        size_t payload = ((size_t)1 << size_class) - 8, half = payload / 2 - 8;
        char *block = take(payload);
        memset(block, 0x5A, payload);
        for (size_t size = 1; size <= payload + 2; size++)
            assert_int_equal(resizes_in_place(block, size), size <= payload && size > half);
        assert_int_equal(resizes_in_place(block, payload), size_class > 4);
        assert_int_equal(usable(block), payload); /* blocks never change their size */
        assert_int_equal(block[payload - 1], 0x5A);
    }
}

static void test_aligned_blocks_waste_what_is_skipped_and_come_back(void **state)
{
    (void)state;
    void *blocks[200];
    size_t count = 0;
    for (size_t alignment = 32; alignment <= (size_t)1 << 20; alignment *= 2)
        for (size_t size = 0; size <= 3000; size = 3 * size + 1) {
            char *block = take_aligned(alignment, size);
            assert_in_range(usable(block), size, SIZE_MAX);
            memset(block, 0xFF, usable(block));
            struct block_waste waste = heap.policy->waste(heap.state, block);
            assert_int_equal(waste.header_bytes, 8);
            assert_true(waste.alignment_bytes < alignment);
            /* Waste and what can be used are the whole block. */
            size_t bytes = usable(block) + waste.alignment_bytes + 8;
            assert_int_equal(bytes & (bytes - 1), 0);
            blocks[count++] = block;
        }
    assert_true(heap_is_valid());
    size_t before = handed_out();
    while (count > 0)
        give(blocks[--count]);
    assert_true(heap_is_valid());
    take_aligned(1 << 20, 1);
    assert_int_equal(handed_out(), before);
}

static char *take_far(size_t alignment)
{
    char *block = take_aligned(alignment, 100);
    memset(block, 0xFF, 100);
    return block;
}

/* The way from the payload back to the block's own does not fit one header. */
static void test_aligned_blocks_far_behind_their_start_come_back(void **state)
{
    (void)state;
    for (size_t alignment = (size_t)1 << 27; alignment <= (size_t)1 << 30; alignment *= 2) {
        take(40); /* so that the way is no multiple of anything */
        char *block = take_far(alignment);
        assert_in_range(usable(block), 100, SIZE_MAX);
        size_t bytes = usable(block) + heap.policy->waste(heap.state, block).alignment_bytes + 8;
        assert_int_equal(bytes, 2 * alignment);
        assert_true(heap_is_valid());
        give(block);
        assert_true(heap_is_valid());
        assert_ptr_equal(take_far(alignment), block);
        give(block);
    }
}

static void free_far_twice(void *argument)
{
    (void)argument;
    char *block = take_far((size_t)1 << 29);
    give(block);
    give(block);
}

/* Where the header on the way stands. A way is less than 512 MiB here, so of two that differ by
 * 256 MiB one has that header. */
static void free_on_the_way(void *argument)
{
    (void)argument;
    const size_t far = (size_t)1 << 28;
    char *block = take_far(2 * far);
    if (heap.policy->waste(heap.state, block).alignment_bytes < far) {
        take(far - 100);
        block = take_far(2 * far);
    }
    assert_in_range(heap.policy->waste(heap.state, block).alignment_bytes, far, 2 * far - 1);
    give(block - far);
}

static void test_impossible_alignments_and_sizes_are_refused(void **state)
{
    (void)state;
    take(1);
    size_t before = handed_out();
    assert_null(heap_alloc((size_t)1 << 47));
    assert_null(heap_alloc(PTRDIFF_MAX));
    assert_null(heap_alloc_aligned((size_t)1 << 62, (size_t)3 << 62));
    assert_null(heap_alloc_aligned((size_t)1 << 63, 1));
    assert_null(heap_alloc_aligned(32, PTRDIFF_MAX));
    assert_int_equal(handed_out(), before);
    assert_true(heap_is_valid());
}

struct tally {
    size_t bytes[3]; /* of each state */
};

static void add_to_tally(void *argument, const struct block_info *info)
{
    struct tally *tally = argument;
    assert_int_equal(info->usable_bytes, info->block_bytes - 8);
    tally->bytes[info->state] += info->block_bytes;
}

/* And what a walk meets tiles everything. */
static void test_agrees_with_a_model(void **state)
{
    (void)state;
    static struct model model = {.allocator = &heap_allocator, .entries = 400};
    uint64_t random = 5;
    for (int step = 0; step < 30000; step++) {
        size_t bytes = random_below(&random, random_below(&random, 64) == 0 ? 20000 : 300);
        const char *wrong = model_request(&model, bytes);
        if (wrong)
            fail_msg("%s", wrong);
        if (step % 3000 == 0)
            assert_true(heap_is_valid());
    }
    struct meeting meeting = model_meet(&model, 1);
    struct tally tally = {0};
    heap_walk(add_to_tally, &tally);
    assert_int_equal(meeting.live, meeting.held);
    assert_int_equal(meeting.unknown, 0);
    assert_int_equal(meeting.cached_blocks, 0);
    assert_int_equal(meeting.free_blocks, statistics().free_blocks);
    assert_int_equal(meeting.free_bytes, statistics().free_bytes);
    assert_int_equal(tally.bytes[BLOCK_FREE], meeting.free_bytes);
    assert_int_equal(tally.bytes[BLOCK_FREE] + tally.bytes[BLOCK_LIVE],
                     handed_out() - 8 * heap.source.segment_count);
}

static void test_memory_may_come_in_segments_apart(void **state)
{
    (void)state;
    void *blocks[60];
    calls_until_refusal = calls_until_jump = SIZE_MAX;
    heap.source.decide = count_down;
    for (int i = 0; i < 60; i++) {
        if (i % 6 == 5)
            calls_until_jump = (size_t)(i / 6 % 2);
        blocks[i] = take((size_t)40 << i % 10);
        memset(blocks[i], 0xFF, (size_t)40 << i % 10);
    }
    assert_true(heap.source.segment_count > 5);
    assert_true(heap_is_valid());
    for (int i = 0; i < 60; i++)
        give(blocks[i]);
    assert_true(heap_is_valid());
}

/* However many extensions succeed before the refusal, the heap stays whole and goes on when
 * there is memory again. */
static void test_refused_memory_leaves_the_heap_whole(void **state)
{
    for (size_t calls = 0; calls < 4; calls++)
        for (size_t apart = 0; apart < 3; apart++) {
            end_heap(state);
            begin_heap(state);
            calls_until_refusal = calls_until_jump = SIZE_MAX;
            heap.source.decide = count_down;
            if (apart > 0) {
                take(100);
                calls_until_jump = apart - 1;
            }
            calls_until_refusal = calls;
            for (unsigned size_class = 4; size_class < 15; size_class++)
                heap_alloc((size_t)1 << size_class);
            assert_null(heap_alloc(100000));
            assert_true(heap_is_valid());
            calls_until_refusal = SIZE_MAX;
            memset(take(100000), 0xFF, 100000);
            assert_true(heap_is_valid());
        }
}

static void free_it_twice(void *argument)
{
    (void)argument;
    void *block = take(50);
    give(block);
    give(block);
}

static void free_inside(void *argument)
{
    (void)argument;
    char *block = take(500);
    memset(block, 0, 500);
    give(block + 64);
}

static void free_unaligned(void *argument)
{
    (void)argument;
    char *block = take(500);
    memset(block, 0, 500);
    give(block + 1);
}

static void free_overwritten(void *argument)
{
    (void)argument;
    char *block = take(50), *next = take(50);
    memset(block, 'x', (size_t)(next - block));
    give(next);
}

static void free_aligned_twice(void *argument)
{
    (void)argument;
    /* Two, so that one of them has a back header. */
    void *blocks[2];
    for (int i = 0; i < 2; i++)
        blocks[i] = heap_alloc_aligned(64, 1000);
    void *block =
        heap.policy->waste(heap.state, blocks[0]).alignment_bytes > 0 ? blocks[0] : blocks[1];
    give(block);
    give(block);
}

static void test_what_is_no_live_block_is_refused(void **state)
{
    (void)state;
    assert_aborts(free_it_twice, NULL, "allotrope: free(0x");
    assert_aborts(free_it_twice, NULL, "freed twice");
    assert_aborts(free_inside, NULL, "not a live block");
    assert_aborts(free_unaligned, NULL, "not a live block");
    assert_aborts(free_overwritten, NULL, "its header was overwritten");
    assert_aborts(free_aligned_twice, NULL, "not a live block");
    assert_aborts(free_far_twice, NULL, "not a live block");
    assert_aborts(free_on_the_way, NULL, "not a live block");
}

static void test_usable_size_of_what_is_no_block_is_nothing(void **state)
{
    (void)state;
    char *block = take(500);
    memset(block, 0, 500);
    assert_int_equal(usable(block + 16), 0);
    give(block);
    assert_int_equal(usable(block), 0);
}

/* Each kind of damage, one at a time, on a heap that is valid before and, mended, after. */
static void test_is_valid_sees_planted_corruption(void **state)
{
    (void)state;
    struct bsd_heap *bsd = heap.state;
    void *blocks[20];
    for (int i = 0; i < 20; i++)
        blocks[i] = take(100);
    for (int i = 0; i < 20; i += 2)
        give(blocks[i]);
    assert_true(heap_is_valid());

    uint64_t *header = bsd_header(blocks[1]), saved = *header;
    *header ^= 1; /* its state */
    assert_false(heap_is_valid());
    *header = saved ^ 1ULL << 40; /* its magic */
    assert_false(heap_is_valid());
    *header = header_word(header, 8, HEADER_LIVE); /* another class, with the right magic */
    assert_false(heap_is_valid());
    *header = saved;
    assert_true(heap_is_valid());

    struct bsd_free_block *first = bsd->free[7], *second = first->next;
    first->next = second->next; /* one lost from its list */
    assert_false(heap_is_valid());
    first->next = first; /* a circular list */
    assert_false(heap_is_valid());
    first->next = (struct bsd_free_block *)bsd_header(blocks[1]); /* a live block on the list */
    assert_false(heap_is_valid());
    first->next = second;
    assert_true(heap_is_valid());

    bsd->free[6] = second; /* on two lists */
    assert_false(heap_is_valid());
    bsd->free[6] = NULL;
    assert_true(heap_is_valid());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HEAP_TEST(test_class_is_the_least_power_that_holds_request_and_header, plain),
        HEAP_TEST(test_a_block_holds_its_class_at_both_boundaries, plain),
        HEAP_TEST(test_refill_is_2048_bytes_in_ascending_order, plain),
        HEAP_TEST(test_a_refill_of_large_blocks_is_one_block, plain),
        HEAP_TEST(test_the_block_freed_last_is_taken_first, plain),
        HEAP_TEST(test_blocks_are_never_merged_split_or_returned, plain),
        HEAP_TEST(test_realloc_stays_in_place_as_published, plain),
        HEAP_TEST(test_aligned_blocks_waste_what_is_skipped_and_come_back, plain),
        HEAP_TEST(test_aligned_blocks_far_behind_their_start_come_back, plain),
        HEAP_TEST(test_impossible_alignments_and_sizes_are_refused, plain),
        HEAP_TEST(test_agrees_with_a_model, plain),
        HEAP_TEST(test_memory_may_come_in_segments_apart, plain),
        HEAP_TEST(test_refused_memory_leaves_the_heap_whole, plain),
        HEAP_TEST(test_what_is_no_live_block_is_refused, plain),
        HEAP_TEST(test_usable_size_of_what_is_no_block_is_nothing, plain),
        HEAP_TEST(test_is_valid_sees_planted_corruption, plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
