/* SPDX-License-Identifier: MIT
 *
 * decimal.h: numbers to text and back, without stdio.
 */
#ifndef ALLOTROPE_VM_DECIMAL_H
#define ALLOTROPE_VM_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* Reads decimal digits, with K, M or G (powers of 1024) behind them or nothing. False when the
 * text is anything else, or the number has more than 64 bits; *number is then unchanged. */
static inline bool parse_size(const char *text, size_t length, uint64_t *number)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[digits] - '0'), &value))
            return false;
    unsigned shift = 0;
    if (digits + 1 == length) {
        static const char suffixes[] = "KMG";
        const char *suffix = (const char *)memchr(suffixes, text[digits], 3);
        if (!suffix)
            return false;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if (digits == 0 || digits + (shift > 0) != length || value > UINT64_MAX >> shift)
        return false;
    *number = value << shift;
    return true;
}

/* Room for the key of a bucket in a histogram of powers of two. */
enum { POWER_KEY_BYTES = 24 };

/* Writes the key of a report's bucket: `before`, then 2^NN, then `behind`; write_power_key(key,
 * "from_", 7, "_us") gives "from_2^07_us". The exponent has two digits, so that keys sort by it.
 * exponent: 0 to 99; the whole fits in POWER_KEY_BYTES. Returns `key`. */
static inline const char *write_power_key(char *key, const char *before, unsigned exponent,
                                          const char *behind)
{
    char *end = stpcpy(key, before);
    *end++ = '2';
    *end++ = '^';
    *end++ = (char)('0' + exponent / 10);
    *end++ = (char)('0' + exponent % 10);
    stpcpy(end, behind);
    return key;
}

#endif
