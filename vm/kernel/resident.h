/* SPDX-License-Identifier: MIT
 *
 * resident.h: which pages of a range hold anything, without touching them.
 */
#ifndef ALLOTROPE_VM_KERNEL_RESIDENT_H
#define ALLOTROPE_VM_KERNEL_RESIDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* readable: the pages are in memory; otherwise they are in swap, or what the kernel calls so. */
typedef void resident_visitor(void *argument, uintptr_t start, uintptr_t end, bool readable);

/* Visits all runs of pages of a private mapping that the process has written to, in order; pages
 * of a file that it has only read are left out. Where one run ends another may begin: a word may
 * lie across. False: the kernel does not tell of all; a part from the start on may have been
 * visited. */
bool resident_each(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument);

/* Like resident_each(), but for a shared mapping: visits all pages that the process has there. */
bool resident_each_shared(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument);

/* Called at each collection, before the two above. False: the kernel does not tell. */
bool resident_open(void);

/* Whether each page is asked for by itself, so that a terabyte with nothing in it takes seconds.
 * Known once resident_open() was called. */
bool resident_is_slow(void);

/* Bytes of a range that are in memory and shared with no other process. 0 also where the kernel
 * does not tell. */
size_t resident_alone(uintptr_t start, uintptr_t end);

/* Whether a range is mapped by huge pages. False also where the kernel does not tell. */
bool resident_is_huge(uintptr_t start, uintptr_t end);

/* Counts what ranges of the caller's own memory have in memory. Shares no state with the walks
 * above: any thread, any time, but not in a sandbox. */
struct resident_count {
    int page_file; /* negative: none */
    uint64_t bytes;
    bool is_exact; /* else pages that were only read, all of them the kernel's one page of zeros,
                      may be among them */
};
void resident_count_begin(struct resident_count *count);
void resident_count_add(struct resident_count *count, char *start, size_t bytes);
void resident_count_end(struct resident_count *count);

#endif
