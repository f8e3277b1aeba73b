/* SPDX-License-Identifier: MIT
 *
 * write_all.h: writes all bytes to a file or a pipe, however many calls that takes; and has what
 * cannot be written told as an error instead of by a signal.
 */
#ifndef ALLOTROPE_TRACE_BASE_WRITE_ALL_H
#define ALLOTROPE_TRACE_BASE_WRITE_ALL_H

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

/* Returns 0 when all is written, or -1 with errno. */
static inline int write_all(int fd, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t written = write(fd, next, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        next += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static inline void write_take_signal(int number)
{
    (void)number;
}

/* A pipe without a reader is EPIPE, and too large a file EFBIG. By a handler, since what is ignored
 * stays so in the program that is started. */
static inline void write_without_signals(void)
{
    const int signals[] = {SIGPIPE, SIGXFSZ};
    struct sigaction action = {.sa_handler = write_take_signal, .sa_flags = SA_RESTART}, before;
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
}

#endif
