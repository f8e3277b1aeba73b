/* SPDX-License-Identifier: MIT
 *
 * test_quarantine.c: what is said of writes after a free and of second frees, and how often.
 */
#include "tests/unit/said_lines.h"

#include <signal.h>

#include "alloc/blocks/lookup.h"
#include "tests/unit/blocks_unit.h"

/* Included, not linked: its state is made anew for each test. */
#include "gc/cycle/quarantine.c"

enum { BYTES = 112, FILLER_BYTES = 1 << 20 };

static const struct blocks_collector collector = {.before_growth = grow, .rows = SLAB_OLD_ROWS};

/* No file is there, so it is written as it is. */
static const void *at(uintptr_t site)
{
    return (const void *)site;
}

static int make_heap(void **state)
{
    (void)state;
    quarantine_init();
    return blocks_init(25, &collector) ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    struct quarantine_written unused[MOST_WRITTEN];
    quarantine_take_written(unused);
    quarantine.is_said = quarantine.rest_is_counted = false;
    quarantine.reported = 0;
    quarantine.written_before = quarantine_written_blocks();
    hear_lines();
    return 0;
}

static struct slab_word *word_of(const char *block, uint64_t *bit)
{
    struct slab *slab = slab_at(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    *bit = slab_bit(index);
    return &slab->words[index / SLAB_WORD_BLOCKS];
}

/* As a sweep does that is about to hand the block out. */
static void look_at(const char *block)
{
    uint64_t bit;
    struct slab *slab = slab_at(block);
    const struct slab_word *word = word_of(block, &bit);
    blocks_lock();
    quarantine_look(slab, (size_t)(word - slab->words), bit);
    blocks_unlock();
}

/* The block was freed at `site`, and then written to. Whoever looks again finds it whole. */
static char *written_block(size_t offset, uintptr_t site)
{
    char *block = blocks_alloc(BYTES);
    assert_non_null(block);
    quarantine_free(block, at(site));
    block[offset] ^= 1;
    look_at(block);
    block[offset] ^= 1;
    return block;
}

static void test_a_write_after_a_free_has_one_line_with_its_place_and_the_free(void **state)
{
    (void)state;
    static const struct {
        size_t offset;
        const char *text;
    } cases[] = {
        {0, ""}, {1, "1 byte into a "}, {2, "2 bytes into a "}, {100, "100 bytes into a "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hear_lines();
        char expected[MESSAGE_BYTES], *block = written_block(cases[i].offset, 0xabc);
        snprintf(expected, sizeof expected,
                 "allotrope: quarantine(%p): written after its free: %sblock of 112 bytes at %p\n"
                 "  freed at 0xabc\n",
                 (void *)(block + cases[i].offset), cases[i].text, (void *)block);
        assert_int_equal(said.count, 0);
        assert_false(quarantine_after_collection(true));
        assert_int_equal(said.count, 1);
        assert_string_equal(said.lines[0], expected);
        quarantine_after_collection(true);
        assert_int_equal(said.count, 1);
    }
}

static void test_a_free_that_is_not_in_the_log_is_at_an_unknown_site(void **state)
{
    (void)state;
    char *block = blocks_alloc(BYTES);
    assert_true(quarantine_block(block, "free"));
    block[0] ^= 1;
    look_at(block);
    block[0] ^= 1;
    quarantine_after_collection(true);
    assert_int_equal(said.count, 1);
    assert_non_null(strstr(said.lines[0], "\n  freed at an unknown site\n"));
}

static void test_a_block_that_realloc_has_left_is_freed_at_its_call(void **state)
{
    (void)state;
    char *block = blocks_alloc(BYTES);
    assert_ptr_equal(quarantine_realloc(block, BYTES - 1, at(0xabc)), block);
    assert_int_equal(free_log_site(block), 0);
    assert_ptr_not_equal(quarantine_realloc(block, 2 * BYTES, at(0xabc)), block);
    assert_int_equal(free_log_site(block), 0xabc);
}

/* Reports of MOST_WRITTEN at a time, which is all that the heap remembers. */
static void test_the_first_writes_have_lines_and_the_rest_one(void **state)
{
    (void)state;
    for (int i = 0; i < MOST_REPORTED + 2 * MOST_WRITTEN; i++) {
        written_block(5, 0xabc);
        if (i % MOST_WRITTEN == MOST_WRITTEN - 1)
            quarantine_after_collection(true);
        if (i == MOST_REPORTED - 1)
            assert_int_equal(said.count, MOST_REPORTED);
    }
    assert_int_equal(said.count, MOST_REPORTED + 1);
    assert_non_null(strstr(said.lines[MOST_REPORTED - 1], "): written after its free: "));
    assert_string_equal(said.lines[MOST_REPORTED],
                        "allotrope: gc: further blocks that were written after their free are only "
                        "counted\n");
}

static void test_what_the_heap_has_only_counted_has_one_line(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MOST_WRITTEN + 1; i++)
            written_block(5, 0xabc);
        quarantine_after_collection(true);
        assert_int_equal(said.count, (round + 1) * MOST_WRITTEN + 1);
    }
    assert_non_null(strstr(said.lines[MOST_WRITTEN], "are only counted"));
}

/* Released, and not handed out again. */
static void test_a_write_that_is_found_at_the_end_has_a_line(void **state)
{
    (void)state;
    uint64_t bit;
    char *block = blocks_alloc(BYTES);
    quarantine_free(block, at(0xabc));
    struct slab *slab = slab_at(block);
    struct slab_word *word = word_of(block, &bit);
    blocks_lock();
    blocks_clear_live(slab, (size_t)(word - slab->words), bit, false);
    slab_set_free(word, bit);
    blocks_unlock();
    quarantine_at_exit();
    size_t count_of_whole = said.count;
    block[3] ^= 1;
    quarantine_at_exit();
    slab_clear_retired(word, bit); /* as whoever takes the block does */
    assert_int_equal(count_of_whole, 0);
    assert_int_equal(said.count, 1);
}

static void free_again(void *block)
{
    message_log = NULL;
    quarantine_free(block, at(0xdef));
}

static void resize_again(void *block)
{
    message_log = NULL;
    quarantine_realloc(block, 2 * (size_t)BYTES, at(0xdef));
}

static void assert_second_is_told(child_body *body, const char *function)
{
    char expected[MESSAGE_BYTES];
    void *block = blocks_alloc(BYTES);
    quarantine_free(block, at(0xabc));
    snprintf(expected, sizeof expected,
             "allotrope: %s(%p): freed twice: block of 112 bytes at %p, called at 0xdef\n"
             "  freed at 0xabc\n",
             function, block, block);
    struct ending ending = run_child(body, block);
    assert_int_equal(ending.signal, SIGABRT);
    assert_string_equal(ending.errors, expected);
}

static void test_a_second_free_ends_the_process_with_both_sites(void **state)
{
    (void)state;
    assert_second_is_told(free_again, "free");
    assert_second_is_told(resize_again, "realloc");
}

/* Enough for the next ageing. */
static void free_much(void)
{
    for (int i = 0; i < 2; i++) {
        void *filler = blocks_alloc(FILLER_BYTES);
        assert_non_null(filler);
        quarantine_free(filler, at(0xabc));
    }
}

static void test_blocks_age_where_there_are_no_collections_which_is_said_once(void **state)
{
    (void)state;
    uint64_t aged = quarantine_aged_blocks();
    free_much();
    assert_false(quarantine_after_collection(true));
    assert_int_equal(said.count, 0);
    assert_false(quarantine_after_collection(false)); /* now they begin to age */
    assert_int_equal(said.count, 1);
    assert_memory_equal(said.lines[0], "allotrope: gc: no collections (", 31);
    free_much();
    assert_true(quarantine_after_collection(false));
    assert_true(quarantine_aged_blocks() > aged);
    quarantine_without_collections();
    assert_int_equal(said.count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_write_after_a_free_has_one_line_with_its_place_and_the_free,
                               start),
        cmocka_unit_test_setup(test_a_free_that_is_not_in_the_log_is_at_an_unknown_site, start),
        cmocka_unit_test_setup(test_a_block_that_realloc_has_left_is_freed_at_its_call, start),
        cmocka_unit_test_setup(test_the_first_writes_have_lines_and_the_rest_one, start),
        cmocka_unit_test_setup(test_what_the_heap_has_only_counted_has_one_line, start),
        cmocka_unit_test_setup(test_a_write_that_is_found_at_the_end_has_a_line, start),
        cmocka_unit_test_setup(test_a_second_free_ends_the_process_with_both_sites, start),
        cmocka_unit_test_setup(test_blocks_age_where_there_are_no_collections_which_is_said_once,
                               start),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
