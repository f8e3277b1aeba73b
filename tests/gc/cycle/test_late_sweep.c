/* SPDX-License-Identifier: MIT
 *
 * test_late_sweep.c: a cycle whose sweep is left to the threads, an invariant of
 * alloc/blocks/late_sweep.h each.
 *
 * Children are blocks that the test knows by numbers that are no addresses, so nothing points to
 * them. A word on the stack may keep one or two by chance, so there are many.
 */
#include "tests/gc/cycle/cycle_unit.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/blocks/heap.h"
#include "alloc/blocks/late_sweep.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/sweep.h"

enum { BYTES = 1024, IN_SLAB = GRANULE_BYTES / BYTES, SLABS = 12, BLOCKS = SLABS * IN_SLAB };
enum { OTHER_BYTES = 2048 };

static void *kept[BLOCKS];       /* roots, until they are hidden */
static uintptr_t hidden[BLOCKS]; /* no addresses; 0: none */
static unsigned sweeps[3];       /* by enum sweeper */

/* [locked sweep]: but for those in the stop, which the collecting thread's lock covers as well. */
static void sweep_and_count(struct slab *slab, enum sweeper sweeper)
{
    assert_false(lock_try(&blocks_heap.lock));
    assert_true(is_unswept(slab));
    sweeps[sweeper]++;
    sweep_late(slab, sweeper);
}

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow,
                                                      .collect_if_due = never_collect,
                                                      .rows = SLAB_SEEN_ROWS,
                                                      .late_live_bits = true,
                                                      .sweep_late = sweep_and_count};
    static const struct pace_options pace = {.generations = true, .always_minors = true};
    static const struct collect_options options = {.markers = 1,
                                                   .stack_bytes = 1 << 20,
                                                   .leaks = SWEEP_RECLAIM,
                                                   .generations = true,
                                                   .concurrent = true,
                                                   .dirty = DIRTY_ASYNC,
                                                   .retires = true};
    pace_init(&pace);
    return blocks_init(25, &collector) && collect_init(&options) ? 0 : -1;
}

static void end(void)
{
    mark_all();
    memset(sweeps, 0, sizeof sweeps);
    end_cycle();
}

static void run_cycle(void)
{
    begin_cycle();
    end();
}

static void sweep_rest(void)
{
    blocks_lock();
    blocks_sweep_rest();
    blocks_unlock();
    assert_true(blocks_is_valid());
}

static struct slab_word *word_of(const void *block, uint64_t *bit)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    *bit = slab_bit(index);
    return &slab->words[index / SLAB_WORD_BLOCKS];
}

static bool is_marked(const void *block)
{
    uint64_t bit;
    return (word_of(block, &bit)->mark & bit) != 0;
}

static bool is_old(const void *block)
{
    uint64_t bit;
    struct slab *slab = blocks_slab_of(block);
    size_t word = (size_t)(word_of(block, &bit) - slab->words);
    return (*slab_old(slab, word) & bit) != 0;
}

static void *hidden_block(size_t i)
{
    return (void *)(hidden[i] ^ DISGUISE);
}

static void hide(size_t i)
{
    hide_blocks(&kept[i], &hidden[i], 1);
}

static size_t live_hidden(void)
{
    return count_live(hidden, BLOCKS);
}

/* Of each four blocks the first is dead, the second free, and two live. (A word of the roots that
 * names a block keeps the one that ends there, too.) */
static __attribute__((noinline)) void make_blocks(void)
{
    require_cycles();
    memset(hidden, 0, sizeof hidden);
    memset(kept, 0, sizeof kept);
    assert_true(collect(CAUSE_ASKED, 0));
    for (size_t i = 0; i < BLOCKS; i++)
        kept[i] = new_parent(BYTES);
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 4 == 0)
            hide(i);
        if (i % 4 == 1) {
            blocks_free_by_slab(kept[i]);
            kept[i] = NULL;
        }
    }
    blocks_flush_thread();
    wipe_stack();
}

static void check_kept(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (kept[i])
            assert_true(blocks_usable_size(kept[i]) > 0);
}

static void test_what_is_dead_is_freed_after_the_stop(void **state)
{
    (void)state;
    make_blocks();
    uint64_t freed = collect_statistics()->freed_blocks;
    run_cycle();
    assert_true(live_hidden() > BLOCKS / 8);
    assert_int_equal(collect_statistics()->freed_blocks, freed);
    assert_int_equal(sweeps[SWEEPER_OWNER], 0);
    sweep_rest();
    assert_true(sweeps[SWEEPER_OWNER] > 0);
    assert_int_equal(sweeps[SWEEPER_OTHER], 0);
    assert_true(live_hidden() < BLOCKS / 16);
    check_kept();
    unsigned all = sweeps[SWEEPER_OWNER];
    sweep_rest();
    assert_int_equal(sweeps[SWEEPER_OWNER], all); /* each slab once */
    assert_true(collect(CAUSE_ASKED, 0));
    assert_true(collect_statistics()->freed_blocks >= freed + BLOCKS / 8);
    assert_true(generations_are_ready());
}

/* What is taken after the stop is young, and no dead block is handed out before its slab is
 * swept. */
static void take_again(void **taken, size_t count)
{
    for (size_t i = 0; i < count; i++)
        taken[i] = new_parent(BYTES);
}

static void *again[BLOCKS]; /* roots */

static void test_swept_before_use(void **state)
{
    (void)state;
    make_blocks();
    run_cycle();
    take_again(again, BLOCKS / 2);
    assert_true(sweeps[SWEEPER_OWNER] > 0);
    sweep_rest();
    size_t reused = 0;
    for (size_t i = 0; i < BLOCKS / 2; i++) {
        assert_true(blocks_usable_size(again[i]) > 0);
        assert_false(is_old(again[i]));
        for (size_t j = 0; j < BLOCKS; j++)
            reused += hidden[j] && again[i] == hidden_block(j);
    }
    assert_true(reused > BLOCKS / 16);
    check_kept();
    memset(again, 0, sizeof again);
}

/* Slabs that are full until they are swept. (The pointers lie in a block: there a word keeps no
 * block that ends at another.) */
static void test_the_heap_does_not_grow_for_want_of_a_sweep(void **state)
{
    (void)state;
    make_blocks();
    again[BLOCKS - 1] = new_parent(BLOCKS * sizeof(void *));
    take_again(again[BLOCKS - 1], BLOCKS / 4 + 2 * IN_SLAB); /* all that is free */
    run_cycle();
    size_t used = blocks_used_bytes();
    take_again(again, BLOCKS / 8);
    assert_true(sweeps[SWEEPER_OWNER] > 0);
    assert_true(blocks_used_bytes() <= used);
    sweep_rest();
    memset(again, 0, sizeof again);
}

/* What is empty serves any class: no other need take a new slab for that. */
static void test_empty_slabs_go_back_while_others_are_used_again(void **state)
{
    (void)state;
    make_blocks();
    again[0] = new_parent(BLOCKS * sizeof(void *));
    void **others = again[0];
    for (size_t i = 0; i < BLOCKS; i++)
        others[i] = new_parent(OTHER_BYTES);
    memset(kept, 0, sizeof kept);
    for (size_t i = 0; i < BLOCKS; i += 2)
        others[i] = NULL;
    wipe_stack();
    run_cycle();
    size_t used = blocks_used_bytes();
    for (size_t i = 0; i < BLOCKS / 2; i += 2)
        others[i] = new_parent(OTHER_BYTES);
    assert_true(blocks_used_bytes() < used - BLOCKS * BYTES / 2);
    sweep_rest();
    memset(again, 0, sizeof again);
}

/* Blocks of the current slab and of local free lists are taken without a look at the slab. */
static void test_swept_before_use_of_current_slabs_and_lists(void **state)
{
    (void)state;
    make_blocks();
    take_again(again, 1);
    for (size_t i = 2; i < BLOCKS; i += 4) {
        blocks_free_by_slab(kept[i]);
        kept[i] = NULL;
    }
    run_cycle();
    assert_true(sweeps[SWEEPER_STOPPED] > 1);
    take_again(again + 1, IN_SLAB);
    assert_int_equal(sweeps[SWEEPER_OWNER], 0);
    sweep_rest();
    for (size_t i = 1; i <= IN_SLAB; i++) {
        assert_true(blocks_usable_size(again[i]) > 0);
        assert_false(is_old(again[i]));
    }
    memset(again, 0, sizeof again);
}

/* Blocks that are dead when the cycle begins, and freed before it ends. */
static void test_listed_is_marked(void **state)
{
    (void)state;
    make_blocks();
    begin_cycle();
    size_t unmarked = 0;
    for (size_t i = 0; i < BLOCKS; i += 4)
        unmarked += !is_marked(hidden_block(i));
    assert_true(unmarked > BLOCKS / 8);
    for (size_t i = 0; i < BLOCKS; i += 4)
        blocks_free_by_slab(hidden_block(i)); /* to the local free list */
    end();
    for (size_t i = 0; i < BLOCKS; i += 4)
        assert_true(is_marked(hidden_block(i)));
    take_again(again, BLOCKS / 4);
    sweep_rest();
    for (size_t i = 0; i < BLOCKS / 4; i++)
        assert_true(blocks_usable_size(again[i]) > 0);
    memset(again, 0, sizeof again);
}

static void *free_hidden(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i += 4)
        blocks_free_by_slab(hidden_block(i));
    return unused;
}

static void in_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, function, argument), 0);
    pthread_join(thread, NULL);
}

/* The same, freed by another thread: the owning thread takes the frees when the slab may be being
 * swept. */
static void test_remote_frees_are_marked(void **state)
{
    (void)state;
    make_blocks();
    begin_cycle();
    in_thread(free_hidden, NULL);
    end();
    for (size_t i = 0; i < BLOCKS; i += 4)
        assert_true(is_marked(hidden_block(i)));
    sweep_rest();
}

/* A new slab's blocks have no marks, and are not dead for that. */
static void test_new_slabs_are_swept(void **state)
{
    (void)state;
    make_blocks();
    run_cycle();
    take_again(again, BLOCKS);
    blocks_flush_thread();
    sweep_rest();
    for (size_t i = 0; i < BLOCKS; i++)
        assert_true(blocks_usable_size(again[i]) > 0);
    memset(again, 0, sizeof again);
}

/* The next cycle clears the marks, then slabs are used. */
static void test_swept_before_stop(void **state)
{
    (void)state;
    make_blocks();
    run_cycle();
    begin_cycle();
    assert_true(sweeps[SWEEPER_OWNER] > 0);
    take_again(again, BLOCKS / 2);
    check_kept();
    end();
    sweep_rest();
    check_kept();
    memset(again, 0, sizeof again);
}

/* A large block that is dead goes back at once. */
static void test_large_blocks_are_swept_after_the_stop(void **state)
{
    (void)state;
    make_blocks();
    for (size_t i = 0; i < 40; i++) {
        kept[i] = new_parent(256 << 10);
        if (i % 3 < 2)
            hide(i);
    }
    for (size_t i = 40; i < BLOCKS; i++)
        kept[i] = NULL;
    size_t used = blocks_used_bytes();
    run_cycle();
    assert_true(blocks_used_bytes() < used - ((size_t)10 * 256 << 10));
    check_kept();
}

/* Another thread's slabs, whose dead blocks become remote frees. */
static pthread_barrier_t barrier;

static void *own_blocks(void *unused)
{
    for (size_t i = 0; i < BLOCKS; i++)
        kept[i] = new_parent(BYTES);
    wipe_stack();
    pthread_barrier_wait(&barrier); /* made */
    pthread_barrier_wait(&barrier); /* swept */
    take_again(again, BLOCKS / 2);
    return unused;
}

static void test_slabs_of_other_threads_are_swept_remotely(void **state)
{
    (void)state;
    make_blocks();
    memset(hidden, 0, sizeof hidden);
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, own_blocks, NULL), 0);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 4 < 2)
            hide(i);
    wipe_stack();
    run_cycle();
    sweep_rest();
    assert_true(sweeps[SWEEPER_OTHER] >= SLABS / 2);
    assert_true(live_hidden() < BLOCKS / 8 * 3);
    check_kept();
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    size_t reused = 0;
    for (size_t i = 0; i < BLOCKS / 2; i++)
        for (size_t j = 0; j < BLOCKS; j++)
            reused += hidden[j] && again[i] == hidden_block(j);
    assert_true(reused > BLOCKS / 8);
    check_kept();
    assert_true(blocks_is_valid());
    memset(again, 0, sizeof again);
}

/* Retires a block that lives, and takes that back, while another thread sweeps the block's slab. */
static _Atomic unsigned lost_bits, retires;
static void *_Atomic to_retire; /* NULL: nothing more */

static void *retire_again_and_again(void *unused)
{
    for (void *block; (block = to_retire); retires++) {
        uint64_t bit;
        struct slab_word *word = word_of(block, &bit);
        blocks_retire(block, "free");
        for (int pause = 0; pause < 3; pause++)
            __builtin_ia32_pause();
        lost_bits += !(__atomic_fetch_and(&word->retired, ~bit, __ATOMIC_SEQ_CST) & bit);
    }
    return unused;
}

/* While the other thread is at it. */
static void sweep_slab_of(void *block)
{
    to_retire = block;
    for (unsigned before = retires; retires - before < 10;)
        __builtin_ia32_pause();
    blocks_lock();
    sweep_with_lock(blocks_slab_of(block), SWEEPER_OWNER);
    blocks_unlock();
}

static void test_retired_is_atomic(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    lost_bits = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        make_blocks();
        for (size_t i = 0; i < BLOCKS; i += 4)
            blocks_retire(hidden_block(i), "free");
        run_cycle();
        pthread_t thread;
        to_retire = kept[2];
        assert_int_equal(pthread_create(&thread, NULL, retire_again_and_again, NULL), 0);
        for (size_t i = 2; i < BLOCKS; i += 4)
            if (is_unswept(blocks_slab_of(kept[i])))
                sweep_slab_of(kept[i]);
        to_retire = NULL;
        pthread_join(thread, NULL);
        sweep_rest();
        assert_true(live_hidden() < BLOCKS / 16);
        for (size_t i = 0; i < BLOCKS; i += 4) {
            uint64_t bit;
            const struct slab_word *word = word_of(hidden_block(i), &bit);
            assert_false(word->free & word->retired & bit);
        }
    }
    assert_int_equal(lost_bits, 0);
}

/* A free that counts, of a dead block whose address was hidden: as after any sweep. */
static int free_dead_in_child(void)
{
    signal(SIGABRT, SIG_DFL);
    for (size_t i = 0; i < BLOCKS; i += 4)
        blocks_free_by_slab(hidden_block(i));
    return 0;
}

static void test_a_dead_block_is_not_freed_twice(void **state)
{
    (void)state;
    make_blocks();
    run_cycle();
    pid_t process = fork();
    if (process == 0)
        _exit(free_dead_in_child());
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    sweep_rest();
}

/* A thread that ends leaves no slab unswept to who adopts it. */
static void *make_and_run_cycle(void *unused)
{
    make_blocks();
    run_cycle();
    blocks_thread_exit();
    return unused;
}

static void test_abandoned_slabs_are_swept(void **state)
{
    (void)state;
    if (!concurrent_is_on())
        skip();
    in_thread(make_and_run_cycle, NULL);
    assert_true(live_hidden() < BLOCKS / 16);
    check_kept();
    take_again(again, BLOCKS / 2);
    check_kept();
    memset(again, 0, sizeof again);
}

int main(void)
{
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_dead_is_freed_after_the_stop),
        cmocka_unit_test(test_swept_before_use),
        cmocka_unit_test(test_the_heap_does_not_grow_for_want_of_a_sweep),
        cmocka_unit_test(test_empty_slabs_go_back_while_others_are_used_again),
        cmocka_unit_test(test_swept_before_use_of_current_slabs_and_lists),
        cmocka_unit_test(test_listed_is_marked),
        cmocka_unit_test(test_remote_frees_are_marked),
        cmocka_unit_test(test_new_slabs_are_swept),
        cmocka_unit_test(test_swept_before_stop),
        cmocka_unit_test(test_large_blocks_are_swept_after_the_stop),
        cmocka_unit_test(test_slabs_of_other_threads_are_swept_remotely),
        cmocka_unit_test(test_retired_is_atomic),
        cmocka_unit_test(test_a_dead_block_is_not_freed_twice),
        cmocka_unit_test(test_abandoned_slabs_are_swept),
    };
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
