/* SPDX-License-Identifier: MIT
 *
 * Sampling by bytes: the functions, and that estimates are unbiased; the table of sites held
 * against a model that copies everything at each peak.
 */
#include "shim/sampling.h"

#include <math.h>
#include <stdlib.h>

#include "shim/site_table.h"
#include "tests/unit.h"

static void test_logarithm_and_chance(void **state)
{
    (void)state;
    for (int i = 0; i < 96; i++) {
        double x = 1e-16 * pow(1.7, i);
        assert_true(fabs(natural_logarithm(x) - log(x)) <= 1e-9 * (1 + fabs(log(x))));
        assert_true(fabs(chance_of_any(x) + expm1(-x)) <= 1e-9 * -expm1(-x));
    }
    assert_true(chance_of_any(0) == 0);
}

/* Two million bytes in blocks of each size; the mean of 400 estimates lies within 4 standard
 * errors of the truth. */
static void test_estimates_are_unbiased(void **state)
{
    (void)state;
    enum { RATE = 4096, TOTAL = 2000000, TRIALS = 400 };
    static const uint64_t sizes[] = {1, 100, 4096, 30000, 500000};
    uint64_t random = 88172645463325252U;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t blocks = (TOTAL + sizes[i] - 1) / sizes[i];
        double truth = (double)(blocks * sizes[i]);
        double sum = 0, squares = 0;
        for (int trial = 0; trial < TRIALS; trial++) {
            double estimate = 0;
            uint64_t left = bytes_to_next_sample(RATE, &random);
            for (uint64_t done = 0; done < TOTAL; done += sizes[i]) {
                if (sizes[i] < left) {
                    left -= sizes[i];
                    continue;
                }
                estimate += sample_weight(sizes[i], RATE) * (double)sizes[i];
                left = bytes_to_next_sample(RATE, &random);
            }
            sum += estimate;
            squares += estimate * estimate;
        }
        double mean = sum / TRIALS;
        double error = sqrt((squares / TRIALS - mean * mean) / TRIALS);
        assert_true(fabs(mean - truth) <= 4 * error + 1e-6 * truth);
    }
}

static void test_rate_one_samples_everything_once(void **state)
{
    (void)state;
    uint64_t random = 1;
    assert_int_equal(bytes_to_next_sample(1, &random), 0);
    assert_true(sample_weight(0, 1) == 1 && sample_weight(1000, 1) == 1);
}

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
    static const char places[SITES], memory[BLOCKS][16];
    uint64_t random = 42;
    for (int step = 0; step < STEPS; step++) {
        size_t i = next_random(&random) % BLOCKS;
        /* The heap grows, shrinks and grows higher. */
        bool free_it = next_random(&random) % 100 < (step / 20000 % 2 ? 70U : 30U);
        if (live[i].bytes > 0) {
            if (!free_it)
                continue;
            assert_true(site_table_may_hold(&table, memory[i]));
            assert_true(site_table_remove(&table, memory[i]).hidden == ~(uintptr_t)memory[i]);
            note_in_model(&model, live[i].site, -live[i].bytes);
            live[i].bytes = 0;
        } else if (!free_it) {
            size_t site = next_random(&random) % SITES;
            const void *frames[] = {&places[site], &places[0]};
            uint64_t bytes = 1 + next_random(&random) % 1000;
            site_table_add(&table, memory[i], bytes, 2, frames, 2);
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
        size_t place = (size_t)((const char *)table.sites[i].frames[0] - places);
        assert_true(site_at_peak(&table, &table.sites[i]).bytes == model.peak[place]);
        assert_true(table.sites[i].live.bytes == model.live[place]);
    }
}

static void test_a_failed_resize_is_undone(void **state)
{
    (void)state;
    static struct site_table table;
    static const char block[16];
    const void *frames[] = {"caller"};
    assert_true(site_table_add(&table, block, 100, 1, frames, 1));
    struct sampled_block removed = site_table_remove(&table, block);
    assert_true(table.live_bytes == 0);
    site_table_restore(&table, &removed);
    assert_true(table.live_bytes == 100 && table.sites[0].total.bytes == 100);
    assert_true(site_table_remove(&table, block).hidden == ~(uintptr_t)block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logarithm_and_chance),
        cmocka_unit_test(test_estimates_are_unbiased),
        cmocka_unit_test(test_rate_one_samples_everything_once),
        cmocka_unit_test(test_table_knows_each_site_at_the_peak),
        cmocka_unit_test(test_a_failed_resize_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
