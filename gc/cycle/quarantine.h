/* SPDX-License-Identifier: MIT
 *
 * quarantine.h: free=quarantine, as far as it is no matter of the heap's
 * (alloc/blocks/quarantine.h): what is said of misuses, and when there are no collections.
 */
#ifndef ALLOTROPE_GC_CYCLE_QUARANTINE_H
#define ALLOTROPE_GC_CYCLE_QUARANTINE_H

#include <stdbool.h>
#include <stddef.h>

/* Called once, before the heap's first block. */
void quarantine_init(void);

/* site: whence free was called. A second free ends the process, with both sites. */
void quarantine_free(void *block, const void *site);
void *quarantine_realloc(void *block, size_t size, const void *site);

/* After a collection. works: it, or those to come, can release blocks; else they are freed by their
 * age, which is said once. True: some were freed. No lock is held. */
bool quarantine_after_collection(bool works);

/* There are none, now or for good. */
void quarantine_without_collections(void);

#endif
