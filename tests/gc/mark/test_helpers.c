/* SPDX-License-Identifier: MIT
 *
 * test_helpers.c: parallel marking: what of a stack is shared, that no word is lost or taken twice
 * on its way through the pool, and when the markers end: pool-under-lock, idle-is-empty,
 * no-helper-at-rest.
 */
#include "tests/unit/unit.h"

#include <pthread.h>

#include "alloc/blocks/blocks.h"

/* For taking work and joining, which nobody else may call. */
#include "gc/mark/helpers.c"

enum { MARKERS = 3, STACK_BYTES = 1 << 20, MOST_DEPTH = 5 * SHARE_MOST };

static struct marker *first, *second;

static int make_heap(void **state)
{
    (void)state;
    if (!blocks_init(25, NULL) || !mark_init(MARKERS, STACK_BYTES))
        return -1;
    first = &mark.markers[0];
    second = &mark.markers[1];
    return 0;
}

static int empty_all(void **state)
{
    (void)state;
    mark.pool_words = 0;
    mark.pool_lock = mark.pool_filled = mark.idle = mark.working = mark.asleep = 0;
    first->top = first->stack;
    second->top = second->stack;
    return 0;
}

/* A stack of numbers, the oldest of which is 0. */
static void fill_stack(struct marker *marker, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        marker->stack[i] = i;
    marker->top = marker->stack + depth;
}

static void fill_pool(size_t words)
{
    for (size_t i = 0; i < words; i++)
        mark.pool[i] = i;
    mark.pool_words = words;
    mark.pool_filled = 1;
}

/* Whether these are the numbers from `from` on, in any order. */
static void assert_numbers(const uintptr_t *words, size_t count, uintptr_t from)
{
    static bool seen[MOST_DEPTH];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(words[i], from, from + count - 1);
        assert_false(seen[words[i] - from]);
        seen[words[i] - from] = true;
    }
}

/* Sharing. */

static void test_a_stack_is_shared_when_it_is_deep_and_a_marker_is_idle(void **state)
{
    (void)state;
    for (size_t depth = SHARE_LEAST - 1; depth <= SHARE_LEAST; depth++)
        for (uint32_t idle = 0; idle < 2; idle++) {
            fill_stack(first, depth);
            mark.idle = idle;
            assert_int_equal(should_share(first), depth == SHARE_LEAST && idle > 0);
        }
}

static void test_the_older_half_of_a_stack_is_shared_and_the_newer_stays(void **state)
{
    enum { MOST = 2 * SHARE_MOST /* of which half can be shared */ };
    static const size_t depths[] = {2, 3, 16, 1001, MOST - 1, MOST, MOST + 1, MOST_DEPTH};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        size_t depth = depths[i], half = depth / 2 < SHARE_MOST ? depth / 2 : SHARE_MOST;
        empty_all(state);
        fill_stack(first, depth);
        helpers_share(first);
        assert_true(mark.pool_filled);
        assert_int_equal(mark.pool_words, half);
        assert_int_equal(stack_depth(first), depth - half);
        assert_numbers(mark.pool, half, 0);
        assert_numbers(first->stack, depth - half, half);
    }
}

static void test_no_more_is_shared_while_the_pool_is_filled_or_has_no_room(void **state)
{
    (void)state;
    enum { DEPTH = 100 };
    fill_pool(1);
    fill_stack(first, DEPTH);
    helpers_share(first);
    assert_int_equal(mark.pool_words, 1);
    assert_int_equal(stack_depth(first), DEPTH);
    mark.pool_filled = 0; /* what is in the pool now others are taking */
    mark.pool_words = POOL_WORDS - DEPTH / 2 + 1;
    helpers_share(first);
    assert_int_equal(mark.pool_words, POOL_WORDS - DEPTH / 2 + 1);
    assert_int_equal(stack_depth(first), DEPTH);
    assert_false(mark.pool_filled);
    mark.pool_words--;
    helpers_share(first);
    assert_int_equal(mark.pool_words, POOL_WORDS);
    assert_int_equal(stack_depth(first), DEPTH / 2);
    assert_false(mark.pool_lock);
}

static void test_work_is_taken_in_parts_until_the_pool_is_empty(void **state)
{
    (void)state;
    enum { WORDS = 2 * TAKE_MOST + 100 };
    fill_pool(WORDS);
    for (size_t left = WORDS, taken; left > 0; left -= taken) {
        size_t depth = stack_depth(second);
        taken = left < TAKE_MOST ? left : TAKE_MOST;
        assert_true(take_work(second));
        assert_int_equal(mark.pool_words, left - taken);
        assert_int_equal(stack_depth(second), depth + taken);
        assert_int_equal(mark.pool_filled, left > taken);
    }
    assert_numbers(second->stack, WORDS, 0);
    assert_false(take_work(second));
    assert_int_equal(stack_depth(second), WORDS);
    assert_false(mark.pool_lock);
}

/* Beginning and end. */

static void test_nobody_joins_when_the_marking_is_over(void **state)
{
    (void)state;
    assert_false(join_marking()); /* it has not begun */
    mark.working = mark.idle = 2;
    assert_false(join_marking());
    assert_int_equal(mark.working, 2);
    mark.idle = 1;
    assert_true(join_marking());
    assert_int_equal(mark.working, 3);
}

static pid_t waiting_thread;
static atomic_bool has_ended;

/* As the kernel does when a helper ends. */
static void *end_late(void *unused)
{
    while (!sleeps_in_futex(waiting_thread))
        sched_yield();
    has_ended = true;
    atomic_store(&second->running, 0);
    SYSCALL_3(SYS_futex, &second->running, FUTEX_WAKE, 1);
    return unused;
}

static void test_the_next_collection_waits_for_helpers_that_have_not_ended(void **state)
{
    (void)state;
    pthread_t thread;
    waiting_thread = gettid();
    second->running = 1;
    assert_int_equal(pthread_create(&thread, NULL, end_late, NULL), 0);
    mark_prepare();
    assert_true(has_ended);
    pthread_join(thread, NULL);
}

static void test_the_child_of_a_fork_waits_for_no_helper(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MARKERS; i++)
        mark.markers[i].running = 1;
    mark_forget_helpers();
    mark_prepare();
    for (unsigned i = 0; i < MARKERS; i++)
        assert_int_equal(mark.markers[i].running, 0);
}

static void prepare_without_helpers(void *unused)
{
    (void)unused;
    alarm(600);
    second->running = 1;
    mark_prepare();
}

/* Where a handler forks that has interrupted an operation, nobody tells the collector. */
static void test_a_child_that_is_not_told_waits_for_no_helper(void **state)
{
    (void)state;
    const struct ending ending = run_child(prepare_without_helpers, NULL);
    assert_succeeded(&ending);
}

/* Lists of blocks. */

enum { LISTS = 400, LENGTH = 30 };
static void **lists[LISTS];

static void make_lists(void)
{
    for (size_t i = 0; i < LISTS; i++) {
        lists[i] = NULL;
        for (size_t n = 0; n < LENGTH; n++) {
            void **block = blocks_alloc(48);
            assert_non_null(block);
            memset(block, 0, 48);
            block[0] = lists[i];
            lists[i] = block;
        }
    }
}

static size_t marked_of_list(void *const *block)
{
    size_t marked = 0;
    for (; block; block = *block) {
        bool exact;
        const struct slab *slab = blocks_slab_of(block);
        size_t index = slab_index(slab, block, &exact);
        marked += (slab->words[index / SLAB_WORD_BLOCKS].mark & slab_bit(index)) != 0;
    }
    return marked;
}

static void begin_marking(void)
{
    mark_prepare();
    blocks_lock();
    blocks_set_local_free_bits(true);
    mark_begin();
    for (size_t i = 0; i < LISTS; i++)
        *first->top++ = (uintptr_t)lists[i];
}

/* All of the lists, and each block by one marker. */
static void end_marking(void)
{
    uint64_t blocks = 0;
    blocks_set_local_free_bits(false);
    blocks_unlock();
    for (unsigned i = 0; i < MARKERS; i++) {
        blocks += mark.markers[i].blocks;
        assert_int_equal(stack_depth(&mark.markers[i]), 0);
    }
    for (size_t i = 0; i < LISTS; i++)
        assert_int_equal(marked_of_list(lists[i]), LENGTH);
    assert_int_equal(blocks, LISTS * LENGTH);
    assert_int_equal(mark.pool_words, 0);
    assert_false(mark.pool_filled || mark.pool_lock);
    assert_int_equal(mark.idle, mark.working);
}

static void test_helpers_mark_each_block_once_and_end(void **state)
{
    (void)state;
    static const unsigned helpers[] = {0, 1, MARKERS - 1, 100};
    for (size_t i = 0; i < 40; i++) {
        unsigned more = helpers[i % 4] < MARKERS ? helpers[i % 4] : MARKERS - 1;
        begin_marking();
        assert_in_range(helpers_drain(helpers[i % 4]), 1, more + 1);
        mark_prepare();
        for (unsigned n = 0; n < MARKERS; n++)
            assert_int_equal(mark.markers[n].running, 0);
        end_marking();
    }
}

/* [no helper at rest]. Of a process of one thread the call asks nothing but that. */
static void test_no_helper_is_left_when_it_was_waited_for(void **state)
{
    (void)state;
    for (size_t i = 0; i < 300; i++) {
        begin_marking();
        helpers_drain(MARKERS - 1);
        mark_wait_for_helpers();
        assert_int_equal(SYSCALL_1(SYS_unshare, CLONE_THREAD), 0);
        end_marking();
    }
}

/* As for a helper that a tracer keeps, or a number that another thread has now. */
static void test_nobody_waits_for_ever_for_a_thread_that_stays(void **state)
{
    (void)state;
    second->thread = gettid();
    mark_wait_for_helpers();
    assert_int_equal(second->thread, 0);
}

static void *drain_second(void *unused)
{
    drain_in_parallel(second);
    has_ended = true;
    return unused;
}

/* The first shares, and does not mark until all that is marked. */
static void test_an_idle_marker_marks_what_is_shared(void **state)
{
    (void)state;
    pthread_t thread;
    begin_marking();
    mark.working = 2;
    has_ended = false;
    assert_int_equal(pthread_create(&thread, NULL, drain_second, NULL), 0);
    while (mark.idle == 0)
        sched_yield();
    helpers_share(first);
    while (!has_ended && (mark.pool_filled || mark.idle == 0))
        sched_yield();
    uint64_t by_second = second->blocks;
    size_t left = stack_depth(first);
    drain_in_parallel(first);
    pthread_join(thread, NULL);
    assert_int_equal(left, LISTS / 2);
    assert_int_equal(by_second, LISTS / 2 * LENGTH);
    end_marking();
}

static int make_heap_and_lists(void **state)
{
    own_memory_forked();
    if (make_heap(state) != 0)
        return -1;
    make_lists();
    return 0;
}

#define HELPERS_TEST(test) cmocka_unit_test_setup(test, empty_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HELPERS_TEST(test_a_stack_is_shared_when_it_is_deep_and_a_marker_is_idle),
        HELPERS_TEST(test_the_older_half_of_a_stack_is_shared_and_the_newer_stays),
        HELPERS_TEST(test_no_more_is_shared_while_the_pool_is_filled_or_has_no_room),
        HELPERS_TEST(test_work_is_taken_in_parts_until_the_pool_is_empty),
        HELPERS_TEST(test_nobody_joins_when_the_marking_is_over),
        HELPERS_TEST(test_the_next_collection_waits_for_helpers_that_have_not_ended),
        HELPERS_TEST(test_the_child_of_a_fork_waits_for_no_helper),
        HELPERS_TEST(test_a_child_that_is_not_told_waits_for_no_helper),
        HELPERS_TEST(test_helpers_mark_each_block_once_and_end),
        HELPERS_TEST(test_no_helper_is_left_when_it_was_waited_for),
        HELPERS_TEST(test_nobody_waits_for_ever_for_a_thread_that_stays),
        HELPERS_TEST(test_an_idle_marker_marks_what_is_shared),
    };
    return cmocka_run_group_tests_name("helpers", tests, make_heap_and_lists, NULL);
}
