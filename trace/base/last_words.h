/* SPDX-License-Identifier: MIT
 *
 * last_words.h: the one line with which a program of the study wing ends where it cannot go on.
 */
#ifndef ALLOTROPE_TRACE_BASE_LAST_WORDS_H
#define ALLOTROPE_TRACE_BASE_LAST_WORDS_H

#include <stdarg.h>
#include <stdio.h>

/* program: what the line begins with. */
static inline __attribute__((format(printf, 2, 0))) void say_last_words(const char *program,
                                                                        const char *format,
                                                                        va_list arguments)
{
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

#endif
