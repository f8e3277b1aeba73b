/* SPDX-License-Identifier: MIT
 *
 * cartesian.c: Stephenson's better fit, as SunOS had it.
 *
 * Purpose: to find a free block that is large enough without a look at the free blocks themselves.
 *
 * The free blocks form a Cartesian tree, which is two things at once:
 *
 *     by address    a search tree: what lies left of a node has lower addresses
 *     by size       a heap: no block is larger than its parent
 *
 * Allocating starts at the root, the largest block. It goes down to the shorter child for as long
 * as a child is large enough. The block where it ends is no larger than any above it. It is not
 * always the best fit.
 *
 * Freeing goes down by address. A free neighbour lies on that way, so both neighbours are found in
 * one descent.
 *
 * The nodes lie outside the blocks, in arrays of 512 that are cut from the same growing memory. A
 * search touches nodes only, never free memory. A free block also keeps its size in its header, as
 * SunOS's did. The header is written whenever a block enters the tree and whenever one is cut.
 *
 *   | header | payload ........ |  live, header at 8 mod 16; the header holds the size
 *   | header | ................ |  free: node = { left, right, block, bytes } elsewhere
 *   | array of nodes | block | block | array of nodes | block ...   the heap's memory
 *
 * Fixed by the sources
 *   the structure   the tree; the arrays; the header of 8 bytes. Nothing is recursive
 *   malloc          the descent, where ties go left. The low end of a block is handed out. The
 *                   remainder is kept only if it is larger than the smallest block
 *   free            merged neighbours are deleted on the way down
 *   realloc         works in place. What it sheds is freed if it is no smaller than the smallest
 *                   block. To grow, it deletes a free upper neighbour from the tree and frees what
 *                   it does not need of it
 *
 * Open, and chosen here
 *   ties            a new node goes below all that are as large; where two subtrees are joined the
 *                   left one wins
 *   growth          by what the request needs, in whole pages of 4 KiB
 *   nodes           the first array comes before the first block; nodes are reused last in, first
 *                   out
 *   alignment       a block aligned to more than 16 is cut out of a larger one
 *   double free     the descent of free meets a free block that overlaps the freed one, and aborts:
 *                   the algorithm's own check
 *   no memory for   a block that is freed then waits without a node, in a list of such blocks. It
 *   another array   enters the tree at the next chance
 *
 * Not as published, where tree=fast asks for it: another policy serves (tagged_heap.c). There a
 * freed block finds its neighbours by tags, and smaller free blocks hang in bins. The tree holds
 * the larger ones, so it stays shallow (free_tree.c).
 *
 * Source: C. J. Stephenson, Fast Fits, SOSP 1983; J. Vuillemin, A Unifying Look at Data
 * Structures, CACM 1980; as measured by B. Zorn, CU-CS-573-92, 2.1.
 */
#include "alloc/policies/cartesian.h"

#include "alloc/policies/tagged_heap.h"
#include "vm/message.h"
#include "vm/metadata.h"
#include "vm/pages.h"

enum { ARRAY_NODES = 512 };

/* After memory for nodes was refused it is asked for again only after so many requests, and one
 * more for each block that waits. So to go through these blocks has a constant cost for each
 * request. */
enum { PATIENCE = 256 };

struct cartesian_node {
    struct cartesian_node *left, *right;
    char *block;
    size_t bytes;
};

/* Where the arrays lie. Known only to walks, so apart from them. */
struct cartesian_array {
    struct cartesian_array *next;
    struct cartesian_node *nodes;
};

static void cartesian_init(void *state, struct page_source *pages, const void *options)
{
    struct cartesian_heap *heap = state;
    const struct cartesian_options *chosen = options;
    heap->pages = pages;
    heap->counters.on = chosen->counters;
    heap->least_bytes = chosen->least_bytes;
    heap->alignment = block_alignment_of(chosen->alignment);
}

/* Bytes of the block that serves a request: a multiple of the alignment. */
static size_t block_bytes(const struct cartesian_heap *heap, size_t size)
{
    size_t bytes = round_up(size + CARTESIAN_HEADER_BYTES, heap->alignment);
    return bytes < heap->least_bytes ? heap->least_bytes : bytes;
}

static void *header_before(const void *payload)
{
    return (char *)(uintptr_t)payload - CARTESIAN_HEADER_BYTES;
}

/* Memory. */

/* Blocks stand at 8 mod 16. A segment begins at 0 mod 16: its first 8 bytes are passed over, and
 * asked for together with the rest, so that no memory is left that is no block. */
static char *extend(struct cartesian_heap *heap, size_t bytes)
{
    struct page_source *pages = heap->pages;
    char *start = pages->extend(pages, bytes);
    if (!start || (uintptr_t)start % BLOCK_ALIGNMENT == CARTESIAN_HEADER_BYTES)
        return start;
    check(pages->retract(pages, bytes));
    start = pages->extend(pages, CARTESIAN_HEADER_BYTES + bytes);
    return start ? start + CARTESIAN_HEADER_BYTES : NULL;
}

static bool add_array(struct cartesian_heap *heap)
{
    if (!heap->unused_array)
        heap->unused_array = metadata_alloc(sizeof *heap->unused_array);
    struct cartesian_array *array = heap->unused_array;
    if (!array)
        return false;
    array->nodes = (struct cartesian_node *)extend(heap, ARRAY_NODES * sizeof *array->nodes);
    if (!array->nodes)
        return false;
    heap->unused_array = NULL;
    if (heap->last_array) {
        heap->last_array->next = array;
    } else {
        heap->first_array = array;
    }
    heap->last_array = array;
    heap->fresh_node = array->nodes;
    heap->fresh_node_end = array->nodes + ARRAY_NODES;
    return true;
}

static struct cartesian_node *get_node(struct cartesian_heap *heap)
{
    struct cartesian_node *node = heap->spare_nodes;
    if (node) {
        heap->spare_nodes = node->left;
        return node;
    }
    if (heap->fresh_node < heap->fresh_node_end)
        return heap->fresh_node++;
    if (heap->nodeless && !heap->asks_again)
        return NULL;
    heap->asks_again = false;
    return add_array(heap) ? heap->fresh_node++ : NULL;
}

static void put_node(struct cartesian_heap *heap, struct cartesian_node *node)
{
    node->left = heap->spare_nodes;
    heap->spare_nodes = node;
}

/* The tree. A link is the place that points to a node: the root or a child's. */

static size_t weight(const struct cartesian_node *node)
{
    return node ? node->bytes : 0;
}

/* Joins two subtrees at *link for as long as one of them is heavier than `least`; returns the
 * place below, and what is left of the two. */
static struct cartesian_node **join_above(struct cartesian_node **link,
                                          struct cartesian_node **left,
                                          struct cartesian_node **right, size_t least)
{
    for (;;) {
        size_t left_weight = weight(*left), right_weight = weight(*right);
        if (left_weight <= least && right_weight <= least)
            return link;
        if (left_weight >= right_weight) {
            *link = *left;
            link = &(*left)->right;
            *left = *link;
        } else {
            *link = *right;
            link = &(*right)->left;
            *right = *link;
        }
    }
}

/* Takes the node at *link out of the tree, and out of use. */
static void delete_node(struct cartesian_heap *heap, struct cartesian_node **link)
{
    struct cartesian_node *node = *link, *left = node->left, *right = node->right;
    *join_above(link, &left, &right, 0) = NULL;
    put_node(heap, node);
}

/* The node at *link has become smaller: sinks it to where it belongs. */
static void demote_node(struct cartesian_node **link)
{
    struct cartesian_node *node = *link, *left = node->left, *right = node->right;
    link = join_above(link, &left, &right, node->bytes);
    node->left = left;
    node->right = right;
    *link = node;
}

/* Puts a block at its insertion place and splits the subtree that it displaces into what lies
 * below and above it. */
static bool insert_block(struct cartesian_heap *heap, struct cartesian_node **link, char *block,
                         size_t bytes)
{
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): every descent passes a place */
    struct cartesian_node *below = *link, *node = get_node(heap);
    if (!node)
        return false;
    *link = node;
    node->block = block;
    node->bytes = bytes;
    tag_write(block, bytes, TAG_FREE);
    struct cartesian_node **left = &node->left, **right = &node->right;
    while (below) {
        if (below->block < block) {
            *left = below;
            left = &below->right;
            below = below->right;
        } else {
            *right = below;
            right = &below->left;
            below = below->left;
        }
    }
    *left = *right = NULL;
    return true;
}

/* The free block that begins at `block`, or NULL. */
static struct cartesian_node **find_block(struct cartesian_heap *heap, const char *block)
{
    struct cartesian_node **link = &heap->root;
    while (*link && (*link)->block != block)
        link = block < (*link)->block ? &(*link)->left : &(*link)->right;
    return *link ? link : NULL;
}

/* Better fit: from the largest block down to the shorter child that is still large enough. NULL
 * when even the largest is not. */
static struct cartesian_node **find_room(struct cartesian_heap *heap, size_t bytes)
{
    struct cartesian_node **link = &heap->root;
    uint64_t length = 1;
    if (weight(*link) < bytes)
        return NULL;
    for (;; length++) {
        struct cartesian_node *node = *link;
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an empty place weighs 0 */
        size_t left = weight(node->left), right = weight(node->right);
        bool go_left = left >= bytes && (left <= right || right < bytes);
        if (!go_left && right < bytes)
            break;
        link = go_left ? &node->left : &node->right;
    }
    count_search(&heap->counters, length);
    return link;
}

/* Freeing. */

_Noreturn static void report_not_live(const char *function, const void *payload)
{
    abort_on_pointer_fault(function, payload,
                           "not a live block (freed twice, never handed out, or its header was "
                           "overwritten)");
}

/* A way down by address. */
struct descent {
    struct cartesian_node **link;  /* where it has come to */
    struct cartesian_node **place; /* where the block would be inserted; NULL: further down */
};

/* Goes on to the next free neighbour of a block; false when there is none. */
static bool find_neighbour(struct descent *way, const char *block, size_t bytes)
{
    for (;;) {
        struct cartesian_node *node = *way->link;
        if (!way->place && weight(node) < bytes)
            way->place = way->link;
        if (!node)
            return false;
        if (node->block + node->bytes == block || block + bytes == node->block)
            return true;
        if (block < node->block + node->bytes && node->block < block + bytes)
            report_not_live("free", block + CARTESIAN_HEADER_BYTES);
        way->link = block < node->block ? &node->left : &node->right;
    }
}

/* Widens a block by a free neighbour. */
static void join_with(struct cartesian_heap *heap, const struct cartesian_node *node, char **block,
                      size_t *bytes)
{
    if (node->block < *block)
        *block = node->block;
    *bytes += node->bytes;
    count_merge(&heap->counters);
}

static struct cartesian_node **place_from_root(struct cartesian_heap *heap, const char *block,
                                               size_t bytes)
{
    struct cartesian_node **link = &heap->root;
    while (weight(*link) >= bytes)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): an empty place weighs 0 */
        link = block < (*link)->block ? &(*link)->left : &(*link)->right;
    return link;
}

/* Neighbours are deleted on the way down, then the whole is inserted. */
static void merge(struct cartesian_heap *heap, struct descent *way, char *block, size_t bytes)
{
    do {
        join_with(heap, *way->link, &block, &bytes);
        delete_node(heap, way->link);
    } while (find_neighbour(way, block, bytes));
    insert_block(heap, place_from_root(heap, block, bytes), block, bytes);
}

/* A block without a node keeps its size in a header and, behind it, the next such block. */
static void keep_without_node(struct cartesian_heap *heap, char *block, size_t bytes)
{
    tag_write(block, bytes, TAG_FREE);
    *(char **)(block + CARTESIAN_HEADER_BYTES) = heap->nodeless;
    heap->nodeless = block;
}

static void release(struct cartesian_heap *heap, char *block, size_t bytes)
{
    struct descent way = {.link = &heap->root};
    if (!find_neighbour(&way, block, bytes)) {
        if (!insert_block(heap, way.place, block, bytes))
            keep_without_node(heap, block, bytes);
    } else {
        merge(heap, &way, block, bytes);
    }
}

/* Tries once more for all blocks that wait for a node. */
static __attribute__((noinline)) void release_nodeless(struct cartesian_heap *heap)
{
    char *block = heap->nodeless;
    heap->nodeless = NULL;
    heap->asks_again = true;
    heap->patience = 0;
    for (; block; heap->patience++) {
        char *next = *(char **)(block + CARTESIAN_HEADER_BYTES);
        release(heap, block, tag_size(tag_read(block)));
        block = next;
    }
    heap->patience = heap->nodeless ? heap->patience + PATIENCE : 0;
}

/* The tag before a payload, without its magic. It is not intact where no block can be. */
static uint64_t head_of(const struct cartesian_heap *heap, const void *payload)
{
    if ((uintptr_t)payload % heap->alignment != 0 || begins_segment(heap->pages, payload))
        return UINT64_MAX;
    return tag_read(header_before(payload));
}

static size_t allocated_block_bytes(const struct cartesian_heap *heap, const char *function,
                                    const void *payload)
{
    uint64_t opened = head_of(heap, payload);
    if (!tag_is(opened, TAG_LIVE))
        report_not_live(function, payload);
    return tag_size(opened);
}

static void cartesian_free(void *state, void *payload)
{
    struct cartesian_heap *heap = state;
    size_t bytes = allocated_block_bytes(heap, "free", payload);
    release(heap, header_before(payload), bytes);
}

/* Allocating. */

/* New memory for a block of `bytes`; the tree then holds one that is large enough. */
static __attribute__((noinline)) bool grow(struct cartesian_heap *heap, size_t bytes)
{
    if (!heap->first_array && !add_array(heap))
        return false;
    bytes = round_up(bytes, PAGE_BYTES);
    char *block = extend(heap, bytes);
    if (!block)
        return false;
    release(heap, block, bytes);
    return true;
}

/* Takes the low end of the free block at *link. */
static char *take(struct cartesian_heap *heap, struct cartesian_node **link, size_t bytes)
{
    struct cartesian_node *node = *link;
    char *block = node->block;
    if (node->bytes - bytes > heap->least_bytes) {
        node->block += bytes;
        node->bytes -= bytes;
        tag_write(node->block, node->bytes, TAG_FREE);
        demote_node(link);
        count_split(&heap->counters);
    } else {
        bytes = node->bytes;
        delete_node(heap, link);
    }
    tag_write(block, bytes, TAG_LIVE);
    return block + CARTESIAN_HEADER_BYTES;
}

/* When there is no memory at all: a whole block that waits for a node, from among the last few. */
static __attribute__((noinline)) void *take_nodeless(struct cartesian_heap *heap, size_t bytes)
{
    char **link = &heap->nodeless;
    for (unsigned i = 0; *link && i < PATIENCE; i++) {
        char *block = *link;
        size_t found = tag_size(tag_read(block));
        if (found >= bytes) {
            *link = *(char **)(block + CARTESIAN_HEADER_BYTES);
            tag_write(block, found, TAG_LIVE);
            return block + CARTESIAN_HEADER_BYTES;
        }
        link = (char **)(block + CARTESIAN_HEADER_BYTES);
    }
    return NULL;
}

static void *cartesian_alloc(void *state, size_t size)
{
    struct cartesian_heap *heap = state;
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return NULL;
    if (__builtin_expect(heap->nodeless != NULL, 0) &&
        (heap->patience == 0 || --heap->patience == 0))
        release_nodeless(heap);
    size_t bytes = block_bytes(heap, size);
    struct cartesian_node **link = find_room(heap, bytes);
    if (!link) {
        if (!grow(heap, bytes))
            return take_nodeless(heap, bytes);
        link = find_room(heap, bytes);
    }
    return link ? take(heap, link, bytes) : NULL;
}

/* Gives back what a live block of `bytes` has beyond `needed`, if that makes a block. */
static void shed(struct cartesian_heap *heap, char *block, size_t bytes, size_t needed)
{
    if (bytes - needed < heap->least_bytes)
        return;
    tag_write(block, needed, TAG_LIVE);
    release(heap, block + needed, bytes - needed);
    count_split(&heap->counters);
}

/* A block that holds the alignment, whose front and rest go back. */
static void *cartesian_alloc_aligned(void *state, size_t alignment, size_t size)
{
    struct cartesian_heap *heap = state;
    if (size >> (TAG_SIZE_BITS - 1) != 0 || alignment >> (TAG_SIZE_BITS - 2) != 0)
        return NULL;
    size_t needed = block_bytes(heap, size);
    size_t more = alignment + BLOCK_ALIGNMENT - heap->alignment;
    char *payload = cartesian_alloc(heap, needed - CARTESIAN_HEADER_BYTES + more);
    if (!payload)
        return NULL;
    char *block = header_before(payload);
    size_t bytes = allocated_block_bytes(heap, "memalign", payload);
    size_t front = (size_t)(-(uintptr_t)payload & (alignment - 1));
    if (front > 0 && front < BLOCK_ALIGNMENT) /* less than a block: on to the next place */
        front += alignment;
    if (front > 0) {
        tag_write(block + front, bytes - front, TAG_LIVE);
        release(heap, block, front);
    }
    shed(heap, block + front, bytes - front, needed);
    return payload + front;
}

/* Grows a live block by `missing` bytes at least out of the free block at *link, which has them.
 * Returns by how much. */
static size_t grow_into(struct cartesian_heap *heap, struct cartesian_node **link, size_t missing)
{
    char *rest = (*link)->block + missing;
    size_t found = (*link)->bytes;
    count_merge(&heap->counters);
    delete_node(heap, link);
    if (found - missing < heap->least_bytes)
        return found;
    release(heap, rest, found - missing);
    count_split(&heap->counters);
    return missing;
}

static bool cartesian_resize(void *state, void *payload, size_t size)
{
    struct cartesian_heap *heap = state;
    size_t bytes = allocated_block_bytes(heap, "realloc", payload);
    char *block = header_before(payload);
    if (size >> (TAG_SIZE_BITS - 1) != 0)
        return false;
    size_t needed = block_bytes(heap, size);
    if (needed <= bytes) {
        shed(heap, block, bytes, needed);
        return true;
    }
    struct cartesian_node **link = find_block(heap, block + bytes);
    if (!link || bytes + (*link)->bytes < needed)
        return false;
    tag_write(block, bytes + grow_into(heap, link, needed - bytes), TAG_LIVE);
    return true;
}

static size_t cartesian_usable_size(void *state, const void *payload)
{
    const struct cartesian_heap *heap = state;
    uint64_t opened = head_of(heap, payload);
    return tag_is(opened, TAG_LIVE) ? tag_size(opened) - CARTESIAN_HEADER_BYTES : 0;
}

static struct block_waste cartesian_waste(void *state, const void *payload)
{
    (void)state;
    (void)payload;
    return (struct block_waste){.header_bytes = CARTESIAN_HEADER_BYTES};
}

/* Looking in from outside. */

/* Goes through the tree by address with a stack of its own, for the tree may be as deep as it
 * has nodes. visit: NULL stops. False when stopped, or when there is no memory for the stack. */
typedef bool tree_visitor(void *argument, const struct cartesian_node *node, size_t depth);

struct visit_frame {
    const struct cartesian_node *node;
    size_t depth;
};

static size_t node_limit(const struct cartesian_heap *heap)
{
    size_t limit = 1;
    for (const struct cartesian_array *array = heap->first_array; array; array = array->next)
        limit += ARRAY_NODES;
    return limit;
}

static bool visit_tree(const struct cartesian_heap *heap, tree_visitor *visit, void *argument)
{
    size_t limit = node_limit(heap), used = 0, seen = 0;
    size_t stack_bytes = round_up(limit * sizeof(struct visit_frame), PAGE_BYTES);
    struct visit_frame *stack = pages_map(stack_bytes, PAGE_BYTES);
    struct visit_frame next = {heap->root, 1};
    bool going_on = stack != NULL;
    while (going_on && (next.node || used > 0)) {
        if (next.node) {
            stack[used++] = next;
            next = (struct visit_frame){next.node->left, next.depth + 1};
            going_on = used < limit;
        } else {
            struct visit_frame top = stack[--used];
            going_on = ++seen < limit && visit(argument, top.node, top.depth);
            next = (struct visit_frame){top.node->right, top.depth + 1};
        }
    }
    if (stack)
        pages_unmap(stack, stack_bytes);
    return going_on;
}

static bool count_node(void *argument, const struct cartesian_node *node, size_t depth)
{
    struct heap_statistics *statistics = argument;
    statistics->free_blocks++;
    statistics->free_bytes += node->bytes;
    if (statistics->tree_depth < depth)
        statistics->tree_depth = depth;
    return true;
}

static void cartesian_statistics(void *state, struct heap_statistics *statistics)
{
    const struct cartesian_heap *heap = state;
    visit_tree(heap, count_node, statistics);
    add_counters(statistics, &heap->counters);
}

static bool is_nodeless(const struct cartesian_heap *heap, const char *block)
{
    const char *waiting = heap->nodeless;
    while (waiting && waiting != block)
        waiting = *(char *const *)(waiting + CARTESIAN_HEADER_BYTES);
    return waiting != NULL;
}

static bool describe_block(struct cartesian_heap *heap, char *block, struct block_info *info)
{
    struct cartesian_node **link = find_block(heap, block);
    uint64_t opened = tag_read(block);
    info->payload = block + CARTESIAN_HEADER_BYTES;
    info->block_bytes = link ? (*link)->bytes : tag_size(opened);
    info->usable_bytes = info->block_bytes - CARTESIAN_HEADER_BYTES;
    info->state = BLOCK_FREE;
    if (link || is_nodeless(heap, block))
        return true;
    info->state = BLOCK_LIVE;
    return tag_is(opened, TAG_LIVE) && info->block_bytes >= heap->least_bytes;
}

/* array: the oldest that has not been passed; arrays and segments come in order of age. */
static bool walk_segment(struct cartesian_heap *heap, char *start, const char *end,
                         const struct cartesian_array **array, heap_visitor *visit, void *argument)
{
    char *block = start + CARTESIAN_HEADER_BYTES;
    while (block + BLOCK_ALIGNMENT <= end) {
        struct block_info info;
        if (*array && (char *)(*array)->nodes == block) {
            block += ARRAY_NODES * sizeof *(*array)->nodes;
            *array = (*array)->next;
            continue;
        }
        if (!describe_block(heap, block, &info) || info.block_bytes > (size_t)(end - block))
            return false;
        if (visit)
            visit(argument, &info);
        block += info.block_bytes;
    }
    return true;
}

static bool walk_segments(struct cartesian_heap *heap, heap_visitor *visit, void *argument)
{
    char *start, *end;
    bool valid = true;
    const struct cartesian_array *array = heap->first_array;
    for (size_t index = 0; heap->pages->segment(heap->pages, index, &start, &end); index++)
        valid = walk_segment(heap, start, end, &array, visit, argument) && valid;
    return valid;
}

static void cartesian_walk(void *state, heap_visitor *visit, void *argument)
{
    walk_segments(state, visit, argument);
}

struct tree_check {
    const struct cartesian_heap *heap;
    const char *end; /* of the free block before */
    uint64_t nodes;
};

static bool check_node(void *argument, const struct cartesian_node *node, size_t depth)
{
    struct tree_check *tree = argument;
    (void)depth;
    bool valid = node->block > tree->end && node->bytes > 0 &&
                 node->bytes % tree->heap->alignment == 0 && weight(node->left) <= node->bytes &&
                 weight(node->right) <= node->bytes;
    tree->end = node->block + node->bytes;
    tree->nodes++;
    return valid;
}

static void count_tree_blocks(void *argument, const struct block_info *info)
{
    uint64_t *free_blocks = argument;
    *free_blocks += info->state == BLOCK_FREE;
}

/* Every node is in the tree, spare, or fresh; every free block has one or waits for it. */
static bool cartesian_is_valid(void *state)
{
    struct cartesian_heap *heap = state;
    struct tree_check tree = {.heap = heap};
    uint64_t free_blocks = 0, waiting = 0, spare = 0;
    if (!visit_tree(heap, check_node, &tree) ||
        !walk_segments(heap, count_tree_blocks, &free_blocks))
        return false;
    for (const char *block = heap->nodeless; block;
         block = *(char *const *)(block + CARTESIAN_HEADER_BYTES))
        waiting++;
    for (const struct cartesian_node *node = heap->spare_nodes; node; node = node->left)
        spare++;
    uint64_t fresh = (uint64_t)(heap->fresh_node_end - heap->fresh_node);
    return free_blocks == tree.nodes + waiting &&
           tree.nodes + spare + fresh + 1 == node_limit(heap);
}

#define DESCRIPTION                                                                            \
    .name = "cartesian", .title = "better fit in a Cartesian tree (Stephenson, SunOS)",        \
    .source = "C. J. Stephenson, Fast Fits: New Methods for Dynamic Storage Allocation, 1983", \
    .options = cartesian_options

const struct option_description cartesian_options[] = {
    CARTESIAN_OPTIONS(0, CARTESIAN_TREE_PUBLISHED, false),
    ALIGNMENT_OPTION(0, struct cartesian_options, alignment),
    CARTESIAN_FIXED_OPTIONS(0, BLOCK_ALIGNMENT),
    {.key = ""},
};

/* tree=fast. */

static void fast_init(void *state, struct page_source *pages, const void *options)
{
    struct tagged_heap *heap = state;
    const struct cartesian_options *chosen = options;
    heap->pages = pages;
    heap->has_tree = true;
    heap->counters.on = chosen->counters;
}

static const struct heap_policy fast_policy = {
    DESCRIPTION,
    .init = fast_init,
    TAGGED_FUNCTIONS,
};

static const struct heap_policy *policy_for(const void *options)
{
    const struct cartesian_options *chosen = options;
    return chosen->tree == CARTESIAN_TREE_FAST ? &fast_policy : &cartesian_policy;
}

const struct heap_policy cartesian_policy = {
    DESCRIPTION,
    .instead = policy_for,
    .heap_bytes = sizeof(struct cartesian_heap),
    .init = cartesian_init,
    .alloc = cartesian_alloc,
    .alloc_aligned = cartesian_alloc_aligned,
    .free = cartesian_free,
    .resize = cartesian_resize,
    .usable_size = cartesian_usable_size,
    .waste = cartesian_waste,
    .walk = cartesian_walk,
    .statistics = cartesian_statistics,
    .is_valid = cartesian_is_valid,
};
