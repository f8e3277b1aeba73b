/* SPDX-License-Identifier: MIT
 *
 * test_young.c: which slabs a minor collection looks at, and that none is missed from which a
 * thread takes blocks: [current is young], [listed is young], [young is listed].
 */
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/young.h"
#include "tests/unit/single_step.h"
#include "tests/unit/blocks_unit.h"

enum { BYTES = 112, LARGE_BYTES = 200 << 10, TRAP_FLAG = 0x100 };

struct count {
    const struct slab *slab;
    size_t times, visited;
};

static void fail_in_a_ring(size_t visited)
{
    if (visited > 100000)
        fail_msg("the list of young slabs has no end");
}

static void count_visit(void *argument, struct slab *slab)
{
    struct count *wanted = argument;
    wanted->times += slab == wanted->slab;
    fail_in_a_ring(++wanted->visited);
}

/* How many times the list of young slabs has it. */
static size_t times_young(const struct slab *slab)
{
    struct count wanted = {.slab = slab};
    blocks_each_young(count_visit, &wanted);
    return wanted.times;
}

static void end_collection(void)
{
    blocks_take_young(NULL, NULL);
    blocks_enter_threads_slabs();
}

static void test_a_slab_is_young_from_its_first_block_to_the_next_collection(void **state)
{
    (void)state;
    void *small = blocks_alloc(BYTES), *large = blocks_alloc(LARGE_BYTES);
    assert_int_equal(times_young(slab_at(small)), 1);
    assert_int_equal(times_young(slab_at(large)), 1);
    blocks_take_young(NULL, NULL);
    assert_int_equal(times_young(slab_at(small)), 0);
    assert_int_equal(times_young(slab_at(large)), 0);
    assert_false(slab_at(large)->young);
    blocks_free(small);
    blocks_free(large);
}

static void test_a_collection_visits_each_young_slab_once(void **state)
{
    (void)state;
    void *block = blocks_alloc(LARGE_BYTES);
    struct count wanted = {.slab = slab_at(block)};
    blocks_enter_young(slab_at(block));
    blocks_enter_young(slab_at(block));
    blocks_take_young(count_visit, &wanted);
    assert_int_equal(wanted.times, 1);
    blocks_take_young(count_visit, &wanted);
    assert_int_equal(wanted.times, 1);
    blocks_free(block);
}

/* Fills a slab, so that another is current; the first has nothing of it in a local free list. */
static void *alloc_in_full_slab(void)
{
    void *first = NULL, *block = blocks_alloc(BYTES);
    for (struct slab *left = NULL; !left; block = blocks_alloc(BYTES)) {
        const struct bin *bin = &thread_heap->bins[slab_at(block)->class_index];
        if (first && bin->current != slab_at(first))
            left = slab_at(first);
        else
            first = block;
    }
    return first;
}

static void test_slabs_that_threads_take_from_stay_young_after_a_collection(void **state)
{
    (void)state;
    void *of_full = alloc_in_full_slab(), *of_current = blocks_alloc(BYTES);
    assert_ptr_not_equal(slab_at(of_full), slab_at(of_current));
    end_collection();
    assert_int_equal(times_young(slab_at(of_current)), 1);
    assert_int_equal(times_young(slab_at(of_full)), 0);
    blocks_free(of_full); /* into a local free list: the next malloc takes it */
    end_collection();
    assert_int_equal(times_young(slab_at(of_full)), 1);
    blocks_flush_thread();
    end_collection();
    assert_int_equal(times_young(slab_at(of_full)), 0);
}

static void *take_and_wait(void *argument)
{
    void **block = argument;
    block[0] = blocks_alloc(BYTES);
    blocks_thread_exit();
    return NULL;
}

static void test_the_slabs_of_a_thread_that_is_gone_do_not(void **state)
{
    (void)state;
    void *block;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, take_and_wait, &block), 0);
    pthread_join(thread, NULL);
    assert_int_equal(times_young(slab_at(block)), 1);
    end_collection();
    assert_int_equal(times_young(slab_at(block)), 0);
}

static void test_a_record_that_is_unused_by_now_is_passed_over(void **state)
{
    (void)state;
    blocks_take_young(NULL, NULL);
    void *block = blocks_alloc(LARGE_BYTES);
    struct slab *record = slab_at(block);
    blocks_free(block);
    assert_int_equal(record->capacity, 0);
    assert_int_equal(times_young(record), 0);
    assert_true(record->young); /* on the list it is still */
    void *next = blocks_alloc(2 * LARGE_BYTES);
    assert_ptr_equal(slab_at(next), record);
    assert_int_equal(times_young(record), 1);
    blocks_free(next);
}

/* Many threads enter the same slabs, round after round. */
enum { THREADS = 3, SLABS = 64, ROUNDS = 300 };
static struct slab *shared_slabs[SLABS];
static pthread_barrier_t barrier;

static void *enter_all(void *unused)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (size_t i = 0; i < SLABS; i++)
            blocks_enter_young(shared_slabs[i]);
        pthread_barrier_wait(&barrier);
    }
    return unused;
}

static size_t visits;

static void count_all(void *unused, struct slab *slab)
{
    (void)unused;
    visits += slab_is_large(slab);
    fail_in_a_ring(visits);
}

static void test_of_threads_that_enter_a_slab_at_once_one_does(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    void *blocks[SLABS];
    for (size_t i = 0; i < SLABS; i++)
        shared_slabs[i] = slab_at(blocks[i] = blocks_alloc(LARGE_BYTES));
    blocks_take_young(NULL, NULL);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enter_all, NULL), 0);
    for (size_t round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        visits = 0;
        blocks_take_young(count_all, NULL);
        assert_int_equal(visits, SLABS);
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < SLABS; i++)
        blocks_free(blocks[i]);
}

/* A collection at an instruction of the thread's. */
static size_t instruction, collect_at;

static void collect_once(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++instruction != collect_at)
        return;
    end_collection();
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void test_no_collection_makes_a_slab_old_that_is_becoming_current(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_sigaction = collect_once, .sa_flags = SA_SIGINFO};
    unsigned class_index = size_class_of(20000);
    struct bin *bin = &thread_heap->bins[class_index];
    assert_null(bin->current);
    blocks_lock();
    struct slab *slab = new_slab(class_index, thread_heap);
    blocks_unlock();
    assert_non_null(slab);
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    do {
        leave_current(bin);
        end_collection();
        assert_int_equal(times_young(slab), 0);
        instruction = 0;
        collect_at++;
        step(true);
        make_current(bin, slab);
        step(false);
        if (times_young(slab) != 1)
            fail_msg("after a collection at instruction %zu it is old", collect_at);
    } while (instruction == collect_at);
    assert_in_range(collect_at, 50, SIZE_MAX); /* all were gone through */
    void *block = blocks_alloc(20000);
    assert_ptr_equal(slab_at(block), slab);
    blocks_free(block);
    assert_true(blocks_is_valid());
}

/* In the child of a fork that came while another thread had set `young`, and had not pushed. */
static void enter_after_fork(void *argument)
{
    struct slab *slab = slab_at(argument);
    blocks_take_young(NULL, NULL);
    slab->young = true;
    blocks_enter_young(slab);
    require(times_young(slab) == 0);
    forget_young();
    blocks_enter_young(slab);
    require(times_young(slab) == 1);
}

static void test_the_child_of_a_fork_forgets_who_was_entering(void **state)
{
    (void)state;
    void *block = blocks_alloc(LARGE_BYTES);
    assert_child_succeeds(enter_after_fork, block);
    blocks_free(block);
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow, .rows = SLAB_OLD_ROWS};
    return blocks_init(25, &collector) && blocks_alloc(1) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slab_is_young_from_its_first_block_to_the_next_collection),
        cmocka_unit_test(test_a_collection_visits_each_young_slab_once),
        cmocka_unit_test(test_slabs_that_threads_take_from_stay_young_after_a_collection),
        cmocka_unit_test(test_the_slabs_of_a_thread_that_is_gone_do_not),
        cmocka_unit_test(test_a_record_that_is_unused_by_now_is_passed_over),
        cmocka_unit_test(test_of_threads_that_enter_a_slab_at_once_one_does),
        cmocka_unit_test(test_no_collection_makes_a_slab_old_that_is_becoming_current),
        cmocka_unit_test(test_the_child_of_a_fork_forgets_who_was_entering),
    };
    return cmocka_run_group_tests_name("young slabs", tests, start, NULL);
}
