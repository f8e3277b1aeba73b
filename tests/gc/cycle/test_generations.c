/* SPDX-License-Identifier: MIT
 *
 * test_generations.c: what minor collections keep, an invariant of generations.h and young.c each.
 *
 * Children are blocks that one other block alone points to, its parent; the test itself knows them
 * by numbers that are no addresses. A word on the stack may keep a child or two by chance, so there
 * are many of them.
 */
#include "tests/gc/cycle/cycle_unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/heap.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/generations.h"
#include "gc/cycle/pace.h"
#include "vm/fork_chain.h"
#include "vm/granule_map.h"
#include "vm/pages.h"

enum { CHILDREN = 200, CHILD_BYTES = 112, PARENT_BYTES = 4096 };

static void **parents[8]; /* roots */
static uintptr_t children[CHILDREN];

static int make_collector(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow,
                                                      .rows = SLAB_SEEN_ROWS};
    static const struct pace_options pace = {.generations = true, .always_minors = true};
    static const struct collect_options options = {.markers = 1,
                                                   .stack_bytes = 1 << 20,
                                                   .leaks = SWEEP_RECLAIM,
                                                   .generations = true,
                                                   .dirty = DIRTY_ASYNC};
    pace_init(&pace);
    if (!blocks_init(25, &collector) || !collect_init(&options))
        return -1;
    return 0;
}

static void minor(void)
{
    uint64_t before = collect_statistics()->minor.collections;
    assert_true(collect(CAUSE_VERIFY, 0));
    assert_int_equal(collect_statistics()->minor.collections, before + 1);
}

static __attribute__((noinline)) void make_children(void **parent, size_t step)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        void *child = blocks_alloc(CHILD_BYTES);
        assert_non_null(child);
        memset(child, 0, CHILD_BYTES);
        children[i] = (uintptr_t)child ^ DISGUISE;
        parent[i * step] = child;
    }
}

/* In the first words of a block that is there. */
static void give_children(void **parent)
{
    make_children(parent, 1);
    wipe_stack();
}

static size_t live_children(void)
{
    return count_live(children, CHILDREN);
}

/* What is taken from now on does not lie in slabs of this size that have been current. */
static __attribute__((noinline)) void use_up_slabs(void)
{
    for (size_t i = 0; i < 2 * GRANULE_BYTES / CHILD_BYTES; i++)
        assert_non_null(blocks_alloc(CHILD_BYTES));
    wipe_stack();
}

static void require_ready(void)
{
    if (!generations_are_on())
        skip(); /* the kernel does not tell which pages were written */
    memset(parents, 0, sizeof parents);
    full();
    assert_true(generations_are_ready());
}

static void test_a_minor_collection_frees_what_is_young_and_dead(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    give_children(parents[0]);
    memset(parents[0], 0, PARENT_BYTES);
    minor();
    assert_true(live_children() < CHILDREN / 4);
}

static void test_a_minor_collection_frees_nothing_that_is_old(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    give_children(parents[0]);
    full();
    memset(parents[0], 0, PARENT_BYTES);
    minor();
    assert_int_equal(live_children(), CHILDREN);
    full();
    assert_true(live_children() < CHILDREN / 4);
}

/* Nobody counts which old blocks the program frees. */
static void test_no_more_lives_than_is_used(void **state)
{
    (void)state;
    static void **kept[CHILDREN];
    require_ready();
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < CHILDREN; i++)
            kept[i] = new_parent(GRANULE_BYTES);
        minor();
        assert_true(collect_statistics()->driver->live_bytes >= CHILDREN * GRANULE_BYTES);
        assert_true(collect_statistics()->driver->live_bytes <= blocks_used_bytes());
        for (size_t i = 0; i < CHILDREN; i++)
            blocks_free(kept[i]);
    }
}

static void test_young_blocks_survive_that_an_old_one_points_to(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    minor();
    give_children(parents[0]);
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

/* The first minor collection cleans the parent's page. The children's slab stays current. */
static void test_first_survival_promotes(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    give_children(parents[0]);
    minor();
    assert_false(dirty_page(DIRTY_GENERATIONS, (uintptr_t)parents[0]));
    minor();
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

static void test_current_is_young(void **state)
{
    (void)state;
    require_ready();
    assert_non_null(blocks_alloc(PARENT_BYTES));
    minor();
    parents[0] = new_parent(PARENT_BYTES); /* of the same slab, without a refill */
    use_up_slabs();
    give_children(parents[0]);
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

/* Slabs of the parents' size are used up, so that those in the local free list lie in none that is
 * current. */
static void test_listed_is_young(void **state)
{
    (void)state;
    require_ready();
    enum { SLABS = 3, BYTES = 2048, BLOCKS = SLABS * GRANULE_BYTES / BYTES };
    static void **blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = new_parent(BYTES);
    full();
    for (size_t i = 0; i < 3; i++)
        blocks_free(blocks[i]);
    minor(); /* they are in the local free list */
    full();
    for (size_t i = 0; i < 3; i++)
        blocks[i] = new_parent(BYTES);
    make_children(blocks[0], 1);
    wipe_stack();
    minor();
    assert_int_equal(live_children(), CHILDREN);
    memset(blocks, 0, sizeof blocks);
}

/* A block of some pages. The word across an edge between two changes on one side alone. */
static char *edge;
static uintptr_t hidden_child;

static void make_edge(void)
{
    parents[0] = new_parent(4 * PAGE_BYTES);
    edge = (char *)round_up((uintptr_t)parents[0] + PAGE_BYTES, PAGE_BYTES);
}

/* Two neighbours may lie on either side of a multiple of four gigabytes. */
static __attribute__((noinline)) void require_same_upper_half(void)
{
    if ((hidden_child ^ DISGUISE) >> 32 != (uintptr_t)edge >> 32)
        skip();
}

static bool child_is_live(void)
{
    return blocks_usable_size((void *)(hidden_child ^ DISGUISE)) > 0;
}

static __attribute__((noinline)) void write_lower_half_of_a_child(void)
{
    void *child = blocks_alloc(CHILD_BYTES);
    hidden_child = (uintptr_t)child ^ DISGUISE;
    memcpy(edge - 4, &child, 4);
}

static void test_edges_overlap_at_the_end_of_a_dirty_page(void **state)
{
    (void)state;
    require_ready();
    make_edge();
    uint32_t upper = (uint32_t)((uintptr_t)edge >> 32);
    memcpy(edge, &upper, sizeof upper);
    full();
    use_up_slabs();
    write_lower_half_of_a_child();
    require_same_upper_half();
    wipe_stack();
    minor();
    assert_true(child_is_live());
}

/* The block that it will be is free now. */
static __attribute__((noinline)) void write_lower_half_of_a_free_block(void)
{
    void *child = blocks_alloc(CHILD_BYTES);
    hidden_child = (uintptr_t)child ^ DISGUISE;
    memcpy(edge - 4, &child, 4);
    blocks_free(child);
}

static __attribute__((noinline)) void take_it_and_write_the_upper_half(void)
{
    uint32_t upper = (uint32_t)((uintptr_t)edge >> 32);
    assert_int_equal((uintptr_t)blocks_alloc(CHILD_BYTES) ^ DISGUISE, hidden_child);
    memcpy(edge, &upper, sizeof upper);
}

static void test_edges_overlap_at_the_start_of_a_dirty_page(void **state)
{
    (void)state;
    require_ready();
    make_edge();
    write_lower_half_of_a_free_block();
    require_same_upper_half();
    wipe_stack();
    full();
    take_it_and_write_the_upper_half();
    wipe_stack();
    minor();
    assert_true(child_is_live());
}

static void test_marks_are_whole(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    give_children(parents[0]);
    assert_true(generations_begin(true)); /* of one that is given up */
    assert_false(generations_are_ready());
    uint64_t minors = collect_statistics()->minor.collections;
    assert_true(collect(CAUSE_VERIFY, 0));
    assert_int_equal(collect_statistics()->minor.collections, minors);
    assert_true(generations_are_ready());
    assert_int_equal(live_children(), CHILDREN);
}

static void test_the_child_of_a_fork_begins_with_a_full_one(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    pid_t process = fork();
    if (process == 0) {
        collect_fork_child();
        bool right =
            !generations_are_ready() && dirty_page(DIRTY_GENERATIONS, (uintptr_t)parents[0]);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    assert_true(generations_are_ready());
}

/* A system call of its own: nobody has told us of it. */
static void test_a_child_by_number_neither_collects_nor_takes_bits(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    give_children(parents[0]);
    pid_t process = (pid_t)syscall(SYS_fork);
    if (process == 0)
        _exit(collect(CAUSE_VERIFY, 0) ? 1 : 0);
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

static void pin(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    slab->has_pins = true;
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) |= slab_bit(index);
    blocks_enter_young(slab);
}

static void unpin(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) &= ~slab_bit(index);
}

/* Numbers in it count that are the distance to a block. */
static void test_pins_are_roots(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(2048);
    pin(parents[0]);
    for (size_t i = 0; i < 4 * GRANULE_BYTES / 2048; i++)
        assert_non_null(blocks_alloc(2048)); /* its slab is not current any more */
    full();
    minor();
    give_children(parents[0]);
    for (size_t i = 0; i < CHILDREN; i++)
        parents[0][i] = (void *)((uintptr_t)parents[0][i] - (uintptr_t)parents[0]);
    wipe_stack();
    minor();
    assert_int_equal(live_children(), CHILDREN);
    unpin(parents[0]);
}

static void test_doubt_is_full(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(2 * PAGE_BYTES);
    full();
    lose_registration((char *)round_up((uintptr_t)parents[0], PAGE_BYTES));
    give_children(parents[0]);
    uint64_t refused = generations_statistics()->refused;
    const struct collect_statistics before = *collect_statistics();
    assert_true(collect(CAUSE_VERIFY, 0));
    assert_int_equal(generations_statistics()->refused, refused + 1);
    assert_int_equal(collect_statistics()->full.collections, before.full.collections + 1);
    assert_int_equal(collect_statistics()->minor.collections, before.minor.collections);
    assert_int_equal(live_children(), CHILDREN);
    minor(); /* it is tracked again */
    assert_int_equal(live_children(), CHILDREN);
}

/* A thread that pins a block of another's slab was stopped before it has pushed the slab. */
static void test_a_slab_that_is_not_listed_makes_it_full(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(2 * PAGE_BYTES);
    full();
    uint64_t refused = generations_statistics()->refused;
    const struct collect_statistics before = *collect_statistics();
    atomic_fetch_add(&blocks_heap.entering_young, 1);
    assert_true(collect(CAUSE_VERIFY, 0));
    atomic_fetch_sub(&blocks_heap.entering_young, 1);
    assert_int_equal(generations_statistics()->refused, refused + 1);
    assert_int_equal(collect_statistics()->full.collections, before.full.collections + 1);
    assert_int_equal(collect_statistics()->minor.collections, before.minor.collections);
    minor();
}

/* Nobody is counted who has pushed, or has found the slab young. */
static void test_who_has_entered_a_slab_is_not_counted(void **state)
{
    (void)state;
    require_ready();
    void *block = blocks_alloc(PAGE_BYTES);
    full();
    struct slab *slab = blocks_slab_of(block);
    for (int i = 0; i < 2; i++)
        blocks_enter_young(slab);
    assert_true(blocks_young_are_listed());
    minor();
}

/* A large block moves with its pages. */
static void test_a_moved_mapping_is_dirty(void **state)
{
    (void)state;
    require_ready();
    enum { BYTES = 40 << 20 };
    parents[0] = new_parent(BYTES);
    full();
    assert_false(dirty_page(DIRTY_GENERATIONS, (uintptr_t)parents[0]));
    void *in_the_way = mmap((char *)parents[0] + round_up(BYTES, GRANULE_BYTES), PAGE_BYTES,
                            PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    parents[0] = blocks_resize(parents[0], 3 * (size_t)BYTES);
    give_children(parents[0]);
    minor();
    assert_int_equal(live_children(), CHILDREN);
    munmap(in_the_way, PAGE_BYTES);
}

/* Memory that is new is dirty; what survives in it is tracked. */
static void test_born_dirty(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(1 << 20);
    uintptr_t page = (uintptr_t)parents[0];
    minor();
    assert_false(dirty_page(DIRTY_GENERATIONS, page));
    give_children(parents[0]);
    minor();
    assert_int_equal(live_children(), CHILDREN);
    assert_false(dirty_page(DIRTY_GENERATIONS, page));
}

static void test_what_the_kernel_writes_is_dirty(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    uintptr_t page = round_down((uintptr_t)parents[0], PAGE_BYTES);
    assert_false(dirty_page(DIRTY_GENERATIONS, page));
    generations_kernel_writes((uintptr_t)parents[0] + 8);
    assert_true(dirty_page(DIRTY_GENERATIONS, page));
}

static void test_rest_and_back(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    generations_rest();
    assert_false(generations_are_ready());
    give_children(parents[0]);
    full();
    assert_true(generations_are_ready());
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

static bool is_old(uintptr_t disguised)
{
    void *block = (void *)(disguised ^ DISGUISE);
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return (*slab_old(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0;
}

/* In slabs that are not current any more. */
static __attribute__((noinline)) void make_hidden(uintptr_t *hidden, size_t count)
{
    enum { BYTES = 3000 };
    for (size_t i = 0; i < count; i++)
        hidden[i] = (uintptr_t)new_parent(BYTES) ^ DISGUISE;
    for (size_t i = 0; i < 2 * GRANULE_BYTES / BYTES; i++)
        assert_non_null(blocks_alloc(BYTES));
    wipe_stack();
}

/* As while another thread forks: the block is a mapping of its own, whose pages are not tracked. */
static __attribute__((noinline)) void **new_parent_of_fork(void)
{
    enum { LARGE_BYTES = 40 << 10 }; /* it does not end where the next record lies */
    fork_chain_prepare();
    void **block = blocks_alloc(LARGE_BYTES);
    fork_chain_parent();
    assert_non_null(block);
    assert_true(blocks_slab_of(block)->is_of_fork);
    return block;
}

static __attribute__((noinline)) void give_children_of_fork(void **parent)
{
    for (size_t i = 0; i < CHILDREN; i++) {
        parent[i] = new_parent_of_fork();
        children[i] = (uintptr_t)parent[i] ^ DISGUISE;
    }
    wipe_stack();
}

/* The first minor collection cleans the parent's page. */
static void test_first_survival_promotes_what_was_made_in_a_fork(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    full();
    give_children_of_fork(parents[0]);
    minor();
    assert_false(dirty_page(DIRTY_GENERATIONS, (uintptr_t)parents[0]));
    minor();
    assert_int_equal(live_children(), CHILDREN);
    memset(parents[0], 0, PARENT_BYTES);
    full();
    assert_true(live_children() < CHILDREN / 4);
}

/* Old, and not reached by any dirty page. */
static void test_untracked_is_followed(void **state)
{
    (void)state;
    require_ready();
    parents[0] = new_parent(PARENT_BYTES);
    *parents[0] = new_parent_of_fork();
    wipe_stack();
    minor();
    give_children(*parents[0]);
    minor();
    assert_int_equal(live_children(), CHILDREN);
}

/* The last: from here on leaks are kept. A block without a mark comes back, and is old then. One of
 * several, since a word on the stack may have marked the first. */
static void test_unmarked_is_young(void **state)
{
    (void)state;
    enum { HIDDEN = 8 };
    static uintptr_t hidden[HIDDEN];
    require_ready();
    collect_keep_leaks();
    make_hidden(hidden, HIDDEN);
    full();
    minor();
    size_t which = 0;
    while (which < HIDDEN && is_old(hidden[which]))
        which++;
    assert_true(which < HIDDEN);
    parents[0] = (void **)(hidden[which] ^ DISGUISE);
    minor();
    give_children(parents[0]);
    minor();
    for (size_t i = 0; i < CHILDREN; i++)
        assert_true(is_old(children[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_minor_collection_frees_what_is_young_and_dead),
        cmocka_unit_test(test_a_minor_collection_frees_nothing_that_is_old),
        cmocka_unit_test(test_no_more_lives_than_is_used),
        cmocka_unit_test(test_young_blocks_survive_that_an_old_one_points_to),
        cmocka_unit_test(test_first_survival_promotes),
        cmocka_unit_test(test_current_is_young),
        cmocka_unit_test(test_listed_is_young),
        cmocka_unit_test(test_edges_overlap_at_the_end_of_a_dirty_page),
        cmocka_unit_test(test_edges_overlap_at_the_start_of_a_dirty_page),
        cmocka_unit_test(test_marks_are_whole),
        cmocka_unit_test(test_the_child_of_a_fork_begins_with_a_full_one),
        cmocka_unit_test(test_a_child_by_number_neither_collects_nor_takes_bits),
        cmocka_unit_test(test_pins_are_roots),
        cmocka_unit_test(test_doubt_is_full),
        cmocka_unit_test(test_a_slab_that_is_not_listed_makes_it_full),
        cmocka_unit_test(test_who_has_entered_a_slab_is_not_counted),
        cmocka_unit_test(test_a_moved_mapping_is_dirty),
        cmocka_unit_test(test_born_dirty),
        cmocka_unit_test(test_what_the_kernel_writes_is_dirty),
        cmocka_unit_test(test_rest_and_back),
        cmocka_unit_test(test_first_survival_promotes_what_was_made_in_a_fork),
        cmocka_unit_test(test_untracked_is_followed),
        cmocka_unit_test(test_unmarked_is_young),
    };
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    return cmocka_run_group_tests(tests, make_collector, NULL);
}
