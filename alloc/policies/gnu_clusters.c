/* SPDX-License-Identifier: MIT
 *
 * gnu_clusters.c: free clusters of pages, found by size and by place in constant time.
 *
 * The published heap keeps its clusters in one list by address: to free a run is to walk to its
 * place in the list, and to look for room is to walk along it. Here a cluster's first and last
 * entry in the page table are marked and hold its pages, like boundary tags, so that a freed run
 * finds its neighbours; and clusters of one bin of sizes (free_bins.h) are linked by their first
 * entries, the newest first. The last cluster of memory is in no bin.
 *
 *   table  | ... | pages, next, previous | . | . | pages | ... |
 *                  first: marked                   last: marked
 *
 * No entry is marked but the first and last ones of free clusters: what is in use need not write
 * its own.
 */
#include "alloc/policies/gnu_clusters.h"

static bool is_last(const struct gnu_heap *heap, size_t index, size_t pages)
{
    return index + pages == heap->limit;
}

static void mark(struct gnu_heap *heap, size_t index, size_t pages)
{
    heap->table[index].free.pages = pages | GNU_FREE_MARK;
    heap->table[index + pages - 1].free.pages = pages | GNU_FREE_MARK;
}

static void put_into_bin(struct gnu_heap *heap, unsigned bin, size_t index)
{
    size_t next = heap->bins[bin];
    heap->table[index].free.next = next;
    heap->table[index].free.previous = 0;
    if (next != 0)
        heap->table[next].free.previous = index;
    heap->bins[bin] = index;
    free_bin_set(&heap->bin_map, bin);
}

static void take_from_bin(struct gnu_heap *heap, unsigned bin, size_t index)
{
    size_t next = heap->table[index].free.next, previous = heap->table[index].free.previous;
    if (next != 0)
        heap->table[next].free.previous = previous;
    if (previous != 0)
        heap->table[previous].free.next = next;
    else
        heap->bins[bin] = next;
    if (heap->bins[bin] == 0)
        free_bin_clear(&heap->bin_map, bin);
}

void cluster_add(struct gnu_heap *heap, size_t index, size_t pages)
{
    mark(heap, index, pages);
    if (!is_last(heap, index, pages))
        put_into_bin(heap, free_bin_of(pages), index);
}

size_t cluster_remove(struct gnu_heap *heap, size_t index)
{
    size_t pages = cluster_pages(heap, index);
    if (!is_last(heap, index, pages))
        take_from_bin(heap, free_bin_of(pages), index);
    heap->table[index].free.pages = 0;
    heap->table[index + pages - 1].free.pages = 0;
    return pages;
}

size_t cluster_last(const struct gnu_heap *heap)
{
    size_t end = heap->limit;
    return cluster_is_at(heap, end - 1) ? end - cluster_pages(heap, end - 1) : 0;
}

/* The first cluster that serves of a bin that is not empty, among as many as a search may look at;
 * 0: none. */
static size_t find_in_bin(const struct gnu_heap *heap, unsigned bin, size_t pages, uint64_t *length)
{
    size_t index = heap->bins[bin];
    for (unsigned i = 0; index != 0 && i < BINNED_SEARCH_LIMIT; i++) {
        ++*length;
        if (cluster_pages(heap, index) >= pages)
            return index;
        index = heap->table[index].free.next;
    }
    return 0;
}

size_t cluster_find(const struct gnu_heap *heap, size_t pages, uint64_t *length)
{
    unsigned bin = free_bin_next(&heap->bin_map, free_bin_of(pages));
    while (bin < FREE_BINS) {
        size_t index = find_in_bin(heap, bin, pages, length);
        if (index != 0)
            return index;
        bin = free_bin_next(&heap->bin_map, bin + 1);
    }
    size_t last = cluster_last(heap);
    return last != 0 && cluster_pages(heap, last) >= pages ? last : 0;
}

bool clusters_are_whole(const struct gnu_heap *heap, size_t count)
{
    size_t seen = cluster_last(heap) != 0;
    for (unsigned bin = 0; bin < FREE_BINS; bin++) {
        size_t previous = 0;
        if ((free_bin_next(&heap->bin_map, bin) == bin) != (heap->bins[bin] != 0))
            return false;
        for (size_t index = heap->bins[bin]; index != 0; index = heap->table[index].free.next) {
            size_t pages = cluster_pages(heap, index);
            if (!cluster_is_at(heap, index) || free_bin_of(pages) != bin ||
                is_last(heap, index, pages) || !cluster_is_at(heap, index + pages - 1) ||
                cluster_pages(heap, index + pages - 1) != pages ||
                cluster_is_at(heap, index + pages) ||
                heap->table[index].free.previous != previous || ++seen > count)
                return false;
            previous = index;
        }
    }
    return seen == count;
}
