/* SPDX-License-Identifier: MIT
 *
 * test_concurrent.c: what a cycle keeps, an invariant of concurrent.h and slices.c each.
 *
 * Children are blocks that the test knows by numbers that are no addresses. Nothing points to them
 * while the cycle marks: then the test stores their addresses somewhere. At the last stop they can
 * be reached, as they would be by a program that moves its only pointer from one place to another.
 * A word on the stack may keep a child or two by chance, so there are many of them.
 */
#include "tests/gc/cycle/cycle_unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/blocks/blocks.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/concurrent.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/pace.h"
#include "gc/world/roots.h"
#include "vm/fork_chain.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

enum { CHILDREN = 100, CHILD_BYTES = 112, PARENT_BYTES = 4096, MAPPING_BYTES = 40 << 20 };

static void **parents[8];             /* roots */
static void *kept[2][CHILDREN];       /* roots, too, until they are hidden */
static uintptr_t hidden[2][CHILDREN]; /* no addresses */

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {
        .before_growth = grow, .collect_if_due = never_collect, .rows = SLAB_SEEN_ROWS};
    static const struct pace_options pace = {.generations = true, .always_minors = true};
    static const struct collect_options options = {.markers = 1,
                                                   .stack_bytes = 1 << 20,
                                                   .leaks = SWEEP_RECLAIM,
                                                   .generations = true,
                                                   .concurrent = true,
                                                   .dirty = DIRTY_ASYNC};
    pace_init(&pace);
    if (!blocks_init(25, &collector) || !collect_init(&options))
        return -1;
    return 0;
}

static void hide(unsigned which)
{
    hide_blocks(kept[which], hidden[which], CHILDREN);
}

/* Children that are live when a cycle begins, and that nothing points to from then on. */
static void make_children(void)
{
    for (unsigned which = 0; which < 2; which++)
        for (size_t i = 0; i < CHILDREN; i++)
            kept[which][i] = new_parent(CHILD_BYTES);
    full();
    hide(0);
    hide(1);
    wipe_stack();
}

static void reveal(unsigned which, void **at)
{
    reveal_blocks(hidden[which], CHILDREN, at);
}

static size_t live_children(unsigned which)
{
    return count_live(hidden[which], CHILDREN);
}

static void begin_test(void)
{
    require_cycles();
    memset(parents, 0, sizeof parents);
    memset(kept, 0, sizeof kept);
}

static void test_a_cycle_frees_what_was_dead_when_it_began(void **state)
{
    (void)state;
    begin_test();
    make_children();
    begin_cycle();
    mark_all();
    end_cycle();
    assert_true(live_children(0) < CHILDREN / 4);
    assert_true(generations_are_ready());
}

static void test_what_is_reached_survives(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    reveal(0, parents[0]);
    begin_cycle();
    mark_all();
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_true(live_children(1) < CHILDREN / 4);
}

/* The pointers are written into a block that has been followed. */
static void test_last_harvest(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    begin_cycle();
    mark_all();
    reveal(0, parents[0]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

static void test_last_roots(void **state)
{
    (void)state;
    begin_test();
    make_children();
    begin_cycle();
    mark_all();
    reveal(0, kept[0]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

static bool is_marked(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return (slab->words[index / SLAB_WORD_BLOCKS].mark & slab_bit(index)) != 0;
}

enum { PARENTS = 256 };
static void *many[PARENTS]; /* roots */

/* The first are found by a round, which cleans the page. It is written again after that. */
static void test_a_page_that_a_round_cleaned_is_dirty_again(void **state)
{
    (void)state;
    begin_test();
    make_children();
    for (size_t i = 0; i < PARENTS;
         i++) /* smaller than a page, for it is followed when it is marked */
        many[i] = new_parent(2048);
    parents[0] = many[PARENTS / 2];
    begin_cycle();
    while (!is_marked(parents[0]))
        collect_slice(1);
    reveal(0, parents[0]);
    mark_all();
    assert_false(dirty_page(DIRTY_CYCLE, (uintptr_t)parents[0]));
    memset(parents[0], 0, 2048);
    reveal(1, parents[0]);
    end_cycle();
    memset(many, 0, sizeof many);
    assert_int_equal(live_children(0), CHILDREN); /* marked by the round */
    assert_int_equal(live_children(1), CHILDREN);
}

/* Into a block that is old, on a page that is clean. */
static __attribute__((noinline)) void reveal_young(void **at)
{
    hide(0);
    reveal(0, at);
}

/* What the cycle has protected need not be protected again for minor collections. */
static void test_pages_of_the_cycle_are_clean_for_minor_collections(void **state)
{
    (void)state;
    begin_test();
    make_children();
    for (size_t i = 0; i < PARENTS; i++)
        many[i] = new_parent(2048);
    dirty_set((uintptr_t)many[0] & ~(uintptr_t)(PAGE_BYTES - 1), (uintptr_t)many[PARENTS - 1]);
    begin_cycle();
    mark_all();
    uint64_t protected_pages = generations_statistics()->protected_pages;
    end_cycle();
    size_t clean = 0;
    for (size_t i = 0; i < PARENTS; i++)
        clean += !dirty_page(DIRTY_GENERATIONS, (uintptr_t)many[i]);
    assert_true(clean > PARENTS / 2);
    assert_true(generations_statistics()->protected_pages - protected_pages < PARENTS / 8);
    for (size_t i = 0; i < CHILDREN; i++)
        kept[0][i] = new_parent(CHILD_BYTES);
    reveal_young(many[PARENTS / 2]);
    wipe_stack();
    uint64_t minor = collect_statistics()->minor.collections;
    assert_true(collect(CAUSE_VERIFY, 0));
    assert_int_equal(collect_statistics()->minor.collections, minor + 1);
    assert_int_equal(live_children(0), CHILDREN);
    memset(many, 0, sizeof many);
}

static void test_no_slice_at_all(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    reveal(0, parents[0]);
    begin_cycle();
    reveal(1, parents[0] + CHILDREN);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_int_equal(live_children(1), CHILDREN);
}

/* What the program puts into a block that is born marked. */
static void test_born_blocks_are_followed(void **state)
{
    (void)state;
    begin_test();
    make_children();
    for (size_t i = 0; i < 4 * GRANULE_BYTES / 2048; i++)
        assert_non_null(blocks_alloc(2048)); /* a slab with free blocks, some of its pages used */
    begin_cycle();
    mark_all();
    parents[0] = new_parent(2048);
    reveal(0, parents[0]);
    parents[1] = new_parent(1 << 20);
    reveal(1, parents[1]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_int_equal(live_children(1), CHILDREN);
}

static uintptr_t left; /* no address */
enum { STALE_BYTES = 3 << 20 };

static __attribute__((noinline)) void keep_stale_word(void)
{
    parents[0] = new_parent(PARENT_BYTES);
    parents[0][0] = new_parent(STALE_BYTES);
    left = (uintptr_t)parents[0][0] ^ DISGUISE;
    blocks_free(parents[0][0]);
}

static __attribute__((noinline)) bool take_stale(void)
{
    return ((uintptr_t)blocks_alloc(STALE_BYTES) ^ DISGUISE) == left;
}

static bool left_is_live(void)
{
    return blocks_usable_size((void *)(left ^ DISGUISE)) > 0;
}

/* A word that has been looked at names it, before it is born. */
static void test_born_marked(void **state)
{
    (void)state;
    begin_test();
    keep_stale_word();
    full();
    begin_cycle();
    mark_all();
    assert_false(dirty_page(DIRTY_CYCLE, (uintptr_t)parents[0]));
    assert_true(take_stale());
    end_cycle();
    assert_true(left_is_live());
}

/* A free block of the local list is taken in the cycle. */
static void test_blocks_of_local_lists_are_born_marked(void **state)
{
    (void)state;
    begin_test();
    make_children();
    void *blocks[16];
    for (size_t i = 0; i < 16; i++)
        blocks[i] = new_parent(2048);
    for (size_t i = 0; i < 16; i++)
        blocks_free(blocks[i]);
    begin_cycle();
    mark_all();
    parents[0] = new_parent(2048);
    reveal(0, parents[0]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

static void test_a_collection_that_is_asked_for_is_full(void **state)
{
    (void)state;
    begin_test();
    make_children();
    uint64_t given_up = concurrent_statistics()->given_up;
    begin_cycle();
    assert_false(generations_are_ready());
    collect_slice(1);
    full();
    assert_true(live_children(0) < CHILDREN / 4);
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
    return live_children(0) == CHILDREN ? 0 : 3;
}

static void test_given_up_is_full_in_the_child_of_a_fork(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(PARENT_BYTES);
    begin_cycle();
    mark_all();
    reveal(0, parents[0]);
    pid_t process = fork();
    if (process == 0)
        _exit(collect_in_child());
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

static void test_given_up_is_full_in_doubt(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(2 * PAGE_BYTES);
    begin_cycle();
    mark_all();
    uint64_t given_up = concurrent_statistics()->given_up;
    lose_registration((char *)round_up((uintptr_t)parents[0], PAGE_BYTES));
    reveal(0, parents[0]);
    end_cycle();
    assert_int_equal(concurrent_statistics()->given_up, given_up + 1);
    assert_int_equal(live_children(0), CHILDREN);
}

/* Pairs of blocks side by side, above those that are padded: of one slab, or large ones. */
enum { PAIRS = 30 };
static uintptr_t lefts[PAIRS], rights[PAIRS]; /* no addresses */

static __attribute__((noinline)) void make_neighbours(size_t bytes)
{
    size_t pairs = 0;
    for (size_t i = 0; i < PARENTS; i++)
        many[i] = new_parent(bytes);
    for (size_t i = 0; i < PARENTS; i++)
        for (size_t j = 0; many[i] && j < PARENTS && pairs < PAIRS; j++)
            if ((char *)many[j] == (char *)many[i] + bytes) {
                lefts[pairs] = (uintptr_t)many[i] ^ DISGUISE;
                rights[pairs++] = (uintptr_t)many[j] ^ DISGUISE;
                many[i] = many[j] = NULL;
            }
    memset(many, 0, sizeof many);
    assert_int_equal(pairs, PAIRS);
    parents[0] = new_parent(PARENT_BYTES);
    for (size_t i = 0; i < PAIRS; i++) /* the boundaries */
        parents[0][i] = (void *)(rights[i] ^ DISGUISE);
}

static __attribute__((noinline)) void free_rights(void)
{
    for (size_t i = 0; i < PAIRS; i++)
        if (blocks_usable_size((void *)(rights[i] ^ DISGUISE)) > 0)
            blocks_free((void *)(rights[i] ^ DISGUISE));
}

static __attribute__((noinline)) size_t live_lefts(void)
{
    size_t live = 0;
    for (size_t i = 0; i < PAIRS; i++)
        live += blocks_usable_size((void *)(lefts[i] ^ DISGUISE)) > 0;
    return live;
}

/* The right one is marked, then freed: the word means the left one now. */
static void test_boundary_marks_both_when_the_right_one_is_freed(void **state)
{
    (void)state;
    begin_test();
    make_neighbours(1024);
    begin_cycle();
    mark_all();
    free_rights();
    end_cycle();
    assert_int_equal(live_lefts(), PAIRS);
}

static bool is_right(uintptr_t block)
{
    for (size_t i = 0; i < PAIRS; i++)
        if ((block ^ DISGUISE) == rights[i])
            return true;
    return false;
}

/* Those in slabs of which enough is free. */
static __attribute__((noinline)) void take_rights_again(void)
{
    size_t taken = 0;
    for (size_t i = 0; taken < PAIRS && i < 100 * PAIRS; i++)
        taken += is_right((uintptr_t)blocks_alloc(1024));
    assert_true(taken > PAIRS / 4);
}

/* The right one is free when the cycle begins, live when the word is looked at, and free at the
 * end. */
static void test_boundary_marks_both_when_the_right_one_is_born(void **state)
{
    (void)state;
    begin_test();
    make_neighbours(1024);
    free_rights();
    begin_cycle();
    take_rights_again();
    wipe_stack();
    mark_all();
    free_rights();
    end_cycle();
    assert_int_equal(live_lefts(), PAIRS);
}

/* Where the right one has a slab of its own, its bits are gone at the end. */
static void test_boundary_marks_both_at_a_granule(void **state)
{
    (void)state;
    begin_test();
    make_neighbours(2 * GRANULE_BYTES);
    begin_cycle();
    mark_all();
    free_rights();
    end_cycle();
    assert_int_equal(live_lefts(), PAIRS);
}

/* A page of the block cannot be touched while slices run. */
static void test_read_by_copy(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(64 * PAGE_BYTES);
    char *page = (char *)round_up((uintptr_t)parents[0], PAGE_BYTES);
    reveal(0, (void **)page);
    reveal(1, (void **)(page + 2 * PAGE_BYTES));
    begin_cycle();
    assert_int_equal(mprotect(page, PAGE_BYTES, PROT_NONE), 0);
    mark_all();
    assert_int_equal(mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_int_equal(live_children(1), CHILDREN);
}

/* Packed words, across the ends of what is copied at once: it begins 16 bytes before the last. */
static void test_read_by_copy_overlaps(void **state)
{
    (void)state;
    enum { COPY_BYTES = 64 << 10, STEP = COPY_BYTES - 16 };
    begin_test();
    make_children();
    parents[0] = new_parent(CHILDREN * STEP + COPY_BYTES);
    for (size_t i = 0; i < CHILDREN; i++) {
        uintptr_t child = hidden[0][i] ^ DISGUISE;
        memcpy((char *)parents[0] + i * STEP + COPY_BYTES - 4, &child, sizeof child);
    }
    begin_cycle();
    mark_all();
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

/* It is not there while slices run, and what is beside it cannot be copied with it. */
static void test_read_by_copy_of_what_is_unmapped(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(MAPPING_BYTES);
    char *page = (char *)parents[0] + 8 * PAGE_BYTES;
    page[0] = 1;
    reveal(1, (void **)(page + 2 * PAGE_BYTES));
    begin_cycle();
    assert_int_equal(munmap(page, PAGE_BYTES), 0);
    mark_all();
    assert_true(mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
    reveal(0, (void **)page);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_int_equal(live_children(1), CHILDREN);
}

/* A large block of which a part is read when it is freed; nothing touches the rest. */
static void test_a_block_that_goes_between_two_slices(void **state)
{
    (void)state;
    begin_test();
    parents[0] = new_parent(MAPPING_BYTES);
    parents[1] = new_parent(1 << 20);
    begin_cycle();
    for (size_t i = 0; i < 20; i++)
        collect_slice(64 << 10);
    assert_false(concurrent_is_to_stop());
    blocks_free(parents[0]);
    blocks_free(parents[1]);
    parents[0] = parents[1] = NULL;
    collect_slice(64 << 10);
    end_cycle();
    full();
}

/* The last stop reads the rest of a block that is there. */
static void test_the_rest_of_a_block_is_read_at_the_end(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(4 << 20);
    reveal(0, parents[0]);
    reveal(1, parents[0] + (4 << 20) / sizeof(void *) - CHILDREN);
    full(); /* the children are live */
    begin_cycle();
    for (size_t i = 0; i < 3; i++)
        collect_slice(256 << 10);
    assert_false(concurrent_is_to_stop());
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    assert_int_equal(live_children(1), CHILDREN);
}

/* A large block moves with its pages. */
static void test_a_moved_mapping_is_dirty(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(MAPPING_BYTES);
    begin_cycle();
    mark_all();
    void *in_the_way = mmap((char *)parents[0] + round_up(MAPPING_BYTES, GRANULE_BYTES), PAGE_BYTES,
                            PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    parents[0] = blocks_resize(parents[0], 3 * (size_t)MAPPING_BYTES);
    reveal(0, parents[0]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    munmap(in_the_way, PAGE_BYTES);
}

/* While the heap is frozen a block is a mapping of its own, whose pages are not tracked. */
static void test_untracked_is_followed(void **state)
{
    (void)state;
    begin_test();
    make_children();
    fork_chain_prepare();
    parents[0] = blocks_alloc(PARENT_BYTES);
    fork_chain_parent();
    assert_true(blocks_slab_of(parents[0])->is_of_fork);
    begin_cycle();
    mark_all();
    reveal(0, parents[0]);
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

static void set_pin(const void *block, bool pinned)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    uint64_t *pins = slab_pinned(slab, index / SLAB_WORD_BLOCKS);
    slab->has_pins = true;
    *pins = pinned ? *pins | slab_bit(index) : *pins & ~slab_bit(index);
}

/* Pinned while the cycle runs; nothing points to it. Numbers in it count that are the distance to a
 * block. */
static void test_pins_are_roots(void **state)
{
    (void)state;
    begin_test();
    make_children();
    uintptr_t pinned = (uintptr_t)new_parent(2048) ^ DISGUISE;
    begin_cycle();
    mark_all();
    void **block = (void **)(pinned ^ DISGUISE);
    reveal(0, block);
    for (size_t i = 0; i < CHILDREN; i++)
        block[i] = (void *)((uintptr_t)block[i] - (uintptr_t)block);
    set_pin(block, true);
    block = NULL;
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
    set_pin((void *)(pinned ^ DISGUISE), false);
}

/* The last, since pages may fault from here on: what is a page or more is left to the last stop. */
static void test_what_is_not_read_in_slices_is_dirty(void **state)
{
    (void)state;
    begin_test();
    make_children();
    parents[0] = new_parent(64 * PAGE_BYTES);
    reveal(0, parents[0]);
    roots_pages_may_fault();
    begin_cycle();
    mark_all();
    end_cycle();
    assert_int_equal(live_children(0), CHILDREN);
}

int main(void)
{
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cycle_frees_what_was_dead_when_it_began),
        cmocka_unit_test(test_what_is_reached_survives),
        cmocka_unit_test(test_last_harvest),
        cmocka_unit_test(test_last_roots),
        cmocka_unit_test(test_a_page_that_a_round_cleaned_is_dirty_again),
        cmocka_unit_test(test_pages_of_the_cycle_are_clean_for_minor_collections),
        cmocka_unit_test(test_no_slice_at_all),
        cmocka_unit_test(test_born_blocks_are_followed),
        cmocka_unit_test(test_born_marked),
        cmocka_unit_test(test_blocks_of_local_lists_are_born_marked),
        cmocka_unit_test(test_a_collection_that_is_asked_for_is_full),
        cmocka_unit_test(test_given_up_is_full_in_the_child_of_a_fork),
        cmocka_unit_test(test_given_up_is_full_in_doubt),
        cmocka_unit_test(test_boundary_marks_both_when_the_right_one_is_freed),
        cmocka_unit_test(test_boundary_marks_both_when_the_right_one_is_born),
        cmocka_unit_test(test_boundary_marks_both_at_a_granule),
        cmocka_unit_test(test_read_by_copy),
        cmocka_unit_test(test_read_by_copy_overlaps),
        cmocka_unit_test(test_read_by_copy_of_what_is_unmapped),
        cmocka_unit_test(test_a_block_that_goes_between_two_slices),
        cmocka_unit_test(test_the_rest_of_a_block_is_read_at_the_end),
        cmocka_unit_test(test_a_moved_mapping_is_dirty),
        cmocka_unit_test(test_untracked_is_followed),
        cmocka_unit_test(test_pins_are_roots),
        cmocka_unit_test(test_what_is_not_read_in_slices_is_dirty),
    };
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
