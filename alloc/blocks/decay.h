/* SPDX-License-Identifier: MIT
 *
 * decay.h: how much free memory a heap keeps with its contents.
 *
 * What is free and keeps its contents (*dirty*) costs memory; what was given back costs faults when
 * it is taken again. Four counts, all in granules, tell which is likely:
 *
 *     recent      in use not long ago and not now. To keep that much never raises the peak.
 *     churn       freed not long ago. A heap whose use is steady has holes that do not fit. It may
 *                 keep a share of what is in use, but no more than it moves. The more it regrets,
 *                 the larger is the share.
 *     discarded   contents given to the kernel not long ago, and not missed yet
 *     regret      taken again soon after they were discarded, each counted four times
 *
 *     bound = max(least, asked, part of recent, min(share, churn))
 *     share = a percentage of what is in use, and regret, but no more than what is in use
 *     part of recent = recent / (1 + (recent / wave)^2)
 *     wave  = 64 MiB + regret, at most 256 MiB
 *
 * All decay with time, recent by half in 0.3 s and to nothing in 5 s, regret ten times as slowly.
 * But time passes unseen in a program that frees its heap and then waits: there is no thread to
 * look at a clock. So the more is recent, the smaller the part that stays: of 10 MiB all, of 64 MiB
 * half, of 1 GiB 4 MiB. A program that goes on to take it again has shown that it works in waves.
 * Regret says so, and makes the wave larger: the next time its memory stays. Should the program
 * then free its heap and never move a run again, half of 256 MiB is the most that it keeps for
 * good.
 *
 * No lock, no clock: whoever has the counts brings the time.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_DECAY_H
#define ALLOTROPE_ALLOC_BLOCKS_DECAY_H

#include <stddef.h>
#include <stdint.h>

/* The wave without regret, 64 MiB. When so many granules were freed not long ago, half of them stay
 * for the moment. */
enum { WAVE_GRANULES = 1024 };

struct decay {
    size_t recent, churn, discarded, regret;
    uint64_t ticks;         /* up to when they have decayed */
    unsigned share_percent; /* of what is in use */
    size_t least;           /* granules that may be kept in any case */
    size_t asked;           /* those too, by the program's own wish */
};

void decay_init(struct decay *decay, unsigned share_percent);

/* `granules` come into use; `fresh` of them had no contents. */
void decay_take(struct decay *decay, size_t granules, size_t fresh);

/* `granules` are no more in use. */
void decay_give(struct decay *decay, size_t granules);

/* The contents of so many have been given back to the kernel. */
void decay_discard(struct decay *decay, size_t granules);

/* Lets the counts decay up to now_ns: nanoseconds of a clock that only goes forward, 0 if there is
 * none. */
void decay_until(struct decay *decay, uint64_t now_ns);

/* How many dirty granules may stay while `used` are in use. */
size_t decay_bound(const struct decay *decay, size_t used);

#endif
