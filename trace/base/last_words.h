/* SPDX-License-Identifier: MIT
 *
 * last_words.h: how a program of the study wing ends where it cannot go on: with one line.
 */
#ifndef ALLOTROPE_TRACE_BASE_LAST_WORDS_H
#define ALLOTROPE_TRACE_BASE_LAST_WORDS_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the process with this status. program: what the line begins with. */
static inline _Noreturn __attribute__((format(printf, 3, 0))) void end_with_line(
    int status, const char *program, const char *format, va_list arguments)
{
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    exit(status);
}

#endif
