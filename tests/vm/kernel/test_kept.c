/* SPDX-License-Identifier: MIT
 *
 * test_kept.c: a descriptor that the program knows nothing of, and may close or put its own in the
 * place of.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>

#include "vm/kernel/kept.h"

static void test_it_lies_high_and_is_not_inherited_by_programs(void **state)
{
    (void)state;
    struct kept kept = {.descriptor = -1};
    assert_true(kept_take(&kept, open("/dev/null", O_RDONLY)));
    assert_true(kept.descriptor >= 64);
    assert_int_equal(fcntl(kept.descriptor, F_GETFD), FD_CLOEXEC);
    assert_true(kept_is_open(&kept));
    kept_drop(&kept);
    assert_false(kept_is_open(&kept));
}

static void test_a_failed_call_is_not_kept(void **state)
{
    (void)state;
    struct kept kept = {.descriptor = -1};
    assert_false(kept_take(&kept, -2));
    assert_false(kept_is_open(&kept));
}

static void test_one_that_the_program_closed_is_noticed(void **state)
{
    (void)state;
    struct kept kept = {.descriptor = -1};
    assert_true(kept_take(&kept, open("/dev/null", O_RDONLY)));
    close(kept.descriptor);
    assert_false(kept_is_open(&kept));
}

static void test_the_programs_own_in_its_place_is_noticed_and_stays_open(void **state)
{
    (void)state;
    struct kept kept = {.descriptor = -1};
    assert_true(kept_take(&kept, open("/dev/null", O_RDONLY)));
    int place = kept.descriptor, other = open("/dev/zero", O_RDONLY);
    assert_int_equal(dup2(other, place), place);
    assert_false(kept_is_open(&kept));
    kept_drop(&kept);
    assert_true(fcntl(place, F_GETFD) >= 0);
    close(place);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_lies_high_and_is_not_inherited_by_programs),
        cmocka_unit_test(test_a_failed_call_is_not_kept),
        cmocka_unit_test(test_one_that_the_program_closed_is_noticed),
        cmocka_unit_test(test_the_programs_own_in_its_place_is_noticed_and_stays_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
