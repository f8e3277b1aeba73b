/* SPDX-License-Identifier: MIT
 *
 * pages.h: address space from the kernel, and an account of it.
 *
 * Three states: reserved (address space only: no access, no charge against overcommit),
 * committed (readable, writable, zero until written), and discarded (committed, but its contents
 * given back). All sizes are bytes and multiples of PAGE_BYTES; all functions may be called from
 * any thread at any time and touch neither errno nor a lock.
 */
#ifndef ALLOTROPE_VM_PAGES_H
#define ALLOTROPE_VM_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES ((size_t)4096)
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static inline size_t round_up(size_t number, size_t power_of_two)
{
    return (number + power_of_two - 1) & ~(power_of_two - 1);
}

static inline size_t round_down(size_t number, size_t power_of_two)
{
    return number & ~(power_of_two - 1);
}

/* Address space without access, aligned to `alignment` (a power of two of at least PAGE_BYTES).
 * NULL when the kernel refuses. */
void *pages_reserve(size_t bytes, size_t alignment);

/* Committed zero pages at exactly [address, address + bytes). False when any of it is in use, or
 * refused. */
bool pages_map_at(void *address, size_t bytes);

/* Whether any of [address, address + bytes) is mapped. False also where the kernel maps no more,
 * for want of addresses, say. */
bool pages_in_use(void *address, size_t bytes);

/* Whether the kernel would give so many committed bytes now. */
bool pages_are_to_be_had(size_t bytes);

/* Whether there are so many free addresses in a row now. */
bool addresses_are_to_be_had(size_t bytes);

/* Committed zero pages, aligned to `alignment`. NULL when the kernel refuses. Only `bytes` stay
 * committed. To find an aligned place may take `bytes` and `alignment` of addresses for a
 * moment. */
void *pages_map(size_t bytes, size_t alignment);

/* Like pages_map(), but shared with the children that are made from then on. */
void *pages_map_shared(size_t bytes, size_t alignment);

/* Gives memory to all pages of a range that reads as zero, as a write to each would. One call costs
 * less than a fault for each. Does nothing in a sandbox, or where the kernel cannot (before Linux
 * 5.14). */
void pages_populate(void *address, size_t bytes);

/* Allows the kernel to bring whole huge pages for a write to this range, or forbids it. Does
 * nothing in a sandbox. */
void pages_allow_huge(void *address, size_t bytes, bool allow);

/* Makes the HUGE_PAGE_BYTES at `address`, a multiple of them, one huge page, and gives memory to
 * what had none. True also where it is one already. False: the kernel cannot (before Linux 6.1), or
 * refuses, or it is a sandbox. */
bool pages_make_huge(void *address);

/* Gives back the contents; the pages stay committed and read as zero. False: the kernel refuses,
 * and they are as they were. */
bool pages_discard(void *address, size_t bytes);

/* Advice of madvise, Linux 6.13; in no header of Debian 12. */
enum { ADVICE_GUARD_INSTALL = 102, ADVICE_GUARD_REMOVE = 103 };

/* Takes contents and all access away. This is done by marks in the page table, which split no
 * mapping. It is done by protection where the kernel does not know the marks, or where the pages
 * are locked: then the contents stay. False: the kernel refuses, or it is a sandbox. There is
 * access to all of the range then, and a part of the contents may be gone. */
bool pages_guard(void *address, size_t bytes);

/* Gives access again, whichever guards there are. The pages read as zero if all of them were
 * guarded and none was locked. Where the kernel refuses, or may not be asked (a sandbox), fresh
 * pages take the place, because a guard that stayed would meet the next user. False: not even that
 * was possible. The pages are guarded still, or address space without access is in their place. */
bool pages_unguard(void *address, size_t bytes);

/* Gives back the address space. The kernel may refuse when unmapping would split a mapping
 * beyond max_map_count: then the contents are discarded, false is returned and the range stays
 * the caller's. */
bool pages_unmap(void *address, size_t bytes);

/* Grows or shrinks a mapping where it is. False when it cannot: nothing has changed. */
bool pages_resize_in_place(void *address, size_t old_bytes, size_t new_bytes);

/* Reserves new_bytes for a mapping that is to move and grow: at `wanted` (aligned, or NULL) if that
 * is free, else anywhere at a multiple of `alignment`. NULL: there is no place. NULL also if the
 * kernel would not give now what the mapping grows by, or would not move it because the program has
 * split it by mprotect or madvise. This is found out here, because a mremap that fails has unmapped
 * its target by then (of a split mapping before Linux 6.17), and another thread may map something
 * there before the caller knows. */
void *pages_reserve_to_move(void *address, size_t old_bytes, void *wanted, size_t new_bytes,
                            size_t alignment);

/* Moves a mapping, without copying, onto the range [target, target + new_bytes), reserved to move.
 * False when the kernel refuses: the mapping is as it was. */
bool pages_move(void *address, size_t old_bytes, void *target, size_t new_bytes);

/* How many bytes of a range are in memory now. Costs about a millisecond per GiB. Not in a
 * sandbox. */
size_t pages_resident(void *address, size_t bytes);

/* From now on a system call that is not needed for the heap itself may end the process. */
void pages_enter_sandbox(void);
bool pages_are_in_sandbox(void);

/* How many system calls of each kind were made on behalf of the heap. */
struct page_calls {
    _Atomic uint64_t mmap, munmap, mremap, madvise;
    _Atomic uint64_t unmap_refused; /* see pages_unmap */
};
extern struct page_calls page_calls;

/* What the heap holds, in bytes. mapped: what the areas have handed to their heaps, large blocks
 * and metadata. peak: the most that `mapped` has been. metadata, areas: these parts of `mapped` by
 * themselves. */
extern struct heap_account {
    _Atomic size_t mapped, peak, metadata, areas;
} heap_account __attribute__((visibility("hidden")));
void account_mapped(ptrdiff_t change);
void account_areas(ptrdiff_t change);    /* a part of it */
void account_metadata(ptrdiff_t change); /* a part of it that no block can use */
size_t metadata_bytes(void);
size_t mapped_bytes(void);
size_t mapped_peak_bytes(void);

#endif
