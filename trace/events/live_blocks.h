/* SPDX-License-Identifier: MIT
 *
 * live_blocks.h: live blocks by their address: which object each is, and how large.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_LIVE_BLOCKS_H
#define ALLOTROPE_TRACE_EVENTS_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct live_block {
    uint64_t pointer; /* 0: free */
    uint64_t object;
    uint64_t size;
};

struct live_blocks {
    struct live_block *table;
    size_t capacity, used; /* capacity: a power of two */
};

/* False when memory is short. */
bool live_blocks_init(struct live_blocks *blocks);
void live_blocks_free(struct live_blocks *blocks);

/* Until the next change; NULL where there is none. */
struct live_block *live_blocks_find(const struct live_blocks *blocks, uint64_t pointer);
/* Adds a block, at whose address there is none. False when memory is short. */
bool live_blocks_add(struct live_blocks *blocks, struct live_block block);
void live_blocks_remove(struct live_blocks *blocks, struct live_block *block);

#endif
