/* SPDX-License-Identifier: MIT
 *
 * counts.h: rows of counts that grow, new ones being zero.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_COUNTS_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `index` in a row of *length counts, of which there are `first` at least. Returns
 * false when memory is short; the row is then unchanged. */
static inline bool counts_reach(uint64_t **counts, size_t *length, size_t first, size_t index)
{
    if (index < *length)
        return true;
    size_t longer = *length > 0 ? *length : first;
    while (longer <= index)
        longer *= 2;
    uint64_t *moved = realloc(*counts, longer * sizeof *moved);
    if (!moved)
        return false;
    memset(moved + *length, 0, (longer - *length) * sizeof *moved);
    *counts = moved;
    *length = longer;
    return true;
}

#endif
