/* SPDX-License-Identifier: MIT
 *
 * test_decimal.c: numbers to text and back.
 */
#include "vm/decimal.h"

#include "tests/unit/unit.h"

static void test_digits_and_nothing_behind_them(void **state)
{
    (void)state;
    char text[DECIMAL_BYTES + 1];
    memset(text, '#', sizeof text);
    assert_int_equal(write_decimal(text, 0), 1);
    assert_memory_equal(text, "0#", 2);
    assert_int_equal(write_decimal(text, 1090), 4);
    assert_memory_equal(text, "1090#", 5);
    assert_int_equal(write_decimal(text, UINT64_MAX), DECIMAL_BYTES);
    assert_memory_equal(text, "18446744073709551615#", DECIMAL_BYTES + 1);
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

static void test_anything_else_is_refused(void **state)
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

static void test_keys_of_powers(void **state)
{
    (void)state;
    char key[POWER_KEY_BYTES];
    assert_string_equal(write_power_key(key, "", 0, ""), "2^00");
    assert_string_equal(write_power_key(key, "from_", 7, "_us"), "from_2^07_us");
    assert_string_equal(write_power_key(key, "from_", 63, "_us"), "from_2^63_us");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_and_nothing_behind_them),
        cmocka_unit_test(test_sizes_have_suffixes),
        cmocka_unit_test(test_anything_else_is_refused),
        cmocka_unit_test(test_keys_of_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
