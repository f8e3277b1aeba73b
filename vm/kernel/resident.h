/* SPDX-License-Identifier: MIT
 *
 * resident.h: which pages of a range hold anything, without touching them.
 */
#ifndef ALLOTROPE_VM_KERNEL_RESIDENT_H
#define ALLOTROPE_VM_KERNEL_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>

/* readable: the pages are in memory; otherwise they are in swap, or what the kernel calls so. */
typedef void resident_visitor(void *argument, uintptr_t start, uintptr_t end, bool readable);

/* Visits all runs of pages of a private mapping that the process has written to, in order; pages
 * of a file that it has only read are left out. False: the kernel does not tell; nothing has been
 * visited. */
bool resident_each(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument);

/* The same of a shared mapping: all pages that the process has there. */
bool resident_each_shared(uintptr_t start, uintptr_t end, resident_visitor *visit, void *argument);

/* At each collection, before. */
bool resident_open(void);

#endif
