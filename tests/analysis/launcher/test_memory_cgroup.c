/* SPDX-License-Identifier: MIT
 *
 * test_memory_cgroup.c: what the launcher reads in the kernel's lines and in the files of a cgroup,
 * for which a folder of the test's own stands.
 */
#include <string.h>

#include "tests/unit/own_directory.h"
#include "tests/unit/unit.h"

/* Included, not linked: its readers are its own. */
#include "analysis/launcher/memory_cgroup.c"

/* Puts the text into a file of the folder. NULL: there is no such file. */
static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    assert_true(join_path(path, directory, name));
    unlink(path);
    FILE *file = text ? fopen(path, "w") : NULL;
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static int empty_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"cgroup.subtree_control",
                                        "cpu.max",
                                        "io.max",
                                        "memory.high",
                                        "memory.max",
                                        "memory.peak",
                                        "pids.max",
                                        "lines"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put(names[i], NULL);
    return 0;
}

static bool find_in(const char *lines, line_reader *take, char *into)
{
    char path[PATH_MAX];
    put("lines", lines);
    assert_true(join_path(path, directory, "lines"));
    return find_line(path, take, into);
}

static void test_the_mount_is_the_fifth_field_of_the_line_of_cgroup2(void **state)
{
    (void)state;
    char mount[PATH_MAX];
    assert_true(find_in("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                        "30 22 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                        "31 22 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"
                        "32 22 0:28 / /other rw - cgroup2 cgroup2 rw\n",
                        take_mount, mount));
    assert_string_equal(mount, "/sys/fs/cgroup");
    assert_false(find_in("30 22 0:26 / /cgroup2 rw - cgroup cgroup rw,cpu\n", take_mount, mount));
    assert_false(find_in(NULL, take_mount, mount));
}

static void test_the_own_cgroup_is_that_of_hierarchy_0(void **state)
{
    (void)state;
    char path[PATH_MAX];
    assert_true(find_in("10::/wrong\n1:name=systemd:/wrong\n0::/user.slice/a.scope\n",
                        take_own_path, path));
    assert_string_equal(path, "/user.slice/a.scope");
    assert_true(find_in("0::/\n", take_own_path, path));
    assert_string_equal(path, "/");
    assert_false(find_in("4:memory:/user.slice\n", take_own_path, path));
}

static void test_memory_is_handed_out_where_its_controller_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool expected;
    } cases[] = {{NULL, false},
                 {"", false},
                 {"\n", false},
                 {"cpu io\n", false},
                 {"memoryless\n", false},
                 {"memory\n", true},
                 {"cpu memory pids\n", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("cgroup.subtree_control", cases[i].text);
        assert_int_equal(hands_out_memory(directory), cases[i].expected);
    }
}

static void test_a_limit_is_set_by_anything_but_max(void **state)
{
    (void)state;
    assert_false(sets_shared_limit(directory));
    put("cpu.max", "max 100000\n");
    put("io.max", "\n");
    put("memory.high", "max\n");
    assert_false(sets_shared_limit(directory));
    put("pids.max", "100\n"); /* which is not of that kind */
    assert_false(sets_shared_limit(directory));
    put("cpu.max", "50000 100000\n");
    assert_true(sets_shared_limit(directory));
    put("cpu.max", NULL);
    put("memory.max", "1073741824\n");
    assert_true(sets_shared_limit(directory));
}

static void test_the_smallest_limit_of_tasks_counts(void **state)
{
    (void)state;
    assert_int_equal(smaller_task_limit(directory, 500), 500);
    put("pids.max", "max\n");
    assert_int_equal(smaller_task_limit(directory, 500), 500);
    put("pids.max", "100\n");
    assert_int_equal(smaller_task_limit(directory, 500), 100);
    assert_int_equal(smaller_task_limit(directory, 50), 50);
}

static void test_a_limit_of_tasks_goes_into_the_runs_own_cgroup(void **state)
{
    (void)state;
    assert_true(limit_tasks(directory, LLONG_MAX)); /* there is none */
    assert_false(limit_tasks(directory, 100));      /* nor is there a file for it */
    put("pids.max", "max");
    assert_true(limit_tasks(directory, 100));
    assert_int_equal(smaller_task_limit(directory, 500), 100);
}

static void test_the_peak_is_read_from_its_file(void **state)
{
    (void)state;
    struct memory_cgroup cgroup;
    snprintf(cgroup.path, sizeof cgroup.path, "%s", directory);
    assert_int_equal(memory_cgroup_peak(&cgroup), -1);
    put("memory.peak", "5368709120\n");
    assert_int_equal(memory_cgroup_peak(&cgroup), 5368709120);
}

static void test_a_path_that_is_too_long_is_none(void **state)
{
    (void)state;
    static char folder[PATH_MAX], path[PATH_MAX];
    memset(folder, 'x', PATH_MAX - 3);
    assert_true(join_path(path, folder, "a"));
    assert_int_equal(strlen(path), PATH_MAX - 1);
    assert_false(join_path(path, folder, "ab"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_the_mount_is_the_fifth_field_of_the_line_of_cgroup2,
                               empty_directory),
        cmocka_unit_test_setup(test_the_own_cgroup_is_that_of_hierarchy_0, empty_directory),
        cmocka_unit_test_setup(test_memory_is_handed_out_where_its_controller_is_named,
                               empty_directory),
        cmocka_unit_test_setup(test_a_limit_is_set_by_anything_but_max, empty_directory),
        cmocka_unit_test_setup(test_the_smallest_limit_of_tasks_counts, empty_directory),
        cmocka_unit_test_setup(test_a_limit_of_tasks_goes_into_the_runs_own_cgroup,
                               empty_directory),
        cmocka_unit_test_setup(test_the_peak_is_read_from_its_file, empty_directory),
        cmocka_unit_test_setup(test_a_path_that_is_too_long_is_none, empty_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
