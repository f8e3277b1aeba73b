/* SPDX-License-Identifier: MIT
 *
 * test_histogram.c: buckets tile all numbers, and quantiles are at most a quarter too large.
 */
#include "shim/observers/histogram.h"

#include <stdlib.h>

#include "bench_programs/random.h"
#include "tests/unit/unit.h"

static void test_buckets_tile_all_numbers(void **state)
{
    (void)state;
    uint64_t begin = 0;
    for (unsigned bucket = 0; bucket <= bucket_of(UINT64_MAX); bucket++) {
        assert_int_equal(bucket_of(begin), bucket);
        assert_int_equal(bucket_of(bucket_end(bucket) - 1), bucket);
        assert_true(bucket_end(bucket) - begin <= (begin < 4 ? 1 : begin / 4));
        begin = bucket_end(bucket);
    }
    assert_int_equal(begin, 0); /* 2^64 */
    assert_true(bucket_of(UINT64_MAX) < HISTOGRAM_BUCKETS);
}

static void add(struct histogram *histogram, uint64_t value)
{
    histogram->counts[bucket_of(value)]++;
    histogram->total++;
    histogram->largest = value > histogram->largest ? value : histogram->largest;
}

static void test_a_quantile_is_the_end_of_its_bucket(void **state)
{
    (void)state;
    struct histogram histogram = {0};
    for (int i = 0; i < 90; i++)
        add(&histogram, 100); /* 96 to 111 */
    for (int i = 0; i < 10; i++)
        add(&histogram, 1000 + (uint64_t)i); /* 896 to 1023 */
    assert_int_equal(histogram_quantile(&histogram, 0.5), 112);
    assert_int_equal(histogram_quantile(&histogram, 0.9), 112);
    assert_int_equal(histogram_quantile(&histogram, 0.91), 1009); /* the largest */
    assert_int_equal(histogram_quantile(&histogram, 1), 1009);
}

static void test_an_empty_histogram_has_zero_quantiles(void **state)
{
    (void)state;
    static const struct histogram empty;
    assert_int_equal(histogram_quantile(&empty, 0.5), 0);
    assert_int_equal(histogram_quantile(&empty, 1), 0);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static void test_quantiles_of_random_values(void **state)
{
    (void)state;
    enum { VALUES = 10000 };
    static uint64_t values[VALUES];
    struct histogram histogram = {0};
    uint64_t random = 88172645463325252U;
    for (int i = 0; i < VALUES; i++) {
        values[i] = random_next(&random) >> (20 + random_next(&random) % 40);
        add(&histogram, values[i]);
    }
    qsort(values, VALUES, sizeof *values, compare);
    for (int percent = 1; percent <= 100; percent++) {
        uint64_t exact = values[percent * VALUES / 100 - 1];
        uint64_t read = histogram_quantile(&histogram, percent / 100.0);
        assert_true(read >= exact && read <= exact + exact / 4 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_tile_all_numbers),
        cmocka_unit_test(test_a_quantile_is_the_end_of_its_bucket),
        cmocka_unit_test(test_an_empty_histogram_has_zero_quantiles),
        cmocka_unit_test(test_quantiles_of_random_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
