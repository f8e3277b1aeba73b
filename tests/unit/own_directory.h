/* SPDX-License-Identifier: MIT
 *
 * own_directory.h: a directory of a test's own, made before its first case and removed with its
 * files after the last: cmocka_run_group_tests(tests, make_directory, remove_directory).
 */
#ifndef ALLOTROPE_TESTS_UNIT_OWN_DIRECTORY_H
#define ALLOTROPE_TESTS_UNIT_OWN_DIRECTORY_H

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char directory[] = "/tmp/allotrope-test-XXXXXX";

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    DIR *files = opendir(directory);
    const struct dirent *file;
    while (files && (file = readdir(files)))
        unlinkat(dirfd(files), file->d_name, 0);
    if (files)
        closedir(files);
    return rmdir(directory);
}

#endif
