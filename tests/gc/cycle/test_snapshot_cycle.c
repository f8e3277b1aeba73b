/* SPDX-License-Identifier: MIT
 *
 * test_snapshot_cycle.c: a cycle that marks in a snapshot, an invariant of snapshot_cycle.h each.
 *
 * Children are blocks that the test knows by numbers that are no addresses, so nothing points to
 * them. A word on the stack may keep one or two by chance, so there are many.
 */
#include "tests/gc/cycle/cycle_unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/blocks/blocks.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/verify.h"
#include "gc/world/snapshot.h"
#include "vm/fork_chain.h"

enum { CHILDREN = 100, CHILD_BYTES = 1024, PARENT_BYTES = 4096, LARGE_BYTES = 3 << 20 };

static void **parents[8];          /* roots */
static void *kept[CHILDREN];       /* roots, too, until they are hidden */
static uintptr_t hidden[CHILDREN]; /* no addresses */

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow,
                                                      .collect_if_due = never_collect,
                                                      .rows = SLAB_SEEN_ROWS,
                                                      .late_live_bits = true};
    static const struct pace_options pace = {.generations = true, .always_minors = true};
    static const struct collect_options options = {.markers = 1,
                                                   .stack_bytes = 16 << 20,
                                                   .leaks = SWEEP_RECLAIM,
                                                   .generations = true,
                                                   .concurrent = true,
                                                   .uses_snapshots = true,
                                                   .dirty = DIRTY_ASYNC,
                                                   .verify = true};
    pace_init(&pace);
    return blocks_init(25, &collector) && collect_init(&options) ? 0 : -1;
}

static void begin(void)
{
    begin_cycle();
    assert_true(concurrent_awaits_snapshot());
}

static void end(void)
{
    uint64_t verified = verify_counts().cycles, given_up = concurrent_statistics()->given_up;
    bool is_taken = !concurrent_awaits_snapshot();
    end_cycle();
    assert_int_equal(concurrent_statistics()->given_up, given_up);
    assert_int_equal(verify_counts().cycles, verified + !is_taken);
}

static void hide(void)
{
    hide_blocks(kept, hidden, CHILDREN);
}

static void make_children(void)
{
    require_cycles();
    memset(parents, 0, sizeof parents);
    for (size_t i = 0; i < CHILDREN; i++)
        kept[i] = new_parent(CHILD_BYTES);
    full();
    hide();
    wipe_stack();
}

static void reveal(void **at)
{
    reveal_blocks(hidden, CHILDREN, at);
}

static size_t live_children(void)
{
    return count_live(hidden, CHILDREN);
}

static void test_a_cycle_frees_what_was_dead_when_it_began(void **state)
{
    (void)state;
    make_children();
    uint64_t done = snapshot_statistics()->ended[SNAPSHOT_DONE];
    begin();
    mark_all();
    end();
    assert_true(live_children() < CHILDREN / 4);
    assert_int_equal(snapshot_statistics()->ended[SNAPSHOT_DONE], done + 1);
    assert_true(generations_are_ready());
}

static void test_the_roots_that_the_child_reads_are_counted(void **state)
{
    (void)state;
    static char data[4 << 20];
    make_children();
    memset(data, 1, sizeof data);
    uint64_t before = snapshot_statistics()->root_bytes;
    begin();
    mark_all();
    end();
    assert_true(snapshot_statistics()->root_bytes >= before + sizeof data);
}

/* The parent's mark stack grows while it notes them: the memory that it had is no memory that the
 * child lacks. */
static void test_more_roots_than_the_mark_stack_has_room_for(void **state)
{
    (void)state;
    enum { ROOTS = 300000 };
    make_children();
    void **shared = mmap(NULL, ROOTS * sizeof *shared, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    for (size_t i = 0; i < ROOTS; i++)
        shared[i] = (void *)(hidden[i % CHILDREN] ^ DISGUISE);
    uint64_t done = snapshot_statistics()->ended[SNAPSHOT_DONE];
    begin();
    mark_all();
    end();
    assert_int_equal(snapshot_statistics()->ended[SNAPSHOT_DONE], done + 1);
    assert_int_equal(live_children(), CHILDREN);
    munmap(shared, ROOTS * sizeof *shared);
}

/* Wherever its only pointer goes meanwhile. */
static void test_what_was_reached_when_it_began_survives(void **state)
{
    (void)state;
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    reveal(parents[0]);
    begin();
    memset(parents[0], 0, PARENT_BYTES);
    end();
    assert_int_equal(live_children(), CHILDREN);
}

/* The page is protected meanwhile, and written again after that. */
static void test_minor_collections_follow(void **state)
{
    (void)state;
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    begin();
    mark_all();
    end();
    for (size_t i = 0; i < CHILDREN; i++)
        kept[i] = new_parent(CHILD_BYTES);
    hide();
    reveal(parents[0]);
    wipe_stack();
    uint64_t minor = collect_statistics()->minor.collections;
    assert_true(collect(CAUSE_VERIFY, 0));
    assert_int_equal(collect_statistics()->minor.collections, minor + 1);
    assert_int_equal(live_children(), CHILDREN);
}

static __attribute__((noinline)) void make_born(size_t bytes)
{
    for (size_t i = 0; i < CHILDREN; i++)
        hidden[i] = (uintptr_t)new_parent(bytes) ^ DISGUISE;
}

static void check_born(size_t bytes, bool before_copy)
{
    make_children();
    for (size_t i = 0; i < CHILDREN / 2; i++) /* of old slabs, of lists, and of new slabs */
        kept[i] = new_parent(bytes);
    for (size_t i = 0; i < CHILDREN / 2; i++)
        blocks_free_by_slab(kept[i]);
    memset(kept, 0, sizeof kept);
    begin();
    if (before_copy)
        make_born(bytes);
    mark_all();
    if (!before_copy)
        make_born(bytes);
    end();
    assert_int_equal(live_children(), CHILDREN);
    full();
}

static void test_born_marked(void **state)
{
    (void)state;
    check_born(CHILD_BYTES, true);
    check_born(CHILD_BYTES, false);
    check_born(GRANULE_BYTES, true);
    check_born(GRANULE_BYTES, false);
}

/* Returns how many were handed out again. */
static __attribute__((noinline)) size_t free_and_take_again(size_t bytes)
{
    size_t taken = 0;
    uintptr_t again[CHILDREN];
    for (size_t i = 0; i < CHILDREN; i++)
        blocks_free_by_slab((void *)(hidden[i] ^ DISGUISE));
    for (size_t i = 0; i < 2 * CHILDREN; i++) {
        uintptr_t block = (uintptr_t)new_parent(bytes) ^ DISGUISE;
        for (size_t j = 0; j < CHILDREN; j++)
            if (hidden[j] == block && taken < CHILDREN)
                again[taken++] = block;
    }
    memcpy(hidden, again, taken * sizeof *hidden);
    for (size_t i = taken; i < CHILDREN; i++)
        hidden[i] = hidden[0];
    return taken;
}

/* They are dead when it begins, and the program frees them all the same. */
static void check_freed(bool before_copy)
{
    make_children();
    begin();
    size_t taken = before_copy ? free_and_take_again(CHILD_BYTES) : 0;
    mark_all();
    if (!before_copy)
        taken = free_and_take_again(CHILD_BYTES);
    assert_true(taken > CHILDREN / 2);
    end();
    assert_int_equal(live_children(), CHILDREN);
    full();
}

static void test_freed_is_born_again(void **state)
{
    (void)state;
    check_freed(true);
    check_freed(false);
}

/* A large block's record is another's when the child is done. */
static void test_marks_in_their_place(void **state)
{
    (void)state;
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    for (size_t i = 0; i < CHILDREN; i++)
        hidden[i] = (uintptr_t)blocks_alloc(LARGE_BYTES) ^ DISGUISE;
    begin();
    for (size_t i = 0; i < CHILDREN; i++)
        blocks_free_by_slab((void *)(hidden[i] ^ DISGUISE));
    for (size_t i = 0; i < CHILDREN; i++)
        hidden[i] = (uintptr_t)blocks_alloc(LARGE_BYTES / 2) ^ DISGUISE;
    mark_all();
    end();
    assert_int_equal(live_children(), CHILDREN);
    full();
}

/* Nobody marks these newborn. */
static void check_born_in_fork(bool before_copy)
{
    make_children();
    begin();
    if (!before_copy)
        mark_all();
    fork_chain_prepare();
    make_born(PARENT_BYTES);
    fork_chain_parent();
    mark_all();
    end();
    assert_int_equal(live_children(), CHILDREN);
    full();
}

static void test_blocks_of_a_fork_are_born_marked(void **state)
{
    (void)state;
    check_born_in_fork(true);
    check_born_in_fork(false);
}

/* The one process that is a child. */
static pid_t marker(void)
{
    char path[64], text[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "r");
    if (file) {
        (void)!fgets(text, sizeof text, file);
        fclose(file);
    }
    return (pid_t)strtol(text, NULL, 10);
}

static void test_given_up_is_full_when_the_child_dies(void **state)
{
    (void)state;
    make_children();
    uint64_t given_up = concurrent_statistics()->given_up;
    uint64_t full_ones = collect_statistics()->full.collections;
    begin();
    pid_t child = marker();
    if (child == 0 || kill(child, SIGSTOP) != 0 || !concurrent_awaits_snapshot())
        skip();
    kill(child, SIGKILL);
    while (concurrent_runs() && concurrent_awaits_snapshot())
        collect_slice(1);
    if (concurrent_runs())
        skip(); /* it was done before */
    assert_int_equal(concurrent_statistics()->given_up, given_up + 1);
    assert_true(collect(CAUSE_CYCLE, 0));
    assert_false(concurrent_runs());
    assert_int_equal(collect_statistics()->full.collections, full_ones + 1);
    assert_true(live_children() < CHILDREN / 4);
}

static void test_a_collection_that_is_asked_for_is_full(void **state)
{
    (void)state;
    make_children();
    uint64_t given_up = concurrent_statistics()->given_up;
    begin();
    full();
    assert_true(live_children() < CHILDREN / 4);
    assert_int_equal(concurrent_statistics()->given_up, given_up + 1);
    assert_true(generations_are_ready());
}

/* Exits with 0 if the collection after a cycle that was given up is a full one. */
static int collect_in_child(void)
{
    collect_fork_child();
    if (concurrent_runs() || generations_are_ready())
        return 1;
    uint64_t before = collect_statistics()->full.collections;
    if (!collect(CAUSE_CYCLE, 0) || collect_statistics()->full.collections != before + 1)
        return 2;
    return live_children() == CHILDREN ? 0 : 3;
}

static void test_given_up_is_full_in_the_child_of_a_fork(void **state)
{
    (void)state;
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    reveal(parents[0]);
    begin();
    pid_t process = fork();
    if (process == 0)
        _exit(collect_in_child());
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    end();
    assert_int_equal(live_children(), CHILDREN);
}

static void test_before_an_exec_there_is_no_child(void **state)
{
    (void)state;
    make_children();
    begin();
    collect_before_exec();
    assert_int_equal(marker(), 0);
    collect_after_exec();
    while (concurrent_runs() && !concurrent_is_to_stop())
        collect_slice((size_t)1 << 30);
    full();
    assert_true(live_children() < CHILDREN / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cycle_frees_what_was_dead_when_it_began),
        cmocka_unit_test(test_the_roots_that_the_child_reads_are_counted),
        cmocka_unit_test(test_more_roots_than_the_mark_stack_has_room_for),
        cmocka_unit_test(test_what_was_reached_when_it_began_survives),
        cmocka_unit_test(test_minor_collections_follow),
        cmocka_unit_test(test_born_marked),
        cmocka_unit_test(test_freed_is_born_again),
        cmocka_unit_test(test_marks_in_their_place),
        cmocka_unit_test(test_blocks_of_a_fork_are_born_marked),
        cmocka_unit_test(test_given_up_is_full_when_the_child_dies),
        cmocka_unit_test(test_a_collection_that_is_asked_for_is_full),
        cmocka_unit_test(test_given_up_is_full_in_the_child_of_a_fork),
        cmocka_unit_test(test_before_an_exec_there_is_no_child),
    };
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
