/* SPDX-License-Identifier: MIT
 *
 * policy_remsets.c: the stores keep the remembered set themselves.
 */
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/remembered_set.h"

const char policy_name[] = "remsets";
struct policy_counters policy_counters;

void policy_open(const char *file)
{
    if (file)
        heap_fail("remsets has no use for a file");
    remembered_open();
}

void policy_start(void)
{
}

void policy_visit_roots(slot_visitor *visit)
{
    remembered_visit(visit);
}

void policy_before_write(uintptr_t start, uintptr_t end)
{
    (void)start, (void)end;
}

void policy_remember(value *slot)
{
    remember(slot);
}

void policy_clean(void)
{
}

void policy_allocated_old(uintptr_t start, uintptr_t end)
{
    (void)start, (void)end;
}

bool policy_knows(value *slot)
{
    return is_remembered(slot);
}
