/* SPDX-License-Identifier: MIT
 *
 * policy.c: what most policies have in common. Each function here is weak: a policy that defines
 * its own replaces it.
 *
 * Most remember the slots with young values of old objects; nothing is left to be done when the
 * collector writes or the mutator takes memory, since only page protection notices these.
 */
#include "bench_programs/runtime/policy.h"

#include "bench_programs/runtime/remembered_set.h"

#define COMMON __attribute__((weak))

struct policy_counters policy_counters;

COMMON void policy_start(void)
{
}

COMMON void policy_before_write(uintptr_t start, uintptr_t end)
{
    (void)start, (void)end;
}

COMMON void policy_remember(value *slot)
{
    remember(slot);
}

COMMON void policy_clean(void)
{
}

COMMON void policy_allocated_old(uintptr_t start, uintptr_t end)
{
    (void)start, (void)end;
}

COMMON bool policy_knows(value *slot)
{
    return is_remembered(slot);
}
