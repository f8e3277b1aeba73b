/* SPDX-License-Identifier: MIT
 *
 * Sampling by bytes: the functions, and that estimates are unbiased; the table of sites held
 * against a model that copies everything at each peak.
 */
#include "shim/observers/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/observers/site_table.h"
#include "tests/unit/unit.h"

enum { TRIALS = 400 };

struct estimates {
    double sum, squares;
};

static void note_estimate(struct estimates *estimates, double estimate)
{
    estimates->sum += estimate;
    estimates->squares += estimate * estimate;
}

static double deviation(const struct estimates *estimates)
{
    double mean = estimates->sum / TRIALS;
    return sqrt(fmax(0, estimates->squares / TRIALS - mean * mean));
}

/* The mean of all estimates lies within 4 standard errors of the truth. */
static void assert_unbiased(const struct estimates *estimates, double truth)
{
    double error = deviation(estimates) / sqrt(TRIALS);
    assert_true(fabs(estimates->sum / TRIALS - truth) <= 4 * error + 1e-6 * truth);
}

/* What the allocation counts for in bytes. */
static double sample(struct sampling *sampling, uint64_t bytes, uint32_t rate, uint64_t *random)
{
    if (sampling_passes(sampling, bytes))
        return 0;
    return sampling_weight(sampling, bytes, rate, random) * (double)bytes;
}

/* Two million bytes in blocks of each size, at one rate or at many. */
static void test_estimates_are_unbiased(void **state)
{
    (void)state;
    enum { RATE = 4096, TOTAL = 2000000 };
    static const uint64_t sizes[] = {1, 100, 4096, 9000, 12288, 30000, 500000};
    uint64_t random = 88172645463325252U;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        uint64_t size = sizes[i / 2], blocks = (TOTAL + size - 1) / size;
        struct estimates estimates = {0};
        for (int trial = 0; trial < TRIALS; trial++) {
            struct sampling sampling = {0};
            double estimate = 0;
            for (uint64_t block = 0; block < blocks; block++) {
                uint32_t rate = i % 2 ? (uint32_t)(RATE << block * 977 / blocks % 5) : RATE;
                estimate += sample(&sampling, size, rate, &random);
            }
            note_estimate(&estimates, estimate);
        }
        assert_unbiased(&estimates, (double)(blocks * size));
    }
}

/* Of blocks of one size in turn with others, half of what is allocated, the estimate is closer
 * than independent draws would give it: their variance is 1 a sample, that of a byte in each
 * period at most 1/4 (half of the periods' draws are its own), and 0 of what fills all. */
static void test_estimates_are_closer_than_by_independent_draws(void **state)
{
    (void)state;
    enum { RATE = 1000, BLOCKS = 20000, SIZE = 48 };
    uint64_t random = 42;
    struct estimates half = {0}, all = {0};
    for (int trial = 0; trial < TRIALS; trial++) {
        struct sampling sampling = {0};
        double ours = 0, others = 0;
        for (int block = 0; block < BLOCKS; block++) {
            ours += sample(&sampling, SIZE, RATE, &random);
            others += sample(&sampling, SIZE, RATE, &random);
        }
        note_estimate(&half, ours);
        note_estimate(&all, ours + others);
    }
    double samples = (double)BLOCKS * SIZE / RATE; /* of one half */
    assert_unbiased(&half, (double)BLOCKS * SIZE);
    assert_true(deviation(&half) < 0.8 * RATE * sqrt(samples));
    assert_true(deviation(&all) <= RATE);
}

/* Of random rates some ten blocks in a million are further off, where a rate that coarsens passes
 * over a whole period more; with this seed none of them is. */
static void test_large_blocks_are_counted_but_for_their_ends(void **state)
{
    (void)state;
    uint64_t random = 2;
    struct sampling sampling = {0};
    for (int i = 0; i < 100000; i++) {
        uint32_t rate = 512 + (uint32_t)(random_next(&random) % 512);
        sample(&sampling, random_next(&random) % 3000, rate, &random);
        uint64_t large = random_next(&random) % 500000;
        double estimate = sample(&sampling, large, rate, &random);
        assert_true(fabs(estimate - (double)large) <= 2 * 1024);
    }
}

static void test_rate_one_samples_everything_once(void **state)
{
    (void)state;
    uint64_t random = 1;
    struct sampling sampling = {0};
    for (uint64_t bytes = 0; bytes < 1000; bytes++) {
        assert_false(sampling_passes(&sampling, bytes));
        assert_true(sampling_weight(&sampling, bytes, 1, &random) == 1);
    }
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
            const void *frames[] = {&places[site], &places[0]};
            uint64_t bytes = 1 + random_next(&random) % 1000;
            site_table_add(&table, site_table_site(&table, frames, 2), memory[i], bytes, 2);
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
    assert_true(site_table_add(&table, site_table_site(&table, frames, 1), block, 100, 1));
    struct sampled_block removed = site_table_remove(&table, block);
    assert_true(table.live_bytes == 0);
    site_table_restore(&table, &removed);
    assert_true(table.live_bytes == 100 && table.sites[0].total.bytes == 100);
    assert_true(site_table_remove(&table, block).hidden == ~(uintptr_t)block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates_are_unbiased),
        cmocka_unit_test(test_estimates_are_closer_than_by_independent_draws),
        cmocka_unit_test(test_large_blocks_are_counted_but_for_their_ends),
        cmocka_unit_test(test_rate_one_samples_everything_once),
        cmocka_unit_test(test_table_knows_each_site_at_the_peak),
        cmocka_unit_test(test_a_failed_resize_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
