/* SPDX-License-Identifier: MIT
 *
 * decimal.h: numbers as text, without stdio.
 */
#ifndef ALLOTROPE_VM_DECIMAL_H
#define ALLOTROPE_VM_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_BYTES = 20 };

/* Writes at most DECIMAL_BYTES digits and nothing behind them; returns how many. */
static inline size_t write_decimal(char *text, uint64_t number)
{
    size_t length = 1;
    for (uint64_t left = number; left >= 10; left /= 10)
        length++;
    for (size_t i = length; i-- > 0; number /= 10)
        text[i] = (char)('0' + number % 10);
    return length;
}

#endif
