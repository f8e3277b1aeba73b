/* SPDX-License-Identifier: MIT
 *
 * test_site_table.c: the table of sites, held against a model that copies everything at each peak.
 */
#include "shim/observers/site_table.h"

#include <string.h>

#include "bench_programs/random.h"
#include "tests/unit/unit.h"

enum { SITES = 40, BLOCKS = 20000, STEPS = 200000 };

struct model {
    double live[SITES], peak[SITES], all, most;
};

static void note_in_model(struct model *model, size_t site, double change)
{
    model->live[site] += change;
    model->all += change;
    if (model->all > model->most) {
        model->most = model->all;
        memcpy(model->peak, model->live, sizeof model->peak);
    }
}

static void test_table_knows_each_site_at_the_peak(void **state)
{
    (void)state;
    static struct site_table table;
    static struct model model;
    static struct {
        size_t site;
        double bytes;
    } live[BLOCKS];
    static const char code[SITES], memory[BLOCKS][16];
    uint64_t random = 42;
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_next(&random) % BLOCKS;
        /* The heap grows, shrinks and grows higher. */
        bool free_it = random_next(&random) % 100 < (step / 20000 % 2 ? 70U : 30U);
        if (live[i].bytes > 0) {
            if (!free_it)
                continue;
            assert_true(site_table_may_hold(&table, memory[i]));
            assert_true(site_table_remove(&table, memory[i]).hidden == ~(uintptr_t)memory[i]);
            note_in_model(&model, live[i].site, -live[i].bytes);
            live[i].bytes = 0;
        } else if (!free_it) {
            size_t site = random_next(&random) % SITES;
            const void *frames[] = {&code[site], &code[0]};
            uint64_t bytes = 1 + random_next(&random) % 1000;
            site_table_add(&table, site_table_site(&table, frames, 2), memory[i], bytes, 2, 0);
            live[i].site = site;
            live[i].bytes = 2 * (double)bytes;
            note_in_model(&model, site, live[i].bytes);
        } else {
            assert_true(site_table_remove(&table, memory[i]).hidden == 0);
        }
    }
    assert_int_equal(table.site_count, SITES);
    assert_true(table.peak_bytes == model.most);
    for (size_t i = 0; i < SITES; i++) {
        size_t site = (size_t)((const char *)table.sites[i].frames[0] - code);
        assert_true(site_at_peak(&table, &table.sites[i]).bytes == model.peak[site]);
        assert_true(table.sites[i].live.bytes == model.live[site]);
    }
}

static void test_a_failed_resize_is_undone(void **state)
{
    (void)state;
    static struct site_table table;
    static const char block[16];
    const void *frames[] = {"caller"};
    assert_true(site_table_add(&table, site_table_site(&table, frames, 1), block, 100, 1, 0));
    struct sampled_block removed = site_table_remove(&table, block);
    assert_true(table.live_bytes == 0);
    site_table_restore(&table, &removed);
    assert_true(table.live_bytes == 100 && table.sites[0].total.bytes == 100);
    assert_true(site_table_remove(&table, block).hidden == ~(uintptr_t)block);
}

static void test_ends_are_counted_by_age_and_as_temporary(void **state)
{
    (void)state;
    static struct site_table table;
    static const char blocks[2][16];
    const void *frames[] = {"caller"};
    uint32_t site = site_table_site(&table, frames, 1);
    site_table_add(&table, site, blocks[0], 100, 2, 1000);
    site_table_add(&table, site, blocks[1], 10, 3, 1000);
    struct sampled_block first = site_table_remove(&table, blocks[0]);
    site_table_count_end(&table, &first, 1000 + 1023, true);
    struct sampled_block second = site_table_remove(&table, blocks[1]);
    site_table_count_end(&table, &second, 1000, false); /* a clock that stood still */
    assert_true(table.lifetimes[9].blocks == 2 && table.lifetimes[9].bytes == 200);
    assert_true(table.lifetimes[0].blocks == 3);
    assert_true(table.sites[0].temporary.blocks == 2 && table.sites[0].temporary.bytes == 200);
}

/* Return addresses that a program might have: one for each number. */
static const void *return_address(size_t number)
{
    return (const void *)(UINT64_C(0x400000) + number);
}

static void test_a_site_is_all_its_return_addresses(void **state)
{
    (void)state;
    static struct site_table table;
    const void *frames[] = {return_address(1), return_address(2), return_address(3)};
    const void *other[] = {return_address(1), return_address(3), return_address(2)};
    uint32_t site = site_table_site(&table, frames, 3);
    assert_int_equal(site, 1);
    assert_int_equal(site_table_site(&table, frames, 2), 2);
    assert_int_equal(site_table_site(&table, other, 3), 3);
    assert_int_equal(site_table_site(&table, frames, 3), site);
    assert_int_equal(table.site_count, 3);
    assert_int_equal(table.sites[1].depth, 2);
    assert_memory_equal(table.sites[2].frames, other, sizeof other);
}

/* More than one piece of memory holds, and more than the table begins with. */
static void test_sites_keep_their_numbers_as_the_table_grows(void **state)
{
    (void)state;
    enum { MANY = 5000, DEPTH = 10 };
    static struct site_table table;
    for (int turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < MANY; i++) {
            const void *frames[DEPTH];
            for (uint32_t j = 0; j < DEPTH; j++)
                frames[j] = return_address(i * (j + 1));
            assert_int_equal(site_table_site(&table, frames, DEPTH), i + 1);
            assert_memory_equal(table.sites[i].frames, frames, sizeof frames);
        }
    assert_int_equal(table.site_count, MANY);
}

static void test_an_address_that_is_handed_out_again_replaces_its_block(void **state)
{
    (void)state;
    static struct site_table table;
    static const char block[16];
    const void *one = return_address(1), *two = return_address(2);
    uint32_t first = site_table_site(&table, &one, 1), second = site_table_site(&table, &two, 1);
    assert_true(site_table_add(&table, first, block, 100, 1, 0));
    assert_false(site_table_add(&table, second, block, 50, 1, 0)); /* its free went unseen */
    assert_true(table.sites[0].live.bytes == 0 && table.sites[1].live.bytes == 50);
    assert_true(site_at_peak(&table, &table.sites[0]).bytes == 100);
    assert_true(site_at_peak(&table, &table.sites[1]).bytes == 0);
    assert_int_equal(table.block_count, 1);
}

static void test_a_sample_without_a_site_is_lost(void **state)
{
    (void)state;
    static struct site_table table;
    static const char block[16];
    assert_false(site_table_add(&table, 0, block, 100, 1, 0));
    assert_int_equal(table.lost, 1);
    assert_false(site_table_may_hold(&table, block));
    assert_true(site_table_remove(&table, block).hidden == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_knows_each_site_at_the_peak),
        cmocka_unit_test(test_a_failed_resize_is_undone),
        cmocka_unit_test(test_ends_are_counted_by_age_and_as_temporary),
        cmocka_unit_test(test_a_site_is_all_its_return_addresses),
        cmocka_unit_test(test_sites_keep_their_numbers_as_the_table_grows),
        cmocka_unit_test(test_an_address_that_is_handed_out_again_replaces_its_block),
        cmocka_unit_test(test_a_sample_without_a_site_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
