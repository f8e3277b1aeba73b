/* SPDX-License-Identifier: MIT
 *
 * guarded.c: large blocks, between pages without access.
 *
 *     | guard | lead ....... | the program's bytes ........ | slack | guard
 *       page    16 bytes of                                   < 16     a page at least, up to the
 *               it are looked at                              bytes    last granule's end
 *
 * The block ends where the guard behind it begins, up to its alignment. One that has outgrown
 * another begins at the first page instead, and has an eighth to grow into.
 *
 * What is known of the block is in its slab's record, in words that only a collector uses:
 *
 *     words[0].mark      the size; above bit 48, the free's site
 *     words[0].retired   bits 0-39 offset from the slab's start (bit 0: there are guards),
 *                        40-54 the site, 55-62 how, 63 dead
 *
 * Who writes these words: who allocates the block; who resizes it, of the size; who frees it.
 *
 * [entered last]         The second word is zero until the block is whole, its guards and its slack
 *                        included. So a handler that interrupts malloc and ends the process does
 *                        not look at it.
 * [one ends a block]     The dead bit is set by an atomic instruction that tells what it was. Of
 *                        two threads that free a block one goes on, the other reports it. Only the
 *                        one that goes on writes the free's site.
 * [waits in one place]   Places of `waiting` change by exchange. So a dead block is in one place,
 *                        or with one thread, which alone takes its guards away and gives it back.
 *
 * A thread may be stopped between any two steps of a free: dead bit, site, guards, place. Then the
 * block is dead and with that thread. The child of a fork that has not the thread keeps the block's
 * memory.
 *
 * A freed block loses its pages and all access, and waits among a few others. The guards are a mark
 * in the page table (MADV_GUARD_INSTALL, Linux 6.13), which splits no mapping and drops the pages;
 * where the kernel does not know them, protections.
 */
#include "alloc/checked/guarded.h"

#include "alloc/blocks/large.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/slow.h"
#include "vm/pages.h"

enum { LEAD_CHECKED = 16 };
enum { SITE_SHIFT = 40, HOW_SHIFT = 55, FREE_SITE_SHIFT = 48 };
static const uint64_t DEAD = UINT64_C(1) << 63, OFFSET_BITS = (UINT64_C(1) << SITE_SHIFT) - 1,
                      SIZE_BITS = (UINT64_C(1) << FREE_SITE_SHIFT) - 1;

/* Freed blocks that wait, and how large one may be. */
enum { WAITING = 8 };
static const size_t WAITING_LARGEST = (size_t)64 << 20;
static struct slab *_Atomic waiting[WAITING];
static _Atomic unsigned waiting_next;

static uint64_t state_of(const struct slab *slab)
{
    return __atomic_load_n(&slab->words[0].retired, __ATOMIC_ACQUIRE);
}

static bool is_guarded(const struct slab *slab)
{
    return (state_of(slab) & 1) != 0;
}

static char *start_of(const struct slab *slab)
{
    return slab->base + (state_of(slab) & OFFSET_BITS & ~UINT64_C(1));
}

static size_t size_of(const struct slab *slab)
{
    return slab->words[0].mark & SIZE_BITS;
}

/* Where the slack behind a block ends: at its guard, or else at the end of the slab's block. */
static char *end_of(const struct slab *slab, bool guarded)
{
    return slab->base + slab->block_bytes - (guarded ? PAGE_BYTES : 0);
}

static size_t lead_of(const struct slab *slab, const char *block, bool guarded)
{
    size_t lead = (size_t)(block - slab->base) - (guarded ? PAGE_BYTES : 0);
    return lead < LEAD_CHECKED ? lead : LEAD_CHECKED;
}

/* The state comes last: [entered last]. */
static void enter(struct slab *slab, char *block, size_t size, bool guarded, unsigned how,
                  const void *site)
{
    size_t lead = lead_of(slab, block, guarded);
    memset(block - lead, SLACK_BYTE, lead);
    fill_slack(block + size, (size_t)(end_of(slab, guarded) - block) - size);
    slab->words[0].mark = size;
    uint64_t state = (uint64_t)(block - slab->base) | guarded |
                     (uint64_t)site_of(site) << SITE_SHIFT | (uint64_t)how << HOW_SHIFT;
    __atomic_store_n(&slab->words[0].retired, state, __ATOMIC_RELEASE);
}

void *guarded_enter_found(struct slab *slab, size_t size, unsigned how, const void *site)
{
    enter(slab, slab->base, size, false, how, site);
    return slab->base;
}

/* All bytes of a slab, in whole granules. Behind those that `blocks` needs for the block may lie
 * more pages. */
static size_t bytes_of(const struct slab *slab)
{
    return slab->granules * GRANULE_BYTES;
}

/* Guards either end of a block. Each guard needs a system call, which a process without memory may
 * be refused. False: the block has no guards then. */
static bool guard_both(const struct slab *slab)
{
    char *behind = slab->base + slab->block_bytes - PAGE_BYTES;
    if (slab->is_of_fork || !pages_guard(slab->base, PAGE_BYTES))
        return false;
    if (pages_guard(behind, (size_t)(slab->base + bytes_of(slab) - behind)))
        return true;
    return !pages_unguard(slab->base, PAGE_BYTES); /* one guard, where it cannot go again */
}

void *guarded_alloc(size_t alignment, size_t size, unsigned how, const void *site,
                    enum large_wish wish)
{
    size_t room = wish == LARGE_TO_GROW ? size / 8 : 0;
    size_t around = 2 * PAGE_BYTES + (alignment > PAGE_BYTES ? 2 * alignment : PAGE_BYTES);
    if (size > (size_t)PTRDIFF_MAX / 2 || alignment > OFFSET_BITS / 4)
        return refuse_memory();
    size_t bytes = PAGE_BYTES + round_up(size + room, 16) + PAGE_BYTES;
    if (alignment > BLOCK_ALIGNMENT)
        bytes = size + around;
    char *memory;
    do
        memory = wish == LARGE_ZERO ? alloc_large_zeroed(bytes) : alloc_slowly(bytes);
    while (!memory && guarded_drain());
    if (!memory)
        return NULL;
    struct slab *slab = slab_at(memory);
    bool guarded = guard_both(slab);
    char *end = memory + slab->block_bytes - PAGE_BYTES;
    char *block =
        room > 0 ? memory + PAGE_BYTES : (char *)round_down((uintptr_t)(end - size), alignment);
    enter(slab, block, size, guarded, how, site);
    return block;
}

bool guarded_is_live(struct slab *slab, const void *address)
{
    return slab_live(slab, 0) != 0 && !(state_of(slab) & DEAD) && address == start_of(slab);
}

struct block_facts guarded_facts(struct slab *slab)
{
    uint64_t state = state_of(slab);
    uint32_t freed = (uint32_t)(slab->words[0].mark >> FREE_SITE_SHIFT);
    return (struct block_facts){.block = start_of(slab),
                                .bytes = size_of(slab),
                                .allocated_at = site_address(state >> SITE_SHIFT & (SITES - 1)),
                                .freed_at = state & DEAD ? site_address(freed) : NULL,
                                .by = how_name(state >> HOW_SHIFT & 0xFF)};
}

void guarded_look(struct slab *slab, const char *function)
{
    uint64_t state = state_of(slab);
    bool guarded = is_guarded(slab);
    char *start = start_of(slab);
    size_t lead = lead_of(slab, start, guarded);
    struct block_facts facts = guarded_facts(slab);
    if (state == 0 || (state & DEAD)) /* [entered last] */
        return;
    for (size_t i = 1; i <= lead; i++)
        if (start[-(ptrdiff_t)i] != (char)SLACK_BYTE) {
            report_misuse(REPORT_FATAL, function, start, "written before its start", &facts, NULL);
            return;
        }
    if (!slack_is_whole(start + facts.bytes, (size_t)(end_of(slab, guarded) - start) - facts.bytes))
        report_misuse(REPORT_FATAL, function, start, "written behind its end", &facts, NULL);
}

/* For the thread that has the dead block: [waits in one place]. Where the kernel does not give the
 * access back (max_map_count) nobody could use the memory: the block stays dead for good. */
static void give_back(struct slab *slab)
{
    if (is_guarded(slab)) {
        if (!pages_unguard(slab->base, bytes_of(slab)))
            return;
        slab->words[0].retired &= ~UINT64_C(1);
    }
    large_block_free(slab, slab->base);
}

bool guarded_drain(void)
{
    bool any = false;
    for (size_t i = 0; i < WAITING; i++) {
        struct slab *slab = atomic_exchange_explicit(&waiting[i], NULL, memory_order_acq_rel);
        any |= slab != NULL;
        if (slab)
            give_back(slab);
    }
    return any;
}

void guarded_count_waiting(uint64_t *blocks, uint64_t *bytes)
{
    *blocks = *bytes = 0;
    for (size_t i = 0; i < WAITING; i++) {
        const struct slab *slab = atomic_load_explicit(&waiting[i], memory_order_acquire);
        *blocks += slab != NULL;
        *bytes += slab ? slab->block_bytes : 0;
    }
}

/* Lets a freed block wait without access. A block that has no guards, is too large or cannot be
 * guarded is filled and given back at once. A mapping needs no guard then: it is unmapped. */
static void wait_or_give_back(struct slab *slab)
{
    if (!is_guarded(slab) || slab->block_bytes > WAITING_LARGEST ||
        !pages_guard(slab->base, bytes_of(slab))) {
        memset(start_of(slab), FILL_BYTE,
               size_of(slab) < checked_fill_most ? size_of(slab) : checked_fill_most);
        give_back(slab);
        return;
    }
    unsigned index = atomic_fetch_add_explicit(&waiting_next, 1, memory_order_relaxed) % WAITING;
    struct slab *eldest = atomic_exchange_explicit(&waiting[index], slab, memory_order_acq_rel);
    if (eldest)
        give_back(eldest);
}

void guarded_free(struct slab *slab, const struct freeing *freeing)
{
    if (!guarded_is_live(slab, freeing->block)) {
        report_dead_pointer(freeing, slab);
        return;
    }
    struct block_facts facts = guarded_facts(slab);
    unsigned how = state_of(slab) >> HOW_SHIFT & 0xFF;
    if (how != freeing->how || (freeing->size != UNKNOWN_SIZE && freeing->size != facts.bytes))
        report_mismatch(freeing, facts, how);
    guarded_look(slab, freeing->function);
    if (__atomic_fetch_or(&slab->words[0].retired, DEAD, __ATOMIC_ACQ_REL) & DEAD) {
        report_dead_pointer(freeing, slab); /* [one ends a block]: another thread was faster */
        return;
    }
    slab->words[0].mark |= (uint64_t)site_of(freeing->site) << FREE_SITE_SHIFT;
    wait_or_give_back(slab);
}

static size_t room_of(const struct slab *slab)
{
    return (size_t)(end_of(slab, is_guarded(slab)) - start_of(slab));
}

/* Whoever looks finds this slack or the one before, both whole. */
static void set_size(struct slab *slab, size_t size)
{
    fill_slack(start_of(slab) + size, room_of(slab) - size);
    slab->words[0].mark = size;
}

bool guarded_resize_in_place(struct slab *slab, size_t size)
{
    if (size > room_of(slab) || size < size_of(slab) / 2)
        return false;
    set_size(slab, size);
    return true;
}

void guarded_shrink(struct slab *slab, size_t size)
{
    set_size(slab, size);
}

/* The program may have taken the access to a part of its own block away: of that nothing is told. A
 * handler reads the shape of a slab of which another thread may end the block: [any word] (heap.h).
 */
bool guarded_report_fault(const char *access, const void *address, const void *at)
{
    struct slab *slab = slab_at(address);
    if (!slab || !slab_is_large(slab) || !is_guarded(slab))
        return false;
    bool dead = (state_of(slab) & DEAD) != 0;
    bool in_guard =
        address < (void *)(slab->base + PAGE_BYTES) || address >= (void *)end_of(slab, true);
    if (!dead && !in_guard)
        return false;
    struct block_facts facts = guarded_facts(slab);
    facts.offset = (const char *)address - (const char *)facts.block;
    return report_access(access, address, dead ? "after its free" : "outside a block", &facts, at);
}
