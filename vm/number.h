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
#include <string.h>

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

/* Reads the digits at *at, up to `end` or to a character that is no digit, and moves *at behind
 * them. end: NULL where such a character is sure to come. False: there is no digit, and *number is
 * 0; or the number is above UINT64_MAX. */
static inline bool read_decimal(const char **at, const char *end, uint64_t *number)
{
    const char *first = *at;
    bool fits = true;
    *number = 0;
    for (; *at != end && **at >= '0' && **at <= '9'; ++*at)
        fits = fits && !__builtin_mul_overflow(*number, 10, number) &&
               !__builtin_add_overflow(*number, (uint64_t)(**at - '0'), number);
    return fits && *at > first;
}

static inline unsigned hexadecimal_digit(char character)
{
    return character >= '0' && character <= '9'   ? (unsigned)(character - '0')
           : character >= 'a' && character <= 'f' ? (unsigned)(character - 'a') + 10
                                                  : 16;
}

/* Like read_decimal(), but in base 16, as the kernel writes it: in small letters, without "0x".
 * There is no `end`: a character that is no digit is sure to come. */
static inline bool read_hexadecimal(const char **at, uint64_t *number)
{
    const char *first = *at;
    bool fits = true;
    *number = 0;
    for (unsigned digit; (digit = hexadecimal_digit(**at)) < 16; ++*at) {
        fits = fits && *number <= UINT64_MAX >> 4;
        *number = *number << 4 | digit;
    }
    return fits && *at > first;
}

/* Reads a decimal number with K, M or G (powers of 1024) behind it or nothing. length: of the text.
 * False when the text is anything else, or the number is above UINT64_MAX; *number is then
 * unchanged. */
static inline bool parse_size(const char *text, size_t length, uint64_t *number)
{
    static const char suffixes[] = "KMG";
    const char *at = text, *end = text + length;
    uint64_t value;
    unsigned shift = 0;
    if (!read_decimal(&at, end, &value))
        return false;
    if (at + 1 == end) {
        const char *suffix = (const char *)memchr(suffixes, *at++, sizeof suffixes - 1);
        if (!suffix)
            return false;
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if (at != end || value > UINT64_MAX >> shift)
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
    char *end = stpcpy(stpcpy(key, before), "2^");
    end += write_number(end, exponent, 10, 2);
    stpcpy(end, behind);
    return key;
}

#endif
