/* SPDX-License-Identifier: MIT
 *
 * gnu.c: Haertel's hybrid of fragments and pages.
 *
 * Requests up to half a page are rounded up to a power of two and served from chunks: pages cut
 * into fragments of one size. What a page is stands in a table that is indexed by page number,
 * so fragments need no header and powers of two fit. When the last fragment of a chunk is freed
 * the page is free again, for any size. Larger requests get whole pages by next fit over the
 * free clusters, which are kept in order of address and merged.
 *
 *   table  | 0: head | cluster 1 ... | chunk | chunk | free cluster ... |   one entry a page
 *   heap   | table ....... | run of pages ... | fragments | fragments | ............ |
 *   chunk  | fragment | next previous | fragment | next previous |   free ones doubly linked,
 *          those of one chunk side by side in the list
 *
 * Fixed by the source: all of this; the least fragment holds two pointers; the search goes in a
 * circle from a saved index; the table doubles and lives in the heap, where an outgrown one is
 * freed; a chunk is released when all is free; eight free pages or more at the end are returned.
 *
 * Open, and chosen here: the fragments of a new chunk are pushed one by one, so the first is
 * handed out at once and the others from the last down; a freed fragment goes behind the first
 * free one of its chunk, or, alone there, to the front of the list; the low end of a cluster is
 * handed out and the search resumes behind it; when nothing fits, memory grows by what the last
 * cluster lacks; freeing leaves the index at the freed cluster, or the one before if that was
 * returned; the table begins with 1,024 entries (4 MiB); realloc keeps a fragment while more
 * than half of it is needed, sheds pages at the end of a run, and frees a run that must grow
 * before it looks for the new one. Blocks aligned to more than 16 are powers of two, or runs
 * whose ends are shed. Memory need not adjoin, but only grows upwards: what lies between is never
 * free.
 *
 * Not as published, where parts=on asks for it: between half a page and four pages there are
 * fragments too, four sizes to a doubling, in chunks of three, five or seven pages. By whole pages
 * a block of 4,400 bytes takes 8,192.
 *
 * And where clusters=binned asks for it, free clusters are found in bins by size and by marks in
 * the table (gnu_clusters.h), not in a list by address; the last one of memory is taken last; and a
 * run that must grow is copied. Fragments are the same.
 *
 * Source: M. Haertel, malloc of the GNU C library; as measured by B. Zorn, CU-CS-573-92, 2.1.
 */
#include "alloc/policies/gnu.h"

#include <string.h>

#include "alloc/policies/gnu_clusters.h"
#include "vm/message.h"
#include "vm/pages.h"

enum {
    FIRST_TABLE_ENTRIES = 1024,
    LARGEST_FRAGMENT = GNU_PAGE_BYTES / 2,
};

static void gnu_init(void *state, struct page_source *pages, const void *options)
{
    struct gnu_heap *heap = state;
    const struct gnu_options *chosen = options;
    heap->pages = pages;
    heap->counters.on = chosen->counters;
    heap->least_log = (unsigned)chosen->least_log;
    heap->final_free_pages = chosen->final_free_pages;
    heap->parts = chosen->parts;
    heap->binned = chosen->clusters == GNU_CLUSTERS_BINNED;
}

/* Page numbers. */

static size_t pages_for(size_t bytes)
{
    return (bytes + GNU_PAGE_BYTES - 1) >> GNU_PAGE_LOG;
}

/* The number of the page that holds an address. */
static size_t index_of(const struct gnu_heap *heap, const void *address)
{
    return ((size_t)((const char *)address - heap->base) >> GNU_PAGE_LOG) + 1;
}

static char *address_of(const struct gnu_heap *heap, size_t index)
{
    return heap->base + ((index - 1) << GNU_PAGE_LOG);
}

/* Memory. */

static void set_run(struct gnu_heap *heap, size_t index, size_t pages)
{
    heap->table[index].busy.kind = 0;
    heap->table[index].busy.pages = pages;
}

static void free_pages(struct gnu_heap *heap, size_t index, bool may_return);

/* New memory without an entry in the table. 0: refused, or below the heap. */
static size_t extend(struct gnu_heap *heap, size_t pages)
{
    char *start = heap->pages->extend(heap->pages, pages << GNU_PAGE_LOG);
    if (!start)
        return 0;
    if (!heap->base)
        heap->base = start;
    if (start < heap->base) {
        heap->pages->retract(heap->pages, pages << GNU_PAGE_LOG);
        return 0;
    }
    size_t index = index_of(heap, start);
    heap->limit = index + pages;
    return index;
}

/* Gives the last pages back, if the source takes them. */
static bool return_pages(struct gnu_heap *heap, size_t pages)
{
    bool returned = heap->pages->retract(heap->pages, pages << GNU_PAGE_LOG);
    if (returned)
        heap->limit -= pages;
    return returned;
}

static bool make_first_table(struct gnu_heap *heap)
{
    size_t index = extend(heap, pages_for(FIRST_TABLE_ENTRIES * sizeof *heap->table));
    if (index == 0)
        return false;
    heap->table = (union gnu_page *)address_of(heap, index);
    heap->table_entries = FIRST_TABLE_ENTRIES;
    return true;
}

/* Moves the table to one with room for `entries`, and frees the old one. */
static bool grow_table(struct gnu_heap *heap, size_t entries)
{
    size_t old_bytes = heap->table_entries * sizeof *heap->table;
    size_t new_entries = heap->table_entries;
    while (new_entries < entries)
        new_entries *= 2;
    size_t index = extend(heap, pages_for(new_entries * sizeof *heap->table));
    if (index == 0)
        return false;
    size_t old_index = index_of(heap, heap->table);
    union gnu_page *table = (union gnu_page *)address_of(heap, index);
    memcpy(table, heap->table, old_bytes);
    heap->table = table;
    heap->table_entries = new_entries;
    set_run(heap, old_index, pages_for(old_bytes));
    free_pages(heap, old_index, true);
    return true;
}

/* New pages that the table can describe. 0: refused. */
static size_t more_core(struct gnu_heap *heap, size_t pages)
{
    size_t index = extend(heap, pages);
    if (index != 0 && index + pages > heap->table_entries && !grow_table(heap, index + pages)) {
        return_pages(heap, pages);
        return 0;
    }
    return index;
}

/* Runs of pages. */

static void unlink_cluster(struct gnu_heap *heap, size_t index)
{
    union gnu_page *table = heap->table;
    table[table[index].free.previous].free.next = table[index].free.next;
    table[table[index].free.next].free.previous = table[index].free.previous;
}

/* Takes the low end of a free cluster; the search resumes behind it. */
static void take_pages(struct gnu_heap *heap, size_t index, size_t pages)
{
    union gnu_page *table = heap->table;
    if (table[index].free.pages > pages) {
        size_t rest = index + pages;
        table[rest].free.pages = table[index].free.pages - pages;
        table[rest].free.next = table[index].free.next;
        table[rest].free.previous = table[index].free.previous;
        table[table[index].free.previous].free.next = rest;
        table[table[index].free.next].free.previous = rest;
        heap->search_index = rest;
        count_split(&heap->counters);
    } else {
        unlink_cluster(heap, index);
        heap->search_index = table[index].free.next;
    }
    set_run(heap, index, pages);
}

/* Extends the last cluster, which ends where the memory ends, to `pages`. 0: refused, or the new
 * memory does not adjoin and is now the last cluster itself. */
static size_t extend_last_cluster(struct gnu_heap *heap, size_t pages)
{
    size_t last = heap->table[0].free.previous, have = heap->table[last].free.pages;
    size_t added = more_core(heap, pages - have);
    if (added == 0)
        return 0;
    if (added != last + have) {
        set_run(heap, added, pages - have);
        free_pages(heap, added, false);
        return 0;
    }
    last = heap->table[0].free.previous; /* an outgrown table may have merged with it */
    heap->table[last].free.pages += pages - have;
    return last;
}

/* Takes the low end of a cluster in a bin. */
static void take_binned(struct gnu_heap *heap, size_t index, size_t pages)
{
    size_t found = cluster_remove(heap, index);
    if (found > pages) {
        cluster_add(heap, index + pages, found - pages);
        count_split(&heap->counters);
    }
    set_run(heap, index, pages);
}

/* New pages for a run, with what is free at the end before them. The last cluster is set aside as a
 * run meanwhile, for a cluster that ends where the memory ends is in no bin. What does not adjoin
 * is freed, and the next attempt goes on from there. 0: refused. */
static size_t grow_binned(struct gnu_heap *heap, size_t pages)
{
    enum { ATTEMPTS = 3 };
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        size_t last = cluster_last(heap), have = last != 0 ? cluster_pages(heap, last) : 0;
        if (have >= pages) {
            take_binned(heap, last, pages);
            return last;
        }
        if (last != 0)
            set_run(heap, last, cluster_remove(heap, last));
        size_t added = more_core(heap, pages - have);
        if (added != 0 && (last == 0 || added == last + have)) {
            set_run(heap, added - have, pages);
            return added - have;
        }
        if (added != 0)
            set_run(heap, added, pages - have);
        if (last != 0)
            free_pages(heap, last, false);
        if (added == 0)
            return 0;
        free_pages(heap, added, false);
    }
    return 0;
}

/* Best of the bins, then the last cluster, then new memory. 0: none. */
static size_t alloc_binned(struct gnu_heap *heap, size_t pages)
{
    uint64_t length = 0;
    size_t index = cluster_find(heap, pages, &length);
    count_search(&heap->counters, length);
    if (index == 0)
        return grow_binned(heap, pages);
    take_binned(heap, index, pages);
    return index;
}

/* Circular next fit. 0: no memory. */
static size_t alloc_pages(struct gnu_heap *heap, size_t pages)
{
    if (!heap->table && !make_first_table(heap))
        return 0;
    if (heap->binned)
        return alloc_binned(heap, pages);
    const union gnu_page *table = heap->table;
    size_t start = heap->search_index, index = start;
    uint64_t length = 1;
    while (table[index].free.pages < pages) {
        index = table[index].free.next;
        if (index == start)
            break;
        length++;
    }
    count_search(&heap->counters, length);
    bool found = table[index].free.pages >= pages;
    for (int attempt = 0; !found && attempt < 2; attempt++) {
        size_t last = heap->table[0].free.previous;
        if (last == 0 || last + heap->table[last].free.pages != heap->limit)
            break;
        index = extend_last_cluster(heap, pages);
        found = index != 0;
    }
    if (found) {
        take_pages(heap, index, pages);
        return index;
    }
    index = more_core(heap, pages);
    if (index != 0)
        set_run(heap, index, pages);
    return index;
}

/* The free cluster before `index`, or the head. Starts from the search index, which is often
 * near. */
static size_t cluster_before(const struct gnu_heap *heap, size_t index)
{
    const union gnu_page *table = heap->table;
    size_t before = heap->search_index;
    if (before > index) {
        while (before > index)
            before = table[before].free.previous;
        return before;
    }
    do
        before = table[before].free.next;
    while (before > 0 && before < index);
    return table[before].free.previous;
}

/* As free_pages, into the bins. */
static void free_binned(struct gnu_heap *heap, size_t index, bool may_return)
{
    size_t pages = heap->table[index].busy.pages, end = index + pages;
    if (cluster_is_at(heap, index - 1)) {
        size_t lower = cluster_remove(heap, index - cluster_pages(heap, index - 1));
        index -= lower;
        pages += lower;
        count_merge(&heap->counters);
    }
    if (cluster_is_at(heap, end)) {
        pages += cluster_remove(heap, end);
        count_merge(&heap->counters);
    }
    bool at_end = index + pages == heap->limit;
    if (!may_return || !at_end || pages < heap->final_free_pages || !return_pages(heap, pages))
        cluster_add(heap, index, pages);
}

/* may_return: whether the end of memory may go back to its source. */
static void free_pages(struct gnu_heap *heap, size_t index, bool may_return)
{
    if (heap->binned) {
        free_binned(heap, index, may_return);
        return;
    }
    union gnu_page *table = heap->table;
    size_t pages = table[index].busy.pages;
    size_t before = cluster_before(heap, index);
    if (before + table[before].free.pages == index && before != 0) {
        table[before].free.pages += pages;
        index = before;
        count_merge(&heap->counters);
    } else {
        table[index].free.pages = pages;
        table[index].free.next = table[before].free.next;
        table[index].free.previous = before;
        table[before].free.next = index;
        table[table[index].free.next].free.previous = index;
    }
    size_t next = table[index].free.next;
    if (index + table[index].free.pages == next) {
        table[index].free.pages += table[next].free.pages;
        unlink_cluster(heap, next);
        count_merge(&heap->counters);
    }
    pages = table[index].free.pages;
    if (may_return && pages >= heap->final_free_pages && index + pages == heap->limit &&
        return_pages(heap, pages)) {
        unlink_cluster(heap, index);
        index = table[index].free.previous;
    }
    heap->search_index = index;
}

/* Frees the pages of a run beyond the first `pages`. */
static void shed_pages(struct gnu_heap *heap, size_t index, size_t pages)
{
    size_t rest = heap->table[index].busy.pages - pages;
    if (rest == 0)
        return;
    set_run(heap, index, pages);
    set_run(heap, index + pages, rest);
    free_pages(heap, index + pages, true);
}

/* Fragments. */

/* Fragments above half a page, and the pages of a chunk of them, which they fill. 0: what would be
 * whole pages. */
static const struct {
    uint16_t bytes;
    uint8_t pages;
} parts[GNU_PARTS] = {
    {2560, 5}, {3072, 3}, {3584, 7},  {0, 0}, {5120, 5},  {6144, 3},
    {7168, 7}, {0, 0},    {10240, 5}, {0, 0}, {14336, 7},
};

static size_t fragment_bytes(size_t kind)
{
    return kind <= GNU_MAX_FRAGMENT_LOG ? (size_t)1 << kind : parts[kind - GNU_PAGE_LOG].bytes;
}

static size_t chunk_pages(size_t kind)
{
    return kind <= GNU_MAX_FRAGMENT_LOG ? 1 : parts[kind - GNU_PAGE_LOG].pages;
}

/* Fragments of a chunk. */
static uint32_t fragments_of(size_t kind)
{
    return kind <= GNU_MAX_FRAGMENT_LOG
               ? (uint32_t)GNU_PAGE_BYTES >> kind
               : (uint32_t)(chunk_pages(kind) * GNU_PAGE_BYTES / fragment_bytes(kind));
}

static uint32_t fragment_number(const char *chunk, const void *fragment, size_t kind)
{
    size_t offset = (size_t)((const char *)fragment - chunk);
    return (uint32_t)(kind <= GNU_MAX_FRAGMENT_LOG ? offset >> kind
                                                   : offset / fragment_bytes(kind));
}

static struct gnu_fragment *fragment_at(const char *chunk, size_t number, size_t kind)
{
    return (struct gnu_fragment *)((uintptr_t)chunk + number * fragment_bytes(kind));
}

/* An entry that is stale or of a free cluster may hold any number. */
static bool is_kind(const struct gnu_heap *heap, size_t number)
{
    if (number <= GNU_MAX_FRAGMENT_LOG)
        return number >= heap->least_log;
    return heap->parts && number < GNU_KINDS && chunk_pages(number) > 0;
}

/* The kind of fragment that serves a request of up to half a page: the logarithm of its size. */
static unsigned fragment_log(const struct gnu_heap *heap, size_t size)
{
    if (size <= (size_t)1 << heap->least_log)
        return heap->least_log;
    return 64 - (unsigned)__builtin_clzll(size - 1);
}

/* The kind of fragment that serves a larger request; 0: whole pages do. */
static unsigned part_kind(const struct gnu_heap *heap, size_t size)
{
    if (!heap->parts || size > parts[GNU_PARTS - 1].bytes)
        return 0;
    unsigned log = 63 - (unsigned)__builtin_clzll(size - 1);
    unsigned quarter = (unsigned)((size - 1) >> (log - 2)) & 3;
    unsigned kind = GNU_PAGE_LOG + (log - GNU_MAX_FRAGMENT_LOG) * 4 + quarter;
    return chunk_pages(kind) > 0 ? kind : 0;
}

/* Links a fragment in behind `before`. */
static void link_fragment(struct gnu_fragment *before, struct gnu_fragment *fragment)
{
    fragment->next = before->next;
    fragment->previous = before;
    before->next = fragment;
    if (fragment->next)
        fragment->next->previous = fragment;
}

/* The first page of the chunk that a page belongs to. */
static size_t chunk_index(const struct gnu_heap *heap, size_t index)
{
    const union gnu_page *page = &heap->table[index];
    bool behind_first = page->busy.kind == GNU_KINDS && heap->parts && page->busy.pages < index;
    return behind_first ? index - page->busy.pages : index;
}

/* Cuts pages into fragments and hands out the first. */
static void *alloc_from_new_chunk(struct gnu_heap *heap, unsigned kind)
{
    size_t index = alloc_pages(heap, chunk_pages(kind));
    if (index == 0)
        return NULL;
    char *chunk = address_of(heap, index);
    uint32_t count = fragments_of(kind);
    for (uint32_t i = 1; i < count; i++)
        link_fragment(&heap->fragments[kind], fragment_at(chunk, i, kind));
    union gnu_page *page = &heap->table[index];
    page->busy.kind = kind;
    page->busy.free_count = count - 1;
    page->busy.first = count - 1;
    for (size_t i = 1; i < chunk_pages(kind); i++) {
        page[i].busy.kind = GNU_KINDS;
        page[i].busy.pages = i;
    }
    count_split(&heap->counters);
    return chunk;
}

static void *alloc_fragment(struct gnu_heap *heap, unsigned kind)
{
    struct gnu_fragment *fragment = heap->fragments[kind].next;
    if (!fragment)
        return alloc_from_new_chunk(heap, kind);
    size_t index = chunk_index(heap, index_of(heap, fragment));
    union gnu_page *page = &heap->table[index];
    struct gnu_fragment *next = fragment->next;
    heap->fragments[kind].next = next;
    if (next)
        next->previous = &heap->fragments[kind];
    if (--page->busy.free_count > 0)
        page->busy.first = fragment_number(address_of(heap, index), next, kind);
    return fragment;
}

/* All fragments but the one now freed are in the list, side by side. */
static void release_chunk(struct gnu_heap *heap, size_t index, struct gnu_fragment *first)
{
    struct gnu_fragment *behind = first;
    size_t pages = chunk_pages(heap->table[index].busy.kind);
    for (uint32_t i = heap->table[index].busy.free_count; i > 0; i--)
        behind = behind->next;
    first->previous->next = behind;
    if (behind)
        behind->previous = first->previous;
    set_run(heap, index, pages);
    count_merge(&heap->counters);
    free_pages(heap, index, true);
}

static void free_fragment(struct gnu_heap *heap, size_t index, struct gnu_fragment *fragment)
{
    union gnu_page *page = &heap->table[index];
    size_t kind = page->busy.kind;
    const char *chunk = address_of(heap, index);
    struct gnu_fragment *first = fragment_at(chunk, page->busy.first, kind);
    if (page->busy.free_count == fragments_of(kind) - 1) {
        release_chunk(heap, index, first);
        return;
    }
    if (page->busy.free_count == 0) {
        link_fragment(&heap->fragments[kind], fragment);
        page->busy.first = fragment_number(chunk, fragment, kind);
    } else {
        link_fragment(first, fragment);
    }
    page->busy.free_count++;
}

/* The seam. */

/* The first page's number of a block, or of the chunk it lies in, that the program hands in. Only
 * what is read anyway is checked: that the page is one in use and that the block can begin where
 * it does. */
static size_t block_index(const struct gnu_heap *heap, const char *function, const void *block)
{
    size_t index = index_of(heap, block);
    if (index < heap->limit && index < heap->table_entries) {
        index = chunk_index(heap, index);
        const union gnu_page *page = &heap->table[index];
        const char *start = address_of(heap, index);
        size_t kind = page->busy.kind;
        if (kind == 0 ? block == start && page->busy.pages > 0
                      : is_kind(heap, kind) &&
                            fragment_at(start, fragment_number(start, block, kind), kind) == block)
            return index;
    }
    abort_on_pointer_fault(function, block, "not a block (never handed out, or points into one)");
}

static void *alloc_run(struct gnu_heap *heap, size_t pages)
{
    size_t index = alloc_pages(heap, pages);
    return index != 0 ? address_of(heap, index) : NULL;
}

static void *gnu_alloc(void *state, size_t size)
{
    struct gnu_heap *heap = state;
    unsigned kind = size > LARGEST_FRAGMENT ? part_kind(heap, size) : fragment_log(heap, size);
    return kind > 0 ? alloc_fragment(heap, kind) : alloc_run(heap, pages_for(size));
}

static void gnu_free(void *state, void *block)
{
    struct gnu_heap *heap = state;
    size_t index = block_index(heap, "free", block);
    if (heap->table[index].busy.kind > 0)
        free_fragment(heap, index, block);
    else
        free_pages(heap, index, true);
}

/* A power of two is aligned to itself, up to a page. Beyond, the ends of a larger run go back. */
static void *gnu_alloc_aligned(void *state, size_t alignment, size_t size)
{
    struct gnu_heap *heap = state;
    if (alignment <= GNU_PAGE_BYTES) {
        if (size < alignment)
            size = alignment;
        return size > LARGEST_FRAGMENT ? alloc_run(heap, pages_for(size)) : gnu_alloc(heap, size);
    }
    if (alignment > PTRDIFF_MAX - size)
        return NULL;
    size_t pages = pages_for(size > 0 ? size : 1);
    char *run = alloc_run(heap, pages + pages_for(alignment) - 1);
    if (!run)
        return NULL;
    char *aligned = (char *)round_up((uintptr_t)run, alignment);
    size_t index = index_of(heap, run), front = pages_for((size_t)(aligned - run));
    if (front > 0) {
        set_run(heap, index + front, heap->table[index].busy.pages - front);
        set_run(heap, index, front);
        free_pages(heap, index, true);
    }
    shed_pages(heap, index + front, pages);
    return aligned;
}

static bool gnu_resize(void *state, void *block, size_t size)
{
    struct gnu_heap *heap = state;
    size_t index = block_index(heap, "realloc", block);
    size_t kind = heap->table[index].busy.kind;
    if (kind > 0)
        return size > fragment_bytes(kind) / 2 && size <= fragment_bytes(kind);
    size_t pages = pages_for(size);
    if (size <= LARGEST_FRAGMENT || part_kind(heap, size) > 0 ||
        pages > heap->table[index].busy.pages)
        return false;
    shed_pages(heap, index, pages);
    return true;
}

/* Takes back a run that was just freed, out of the cluster that holds it now. */
static void retake_run(struct gnu_heap *heap, size_t index, size_t pages)
{
    size_t cluster = cluster_before(heap, index + 1);
    size_t front = index - cluster;
    if (front > 0) {
        take_pages(heap, cluster, front);
        take_pages(heap, index, pages);
        free_pages(heap, cluster, false);
    } else {
        take_pages(heap, index, pages);
    }
}

static void *move_by_copy(struct gnu_heap *heap, void *block, size_t usable, size_t size)
{
    void *moved = gnu_alloc(heap, size);
    if (moved) {
        memcpy(moved, block, usable < size ? usable : size);
        gnu_free(heap, block);
    }
    return moved;
}

/* A run that must grow is freed first, so that free neighbours may become part of the new one,
 * which may overlap the old. */
static void *gnu_move(void *state, void *block, size_t size)
{
    struct gnu_heap *heap = state;
    size_t index = chunk_index(heap, index_of(heap, block));
    size_t kind = heap->table[index].busy.kind, old_pages = heap->table[index].busy.pages;
    if (kind > 0)
        return move_by_copy(heap, block, fragment_bytes(kind), size);
    if (heap->binned || size <= LARGEST_FRAGMENT || part_kind(heap, size) > 0)
        return move_by_copy(heap, block, old_pages << GNU_PAGE_LOG, size);
    free_pages(heap, index, false);
    size_t new_index = alloc_pages(heap, pages_for(size));
    if (new_index == 0) {
        retake_run(heap, index, old_pages);
        return NULL;
    }
    char *run = address_of(heap, new_index);
    return run == block ? block : memmove(run, block, old_pages << GNU_PAGE_LOG);
}

static size_t gnu_usable_size(void *state, const void *block)
{
    const struct gnu_heap *heap = state;
    size_t index = index_of(heap, block);
    if (index >= heap->limit)
        return 0;
    index = chunk_index(heap, index);
    size_t kind = heap->table[index].busy.kind;
    if (kind == 0)
        return heap->table[index].busy.pages << GNU_PAGE_LOG;
    return is_kind(heap, kind) ? fragment_bytes(kind) : 0;
}

static struct block_waste gnu_waste(void *state, const void *block)
{
    (void)state;
    (void)block;
    return (struct block_waste){0};
}

static size_t trim_binned(struct gnu_heap *heap)
{
    size_t last = cluster_last(heap), pages = last != 0 ? cluster_remove(heap, last) : 0;
    if (pages == 0 || return_pages(heap, pages))
        return pages << GNU_PAGE_LOG;
    cluster_add(heap, last, pages);
    return 0;
}

/* The cluster at the end, however small. */
static size_t gnu_trim(void *state)
{
    struct gnu_heap *heap = state;
    if (!heap->table)
        return 0;
    if (heap->binned)
        return trim_binned(heap);
    size_t last = heap->table[0].free.previous, pages = heap->table[last].free.pages;
    if (last == 0 || last + pages != heap->limit || !return_pages(heap, pages))
        return 0;
    unlink_cluster(heap, last);
    if (heap->search_index == last)
        heap->search_index = heap->table[last].free.previous;
    return pages << GNU_PAGE_LOG;
}

/* Looking in from outside. */

enum { MOST_FRAGMENTS = GNU_PAGE_BYTES >> GNU_MIN_FRAGMENT_LOG };

/* Sets a flag for each free fragment of a chunk. False when its list is not whole. */
static bool flag_free_fragments(const struct gnu_heap *heap, size_t index,
                                bool flags[MOST_FRAGMENTS])
{
    const union gnu_page *page = &heap->table[index];
    size_t kind = page->busy.kind;
    const char *chunk = address_of(heap, index);
    const struct gnu_fragment *fragment = fragment_at(chunk, page->busy.first, kind);
    uint32_t count = fragments_of(kind);
    if (page->busy.free_count >= count)
        return false;
    for (uint32_t i = 0; i < page->busy.free_count; i++) {
        if ((uintptr_t)fragment - (uintptr_t)chunk >= count * fragment_bytes(kind) ||
            fragment->previous->next != fragment || flags[fragment_number(chunk, fragment, kind)])
            return false;
        flags[fragment_number(chunk, fragment, kind)] = true;
        fragment = fragment->next;
    }
    return true;
}

static bool walk_chunk(const struct gnu_heap *heap, size_t index, heap_visitor *visit,
                       void *argument)
{
    bool flags[MOST_FRAGMENTS] = {false};
    size_t kind = heap->table[index].busy.kind;
    if (!is_kind(heap, kind) || !flag_free_fragments(heap, index, flags))
        return false;
    size_t bytes = fragment_bytes(kind);
    for (size_t i = 0; i < fragments_of(kind); i++) {
        struct block_info info = {fragment_at(address_of(heap, index), i, kind), bytes, bytes,
                                  flags[i] ? BLOCK_FREE : BLOCK_LIVE};
        if (visit)
            visit(argument, &info);
    }
    return true;
}

/* Visits what begins at `index` and returns how many pages it has; 0 when it is not whole. */
static size_t walk_index(const struct gnu_heap *heap, size_t index, bool is_free,
                         heap_visitor *visit, void *argument)
{
    char *start = address_of(heap, index);
    if (start == (char *)heap->table)
        return pages_for(heap->table_entries * sizeof *heap->table);
    const union gnu_page *page = &heap->table[index];
    if (!is_free && page->busy.kind > 0)
        return walk_chunk(heap, index, visit, argument) ? chunk_pages(page->busy.kind) : 0;
    size_t pages = is_free ? cluster_pages(heap, index) : page->busy.pages;
    size_t bytes = pages << GNU_PAGE_LOG;
    struct block_info info = {start, bytes, bytes, is_free ? BLOCK_FREE : BLOCK_LIVE};
    if (visit)
        visit(argument, &info);
    return pages;
}

/* False when clusters, runs and chunks do not tile the segments. */
static bool walk_segments(const struct gnu_heap *heap, heap_visitor *visit, void *argument)
{
    size_t next_free = heap->table ? heap->table[0].free.next : 0;
    char *start, *end;
    for (size_t i = 0; heap->table && heap->pages->segment(heap->pages, i, &start, &end); i++) {
        size_t index = index_of(heap, start), limit = index_of(heap, end);
        while (index < limit) {
            bool is_free = heap->binned ? cluster_is_at(heap, index) : index == next_free;
            size_t pages = walk_index(heap, index, is_free, visit, argument);
            if (pages == 0 || pages > limit - index)
                return false;
            if (is_free && !heap->binned)
                next_free = heap->table[index].free.next;
            index += pages;
        }
    }
    return next_free == 0;
}

static void gnu_walk(void *state, heap_visitor *visit, void *argument)
{
    walk_segments(state, visit, argument);
}

static void count_free(void *argument, const struct block_info *info)
{
    struct heap_statistics *statistics = argument;
    if (info->state == BLOCK_FREE) {
        statistics->free_blocks++;
        statistics->free_bytes += info->block_bytes;
    }
}

static void gnu_statistics(void *state, struct heap_statistics *statistics)
{
    const struct gnu_heap *heap = state;
    walk_segments(heap, count_free, statistics);
    add_counters(statistics, &heap->counters);
}

/* Clusters ascend, do not touch, and one of them is where the next search starts. */
static bool clusters_are_valid(const struct gnu_heap *heap)
{
    const union gnu_page *table = heap->table;
    bool search_found = heap->search_index == 0;
    size_t before = 0;
    if (table[0].free.pages != 0)
        return false;
    for (size_t index = table[0].free.next; index != 0; index = table[index].free.next) {
        if (index <= before || (before != 0 && before + table[before].free.pages >= index) ||
            table[index].free.previous != before || table[index].free.pages == 0)
            return false;
        search_found = search_found || index == heap->search_index;
        before = index;
    }
    return search_found && table[0].free.previous == before;
}

/* No fragment is in the lists that a chunk does not account for. */
static size_t count_listed_fragments(const struct gnu_heap *heap, size_t limit)
{
    size_t count = 0;
    for (unsigned kind = 0; kind < GNU_KINDS; kind++)
        for (const struct gnu_fragment *fragment = heap->fragments[kind].next;
             fragment && count <= limit; fragment = fragment->next)
            count++;
    return count;
}

struct gnu_census {
    size_t fragments, clusters;
};

static void count_free_block(void *argument, const struct block_info *info)
{
    struct gnu_census *census = argument;
    bool is_cluster = info->block_bytes % GNU_PAGE_BYTES == 0;
    census->fragments += info->state == BLOCK_FREE && !is_cluster;
    census->clusters += info->state == BLOCK_FREE && is_cluster;
}

static bool gnu_is_valid(void *state)
{
    const struct gnu_heap *heap = state;
    struct gnu_census census = {0};
    if (!heap->table)
        return true;
    return walk_segments(heap, count_free_block, &census) &&
           count_listed_fragments(heap, census.fragments) == census.fragments &&
           (heap->binned ? clusters_are_whole(heap, census.clusters) : clusters_are_valid(heap));
}

const struct option_description gnu_options[] = {
    GNU_OPTIONS(0, GNU_CLUSTERS_PUBLISHED, false),
    GNU_FIXED_OPTIONS(0, GNU_MIN_FRAGMENT_LOG, 8, false),
    {.key = ""},
};

const struct heap_policy gnu_policy = {
    .name = "gnu",
    .title = "fragments of powers of two in pages, next fit over pages (Haertel)",
    .source = "M. Haertel, malloc of the GNU C library, 1988",
    .heap_bytes = sizeof(struct gnu_heap),
    .options = gnu_options,
    .init = gnu_init,
    .alloc = gnu_alloc,
    .alloc_aligned = gnu_alloc_aligned,
    .free = gnu_free,
    .resize = gnu_resize,
    .move = gnu_move,
    .usable_size = gnu_usable_size,
    .size_is_elsewhere = true,
    .waste = gnu_waste,
    .trim = gnu_trim,
    .walk = gnu_walk,
    .statistics = gnu_statistics,
    .is_valid = gnu_is_valid,
};
