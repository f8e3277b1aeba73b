/* SPDX-License-Identifier: MIT
 *
 * decay.c: see decay.h.
 */
#include "alloc/blocks/decay.h"

/* Time goes in ticks of 2^26 ns, fifteen a second. In a tick `recent`, `churn` and `discarded` lose
 * an eighth, `regret` an eightieth: after so many ticks there is nothing left to lose. */
enum { TICK_SHIFT = 26, TICKS_TO_FORGET = 1024, FAST = 8, SLOW = 80 };

/* So much may stay free and take memory however small the heap is: 2 MiB. */
enum { LEAST = 32 };

/* REGRET_WEIGHT: how many granules wider each regretted granule makes the wave. LARGEST_WAVE: how
 * many times WAVE_GRANULES the wave may be. */
enum { REGRET_WEIGHT = 4, LARGEST_WAVE = 4 };

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void decay_init(struct decay *decay, unsigned share_percent)
{
    *decay = (struct decay){.share_percent = share_percent, .least = LEAST};
}

void decay_take(struct decay *decay, size_t granules, size_t fresh)
{
    decay->recent -= smaller(decay->recent, granules);
    size_t missed = smaller(decay->discarded, fresh);
    decay->discarded -= missed;
    decay->regret += missed * REGRET_WEIGHT;
}

void decay_give(struct decay *decay, size_t granules)
{
    decay->churn += granules;
    decay->recent += granules;
}

void decay_discard(struct decay *decay, size_t granules)
{
    decay->discarded += granules;
}

/* Rounded so that it ends at nothing. */
static void lose(size_t *count, size_t part)
{
    *count -= (*count + part - 1) / part;
}

void decay_until(struct decay *decay, uint64_t now_ns)
{
    uint64_t now = now_ns >> TICK_SHIFT;
    uint64_t ticks = now > decay->ticks ? now - decay->ticks : 0;
    if (decay->ticks == 0 || ticks > TICKS_TO_FORGET)
        ticks = decay->ticks == 0 ? 0 : TICKS_TO_FORGET;
    if (now > decay->ticks)
        decay->ticks = now;
    for (; ticks > 0; ticks--) {
        lose(&decay->recent, FAST);
        lose(&decay->churn, FAST);
        lose(&decay->discarded, FAST);
        lose(&decay->regret, SLOW);
    }
}

/* recent / (1 + (recent / wave)^2). No more than 2^24 granules are ever free, so the product
 * fits. */
static size_t part_of_wave(const struct decay *decay)
{
    size_t recent = decay->recent;
    size_t wave = smaller(WAVE_GRANULES + decay->regret, LARGEST_WAVE * WAVE_GRANULES);
    return recent - recent * (recent * recent / wave) / (wave + recent * recent / wave);
}

size_t decay_bound(const struct decay *decay, size_t used)
{
    size_t plain = used * decay->share_percent / 100;
    size_t share = larger(plain, smaller(plain + decay->regret, used));
    return larger(larger(smaller(share, decay->churn), part_of_wave(decay)),
                  larger(decay->least, decay->asked));
}
