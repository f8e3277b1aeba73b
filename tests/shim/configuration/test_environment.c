/* SPDX-License-Identifier: MIT
 *
 * test_environment.c: variables and the program's name, with and without libc's `environ`.
 */
#include "shim/configuration/environment.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "tests/unit/unit.h"

static void test_a_variable_is_found_by_its_whole_name(void **state)
{
    (void)state;
    setenv("ALLOTROPE_TEST", "one", 1);
    setenv("ALLOTROPE_TEST_EMPTY", "", 1);
    setenv("ALLOTROPE_TEST_LONGER", "a=b", 1);
    unsetenv("ALLOTROPE_TES");
    assert_string_equal(environment_get("ALLOTROPE_TEST"), "one");
    assert_string_equal(environment_get("ALLOTROPE_TEST_EMPTY"), "");
    assert_string_equal(environment_get("ALLOTROPE_TEST_LONGER"), "a=b");
    assert_null(environment_get("ALLOTROPE_TES"));
    assert_null(environment_get("LLOTROPE_TEST"));
}

/* As at the first malloc of a process: ld.so has not run libc's constructors. The variables are
 * then those that the process was started with. */
static void test_the_environment_is_found_before_libc_is_ready(void **state)
{
    (void)state;
    const char *path = environment_get("PATH");
    if (!path)
        skip();
    char expected[4096];
    strncpy(expected, path, sizeof expected - 1);
    expected[sizeof expected - 1] = '\0';
    setenv("ALLOTROPE_TEST_LATER", "1", 1);
    char **kept = environ;
    environ = NULL;
    const char *found = environment_get("PATH");
    const char *later = environment_get("ALLOTROPE_TEST_LATER");
    environ = kept;
    assert_non_null(found);
    assert_int_equal(strncmp(found, expected, sizeof expected - 1), 0);
    assert_null(later);
}

static void test_the_program_has_a_path_and_a_name(void **state)
{
    (void)state;
    char expected[4096], path[4096], cut[8];
    ssize_t length = readlink("/proc/self/exe", expected, sizeof expected - 1);
    assert_true(length > 8);
    expected[length] = '\0';
    environment_program_path(path, sizeof path);
    assert_string_equal(path, expected);
    environment_program_path(cut, sizeof cut);
    assert_int_equal(strlen(cut), sizeof cut - 1);
    assert_memory_equal(cut, expected, sizeof cut - 1);
    const char *executed = (const char *)getauxval(AT_EXECFN);
    const char *slash = strrchr(executed, '/');
    assert_string_equal(environment_program(), slash ? slash + 1 : executed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_variable_is_found_by_its_whole_name),
        cmocka_unit_test(test_the_environment_is_found_before_libc_is_ready),
        cmocka_unit_test(test_the_program_has_a_path_and_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
