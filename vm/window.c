/* SPDX-License-Identifier: MIT
 *
 * window.c: see window.h.
 */
#include "vm/window.h"

#include <sys/auxv.h>

#include "vm/fork_chain.h"
#include "vm/lock.h"
#include "vm/metadata.h"
#include "vm/pages.h"
#include "vm/sanitizer.h"
#include "vm/syscall.h"
#include "vm/written.h"

static const uintptr_t BASE_ALIGNMENT = (uintptr_t)2 << 20;

/* The lowest base, and by how much it may differ. Java's ZGC has its heap from 4 TiB on, Go and
 * GHC have theirs below 2 TiB. The sanitizers' shadows lie from 1 to 32 TiB; what both the address
 * and the thread sanitizer leave to programs are 1.5 TiB from this address on. */
static const uintptr_t LOWEST_BASE = UNDER_SANITIZER ? 0x552000000000 : (uintptr_t)0x210 << 32;
static const uintptr_t RANDOM_BYTES = UNDER_SANITIZER ? 1 : (uintptr_t)1 << 40;

/* Something else may have been mapped in the window's way: a page, or the address space that a
 * virtual machine reserves. A call passes over it by twice as much at each attempt, this much at
 * the first. */
static const size_t LEAST_DETOUR = (size_t)1 << 30;

WRITTEN_AT_START struct window window;
static struct lock window_lock = LOCK_INITIALIZER(RANK_PAGES);

/* The addresses at which the kernel has put this library and the vDSO; of a static program only the
 * latter is random. Takes no system call. */
static uintptr_t random_bits(void)
{
    return (uintptr_t)&window + getauxval(AT_SYSINFO_EHDR);
}

void window_init(unsigned shadow_shift)
{
    fork_chain_add(&metadata_lock); /* every heap stands on both */
    fork_chain_add(&window_lock);
    window.base = LOWEST_BASE + round_down(random_bits() & (RANDOM_BYTES - 1), BASE_ALIGNMENT);
    window.shadow = (uint8_t *)window.base - (WINDOW_BYTES >> UNIT_SHIFT);
    window.shadow_shift = shadow_shift;
}

bool window_is_occupied(void)
{
    unsigned char resident;
    long asked = SYSCALL_3(SYS_mincore, window.base, PAGE_BYTES, &resident);
    return window_used_bytes() == 0 && !syscall_failed(asked);
}

/* The shadow of what a detour leaves out is mapped too: nothing there is ever live. */
static bool map_shadow(size_t from, size_t to)
{
    if (window.shadow_shift == 0)
        return true;
    size_t first = round_up(from >> window.shadow_shift, PAGE_BYTES);
    size_t end = round_up(to >> window.shadow_shift, PAGE_BYTES);
    return first == end || pages_map_at(window.shadow + first, end - first);
}

static void *take_at(size_t offset, size_t bytes)
{
    size_t used = window_used_bytes();
    char *start = (char *)window.base + offset;
    if (offset + bytes > WINDOW_BYTES || !pages_map_at(start, bytes))
        return NULL;
    if (!map_shadow(used, offset + bytes)) {
        pages_unmap(start, bytes);
        return NULL;
    }
    atomic_store_explicit(&window.used_units, (offset + bytes) >> UNIT_SHIFT, memory_order_release);
    return start;
}

void *window_take(size_t bytes)
{
    void *start = NULL;
    lock_acquire(&window_lock);
    size_t offset = window_used_bytes();
    for (size_t detour = LEAST_DETOUR; !start && offset < WINDOW_BYTES; detour *= 2) {
        start = take_at(offset, bytes);
        /* Only an address in use is passed over; memory that is refused is refused everywhere. */
        if (!start && !pages_in_use((char *)window.base + offset, bytes))
            break;
        offset += detour;
    }
    lock_release(&window_lock);
    return start;
}
