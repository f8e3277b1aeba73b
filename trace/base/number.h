/* SPDX-License-Identifier: MIT
 *
 * number.h: numbers on a command line.
 */
#ifndef ALLOTROPE_TRACE_BASE_NUMBER_H
#define ALLOTROPE_TRACE_BASE_NUMBER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* False when `text` is anything but a whole number from `least` to `most`, in decimal digits. */
static inline bool number_parse(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return end != text && !*end && !errno && *text != '-' && *number >= least && *number <= most;
}

#endif
