/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: free=quarantine: the messages about misuse, and what happens where there are no
 * collections. The blocks themselves are the heap's matter (alloc/blocks/quarantine.h).
 */
#ifndef ALLOTROPE_GC_CYCLE_QUARANTINE_H
#define ALLOTROPE_GC_CYCLE_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

/* Called once, before the heap's first block. */
void quarantine_init(void);

/* site: where free was called. A second free ends the process, with both sites. */
void quarantine_free(void *block, const void *site);
void *quarantine_realloc(void *block, size_t size, const void *site);

/* After a collection, with no lock held. works: it has released blocks, or later ones will; else
 * blocks are released by their age, which a message says once. True: some were, by their age. */
bool quarantine_after_collection(bool works);

/* Looks at what is released and was not handed out again. */
void quarantine_at_exit(void);

/* There are no collections, now or for good: blocks age from here on. */
void quarantine_without_collections(void);

#endif
