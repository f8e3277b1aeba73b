/* SPDX-License-Identifier: MIT
 *
 * test_api.c: what collectors do at a program's request, below the functions of allotrope/gc.h. How
 * these behave in programs is in test_api_examples.py.
 *
 * A test has a process of its own, for it has a heap of its own. It remembers blocks by the
 * complements of their addresses, which no collector sees. A few may stay for a stale word.
 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/options.h"
#include "gc/classic/gc_classic.h"
#include "gc/cycle/gc.h"
#include "vm/asked_roots.h"
#include "vm/fork_chain.h"
#include "vm/pages.h"
#include "vm/private_memory.h"

enum { BLOCKS = 60, BYTES = 112, LARGE_BYTES = 100000, MOST_STALE = BLOCKS / 5 };

static const struct allocator *gc = &gc_default;
static uintptr_t complements[BLOCKS];
static bool collects_always; /* at each allocation */

static unsigned keyword_of(const struct option_description *option, const char *word)
{
    unsigned i = 0;
    while (strcmp(option->keywords[i], word) != 0)
        i++;
    return i;
}

static const struct option_description *option_of(const char *key)
{
    const struct option_description *option = gc->options;
    while (strcmp(option->key, key) != 0)
        option++;
    return option;
}

static void choose(void *values, const char *key, const char *word)
{
    const struct option_description *option = option_of(key);
    option_set(option, values, keyword_of(option, word));
}

/* A heap with these options. */
static void start(const char *meaning, const char *leaks)
{
    static uint64_t values[OPTIONS_BYTES / sizeof(uint64_t)];
    options_set_initial(gc->options, values);
    choose(values, "free", meaning);
    choose(values, "leaks", leaks);
    if (collects_always)
        option_set(option_of("every"), values, 1);
    asked_roots_init();
    require(gc->init(values));
}

static void start_classic(void)
{
    static uint64_t values[OPTIONS_BYTES / sizeof(uint64_t)];
    gc = &gc_classic;
    options_set_initial(gc->options, values);
    asked_roots_init();
    require(gc->init(values));
}

static void *block(int i)
{
    return (void *)~complements[i];
}

/* What the stack has of blocks is overwritten. */
static __attribute__((noinline)) void clean_stack(void)
{
    volatile char dirt[16384];
    for (size_t i = 0; i < sizeof dirt; i++)
        dirt[i] = 0;
}

typedef void *maker(size_t bytes);

static void *make_ordinary(size_t bytes)
{
    return gc->alloc(bytes);
}

static void *make_pointer_free(size_t bytes)
{
    void *made = gc->alloc(bytes);
    gc->holds_no_pointers(made);
    return made;
}

static __attribute__((noinline)) void make_blocks_of(maker *make, size_t bytes)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *made = make(bytes);
        memset(made, 0x5A, bytes);
        complements[i] = ~(uintptr_t)made;
    }
}

static void make_blocks(void)
{
    make_blocks_of(make_ordinary, BYTES);
}

/* Given up when a thread gets no processor in time. */
static enum collected collect(void)
{
    enum collected done = COLLECT_LATER;
    clean_stack();
    for (int i = 0; i < 10 && done == COLLECT_LATER; i++)
        done = gc->collect();
    return done;
}

static int count_alive(void)
{
    int alive = 0;
    for (int i = 0; i < BLOCKS; i++)
        alive += gc->usable_size(block(i)) > 0;
    return alive;
}

static int count_alive_after_collection(void)
{
    require(collect() == COLLECTED);
    return count_alive();
}

/* Collections. */

static void reclaim(void *leaks)
{
    start("honour", leaks);
    make_blocks();
    int alive = count_alive_after_collection();
    if (strcmp(leaks, "auto") == 0) {
        require(alive == BLOCKS);
        alive = count_alive_after_collection();
    }
    require(alive <= MOST_STALE);
}

static void test_a_collection_reclaims_what_nothing_points_to(void **state)
{
    (void)state;
    assert_child_succeeds(reclaim, "collect");
}

static void test_under_auto_the_second_one_does(void **state)
{
    (void)state;
    assert_child_succeeds(reclaim, "auto");
}

static void find_no_collections(void *unused)
{
    (void)unused;
    start("honour", "keep");
    require(collect() == COLLECT_NEVER);
}

static void enter_sandbox(void *unused)
{
    (void)unused;
    start("ignore", "collect");
    gc->enter_sandbox();
    require(collect() == COLLECT_NEVER);
}

static void collect_in_fork_handler(void *unused)
{
    (void)unused;
    start("ignore", "collect");
    fork_chain_prepare();
    require(gc->collect() == COLLECT_LATER);
    fork_chain_parent();
    require(collect() == COLLECTED);
}

static void test_it_is_said_that_there_is_none(void **state)
{
    (void)state;
    assert_child_succeeds(find_no_collections, NULL);
    assert_child_succeeds(enter_sandbox, NULL);
}

static void test_during_a_fork_there_is_none(void **state)
{
    (void)state;
    assert_child_succeeds(collect_in_fork_handler, NULL);
}

/* Blocks without pointers. */

/* A block that the program points to has the only pointers to the others. */
static int count_kept_by(void **table)
{
    make_blocks();
    for (int i = 0; i < BLOCKS; i++)
        table[i] = block(i);
    return count_alive_after_collection();
}

static void **volatile table;

static void hold_by_pointer_free(void *meaning)
{
    start(meaning, "collect");
    table = make_ordinary(BLOCKS * sizeof(void *));
    require(count_kept_by(table) == BLOCKS);
    table = make_pointer_free(BLOCKS * sizeof(void *));
    require(count_kept_by(table) <= MOST_STALE);
    require(gc->usable_size(table) > 0);
    table = make_pointer_free(LARGE_BYTES);
    require(count_kept_by(table) <= MOST_STALE);
    require(gc->usable_size(table) > 0);
}

static void test_pointers_in_pointer_free_blocks_do_not_count(void **state)
{
    (void)state;
    assert_child_succeeds(hold_by_pointer_free, "honour");
    assert_child_succeeds(hold_by_pointer_free, "ignore");
}

static void reclaim_pointer_free(void *meaning)
{
    start(meaning, "auto");
    make_blocks_of(make_pointer_free, BYTES);
    require(count_alive_after_collection() <= MOST_STALE);
    make_blocks_of(make_pointer_free, LARGE_BYTES);
    require(count_alive_after_collection() <= MOST_STALE);
    require(gc->is_valid());
}

static void test_pointer_free_blocks_are_reclaimed_at_once(void **state)
{
    (void)state;
    assert_child_succeeds(reclaim_pointer_free, "honour");
    assert_child_succeeds(reclaim_pointer_free, "ignore");
}

/* The slot of a block without pointers, with a block that has some. */
static void take_again(void *unused)
{
    (void)unused;
    start("honour", "collect");
    table = make_pointer_free(BLOCKS * sizeof(void *));
    void *before = table;
    gc->free(table);
    table = make_ordinary(BLOCKS * sizeof(void *));
    require(table == before);
    require(count_kept_by(table) == BLOCKS);
    require(gc->is_valid());
}

static void *free_table(void *unused)
{
    gc->free(table);
    return unused;
}

static void in_thread(void *(*work)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, work, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
}

static void take_again_from_thread(void *unused)
{
    (void)unused;
    start("honour", "collect");
    void *before = table = make_pointer_free(BLOCKS * sizeof(void *));
    in_thread(free_table);
    for (int i = 0; i < 100000; i++) {
        table = make_ordinary(BLOCKS * sizeof(void *));
        if (table == before)
            break;
    }
    require(count_kept_by(table) == BLOCKS);
    require(gc->is_valid());
}

static void test_a_freed_one_leaves_nothing_to_the_next_block(void **state)
{
    (void)state;
    assert_child_succeeds(take_again, NULL);
    assert_child_succeeds(take_again_from_thread, NULL);
}

static void resize_pointer_free(void *meaning)
{
    start(meaning, "collect");
    size_t bytes = BLOCKS * sizeof(void *);
    table = gc->resize(make_pointer_free(bytes), bytes - 1);
    require(count_kept_by(table) == BLOCKS);
    table = gc->resize(make_pointer_free(bytes), 4 * bytes);
    require(count_kept_by(table) == BLOCKS);
}

static void test_realloc_makes_a_block_as_any_other(void **state)
{
    (void)state;
    assert_child_succeeds(resize_pointer_free, "honour");
    assert_child_succeeds(resize_pointer_free, "ignore");
}

static void keep_leaks(void *unused)
{
    (void)unused;
    start("ignore", "keep");
    make_blocks_of(make_pointer_free, BYTES);
    require(count_alive_after_collection() == BLOCKS);
}

static void quarantine_pointer_free(void *unused)
{
    (void)unused;
    start("quarantine", "collect");
    make_blocks_of(make_pointer_free, BYTES);
    for (int i = 0; i < BLOCKS; i++)
        gc->free(block(i));
    require(collect() == COLLECTED);
}

static void test_where_leaks_are_kept_it_is_a_block_as_any_other(void **state)
{
    (void)state;
    assert_child_succeeds(keep_leaks, NULL);
}

static void test_in_a_quarantine_its_free_is_the_first(void **state)
{
    (void)state;
    assert_child_succeeds(quarantine_pointer_free, NULL);
}

/* Roots and pins. */

static void pin_all(void)
{
    for (int i = 0; i < BLOCKS; i++)
        require(asked_roots_pin((uintptr_t)block(i)) == 0);
}

static void unpin_all(void)
{
    for (int i = 0; i < BLOCKS; i++)
        require(asked_roots_unpin((uintptr_t)block(i)) == 0);
}

static void keep_pinned(void *meaning)
{
    start(meaning, "collect");
    make_blocks();
    pin_all();
    pin_all();
    require(count_alive_after_collection() == BLOCKS);
    unpin_all();
    require(count_alive_after_collection() == BLOCKS);
    unpin_all();
    require(count_alive_after_collection() <= MOST_STALE);
}

static void test_a_pin_keeps_as_often_as_it_was_set(void **state)
{
    (void)state;
    assert_child_succeeds(keep_pinned, "honour");
    assert_child_succeeds(keep_pinned, "ignore");
}

/* Each has the only pointer to the next. */
static void keep_list(void *unused)
{
    (void)unused;
    start("ignore", "collect");
    make_blocks();
    for (int i = 0; i + 1 < BLOCKS; i++)
        *(void **)block(i) = block(i + 1);
    require(asked_roots_pin((uintptr_t)block(0) + 8) == 0);
    require(count_alive_after_collection() == BLOCKS);
}

static void test_what_a_pinned_block_points_to_is_kept(void **state)
{
    (void)state;
    assert_child_succeeds(keep_list, NULL);
}

/* Distances from the table, which is the only way to the blocks. */
static __attribute__((noinline)) void write_distances(uintptr_t *distances)
{
    for (int i = 0; i < BLOCKS; i++)
        distances[i] = ~complements[i] - (uintptr_t)distances;
}

/* There is a collection in the realloc, before the new block exists. */
static void keep_through_realloc(void *meaning)
{
    enum { TABLE_BYTES = BLOCKS * sizeof(uintptr_t) };
    collects_always = true;
    start(meaning, "collect");
    uintptr_t *distances = gc->alloc(TABLE_BYTES);
    gc->pin(distances);
    for (int i = 0; i < BLOCKS; i++) {
        complements[i] = ~(uintptr_t)gc->alloc(BYTES);
        distances[i] = ~complements[i] - (uintptr_t)distances;
    }
    clean_stack();
    uintptr_t *moved = gc->resize(distances, 4 * TABLE_BYTES);
    require(moved != distances && count_alive() == BLOCKS);
    write_distances(moved);
    require(count_alive_after_collection() == BLOCKS);
    memset(moved, 0, TABLE_BYTES);
    require(count_alive_after_collection() <= MOST_STALE);
}

static void test_a_pin_lasts_through_realloc(void **state)
{
    (void)state;
    assert_child_succeeds(keep_through_realloc, "honour");
    assert_child_succeeds(keep_through_realloc, "ignore");
    assert_child_succeeds(keep_through_realloc, "quarantine");
}

/* In memory that collections do not look at. */
static void keep_by_range(void *unused)
{
    (void)unused;
    start("ignore", "collect");
    enum { BEFORE = PAGE_BYTES - 16 * sizeof(void *) }; /* the range lies across two pages */
    char *hidden = private_memory_map(4 * PAGE_BYTES);
    table = (void **)(void *)(hidden + BEFORE);
    uintptr_t start = (uintptr_t)table;
    require(asked_roots_add(start, BLOCKS * sizeof(void *)) == 0);
    require(count_kept_by(table) == BLOCKS);
    require(asked_roots_remove(start, BLOCKS * sizeof(void *)) == 0);
    require(count_alive_after_collection() <= MOST_STALE);
}

static void test_a_range_keeps_until_it_is_removed(void **state)
{
    (void)state;
    assert_child_succeeds(keep_by_range, NULL);
}

/* Only what is in the range counts, and only as far as it can be read. */
static void keep_by_part(void *unused)
{
    (void)unused;
    start("ignore", "collect");
    char *hidden = private_memory_map(4 * PAGE_BYTES);
    table = (void **)(void *)(hidden + PAGE_BYTES);
    require(munmap(hidden, PAGE_BYTES) == 0);
    require(munmap(hidden + 2 * PAGE_BYTES, PAGE_BYTES) == 0);
    require(asked_roots_add((uintptr_t)hidden + 1000, 4 * PAGE_BYTES) == 0);
    require(asked_roots_add(4096, (size_t)1 << 30) == 0);
    require(asked_roots_add(~(uintptr_t)0 - 4096, 4096) == 0);
    require(count_kept_by(table) == BLOCKS);
    require(asked_roots_remove((uintptr_t)hidden + 1000, 4 * PAGE_BYTES) == 0);
    require(asked_roots_add((uintptr_t)table, 8 * sizeof(void *)) == 0);
    require(count_kept_by(table) <= 8 + MOST_STALE);
    for (int i = 0; i < 8; i++)
        require(gc->usable_size(table[i]) > 0);
}

static void test_a_range_is_read_as_far_as_it_can_be(void **state)
{
    (void)state;
    assert_child_succeeds(keep_by_part, NULL);
}

static void *pin_all_in_thread(void *unused)
{
    pin_all();
    return unused;
}

static void pin_during_fork(void *unused)
{
    (void)unused;
    alarm(600); /* who waits for the thread that forks waits for ever */
    start("ignore", "collect");
    make_blocks();
    fork_chain_prepare();
    in_thread(pin_all_in_thread);
    fork_chain_parent();
    require(count_alive_after_collection() == BLOCKS);
    unpin_all();
    require(count_alive_after_collection() <= MOST_STALE);
}

static void test_a_pin_during_a_fork_waits_for_nobody_and_counts(void **state)
{
    (void)state;
    assert_child_succeeds(pin_during_fork, NULL);
}

/* gc:classic forgets nothing of a slab, but hands out again what it has reclaimed. */
static int count_whole_of_classic(void)
{
    require(collect() == COLLECTED);
    for (int i = 0; i < 10 * BLOCKS; i++)
        memset(gc->alloc(BYTES), 0xEE, BYTES);
    int whole = 0;
    for (int i = 0; i < BLOCKS; i++)
        whole += *(unsigned char *)block(i) == 0x5A;
    return whole;
}

static void keep_in_classic(void *unused)
{
    (void)unused;
    start_classic();
    require(collect() == COLLECTED);
    make_blocks();
    pin_all();
    require(count_whole_of_classic() == BLOCKS);
    unpin_all();
    require(count_whole_of_classic() <= MOST_STALE);
}

static void test_the_classic_collector_heeds_pins(void **state)
{
    (void)state;
    assert_child_succeeds(keep_in_classic, NULL);
}

/* gc:classic looks at every eighth byte, wherever the range begins. */
static void keep_by_range_in_classic(void *unused)
{
    (void)unused;
    start_classic();
    require(collect() == COLLECTED);
    make_blocks();
    char *hidden = private_memory_map(PAGE_BYTES);
    table = (void **)(void *)(hidden + sizeof(void *));
    for (int i = 0; i < BLOCKS; i++)
        table[i] = block(i);
    uintptr_t start = (uintptr_t)table - sizeof(uint32_t);
    size_t bytes = BLOCKS * sizeof(void *) + sizeof(uint32_t);
    require(asked_roots_add(start, bytes) == 0);
    require(count_whole_of_classic() == BLOCKS);
    require(asked_roots_remove(start, bytes) == 0);
    require(count_whole_of_classic() <= MOST_STALE);
}

static void test_to_the_classic_collector_a_range_may_begin_anywhere(void **state)
{
    (void)state;
    assert_child_succeeds(keep_by_range_in_classic, NULL);
}

/* Walks. */

struct met {
    int live, retired, free, wrong;
};

static void meet(void *argument, const struct block_info *info)
{
    struct met *met = argument;
    for (int i = 0; i < BLOCKS; i++) {
        if (info->payload != block(i))
            continue;
        met->live += info->state == BLOCK_LIVE;
        met->retired += info->state == BLOCK_RETIRED;
        met->free += info->state == BLOCK_FREE;
        met->wrong +=
            info->state == BLOCK_LIVE && info->usable_bytes != gc->usable_size(info->payload);
    }
}

static struct met walk(void)
{
    struct met met = {0};
    gc->walk(meet, &met);
    return met;
}

static void walk_blocks(void *meaning)
{
    start(meaning, "collect");
    make_blocks();
    struct met met = walk();
    require(met.live == BLOCKS && met.wrong == 0);
    for (int i = 0; i < BLOCKS; i += 2)
        gc->free(block(i));
    met = walk();
    bool frees = strcmp(meaning, "honour") == 0;
    require(met.live == BLOCKS / 2);
    require(met.retired == (frees ? 0 : BLOCKS / 2) && met.free == (frees ? BLOCKS / 2 : 0));
    make_blocks_of(make_pointer_free, BYTES);
    require(walk().live == (strcmp(meaning, "ignore") == 0 ? 0 : BLOCKS));
}

static void test_a_walk_tells_what_is_live_retired_and_free(void **state)
{
    (void)state;
    assert_child_succeeds(walk_blocks, "honour");
    assert_child_succeeds(walk_blocks, "ignore");
    assert_child_succeeds(walk_blocks, "quarantine");
}

int main(void)
{
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_collection_reclaims_what_nothing_points_to),
        cmocka_unit_test(test_under_auto_the_second_one_does),
        cmocka_unit_test(test_it_is_said_that_there_is_none),
        cmocka_unit_test(test_during_a_fork_there_is_none),
        cmocka_unit_test(test_pointers_in_pointer_free_blocks_do_not_count),
        cmocka_unit_test(test_pointer_free_blocks_are_reclaimed_at_once),
        cmocka_unit_test(test_a_freed_one_leaves_nothing_to_the_next_block),
        cmocka_unit_test(test_realloc_makes_a_block_as_any_other),
        cmocka_unit_test(test_where_leaks_are_kept_it_is_a_block_as_any_other),
        cmocka_unit_test(test_in_a_quarantine_its_free_is_the_first),
        cmocka_unit_test(test_a_pin_keeps_as_often_as_it_was_set),
        cmocka_unit_test(test_what_a_pinned_block_points_to_is_kept),
        cmocka_unit_test(test_a_pin_lasts_through_realloc),
        cmocka_unit_test(test_a_range_keeps_until_it_is_removed),
        cmocka_unit_test(test_a_range_is_read_as_far_as_it_can_be),
        cmocka_unit_test(test_a_pin_during_a_fork_waits_for_nobody_and_counts),
        cmocka_unit_test(test_the_classic_collector_heeds_pins),
        cmocka_unit_test(test_to_the_classic_collector_a_range_may_begin_anywhere),
        cmocka_unit_test(test_a_walk_tells_what_is_live_retired_and_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
