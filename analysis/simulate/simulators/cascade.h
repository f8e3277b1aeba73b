/* SPDX-License-Identifier: MIT
 *
 * cascade.h: a cascade of filters, one for each number of sets, the coarsest first.
 *
 * A block that was the last one touched in its set among 2^k sets was so among 2^(k+1) too
 * (Hill and Smith's inclusion). So the touches of a batch run through the coarsest sets first,
 * and only those that found another block in front go on to the next finer sets. Each filter is
 * two loops without branches over a list that stays in the first-level cache, one that looks and
 * one that keeps:
 *
 *   touches --[32 sets]--> some --[64 sets]--> fewer --[128 sets]--> ... --[2^17 sets]
 *
 * What passes a filter missed in the direct-mapped cache of that many sets; for associativity
 * its place in the set's LRU stack is then looked up, sixteen entries at once, and the block
 * moved to the front. A set is one cache line:
 *
 *   recent[set]       | tag 31..5 | written 0 |           the block in front
 *   stacks[set][0]    | tag 31..5 | dirty level 4..0 |    the block in front again
 *   stacks[set][1...]  those behind it, most recent first
 *
 * A block's name has 32 bits: its number plus 32, so that no block has tag 0. That is enough for
 * all that a program touches under Valgrind; block_names.c gives names to blocks with larger
 * numbers. All blocks of a set share the low five bits, so a tag needs 27 and leaves five for the
 * dirty level. Where misses alone are counted, recent[set] holds the whole name.
 *
 * Dirty levels (Thompson and Smith): a block is dirty in the caches of more than L ways, for one
 * L. A store makes L 0. A touch at depth D (blocks in front of it) finds it gone from caches of D
 * ways or fewer; where it was dirty, that is for L < ways <= D, it was written back, and the
 * block is clean there now: L becomes max(L, D). A block that falls off the end leaves all caches,
 * as if touched at the greatest depth. So one count of the pair (L of the block taken out, D)
 * yields misses and write-backs of every associativity.
 *
 * A store that stops at a coarse filter is not seen by the finer ones. It need not be until
 * another block comes to the front there: that one passes on to the finer sets, and brings the
 * news that the displaced block was written ("displaced", beside each touch in the list). In the
 * finer sets too the displaced block still stands in front.
 *
 * All of it is inline: run_specialised() compiles it for each number of ways that a stack may hold,
 * with and without what is counted beside misses. caches_avx512.c has other steps for some of it.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CASCADE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CASCADE_H

#include <string.h>

#include "analysis/simulate/simulators/caches_state.h"
#include "analysis/simulate/simulators/dispatch.h"

INLINE uint32_t set_mask_of(unsigned level)
{
    return (COARSE_SETS << level) - 1;
}

/* A filter where misses alone are counted: puts each block in front of its set, and what stood
 * there before into `displaced`. The coarsest one takes the touches as they are. */
INLINE void touch_names(struct caches *caches, const struct level *level, uint32_t set_mask,
                        size_t count, unsigned lanes)
{
    uint32_t *names = caches->names;
    uint32_t *recent = level->recent;
    bool coarsest = set_mask == COARSE_SETS - 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t name = coarsest ? (uint32_t)caches->touches[i] + FIRST_NAME : names[i];
        uint32_t *front = &recent[name & set_mask];
        caches->displaced[i] = *front;
        *front = name;
        if (coarsest)
            names[i] = name;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)(name & set_mask) * lanes], 1);
    }
}

/* The same where everything is counted. */
INLINE void touch_all(struct caches *caches, const struct level *level, uint32_t set_mask,
                      size_t count, unsigned lanes)
{
    uint64_t *touches = caches->touches;
    uint32_t *displaced = caches->displaced;
    uint32_t *recent = level->recent;
    bool coarsest = set_mask == COARSE_SETS - 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = coarsest ? touches[i] + FIRST_NAME : touches[i];
        uint32_t name = (uint32_t)touch;
        uint32_t tag = name & TAG_MASK;
        if (coarsest) {
            touches[i] = touch;
        } else {
            uint32_t gone = displaced[i];
            uint32_t gone_set = ((gone & TAG_MASK) | (name & ~TAG_MASK)) & set_mask;
            recent[gone_set] |= gone & 1;
        }
        uint32_t *front = &recent[name & set_mask];
        uint32_t before = *front;
        bool same = ((before ^ tag) & TAG_MASK) == 0;
        *front = tag | touch_is_store(touch) | (same ? before & 1 : 0);
        displaced[i] = before;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)(name & set_mask) * lanes], 1);
    }
}

INLINE void touch_fronts(struct caches *caches, unsigned level, size_t count, bool everything,
                         unsigned lanes)
{
    if (everything)
        touch_all(caches, &caches->levels[level], set_mask_of(level), count, lanes);
    else
        touch_names(caches, &caches->levels[level], set_mask_of(level), count, lanes);
}

/* Keeps in the list what did not find its block in front. This is a pass of its own so that no
 * address in the pass before depends on what was found there. */
INLINE size_t keep_misses(struct caches *caches, size_t count, bool everything)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t before = caches->displaced[i];
        if (everything) {
            uint64_t touch = caches->touches[i];
            caches->touches[kept] = touch;
            caches->displaced[kept] = before;
            kept += ((before ^ (uint32_t)touch) & TAG_MASK) != 0;
        } else {
            uint32_t name = caches->names[i];
            caches->names[kept] = name;
            kept += before != name;
        }
    }
    return kept;
}

/* Counts misses and write-backs where there are no stacks. */
INLINE void count_direct_mapped(const struct caches *caches, struct level *level, size_t count,
                                bool everything)
{
    if (!everything) {
        level->outcomes[1] += count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        level->outcomes[touch_class(caches->touches[i]) * OUTCOMES + 1]++;
        level->displaced_written += caches->displaced[i] & 1;
    }
}

/* Counts where a touched block was found: at a depth, dirty from a level on. Returns its entry in
 * front. */
INLINE uint32_t count_outcome(struct level *level, uint64_t touch, uint32_t dirty, uint32_t depth,
                              bool everything)
{
    uint32_t tag = (uint32_t)touch & TAG_MASK;
    if (!everything) {
        level->outcomes[depth]++;
        return tag;
    }
    level->outcomes[touch_class(touch) * OUTCOMES + dirty * DEPTHS + depth]++;
    dirty = dirty > depth ? dirty : depth;
    return tag | (touch_is_store(touch) ? 0 : dirty);
}

/* Moves each touched block to the front of its set's stack and counts where it was found. */
INLINE void move_to_front(const struct caches *caches, struct level *level, uint32_t set_mask,
                          size_t count, bool everything, unsigned lanes)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *stack = &level->stacks[(size_t)(name & set_mask) * lanes];
        if (everything && (caches->displaced[i] & 1))
            stack[0] &= TAG_MASK;
        uint32_t tag = name & TAG_MASK;
        uint32_t depth = 1;
        while (depth < lanes && ((stack[depth] ^ tag) & TAG_MASK) != 0)
            depth++;
        uint32_t end = depth < lanes ? depth : lanes - 1;
        uint32_t dirty = stack[end] & ~TAG_MASK;
        memmove(stack + 1, stack, end * sizeof *stack);
        stack[0] = count_outcome(level, touch, dirty, depth, everything);
    }
}

/* One batch through all levels; `everything` and `lanes` are constants where this is inlined. */
INLINE void run_levels(struct caches *caches, size_t count, bool everything, unsigned lanes)
{
    for (unsigned i = 0; i < CACHES_LEVELS && count > 0; i++) {
        touch_fronts(caches, i, count, everything, lanes);
        count = keep_misses(caches, count, everything);
        if (lanes == 0)
            count_direct_mapped(caches, &caches->levels[i], count, everything);
        else
            move_to_front(caches, &caches->levels[i], set_mask_of(i), count, everything, lanes);
    }
}

/* Calls `run` with constants for `everything` and `lanes`: where this is inlined, `run` is compiled
 * for each pair of them. */
INLINE void run_specialised(struct caches *caches, size_t count,
                            void (*run)(struct caches *caches, size_t count, bool everything,
                                        unsigned lanes))
{
    switch (caches->lanes | (unsigned)caches->options.everything) {
    case 0:
        return run(caches, count, false, 0);
    case 1:
        return run(caches, count, true, 0);
    case 8:
        return run(caches, count, false, 8);
    case 9:
        return run(caches, count, true, 8);
    case 16:
        return run(caches, count, false, 16);
    default:
        return run(caches, count, true, 16);
    }
}

#endif
