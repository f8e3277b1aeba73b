/* SPDX-License-Identifier: MIT
 *
 * page_scan.h: what the kernel's headers of Debian 12 lack for asking which pages a process has and
 * which of them were written. Whether the running kernel has it is found out at run time.
 *
 * linux/fs.h of 6.7 has PAGEMAP_SCAN, linux/userfaultfd.h of 6.7 UFFD_FEATURE_WP_ASYNC. A file may
 * include these as well, so no name here is one of theirs.
 */
#ifndef ALLOTROPE_VM_KERNEL_PAGE_SCAN_H
#define ALLOTROPE_VM_KERNEL_PAGE_SCAN_H

#include <stdint.h>

struct scanned_region {
    uint64_t start, end, categories;
};

struct pagemap_scan {
    uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
    uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

enum {
    PAGE_WRITTEN = 1 << 1,
    PAGE_FILE = 1 << 2,
    PAGE_PRESENT = 1 << 3,
    PAGE_SWAPPED = 1 << 4,
    PAGE_ZERO = 1 << 5,
    PAGE_HUGE = 1 << 6
};

enum {
    SCAN_REPROTECT = 1 << 0,  /* PM_SCAN_WP_MATCHING */
    SCAN_CHECK_ASYNC = 1 << 1 /* PM_SCAN_CHECK_WPASYNC */
};

#define PAGEMAP_SCAN_REQUEST 0xC0606610UL /* _IOWR('f', 16, struct pm_scan_arg) */

_Static_assert(sizeof(struct pagemap_scan) == 0x60, "the size is part of the request's number");

#define USERFAULTS_WRITE_PROTECT_ASYNC (UINT64_C(1) << 15) /* UFFD_FEATURE_WP_ASYNC */

#endif
