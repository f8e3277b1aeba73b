/* SPDX-License-Identifier: MIT
 *
 * number.h: numbers as text and back, without stdio. The one place of the native wing that turns
 * digits into numbers and numbers into digits.
 */
#ifndef ALLOTROPE_VM_NUMBER_H
#define ALLOTROPE_VM_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_BYTES = 20 }; /* digits of UINT64_MAX */

/* Writes at most DECIMAL_BYTES digits in a base from 10 to 16, and nothing behind them. Returns how
 * many. least_digits: the number is filled up with zeros to so many. */
static inline size_t write_number(char *text, uint64_t number, unsigned base, size_t least_digits)
{
    size_t length = 1;
    for (uint64_t left = number; left >= base; left /= base)
        length++;
    if (length < least_digits)
        length = least_digits;
    for (size_t i = length; i-- > 0; number /= base)
        text[i] = "0123456789abcdef"[number % base];
    return length;
}

static inline size_t write_decimal(char *text, uint64_t number)
{
    return write_number(text, number, 10, 1);
}

/* Reads the digits at *at, which a character ends that is no digit, and moves *at behind them.
 * False: there is no digit, and *number is 0; or the number is above UINT64_MAX. */
static inline bool read_decimal(const char **at, uint64_t *number)
{
    const char *first = *at;
    bool fits = true;
    *number = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        fits = fits && !__builtin_mul_overflow(*number, 10, number) &&
               !__builtin_add_overflow(*number, (uint64_t)(**at - '0'), number);
    return fits && *at > first;
}

/* The same in base 16, as the kernel writes it: in small letters, without "0x". */
static inline bool read_hexadecimal(const char **at, uint64_t *number)
{
    const char *first = *at;
    bool fits = true;
    *number = 0;
    for (;; ++*at) {
        unsigned digit;
        if (**at >= '0' && **at <= '9')
            digit = (unsigned)(**at - '0');
        else if (**at >= 'a' && **at <= 'f')
            digit = (unsigned)(**at - 'a') + 10;
        else
            return fits && *at > first;
        fits = fits && *number <= UINT64_MAX >> 4;
        *number = *number << 4 | digit;
    }
}

#endif
