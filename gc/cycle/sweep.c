/* SPDX-License-Identifier: MIT
 *
 * sweep.c: see sweep.h.
 */
#include "gc/cycle/sweep.h"

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/quarantine.h"
#include "gc/cycle/generations.h"
#include "gc/world/recorder.h"
#include "vm/granule_map.h"

struct sweep {
    enum sweep_leaks leaks;
    bool promotes;       /* there are generations */
    bool minor;          /* young slabs only */
    bool late_live_bits; /* of what is freed: [late live bit] (alloc/blocks/heap.h) */
    enum sweeper sweeper;
    struct sweep_result *result;
};

static __attribute__((noinline)) void tell_recorder(const struct slab *slab, size_t word,
                                                    uint64_t blocks)
{
    for (; blocks; blocks &= blocks - 1)
        doorbell_suspect(
            slab_block(slab, word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(blocks)));
}

/* The blocks of a word that are dead and are not freed. leaked: the dead blocks that the program
 * has not freed. */
static uint64_t spared(enum sweep_leaks leaks, uint64_t leaked, uint64_t suspects)
{
    switch (leaks) {
    case SWEEP_RECLAIM:
        return 0;
    case SWEEP_SUSPECT:
        return leaked & ~suspects;
    default:
        return leaked;
    }
}

/* Counts a word's suspects. known: those before the sweep; found: those of them that were reached;
 * left: those after it, which are returned. */
static uint64_t sweep_suspects(const struct sweep *sweep, const struct slab *slab, uint64_t known,
                               uint64_t found, uint64_t left)
{
    uint64_t newly = left & ~known;
    sweep->result->pointed_to += count_bits(found);
    sweep->result->suspects += count_bits(left);
    sweep->result->suspected_blocks += count_bits(newly);
    sweep->result->suspect_bytes += count_bits(newly) * slab->block_bytes;
    return left;
}

/* Counts the freed blocks that something points to still. */
static void count_held(const struct sweep *sweep, const struct slab *slab, uint64_t held)
{
    sweep->result->held_blocks += count_bits(held);
    sweep->result->held_bytes += count_bits(held) * slab->block_bytes;
}

/* [retired is atomic], [remote until free]: of another thread's slab the owning thread does it. */
static void free_late(const struct sweep *sweep, struct slab_word *word, uint64_t freed)
{
    if (sweep->sweeper == SWEEPER_OTHER) {
        atomic_fetch_or_explicit(&word->remote, freed, memory_order_release);
        return;
    }
    slab_clear_retired(word, freed);
    slab_set_free(word, freed);
}

/* In quarantine a small block stays retired: [looked at before use]. */
static void free_blocks(const struct sweep *sweep, const struct slab *slab, struct slab_word *word,
                        uint64_t freed)
{
    sweep->result->retired_blocks += count_bits(freed & word->retired);
    if (sweep->sweeper != SWEEPER_STOPPED) {
        free_late(sweep, word, freed);
        return;
    }
    if (!quarantine_on || slab_is_large(slab))
        word->retired &= ~freed;
    slab_set_free(word, freed);
}

/* In a late sweep whoever frees a suspect may clear its bit at the same time. The bit is not set
 * again: of `seen`, the bits at the start of this word's sweep, none is set here. */
static void set_suspects(const struct sweep *sweep, uint64_t *suspects, uint64_t seen,
                         uint64_t left)
{
    if (sweep->sweeper == SWEEPER_STOPPED) {
        *suspects = left;
        return;
    }
    __atomic_fetch_and(suspects, ~(seen & ~left), __ATOMIC_RELAXED);
    __atomic_fetch_or(suspects, left & ~seen, __ATOMIC_RELAXED);
}

/* Returns the blocks that are freed. kept: reached or pinned; stay: dead, and not freed. Most words
 * have no suspect and few dead blocks, so each step is left out that has nothing to do. */
static uint64_t sweep_word(const struct sweep *sweep, struct slab *slab, size_t index,
                           uint64_t was_live)
{
    struct slab_word *word = &slab->words[index];
    uint64_t *suspects = slab_suspects(slab, index);
    uint64_t kept = slab_has_pins(slab) ? word->mark | *slab_pinned(slab, index) : word->mark;
    uint64_t seen = __atomic_load_n(suspects, __ATOMIC_RELAXED);
    uint64_t dead = was_live & ~kept, known = seen & was_live;
    if (quarantine_on)
        count_held(sweep, slab, was_live & word->retired & kept);
    if (!(dead | seen))
        return 0;
    uint64_t stay = spared(sweep->leaks, dead & ~word->retired, known), freed = dead & ~stay;
    uint64_t newly = sweep->leaks == SWEEP_KEEP ? 0 : stay & ~known;
    uint64_t cleared = sweep->late_live_bits ? newly : freed | newly;
    if (cleared && sweep->sweeper != SWEEPER_OTHER)
        blocks_clear_live(slab, index, cleared, cleared == was_live);
    if (newly && doorbell_active())
        tell_recorder(slab, index, newly);
    if (freed)
        free_blocks(sweep, slab, word, freed);
    if (seen | newly)
        set_suspects(sweep, suspects, seen,
                     sweep_suspects(sweep, slab, known, known & kept, (known & ~freed) | newly));
    return freed;
}

/* What is live and has a mark is old: [first survival promotes]. Returns whether the next
 * collection must look at the word again: [unmarked is young], [pins are roots]. */
static bool promote(const struct sweep *sweep, struct slab *slab, size_t index, uint64_t live)
{
    const struct slab_word *word = &slab->words[index];
    uint64_t *old = slab_old(slab, index), marked = live & word->mark;
    if (marked != *old) {
        sweep->result->promoted_bytes += count_bits(marked & ~*old) * slab->block_bytes;
        *old = marked;
    }
    return ((live & ~word->mark) | *slab_suspects(slab, index) |
            (slab_has_pins(slab) ? *slab_pinned(slab, index) : 0)) != 0;
}

static void sweep_slab(void *argument, struct slab *slab)
{
    const struct sweep *sweep = argument;
    struct sweep_result *result = sweep->result;
    uint64_t freed = 0, live = 0;
    bool stays_young = false;
    for (size_t i = 0; i < slab_words(slab); i++) {
        uint64_t was_live = slab_live(slab, i);
        uint64_t swept = sweep_word(sweep, slab, i, was_live);
        if (swept)
            freed += count_bits(swept);
        live += count_bits(was_live ^ swept);
        if (sweep->promotes && promote(sweep, slab, i, was_live ^ swept))
            stays_young = true;
    }
    if (stays_young || (sweep->minor && live == 0 && slab_is_large(slab)))
        blocks_enter_young(slab); /* a large one that is dead is freed when the world runs */
    if (sweep->minor && freed > 0)
        blocks_offer(slab);
    result->blocks += freed;
    result->bytes += freed * slab->block_bytes;
    result->live_bytes += live * slab->block_bytes;
    if (live == 0)
        result->empty_bytes += slab->granules * GRANULE_BYTES;
}

void sweep(enum sweep_leaks leaks, struct sweep_result *result)
{
    *result = (struct sweep_result){0};
    struct sweep all = {
        .leaks = leaks, .late_live_bits = blocks_has_late_live_bits(), .result = result};
    blocks_each_slab_by_bits(sweep_slab, &all);
    if (quarantine_on)
        quarantine_look_at_current();
}

void sweep_and_promote(enum sweep_leaks leaks, bool minor, struct sweep_result *result)
{
    *result = (struct sweep_result){0};
    struct sweep all = {.leaks = leaks,
                        .promotes = true,
                        .minor = minor,
                        .late_live_bits = blocks_has_late_live_bits(),
                        .result = result};
    blocks_take_young(minor ? sweep_slab : NULL, &all);
    if (!minor)
        blocks_each_slab_by_bits(sweep_slab, &all);
    blocks_enter_threads_slabs(); /* [listed is young] */
}

/* Late. The holder of the heap's lock has these: [locked sweep]. */

static struct sweep_result late_result;
static struct sweep late = {.late_live_bits = true, .result = &late_result};

/* The recorder is told of suspects while the world is stopped. */
bool sweep_may_be_late(enum sweep_leaks leaks)
{
    return leaks != SWEEP_WATCH && !quarantine_on && !doorbell_active() &&
           blocks_has_late_live_bits();
}

void sweep_begin_late(enum sweep_leaks leaks)
{
    late_result = (struct sweep_result){0};
    late.leaks = leaks;
    late.promotes = generations_are_on();
    if (late.promotes)
        blocks_take_young(NULL, NULL);
    blocks_begin_late_sweep();
    if (late.promotes)
        blocks_enter_threads_slabs(); /* [listed is young] */
}

void sweep_late(struct slab *slab, enum sweeper sweeper)
{
    late.sweeper = sweeper;
    sweep_slab(&late, slab);
}

void sweep_end_late(struct sweep_result *result)
{
    *result = late_result;
}
