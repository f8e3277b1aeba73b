/* SPDX-License-Identifier: MIT
 *
 * test_slow.c: where malloc looks for free blocks, in which order, and what it asks a collector.
 * Each test has size classes of its own, which nobody else uses.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "alloc/allocator.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/slow.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/single_step.h"
#include "tests/unit/unit.h"

/* A collector that answers as a test says, GROW behind the end, and notes what it was asked. */
enum { MOST_ASKED = 8 };
static struct {
    enum growth answers[MOST_ASKED];
    size_t answer_count, asked;
    unsigned tries[MOST_ASKED];
    bool exhausted[MOST_ASKED];
    size_t alignment, bytes; /* the last */
    void (*collection)(void);
    bool collects; /* when a thread needs blocks, not when it needs memory */
} script;

static void begin_script(size_t count, const enum growth answers[], void (*collection)(void))
{
    memset(&script, 0, sizeof script);
    for (size_t i = 0; i < count; i++)
        script.answers[i] = answers[i];
    script.answer_count = count;
    script.collection = collection;
}

static enum growth before_growth(size_t alignment, size_t bytes, unsigned tries, bool exhausted)
{
    size_t at = script.asked++;
    if (at < MOST_ASKED) {
        script.tries[at] = tries;
        script.exhausted[at] = exhausted;
    }
    script.alignment = alignment;
    script.bytes = bytes;
    enum growth answer = at < script.answer_count ? script.answers[at] : GROW;
    if (answer == RETRY && script.collection)
        script.collection();
    return answer;
}

static bool collect_if_due(void)
{
    if (!script.collects)
        return false;
    script.collection();
    return true;
}

static struct blocks_collector collector = {.before_growth = before_growth,
                                            .collect_if_due = collect_if_due};

static struct bin *bin_for(size_t bytes)
{
    return &thread_heap->bins[size_class_of(bytes)];
}

static uint32_t slabs_of(size_t bytes)
{
    return blocks_heap.class_slabs[size_class_of(bytes)];
}

/* Takes all blocks of a new slab. */
static struct slab *take_slab(size_t bytes)
{
    struct slab *slab = slab_at(blocks_alloc(bytes));
    for (size_t i = 1; i < slab->capacity; i++)
        assert_ptr_equal(slab_at(blocks_alloc(bytes)), slab);
    return slab;
}

/* As a sweep does that finds the first so many dead. */
static void sweep_slab(struct slab *slab, size_t dead)
{
    for (size_t i = 0; i < dead; i++) {
        size_t word = i / SLAB_WORD_BLOCKS;
        slab_set_free(&slab->words[word], slab_bit(i));
        blocks_clear_live(slab, word, slab_bit(i), false);
    }
}

static void end_sweep(void)
{
    blocks_lock();
    blocks_swept();
    blocks_unlock();
}

enum { ORDER_BYTES = 256, ORDER_CAPACITY = GRANULE_BYTES / ORDER_BYTES };

static void *take_one_and_exit(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(ORDER_BYTES);
    blocks_thread_exit();
    return block;
}

static struct slab *abandon_slab(void)
{
    pthread_t thread;
    void *block;
    assert_int_equal(pthread_create(&thread, NULL, take_one_and_exit, NULL), 0);
    pthread_join(thread, &block);
    assert_int_equal(slab_at(block)->state, SLAB_ABANDONED);
    return slab_at(block);
}

static void test_a_new_slab_comes_after_all_that_is_free_in_others(void **state)
{
    (void)state;
    enum { ENOUGH = ORDER_CAPACITY / 8 };
    begin_script(0, NULL, NULL);
    struct slab *available = take_slab(ORDER_BYTES), *queued = take_slab(ORDER_BYTES);
    struct slab *current = slab_at(blocks_alloc(ORDER_BYTES));
    size_t taken = 1;
    for (; current_free_word(bin_for(ORDER_BYTES)) != 0; taken++)
        blocks_alloc(ORDER_BYTES);
    bin_for(ORDER_BYTES)->local_free_room = 0;
    for (size_t i = 0; i < ENOUGH; i++) {
        blocks_free(slab_block(available, i));
        push_remote_free(queued, slab_block(queued, i), i);
    }
    struct slab *abandoned = abandon_slab();
    const struct {
        struct slab *slab;
        size_t blocks;
    } order[] = {{current, ORDER_CAPACITY - taken},
                 {queued, ENOUGH},
                 {available, ENOUGH},
                 {abandoned, ORDER_CAPACITY - 1}};
    script.asked = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (size_t n = 0; n < order[i].blocks; n++)
            assert_ptr_equal(slab_at(blocks_alloc(ORDER_BYTES)), order[i].slab);
    assert_int_equal(script.asked, 0);
    assert_int_equal(slabs_of(ORDER_BYTES), 4);
    assert_non_null(blocks_alloc(ORDER_BYTES));
    assert_int_equal(script.asked, 1);
    assert_int_equal(script.alignment, BLOCK_ALIGNMENT);
    assert_int_equal(script.bytes, GRANULE_BYTES);
    assert_int_equal(slabs_of(ORDER_BYTES), 5);
}

static struct slab *dead_slab;
static size_t dead_blocks;

static void collect_dead_slab(void)
{
    sweep_slab(dead_slab, dead_blocks);
    end_sweep();
}

static void test_what_a_collection_has_freed_comes_before_a_new_slab(void **state)
{
    (void)state;
    enum { BYTES = 320 };
    begin_script(1, (enum growth[]){RETRY}, collect_dead_slab);
    script.asked = 1; /* not for the first slabs */
    dead_slab = take_slab(BYTES);
    dead_blocks = dead_slab->capacity / 8;
    take_slab(BYTES);
    script.asked = 0;
    assert_ptr_equal(slab_at(blocks_alloc(BYTES)), dead_slab);
    assert_int_equal(script.asked, 1);
    assert_int_equal(slabs_of(BYTES), 2);
}

static size_t refusals;

static void count_refusal(void)
{
    refusals++;
}

static void test_a_collector_is_asked_again_until_it_refuses(void **state)
{
    (void)state;
    enum { BYTES = 352 };
    begin_script(4, (enum growth[]){RETRY, RETRY, RETRY, REFUSE}, NULL);
    refusals = 0;
    allocator_out_of_memory = count_refusal;
    assert_null(blocks_alloc(BYTES));
    assert_int_equal(refusals, 1);
    assert_int_equal(script.asked, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(script.tries[i], i);
        assert_false(script.exhausted[i]);
    }
    assert_null(alloc_slowly((size_t)PTRDIFF_MAX + 1));
    assert_int_equal(refusals, 2);
    assert_int_equal(script.asked, 4); /* nobody was asked for that much */
    assert_non_null(blocks_alloc(BYTES));
    allocator_out_of_memory = NULL;
}

/* The slab of another size that has become empty serves this one. */
static void test_all_bins_are_looked_through_after_a_collection_that_came_before(void **state)
{
    (void)state;
    enum { BYTES = 384, OTHER = 2560 };
    begin_script(0, NULL, collect_dead_slab);
    dead_slab = take_slab(OTHER);
    dead_blocks = dead_slab->capacity;
    assert_non_null(blocks_alloc(OTHER));
    size_t used = blocks_heap.runs.used_granules;
    script.collects = true;
    assert_non_null(blocks_alloc(BYTES));
    script.collects = false;
    assert_int_equal(slabs_of(OTHER), 1);
    assert_int_equal(slabs_of(BYTES), 1);
    assert_int_equal(blocks_heap.runs.used_granules, used);
}

/* In a child: the heap gets no more memory than for two slabs. */
static void go_over_to_another_size(void *unused)
{
    (void)unused;
    enum { BYTES = 2048, CAPACITY = GRANULE_BYTES / BYTES, OTHER = 4096 };
    static const enum growth answers[] = {GROW, GROW, REFUSE};
    struct slab *slab = NULL, *before = NULL;
    for (void *block; begin_script(3, answers, NULL), (block = blocks_alloc(BYTES)) != NULL;)
        if (slab_at(block) != slab) {
            before = slab;
            slab = slab_at(block);
            blocks_heap.runs.area.held = before != NULL;
        }
    require(before && script.asked == 3);
    for (unsigned i = 0; i < 3; i++)
        require(script.tries[i] == i && script.exhausted[i] == (i > 0));
    struct bin *bin = bin_for(BYTES);
    bin->local_free_room = 0;
    for (size_t i = 0; i < CAPACITY / 8; i++)
        blocks_free(slab_block(before, i)); /* now it may not be the bin's only slab */
    bin->local_free_room = local_free_limit(BYTES);
    for (size_t i = 0; i < CAPACITY; i++)
        blocks_free(slab_block(slab, i));
    require(count_free(slab) == 0); /* they are listed, and hold the whole slab */
    char *base = slab->base;
    begin_script(3, answers, NULL);
    void *other = blocks_alloc(OTHER);
    require(other && slab_at(other)->base == base);
    require(script.asked == 2 && !script.exhausted[0] && script.exhausted[1]);
    require(bin->local_free == NULL && blocks_is_valid());
}

static void test_without_memory_what_lists_hold_serves_another_size(void **state)
{
    (void)state;
    assert_child_succeeds(go_over_to_another_size, NULL);
}

/* A collector that must see each allocation. */
static size_t seen;

static void see_allocation(void)
{
    seen++;
}

static void *allocate_and_free(void *unused)
{
    (void)unused;
    enum { ROUNDS = 300 };
    for (size_t i = 0; i < ROUNDS; i++) {
        void *one = blocks_alloc(48), *other = blocks_alloc(i % 10 == 0 ? 100000 : 48);
        blocks_free(one);
        require(seen == 2 * (i + 1));
        blocks_free(other);
    }
    return NULL;
}

static void allocate_in_sight(void *unused)
{
    pthread_t thread;
    collector.before_allocation = see_allocation;
    blocks_heap.unused_thread_heaps = NULL; /* they are ready for threads with local free lists */
    require(pthread_create(&thread, NULL, allocate_and_free, unused) == 0);
    pthread_join(thread, NULL);
}

static void test_a_collector_that_counts_sees_every_allocation(void **state)
{
    (void)state;
    memset(&script, 0, sizeof script);
    assert_child_succeeds(allocate_in_sight, NULL);
}

/* A signal handler's malloc, at any instruction, takes a block where the bin points. */

enum { STEPPED_BYTES = 80 };
static volatile size_t split, steps;

static void look_at_bin(int number)
{
    const struct bin *bin = bin_for(STEPPED_BYTES);
    (void)number;
    steps++;
    if (bin->free_word &&
        bin->word_base != slab_block(bin->current, current_word(bin) * SLAB_WORD_BLOCKS))
        split++;
}

static void test_a_bin_never_has_one_word_and_the_base_of_another(void **state)
{
    (void)state;
    enum { BLOCKS = 4 * SLAB_WORD_BLOCKS };
    begin_script(0, NULL, NULL);
    assert_int_equal(sigaction(SIGTRAP, &(struct sigaction){.sa_handler = look_at_bin}, NULL), 0);
    split = steps = 0;
    step(true);
    for (int i = 0; i < BLOCKS; i++)
        blocks_alloc(STEPPED_BYTES);
    step(false);
    assert_in_range(steps, BLOCKS * 5, SIZE_MAX);
    assert_int_equal(split, 0);
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, &collector) && start_thread() ? 0 : -1;
}

static int check_heap(void **state)
{
    (void)state;
    struct bin *bin = bin_for(ORDER_BYTES);
    if (!bin->local_free)
        bin->local_free_room = local_free_limit(ORDER_BYTES);
    return blocks_is_valid() ? 0 : -1;
}

#define SLOW_TEST(test) cmocka_unit_test_teardown(test, check_heap)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SLOW_TEST(test_a_new_slab_comes_after_all_that_is_free_in_others),
        SLOW_TEST(test_what_a_collection_has_freed_comes_before_a_new_slab),
        SLOW_TEST(test_a_collector_is_asked_again_until_it_refuses),
        SLOW_TEST(test_all_bins_are_looked_through_after_a_collection_that_came_before),
        SLOW_TEST(test_without_memory_what_lists_hold_serves_another_size),
        SLOW_TEST(test_a_collector_that_counts_sees_every_allocation),
        SLOW_TEST(test_a_bin_never_has_one_word_and_the_base_of_another),
    };
    return cmocka_run_group_tests_name("slow paths", tests, start, NULL);
}
