/* SPDX-License-Identifier: MIT
 *
 * block_alignment.h: to how many bytes a heap as published rounds and aligns its blocks.
 *
 * Today's ABI asks for 16. The machines of 1992 needed 8, and rounding to 16 costs a heap of small
 * blocks much memory that it did not cost then. So the heaps whose blocks have any size can be
 * asked for 8. That breaks the ABI's promise: it is for programs that are known to need no more.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_BLOCK_ALIGNMENT_H
#define ALLOTROPE_ALLOC_POLICIES_BLOCK_ALIGNMENT_H

#include "alloc/heap.h"

enum block_alignment { BLOCK_ALIGNMENT_ABI, BLOCK_ALIGNMENT_1992 };

static inline size_t block_alignment_of(enum block_alignment chosen)
{
    return chosen == BLOCK_ALIGNMENT_1992 ? 8 : BLOCK_ALIGNMENT;
}

/* A row of a classic preset's table. */
#define ALIGNMENT_OPTION(at, structure, member)                                          \
    {                                                                                    \
        "align", "bytes to which blocks are aligned; 8, as in 1992, breaks today's ABI", \
            KEYWORD_IN(at, structure, member),                                           \
            .keywords = {[BLOCK_ALIGNMENT_ABI] = "16", [BLOCK_ALIGNMENT_1992] = "8"},    \
            .initial = BLOCK_ALIGNMENT_ABI                                               \
    }

#endif
