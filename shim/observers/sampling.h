/* SPDX-License-Identifier: MIT
 *
 * sampling.h: which allocations are looked at, and for how many each of them stands.
 *
 * The bytes that a program allocates are counted off in periods, and in each period one byte is
 * drawn; the allocation that it falls into is sampled and stands for all the bytes of the period.
 * So every sum over samples is an unbiased estimate of the sum over all allocations, and a better
 * one than from independent draws: a kind of allocation that fills the periods alone is counted
 * without any error, and so is a large one but for its ends.
 *
 *   | .....x.... | .x........ | ........x. |      x: the byte drawn; from one to the next: `left`
 *
 * A period's length, the rate, may change at any time, as long as it does not depend on draws to
 * come. `random` is a sequence of vm/random.h.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_SAMPLING_H
#define ALLOTROPE_SHIM_OBSERVERS_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

#include "vm/random.h"

/* The sampling of one thread. All zero: not begun. */
struct sampling {
    uint32_t left; /* bytes to the one drawn, that one counted */
    uint32_t rest; /* bytes behind it in its period */
    uint32_t rate; /* bytes that it stands for; 0: not begun */
};

enum { COARSEST_RATE = 1 << 30 };

/* Draws a byte of the next period. */
static inline void sampling_draw(struct sampling *sampling, uint32_t rate, uint64_t *random)
{
    uint32_t drawn = random_reduce(random_draw(random), rate);
    sampling->left += sampling->rest + drawn + 1;
    sampling->rest = rate - drawn - 1;
    sampling->rate = rate;
}

/* Goes over to longer periods. With the chance old rate / new rate the byte that was drawn remains,
 * and stands for `rate` bytes; otherwise another is drawn. So the estimates stay unbiased. */
static inline void sampling_coarsen(struct sampling *sampling, uint32_t rate, uint64_t *random)
{
    if (random_reduce(random_draw(random), rate) < sampling->rate)
        sampling->rate = rate;
    else
        sampling_draw(sampling, rate, random);
}

/* Counts off an allocation; false: it may be sampled, and sampling_weight() is to be asked. */
static inline bool sampling_passes(struct sampling *sampling, uint64_t bytes)
{
    if (__builtin_expect(bytes >= sampling->left, 0))
        return false;
    sampling->left -= (uint32_t)bytes;
    return true;
}

/* For how many allocations of its size this one stands; 0: it is not sampled. rate: what the
 * periods shall be. Rate 1 samples all. */
static inline double sampling_weight(struct sampling *sampling, uint64_t bytes, uint32_t rate,
                                     uint64_t *random)
{
    if (rate <= 1)
        return 1;
    if (sampling->rate == 0)
        sampling_draw(sampling, rate, random);
    else if (sampling->rate < rate)
        sampling_coarsen(sampling, rate, random);
    uint64_t stands_for = 0, behind = bytes;
    while (behind >= sampling->left) {
        behind -= sampling->left;
        stands_for += sampling->rate;
        if (behind >= sampling->rest) { /* whole periods have a byte drawn, whichever it is */
            uint64_t whole = (behind - sampling->rest) / rate * rate;
            behind -= whole;
            stands_for += whole;
        }
        sampling->left = 0;
        sampling_draw(sampling, rate, random);
    }
    sampling->left -= (uint32_t)behind;
    return stands_for ? (double)stands_for / (double)bytes : 0;
}

#endif
