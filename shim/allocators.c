/* SPDX-License-Identifier: MIT
 *
 * allocators.c: every allocator and preset that the library offers.
 */
#include "alloc/blocks.h"
#include "alloc/bsd_presets.h"
#include "gc/gc.h"
#include "gc/gc_classic.h"
#include "shim/configuration.h"

const struct allocator *const allocators[] = {&blocks_default, &bsd_default, &bsd_classic,
                                              &gc_default,     &gc_classic,  NULL};
