/* SPDX-License-Identifier: MIT
 *
 * leaks.h: leaks=report: which blocks the program has lost, and by which others it could have
 * found them.
 *
 * A leak is a live block that the program has not freed and that nothing reaches. One that hangs on
 * another leak is *indirect*: who mends the other mends it, too. The rest are *direct*. Leaks may
 * lead to each other in a circle, to which no leak outside of it leads. Of these one counts as
 * direct, and the others hang on it.
 */
#ifndef ALLOTROPE_GC_CYCLE_LEAKS_H
#define ALLOTROPE_GC_CYCLE_LEAKS_H

#include <stdbool.h>

#include "alloc/allocator.h"

/* Visits all leaks. In a stopped world, after the marking of a full collection by one marker.
 * Leaves them with marks, as if the program reached them. False: without memory; then nothing was
 * visited. */
bool leaks_visit(leak_visitor *visit, void *argument);

#endif
