/* SPDX-License-Identifier: MIT
 *
 * policy_remsets.c: the stores keep the remembered set themselves.
 */
#include "bench_programs/runtime/policy.h"
#include "bench_programs/runtime/remembered_set.h"

const char policy_name[] = "remsets";

void policy_open(const char *file)
{
    if (file)
        heap_fail("remsets has no use for a file");
    remembered_open();
}

void policy_visit_roots(slot_visitor *visit)
{
    remembered_visit(visit);
}
