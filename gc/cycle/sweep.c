/* SPDX-License-Identifier: MIT
 *
 * sweep.c: see sweep.h.
 */
#include "gc/cycle/sweep.h"

#include "alloc/blocks/blocks.h"
#include "vm/granule_map.h"

static void sweep_slab(void *argument, struct slab *slab)
{
    struct sweep_result *result = argument;
    uint64_t freed = 0, live = 0;
    for (size_t i = 0; i < slab_words(slab); i++) {
        struct slab_word *word = &slab->words[i];
        uint64_t was_live = slab_live(slab, i);
        uint64_t dead = was_live & ~word->mark;
        if (dead) {
            blocks_clear_live(slab, i, dead, dead == was_live);
            word->retired &= ~dead;
            slab_set_free(word, dead);
        }
        freed += count_bits(dead);
        live += count_bits(was_live ^ dead);
    }
    result->blocks += freed;
    result->bytes += freed * slab->block_bytes;
    result->live_bytes += live * slab->block_bytes;
    if (live == 0)
        result->empty_bytes += slab->granules * GRANULE_BYTES;
}

void sweep(struct sweep_result *result)
{
    *result = (struct sweep_result){0};
    blocks_each_slab(sweep_slab, result);
}
