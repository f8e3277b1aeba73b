/* SPDX-License-Identifier: MIT
 *
 * array.h: arrays that grow by doubling.
 */
#ifndef ALLOTROPE_TRACE_BASE_ARRAY_H
#define ALLOTROPE_TRACE_BASE_ARRAY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for an element of index `count`; new elements are zero.
 * array: the address of the array's pointer. Returns false when memory is short; the array is then
 * unchanged. */
static inline bool array_reserve(void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    if (count < *capacity)
        return true;
    size_t larger = *capacity ? *capacity * 2 : 64;
    while (larger <= count)
        larger *= 2;
    void **where = array;
    char *moved = reallocarray(*where, larger, element_bytes);
    if (!moved)
        return false;
    memset(moved + *capacity * element_bytes, 0, (larger - *capacity) * element_bytes);
    *where = moved;
    *capacity = larger;
    return true;
}

#endif
