/* SPDX-License-Identifier: MIT
 *
 * hiders.h: known hiders: libraries that keep no pointers to some of their blocks, but numbers from
 * which they compute them.
 *
 * No collector sees such a pointer. But their blocks can be told by who asks for them: the return
 * address of the call of malloc lies in the library's code. So these blocks are pinned, which makes
 * them roots until they are freed.
 *
 * The libraries are looked for at each collection, in the list of mappings that is read anyway. So
 * a process without any of them pays for nothing, and one that opens such a library while it runs
 * is noticed in time: nothing was reclaimed since. Blocks that were allocated until then are not
 * known by their return address. All of them are pinned.
 */
#ifndef ALLOTROPE_GC_CYCLE_HIDERS_H
#define ALLOTROPE_GC_CYCLE_HIDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/kernel/process.h"

/* With the world stopped. True: there may be blocks of a hider's that were not told, so whatever
 * is live is to be pinned. */
bool hiders_look(const struct mapping *mappings, size_t count);

/* What is allocated until the next look will not be told either. */
void hiders_look_again(void);

/* Whether a return address lies in a known hider. NULL, an address that could not be found out,
 * does if there is any. Any thread. */
bool hiders_have(const void *site);

/* Like hiders_have(), but also asks ld.so, so it knows a hider's code that no look has found yet.
 * Any thread. */
bool hiders_own(const void *site);

/* How many mappings of known hiders' code there are. */
size_t hiders_count(void);

#endif
