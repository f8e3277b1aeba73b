/* SPDX-License-Identifier: MIT
 *
 * test_number.c: numbers as text and back.
 */
#include "tests/unit/unit.h"

#include <string.h>

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

static bool read_unbounded(const char **at, uint64_t *number)
{
    return read_decimal(at, NULL, number);
}

static void test_decimal_numbers_are_read(void **state)
{
    uint64_t number = 1;
    const char *none = "max", *bounded = "1234", *end = bounded + 2;
    (void)state;
    assert_read(read_unbounded, "0", true, 0, "");
    assert_read(read_unbounded, "0042 17", true, 42, " 17");
    assert_read(read_unbounded, "18446744073709551615", true, UINT64_MAX, "");
    assert_read(read_unbounded, "18446744073709551616,", false, 0, ",");
    assert_read(read_unbounded, "99999999999999999999999999999", false, 0, "");
    assert_read(read_unbounded, "", false, 0, "");
    assert_read(read_unbounded, "-1", false, 0, "-1");
    assert_false(read_decimal(&none, NULL, &number));
    assert_int_equal(number, 0);
    assert_true(read_decimal(&bounded, end, &number));
    assert_int_equal(number, 12);
    assert_ptr_equal(bounded, end);
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

static void test_keys_of_powers(void **state)
{
    (void)state;
    char key[POWER_KEY_BYTES];
    assert_string_equal(write_power_key(key, "", 0, ""), "2^00");
    assert_string_equal(write_power_key(key, "from_", 7, "_us"), "from_2^07_us");
    assert_string_equal(write_power_key(key, "from_", 63, "_us"), "from_2^63_us");
}

static void assert_size(const char *text, uint64_t expected)
{
    uint64_t number = 5;
    assert_true(parse_size(text, strlen(text), &number));
    assert_int_equal(number, expected);
}

static void test_sizes_have_suffixes(void **state)
{
    (void)state;
    assert_size("0", 0);
    assert_size("0016", 16);
    assert_size("1K", 1 << 10);
    assert_size("20M", 20 << 20);
    assert_size("3G", UINT64_C(3) << 30);
    assert_size("18446744073709551615", UINT64_MAX);
    assert_size("17179869183G", UINT64_C(17179869183) << 30);
}

static void test_no_size_is_anything_else(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",
        "K",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1k",
        "1KB",
        "1KK",
        "0x10",
        "1.5",
        "18446744073709551616",
        "99999999999999999999999",
        "18446744073709551615K",
        "17179869184G",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        uint64_t number = 5;
        assert_false(parse_size(refused[i], strlen(refused[i]), &number));
        assert_int_equal(number, 5);
    }
    uint64_t number = 5;
    assert_true(parse_size("12KB", 3, &number)); /* the text ends with its length */
    assert_int_equal(number, 12 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_written),
        cmocka_unit_test(test_decimal_numbers_are_read),
        cmocka_unit_test(test_hexadecimal_numbers_are_read),
        cmocka_unit_test(test_keys_of_powers),
        cmocka_unit_test(test_sizes_have_suffixes),
        cmocka_unit_test(test_no_size_is_anything_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
