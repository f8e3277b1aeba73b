/* SPDX-License-Identifier: MIT
 *
 * test_number.c: numbers as text and back, and the keys of histograms.
 */
#include "tests/unit/unit.h"

#include <string.h>

#include "vm/histogram.h"
#include "vm/number.h"

static void assert_written(uint64_t number, unsigned base, size_t least_digits, const char *digits)
{
    char text[DECIMAL_BYTES + 1] = {0};
    assert_int_equal(write_number(text, number, base, least_digits), strlen(digits));
    assert_string_equal(text, digits);
}

static void test_numbers_are_written(void **state)
{
    (void)state;
    assert_written(0, 10, 1, "0");
    assert_written(9, 10, 1, "9");
    assert_written(10, 10, 1, "10");
    assert_written(7, 10, 2, "07");
    assert_written(123, 10, 2, "123");
    assert_written(UINT64_MAX, 10, 1, "18446744073709551615");
    assert_written(0, 16, 1, "0");
    assert_written(0x7fee0123abc0, 16, 1, "7fee0123abc0");
}

static void assert_read(bool (*read)(const char **at, uint64_t *number), const char *text,
                        bool expected, uint64_t expected_number, const char *rest)
{
    uint64_t number = 1;
    assert_int_equal(read(&text, &number), expected);
    if (expected)
        assert_int_equal(number, expected_number);
    assert_string_equal(text, rest);
}

static void test_decimal_numbers_are_read(void **state)
{
    uint64_t number = 1;
    const char *none = "max";
    (void)state;
    assert_read(read_decimal, "0", true, 0, "");
    assert_read(read_decimal, "0042 17", true, 42, " 17");
    assert_read(read_decimal, "18446744073709551615", true, UINT64_MAX, "");
    assert_read(read_decimal, "18446744073709551616,", false, 0, ",");
    assert_read(read_decimal, "99999999999999999999999999999", false, 0, "");
    assert_read(read_decimal, "", false, 0, "");
    assert_read(read_decimal, "-1", false, 0, "-1");
    assert_false(read_decimal(&none, &number));
    assert_int_equal(number, 0);
}

static void test_hexadecimal_numbers_are_read(void **state)
{
    (void)state;
    assert_read(read_hexadecimal, "7fee0123abc0-7fee", true, 0x7fee0123abc0, "-7fee");
    assert_read(read_hexadecimal, "ffffffffff600000 r", true, 0xffffffffff600000, " r");
    assert_read(read_hexadecimal, "10000000000000000", false, 0, "");
    assert_read(read_hexadecimal, "A", false, 0, "A");
    assert_read(read_hexadecimal, "", false, 0, "");
}

static void test_histogram_counts_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(histogram_bucket(0, 24), 0);
    assert_int_equal(histogram_bucket(1, 24), 0);
    assert_int_equal(histogram_bucket(2, 24), 1);
    assert_int_equal(histogram_bucket(1023, 24), 9);
    assert_int_equal(histogram_bucket(1024, 24), 10);
    assert_int_equal(histogram_bucket(UINT64_MAX, 24), 23);
}

static void test_histogram_keys_name_the_power(void **state)
{
    struct histogram_key key;
    (void)state;
    assert_string_equal(histogram_key(&key, "from_", 7, "_us"), "from_2^07_us");
    assert_string_equal(histogram_key(&key, "", 63, ""), "2^63");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_written),
        cmocka_unit_test(test_decimal_numbers_are_read),
        cmocka_unit_test(test_hexadecimal_numbers_are_read),
        cmocka_unit_test(test_histogram_counts_powers_of_two),
        cmocka_unit_test(test_histogram_keys_name_the_power),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
