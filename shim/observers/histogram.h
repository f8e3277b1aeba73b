/* SPDX-License-Identifier: MIT
 *
 * histogram.h: how many values fell into which range, four ranges (buckets) to a power of two.
 *
 *   bucket    0  1  2  3   4  5  6  7     8 ..  9 ..     10 ..    11 ..      12 ..
 *   values    0  1  2  3   4  5  6  7     8 9   10 11    12 13    14 15      16 17 18 19
 *
 * A figure that is read from it is the end of a bucket. So it is at most a quarter too large; from
 * values below 4, too large by one.
 *
 * Source: the log-linear buckets of G. Tene's HdrHistogram, with two bits of precision.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_HISTOGRAM_H
#define ALLOTROPE_SHIM_OBSERVERS_HISTOGRAM_H

#include <stdint.h>

/* 2^64 - 1 falls into bucket 251; the last four buckets stay empty. */
enum { HISTOGRAM_BUCKETS = 256 };

/* All zero is an empty one. */
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;   /* of the counts */
    uint64_t largest; /* value */
};

static inline unsigned bucket_of(uint64_t value)
{
    if (value < 4)
        return (unsigned)value;
    unsigned power = 63 - (unsigned)__builtin_clzll(value);
    return 4 * (power - 1) + (unsigned)(value >> (power - 2) & 3);
}

/* The smallest value of the next bucket. It has no meaning from bucket 251 on: 2^64 or more. */
static inline uint64_t bucket_end(unsigned bucket)
{
    if (bucket < 4)
        return bucket + 1;
    unsigned power = bucket / 4 + 1;
    return (uint64_t)(bucket % 4 + 5) << (power - 2);
}

/* What `share` of all values (0.5: the median) are not above: the end of the bucket that this value
 * lies in, or the largest value if that is smaller. */
static inline uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
    uint64_t before = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        before += histogram->counts[bucket];
        if ((double)before >= share * (double)histogram->total) {
            uint64_t end = bucket_end(bucket);
            return end < histogram->largest ? end : histogram->largest;
        }
    }
    return histogram->largest;
}

#endif
