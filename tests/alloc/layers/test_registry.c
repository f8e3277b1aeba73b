/* SPDX-License-Identifier: MIT
 *
 * test_registry.c: arenas and threads' caches, under the layers over Kingsley's heap. Each case has
 * a child of its own, since the registry is process-wide.
 */
#include "tests/unit/allocator_unit.h"

#include <pthread.h>
#include <signal.h>

#include "alloc/layers/registry.h"
#include "alloc/presets/historic.h"
#include "tests/unit/single_step.h"
#include "vm/fork_chain.h"
#include "vm/pages.h"

static const struct allocator *const heap = &bsd_default;

enum { CACHE_BYTES = 1 << 20, LARGE_BYTES = 1 << 18 };

static void init(uint64_t arenas)
{
    static struct layered_options options;
    options = (struct layered_options){
        .arenas = arenas, .cache_bytes = CACHE_BYTES, .large_bytes = LARGE_BYTES};
    require(heap->init(&options));
}

/* A thread that is held back after its first allocation, so that several exist at once. */
static pthread_barrier_t all_started;

static void *run_with_others(void *unused)
{
    heap->free(heap->alloc(100));
    pthread_barrier_wait(&all_started);
    heap->thread_exit();
    return unused;
}

static void start_together(unsigned count)
{
    pthread_t threads[16];
    pthread_barrier_init(&all_started, NULL, count);
    for (unsigned i = 0; i < count; i++)
        require(pthread_create(&threads[i], NULL, run_with_others, NULL) == 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

static void use_one_arena(void *argument)
{
    struct allocator_statistics statistics;
    (void)argument;
    init(1);
    start_together(4);
    heap->statistics(&statistics);
    require(statistics.arenas == 1);
    require(statistics.threads == 0); /* they have ended */
}

static void use_up_to_three_arenas(void *argument)
{
    struct allocator_statistics statistics;
    (void)argument;
    init(3);
    start_together(2);
    heap->statistics(&statistics);
    require(statistics.arenas == 2); /* no more than there are threads */
    start_together(8);
    heap->statistics(&statistics);
    require(statistics.arenas == 3);
}

static void use_one_arena_when_tuned(void *argument)
{
    struct allocator_statistics statistics;
    (void)argument;
    init(3);
    heap->tune(TUNE_ARENAS, 1);
    start_together(4);
    heap->statistics(&statistics);
    require(statistics.arenas == 1);
    heap->tune(TUNE_ARENAS, 2);
    start_together(4);
    heap->statistics(&statistics);
    require(statistics.arenas == 2);
}

static void test_arenas_are_made_for_threads_up_to_the_option(void **state)
{
    (void)state;
    assert_child_succeeds(use_one_arena, NULL);
    assert_child_succeeds(use_up_to_three_arenas, NULL);
    assert_child_succeeds(use_one_arena_when_tuned, NULL);
}

/* Threads that live on until they are let go, so that the arenas stay taken. */
static pthread_barrier_t let_go;

static void *take_an_arena(void *arena)
{
    heap->free(heap->alloc(100));
    *(struct arena **)arena = thread_cache->arena;
    pthread_barrier_wait(&all_started);
    pthread_barrier_wait(&let_go);
    heap->thread_exit();
    return NULL;
}

static void give_the_arena_with_fewest_threads(void *unused)
{
    enum { THREADS = 3, ARENAS = 2 };
    pthread_t threads[THREADS];
    struct arena *taken[THREADS], *next;
    (void)unused;
    init(ARENAS);
    require(pthread_barrier_init(&let_go, NULL, THREADS + 1) == 0);
    require(pthread_barrier_init(&all_started, NULL, 2) == 0);
    for (unsigned i = 0; i < THREADS; i++) {
        require(pthread_create(&threads[i], NULL, take_an_arena, &taken[i]) == 0);
        pthread_barrier_wait(&all_started);
    }
    require(registry.arena_count == ARENAS && registry.threads == THREADS);
    require(taken[0] != taken[1]);
    require(taken[2]->threads == 2);
    struct arena *other = taken[2] == taken[0] ? taken[1] : taken[0];
    require(other->threads == 1);
    heap->free(heap->alloc(100));
    next = thread_cache->arena;
    require(next == other && other->threads == 2);
    heap->thread_exit();
    require(other->threads == 1);
    pthread_barrier_wait(&let_go);
    for (unsigned i = 0; i < THREADS; i++)
        require(pthread_join(threads[i], NULL) == 0);
    require(taken[0]->threads == 0 && taken[1]->threads == 0);
}

static void test_a_thread_gets_the_arena_that_has_the_fewest(void **state)
{
    (void)state;
    assert_child_succeeds(give_the_arena_with_fewest_threads, NULL);
}

static volatile bool is_starting;

static void end_of_start(void)
{
    is_starting = false;
}

static void count_block(void *count, const struct block_info *info)
{
    *(size_t *)count += info->state == BLOCK_LIVE;
}

/* As another thread that walks, or looks for free blocks in all arenas, finds them here. */
static void walk_at_step(int number)
{
    size_t blocks = 0;
    (void)number;
    if (!is_starting)
        return;
    heap->walk(count_block, &blocks);
    require(blocks == 1);
}

static void *start_in_steps(void *unused)
{
    step(true);
    void *block = heap->alloc(100);
    step(false);
    require(block != NULL);
    return unused;
}

static void add_arenas_in_steps(void *unused)
{
    const struct sigaction action = {.sa_handler = walk_at_step};
    struct allocator_statistics statistics;
    pthread_t thread;
    (void)unused;
    init(2);
    require(heap->alloc(100) && sigaction(SIGTRAP, &action, NULL) == 0);
    allocator_thread_started = end_of_start;
    is_starting = true;
    require(pthread_create(&thread, NULL, start_in_steps, NULL) == 0);
    pthread_join(thread, NULL);
    require(!is_starting);
    heap->statistics(&statistics);
    require(statistics.arenas == 2);
}

static void test_an_arena_is_there_before_it_is_counted(void **state)
{
    (void)state;
#ifndef NDEBUG
    skip(); /* the ranks of locks are a thread's, and the handler stands for another */
#endif
    assert_child_succeeds(add_arenas_in_steps, NULL);
}

enum { BLOCKS = 300, BLOCK_BYTES = 200 };

static void fill_a_cache(void)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = heap->alloc(BLOCK_BYTES);
    for (int i = 0; i < BLOCKS; i++)
        heap->free(blocks[i]);
}

static void *fill_a_cache_and_end(void *cached)
{
    fill_a_cache();
    *(size_t *)cached = heap->cached_bytes();
    heap->thread_exit();
    return NULL;
}

static void use_again_what_a_thread_cached(void *unused)
{
    size_t cached_by_thread, cached_by_first = 0, metadata = 0;
    (void)unused;
    init(2);
    require(heap->alloc(100));
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, fill_a_cache_and_end, &cached_by_thread) == 0);
        require(pthread_join(thread, NULL) == 0);
        if (i == 0) {
            cached_by_first = heap->cached_bytes();
            metadata = metadata_bytes();
        }
        require(cached_by_thread >= 100 * (size_t)BLOCK_BYTES);
        require(heap->cached_bytes() == cached_by_first);
    }
    require(metadata_bytes() == metadata); /* the record of a cache serves the next thread */
    heap->trim();
    require(heap->cached_bytes() == 0);
}

static void test_the_cache_of_a_thread_that_ends_serves_the_next(void **state)
{
    (void)state;
    assert_child_succeeds(use_again_what_a_thread_cached, NULL);
}

static void *fill_a_cache_and_wait(void *cache)
{
    fill_a_cache();
    *(struct thread_cache **)cache = thread_cache;
    pthread_barrier_wait(&all_started);
    pthread_barrier_wait(&let_go);
    return NULL;
}

/* The cache of a thread that has filled it and does nothing more; for this process it is that of a
 * thread which a fork has left behind. */
static struct thread_cache *leave_an_orphan(void)
{
    pthread_t thread;
    struct thread_cache *cache;
    init(2);
    require(heap->alloc(100));
    require(pthread_barrier_init(&all_started, NULL, 2) == 0);
    require(pthread_barrier_init(&let_go, NULL, 2) == 0);
    require(pthread_create(&thread, NULL, fill_a_cache_and_wait, &cache) == 0);
    pthread_barrier_wait(&all_started);
    struct cache_bin *bin = &cache->bins[registry.policy->bin_of(BLOCK_BYTES)];
    bin->frees += 3; /* it was interrupted where the counters do not agree with the list */
    heap->fork_child();
    require(registry.orphans == 1 && cache->is_orphan && !thread_cache->is_orphan);
    require(registry.threads == 1);
    return cache;
}

static uint32_t length(const void *list)
{
    uint32_t count = 0;
    for (; list; list = *(void *const *)list)
        count++;
    return count;
}

static void *adopt(void *orphan)
{
    struct cache_bin *bin;
    heap->free(heap->alloc(2 * BLOCK_BYTES)); /* of another bin */
    require(thread_cache == orphan && !thread_cache->is_orphan && registry.orphans == 0);
    bin = &thread_cache->bins[registry.policy->bin_of(BLOCK_BYTES)];
    require(cache_bin_count(bin) == length(bin->head));
    return NULL;
}

static void let_a_thread_adopt(void *unused)
{
    pthread_t thread;
    (void)unused;
    struct thread_cache *orphan = leave_an_orphan();
    require(pthread_create(&thread, NULL, adopt, orphan) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void take_lists_of_an_orphan(void *unused)
{
    (void)unused;
    struct thread_cache *orphan = leave_an_orphan();
    unsigned bin_index = registry.policy->bin_of(BLOCK_BYTES);
    struct cache_bin *bin = &orphan->bins[bin_index];
    uint32_t in_list = length(bin->head);
    void *reserve = bin->reserve;
    require(reserve && in_list > 0);
    struct chain first = registry_take_from_orphans(bin_index);
    struct chain second = registry_take_from_orphans(bin_index);
    require(first.blocks == reserve && first.count == length(reserve));
    require(second.count == in_list && length(second.blocks) == in_list);
    require(!registry_take_from_orphans(bin_index).blocks);
    require(cache_bin_count(bin) == 0 && !bin->head && !bin->reserve);
}

static void test_what_a_fork_left_behind_is_adopted_or_taken_list_by_list(void **state)
{
    (void)state;
    assert_child_succeeds(let_a_thread_adopt, NULL);
    assert_child_succeeds(take_lists_of_an_orphan, NULL);
}

/* A fork here would make orphans of these caches. */
static void count_caches_of_others(int number)
{
    unsigned count = 0;
    (void)number;
    if (fork_chain_is_interrupted())
        return;
    for (const struct thread_cache *cache = registry.caches; cache; cache = cache->next)
        count += cache != thread_cache;
    require(count == 1); /* the first thread's */
}

static void *start_and_exit_in_steps(void *unused)
{
    step(true);
    registry_start_thread();
    heap->thread_exit();
    step(false);
    return unused;
}

static void start_and_exit_between_forks(void *unused)
{
    const struct sigaction action = {.sa_handler = count_caches_of_others};
    pthread_t thread;
    init(2);
    require(heap->alloc(100) && sigaction(SIGTRAP, &action, NULL) == 0);
    require(pthread_create(&thread, NULL, start_and_exit_in_steps, unused) == 0);
    require(pthread_join(thread, NULL) == 0);
    require(registry.started == 2 && registry.threads == 1);
}

static void test_a_handler_that_forks_takes_no_cache_from_a_thread_that_starts_or_ends(void **state)
{
    (void)state;
    assert_child_succeeds(start_and_exit_between_forks, NULL);
}

static void *serve_without_a_cache(void *unused)
{
    heap->free(heap->alloc(100));
    struct thread_cache *own = thread_cache;
    require(registry_leave() == own);
    require(!registry_leave()); /* it has none any more */
    registry_start_thread();
    require(!thread_has_cache());
    registry_retire_cache(own);
    return unused;
}

static void leave_for_ever(void *unused)
{
    pthread_t thread;
    (void)unused;
    init(1);
    require(!registry_leave()); /* before its first need, too */
    require(pthread_create(&thread, NULL, serve_without_a_cache, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void test_a_thread_that_has_left_gets_no_other_cache(void **state)
{
    (void)state;
    assert_child_succeeds(leave_for_ever, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arenas_are_made_for_threads_up_to_the_option),
        cmocka_unit_test(test_a_thread_gets_the_arena_that_has_the_fewest),
        cmocka_unit_test(test_an_arena_is_there_before_it_is_counted),
        cmocka_unit_test(test_the_cache_of_a_thread_that_ends_serves_the_next),
        cmocka_unit_test(test_what_a_fork_left_behind_is_adopted_or_taken_list_by_list),
        cmocka_unit_test(
            test_a_handler_that_forks_takes_no_cache_from_a_thread_that_starts_or_ends),
        cmocka_unit_test(test_a_thread_that_has_left_gets_no_other_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
