/* SPDX-License-Identifier: MIT
 *
 * number.h: numbers on a command line.
 *
 * A whole number is decimal digits and nothing else: no sign, no space, no point. The C library's
 * functions take "-1" for 2^64 - 1, "x" for 0 and stop at what they do not know.
 */
#ifndef ALLOTROPE_TRACE_BASE_NUMBER_H
#define ALLOTROPE_TRACE_BASE_NUMBER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Reads the whole number that *text begins with and moves *text behind it; false where there is
 * none, or one that is too large. */
static inline bool number_read(const char **text, uint64_t *number)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0;
}

/* False when `text` is anything but a whole number from `least` to `most`. */
static inline bool number_parse(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    return number_read(&text, number) && !*text && *number >= least && *number <= most;
}

/* A range as "16-1024", or one number, which is both ends. On success *text is behind it. */
static inline bool number_read_range(const char **text, uint64_t *least, uint64_t *most)
{
    if (!number_read(text, least))
        return false;
    *most = *least;
    if (**text != '-')
        return true;
    ++*text;
    return number_read(text, most) && *most >= *least;
}

/* False when `text` is anything but a number, whole or not, above 0 and up to `most`. */
static inline bool number_parse_positive(const char *text, double most, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && *number > 0 && *number <= most;
}

#endif
