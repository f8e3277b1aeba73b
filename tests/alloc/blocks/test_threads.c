/* SPDX-License-Identifier: MIT
 *
 * test_threads.c: what becomes of a thread's slabs when it exits, or when another thread forks.
 * Each test has a size class of its own, which nobody else uses.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/threads.h"
#include "tests/unit/single_step.h"
#include "tests/unit/unit.h"
#include "vm/fork_chain.h"

enum { BLOCKS = 40, FEW = 10 /* a local free list has room for them */, MOST_BLOCKS = 4096 };

/* What a thread is to do before it exits. */
struct work {
    size_t bytes, count, kept; /* allocates so many, and frees all but the last `kept` */
    void *blocks[MOST_BLOCKS];
    struct thread_heap *heap; /* that it had */
    sem_t is_done, may_exit;
};
static struct work work;

static void *work_and_exit(void *waits)
{
    for (size_t i = 0; i < work.count; i++)
        work.blocks[i] = blocks_alloc(work.bytes);
    work.heap = thread_heap;
    for (size_t i = 0; i < work.count - work.kept; i++)
        blocks_free(work.blocks[i]);
    sem_post(&work.is_done);
    if (waits)
        sem_wait(&work.may_exit);
    blocks_thread_exit();
    return NULL;
}

static pthread_t start_work(size_t bytes, size_t count, size_t kept, bool waits)
{
    pthread_t thread;
    work = (struct work){.bytes = bytes, .count = count, .kept = kept};
    sem_init(&work.is_done, 0, 0);
    sem_init(&work.may_exit, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, work_and_exit, waits ? &work : NULL), 0);
    sem_wait(&work.is_done);
    return thread;
}

/* A thread that allocates `count` blocks, keeps the last `kept`, and is gone. */
static void do_work(size_t bytes, size_t count, size_t kept)
{
    pthread_join(start_work(bytes, count, kept, false), NULL);
}

static size_t slabs_of(size_t bytes)
{
    return blocks_heap.class_slabs[size_class_of(bytes)];
}

/* Those that are held back at its start, or freed by others, included. */
static uint32_t free_in(const struct slab *slab)
{
    uint32_t count = 0;
    for (size_t i = 0; i < slab_words(slab); i++)
        count += count_bits(slab_free(&slab->words[i]) |
                            atomic_load_explicit(&slab->words[i].remote, memory_order_relaxed));
    return count;
}

static size_t index_in(const struct slab *slab, const void *block)
{
    return (size_t)((const char *)block - (const char *)slab->base) / slab->block_bytes;
}

static void test_empty_slabs_go_back_when_their_thread_exits(void **state)
{
    (void)state;
    do_work(1000, 300, 0);
    assert_int_equal(slabs_of(1000), 0);
    assert_false(work.heap->alive);
    assert_true(blocks_is_valid());
}

static void test_a_slab_with_a_live_block_is_abandoned_with_all_that_is_free(void **state)
{
    (void)state;
    do_work(1100, BLOCKS, 1); /* its others were in a local free list */
    struct slab *slab = blocks_slab_of(work.blocks[BLOCKS - 1]);
    assert_int_equal(slab->state, SLAB_ABANDONED);
    assert_null(thread_heap_of(slab));
    assert_int_equal(free_in(slab), slab->capacity - 1);
    assert_int_equal(slabs_of(1100), 1);
}

static void test_an_abandoned_slab_is_adopted_before_a_new_one_is_made(void **state)
{
    (void)state;
    do_work(1300, BLOCKS, 1);
    struct slab *slab = blocks_slab_of(work.blocks[BLOCKS - 1]);
    void *block = blocks_alloc(1300);
    assert_ptr_equal(blocks_slab_of(block), slab);
    assert_ptr_equal(thread_heap_of(slab), thread_heap);
    assert_int_equal(slabs_of(1300), 1);
    blocks_free(work.blocks[BLOCKS - 1]); /* ours now: no remote free */
    assert_int_equal(slab->words[0].remote, 0);
    blocks_free(block);
}

static void test_a_full_abandoned_slab_serves_when_a_block_of_it_is_freed(void **state)
{
    (void)state;
    size_t capacity = GRANULE_BYTES / size_class_bytes[size_class_of(1900)];
    do_work(1900, capacity, capacity);
    struct slab *slab = blocks_slab_of(work.blocks[0]);
    assert_int_equal(free_in(slab), 0);
    assert_null(adopt_slab(size_class_of(1900), thread_heap));
    assert_int_equal(slab->state, SLAB_ABANDONED_FULL);
    void *first = slab->base;
    blocks_free(first);
    assert_ptr_equal(blocks_alloc(1900), first);
    assert_ptr_equal(thread_heap_of(slab), thread_heap);
}

static void test_the_last_free_of_an_abandoned_slab_gives_it_back(void **state)
{
    (void)state;
    do_work(2100, 3, 3);
    for (size_t i = 0; i < 3; i++)
        blocks_free(work.blocks[i]);
    assert_int_equal(slabs_of(2100), 1); /* nobody has looked yet */
    assert_null(adopt_slab(size_class_of(2100), thread_heap));
    assert_int_equal(slabs_of(2100), 0);
}

/* Who frees a block has read the slab's owning thread before this one exits, and pushes after. */
static void test_a_free_that_was_sent_to_a_thread_that_is_gone_is_found(void **state)
{
    (void)state;
    do_work(2500, 2, 2);
    struct slab *slab = blocks_slab_of(work.blocks[0]);
    slab->thread_heap = work.heap;
    push_remote_free(slab, work.blocks[0], index_in(slab, work.blocks[0]));
    slab->thread_heap = NULL;
    assert_ptr_equal(blocks_heap.abandoned_queue.newest, slab);
    assert_ptr_equal(adopt_slab(size_class_of(2500), thread_heap), slab);
    assert_null(blocks_heap.abandoned_queue.newest);
    assert_false(slab->queued);
    assert_int_equal(free_in(slab), slab->capacity - 1);
}

/* The blocks were freed while the thread was there, which did not look at its queue any more. */
static void test_remote_frees_that_a_thread_has_not_looked_at_are_taken_as_it_exits(void **state)
{
    (void)state;
    pthread_t thread = start_work(1500, 2, 2, true);
    struct slab *slab = blocks_slab_of(work.blocks[0]);
    blocks_free(work.blocks[0]);
    assert_ptr_equal(work.heap->remote_queue.newest, slab);
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    assert_ptr_equal(work.heap->remote_queue.newest, QUEUE_CLOSED);
    assert_false(slab->queued);
    assert_int_equal(free_in(slab), slab->capacity - 1);
    assert_int_equal(slab->words[0].remote, 0);
    blocks_free(work.blocks[1]); /* queues it, though it was in a queue when the thread exited */
    assert_ptr_equal(blocks_heap.abandoned_queue.newest, slab);
    assert_null(adopt_slab(size_class_of(1500), thread_heap));
    assert_int_equal(slabs_of(1500), 0);
}

/* A slab that is another's by now is in the queue of a thread that exits. */
static void test_a_thread_that_exits_passes_on_what_is_not_its_own(void **state)
{
    (void)state;
    void *blocks[2] = {blocks_alloc(1600), blocks_alloc(1600)};
    struct slab *slab = blocks_slab_of(blocks[0]);
    pthread_t thread = start_work(1600, 1, 0, true);
    slab->thread_heap = work.heap;
    push_remote_free(slab, blocks[0], index_in(slab, blocks[0]));
    slab->thread_heap = thread_heap;
    assert_ptr_equal(work.heap->remote_queue.newest, slab);
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    assert_ptr_equal(thread_heap->remote_queue.newest, slab);
    rebin_queued(thread_heap);
    assert_false(slab->queued);
    blocks_free(blocks[1]);
}

static void test_a_thread_heap_that_is_used_again_takes_remote_frees(void **state)
{
    (void)state;
    do_work(1700, 1, 0);
    const struct thread_heap *heap = work.heap;
    pthread_t thread = start_work(1700, 1, 1, true);
    assert_ptr_equal(work.heap, heap);
    blocks_free(work.blocks[0]);
    bool is_queued = heap->remote_queue.newest == blocks_slab_of(work.blocks[0]);
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    assert_true(is_queued);
    assert_int_equal(slabs_of(1700), 0);
}

static void free_all_work(void)
{
    for (size_t i = 0; i < work.count; i++)
        blocks_free(work.blocks[i]);
}

static void test_trim_gives_back_what_a_thread_that_is_gone_had(void **state)
{
    (void)state;
    do_work(3500, 200, 200);
    free_all_work();
    assert_in_range(slabs_of(3500), 10, 20);
    blocks_trim();
    assert_int_equal(slabs_of(3500), 0);
}

static void *free_all_and_exit(void *unused)
{
    free_all_work();
    blocks_thread_exit();
    return unused;
}

static void test_trim_gives_back_what_other_threads_have_freed(void **state)
{
    (void)state;
    pthread_t thread;
    work.count = 200;
    for (size_t i = 0; i < work.count; i++)
        work.blocks[i] = blocks_alloc(5000);
    assert_int_equal(pthread_create(&thread, NULL, free_all_and_exit, NULL), 0);
    pthread_join(thread, NULL);
    assert_in_range(slabs_of(5000), 4, 10);
    blocks_trim();
    assert_int_equal(slabs_of(5000), 1); /* the current one */
}

static void take_what_a_thread_had(void *unused)
{
    (void)unused;
    blocks_heap.runs.area.held = true; /* the kernel gives no more */
    free_all_work();
    require(blocks_heap.runs.free_granules < 64);
    require(blocks_alloc(64 * GRANULE_BYTES) != NULL);
}

static void test_a_large_block_gets_what_a_thread_that_is_gone_had(void **state)
{
    (void)state;
    do_work(6000, MOST_BLOCKS / 2, MOST_BLOCKS / 2);
    assert_child_succeeds(take_what_a_thread_had, NULL);
    free_all_work();
}

static void test_thread_heaps_are_used_again(void **state)
{
    (void)state;
    uint64_t threads = blocks_heap.threads;
    do_work(64, 1, 0);
    struct thread_heap *heap = work.heap;
    assert_int_equal(blocks_heap.threads, threads);
    for (size_t i = 0; i < 5; i++) {
        do_work(64, 1, 0);
        assert_ptr_equal(work.heap, heap);
    }
}

static bool is_as_at_the_start(const struct bin *bin, size_t class_index)
{
    return bin->block_bytes == size_class_bytes[class_index] && !bin->local_free &&
           !bin->free_word && !bin->current && !bin->available && !bin->full &&
           bin->local_free_room == local_free_limit(bin->block_bytes);
}

/* The next thread finds them so: nobody looks at a bin when a heap is used again. */
static void test_an_exit_leaves_every_bin_as_a_thread_needs_it_that_starts(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIZE_CLASSES; i += 7) {
        do_work(size_class_bytes[i], 600, 3); /* more than a local free list has room for */
        for (size_t j = work.count - work.kept; j < work.count; j++)
            blocks_free(work.blocks[j]);
        assert_true(work.heap->is_ready);
        assert_int_equal(work.heap->used_bins, 0);
        for (size_t j = 0; j < SIZE_CLASSES; j++)
            assert_true(is_as_at_the_start(&work.heap->bins[j], j));
    }
}

static void test_an_exit_during_a_fork_is_made_up_for_in_the_parent(void **state)
{
    (void)state;
    pthread_t thread = start_work(3100, 3, 1, true);
    struct slab *slab = blocks_slab_of(work.blocks[2]);
    fork_chain_prepare();
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    bool was_alive = work.heap->alive;
    bool had_slab = thread_heap_of(slab) == work.heap;
    fork_chain_parent();
    assert_true(was_alive && had_slab);
    assert_false(work.heap->alive);
    assert_int_equal(slab->state, SLAB_ABANDONED);
    assert_int_equal(free_in(slab), slab->capacity - 1);
}

/* While the other thread waits. It ends before the test can fail: another test would wait for ever
 * where it still has the semaphores. */
static void assert_child_beside_succeeds(pthread_t thread, child_body *body, void *argument)
{
    const struct ending ending = run_child(body, argument);
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    assert_succeeded(&ending);
}

/* The child of a fork: the other thread is not there, its heap is. */
static void look_at_the_others_slabs(void *unused)
{
    (void)unused;
    struct slab *slab = blocks_slab_of(work.blocks[FEW - 1]);
    require(thread_heap_of(slab) == work.heap);
    blocks_fork_child();
    require(!work.heap->alive && blocks_heap.threads == 1);
    require(thread_heap_of(slab) == NULL);
    require(free_in(slab) == slab->capacity - 1);
    for (size_t i = 0; i < FEW - 1; i++)
        require(!unit_is_live(fast_table_unit(work.blocks[i])));
    void *block = blocks_alloc(3700);
    require(blocks_slab_of(block) == slab && thread_heap_of(slab) == thread_heap);
    blocks_free(work.blocks[FEW - 1]);
    blocks_free(block);
    require(blocks_is_valid());
}

static void test_the_child_of_a_fork_adopts_what_the_others_had(void **state)
{
    (void)state;
    pthread_t thread = start_work(3700, FEW, 1, true);
    assert_child_beside_succeeds(thread, look_at_the_others_slabs, NULL);
}

/* The child of a fork: what the other thread had in its bins is none of a new thread's. */
static void take_the_others_heap(void *unused)
{
    (void)unused;
    struct thread_heap *heap = work.heap;
    unsigned class_index = size_class_of(3700);
    blocks_fork_child();
    require(heap->bins[class_index].current != NULL && !heap->is_ready);
    pthread_t thread = start_work(64, 1, 1, true);
    require(work.heap == heap && heap->is_ready);
    require(is_as_at_the_start(&heap->bins[class_index], class_index));
    sem_post(&work.may_exit);
    pthread_join(thread, NULL);
    require(blocks_is_valid());
}

static void test_a_thread_of_a_forks_child_starts_with_empty_bins(void **state)
{
    (void)state;
    pthread_t thread = start_work(3700, FEW, 1, true);
    assert_child_beside_succeeds(thread, take_the_others_heap, NULL);
}

/* A local free list with a link that is torn: see [the child's copy]. The first block of the list
 * was freed last, and still has what the program left in it: a pointer to the block that it keeps,
 * which the heap takes for live by its live bit or, of a suspect, by its suspect bit. */
static void go_through_a_torn_list(void *is_suspect)
{
    void *kept = work.blocks[FEW - 1];
    struct slab *slab = blocks_slab_of(kept);
    size_t index = index_in(slab, kept);
    uint32_t free_before = free_in(slab);
    require(work.heap->bins[slab->class_index].local_free == work.blocks[FEW - 2]);
    *(void **)work.blocks[FEW - 2] = kept;
    if (is_suspect) {
        require(clear_live(fast_table_unit(kept)));
        *slab_suspects(slab, index / SLAB_WORD_BLOCKS) |= slab_bit(index);
    }
    blocks_fork_child();
    require(free_in(slab) == free_before + 1); /* the first of the list, not what it points to */
    require((slab_live(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0);
    require(unit_is_live(fast_table_unit(kept)) == !is_suspect);
}

static void test_a_torn_list_frees_no_live_block_in_the_child_of_a_fork(void **state)
{
    (void)state;
    pthread_t thread = start_work(600, FEW, 1, true);
    assert_child_beside_succeeds(thread, go_through_a_torn_list, NULL);
}

static void test_a_torn_list_frees_no_suspect_in_the_child_of_a_fork(void **state)
{
    (void)state;
    pthread_t thread = start_work(700, FEW, 1, true);
    assert_child_beside_succeeds(thread, go_through_a_torn_list, &work);
}

/* Somebody who was to push the slab has set `queued`, and is not in the child. */
static void free_in_the_child(void *argument)
{
    struct slab *slab = blocks_slab_of(argument);
    blocks_fork_child();
    size_t before = free_in(slab);
    push_remote_free(slab, argument, index_in(slab, argument));
    require(blocks_heap.abandoned_queue.newest == slab);
    require(adopt_slab(slab->class_index, thread_heap) == slab);
    require(free_in(slab) == before + 1);
}

static void test_the_child_of_a_fork_forgets_who_was_pushing(void **state)
{
    (void)state;
    pthread_t thread = start_work(5000, 2, 2, true);
    struct slab *slab = blocks_slab_of(work.blocks[0]);
    slab->queued = true;
    assert_child_beside_succeeds(thread, free_in_the_child, work.blocks[0]);
    slab->queued = false;
}

/* A slab was given back while it was on a queue, which the child does not have. */
static void queue_a_slab_of_the_record(void *record)
{
    unsigned class_index = size_class_of(5200);
    blocks_fork_child();
    lock_acquire(&blocks_heap.lock);
    struct slab *slab = new_slab(class_index, thread_heap);
    lock_release(&blocks_heap.lock);
    require(slab == record);
    require(fast_table.bins[fast_table_unit(slab->base) / UNITS_PER_GRANULE] != NULL);
    offer_to_owner(slab);
    require(thread_heap->remote_queue.newest == slab);
}

static void test_the_child_of_a_fork_forgets_that_an_unused_record_was_queued(void **state)
{
    (void)state;
    lock_acquire(&blocks_heap.lock);
    struct slab *record = new_slab_record(1);
    record->queued = true;
    drop_slab_record(record);
    lock_release(&blocks_heap.lock);
    const struct ending ending = run_child(queue_a_slab_of_the_record, record);
    record->queued = false;
    assert_succeeded(&ending);
}

static void count_heap_of_another(void *count, struct thread_heap *heap)
{
    *(unsigned *)count += heap->alive && heap != thread_heap;
}

/* A fork here would take each of these heaps from its thread. Another thread may take an unused
 * heap, so a malloc here must not. */
static void look_at_heaps(int number)
{
    unsigned count = 0;
    (void)number;
    require(lock_is_own(&blocks_heap.lock) || thread_heap != blocks_heap.unused_thread_heaps);
    if (fork_chain_is_interrupted())
        return;
    each_thread_heap(count_heap_of_another, &count);
    require(count == 1); /* the first thread's */
}

static void *start_and_exit_in_steps(void *unused)
{
    step(true);
    bool started = start_thread();
    blocks_thread_exit();
    step(false);
    require(started);
    return unused;
}

static void start_and_exit_between_forks(void *unused)
{
    const struct sigaction action = {.sa_handler = look_at_heaps};
    pthread_t thread;
    require(sigaction(SIGTRAP, &action, NULL) == 0);
    require(pthread_create(&thread, NULL, start_and_exit_in_steps, unused) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void test_between_any_two_instructions_of_start_and_exit_a_heap_has_one_thread(void **state)
{
    (void)state;
    const struct ending ending = run_child(start_and_exit_between_forks, NULL);
    assert_succeeded(&ending);
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, NULL) && blocks_alloc(1) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_slabs_go_back_when_their_thread_exits),
        cmocka_unit_test(test_a_slab_with_a_live_block_is_abandoned_with_all_that_is_free),
        cmocka_unit_test(test_an_abandoned_slab_is_adopted_before_a_new_one_is_made),
        cmocka_unit_test(test_a_full_abandoned_slab_serves_when_a_block_of_it_is_freed),
        cmocka_unit_test(test_the_last_free_of_an_abandoned_slab_gives_it_back),
        cmocka_unit_test(test_a_free_that_was_sent_to_a_thread_that_is_gone_is_found),
        cmocka_unit_test(test_remote_frees_that_a_thread_has_not_looked_at_are_taken_as_it_exits),
        cmocka_unit_test(test_a_thread_that_exits_passes_on_what_is_not_its_own),
        cmocka_unit_test(test_a_thread_heap_that_is_used_again_takes_remote_frees),
        cmocka_unit_test(test_trim_gives_back_what_a_thread_that_is_gone_had),
        cmocka_unit_test(test_trim_gives_back_what_other_threads_have_freed),
        cmocka_unit_test(test_a_large_block_gets_what_a_thread_that_is_gone_had),
        cmocka_unit_test(test_thread_heaps_are_used_again),
        cmocka_unit_test(test_an_exit_leaves_every_bin_as_a_thread_needs_it_that_starts),
        cmocka_unit_test(test_an_exit_during_a_fork_is_made_up_for_in_the_parent),
        cmocka_unit_test(test_the_child_of_a_fork_adopts_what_the_others_had),
        cmocka_unit_test(test_a_thread_of_a_forks_child_starts_with_empty_bins),
        cmocka_unit_test(test_a_torn_list_frees_no_live_block_in_the_child_of_a_fork),
        cmocka_unit_test(test_a_torn_list_frees_no_suspect_in_the_child_of_a_fork),
        cmocka_unit_test(test_the_child_of_a_fork_forgets_who_was_pushing),
        cmocka_unit_test(test_the_child_of_a_fork_forgets_that_an_unused_record_was_queued),
        cmocka_unit_test(test_between_any_two_instructions_of_start_and_exit_a_heap_has_one_thread),
    };
    return cmocka_run_group_tests_name("threads", tests, start, NULL);
}
