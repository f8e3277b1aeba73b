/* SPDX-License-Identifier: MIT
 *
 * test_header_magic.c: a header word knows where it stands.
 */
#include "tests/unit/unit.h"

#include "alloc/policies/header_magic.h"

static uint64_t words[64];

static void test_what_is_written_is_read_back(void **state)
{
    (void)state;
    static const uint32_t values[] = {0, 1, 47, (1 << HEADER_VALUE_BITS) - 1};
    for (int i = 0; i < 4; i++) {
        uint64_t word = header_read(&words[i], header_word(&words[i], values[i], HEADER_LIVE));
        assert_int_equal(word >> 32, 0);
        assert_int_equal(word >> HEADER_VALUE_SHIFT, values[i]);
        assert_int_equal(word & 0xFF, HEADER_LIVE);
    }
}

static void test_a_copy_elsewhere_is_no_header(void **state)
{
    (void)state;
    uint64_t word = header_word(&words[0], 5, HEADER_LIVE);
    for (int i = 1; i < 64; i++)
        assert_int_not_equal(header_read(&words[i], word) >> 32, 0);
}

static void test_ordinary_data_is_no_header(void **state)
{
    (void)state;
    static const uint64_t data[] = {0, 1, UINT64_MAX, 0xA7, 0x7878787878787878};
    for (int i = 0; i < 5; i++)
        assert_int_not_equal(header_read(&words[0], data[i]) >> 32, 0);
    assert_int_not_equal(header_read(&words[0], (uintptr_t)&words[1]) >> 32, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_a_copy_elsewhere_is_no_header),
        cmocka_unit_test(test_ordinary_data_is_no_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
