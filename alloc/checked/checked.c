/* SPDX-License-Identifier: MIT
 *
 * checked.c: malloc, free and their kin of `blocks:checked`; see checked.h.
 */
#include "alloc/checked/checked.h"

#include "alloc/blocks/large.h"
#include "alloc/blocks/lookup.h"
#include "alloc/blocks/remote.h"
#include "alloc/blocks/slabs.h"
#include "alloc/blocks/slow.h"
#include "alloc/checked/delay.h"
#include "alloc/checked/faults.h"
#include "alloc/checked/guarded.h"
#include "alloc/checked/sweep.h"
#include "alloc/checked/zero_size.h"
#include "alloc/own_text.h"
#include "vm/own_memory.h"
#include "vm/pages.h"
#include "vm/private_memory.h"

/* Small blocks are those whose slot, with the trailer, is of a size class. */
static const size_t SMALLEST_LARGE = CLASS_LARGEST - TRAILER_BYTES + 1;

/* Allocation. */

/* Enters a block in a slot that is free no more. */
static inline void *hand_out(char *block, size_t slot_bytes, size_t size, unsigned how,
                             const void *site)
{
    uint64_t word = trailer_load(block, slot_bytes);
    if (word != 0) {
        uint64_t decoded = trailer_decode(block, word);
        if (__builtin_expect(!trailer_is_valid(decoded) || !trailer_is_dead(decoded) ||
                                 !fill_is_whole(block, slot_bytes),
                             0))
            report_dead_slot("malloc", block, slot_bytes);
    }
    size_t slack = slot_bytes - TRAILER_BYTES - size;
    fill_slot_slack(block, slot_bytes, slack);
    trailer_store(block, slot_bytes, trailer_live(slack, site_of(site), how));
    return block;
}

/* A block that `blocks` has found: of a slab, or during a fork a mapping. */
static void *hand_out_found(void *block, size_t size, unsigned how, const void *site)
{
    struct slab *slab = slab_at(block);
    if (slab_is_large(slab))
        return guarded_enter_found(slab, size, how, site);
    return hand_out(block, slab->block_bytes, size, how, site);
}

static __attribute__((noinline)) void *alloc_found(size_t size, unsigned how, const void *site)
{
    void *block = size == 0 ? zero_size_alloc(BLOCK_ALIGNMENT) : NULL;
    if (block)
        return block;
    if (size >= SMALLEST_LARGE)
        return guarded_alloc(BLOCK_ALIGNMENT, size, how, site, LARGE_PLAIN);
    do
        block = alloc_slowly(size + TRAILER_BYTES);
    while (!block && guarded_drain());
    return block ? hand_out_found(block, size, how, site) : NULL;
}

/* One of the free blocks of a word, any. */
static inline void *take_any_free(const struct bin *bin, uint64_t word)
{
    unsigned turn = delay_random() & 63;
    uint64_t turned = word >> turn | word << (-turn & 63);
    unsigned bit = ((unsigned)__builtin_ctzl(turned) + turn) & 63;
    void *block = bin->word_base + (size_t)bit * bin->block_bytes;
    slab_clear_free(bin->free_word, UINT64_C(1) << bit);
    return block;
}

static inline __attribute__((always_inline)) void *alloc_as(size_t size, unsigned how,
                                                            const void *site)
{
    if (__builtin_expect(size - 1 < TABLE_LARGEST - TRAILER_BYTES, 1)) {
        const struct bin *bin = bin_of_size(thread_heap, size + TRAILER_BYTES);
        uint64_t word = current_free_word(bin);
        if (__builtin_expect(word != 0, 1)) {
            void *block = take_any_free(bin, word);
            hand_out(block, bin->block_bytes, size, how, site);
            set_live(block);
            return block;
        }
    }
    return alloc_found(size, how, site);
}

static void *checked_alloc(size_t size)
{
    return alloc_as(size, BY_MALLOC, caller_of_frame());
}

static void *checked_alloc_zeroed(size_t size)
{
    if (size >= SMALLEST_LARGE)
        return guarded_alloc(BLOCK_ALIGNMENT, size, BY_MALLOC, caller_of_frame(), LARGE_ZERO);
    void *block = alloc_as(size, BY_MALLOC, caller_of_frame());
    return block && size > 0 ? memset(block, 0, size) : block;
}

static void *alloc_aligned_as(size_t alignment, size_t size, unsigned how, const void *site)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return alloc_as(size, how, site);
    void *block = size == 0 ? zero_size_alloc(alignment) : NULL;
    if (block)
        return block;
    if (alignment > CLASS_LARGEST || size >= SMALLEST_LARGE ||
        round_up(size + TRAILER_BYTES, alignment) > CLASS_LARGEST)
        return guarded_alloc(alignment, size, how, site, LARGE_PLAIN);
    do
        block = blocks_alloc_aligned(alignment, size + TRAILER_BYTES);
    while (!block && guarded_drain());
    return block ? hand_out_found(block, size, how, site) : NULL;
}

static void *checked_alloc_aligned(size_t alignment, size_t size)
{
    return alloc_aligned_as(alignment, size, BY_MALLOC, caller_of_frame());
}

/* Free. */

/* The word at the end of the slot before is no trailer. It was overwritten from either side: from
 * that slot or from this block. */
static __attribute__((noinline, cold)) void report_before(const struct freeing *freeing,
                                                          size_t slot_bytes)
{
    struct block_facts facts = {.block = freeing->block, .bytes = slot_bytes - TRAILER_BYTES};
    uint64_t decoded = trailer_decode(freeing->block, trailer_load(freeing->block, slot_bytes));
    if (trailer_is_valid(decoded))
        facts = slot_facts(freeing->block, slot_bytes, decoded);
    report_misuse(REPORT_FATAL, freeing->function, freeing->block,
                  "written before its start, or behind the end of the block before", &facts,
                  freeing->site);
}

/* Reports what end_block has found wrong. A block that another thread has begun to free looks live
 * but for its trailer. Returns what the trailer of the dead block is to say, for what follows where
 * reports end nothing. A block that was only freed wrongly keeps its trailer; that of one that was
 * overwritten is made anew. */
static __attribute__((noinline, cold)) uint64_t report_at_free(const struct freeing *freeing,
                                                               size_t slot_bytes)
{
    const char *block = freeing->block;
    uint64_t decoded = trailer_decode(block, trailer_load(block, slot_bytes));
    size_t slack = trailer_slack(decoded);
    if (trailer_is_valid(decoded) && trailer_is_dead(decoded)) {
        struct block_facts facts = slot_facts(block, slot_bytes, decoded);
        report_misuse(REPORT_FATAL, freeing->function, block, "freed twice", &facts, freeing->site);
        return decoded;
    }
    if (!trailer_is_valid(decoded) || slack > slot_bytes - TRAILER_BYTES ||
        !slack_is_whole(block + slot_bytes - TRAILER_BYTES - slack, slack)) {
        report_overwritten(freeing->function, block, slot_bytes, freeing->site);
        return 0;
    }
    report_mismatch(freeing, slot_facts(block, slot_bytes, decoded), trailer_detail(decoded));
    return decoded;
}

static inline bool is_whole_before(const char *block, size_t slot_bytes)
{
    if (__builtin_expect((uintptr_t)block % GRANULE_BYTES == 0, 0))
        return is_whole_before_granule(block);
    const char *before = block - slot_bytes;
    uint64_t word = trailer_load(before, slot_bytes);
    return word == 0 || trailer_is_valid(trailer_decode(before, word));
}

/* Looks at a block that is live no more, and makes it a dead one. */
static inline __attribute__((always_inline)) void end_block(const struct freeing *freeing,
                                                            size_t slot_bytes)
{
    char *block = freeing->block;
    uint64_t decoded = trailer_decode(block, trailer_load(block, slot_bytes));
    size_t slack = trailer_slack(decoded);
    /* Valid, live, and by the same operator: one comparison of all bits above the site. */
    bool as_expected =
        decoded >> 31 == (uint64_t)freeing->how << 1 && slack <= slot_bytes - TRAILER_BYTES &&
        slot_slack_is_whole(block, slot_bytes, slack) &&
        (freeing->size == UNKNOWN_SIZE || freeing->size == slot_bytes - TRAILER_BYTES - slack);
    if (__builtin_expect(!as_expected, 0))
        decoded = report_at_free(freeing, slot_bytes);
    if (__builtin_expect(!is_whole_before(block, slot_bytes), 0))
        report_before(freeing, slot_bytes);
    trailer_store(block, slot_bytes, trailer_dead(decoded, site_of(freeing->site)));
    atomic_signal_fence(memory_order_seq_cst); /* [trailer before contents] */
    fill_slot(block, slot_bytes);
}

static void free_zero_size(const struct freeing *freeing)
{
    struct block_facts facts = {.block = freeing->block};
    if (!zero_size_free(freeing->block))
        report_misuse(REPORT_FATAL, freeing->function, freeing->block,
                      "not a live block of no bytes, or freed twice", &facts, freeing->site);
}

static __attribute__((noinline)) void free_found(const struct freeing *freeing)
{
    void *block = freeing->block;
    if (zero_size_holds(block)) {
        free_zero_size(freeing);
        return;
    }
    struct slab *slab = slab_at(block);
    if (!slab) {
        report_foreign_pointer(freeing);
        return;
    }
    if (slab_is_large(slab)) {
        guarded_free(slab, freeing);
        return;
    }
    size_t index;
    if (!find_live(slab, block, &index)) {
        report_dead_pointer(freeing, slab);
    } else if (thread_heap_of(slab) == thread_heap) {
        clear_live(fast_table_unit(block));
        end_block(freeing, slab->block_bytes);
        delay_free(&thread_heap->bins[slab->class_index], block);
    } else {
        end_block(freeing, slab->block_bytes);
        push_remote_free(slab, block, index);
    }
}

static inline __attribute__((always_inline)) void free_as(struct freeing freeing)
{
    size_t unit = fast_table_unit(freeing.block), granule = unit / UNITS_PER_GRANULE;
    if (__builtin_expect(fast_table_covers(granule), 1)) {
        struct bin *bin = atomic_load_explicit(&fast_table.bins[granule], memory_order_relaxed);
        if (__builtin_expect(is_own(bin) && clear_live(unit), 1)) {
            end_block(&freeing, bin->block_bytes);
            delay_free(bin, freeing.block);
            return;
        }
    }
    free_found(&freeing);
}

static void checked_free(void *block)
{
    free_as((struct freeing){block, "free", caller_of_frame(), UNKNOWN_SIZE, BY_MALLOC});
}

/* Resizing. */

/* size: it has room in the slot. */
static void set_slot_size(char *block, const struct slab *slab, size_t size)
{
    size_t slack = slab->block_bytes - TRAILER_BYTES - size;
    uint64_t decoded = trailer_decode(block, trailer_load(block, slab->block_bytes));
    fill_slack(block + size, slack); /* [trailer before contents] */
    trailer_store(block, slab->block_bytes,
                  trailer_live(slack, trailer_site(decoded), trailer_detail(decoded)));
}

static bool resize_slot(char *block, const struct slab *slab, size_t size)
{
    size_t room = slab->block_bytes - TRAILER_BYTES;
    uint64_t decoded = trailer_decode(block, trailer_load(block, slab->block_bytes));
    bool fits = size <= room &&
                (size > room / 2 || size_class_of(size + TRAILER_BYTES) == slab->class_index);
    if (!fits && room - size != trailer_slack(decoded))
        return false;
    set_slot_size(block, slab, size);
    return true;
}

/* Shrinks a block where it is, when there is no memory to move it. */
static void shrink_in_place(char *block, struct slab *slab, size_t size)
{
    if (slab_is_large(slab))
        guarded_shrink(slab, size);
    else
        set_slot_size(block, slab, size);
}

/* Looks at the block of a pointer that was handed to realloc, and reports what is wrong with it.
 * False: it is no live block. */
static bool look_for_resize(const struct freeing *freeing, struct slab *slab,
                            struct block_facts *facts)
{
    size_t index;
    if (slab_is_large(slab)) {
        *facts = guarded_facts(slab);
        if (guarded_is_live(slab, freeing->block))
            return true;
        report_dead_pointer(freeing, slab);
        return false;
    }
    if (!find_live(slab, freeing->block, &index)) {
        report_dead_pointer(freeing, slab);
        return false;
    }
    uint64_t decoded =
        trailer_decode(freeing->block, trailer_load(freeing->block, slab->block_bytes));
    size_t slack = trailer_slack(decoded), room = slab->block_bytes - TRAILER_BYTES;
    if (!trailer_is_valid(decoded) || trailer_is_dead(decoded) || slack > room ||
        !slack_is_whole((char *)freeing->block + room - slack, slack)) {
        report_overwritten(freeing->function, freeing->block, slab->block_bytes, freeing->site);
        trailer_store(freeing->block, slab->block_bytes, decoded = trailer_live(0, 0, BY_MALLOC));
        fill_slack((char *)freeing->block + room, 0);
    }
    *facts = slot_facts(freeing->block, slab->block_bytes, decoded);
    if (trailer_detail(decoded) != BY_MALLOC)
        report_mismatch(freeing, *facts, trailer_detail(decoded));
    return true;
}

static void *move(const struct freeing *freeing, size_t old_size, size_t size, bool grows_large)
{
    void *moved =
        grows_large ? guarded_alloc(BLOCK_ALIGNMENT, size, BY_MALLOC, freeing->site, LARGE_TO_GROW)
                    : alloc_as(size, BY_MALLOC, freeing->site);
    if (!moved)
        return NULL;
    memcpy(moved, freeing->block, old_size < size ? old_size : size);
    return moved;
}

static void *checked_resize(void *block, size_t size)
{
    struct freeing freeing = {block, "realloc", caller_of_frame(), UNKNOWN_SIZE, BY_MALLOC};
    struct slab *slab = slab_at(block);
    struct block_facts facts;
    if (zero_size_holds(block) && zero_size_is_live(block)) {
        void *moved = alloc_as(size, BY_MALLOC, freeing.site);
        if (moved)
            zero_size_free(block);
        return moved;
    }
    if (!slab) {
        report_foreign_pointer(&freeing);
        return NULL;
    }
    if (!look_for_resize(&freeing, slab, &facts))
        return NULL;
    bool large = slab_is_large(slab);
    if (large ? size >= SMALLEST_LARGE && guarded_resize_in_place(slab, size)
              : resize_slot(block, slab, size))
        return block;
    void *moved =
        move(&freeing, facts.bytes, size, large && size > facts.bytes && size >= SMALLEST_LARGE);
    if (!moved && size < facts.bytes) {
        shrink_in_place(block, slab, size);
        return block;
    }
    if (!moved)
        return NULL;
    /* What was reported of the operator once is not said again. */
    if (!large)
        freeing.how = trailer_detail(trailer_decode(block, trailer_load(block, slab->block_bytes)));
    free_as(freeing);
    return moved;
}

/* C++, and the sized frees of C23. */

static void *create(size_t size)
{
    return alloc_as(size, BY_NEW, caller_of_frame());
}

static void *create_array(size_t size)
{
    return alloc_as(size, BY_NEW_ARRAY, caller_of_frame());
}

static void *create_aligned(size_t alignment, size_t size)
{
    return alloc_aligned_as(alignment, size, how_aligned(BY_NEW, alignment), caller_of_frame());
}

static void *create_array_aligned(size_t alignment, size_t size)
{
    return alloc_aligned_as(alignment, size, how_aligned(BY_NEW_ARRAY, alignment),
                            caller_of_frame());
}

static void destroy(void *block)
{
    free_as((struct freeing){block, "delete", caller_of_frame(), UNKNOWN_SIZE, BY_NEW});
}

static void destroy_array(void *block)
{
    free_as((struct freeing){block, "delete[]", caller_of_frame(), UNKNOWN_SIZE, BY_NEW_ARRAY});
}

static void destroy_sized(void *block, size_t size)
{
    free_as((struct freeing){block, "delete", caller_of_frame(), size, BY_NEW});
}

static void destroy_array_sized(void *block, size_t size)
{
    free_as((struct freeing){block, "delete[]", caller_of_frame(), size, BY_NEW_ARRAY});
}

static void destroy_aligned(void *block, size_t size, size_t alignment)
{
    free_as(
        (struct freeing){block, "delete", caller_of_frame(), size, how_aligned(BY_NEW, alignment)});
}

static void destroy_array_aligned(void *block, size_t size, size_t alignment)
{
    free_as((struct freeing){block, "delete[]", caller_of_frame(), size,
                             how_aligned(BY_NEW_ARRAY, alignment)});
}

static void free_sized_as(void *block, size_t size)
{
    free_as((struct freeing){block, "free_sized", caller_of_frame(), size, BY_MALLOC});
}

static void operators_end(void)
{
    checked_tells_operators = false;
}

static const struct allocator_operators operators = {
    .end = operators_end,
    .create = create,
    .create_array = create_array,
    .create_aligned = create_aligned,
    .create_array_aligned = create_array_aligned,
    .destroy = destroy,
    .destroy_array = destroy_array,
    .destroy_sized = destroy_sized,
    .destroy_array_sized = destroy_array_sized,
    .destroy_aligned = destroy_aligned,
    .destroy_array_aligned = destroy_array_aligned,
    .free_sized = free_sized_as,
};

/* The rest of the table. */

/* Facts of a live block of the program. False: there is none. */
static bool live_facts(const void *block, size_t *size, size_t *slot_bytes)
{
    struct slab *slab = slab_at(block);
    if (!slab)
        return false;
    *slot_bytes = slab->block_bytes;
    if (slab_is_large(slab)) {
        *size = guarded_facts(slab).bytes;
        return guarded_is_live(slab, block);
    }
    size_t index;
    if (!find_live(slab, block, &index))
        return false;
    uint64_t decoded = trailer_decode(block, trailer_load(block, slab->block_bytes));
    *size = slab->block_bytes - TRAILER_BYTES;
    if (trailer_is_valid(decoded) && trailer_slack(decoded) <= *size)
        *size -= trailer_slack(decoded);
    return true;
}

static size_t checked_usable_size(const void *block)
{
    size_t size, slot_bytes;
    return live_facts(block, &size, &slot_bytes) ? size : 0;
}

static struct block_waste checked_waste(const void *block)
{
    size_t size, slot_bytes;
    bool live = live_facts(block, &size, &slot_bytes);
    return (struct block_waste){.header_bytes = live ? slot_bytes - size : 0};
}

/* What waits is free to the program, as mallinfo has it. */
static void checked_statistics(struct allocator_statistics *statistics)
{
    uint64_t blocks, bytes;
    blocks_statistics(statistics);
    guarded_count_waiting(&blocks, &bytes);
    if (blocks > statistics->large_blocks || bytes > statistics->large_bytes)
        return;
    statistics->large_blocks -= blocks;
    statistics->large_bytes -= bytes;
    statistics->heap.free_blocks += blocks;
    statistics->heap.free_bytes += bytes;
}

static size_t checked_trim(void)
{
    guarded_drain();
    return blocks_trim();
}

static void checked_fork_child(void)
{
    own_memory_forked();
    faults_fork_child();
    delay_fork_child();
    blocks_fork_child();
}

static void checked_thread_exit(void)
{
    delay_thread_exit();
    blocks_thread_exit();
}

enum on_error { ON_ERROR_ABORT, ON_ERROR_REPORT };

struct checked_options {
    struct blocks_options heap;
    unsigned on_error;
    uint64_t fill_bytes, reports;
};

/* Puts a granule without access before the heap's first block: a write before that block would meet
 * the heap's own memory there, and not be noticed. The heap works without the granule too. */
static void fence_first_block(void)
{
    char *fence = area_extend(&blocks_heap.runs.area, GRANULE_BYTES);
    if (fence)
        pages_guard(fence, GRANULE_BYTES);
}

static bool report_fault(const char *access, const void *address, const void *at)
{
    return zero_size_report_fault(access, address, at) || guarded_report_fault(access, address, at);
}

static bool checked_init(const void *options)
{
    const struct checked_options *chosen = options;
    own_text_find();
    trailer_init();
    report_init(chosen->on_error == ON_ERROR_REPORT, chosen->reports);
    checked_fill_most = round_up(chosen->fill_bytes, 16);
    blocks_heap.slab_made = clear_trailers;
    zero_size_init();
    char *page = private_memory_map(PAGE_BYTES);
    if (!page || !sites_init() || !blocks_init((unsigned)chosen->heap.retain_percent, NULL))
        return false;
    own_memory_init(page);
    faults_init(report_fault);
    fence_first_block();
    return true;
}

static const struct option_description options[] = {
    BLOCKS_OPTIONS(0),
    {"on-error", "what a misuse does that has harmed memory",
     KEYWORD_IN(0, struct checked_options, on_error),
     .keywords = {[ON_ERROR_ABORT] = "abort", [ON_ERROR_REPORT] = "report"}},
    {"fill", "bytes of a freed block that are overwritten, and looked at before its reuse",
     NUMBER_IN(0, struct checked_options, fill_bytes), .maximum = CLASS_LARGEST, .initial = 4096},
    {"reports", "so many misuses are reported, further ones counted",
     NUMBER_IN(0, struct checked_options, reports), .maximum = 1000000, .initial = 64},
    {.key = ""},
};

const struct allocator blocks_checked = {
    .name = "blocks",
    .preset = "checked",
    .preset_title = "notices overflows, double frees and uses after free",
    .title = "segregated fit, slabs of one size, a thread each (today's)",
    .source = "after Berger et al. 2000; Leijen, Zorn, de Moura 2019",
    .options = options,
    .init = checked_init,
    .alloc = checked_alloc,
    .alloc_zeroed = checked_alloc_zeroed,
    .alloc_aligned = checked_alloc_aligned,
    .free = checked_free,
    .resize = checked_resize,
    .usable_size = checked_usable_size,
    .fork_child = checked_fork_child,
    .trim = checked_trim,
    .fault_action = faults_action,
    .operators = &operators,
    .at_exit = sweep_at_exit,
    .owns = blocks_owns,
    .waste = checked_waste,
    .thread_exit = checked_thread_exit,
    .statistics = checked_statistics,
    .cached_bytes = blocks_cached_bytes,
    .walk = checked_walk,
    .is_valid = blocks_is_valid,
    .tune = blocks_tune,
};
