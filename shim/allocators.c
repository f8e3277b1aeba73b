/* SPDX-License-Identifier: MIT
 *
 * allocators.c: every allocator and preset that the library offers.
 */
#include "alloc/blocks.h"
#include "alloc/historic.h"
#include "gc/gc.h"
#include "gc/gc_classic.h"
#include "shim/configuration.h"

const struct allocator *const allocators[] = {
    &blocks_default,    &knuth_default, &knuth_classic, &cartesian_default,
    &cartesian_classic, &bsd_default,   &bsd_classic,   &gnu_default,
    &gnu_classic,       &gc_default,    &gc_classic,    NULL,
};
