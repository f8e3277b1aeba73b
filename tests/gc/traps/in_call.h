/* SPDX-License-Identifier: MIT
 *
 * in_call.h: in which system call another thread waits.
 */
#ifndef ALLOTROPE_TESTS_GC_TRAPS_IN_CALL_H
#define ALLOTROPE_TESTS_GC_TRAPS_IN_CALL_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Its number. -1: it waits in none, or has ended. */
static inline long call_of(pid_t thread)
{
    char path[64], text[8] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    bool is_read = read(file, text, sizeof text - 1) > 0;
    close(file);
    return is_read && text[0] != 'r' ? atol(text) : -1; /* running */
}

#endif
