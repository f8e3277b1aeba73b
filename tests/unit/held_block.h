/* SPDX-License-Identifier: MIT
 *
 * held_block.h: one block of an allocator, and what must be found in it.
 *
 * Whoever tests an allocator gets, resizes and frees blocks through these functions. Every block is
 * filled, over all that usable_size promises, with bytes made from a number of its own. The bytes
 * are looked at before the block is resized or freed, and after it was resized. So blocks that
 * overlap, move without their contents, are handed out twice, are written to by the heap or are not
 * zero are found.
 *
 * The functions return NULL, or what is wrong. They serve programs without cmocka too.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HELD_BLOCK_H
#define ALLOTROPE_TESTS_UNIT_HELD_BLOCK_H

#include "alloc/allocator.h"

struct held_block {
    unsigned char *start; /* NULL: none */
    size_t bytes;         /* asked for */
    size_t usable;
    uint64_t number; /* the contents are made from it */
    bool ends_only;  /* of a large block no word between its ends is touched */
};

enum how_allocated { PLAIN, ZEROED, ALIGNED };

struct wish {
    enum how_allocated how;
    size_t bytes, alignment; /* alignment: for ALIGNED */
    uint64_t number;
    bool ends_only;
};

/* What held_alloc and held_resize return when the allocator refuses. The block is as it was. */
extern const char held_refused[];

/* block: holds nothing. */
const char *held_alloc(struct held_block *block, const struct allocator *allocator,
                       const struct wish *wish);
/* bytes: not 0. */
const char *held_resize(struct held_block *block, const struct allocator *allocator, size_t bytes,
                        uint64_t number);
const char *held_free(struct held_block *block, const struct allocator *allocator);
const char *held_look(const struct held_block *block, const struct allocator *allocator);

#endif
