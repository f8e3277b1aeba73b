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
 * numbers. Where the coarsest caches have 2^k sets, fewer than 32, the number is shifted left by
 * 5 - k first, so that in any case all blocks of a set share the low five bits of their names. A
 * tag thus needs 27 bits and leaves five for the dirty level. Where misses alone are counted,
 * recent[set] holds the whole name.
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
 * with and without what is counted beside misses, with and without a shift. caches_avx512.c has
 * other steps for some of it.
 */
#ifndef ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CASCADE_H
#define ALLOTROPE_ANALYSIS_SIMULATE_SIMULATORS_CASCADE_H

#include <string.h>

#include "analysis/simulate/simulators/caches_state.h"
#include "analysis/simulate/simulators/dispatch.h"

/* How a level finds the set of a name. */
struct indexing {
    uint32_t mask;
    unsigned shift;
    bool coarsest;
};

INLINE struct indexing indexing_of(const struct caches *caches, unsigned level, unsigned shift)
{
    return (struct indexing){
        .mask = (uint32_t)caches_sets(caches, level) - 1,
        .shift = shift,
        .coarsest = level == 0,
    };
}

INLINE uint32_t set_of(uint32_t name, struct indexing indexing)
{
    return name >> indexing.shift & indexing.mask;
}

/* A filter where misses alone are counted: puts each block in front of its set, and what stood
 * there before into `displaced`. The coarsest one takes the touches as they are. */
INLINE void touch_names(struct caches *caches, const struct level *level, struct indexing indexing,
                        size_t count, unsigned lanes)
{
    uint32_t *names = caches->names;
    uint32_t *recent = level->recent;
    bool coarsest = indexing.coarsest;
    for (size_t i = 0; i < count; i++) {
        uint32_t name = coarsest ? (uint32_t)caches->touches[i] + FIRST_NAME : names[i];
        uint32_t *front = &recent[set_of(name, indexing)];
        caches->displaced[i] = *front;
        *front = name;
        if (coarsest)
            names[i] = name;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)set_of(name, indexing) * lanes], 1);
    }
}

/* Like touch_names(), but where everything is counted: a set's entry also says whether its block
 * was written. */
INLINE void touch_all(struct caches *caches, const struct level *level, struct indexing indexing,
                      size_t count, unsigned lanes)
{
    uint64_t *touches = caches->touches;
    uint32_t *displaced = caches->displaced;
    uint32_t *recent = level->recent;
    bool coarsest = indexing.coarsest;
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = coarsest ? touches[i] + FIRST_NAME : touches[i];
        uint32_t name = (uint32_t)touch;
        uint32_t tag = name & TAG_MASK;
        if (coarsest) {
            touches[i] = touch;
        } else {
            uint32_t gone = displaced[i];
            uint32_t gone_set = set_of((gone & TAG_MASK) | (name & ~TAG_MASK), indexing);
            recent[gone_set] |= gone & 1;
        }
        uint32_t *front = &recent[set_of(name, indexing)];
        uint32_t before = *front;
        bool same = ((before ^ tag) & TAG_MASK) == 0;
        *front = tag | touch_is_store(touch) | (same ? before & 1 : 0);
        displaced[i] = before;
        if (lanes != 0)
            __builtin_prefetch(&level->stacks[(size_t)set_of(name, indexing) * lanes], 1);
    }
}

INLINE void touch_fronts(struct caches *caches, const struct level *level, struct indexing indexing,
                         size_t count, bool everything, unsigned lanes)
{
    if (everything)
        touch_all(caches, level, indexing, count, lanes);
    else
        touch_names(caches, level, indexing, count, lanes);
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
INLINE void move_to_front(const struct caches *caches, struct level *level,
                          struct indexing indexing, size_t count, bool everything, unsigned lanes)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = everything ? caches->touches[i] : caches->names[i];
        uint32_t name = (uint32_t)touch;
        uint32_t *stack = &level->stacks[(size_t)set_of(name, indexing) * lanes];
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

/* What is constant where the cascade is inlined. */
struct variant {
    bool everything;
    unsigned lanes;
    unsigned shift; /* of names */
};

/* One batch through all levels. */
INLINE void run_levels(struct caches *caches, size_t count, struct variant variant)
{
    bool everything = variant.everything;
    for (unsigned i = 0; i < CACHES_LEVELS && count > 0; i++) {
        struct level *level = &caches->levels[i];
        struct indexing indexing = indexing_of(caches, i, variant.shift);
        touch_fronts(caches, level, indexing, count, everything, variant.lanes);
        count = keep_misses(caches, count, everything);
        if (variant.lanes == 0)
            count_direct_mapped(caches, level, count, everything);
        else
            move_to_front(caches, level, indexing, count, everything, variant.lanes);
    }
}

typedef void run_cascade(struct caches *caches, size_t count, struct variant variant);

INLINE void run_with_shift(struct caches *caches, size_t count, unsigned shift, run_cascade *run)
{
    switch (caches->lanes | (unsigned)caches->options.everything) {
    case 0:
        return run(caches, count, (struct variant){false, 0, shift});
    case 1:
        return run(caches, count, (struct variant){true, 0, shift});
    case 8:
        return run(caches, count, (struct variant){false, 8, shift});
    case 9:
        return run(caches, count, (struct variant){true, 8, shift});
    case 16:
        return run(caches, count, (struct variant){false, 16, shift});
    default:
        return run(caches, count, (struct variant){true, 16, shift});
    }
}

/* Calls `run` with a constant variant, but for a shift other than 0: where this is inlined, `run`
 * is compiled for each variant. */
INLINE void run_specialised(struct caches *caches, size_t count, run_cascade *run)
{
    if (caches->name_shift == 0)
        run_with_shift(caches, count, 0, run);
    else
        run_with_shift(caches, count, caches->name_shift, run);
}

#endif
