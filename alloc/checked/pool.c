/* SPDX-License-Identifier: MIT
 *
 * pool.c: see pool.h.
 */
#include "alloc/checked/pool.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/allocator.h"
#include "alloc/checked/report.h"
#include "vm/granule_map.h"
#include "vm/owner.h"

/* The lowest bits of a state. A FREED slot's others are a number that grows with each free. */
enum slot_state { FREED, HELD, LIVE, LOOKED_AT, STATE_BITS = 2, STATE_MASK = 3 };
enum { BESIDE_BYTE = 0xC5, AT_START_ONE_IN = 4 };

/* Writer: who holds the slot. A reporter reads it at any time. */
struct slot {
    char *block; /* NULL: there was none yet */
    size_t bytes;
    struct call_stack allocation, freeing; /* freeing has no frames while the block lives */
};

char *_Atomic pool_start;
size_t pool_bytes;
static size_t slot_count;
static uint32_t most_live;
static struct slot *slots;
static _Atomic uint64_t *states; /* of the slots, close together for the search */
static struct owner owner = {.kind = OWNER_GUARDED};
static _Atomic bool is_opened;
static _Atomic uint32_t live;
static _Atomic uint64_t frees, sampled, passed_over;

/* At most three quarters of the slots are live, so that freed ones wait. */
void pool_init(size_t count)
{
    slot_count = count;
    most_live = (uint32_t)(count - count / 4);
}

/* With the first sample, so that a process that has none pays nothing. Once. */
static void open_pool(void)
{
    if (pool_start || atomic_exchange(&is_opened, true))
        return;
    size_t bytes = round_up((2 * slot_count + 1) * PAGE_BYTES, GRANULE_BYTES);
    char *start = pages_map(bytes, GRANULE_BYTES);
    states =
        pages_map(round_up(slot_count * (sizeof *states + sizeof *slots), PAGE_BYTES), PAGE_BYTES);
    if (!start || !states || !pages_guard(start, bytes) || !granule_map_set(start, bytes, &owner))
        return;
    slots = (struct slot *)(states + slot_count);
    pool_bytes = bytes;
    atomic_store_explicit(&pool_start, start, memory_order_release);
}

static char *page_of(const struct slot *slot)
{
    return pool_start + (2 * (size_t)(slot - slots) + 1) * PAGE_BYTES;
}

/* The slot of an address that lies in a page of one; NULL: it lies in a guard. */
static struct slot *slot_of(const void *address)
{
    size_t page = (size_t)((const char *)address - pool_start) / PAGE_BYTES;
    return page % 2 == 1 && page / 2 < slot_count ? &slots[page / 2] : NULL;
}

static enum slot_state state_of(const struct slot *slot)
{
    return atomic_load_explicit(&states[slot - slots], memory_order_acquire) & STATE_MASK;
}

static void set_state(const struct slot *slot, uint64_t state)
{
    atomic_store(&states[slot - slots], state);
}

static bool pass(const struct slot *slot, uint64_t from, uint64_t to)
{
    return atomic_compare_exchange_strong(&states[slot - slots], &from, to);
}

static __attribute__((noinline)) void take_call_stack(struct call_stack *stack)
{
    const uintptr_t *frame = __builtin_frame_address(0);
    stack->frames = allocator_call_stack
                        ? allocator_call_stack(frame[1], (uintptr_t)(frame + 2), frame[0],
                                               stack->sites, CALL_STACK_FRAMES)
                        : 0;
}

/* Allocation. */

/* Takes hold of the slot that was freed first; slots that were never used come before all others.
 * NULL: there is none, or another thread was faster. */
static struct slot *hold_eldest(void)
{
    struct slot *eldest = NULL;
    uint64_t eldest_state = UINT64_MAX;
    for (size_t i = 0; i < slot_count; i++) {
        uint64_t state = atomic_load_explicit(&states[i], memory_order_relaxed);
        if ((state & STATE_MASK) == FREED && state < eldest_state) {
            eldest = &slots[i];
            eldest_state = state;
        }
    }
    return eldest && pass(eldest, eldest_state, HELD) ? eldest : NULL;
}

static struct slot *hold_slot(void)
{
    if (atomic_fetch_add(&live, 1) < most_live) {
        struct slot *slot = hold_eldest();
        if (slot)
            return slot;
    }
    atomic_fetch_sub(&live, 1);
    return NULL;
}

static void give_up_slot(struct slot *slot)
{
    uint64_t number = atomic_fetch_add(&frees, 1) + 1;
    set_state(slot, number << STATE_BITS | FREED);
    atomic_fetch_sub(&live, 1);
}

static char *place(char *page, size_t alignment, size_t size, uint64_t random)
{
    if (random % AT_START_ONE_IN == 0)
        return page;
    alignment = alignment < BLOCK_ALIGNMENT ? BLOCK_ALIGNMENT : alignment;
    return (char *)round_down((uintptr_t)page + PAGE_BYTES - size, alignment);
}

void *pool_alloc(size_t alignment, size_t size, uint64_t random)
{
    if (size == 0 || size > PAGE_BYTES || alignment > PAGE_BYTES)
        return NULL;
    open_pool();
    struct slot *slot = pool_start && !pages_are_in_sandbox() ? hold_slot() : NULL;
    if (!slot) {
        atomic_fetch_add_explicit(&passed_over, 1, memory_order_relaxed);
        return NULL;
    }
    char *page = page_of(slot);
    if (!pages_unguard(page, PAGE_BYTES)) {
        give_up_slot(slot);
        return NULL;
    }
    char *block = place(page, alignment, size, random);
    memset(page, BESIDE_BYTE, (size_t)(block - page));
    memset(block, 0, size); /* of a locked page the guard has not taken the contents */
    memset(block + size, BESIDE_BYTE, (size_t)(page + PAGE_BYTES - block) - size);
    slot->block = block;
    slot->bytes = size;
    slot->freeing.frames = 0;
    take_call_stack(&slot->allocation);
    atomic_fetch_add_explicit(&sampled, 1, memory_order_relaxed);
    set_state(slot, LIVE);
    return block;
}

/* Reports. */

static const void *first_site(const struct call_stack *stack)
{
    return stack->frames > 0 ? stack->sites[0] : NULL;
}

static struct block_facts facts_of(const struct slot *slot, const void *address)
{
    return (struct block_facts){
        .block = slot->block,
        .bytes = slot->bytes,
        .allocated_at = first_site(&slot->allocation),
        .freed_at = first_site(&slot->freeing),
        .allocation = &slot->allocation,
        .freeing = &slot->freeing,
        .offset = slot->block ? (const char *)address - slot->block : 0,
    };
}

static bool is_as_filled(const char *start, size_t bytes)
{
    return bytes == 0 || (*start == (char)BESIDE_BYTE && memcmp(start, start + 1, bytes - 1) == 0);
}

/* The byte nearest to the block, beside it in its page, that is not as it was. NULL: there is none.
 */
static const char *find_written(const struct slot *slot)
{
    const char *page = page_of(slot), *end = slot->block + slot->bytes;
    const char *before = slot->block - 1, *behind = end;
    if (!is_as_filled(page, (size_t)(slot->block - page))) {
        while (before > page && *before == (char)BESIDE_BYTE)
            before--;
        return before;
    }
    if (is_as_filled(end, (size_t)(page + PAGE_BYTES - end)))
        return NULL;
    while (behind < page + PAGE_BYTES - 1 && *behind == (char)BESIDE_BYTE)
        behind++;
    return behind;
}

static void look_beside(const struct slot *slot, const char *function, const void *site)
{
    const char *written = find_written(slot);
    if (!written)
        return;
    struct block_facts facts = facts_of(slot, written);
    report_misuse(REPORT_ONLY, function, slot->block,
                  written < slot->block ? "written before its start" : "written behind its end",
                  &facts, site);
}

/* How far an address is from a slot's block. */
static size_t distance(const struct slot *slot, const char *address)
{
    if (!slot->block)
        return SIZE_MAX;
    return address < slot->block ? (size_t)(slot->block - address)
                                 : (size_t)(address - (slot->block + slot->bytes)) + 1;
}

/* The slot of an address. For an address in a guard, the slot beside it whose block is nearer. */
static const struct slot *slot_near(const char *address)
{
    const struct slot *slot = slot_of(address);
    size_t page = (size_t)(address - pool_start) / PAGE_BYTES, above = page / 2;
    if (slot)
        return slot;
    if (!slots || above > slot_count)
        return NULL;
    if (above == slot_count)
        return &slots[slot_count - 1];
    if (above == 0)
        return &slots[0];
    return distance(&slots[above], address) < distance(&slots[above - 1], address)
               ? &slots[above]
               : &slots[above - 1];
}

bool pool_report_fault(const char *access, const void *address, const void *at)
{
    if (!pool_holds(address))
        return false;
    const struct slot *slot = slot_near(address);
    if (!slot || !slot->block)
        return report_access(access, address, "in memory of the heap, but not a block", NULL, at);
    struct block_facts facts = facts_of(slot, address);
    return report_access(access, address,
                         state_of(slot) == FREED ? "after its free" : "outside a block", &facts,
                         at);
}

/* Free. */

static void report_wrong_free(const void *block, const char *function, const struct slot *slot,
                              const struct call_stack *stack)
{
    struct block_facts facts = {0};
    if (slot)
        facts = facts_of(slot, block);
    bool is_start = facts.block && facts.offset == 0;
    report_misuse(REPORT_FATAL, function, block,
                  is_start ? "freed twice" : "not the start of a live block", &facts,
                  first_site(stack));
}

/* Takes a freed block's memory and access away. The memory goes first, because a page without
 * memory is guarded in half the time. The sandbox refuses the guard: then the block is overwritten.
 * Its slot is not used again there. */
static void end_block(struct slot *slot)
{
    if (!pages_are_in_sandbox())
        pages_discard(page_of(slot), PAGE_BYTES);
    if (!pages_guard(page_of(slot), PAGE_BYTES))
        memset(slot->block, BESIDE_BYTE, slot->bytes);
}

void pool_free(void *block, const char *function)
{
    struct slot *slot = slot_of(block);
    struct call_stack stack;
    take_call_stack(&stack);
    while (slot && state_of(slot) == LOOKED_AT)
        __builtin_ia32_pause();
    if (!slot || slot->block != block || !pass(slot, LIVE, HELD)) {
        report_wrong_free(block, function, slot, &stack);
        return;
    }
    look_beside(slot, function, first_site(&stack));
    slot->freeing = stack;
    end_block(slot);
    give_up_slot(slot);
}

/* From outside. */

bool pool_find(const void *block, size_t *bytes)
{
    const struct slot *slot = slot_of(block);
    if (!slot || slot->block != block || (state_of(slot) != LIVE && state_of(slot) != LOOKED_AT))
        return false;
    *bytes = slot->bytes;
    return true;
}

void pool_walk(heap_visitor *visit, void *argument)
{
    for (size_t i = 0; pool_start && i < slot_count; i++) {
        struct block_info info = {.payload = slots[i].block,
                                  .usable_bytes = slots[i].bytes,
                                  .block_bytes = PAGE_BYTES,
                                  .state = BLOCK_LIVE};
        if (state_of(&slots[i]) == LIVE)
            visit(argument, &info);
    }
}

void pool_count(struct pool_counts *counts)
{
    *counts = (struct pool_counts){.sampled = atomic_load(&sampled),
                                   .live = atomic_load(&live),
                                   .passed_over = atomic_load(&passed_over)};
}

void pool_look(void)
{
    for (size_t i = 0; pool_start && i < slot_count; i++)
        if (pass(&slots[i], LIVE, LOOKED_AT)) {
            look_beside(&slots[i], "exit", NULL);
            set_state(&slots[i], LIVE);
        }
}

void pool_fork_child(void)
{
    is_opened = pool_start != NULL; /* else the thread that was opening it is not here */
    for (size_t i = 0; pool_start && i < slot_count; i++)
        if (state_of(&slots[i]) == LOOKED_AT)
            set_state(&slots[i], LIVE);
}
