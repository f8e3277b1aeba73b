/* SPDX-License-Identifier: MIT
 *
 * allocators.c: every allocator and preset that the library offers.
 */
#include "alloc/blocks/blocks.h"
#include "alloc/checked/checked.h"
#include "alloc/checked/guard.h"
#include "alloc/presets/historic.h"
#include "gc/cycle/gc.h"
#include "gc/classic/gc_classic.h"
#include "shim/configuration/configuration.h"

const struct allocator *const allocators[] = {
    &blocks_default,    &blocks_checked,    &blocks_guard, &knuth_default, &knuth_classic,
    &cartesian_default, &cartesian_classic, &bsd_default,  &bsd_classic,   &gnu_default,
    &gnu_classic,       &gc_default,        &gc_classic,   NULL,
};
