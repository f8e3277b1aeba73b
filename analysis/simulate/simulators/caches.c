/* SPDX-License-Identifier: MIT
 *
 * caches.c: batches of references through the cascade (cascade.h), and what it has counted.
 */
#include "analysis/simulate/simulators/caches.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/caches_state.h"
#include "analysis/simulate/simulators/cascade.h"
#include "analysis/simulate/simulators/dispatch.h"

static bool make_level(struct level *level, size_t sets, unsigned lanes)
{
    level->recent = calloc(sets, sizeof *level->recent);
    level->outcomes = calloc((size_t)REFERENCE_CLASSES * OUTCOMES, sizeof *level->outcomes);
    if (!level->recent || !level->outcomes)
        return false;
    if (lanes == 0)
        return true;
    size_t entries = sets * lanes;
    size_t bytes = entries * sizeof *level->stacks;
    level->stacks = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!level->stacks)
        return false;
    /* Tag 0 names no block, and what is not there is clean at every level. */
    for (size_t entry = 0; entry < entries; entry++)
        level->stacks[entry] = lanes;
    return true;
}

struct caches *caches_new(const struct caches_options *options)
{
    struct caches *caches = aligned_alloc(64, (sizeof *caches + 63) / 64 * 64);
    if (!caches)
        return NULL;
    memset(caches, 0, sizeof *caches);
    caches->options = *options;
    caches->name_shift = TAG_LOW_BITS - options->fewest_sets_log2;
    caches->lanes = options->ways == 1 ? 0 : options->ways <= 8 ? 8 : 16;
    touches_init(&caches->source, options->block_bytes, options->everything);
    bool made = true;
    for (unsigned i = 0; i < CACHES_LEVELS && made; i++)
        made = make_level(&caches->levels[i], caches_sets(caches, i), caches->lanes);
    if (!made) {
        caches_free(caches);
        return NULL;
    }
    return caches;
}

void caches_free(struct caches *caches)
{
    if (!caches)
        return;
    for (unsigned i = 0; i < CACHES_LEVELS; i++) {
        free(caches->levels[i].recent);
        free(caches->levels[i].stacks);
        free(caches->levels[i].outcomes);
    }
    free(caches->chunks);
    free(caches);
}

const char *caches_error(const struct caches *caches)
{
    return caches->error;
}

void caches_fail(struct caches *caches, const char *format, uint64_t value)
{
    snprintf(caches->error_text, sizeof caches->error_text, format, value);
    caches->error = caches->error_text;
}

/* Keeps the touches of the slices that are simulated. */
static size_t select_slices(uint32_t slices, uint64_t *touches, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        touches[kept] = touches[i];
        kept += slices >> (touches[i] % CACHES_SLICES) & 1;
    }
    return kept;
}

/* Shifts the blocks' numbers to where they stand in names. */
static void shift_numbers(struct caches *caches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = caches->touches[i];
        caches->touches[i] = (touch & ~TOUCH_UNIT_MASK) | touch_unit(touch) << caches->name_shift;
    }
}

bool caches_feed(struct caches *caches, const struct references *references)
{
    size_t position = 0;
    while (position < references->count && !caches->error) {
        size_t count = touches_take(&caches->source, references, &position, caches->touches);
        if (caches->options.slices != UINT32_MAX)
            count = select_slices(caches->options.slices, caches->touches, count);
        if (caches->name_shift != 0)
            shift_numbers(caches, count);
        if ((caches->source.largest_unit << caches->name_shift) + FIRST_NAME > UINT32_MAX &&
            !caches_name_blocks(caches, count))
            break;
        if (dispatch_avx512())
            caches_run_avx512(caches, count);
        else
            run_specialised(caches, count, run_levels);
        if (caches->source.bad_address != 0)
            caches_fail(caches, "address 0x%" PRIx64 " is no user's address (2^56 or above)",
                        caches->source.bad_address);
    }
    return !caches->error;
}

/* What was counted. */

uint64_t caches_misses(const struct caches *caches, unsigned sets_log2, unsigned ways,
                       unsigned class)
{
    const uint64_t *outcomes =
        &caches->levels[sets_log2 - caches->options.fewest_sets_log2].outcomes[class * OUTCOMES];
    uint64_t misses = 0;
    for (unsigned dirty = 0; dirty < DEPTHS; dirty++)
        for (unsigned depth = ways; depth < DEPTHS; depth++)
            misses += outcomes[dirty * DEPTHS + depth];
    return misses;
}

/* Blocks that a cache of `ways` ways has displaced dirty and that were not touched since: they
 * stand deeper than `ways` in their stack. */
static uint64_t displaced_in_stacks(const struct caches *caches, unsigned level, unsigned ways)
{
    const uint32_t *set = caches->levels[level].stacks;
    const uint32_t *end = set + caches_sets(caches, level) * caches->lanes;
    uint64_t sum = 0;
    for (; set < end; set += caches->lanes)
        for (unsigned depth = ways; depth < caches->lanes; depth++)
            sum += (set[depth] & ~TAG_MASK) < ways;
    return sum;
}

uint64_t caches_write_backs(const struct caches *caches, unsigned sets_log2, unsigned ways)
{
    unsigned level = sets_log2 - caches->options.fewest_sets_log2;
    if (caches->lanes == 0)
        return caches->levels[level].displaced_written;
    uint64_t sum = displaced_in_stacks(caches, level, ways);
    for (size_t class = 0; class < REFERENCE_CLASSES; class ++) {
        const uint64_t *outcomes = &caches->levels[level].outcomes[class * OUTCOMES];
        for (unsigned dirty = 0; dirty < ways; dirty++)
            for (unsigned depth = ways; depth < DEPTHS; depth++)
                sum += outcomes[dirty * DEPTHS + depth];
    }
    return sum;
}

struct reference_totals caches_class_totals(const struct caches *caches, unsigned class)
{
    return caches->source.of_class[class];
}
