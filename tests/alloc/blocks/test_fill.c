/* SPDX-License-Identifier: MIT
 *
 * test_fill.c: what of a freed block was written, and of which blocks it is asked.
 */
#include "tests/unit/blocks_unit.h"

#include <string.h>

/* Included, not linked: its state is made anew for each test. */
#include "alloc/blocks/fill.c"

/* A slab of the test's own, whose blocks lie in an array. */
enum { BYTES = 112, WORDS = 2, BLOCKS = WORDS * SLAB_WORD_BLOCKS, LAST = BLOCKS - 1 };
static _Alignas(64) char record[sizeof(struct slab) + WORDS * sizeof(struct slab_word)];
static struct slab *const slab = (struct slab *)(void *)record;
static _Alignas(64) char memory[BLOCKS * BYTES];

static struct quarantine_written written[MOST_WRITTEN];
static size_t told; /* blocks, without being asked */
static unsigned tellings;

static void note_that_it_is_told(void)
{
    tellings++;
    told += quarantine_take_written(written); /* takes the lock, which is not held */
}

static int start(void **state)
{
    (void)state;
    memset(&found, 0, sizeof found);
    memset(record, 0, sizeof record);
    memset(memory, QUARANTINE_FILL, sizeof memory);
    slab->base = memory;
    slab->block_bytes = BYTES;
    slab->capacity = BLOCKS;
    told = tellings = 0;
    quarantine_found_written = note_that_it_is_told;
    return 0;
}

static char *block_at(size_t index)
{
    return memory + index * BYTES;
}

static size_t look_at(size_t word, uint64_t blocks)
{
    quarantine_look(slab, word, blocks);
    return quarantine_take_written(written);
}

static void test_the_first_byte_that_differs_is_found_in_a_block_of_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 32, 48, 64, 80, 112, 128, 144, 1024};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(find_written(memory, sizes[i]), sizes[i]);
        for (size_t offset = sizes[i]; offset-- > 0;) {
            memory[offset] = 0; /* and so are all behind it */
            assert_int_equal(find_written(memory, sizes[i]), offset);
        }
        memset(memory, QUARANTINE_FILL, sizes[i]);
    }
}

static void test_each_bit_of_each_byte_counts(void **state)
{
    (void)state;
    for (size_t offset = 0; offset < BYTES; offset++)
        for (int bit = 0; bit < 8; bit++) {
            memory[offset] ^= (char)(1 << bit);
            assert_int_equal(find_written(memory, BYTES), offset);
            memory[offset] ^= (char)(1 << bit);
        }
}

static void test_nothing_before_or_behind_a_block_counts(void **state)
{
    (void)state;
    memset(memory, 0, BYTES);
    memset(block_at(2), 0, BYTES);
    assert_int_equal(look_at(0, slab_bit(1)), 0);
    assert_int_equal(look_at(0, slab_bit(0) | slab_bit(1)), 1);
    assert_ptr_equal(written[0].block, memory);
}

static void test_only_the_blocks_that_are_asked_for_are_looked_at(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    assert_int_equal(look_at(0, 0), 0);
    assert_int_equal(look_at(1, slab_bit(3) | slab_bit(LAST)), 2);
    assert_ptr_equal(written[0].block, block_at(SLAB_WORD_BLOCKS + 3));
    assert_ptr_equal(written[1].block, block_at(LAST));
}

static void test_a_written_block_is_told_with_its_size_and_the_place(void **state)
{
    (void)state;
    block_at(LAST)[BYTES - 1] = 0;
    assert_int_equal(look_at(1, ~UINT64_C(0)), 1);
    assert_ptr_equal(written[0].block, block_at(LAST));
    assert_int_equal(written[0].bytes, BYTES);
    assert_int_equal(written[0].offset, BYTES - 1);
}

static void test_of_many_written_blocks_the_first_are_told_and_all_are_counted(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    quarantine_look(slab, 1, ~UINT64_C(0));
    quarantine_look(slab, 0, ~UINT64_C(0));
    assert_int_equal(quarantine_take_written(written), BLOCKS);
    for (size_t i = 0; i < MOST_WRITTEN; i++)
        assert_ptr_equal(written[i].block, block_at(SLAB_WORD_BLOCKS + i));
    assert_int_equal(quarantine_written_blocks(), BLOCKS);
}

static void test_what_was_found_is_taken_once(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    assert_int_equal(look_at(0, slab_bit(0)), 1);
    assert_int_equal(quarantine_take_written(written), 0);
    assert_int_equal(look_at(0, slab_bit(1)), 1);
    assert_ptr_equal(written[0].block, block_at(1));
    assert_int_equal(quarantine_written_blocks(), 2);
}

/* It has no fill: its pages are gone. */
static void test_a_large_block_is_not_looked_at(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    slab->capacity = 1;
    assert_int_equal(look_at(0, slab_bit(0)), 0);
}

enum { RELEASED = 1, WHOLE = 2, WAITS = 4, FREE = 8 };

/* A block that is released and written, one that is released, one that is not released, and one
 * that is free for long. All but the second have other bytes. */
static struct slab_word *set_bits(size_t word)
{
    memset(memory, 0, sizeof memory);
    memset(block_at(word * SLAB_WORD_BLOCKS + 1), QUARANTINE_FILL, BYTES);
    slab->words[word].free = RELEASED | WHOLE | FREE;
    slab->words[word].retired = RELEASED | WHOLE | WAITS;
    return &slab->words[word];
}

/* [looked at before use] */
static void test_released_blocks_are_looked_at_and_told_before_their_use(void **state)
{
    (void)state;
    const struct slab_word *word = set_bits(1);
    quarantine_look_before_use(slab, 1);
    assert_int_equal(told, 1);
    assert_ptr_equal(written[0].block, block_at(SLAB_WORD_BLOCKS));
    assert_int_equal(word->retired, WAITS);
    assert_int_equal(word->free, RELEASED | WHOLE | FREE);
    quarantine_look_before_use(slab, 1);
    assert_int_equal(told, 1);
}

static void test_nothing_is_told_where_all_blocks_are_whole(void **state)
{
    (void)state;
    struct slab_word *word = set_bits(0);
    word->retired = WHOLE | WAITS;
    quarantine_look_before_use(slab, 0);
    assert_int_equal(tellings, 0);
    assert_int_equal(word->retired, WAITS);
    assert_int_equal(quarantine_written_blocks(), 0);
}

static void test_all_released_blocks_are_looked_at_before_a_slab_is_dropped(void **state)
{
    (void)state;
    const struct slab_word *last = set_bits(1), *first = set_bits(0);
    memset(block_at(SLAB_WORD_BLOCKS + 1), QUARANTINE_FILL, BYTES);
    quarantine_look_before_drop(slab);
    assert_int_equal(tellings, 0); /* the caller has the lock */
    assert_int_equal(quarantine_take_written(written), 2);
    assert_ptr_equal(written[0].block, block_at(0));
    assert_ptr_equal(written[1].block, block_at(SLAB_WORD_BLOCKS));
    assert_int_equal(first->retired, WAITS);
    assert_int_equal(last->retired, WAITS);
}

/* At exit, of one slab. A block that is written then is found at each look. */
static void test_a_look_at_exit_leaves_the_bits_as_they_are(void **state)
{
    (void)state;
    const struct slab_word *word = set_bits(1);
    for (int look = 0; look < 2; look++) {
        look_at_released(NULL, slab);
        assert_int_equal(quarantine_take_written(written), 1);
        assert_ptr_equal(written[0].block, block_at(SLAB_WORD_BLOCKS));
        assert_int_equal(word->retired, RELEASED | WHOLE | WAITS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_first_byte_that_differs_is_found_in_a_block_of_any_size,
                               start),
        cmocka_unit_test_setup(test_each_bit_of_each_byte_counts, start),
        cmocka_unit_test_setup(test_nothing_before_or_behind_a_block_counts, start),
        cmocka_unit_test_setup(test_only_the_blocks_that_are_asked_for_are_looked_at, start),
        cmocka_unit_test_setup(test_a_written_block_is_told_with_its_size_and_the_place, start),
        cmocka_unit_test_setup(test_of_many_written_blocks_the_first_are_told_and_all_are_counted,
                               start),
        cmocka_unit_test_setup(test_what_was_found_is_taken_once, start),
        cmocka_unit_test_setup(test_a_large_block_is_not_looked_at, start),
        cmocka_unit_test_setup(test_released_blocks_are_looked_at_and_told_before_their_use, start),
        cmocka_unit_test_setup(test_nothing_is_told_where_all_blocks_are_whole, start),
        cmocka_unit_test_setup(test_all_released_blocks_are_looked_at_before_a_slab_is_dropped,
                               start),
        cmocka_unit_test_setup(test_a_look_at_exit_leaves_the_bits_as_they_are, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
