/* SPDX-License-Identifier: MIT
 *
 * test_gathered.c: what slices do before and after a snapshot, so that the stops are short: huge
 * pages, places, a late sweep, marks. Without generations.
 */
#include "tests/gc/cycle/cycle_unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "gc/cycle/snapshot_cycle.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/sweep.h"
#include "vm/fork_chain.h"
#include "vm/kernel/resident.h"

/* More than the least heap that is worth it. */
enum { BLOCKS = 80000, BLOCK_BYTES = 1024, HIDDEN = 100 };
/* Of another class for each use, so that slabs are made. */
enum { KEPT_BYTES = 12 << 10, LATER_BYTES = 20 << 10, FORK_BYTES = 16 << 10 };

static void ***held; /* a block of pointers to all others */
/* The smallest have records of their own kind, which lie behind the others' in a walk. */
enum { SMALLEST = 300000 };
static void **list;
static void *kept[HIDDEN];
static uintptr_t hidden[HIDDEN];

static NOT_INLINED void fill(void)
{
    held = blocks_alloc(BLOCKS * sizeof *held);
    for (size_t i = 0; i < BLOCKS; i++)
        held[i] = memset(blocks_alloc(BLOCK_BYTES), 1, BLOCK_BYTES);
    for (size_t i = 0; i < SMALLEST; i++) {
        void **next = new_parent(sizeof *next);
        *next = list;
        list = next;
    }
}

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow,
                                                      .collect_if_due = never_collect,
                                                      .rows = SLAB_UNBORN_ROWS,
                                                      .late_live_bits = true,
                                                      .sweep_late = sweep_late};
    static const struct pace_options pace = {.policy = POLICY_AUTO};
    static const struct collect_options options = {.markers = 1,
                                                   .stack_bytes = 1 << 20,
                                                   .leaks = SWEEP_RECLAIM,
                                                   .concurrent = true,
                                                   .uses_snapshots = true,
                                                   .retires = true};
    pace_init(&pace);
    if (!blocks_init(25, &collector) || !collect_init(&options))
        return -1;
    fill();
    return 0;
}

static bool has_huge_pages(void)
{
    char *pages = pages_map(HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
    memset(pages, 1, HUGE_PAGE_BYTES);
    bool made = pages_make_huge(pages);
    assert_true(pages_unmap(pages, HUGE_PAGE_BYTES));
    return made;
}

static void begin(void)
{
    wipe_stack();
    assert_false(collect(CAUSE_FULL, 0));
    if (!concurrent_runs())
        skip(); /* the world was stopped: there can be no child here */
    assert_true(concurrent_gathers());
}

static void gather(void)
{
    while (concurrent_gathers() && !concurrent_is_to_stop())
        collect_slice(0);
    assert_false(concurrent_gathers());
}

static void make_copy(void)
{
    assert_false(collect(CAUSE_FULL, 0));
    assert_true(concurrent_awaits_snapshot());
}

static void end(void)
{
    uint64_t before = collect_statistics()->full.collections;
    uint64_t given_up = concurrent_statistics()->given_up;
    mark_all();
    wipe_stack();
    assert_true(collect(CAUSE_FULL, 0));
    assert_int_equal(collect_statistics()->full.collections, before + 1);
    assert_int_equal(concurrent_statistics()->given_up, given_up);
    assert_int_equal(collect_statistics()->pinned_blocks, 0); /* what the child has told */
    assert_true(blocks_is_valid());
}

static void whole_cycle(void)
{
    begin();
    gather();
    make_copy();
    end();
}

static void sweep_rest(void)
{
    blocks_lock();
    blocks_sweep_rest();
    blocks_unlock();
}

static size_t live_hidden(void)
{
    sweep_rest();
    return count_live(hidden, HIDDEN);
}

static void check_held(void)
{
    sweep_rest();
    for (size_t i = 0; i < BLOCKS; i++)
        assert_int_equal(blocks_usable_size(held[i]), BLOCK_BYTES);
}

static NOT_INLINED void make_hidden(size_t bytes)
{
    for (size_t i = 0; i < HIDDEN; i++)
        kept[i] = new_parent(bytes);
    hide_blocks(kept, hidden, HIDDEN);
}

static void test_memory_is_in_huge_pages_when_the_child_is_made(void **state)
{
    (void)state;
    if (!has_huge_pages())
        skip();
    uint64_t gathered = snapshot_cycle_gathered();
    begin();
    gather();
    assert_true(snapshot_cycle_gathered() - gathered > BLOCKS * BLOCK_BYTES / HUGE_PAGE_BYTES / 2);
    make_copy();
    end();
    check_held();
}

/* A child of the program's has the pages, too: in a page of its own the process would have a copy.
 */
static void test_what_another_process_has_is_left_alone(void **state)
{
    (void)state;
    uint64_t gathered = snapshot_cycle_gathered();
    for (size_t i = 0; i < BLOCKS; i++)
        held[i][0] = held[i]; /* broken up, if they were huge pages */
    pid_t child = start_idle_child();
    begin();
    gather();
    end_idle_child(child);
    assert_true(snapshot_cycle_gathered() - gathered < BLOCKS * BLOCK_BYTES / HUGE_PAGE_BYTES / 8);
    make_copy();
    end();
    check_held();
}

/* By a child that had the same pages when the program wrote them. */
static void break_huge_pages(void)
{
    pid_t child = start_idle_child();
    for (size_t i = 0; i < BLOCKS; i++)
        held[i][0] = held[i];
    end_idle_child(child);
}

/* The first cycle makes the program's mappings known. */
static void check_that_cycles_gather(void)
{
    for (int cycles = 0; cycles < 4; cycles++) {
        break_huge_pages();
        uint64_t gathered = snapshot_cycle_gathered();
        whole_cycle();
        assert_true(snapshot_cycle_gathered() - gathered >
                    BLOCKS * BLOCK_BYTES / HUGE_PAGE_BYTES / 2);
    }
    check_held();
}

/* More than the refusals that are taken for hopeless, of one mapping and of many. */
static void test_mappings_that_allow_no_huge_pages_do_not_end_the_gathering(void **state)
{
    (void)state;
    enum { MAPPINGS = 24 };
    if (!has_huge_pages())
        skip();
    char *mappings[MAPPINGS];
    for (size_t i = 0; i < MAPPINGS; i++) {
        size_t bytes = (i == 0 ? 16 : 2) * HUGE_PAGE_BYTES;
        mappings[i] = pages_map(bytes, HUGE_PAGE_BYTES);
        assert_int_equal(madvise(mappings[i], bytes, MADV_NOHUGEPAGE), 0);
        memset(mappings[i], 1, bytes - PAGE_BYTES);
        mprotect(mappings[i] + bytes - PAGE_BYTES, PAGE_BYTES, PROT_NONE); /* no neighbour joins */
    }
    check_that_cycles_gather();
    for (size_t i = 0; i < MAPPINGS; i++)
        pages_unmap(mappings[i], (i == 0 ? 16 : 2) * HUGE_PAGE_BYTES);
}

static bool are_huge(uintptr_t start, uintptr_t end)
{
    bool all = true;
    assert_true(resident_open());
    for (uintptr_t span = start; span < end; span += HUGE_PAGE_BYTES)
        all &= resident_is_huge(span, span + HUGE_PAGE_BYTES);
    return all;
}

/* A page in a pipe is held as by a device. The kernel also refuses a span for a moment now and
 * then, which a later cycle mends; the held page is refused in each of them. */
static void test_a_page_that_is_held_spares_no_more_than_its_span(void **state)
{
    (void)state;
    enum { SPANS = 8, CYCLES_AT_MOST = 20 };
    int ends[2];
    if (!has_huge_pages() || pipe(ends) != 0)
        skip();
    char *pages = pages_map(SPANS * HUGE_PAGE_BYTES, HUGE_PAGE_BYTES);
    for (size_t i = 0; i < SPANS * HUGE_PAGE_BYTES; i += PAGE_BYTES)
        assert_int_equal(madvise(pages + i, PAGE_BYTES, MADV_POPULATE_WRITE), 0);
    struct iovec held_page = {pages + PAGE_BYTES, PAGE_BYTES};
    assert_int_equal(vmsplice(ends[1], &held_page, 1, 0), PAGE_BYTES);
    uintptr_t second = (uintptr_t)pages + HUGE_PAGE_BYTES;
    uintptr_t end_of_pages = (uintptr_t)pages + SPANS * HUGE_PAGE_BYTES;
    for (int cycles = 0; cycles < CYCLES_AT_MOST && !are_huge(second, end_of_pages); cycles++)
        whole_cycle();
    assert_true(are_huge(second, end_of_pages));
    close(ends[0]);
    close(ends[1]);
    pages_unmap(pages, SPANS * HUGE_PAGE_BYTES);
}

/* The first slices sweep what the last cycle has left. */
static void test_a_thread_that_takes_much_makes_several_huge_pages(void **state)
{
    (void)state;
    if (!has_huge_pages())
        skip();
    break_huge_pages();
    begin();
    uint64_t gathered = snapshot_cycle_gathered();
    while (concurrent_gathers() && snapshot_cycle_gathered() == gathered) {
        blocks_free(blocks_alloc((size_t)1 << 20));
        collect_slice(0);
    }
    assert_in_range(snapshot_cycle_gathered() - gathered, 2, 4);
    gather();
    make_copy();
    end();
}

static void test_what_was_dead_before_is_freed(void **state)
{
    (void)state;
    make_hidden(24 << 10);
    wipe_stack();
    whole_cycle();
    assert_true(live_hidden() < HIDDEN / 4);
    check_held();
}

/* Slabs that are made after places were given have none. */
static void check_made(size_t bytes, bool before_places)
{
    begin();
    if (!before_places)
        gather();
    for (size_t i = 0; i < HIDDEN; i++)
        kept[i] = new_parent(bytes);
    if (before_places)
        gather();
    make_copy();
    end();
    sweep_rest();
    for (size_t i = 0; i < HIDDEN; i++)
        assert_int_equal(blocks_usable_size(kept[i]), bytes);
    memset(kept, 0, sizeof kept);
    check_held();
}

static void test_what_is_made_before_the_child_survives(void **state)
{
    (void)state;
    check_made(KEPT_BYTES, true);
    check_made(LATER_BYTES, false);
}

/* The cycle before has left its sweep. */
static void test_a_late_sweep_is_done_by_slices(void **state)
{
    (void)state;
    make_hidden(28 << 10);
    wipe_stack();
    whole_cycle();
    uint64_t freed = collect_statistics()->freed_blocks;
    begin();
    assert_int_equal(collect_statistics()->freed_blocks, freed);
    gather();
    assert_true(collect_statistics()->freed_blocks > freed);
    make_copy();
    end();
    check_held();
}

/* When the program takes much meanwhile, its stops do the rest. */
static void test_slices_that_were_not_done_are_done_in_the_stops(void **state)
{
    (void)state;
    make_hidden(40 << 10);
    wipe_stack();
    whole_cycle();
    make_hidden(48 << 10);
    wipe_stack();
    uint64_t freed = collect_statistics()->freed_blocks;
    begin();
    assert_false(collect(CAUSE_CYCLE, 0));
    assert_true(concurrent_awaits_snapshot());
    assert_true(collect_statistics()->freed_blocks > freed);
    uint64_t before = collect_statistics()->full.collections;
    assert_true(collect(CAUSE_CYCLE, 0));
    assert_int_equal(collect_statistics()->full.collections, before + 1);
    assert_true(live_hidden() < HIDDEN / 4);
    check_held();
}

/* Each other cycle of every=N makes huge pages in slices, too. */
static void test_forced_cycles_gather(void **state)
{
    (void)state;
    unsigned gathered = 0;
    for (int cycles = 0; cycles < 2; cycles++) {
        wipe_stack();
        assert_false(collect(CAUSE_EVERY, 0));
        if (!concurrent_runs())
            skip(); /* the world was stopped: there can be no child here */
        gathered += concurrent_gathers();
        gather();
        if (!concurrent_awaits_snapshot())
            assert_false(collect(CAUSE_EVERY, 0));
        assert_true(concurrent_awaits_snapshot());
        end();
    }
    assert_int_equal(gathered, 1);
    check_held();
}

/* With some marks taken over and others not. */
static void test_given_up_half_way_is_full(void **state)
{
    (void)state;
    begin();
    gather();
    make_copy();
    while (!concurrent_takes_snapshot())
        collect_slice(0);
    collect_slice(0);
    assert_true(concurrent_takes_snapshot());
    full();
    check_held();
}

/* Each has a slab that is in no part of a walk. */
static void test_blocks_of_a_fork_survive(void **state)
{
    (void)state;
    fork_chain_prepare();
    for (size_t i = 0; i < HIDDEN; i++)
        kept[i] = new_parent(FORK_BYTES);
    fork_chain_parent();
    for (int cycles = 0; cycles < 2; cycles++) {
        whole_cycle();
        sweep_rest();
    }
    for (size_t i = 0; i < HIDDEN; i++)
        assert_int_equal(blocks_usable_size(kept[i]), FORK_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_in_huge_pages_when_the_child_is_made),
        cmocka_unit_test(test_what_another_process_has_is_left_alone),
        cmocka_unit_test(test_mappings_that_allow_no_huge_pages_do_not_end_the_gathering),
        cmocka_unit_test(test_a_page_that_is_held_spares_no_more_than_its_span),
        cmocka_unit_test(test_a_thread_that_takes_much_makes_several_huge_pages),
        cmocka_unit_test(test_what_was_dead_before_is_freed),
        cmocka_unit_test(test_what_is_made_before_the_child_survives),
        cmocka_unit_test(test_a_late_sweep_is_done_by_slices),
        cmocka_unit_test(test_slices_that_were_not_done_are_done_in_the_stops),
        cmocka_unit_test(test_forced_cycles_gather),
        cmocka_unit_test(test_given_up_half_way_is_full),
        cmocka_unit_test(test_blocks_of_a_fork_survive),
    };
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
