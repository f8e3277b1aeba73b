/* SPDX-License-Identifier: MIT
 *
 * test_statistics.c: what is counted of each call, and what is remembered of the peak.
 *
 * The allocator is made up: its blocks are addresses that nobody reads.
 */
#include "tests/unit/unit.h"

/* Included, not linked: its state is made anew for each test. */
#include "shim/observers/statistics.c"

enum { HEADER = 8, PADDING = 48, MOST_BLOCKS = 1000 };
static const uintptr_t BASE = (uintptr_t)1 << 45;
static const uint64_t GIB = (uint64_t)1 << 30;

static struct {
    uintptr_t next; /* block */
    size_t slack, step;
    bool is_empty; /* has no block to give */
    size_t usable[MOST_BLOCKS];
    size_t frees;
} heap;

static size_t number_of(const void *block)
{
    size_t number = ((uintptr_t)block - BASE) / heap.step;
    assert_true(number < MOST_BLOCKS);
    return number;
}

static void *give(size_t size)
{
    void *block = (void *)heap.next;
    if (heap.is_empty)
        return NULL;
    heap.usable[number_of(block)] = size + heap.slack;
    heap.next += heap.step;
    return block;
}

static void *give_aligned(size_t alignment, size_t size)
{
    (void)alignment;
    return give(size);
}

static void take_back(void *block)
{
    heap.usable[number_of(block)] = 0;
    heap.frees++;
}

static void *give_resized(void *block, size_t size)
{
    void *resized = give(size);
    if (resized)
        heap.usable[number_of(block)] = 0;
    return resized;
}

static size_t usable_bytes_of(const void *block)
{
    return heap.usable[number_of(block)];
}

static size_t ask_nothing(const void *block)
{
    (void)block;
    fail_msg("the next allocator is asked for a block's usable size");
    return 0;
}

static bool has(const void *address)
{
    return (uintptr_t)address >= BASE;
}

static struct block_waste waste_of(const void *block)
{
    (void)block;
    return (struct block_waste){HEADER, PADDING};
}

static size_t cached(void)
{
    return 7;
}

static const struct allocator made_up = {.name = "test", .waste = waste_of, .cached_bytes = cached};
static const struct allocator passing = {.name = "next", .cached_bytes = cached};
const struct allocator *const pass_through = &passing;
static struct configuration configuration;

struct output_pattern observer_destination(const char *value, const char *variable)
{
    (void)variable;
    return (struct output_pattern){.text = value};
}

void publish_counter(const char *name, const void *counter)
{
    (void)name, (void)counter;
}

size_t option_count(const struct allocator *allocator)
{
    (void)allocator;
    return 0;
}

void outside_statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){0};
}

static int begin(void **state)
{
    (void)state;
    memset(&account, 0, sizeof account);
    memset(&heap, 0, sizeof heap);
    heap.next = BASE;
    heap.step = BLOCK_ALIGNMENT;
    heap.slack = 12;
    configuration.allocator = &made_up;
    account.configuration = &configuration;
    account.lock = (struct lock)LOCK_INITIALIZER(RANK_ACCOUNT);
    account.started = monotonic_ns();
    account.inner = (struct route){.alloc = give,
                                   .alloc_zeroed = give,
                                   .alloc_aligned = give_aligned,
                                   .free = take_back,
                                   .resize = give_resized,
                                   .usable_size = usable_bytes_of,
                                   .owns = has};
    return 0;
}

static void assert_live(uint64_t blocks, uint64_t requested, uint64_t usable)
{
    assert_int_equal(account.live.blocks, blocks);
    assert_int_equal(account.live.requested, requested);
    assert_int_equal(account.live.usable, usable);
    assert_int_equal(account.live.header, blocks * HEADER);
    assert_int_equal(account.live.alignment, blocks * PADDING);
}

static void test_a_block_counts_from_its_allocation_to_its_free(void **state)
{
    (void)state;
    void *first = counted_alloc(100), *second = counted_alloc(50);
    assert_live(2, 150, 174);
    counted_free(first);
    assert_live(1, 50, 62);
    counted_free(second);
    assert_live(0, 0, 0);
    assert_int_equal(heap.frees, 2);
    assert_int_equal(account.total_blocks, 2);
    assert_int_equal(account.total_requested, 150);
    assert_int_equal(account.most_requested, 150);
}

static void test_each_kind_of_call_is_counted_by_itself(void **state)
{
    (void)state;
    void *block = counted_alloc(1);
    for (int i = 0; i < 2; i++)
        counted_alloc_zeroed(1);
    for (int i = 0; i < 3; i++)
        counted_alloc_aligned(64, 1);
    for (int i = 0; i < 4; i++)
        block = counted_resize(block, 1);
    counted_free(block);
    assert_int_equal(account.malloc_calls, 1);
    assert_int_equal(account.calloc_calls, 2);
    assert_int_equal(account.aligned_calls, 3);
    assert_int_equal(account.realloc_calls, 4);
    assert_int_equal(account.free_calls, 1);
    assert_int_equal(account.total_blocks, 10);
}

static void test_a_call_that_gets_no_block_is_counted_as_a_call(void **state)
{
    (void)state;
    void *block = counted_alloc(100);
    heap.is_empty = true;
    assert_null(counted_alloc(1));
    assert_null(counted_resize(block, 200));
    assert_int_equal(account.malloc_calls, 2);
    assert_int_equal(account.realloc_calls, 1);
    assert_int_equal(account.total_blocks, 1);
    assert_live(1, 100, 112); /* the old block is still there */
}

static void test_a_resized_block_takes_the_place_of_the_old_one(void **state)
{
    (void)state;
    counted_resize(counted_alloc(100), 300);
    assert_live(1, 300, 312);
    assert_int_equal(account.free_calls, 0);
    assert_int_equal(account.total_requested, 400);
}

/* The allocator reports it. */
static void test_a_second_free_takes_nothing_away(void **state)
{
    (void)state;
    void *block = counted_alloc(100);
    counted_alloc(30);
    counted_free(block);
    counted_free(block);
    assert_live(1, 30, 42);
    assert_int_equal(account.free_calls, 2);
    assert_int_equal(heap.frees, 2);
}

static void test_sizes_are_counted_by_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        size_t size, power;
    } cases[] = {
        {0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {64, 6}, {65, 7}, {(size_t)1 << 40, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t before = account.sizes[cases[i].power];
        counted_alloc(cases[i].size);
        assert_int_equal(account.sizes[cases[i].power], before + 1);
    }
}

/* A large one in words of the block's second and third 16 bytes, which are no other block's. */
static void test_a_slack_of_any_size_is_remembered(void **state)
{
    (void)state;
    const uint64_t slacks[] = {0, 12, UINT32_MAX - UINT64_C(1), UINT32_MAX, 4 * GIB, 5 * GIB + 123};
    heap.step = 3 * BLOCK_ALIGNMENT;
    for (size_t i = 0; i < sizeof slacks / sizeof *slacks; i++) {
        heap.slack = slacks[i];
        void *block = counted_alloc(1000), *next = counted_alloc(1000);
        assert_live(2, 2000, 2000 + 2 * slacks[i]);
        counted_free(block);
        assert_live(1, 1000, 1000 + slacks[i]);
        counted_free(next);
        assert_live(0, 0, 0);
    }
}

/* The usable size is not known there. Blocks may lie 8 bytes apart. */
static void test_in_pass_through_sizes_are_remembered_and_nobody_is_asked(void **state)
{
    (void)state;
    configuration.allocator = &passing;
    account.inner.usable_size = ask_nothing;
    heap.step = 8;
    void *blocks[100];
    for (size_t i = 0; i < 100; i++)
        blocks[i] = counted_alloc(i);
    assert_int_equal(account.live.blocks, 100);
    assert_int_equal(account.live.requested, 4950);
    for (size_t i = 0; i < 100; i += 2)
        counted_free(blocks[i]);
    assert_int_equal(account.live.blocks, 50);
    assert_int_equal(account.live.requested, 2500);
    counted_resize(blocks[99], 1000);
    assert_int_equal(account.live.requested, 3401);
}

static void test_the_peak_is_that_of_a_moment_near_the_most(void **state)
{
    (void)state;
    void *blocks[MOST_BLOCKS / 2];
    for (size_t i = 0; i < MOST_BLOCKS / 2; i++) {
        blocks[i] = counted_alloc(997);
        const struct sums *peak = &account.peak.live;
        assert_int_equal(peak->requested, peak->blocks * 997);
        assert_int_equal(peak->usable, peak->blocks * (997 + 12));
        assert_true(peak->requested <= account.live.requested);
        assert_true(account.live.requested <= peak->requested + peak->requested / 32 + 1);
        assert_true(account.live.requested <= peak->requested + peak->requested / 128 + 4096);
    }
    const struct snapshot last = account.peak;
    for (size_t i = 0; i < MOST_BLOCKS / 2; i++)
        counted_free(blocks[i]);
    counted_alloc(997);
    assert_memory_equal(&account.peak, &last, sizeof last);
    assert_int_equal(account.most_requested, MOST_BLOCKS / 2 * 997);
    assert_int_equal(last.cached, 7);
}

/* What is mapped and is neither asked for nor waste of another kind. */
static void test_external_waste_is_the_rest_of_what_is_mapped(void **state)
{
    (void)state;
    struct snapshot peak = {
        .live = {.requested = 1000, .header = 20, .alignment = 3}, .mapped = 5000, .cached = 400};
    assert_int_equal(external_waste(&peak, 77), 5000 - 1000 - 20 - 3 - 400 - 77);
    peak.mapped = 1400; /* other threads run meanwhile */
    assert_int_equal(external_waste(&peak, 77), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_block_counts_from_its_allocation_to_its_free, begin),
        cmocka_unit_test_setup(test_each_kind_of_call_is_counted_by_itself, begin),
        cmocka_unit_test_setup(test_a_call_that_gets_no_block_is_counted_as_a_call, begin),
        cmocka_unit_test_setup(test_a_resized_block_takes_the_place_of_the_old_one, begin),
        cmocka_unit_test_setup(test_a_second_free_takes_nothing_away, begin),
        cmocka_unit_test_setup(test_sizes_are_counted_by_powers_of_two, begin),
        cmocka_unit_test_setup(test_a_slack_of_any_size_is_remembered, begin),
        cmocka_unit_test_setup(test_in_pass_through_sizes_are_remembered_and_nobody_is_asked,
                               begin),
        cmocka_unit_test_setup(test_the_peak_is_that_of_a_moment_near_the_most, begin),
        cmocka_unit_test_setup(test_external_waste_is_the_rest_of_what_is_mapped, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
