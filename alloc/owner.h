/* SPDX-License-Identifier: MIT
 *
 * owner.h: what the page map's entries point to. Every structure that owns memory begins with
 * this, so that one look at its kind tells what a pointer of the program lies in.
 */
#ifndef ALLOTROPE_ALLOC_OWNER_H
#define ALLOTROPE_ALLOC_OWNER_H

enum owner_kind {
    OWNER_ARENA = 1,
    OWNER_LARGE,
    OWNER_SLAB,     /* alloc/slab.h */
    OWNER_FREE_RUN, /* alloc/runs.h */
    OWNER_RECORDS,  /* the heap's own memory: no block can lie in it */
};

struct owner {
    enum owner_kind kind;
};

#endif
