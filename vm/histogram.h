/* SPDX-License-Identifier: MIT
 *
 * histogram.h: counts by powers of two, and the key that names such a bucket in a statistic.
 */
#ifndef ALLOTROPE_VM_HISTOGRAM_H
#define ALLOTROPE_VM_HISTOGRAM_H

#include <stdint.h>
#include <string.h>

#include "vm/number.h"

/* Bucket i counts the numbers in [2^i, 2^(i+1)). The first counts 0 as well, and the last counts
 * all that are larger. */
static inline unsigned histogram_bucket(uint64_t number, unsigned buckets)
{
    unsigned power = number > 0 ? 63 - (unsigned)__builtin_clzl(number) : 0;
    return power < buckets ? power : buckets - 1;
}

/* Room for a key. */
struct histogram_key {
    char text[32];
};

/* The key of a power of two between a prefix and a suffix: "from_" and "_us" make "from_2^07_us".
 * Two digits, so that keys sort as the powers do. */
static inline const char *histogram_key(struct histogram_key *key, const char *prefix,
                                        unsigned power, const char *suffix)
{
    size_t length = strlen(prefix), suffix_length = strlen(suffix);
    memcpy(key->text, prefix, length);
    memcpy(key->text + length, "2^", 2);
    length += 2;
    length += write_number(key->text + length, power, 10, 2);
    memcpy(key->text + length, suffix, suffix_length + 1);
    return key->text;
}

#endif
