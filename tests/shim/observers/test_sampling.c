/* SPDX-License-Identifier: MIT
 *
 * test_sampling.c: sampling by bytes: the functions, and that estimates are unbiased.
 */
#include "shim/observers/sampling.h"

#include <math.h>

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

enum { RATE_UNBIASED = 4096, TOTAL = 2000000, CHANGES = 977 };

/* What blocks of one size are estimated at in bytes, at one rate, or at five by turns. */
static double estimate_blocks(uint64_t size, uint64_t blocks, bool at_many, uint64_t *random)
{
    struct sampling sampling = {0};
    double estimate = 0;
    uint64_t block = 0;
    for (uint64_t change = 0; change < CHANGES; change++) {
        uint32_t rate = (uint32_t)RATE_UNBIASED << (at_many ? change % 5 : 0);
        for (; block * CHANGES < (change + 1) * blocks; block++)
            estimate += sample(&sampling, size, rate, random);
    }
    return estimate;
}

/* Two million bytes in blocks of each size, at one rate or at many. */
static void test_estimates_are_unbiased(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 100, 4096, 9000, 12288, 30000, 500000};
    uint64_t random = 88172645463325252U;
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        uint64_t size = sizes[i / 2], blocks = (TOTAL + size - 1) / size;
        struct estimates estimates = {0};
        for (int trial = 0; trial < TRIALS; trial++)
            note_estimate(&estimates, estimate_blocks(size, blocks, i % 2, &random));
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

/* Where the rate coarsens, a whole period more may be passed over: with random rates some ten
 * blocks in a million are further off. */
static void test_large_blocks_are_counted_but_for_their_ends(void **state)
{
    (void)state;
    uint64_t random = 2;
    int further_off = 0;
    struct sampling sampling = {0};
    for (int i = 0; i < 100000; i++) {
        uint32_t rate = 512 + (uint32_t)(random_next(&random) % 512);
        sample(&sampling, random_next(&random) % 3000, rate, &random);
        uint64_t large = random_next(&random) % 500000;
        double estimate = sample(&sampling, large, rate, &random);
        further_off += fabs(estimate - (double)large) > 2 * 1024;
    }
    assert_in_range(further_off, 0, 10);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_estimates_are_unbiased),
        cmocka_unit_test(test_estimates_are_closer_than_by_independent_draws),
        cmocka_unit_test(test_large_blocks_are_counted_but_for_their_ends),
        cmocka_unit_test(test_rate_one_samples_everything_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
