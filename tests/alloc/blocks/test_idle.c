/* SPDX-License-Identifier: MIT
 *
 * test_idle.c: what a thread's bins give back that they do not use. Time is made up.
 */
#include <pthread.h>
#include <string.h>

#include "alloc/blocks/idle.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/blocks_unit.h"
#include "vm/pages.h"

/* Rounds begin at least so far apart. */
static const uint64_t ROUND_NS = UINT64_C(2000000000);

enum { BYTES = 512, BLOCKS = GRANULE_BYTES / BYTES, SLABS = 40, PER_PAGE = PAGE_BYTES / BYTES };

static uint64_t now_ns;

static void one_round(void)
{
    now_ns += ROUND_NS;
    do
        give_back_idle(thread_heap, now_ns);
    while (thread_heap->idle_classes > 0);
}

/* Blocks of whole slabs, in order of addresses within each slab, written. */
static void fill(char *blocks[SLABS][BLOCKS])
{
    bool exact;
    for (size_t i = 0; i < SLABS * BLOCKS; i++) {
        char *block = blocks_alloc(BYTES);
        memset(block, 1, BYTES);
        blocks[i / BLOCKS][slab_index(slab_at(block), block, &exact)] = block;
    }
}

/* In a child each. */

/* One block of each slab lives: its page stays, the others go. */
static void keep_one_of_each_slab(void *unused)
{
    (void)unused;
    static char *blocks[SLABS][BLOCKS];
    const size_t kept = 3 * PER_PAGE + 1;
    fill(blocks);
    for (size_t slab = 0; slab < SLABS; slab++)
        for (size_t i = 0; i < BLOCKS; i++)
            if (i != kept)
                blocks_free(blocks[slab][i]);
    for (int rounds = 0; rounds < 4; rounds++)
        one_round();
    require(blocks_is_valid() && !thread_heap->bins[size_class_of(BYTES)].local_free);
    for (size_t slab = 0; slab < SLABS; slab++)
        for (size_t i = 0; i < BLOCKS; i++) {
            bool in_page = i / PER_PAGE == kept / PER_PAGE;
            require(is_zero(blocks[slab][i], BYTES) != in_page);
        }
    for (size_t slab = 0; slab < SLABS; slab++)
        blocks_free(blocks[slab][kept]);
    one_round();
    one_round();
    require(blocks_heap.runs.used_granules == 1 && blocks_is_valid());
}

static void test_a_slab_keeps_the_pages_of_its_live_blocks_alone(void **state)
{
    (void)state;
    assert_child_succeeds(keep_one_of_each_slab, NULL);
}

/* A block in a local free list may be the last one that keeps its slab: a step takes one of these.
 */
static void release_from_a_list(void *unused)
{
    (void)unused;
    static char *blocks[SLABS][BLOCKS];
    fill(blocks);
    for (size_t slab = 0; slab < SLABS; slab++)
        for (size_t i = 1; i < BLOCKS; i++)
            blocks_free(blocks[slab][i]);
    one_round();
    for (size_t slab = 0; slab < SLABS; slab++)
        blocks_free(blocks[slab][0]);
    size_t before = blocks_heap.runs.used_granules, steps = 0;
    now_ns += ROUND_NS;
    do {
        give_back_idle(thread_heap, now_ns);
        size_t now = blocks_heap.runs.used_granules;
        require(before - now <= 1);
        before = now;
        steps++;
    } while (thread_heap->idle_classes > 0);
    require(before == 1 && steps > SLABS / 2 && blocks_is_valid());
}

static void test_a_step_releases_one_slab_of_a_list_at_most(void **state)
{
    (void)state;
    assert_child_succeeds(release_from_a_list, NULL);
}

/* A slab of which blocks come and go between the rounds is not idle. */
static void free_in_each_round(void *unused)
{
    (void)unused;
    static char *blocks[SLABS][BLOCKS];
    fill(blocks);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks_free(blocks[1][i]);
    for (size_t i = BLOCKS - 1; i > 0; i--) {
        blocks_free(blocks[0][i]);
        one_round();
        require(!thread_heap->bins[size_class_of(BYTES)].local_free);
        require(!is_zero(blocks[0][i], BYTES));
    }
    one_round();
    require(is_zero(blocks[0][BLOCKS - 1], BYTES) && !is_zero(blocks[0][0], BYTES));
    require(blocks_is_valid());
}

static void test_a_slab_that_has_changed_keeps_its_pages_for_a_round(void **state)
{
    (void)state;
    assert_child_succeeds(free_in_each_round, NULL);
}

static void free_and_wait_a_moment(void *unused)
{
    (void)unused;
    static char *blocks[SLABS][BLOCKS];
    fill(blocks);
    for (size_t i = 1; i < BLOCKS; i++)
        blocks_free(blocks[0][i]);
    one_round();
    for (int i = 0; i < 100; i++)
        give_back_idle(thread_heap, now_ns + ROUND_NS - 1);
    require(!is_zero(blocks[0][BLOCKS - 1], BYTES));
    one_round();
    require(is_zero(blocks[0][BLOCKS - 1], BYTES));
}

static void test_nothing_goes_before_a_round_is_over(void **state)
{
    (void)state;
    assert_child_succeeds(free_and_wait_a_moment, NULL);
}

static uint64_t made_up_clock(void)
{
    return now_ns;
}

/* A second passes before each malloc of a size that always takes the slow path. */
static void be_quiet(void *keeps_all)
{
    static char *blocks[SLABS][BLOCKS];
    fill(blocks);
    for (size_t i = 1; i < BLOCKS; i++)
        blocks_free(blocks[0][i]);
    blocks_heap.runs.now_ns = made_up_clock;
    if (keeps_all)
        blocks_heap.runs.decay.asked = SIZE_MAX / GRANULE_BYTES;
    for (int i = 0; i < 100; i++) {
        now_ns += ROUND_NS / 2;
        blocks_free(blocks_alloc(TABLE_LARGEST + 1));
    }
    require(is_zero(blocks[0][BLOCKS - 1], BYTES) == !keeps_all && blocks_is_valid());
}

static void test_the_slow_path_of_malloc_goes_on_with_rounds(void **state)
{
    (void)state;
    assert_child_succeeds(be_quiet, NULL);
}

static void test_a_program_may_keep_all_that_it_frees(void **state)
{
    bool keeps_all = true;
    (void)state;
    assert_child_succeeds(be_quiet, &keeps_all);
}

/* The next thread has the heap record, and none of the round's slabs. */
static void *exit_within_a_round(void *blocks)
{
    fill(blocks);
    for (size_t i = 0; i < SLABS * BLOCKS; i++)
        if (i % BLOCKS != 0)
            blocks_free(((char *(*)[BLOCKS])blocks)[i / BLOCKS][i % BLOCKS]);
    one_round();
    one_round();
    now_ns += ROUND_NS;
    give_back_idle(thread_heap, now_ns);
    require(thread_heap->idle_classes > 0);
    blocks_thread_exit();
    return NULL;
}

static void exit_and_go_on(void *unused)
{
    (void)unused;
    static char *blocks[SLABS][BLOCKS];
    for (int turn = 0; turn < 3; turn++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, exit_within_a_round, blocks) == 0);
        require(pthread_join(thread, NULL) == 0);
        require(blocks_is_valid());
        for (size_t slab = 0; slab < SLABS; slab++)
            blocks_free(blocks[slab][0]);
    }
}

static void test_a_thread_may_end_within_a_round(void **state)
{
    (void)state;
    assert_child_succeeds(exit_and_go_on, NULL);
}

/* A process that ends soon has no round, and one without a clock never has one. */
static void test_the_first_look_begins_no_round(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        give_back_idle(thread_heap, 0);
    give_back_idle(thread_heap, now_ns = 7 * ROUND_NS);
    assert_int_equal(thread_heap->round_began_ns, now_ns);
    assert_int_equal(thread_heap->idle_classes, 0);
    give_back_idle(thread_heap, now_ns + ROUND_NS - 1);
    assert_int_equal(thread_heap->round_began_ns, now_ns);
    one_round();
    assert_int_equal(thread_heap->round_began_ns, now_ns);
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, NULL) && start_thread() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_look_begins_no_round),
        cmocka_unit_test(test_a_slab_keeps_the_pages_of_its_live_blocks_alone),
        cmocka_unit_test(test_a_step_releases_one_slab_of_a_list_at_most),
        cmocka_unit_test(test_a_slab_that_has_changed_keeps_its_pages_for_a_round),
        cmocka_unit_test(test_nothing_goes_before_a_round_is_over),
        cmocka_unit_test(test_the_slow_path_of_malloc_goes_on_with_rounds),
        cmocka_unit_test(test_a_program_may_keep_all_that_it_frees),
        cmocka_unit_test(test_a_thread_may_end_within_a_round),
    };
    return cmocka_run_group_tests_name("idle", tests, start, NULL);
}
