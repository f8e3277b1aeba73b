/* SPDX-License-Identifier: MIT
 *
 * test_block_sites.c: of which blocks the site is remembered, and how it is written.
 */
#include "gc/cycle/block_sites.h"

#include <errno.h>
#include <string.h>

#include "tests/unit/unit.h"

enum { BITS = 4, PLACES = 1 << BITS };

static struct block_sites sites;

/* Of a block's address only the number counts, and of a site. */
static const void *at(uintptr_t number)
{
    return (const void *)(number << 4);
}

static void note(uintptr_t block, uintptr_t site)
{
    block_sites_note(&sites, at(block), at(site));
}

static uintptr_t site_of(uintptr_t block)
{
    return block_sites_of(&sites, at(block)) >> 4;
}

static int start(void **state)
{
    (void)state;
    return block_sites_init(&sites, BITS) ? 0 : -1;
}

static void test_a_site_is_known_of_the_block_that_it_was_noted_for(void **state)
{
    (void)state;
    assert_int_equal(site_of(1), 0);
    note(1, 10);
    assert_int_equal(site_of(1), 10);
    for (uintptr_t other = 2; other < 10 * PLACES; other++)
        assert_int_equal(site_of(other), 0);
}

static void test_the_latest_site_of_a_block_counts(void **state)
{
    (void)state;
    note(1, 10);
    note(1, 11);
    assert_int_equal(site_of(1), 11);
}

/* There are more blocks than places: some must share one. */
static void test_of_blocks_that_share_a_place_the_latest_is_known(void **state)
{
    (void)state;
    enum { MANY = 100 * PLACES };
    size_t known = 0;
    for (uintptr_t block = 1; block <= MANY; block++) {
        note(block, block + 1);
        assert_int_equal(site_of(block), block + 1);
    }
    for (uintptr_t block = 1; block <= MANY; block++)
        if (site_of(block) != 0) {
            assert_int_equal(site_of(block), block + 1);
            known++;
        }
    assert_int_equal(known, PLACES); /* the hash spreads them over all */
}

static void begin_without_memory(void *unused)
{
    (void)unused;
    limit_address_space(0);
    require(!block_sites_init(&sites, 22));
    note(1, 10);
    require(site_of(1) == 0);
}

static void test_without_memory_nothing_is_remembered(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();
    assert_child_succeeds(begin_without_memory, NULL);
}

static const char *text_of(uintptr_t site)
{
    static struct message message;
    message.length = 0;
    message_site(&message, site);
    message.text[message.length] = '\0';
    return message.text;
}

static void test_a_site_is_written_as_a_place_or_as_unknown(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%s+0x", program_invocation_short_name);
    assert_string_equal(text_of(0), "an unknown site");
    assert_string_equal(text_of(0xabc), "0xabc"); /* no file is there */
    assert_memory_equal(text_of((uintptr_t)start), expected, strlen(expected));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_site_is_known_of_the_block_that_it_was_noted_for, start),
        cmocka_unit_test_setup(test_the_latest_site_of_a_block_counts, start),
        cmocka_unit_test_setup(test_of_blocks_that_share_a_place_the_latest_is_known, start),
        cmocka_unit_test_setup(test_without_memory_nothing_is_remembered, start),
        cmocka_unit_test_setup(test_a_site_is_written_as_a_place_or_as_unknown, start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
