/* SPDX-License-Identifier: MIT
 *
 * dirty.h: which pages were written since somebody last looked.
 *
 * This is the primitive `dirty` that Appel and Li (1991) asked kernels for. Linux has it since 6.7:
 * a userfaultfd with WP_ASYNC lets the kernel itself take off the write protection of a page at the
 * first write, without a signal, and PAGEMAP_SCAN lists the pages that have none and protects them
 * again in the same step. System calls that write into protected memory succeed.
 *
 *     provider    what is dirty
 *     async       the pages that the kernel says were written
 *     none        everything, always
 *
 * A consumer is somebody who wants to know. The kernel has one bit for each page, so a scan by one
 * consumer that protects pages would take the news from the others. So each consumer has a bitmap
 * of its own, and each harvest enters what it finds into all of them. Only the consumer clears its
 * bits.
 *
 *     the kernel's bit --harvest--> DIRTY_GENERATIONS: | 0 1 1 0 ... |
 *                             `---> DIRTY_CYCLE:       | 0 1 0 0 ... |
 *
 * A round of one consumer, in this order:
 *
 *     struct dirty_scan scan = dirty_begin();
 *     dirty_look(&scan, start, end);                    the bits of all consumers are up to date
 *     ... dirty_next_run(consumer, &run) ...            what was written
 *     dirty_clean(consumer, start, end)                 what it has dealt with
 *     dirty_reprotect(&scan, old, old_end)              the pages of which it wants to hear
 *     dirty_clean(consumer, old, old_end)               in a stopped world: no news
 *
 * Protecting a page costs a fault at its next write (1 µs). So all of the heap is tracked, but only
 * pages that are not expected to be written are protected. A page that is not protected is dirty at
 * each look, and costs nothing. Pages that dirty_reprotect enters are news, as those of dirty_look
 * are. A consumer that needs it reads it before the next harvest. It may clean it unread where the
 * world is stopped and it has dealt with the page since the last write, as above; and where it
 * needs no news: DIRTY_CYCLE before the first stop, and in a cycle that marks in a child.
 *
 * Invariants
 * [clean is proven]     A page reads as clean to a consumer only if the consumer has cleaned it,
 *                       and each harvest since then has succeeded and said that it was not
 *                       written. Pages that are not tracked are dirty.
 * [doubt is dirty]      Where a scan fails, even after it has protected a part of the pages, all
 *                       pages of the range that it was asked for are dirty to all consumers.
 * [no bit unseen]       No call takes a page's kernel bit without entering it in every bitmap.
 * [own memory only]     No ioctl is made in a process whose memory is not that of dirty_open or
 *                       dirty_forked: inherited descriptors still mean the parent's memory.
 *
 * What it does not see: a page whose contents were discarded (MADV_DONTNEED) is no longer there,
 * and so not reported; it reads as zero. Writes by another mapping of the same memory. Writes by a
 * device into pages that the kernel had pinned before they were protected (registered buffers of
 * io_uring).
 *
 * No libc, no lock but that of metadata (dirty_open and dirty_track only); errno is kept.
 */
#ifndef ALLOTROPE_VM_KERNEL_DIRTY_H
#define ALLOTROPE_VM_KERNEL_DIRTY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dirty_provider { DIRTY_NONE, DIRTY_ASYNC };
enum dirty_consumer { DIRTY_GENERATIONS, DIRTY_CYCLE, DIRTY_CONSUMERS };

/* Makes the call userfaultfd(flags) under a recorder. Valgrind answers ENOSYS to the program's own
 * call, though the kernel has it, and tells the user so. Returns as a system call does. After
 * -ENOSYS the call is made here. Set before dirty_open. */
typedef long userfaultfd_opener(long flags);
void dirty_open_by(userfaultfd_opener *opener);

/* Chooses the provider: DIRTY_ASYNC if it is wanted and the kernel has it, which is tried out on
 * pages of its own. Once, before all else here; takes metadata_lock. */
enum dirty_provider dirty_open(enum dirty_provider wanted);

/* Called in the child of a fork, before any other function here. All pages of the child are dirty.
 * Its ranges are tracked again by the first harvest of each. Returns the provider. */
enum dirty_provider dirty_forked(void);

/* For statistics. */
struct dirty_counts {
    enum dirty_provider provider;
    const char *refused; /* why not DIRTY_ASYNC; NULL: it is, or was not wanted */
    uint64_t scans, doubts, retracked;
};
struct dirty_counts dirty_counts(void);

/* Tracks a range that is mapped. All its pages are dirty, and none is protected. False: the kernel
 * refuses, or there is no memory; the pages stay dirty. Addresses are multiples of the page size
 * everywhere here. Any thread; takes metadata_lock, so never while threads are stopped. */
bool dirty_track(uintptr_t start, uintptr_t end);

/* Ends the tracking of a range: writes cost nothing any more, and all pages are dirty. Needed where
 * memory stays mapped; memory that was unmapped or moved is not tracked any more by itself. */
void dirty_untrack(uintptr_t start, uintptr_t end);

/* One harvest. dirty_begin() looks at the descriptors once for all of it. There is one harvest at a
 * time. */
struct dirty_scan {
    int page_file; /* negative: all is dirty */
};
struct dirty_scan dirty_begin(void);

/* Asks the kernel which pages of a range are not protected, or no longer, and enters them in all
 * bitmaps. False: the answer is in doubt, and all pages of the range were entered. A range whose
 * tracking was lost is tracked again, for the next time. */
bool dirty_look(const struct dirty_scan *scan, uintptr_t start, uintptr_t end);

/* Like dirty_look(), but also protects the pages that it enters, in the same step. */
bool dirty_reprotect(const struct dirty_scan *scan, uintptr_t start, uintptr_t end);

/* Whether a page is dirty, as of the last harvest. */
bool dirty_page(enum dirty_consumer consumer, uintptr_t address);

/* Finds the first run of dirty pages in [run->start, run->end), and puts its bounds in their place.
 * False: there is none. */
struct dirty_run {
    uintptr_t start, end;
};
bool dirty_next_run(enum dirty_consumer consumer, struct dirty_run *run);

/* Clears the consumer's bits of a range that it has dealt with. */
void dirty_clean(enum dirty_consumer consumer, uintptr_t start, uintptr_t end);

/* Makes a range dirty to all consumers. For a caller that changes memory in a way that the kernel
 * does not report, or that has not kept what it learned of it. */
void dirty_set(uintptr_t start, uintptr_t end);

#endif
