/* SPDX-License-Identifier: MIT
 *
 * pages.c: see pages.h.
 */
#include "vm/pages.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/mman.h>

#include "vm/syscall.h"
#include "vm/written.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

WRITTEN_AT_START struct page_calls page_calls;

WRITTEN_AT_START struct heap_account heap_account;

static void count(_Atomic uint64_t *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static long ask_for(void *address, size_t bytes, int protection, int flags)
{
    count(&page_calls.mmap);
    return SYSCALL_6(SYS_mmap, address, bytes, protection,
                     MAP_ANONYMOUS | flags | (flags & MAP_SHARED ? 0 : MAP_PRIVATE), -1, 0);
}

static void *map(void *address, size_t bytes, int protection, int flags)
{
    long result = ask_for(address, bytes, protection, flags);
    return syscall_failed(result) ? NULL : (void *)result;
}

bool pages_unmap(void *address, size_t bytes)
{
    count(&page_calls.munmap);
    if (!syscall_failed(SYSCALL_2(SYS_munmap, address, bytes)))
        return true;
    count(&page_calls.unmap_refused);
    pages_discard(address, bytes);
    return false;
}

/* Maps more than `bytes`, and unmaps what lies on either side of the aligned part. */
static void *map_and_trim(size_t bytes, size_t alignment, int protection, int flags)
{
    size_t padded = bytes + alignment - PAGE_BYTES;
    char *start = padded < bytes ? NULL : map(NULL, padded, protection, flags);
    if (!start)
        return NULL;
    char *aligned = (char *)round_up((uintptr_t)start, alignment);
    if (aligned > start)
        pages_unmap(start, (size_t)(aligned - start));
    if (aligned + bytes < start + padded)
        pages_unmap(aligned + bytes, (size_t)(start + padded - (aligned + bytes)));
    return aligned;
}

/* For a kernel that counts what map_and_trim unmaps again as committed, and refuses it. Reserves
 * the whole, and commits the aligned part alone. Memory without access counts only if it is shared.
 * It is committed by its protection, because a MAP_FIXED that fails may have unmapped the place
 * (Linux before 6.12), and another thread may have it then. */
static void *map_in_reserved(size_t bytes, size_t alignment, int protection, int flags)
{
    char *start = map_and_trim(bytes, alignment, PROT_NONE, flags);
    if (start && syscall_failed(SYSCALL_3(SYS_mprotect, start, bytes, protection))) {
        pages_unmap(start, bytes);
        return NULL;
    }
    return start;
}

/* The kernel places a mapping directly below the one before it, so the plain size is tried
 * first. */
static void *map_anywhere(size_t bytes, size_t alignment, int protection, int flags)
{
    char *start = map(NULL, bytes, protection, flags);
    if (!start || ((uintptr_t)start & (alignment - 1)) == 0)
        return start;
    pages_unmap(start, bytes);
    start = map_and_trim(bytes, alignment, protection, flags);
    return start ? start : map_in_reserved(bytes, alignment, protection, flags);
}

/* Old words on a stack are often pointers whose lower half was overwritten by a small number. Such
 * a word points to a multiple of 4 GiB or just behind it. A conservative collector keeps the block
 * that lies there, if libraries and mappings share the upper half. So no mapping from 1 MiB to 4
 * GiB lies there. Smaller ones are seldom met, and larger ones cannot avoid it. */
static const uintptr_t HALF = (uintptr_t)1 << 32;

static bool lies_at_a_half(uintptr_t start, size_t bytes)
{
    return bytes >= (size_t)1 << 20 && bytes < HALF && (start - 1) / HALF != (start + bytes) / HALF;
}

/* Takes the addresses about the multiple of 4 GiB for good, so that no other mapping gets them. */
static void bar(uintptr_t half)
{
    const size_t below = PAGE_BYTES, above = 16 * PAGE_BYTES; /* a block's end counts too */
    void *wanted = (void *)(half - below);
    void *got = map(wanted, below + above, PROT_NONE, MAP_FIXED_NOREPLACE | MAP_NORESERVE);
    if (got && got != wanted)
        pages_unmap(got, below + above);
}

static void *map_aligned(size_t bytes, size_t alignment, int protection, int flags)
{
    char *start = map_anywhere(bytes, alignment, protection, flags);
    if (start && lies_at_a_half((uintptr_t)start, bytes) && pages_unmap(start, bytes)) {
        bar(round_down((uintptr_t)start + bytes, HALF));
        start = map_anywhere(bytes, alignment, protection, flags);
    }
    return start;
}

void *pages_reserve(size_t bytes, size_t alignment)
{
    return map_aligned(bytes, alignment, PROT_NONE, MAP_NORESERVE);
}

static void *map_at(void *address, size_t bytes, int protection, int flags)
{
    void *got = map(address, bytes, protection, flags | MAP_FIXED_NOREPLACE);
    if (got && got != address) /* a kernel before 4.17, or Valgrind, takes it as a hint */
        pages_unmap(got, bytes);
    return got == address ? got : NULL;
}

bool pages_map_at(void *address, size_t bytes)
{
    return map_at(address, bytes, PROT_READ | PROT_WRITE, 0) != NULL;
}

bool pages_in_use(void *address, size_t bytes)
{
    long got = ask_for(address, bytes, PROT_NONE, MAP_FIXED_NOREPLACE | MAP_NORESERVE);
    if (syscall_failed(got))
        return got == -EEXIST;
    pages_unmap((void *)got, bytes);
    return (void *)got != address;
}

static bool is_to_be_had(size_t bytes, int protection, int flags)
{
    void *got = map(NULL, bytes, protection, flags);
    if (got)
        pages_unmap(got, bytes);
    return got != NULL;
}

bool pages_are_to_be_had(size_t bytes)
{
    return is_to_be_had(bytes, PROT_READ | PROT_WRITE, 0);
}

bool addresses_are_to_be_had(size_t bytes)
{
    return is_to_be_had(bytes, PROT_NONE, MAP_NORESERVE);
}

/* Whether the kernel could move the mapping to grow it. It is asked to grow the mapping where it
 * is: ENOMEM says that there is no room, another error that nothing can be done with it. */
static bool can_grow_elsewhere(void *address, size_t old_bytes, size_t new_bytes)
{
    count(&page_calls.mremap);
    long grown = SYSCALL_4(SYS_mremap, address, old_bytes, new_bytes, 0);
    if (!syscall_failed(grown)) /* there is room by now */
        pages_resize_in_place(address, new_bytes, old_bytes);
    return !syscall_failed(grown) || grown == -ENOMEM;
}

void *pages_reserve_to_move(void *address, size_t old_bytes, void *wanted, size_t new_bytes,
                            size_t alignment)
{
    if (new_bytes > old_bytes && (!can_grow_elsewhere(address, old_bytes, new_bytes) ||
                                  !pages_are_to_be_had(new_bytes - old_bytes)))
        return NULL;
    char *target = wanted ? map_at(wanted, new_bytes, PROT_NONE, MAP_NORESERVE) : NULL;
    return target ? target : pages_reserve(new_bytes, alignment);
}

void *pages_map(size_t bytes, size_t alignment)
{
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE, 0);
}

void *pages_map_shared(size_t bytes, size_t alignment)
{
    return map_aligned(bytes, alignment, PROT_READ | PROT_WRITE, MAP_SHARED);
}

bool pages_discard(void *address, size_t bytes)
{
    count(&page_calls.madvise);
    return !syscall_failed(SYSCALL_3(SYS_madvise, address, bytes, MADV_DONTNEED));
}

/* Takes away guards of both kinds. False: the kernel refuses one of them. */
static bool remove_guards(void *address, size_t bytes)
{
    count(&page_calls.madvise);
    return !syscall_failed(SYSCALL_3(SYS_madvise, address, bytes, ADVICE_GUARD_REMOVE)) &
           !syscall_failed(SYSCALL_3(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE));
}

/* Where the kernel refuses, it may have got through a part of the mappings that lie there. */
bool pages_guard(void *address, size_t bytes)
{
    if (pages_are_in_sandbox())
        return false;
    count(&page_calls.madvise);
    if (!syscall_failed(SYSCALL_3(SYS_madvise, address, bytes, ADVICE_GUARD_INSTALL)))
        return true;
    if (syscall_failed(SYSCALL_3(SYS_mprotect, address, bytes, PROT_NONE))) {
        remove_guards(address, bytes);
        return false;
    }
    pages_discard(address, bytes);
    return true;
}

bool pages_unguard(void *address, size_t bytes)
{
    if (!pages_are_in_sandbox() && remove_guards(address, bytes))
        return true;
    if (map(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED))
        return true;
    map_at(address, bytes, PROT_NONE,
           MAP_NORESERVE); /* see map_in_reserved: the place may be free */
    return false;
}

bool pages_resize_in_place(void *address, size_t old_bytes, size_t new_bytes)
{
    count(&page_calls.mremap);
    return !syscall_failed(SYSCALL_4(SYS_mremap, address, old_bytes, new_bytes, 0));
}

bool pages_move(void *address, size_t old_bytes, void *target, size_t new_bytes)
{
    count(&page_calls.mremap);
    return !syscall_failed(SYSCALL_5(SYS_mremap, address, old_bytes, new_bytes,
                                     MREMAP_MAYMOVE | MREMAP_FIXED, target));
}

size_t pages_resident(void *address, size_t bytes)
{
    enum { PAGES_AT_ONCE = 1024 };
    unsigned char in_core[PAGES_AT_ONCE];
    size_t resident = 0;
    for (size_t done = 0; done < bytes;) {
        size_t step =
            bytes - done < PAGES_AT_ONCE * PAGE_BYTES ? bytes - done : PAGES_AT_ONCE * PAGE_BYTES;
        if (!syscall_failed(SYSCALL_3(SYS_mincore, (char *)address + done, step, in_core)))
            for (size_t page = 0; page < step / PAGE_BYTES; page++)
                resident += in_core[page] & 1 ? PAGE_BYTES : 0;
        done += step;
    }
    return resident;
}

static _Atomic bool in_sandbox;

void pages_enter_sandbox(void)
{
    atomic_store_explicit(&in_sandbox, true, memory_order_relaxed);
}

bool pages_are_in_sandbox(void)
{
    return atomic_load_explicit(&in_sandbox, memory_order_relaxed);
}

/* A kernel that does not know the advice is not asked again. */
void pages_populate(void *address, size_t bytes)
{
    static _Atomic bool unknown;
    if (pages_are_in_sandbox() || atomic_load_explicit(&unknown, memory_order_relaxed))
        return;
    count(&page_calls.madvise);
    if (SYSCALL_3(SYS_madvise, address, bytes, MADV_POPULATE_WRITE) == -EINVAL)
        atomic_store_explicit(&unknown, true, memory_order_relaxed);
}

void pages_allow_huge(void *address, size_t bytes, bool allow)
{
    if (pages_are_in_sandbox())
        return;
    count(&page_calls.madvise);
    SYSCALL_3(SYS_madvise, address, bytes, allow ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* The C library of Debian 12 does not name the advice. */
bool pages_make_huge(void *address)
{
    enum { ADVICE_COLLAPSE = 25 }; /* MADV_COLLAPSE */
    if (pages_are_in_sandbox())
        return false;
    count(&page_calls.madvise);
    return !syscall_failed(SYSCALL_3(SYS_madvise, address, HUGE_PAGE_BYTES, ADVICE_COLLAPSE));
}

void account_mapped(ptrdiff_t change)
{
    size_t now =
        atomic_fetch_add_explicit(&heap_account.mapped, (size_t)change, memory_order_relaxed) +
        (size_t)change;
    size_t peak = atomic_load_explicit(&heap_account.peak, memory_order_relaxed);
    while (now > peak &&
           !atomic_compare_exchange_weak_explicit(&heap_account.peak, &peak, now,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

void account_areas(ptrdiff_t change)
{
    atomic_fetch_add_explicit(&heap_account.areas, (size_t)change, memory_order_relaxed);
    account_mapped(change);
}

void account_metadata(ptrdiff_t change)
{
    atomic_fetch_add_explicit(&heap_account.metadata, (size_t)change, memory_order_relaxed);
    account_mapped(change);
}

size_t metadata_bytes(void)
{
    return atomic_load_explicit(&heap_account.metadata, memory_order_relaxed);
}

size_t mapped_bytes(void)
{
    return atomic_load_explicit(&heap_account.mapped, memory_order_relaxed);
}

size_t mapped_peak_bytes(void)
{
    return atomic_load_explicit(&heap_account.peak, memory_order_relaxed);
}
