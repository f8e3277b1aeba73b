/* SPDX-License-Identifier: MIT
 *
 * gc_classic.h: `gc:classic`: the collector that the 1992 study measured.
 */
#ifndef ALLOTROPE_GC_CLASSIC_GC_CLASSIC_H
#define ALLOTROPE_GC_CLASSIC_GC_CLASSIC_H

#include "alloc/allocator.h"

extern const struct allocator gc_classic;

#endif
