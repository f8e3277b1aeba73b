/* SPDX-License-Identifier: MIT
 *
 * remembered_set.c: see remembered_set.h.
 */
#include "bench_programs/runtime/remembered_set.h"

#include "bench_programs/runtime/policy.h"

static struct {
    value **slots;
    size_t count;
    uint64_t *listed;
} set;

void remembered_open(void)
{
    size_t words = (heap.old_end - heap_old_start) / sizeof(value);
    set.listed = heap_reserve(words / 8 + RUNTIME_PAGE);
    set.slots = heap_reserve(words * sizeof *set.slots);
}

static size_t bit_of(const value *slot)
{
    return ((uintptr_t)slot - heap_old_start) / sizeof *slot;
}

bool is_remembered(value *slot)
{
    return set.listed[bit_of(slot) / 64] >> bit_of(slot) % 64 & 1;
}

/* Called by the barrier's instructions as well, of which the compiler does not know: so it keeps
 * all registers, calls nothing, and the program is compiled without a red zone. */
void remember(value *slot)
{
    size_t word = ((uintptr_t)slot - heap_old_start) / sizeof *slot / 64;
    uint64_t bit = (uint64_t)1 << ((uintptr_t)slot - heap_old_start) / sizeof *slot % 64;
    if (set.listed[word] & bit)
        return;
    set.listed[word] |= bit;
    set.slots[set.count++] = slot;
}

bool remember_if_young(value *slot)
{
    if (!is_young(*slot))
        return false;
    remember(slot);
    return true;
}

void remembered_visit(slot_visitor *visit)
{
    size_t kept = 0;
    policy_counters.remembered += set.count;
    for (size_t i = 0; i < set.count; i++) {
        value *slot = set.slots[i];
        if (visit(slot))
            set.slots[kept++] = slot;
        else
            set.listed[bit_of(slot) / 64] &= ~((uint64_t)1 << bit_of(slot) % 64);
    }
    set.count = kept;
}
