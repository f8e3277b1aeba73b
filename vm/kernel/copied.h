/* SPDX-License-Identifier: MIT
 *
 * copied.h: which memory of its parent a forked child does not have.
 *
 *     the parent has said                     the child has
 *     MADV_DONTFORK                           no such mapping
 *     MADV_WIPEONFORK, or MAP_DROPPABLE       the mapping, empty
 *     MAP_HUGETLB                             the mapping, until the parent writes a page for whose
 *                                             copy there is no huge page: the child loses it then
 *
 * So the child compares its own mappings with those that the parent has read, and looks at the
 * flags that the kernel tells of each (smaps): "wf", which is inherited, and "ht". Shared mappings
 * are not looked at: what is in them the child has as long as they are mapped.
 */
#ifndef ALLOTROPE_VM_KERNEL_COPIED_H
#define ALLOTROPE_VM_KERNEL_COPIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/kernel/maps.h"

/* What the parent has read, in order of address; and room for the longest line of smaps. The parent
 * provides the room, and the child maps nothing before the comparison: a new mapping might fill the
 * very place of one that the child lacks. */
struct copied_list {
    const struct mapping *mappings;
    size_t count;
    char *buffer;
    size_t buffer_bytes;
};

/* Visits the private memory of the list that the calling process lacks, or has been given empty.
 * False: the kernel does not tell. */
typedef void copied_visitor(void *argument, uintptr_t start, uintptr_t end);
bool copied_each_missing(const struct copied_list *list, copied_visitor *visit, void *argument);

#endif
