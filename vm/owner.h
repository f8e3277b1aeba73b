/* SPDX-License-Identifier: MIT
 *
 * owner.h: what the granule map's entries point to. Every structure that owns memory begins with
 * this, so that one look at its kind tells what a pointer of the program lies in.
 */
#ifndef ALLOTROPE_VM_OWNER_H
#define ALLOTROPE_VM_OWNER_H

enum owner_kind {
    OWNER_ARENA = 1,
    OWNER_LARGE,
    OWNER_SLAB,       /* alloc/blocks/slab.h */
    OWNER_FREE_RUN,   /* alloc/blocks/runs.h */
    OWNER_RECORDS,    /* memory of ours in which no block lies. But gc:classic, which asks for no
                         kind, has it for its heap */
    OWNER_FORK_BLOCK, /* alloc/fork_block.h */
    OWNER_GUARDED,    /* alloc/checked/pool.h */
};

struct owner {
    enum owner_kind kind;
};

#endif
