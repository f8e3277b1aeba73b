/* SPDX-License-Identifier: MIT
 *
 * report_file.h: a file without a name that a test writes a report to and reads back.
 */
#ifndef ALLOTROPE_TESTS_SHIM_REPORTS_REPORT_FILE_H
#define ALLOTROPE_TESTS_SHIM_REPORTS_REPORT_FILE_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"

static inline int report_file_make(void)
{
    char name[] = "/tmp/allotrope-test-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    unlink(name);
    return file;
}

/* Its text, in storage of its own until the next call. Closes the file. */
static inline const char *report_file_text(int file)
{
    static char text[1 << 20];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    assert_true(length >= 0);
    text[length] = '\0';
    close(file);
    return text;
}

/* Opens a file that takes nothing: a full one, or one for reading only. Skips the test where there
 * is none. */
static inline int report_file_that_takes_nothing(bool is_full)
{
    int file = is_full ? open("/dev/full", O_WRONLY) : open("/proc/version", O_RDONLY);
    if (file < 0)
        skip();
    return file;
}

#endif
