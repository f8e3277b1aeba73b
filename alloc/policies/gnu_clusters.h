/* SPDX-License-Identifier: MIT
 *
 * gnu_clusters.h: the free clusters of gnu's heap in bins by size, where clusters=binned asks for
 * it; see gnu_clusters.c.
 */
#ifndef ALLOTROPE_ALLOC_POLICIES_GNU_CLUSTERS_H
#define ALLOTROPE_ALLOC_POLICIES_GNU_CLUSTERS_H

#include "alloc/policies/gnu.h"

/* In the first word of an entry, where a page in use has its kind and a free cluster its pages. */
#define GNU_FREE_MARK ((size_t)1 << 63)

/* Whether a free cluster begins or ends with a page. The table itself may lie behind the last page
 * that it describes. */
static inline bool cluster_is_at(const struct gnu_heap *heap, size_t index)
{
    return index < heap->table_entries && (heap->table[index].free.pages & GNU_FREE_MARK) != 0;
}

/* Pages of the cluster that begins or ends with the page at `index`. */
static inline size_t cluster_pages(const struct gnu_heap *heap, size_t index)
{
    return heap->table[index].free.pages & ~GNU_FREE_MARK;
}

/* Makes pages a free cluster. Neither neighbour may be one. */
void cluster_add(struct gnu_heap *heap, size_t index, size_t pages);

/* Makes the cluster that begins at `index` none. Returns its pages. */
size_t cluster_remove(struct gnu_heap *heap, size_t index);

/* The first page of the cluster that ends where the memory ends; 0: none does. */
size_t cluster_last(const struct gnu_heap *heap);

/* A cluster of at least so many pages, the last one only if no other will do; 0: none. length: of
 * the search. */
size_t cluster_find(const struct gnu_heap *heap, size_t pages, uint64_t *length);

/* Whether bins, marks and map agree, and there are so many clusters. */
bool clusters_are_whole(const struct gnu_heap *heap, size_t count);

#endif
