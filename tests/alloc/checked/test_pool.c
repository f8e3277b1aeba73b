/* SPDX-License-Identifier: MIT
 *
 * test_pool.c: the pages of sampled blocks: where blocks lie in them, how many there are, which is
 * used again, and what is said of a wrong access or free.
 */
#include "tests/unit/unit.h"

#include <string.h>
#include <sys/mman.h>

#include "alloc/checked/pool.h"
#include "alloc/checked/report.h"

enum { SLOTS = 16, LIVE = 12 };

static int start(void **state)
{
    (void)state;
    report_init(false, 1000);
    pool_init(SLOTS);
    return 0;
}

static uintptr_t page_of(const char *block)
{
    return (uintptr_t)block / PAGE_BYTES;
}

static void test_a_block_ends_or_begins_its_page(void **state)
{
    (void)state;
    for (uint64_t random = 0; random < 8; random++) {
        char *block = pool_alloc(64, 40, random);
        assert_true(pool_holds(block));
        assert_int_equal((uintptr_t)block % PAGE_BYTES, random % 4 == 0 ? 0 : PAGE_BYTES - 64);
        for (int i = 0; i < 40; i++)
            assert_int_equal(block[i], 0);
        memset(block, 1, 40);
        pool_free(block, "free");
    }
}

/* The kernel takes no contents of pages that are locked. */
static void use_locked_pages(void *unused)
{
    (void)unused;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        _exit(CHILD_CANNOT_TELL);
    for (int i = 0; i < 2 * SLOTS; i++) {
        char *block = pool_alloc(16, 1000, 1);
        require(block && is_zero(block, 1000));
        memset(block, 'A', 1000);
        pool_free(block, "free");
    }
}

static void test_a_block_in_locked_memory_is_zero_too(void **state)
{
    (void)state;
    assert_child_succeeds(use_locked_pages, NULL);
}

static void test_what_does_not_fit_is_refused(void **state)
{
    (void)state;
    assert_null(pool_alloc(16, 0, 1));
    assert_null(pool_alloc(16, PAGE_BYTES + 1, 1));
    assert_null(pool_alloc(2 * PAGE_BYTES, 16, 1));
    char *whole = pool_alloc(PAGE_BYTES, PAGE_BYTES, 1);
    assert_non_null(whole);
    pool_free(whole, "free");
}

static void test_live_blocks_are_bounded(void **state)
{
    (void)state;
    char *blocks[LIVE];
    struct pool_counts before, after;
    pool_count(&before);
    for (int i = 0; i < LIVE; i++)
        assert_non_null(blocks[i] = pool_alloc(16, 100, 1));
    assert_null(pool_alloc(16, 100, 1));
    pool_count(&after);
    assert_int_equal(after.live, LIVE);
    assert_int_equal(after.sampled - before.sampled, LIVE);
    assert_int_equal(after.passed_over - before.passed_over, 1);
    for (int i = 0; i < LIVE; i++)
        pool_free(blocks[i], "free");
}

static void test_the_longest_freed_page_is_used_next(void **state)
{
    (void)state;
    uintptr_t pages[SLOTS];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < SLOTS; i++) {
            char *block = pool_alloc(16, 100, 1);
            for (int j = 0; round == 0 && j < i; j++)
                assert_int_not_equal(page_of(block), pages[j]);
            if (round == 0)
                pages[i] = page_of(block);
            assert_int_equal(page_of(block), pages[i]);
            pool_free(block, "free");
        }
}

static void test_a_block_is_known_while_it_lives(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *block = pool_alloc(16, 100, 1);
    assert_true(pool_find(block, &bytes));
    assert_int_equal(bytes, 100);
    assert_false(pool_find(block + 16, &bytes));
    assert_false(pool_find(block + PAGE_BYTES, &bytes));
    pool_free(block, "free");
    assert_false(pool_find(block, &bytes));
}

static void count_block(void *argument, const struct block_info *info)
{
    *(size_t *)argument += info->usable_bytes;
}

static void test_the_walk_sees_live_blocks(void **state)
{
    (void)state;
    size_t bytes = 0;
    char *one = pool_alloc(16, 100, 1), *other = pool_alloc(16, 10, 1);
    pool_free(other, "free");
    pool_walk(count_block, &bytes);
    assert_int_equal(bytes, 100);
    pool_free(one, "free");
}

static void test_nothing_but_a_live_blocks_page_has_access(void **state)
{
    (void)state;
    char *block = pool_alloc(16, 100, 1), *page = block + 112 - PAGE_BYTES;
    assert_true(is_readable(page) && is_readable(page + PAGE_BYTES - 1));
    assert_false(is_readable(page - 1) || is_readable(page + PAGE_BYTES));
    memset(block, 1, 100);
    pool_free(block, "free");
    assert_false(is_readable(page) || is_readable(block) || is_readable(page + PAGE_BYTES - 1));
    for (int i = 1; i < SLOTS; i++) {
        char *other = pool_alloc(16, 100, 1);
        assert_ptr_not_equal(other, block);
        pool_free(other, "free");
    }
    assert_ptr_equal(pool_alloc(16, 100, 1), block); /* the longest freed */
    assert_true(is_zero(block, 100));
    pool_free(block, "free");
}

/* Misuse, in children. */

static void write_beside(void *offset)
{
    char *block = pool_alloc(16, 40, 1);
    block[*(const ptrdiff_t *)offset] ^= 1;
    pool_look();
    pool_free(block, "free");
}

/* A block of 40 bytes has 8 bytes of its page behind it, the others before it. */
static void test_what_is_written_beside_a_block_is_told_at_exit_and_at_its_free(void **state)
{
    (void)state;
    static const struct {
        ptrdiff_t offset;
        const char *fault;
    } writes[] = {{40, "written behind its end: 1 byte behind a block of 40 bytes at"},
                  {47, "written behind its end: 8 bytes behind a block"},
                  {-1, "written before its start: 1 byte before a block"},
                  {-4048, "written before its start: 4048 bytes before a block"}};
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        ptrdiff_t offset = writes[i].offset;
        struct ending ending = run_child(write_beside, &offset);
        assert_int_equal(ending.exit_status, 0);
        const char *at_exit = strstr(ending.errors, "exit(0x");
        const char *at_free = strstr(ending.errors, "free(0x");
        assert_true(at_exit && at_free && at_exit < at_free);
        assert_non_null(strstr(at_exit, writes[i].fault));
        assert_non_null(strstr(at_free, writes[i].fault));
    }
}

static void free_twice(void *unused)
{
    (void)unused;
    void *block = pool_alloc(16, 40, 1);
    pool_free(block, "free");
    pool_free(block, "realloc");
}

static void free_inside(void *unused)
{
    (void)unused;
    pool_free((char *)pool_alloc(16, 40, 1) + 16, "free");
}

static void free_guard(void *unused)
{
    (void)unused;
    pool_free((char *)pool_alloc(16, 48, 1) + 48, "free");
}

static void test_wrong_frees_abort(void **state)
{
    (void)state;
    assert_aborts(free_twice, NULL, "): freed twice: block of 40 bytes at");
    assert_aborts(free_inside, NULL, "not the start of a live block: 16 bytes into a block of 40");
    assert_aborts(free_guard, NULL, "not the start of a live block");
}

/* Two blocks on neighbouring pages, of which the lower ends and the upper begins with its page: so
 * the guard between them is beside both. */
static void fault_between(void *fault)
{
    char *lower = NULL, *upper = NULL;
    for (size_t i = 0; i < SLOTS && page_of(upper) != page_of(lower) + 2; i++) {
        lower = pool_alloc(16, 48, 1);
        upper = pool_alloc(16, 64, 0);
        if (page_of(upper) != page_of(lower) + 2) {
            pool_free(upper, "free");
            pool_free(lower, "free");
        }
    }
    require(page_of(upper) == page_of(lower) + 2);
    if (*(const int *)fault == 2)
        pool_free(lower, "free");
    pool_report_fault("write", *(const int *)fault == 1 ? upper - 1 : lower + 48, NULL);
    if (*(const int *)fault == 2)
        pool_report_fault("read", lower + 8, NULL);
}

static void test_a_fault_is_told_of_the_nearer_block(void **state)
{
    (void)state;
    static const char *const said[] = {"outside a block: 1 byte behind a block of 48 bytes",
                                       "outside a block: 1 byte before a block of 64 bytes",
                                       "after its free: 8 bytes into a block of 48 bytes"};
    for (int i = 0; i < 3; i++) {
        struct ending ending = run_child(fault_between, &i);
        assert_int_equal(ending.exit_status, 0);
        if (!strstr(ending.errors, said[i]))
            fail_msg("expected \"%s\": %s", said[i], ending.errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_ends_or_begins_its_page),
        cmocka_unit_test(test_a_block_in_locked_memory_is_zero_too),
        cmocka_unit_test(test_what_does_not_fit_is_refused),
        cmocka_unit_test(test_live_blocks_are_bounded),
        cmocka_unit_test(test_the_longest_freed_page_is_used_next),
        cmocka_unit_test(test_a_block_is_known_while_it_lives),
        cmocka_unit_test(test_the_walk_sees_live_blocks),
        cmocka_unit_test(test_nothing_but_a_live_blocks_page_has_access),
        cmocka_unit_test(test_what_is_written_beside_a_block_is_told_at_exit_and_at_its_free),
        cmocka_unit_test(test_wrong_frees_abort),
        cmocka_unit_test(test_a_fault_is_told_of_the_nearer_block),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
