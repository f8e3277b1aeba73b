/* SPDX-License-Identifier: MIT
 *
 * free_log.h: where the last blocks were freed.
 *
 * Places, which are used round and round. Each has a block and the return address of its free. A
 * thread takes a chunk of places and fills them one after the other:
 *
 *     chunk 0            chunk 1            chunk 2            ...
 *     | A A A A A . . |  | B B B . . . . |  | A A . . . . . |       A, B: threads; .: 0
 *
 * So a free writes beside the free before it, and a new cache line is touched every fourth time. A
 * table by the block's address touches a line at each free that is in no near cache, and takes
 * another one's place there: that was a fifth of gawk's time (docs/measurements/safety.md).
 *
 * A search must find the latest free of a block. A thread fills its chunk from front to back. A
 * block can be freed again only after it was released, and after a release a thread takes a new
 * chunk before it fills another place. So of all places with the block, the latest free is the last
 * one in the chunk that was taken last.
 *
 * Invariant
 * [one fills a chunk]   Who has the word that took a chunk fills it: a thread, later also the next
 *                       one that has its heap. Threads without a word share one, and take its
 *                       places by an exchange. Once all places have been used, two words may come
 *                       to the same chunk. So a site counts only if the block's address stands
 *                       beside it, and even then it may be wrong.
 */
#ifndef ALLOTROPE_GC_CYCLE_FREE_LOG_H
#define ALLOTROPE_GC_CYCLE_FREE_LOG_H

#include <stdbool.h>
#include <stdint.h>

/* In a process of one thread the last FREE_LOG_PLACES - FREE_LOG_CHUNK frees are known, at least.
 * Where there are more a thread takes a chunk after each release, and may leave most of it empty.
 */
enum { FREE_LOG_CHUNK = 64, FREE_LOG_PLACES = 1 << 14 };

/* Called once. False: no memory; nothing is known then. */
bool free_log_init(void);

/* Notes that this thread frees a block. Any thread, no lock; signal handlers too. site: the return
 * address of the call of free. releases: how often blocks have been released; it only grows. own:
 * the thread's word, 0 at first. NULL: the thread has no word, and shares one with others.
 */
void free_log_note(_Atomic uint64_t *own, const void *block, const void *site, uint64_t releases);

/* Where the block was freed the last time. 0: not known. */
uintptr_t free_log_site(const void *block);

#endif
