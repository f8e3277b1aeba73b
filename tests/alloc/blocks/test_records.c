/* SPDX-License-Identifier: MIT
 *
 * test_records.c: the records of slabs and thread heaps: where they lie, what of them stays, and
 * who visits them. There are no slabs: the test says which records are in use.
 */
#include <string.h>

#include "alloc/blocks/late_sweep.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/records.h"
#include "tests/unit/blocks_unit.h"
#include "vm/pages.h"

enum { ROWS = SLAB_SEEN_ROWS };

static struct slab *new_record(size_t words)
{
    blocks_lock();
    struct slab *slab = new_slab_record(words);
    blocks_unlock();
    assert_non_null(slab);
    return slab;
}

static void drop_record(struct slab *slab)
{
    blocks_lock();
    drop_slab_record(slab);
    blocks_unlock();
}

static size_t bytes_of(enum record_kind kind)
{
    return blocks_heap.records[kind].record_bytes;
}

static uint64_t *row(struct slab *slab, size_t number)
{
    return slab_pinned(slab, number * slab_record_words(slab));
}

static void test_records_of_one_size_lie_edge_to_edge(void **state)
{
    (void)state;
    enum { EACH = 50 };
    static const size_t words[] = {1, SLAB_FEW_WORDS, SLAB_FEW_WORDS + 1, SLAB_MAX_WORDS};
    const char *next[RECORD_KINDS] = {NULL};
    for (size_t i = 0; i < 4 * EACH; i++) {
        enum record_kind kind = i % 4 < 2 ? RECORD_FEW_WORDS : RECORD_ALL_WORDS;
        struct slab *slab = new_record(words[i % 4]);
        assert_int_equal((uintptr_t)slab % 64, 0);
        assert_int_equal(slab->few_words, kind == RECORD_FEW_WORDS);
        assert_true(next[kind] == NULL || (const char *)slab == next[kind]);
        next[kind] = (const char *)slab + bytes_of(kind);
        assert_true((char *)(row(slab, ROWS - 1) + slab_record_words(slab)) <= next[kind]);
        assert_null(slab_at(slab));
        assert_true(blocks_owns(slab));
    }
}

static void test_records_of_thread_heaps_are_zero_and_do_not_share_cache_lines(void **state)
{
    (void)state;
    blocks_lock();
    const struct thread_heap *first = new_thread_heap_record(), *second = new_thread_heap_record();
    blocks_unlock();
    assert_ptr_equal((const char *)second, (const char *)first + bytes_of(RECORD_THREAD_HEAP));
    assert_true(bytes_of(RECORD_THREAD_HEAP) >= sizeof *first);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_int_equal((uintptr_t)second % 64, 0);
    assert_true(is_zero(first, sizeof *first) && is_zero(second, sizeof *second));
}

/* All of a record but the links of lists on which it may be still: [queue is a hint]. */
static void assert_clean(struct slab *slab, size_t words)
{
    bool few_words = slab->few_words;
    slab->few_words = false;
    assert_true(is_zero(slab, offsetof(struct slab, queued)));
    slab->few_words = few_words;
    assert_true(is_zero(slab->words, words * sizeof slab->words[0]));
    for (size_t i = 0; i < ROWS; i++)
        assert_true(is_zero(row(slab, i), words * sizeof *row(slab, i)));
}

static void test_a_record_that_is_used_again_is_clean_but_for_its_queues(void **state)
{
    (void)state;
    static const size_t words[][2] = {{3, 16}, {16, 3}, {17, 64}, {64, 17}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct slab *slab = new_record(words[i][0]);
        bool few_words = slab->few_words;
        memset(slab, 0xFF, bytes_of(few_words ? RECORD_FEW_WORDS : RECORD_ALL_WORDS));
        slab->few_words = few_words;
        slab->queued = slab->young = true;
        slab->next_queued = slab;
        slab->next_young = slab;
        drop_record(slab);
        assert_int_equal(slab->state, SLAB_UNUSED);
        assert_int_equal(slab->capacity, 0);
        assert_null(thread_heap_of(slab));
        blocks_heap.late_sweep++;
        assert_ptr_equal(new_record(words[i][1]), slab);
        assert_int_equal(slab->few_words, few_words);
        assert_clean(slab, words[i][1]);
        assert_true(slab->queued && slab->young);
        assert_ptr_equal(slab->next_queued, slab);
        assert_ptr_equal(slab->next_young, slab);
        assert_false(is_unswept(slab)); /* nothing in it is older than the last late sweep */
    }
}

static void test_during_a_cycle_the_blocks_of_a_new_slab_are_marked_and_unborn(void **state)
{
    (void)state;
    enum { WORDS = 20 };
    blocks_mark_newborn(true);
    struct slab *slab = new_record(WORDS);
    blocks_mark_newborn(false);
    for (size_t i = 0; i < WORDS; i++) {
        assert_true(slab->words[i].mark == UINT64_MAX && *slab_unborn(slab, i) == UINT64_MAX);
        slab->words[i].mark = *slab_unborn(slab, i) = 0;
    }
    assert_clean(slab, WORDS);
    assert_clean(new_record(WORDS), WORDS);
}

/* Visits, against a table of all records. */

enum { KNOWN = 1000, HELD = 150 };
static struct {
    const struct slab *record;
    bool in_use;
    unsigned visits;
} known[KNOWN];
static size_t known_count;

static size_t find_known(const struct slab *slab)
{
    size_t i = 0;
    while (i < known_count && known[i].record != slab)
        i++;
    return i;
}

static void know(void *unused, struct slab *slab)
{
    (void)unused;
    size_t i = find_known(slab);
    assert_in_range(i, 0, KNOWN - 1);
    known[i].record = slab;
    known_count += i == known_count;
}

static void count_visit(void *last, struct slab *slab)
{
    struct slab **before = last;
    size_t i = find_known(slab);
    assert_in_range(i, 0, known_count - 1);
    known[i].visits++;
    assert_true(!*before || (*before)->few_words > slab->few_words ||
                ((*before)->few_words == slab->few_words && *before < slab));
    *before = slab;
}

typedef void each_record(void (*visit)(void *argument, struct slab *slab), void *argument);

static void assert_visits(each_record *each, bool unused_too)
{
    struct slab *last = NULL;
    for (size_t i = 0; i < known_count; i++)
        known[i].visits = 0;
    each(count_visit, &last);
    for (size_t i = 0; i < known_count; i++)
        assert_int_equal(known[i].visits, known[i].in_use || unused_too);
}

static void each_in_parts(void (*visit)(void *argument, struct slab *slab), void *argument)
{
    enum { PART = 7 };
    size_t next = 0;
    while (blocks_some_slabs(&next, PART, visit, argument))
        ;
    assert_false(blocks_some_slabs(&next, PART, visit, argument));
}

/* In order of address: first those with few words. */
static void test_each_record_is_visited_once_and_in_order(void **state)
{
    (void)state;
    static struct slab *held[HELD];
    uint64_t random = 21;
    each_slab_record(know, NULL);
    for (int step = 0; step < 3000; step++) {
        size_t at = random_below(&random, HELD), words = random_between(&random, 1, 64);
        if (held[at]) {
            known[find_known(held[at])].in_use = false;
            drop_record(held[at]);
            held[at] = NULL;
        } else {
            held[at] = new_record(words);
            know(NULL, held[at]);
            assert_false(known[find_known(held[at])].in_use); /* handed out twice */
            known[find_known(held[at])].in_use = true;
            held[at]->capacity = (uint32_t)(words * SLAB_WORD_BLOCKS);
        }
        if (step % 100 == 0) {
            assert_visits(each_slab_record, true);
            assert_visits(blocks_each_slab, false);
            assert_visits(blocks_each_slab_by_bits, false);
            assert_visits(each_in_parts, false);
        }
    }
    for (size_t i = 0; i < HELD; i++)
        if (held[i])
            drop_record(held[i]);
}

static void count_old_visit(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < known_count; i++)
        known[i].visits += known[i].record == slab;
}

/* New records of few words move those of many on. */
static void test_parts_pass_no_record_over_that_was_there_before(void **state)
{
    (void)state;
    struct slab *made[2 * HELD];
    size_t count = 0, next = 0;
    for (; count < HELD; count++) {
        made[count] = new_record(count % 2 ? SLAB_MAX_WORDS : 1);
        made[count]->capacity = 1;
    }
    known_count = 0;
    memset(known, 0, sizeof known);
    blocks_each_slab(know, NULL);
    for (bool more = true; more;) {
        more = blocks_some_slabs(&next, 5, count_old_visit, NULL);
        if (count < 2 * HELD) {
            made[count] = new_record(count % 4 ? 1 : SLAB_MAX_WORDS);
            made[count++]->capacity = 1;
        }
    }
    for (size_t i = 0; i < known_count; i++)
        assert_true(known[i].visits > 0);
    while (count > 0)
        drop_record(made[--count]);
}

static void count(void *number, struct slab *slab)
{
    (void)slab;
    ++*(size_t *)number;
}

static void count_and_unlink(void *number, struct slab *slab)
{
    count(number, slab);
    slab->next = NULL; /* as whoever frees the block */
}

static void test_blocks_of_a_fork_are_visited_and_may_be_freed_meanwhile(void **state)
{
    (void)state;
    static _Alignas(64) char memory[3][sizeof(struct slab)];
    size_t visits = 0, records = 0;
    for (size_t i = 0; i < 3; i++) {
        struct slab *slab = (struct slab *)(void *)memory[i];
        slab->capacity = 1;
        slab->next = blocks_heap.fork_slabs;
        blocks_heap.fork_slabs = slab;
    }
    blocks_each_slab(count_and_unlink, &visits);
    blocks_heap.fork_slabs = NULL;
    assert_int_equal(visits, 3);
    visits = 0;
    each_slab_record(count, &records);
    blocks_heap.fork_slabs = (struct slab *)(void *)memory[0];
    each_slab_record(count, &visits);
    blocks_heap.fork_slabs = NULL;
    assert_int_equal(visits, records);
}

/* Without memory. */

static size_t records_in_granule(enum record_kind kind)
{
    return (GRANULE_BYTES - sizeof(struct record_granule)) / bytes_of(kind);
}

/* As many records as lie in a granule: apart from each other, and on no queue. Returns the granule.
 */
static char *take_records_of_granule(size_t words, enum record_kind kind)
{
    static bool used[GRANULE_BYTES / 64];
    char *start = NULL;
    size_t free_granules = blocks_heap.runs.free_granules;
    memset(used, 0, sizeof used);
    for (size_t i = 0; i < records_in_granule(kind); i++) {
        struct slab *slab = new_slab_record(words);
        require(slab && blocks_heap.runs.free_granules == free_granules - 1);
        start = start ? start : (char *)round_down((uintptr_t)slab, GRANULE_BYTES);
        size_t offset = (size_t)((const char *)slab - start);
        require(offset % 64 == 0 && offset >= sizeof(struct record_granule));
        require(offset + bytes_of(kind) <= GRANULE_BYTES);
        for (size_t line = offset / 64; line < (offset + bytes_of(kind)) / 64; line++) {
            require(!used[line]);
            used[line] = true;
        }
        require(!slab->queued && !slab->young);
        slab->capacity = 1;
    }
    require(slab_at(start) == NULL && blocks_owns(start));
    return start;
}

static void make_records_of_free_granules(void *unused)
{
    (void)unused;
    static struct owner in_use = {OWNER_LARGE};
    struct runs *runs = &blocks_heap.runs;
    struct stretch contents;
    blocks_lock();
    char *start = runs_take(runs, 2, RUN_ANY, &contents);
    granule_map_set(start, 2 * GRANULE_BYTES, &in_use);
    memset(start, 0xEE, 2 * GRANULE_BYTES);
    use_up_all_memory();
    size_t used = runs->used_granules, in_use_now = 0;
    runs_give(runs, start, 2, false);
    const char *few = take_records_of_granule(1, RECORD_FEW_WORDS);
    const char *all = take_records_of_granule(SLAB_MAX_WORDS, RECORD_ALL_WORDS);
    require((few == start && all == start + GRANULE_BYTES) ||
            (all == start && few == start + GRANULE_BYTES));
    require(!new_slab_record(1) && !new_slab_record(SLAB_MAX_WORDS));
    require(runs->used_granules == used - 2 && runs_are_valid(runs));
    blocks_each_slab(count, &in_use_now);
    require(in_use_now ==
            records_in_granule(RECORD_FEW_WORDS) + records_in_granule(RECORD_ALL_WORDS));
    blocks_unlock();
}

static void test_without_memory_free_granules_become_records(void **state)
{
    (void)state;
    assert_child_succeeds(make_records_of_free_granules, NULL);
}

static int start(void **state)
{
    (void)state;
    static const struct blocks_collector collector = {.before_growth = grow, .rows = ROWS};
    return blocks_init(25, &collector) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records_of_one_size_lie_edge_to_edge), /* first: none is used again */
        cmocka_unit_test(test_records_of_thread_heaps_are_zero_and_do_not_share_cache_lines),
        cmocka_unit_test(test_a_record_that_is_used_again_is_clean_but_for_its_queues),
        cmocka_unit_test(test_during_a_cycle_the_blocks_of_a_new_slab_are_marked_and_unborn),
        cmocka_unit_test(test_each_record_is_visited_once_and_in_order),
        cmocka_unit_test(test_parts_pass_no_record_over_that_was_there_before),
        cmocka_unit_test(test_blocks_of_a_fork_are_visited_and_may_be_freed_meanwhile),
        cmocka_unit_test(test_without_memory_free_granules_become_records),
    };
    return cmocka_run_group_tests_name("records", tests, start, NULL);
}
