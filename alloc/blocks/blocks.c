/* SPDX-License-Identifier: MIT
 *
 * blocks.c: segregated fit for threads, and the heap under the collector.
 *
 * Memory is cut into slabs of blocks of one size (slab.h, size_class.h). A slab belongs to one
 * thread, which alone hands out its blocks, so that the common path takes no lock and makes no
 * atomic change:
 *
 *   allocate  the block of the size that the thread freed last; it has none listed: the lowest bit
 *             of the current slab's word of free bits, cleared
 *   free      the thread's own slab: on the list, or if that is full, granule map -> slab, index by
 *             multiplication, set the bit
 *             another's: set the bit in the word of remote frees, atomically, and put the slab on
 *             its owner's inbox if it is not there already
 *
 * Either changes one more bit, at an address computed from the block's: set while the block is the
 * program's. A second free, or that of an address within a block, finds it clear. Free finds bin
 * and owner in a table as near (struct near), so that no record of a slab is read.
 *
 * When a word has no bit left the thread goes on to the next word, round the slab as long as
 * enough of it is free, then to another slab that has become available, to what its inbox holds,
 * to a slab that an ended thread left behind, and at last to a new one. `credit` counts bits
 * set, so that a slab's change of place (full, available, empty) costs the common path one
 * decrement. Slabs that are empty go back to the heap's runs of granules (runs.h).
 *
 * Stopping for a collection. A thread may be stopped between any two instructions here, and the
 * collector, which holds the lock, looks at bits and at the shape of slabs alone. So the bits are
 * changed by single instructions, and a block that is being handed out is in a register before its
 * bit is cleared. A thread that is stopped before clears the bit of a block that is still free
 * after; what a sweep sets meanwhile in the same word it leaves as it is. A list is whole between
 * any two instructions, and a block on its way to or from it is in a register and looks like the
 * program's. Of the bits of live blocks a stopped thread may put back what a sweep cleared: that
 * of a block that nobody has, which is set again before the block is handed out.
 *
 * Sources: Berger et al., "Hoard", ASPLOS 2000 (ownership by thread); Leijen, Zorn, de Moura,
 * "Mimalloc", APLAS 2019 (frees of the thread and of others apart); Boehm & Weiser, SP&E 1988
 * (bits apart from the blocks).
 */
#include "alloc/blocks/blocks.h"

#include <string.h>

#include "alloc/blocks/heap.h"
#include "vm/fork_chain.h"
#include "vm/message.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

/* Slabs of blocks above 4 KiB are larger, so that at least eight fit. */
enum { SMALL_SLAB_GRANULES = 1, LARGE_SLAB_GRANULES = 4, SMALL_SLAB_LARGEST = 4096 };

/* A slab is worth going through again when one block in this many is free. */
enum { WORTHWHILE = 8 };

/* How many blocks of a size a thread may list. */
enum { LISTED = 256, LISTED_BYTES = 65536 };

/* Of slabs whose change of place depends on no count. */
static const uint32_t NO_CREDIT_LIMIT = UINT32_MAX;

struct blocks_heap blocks_heap = {
    .lock = LOCK_INITIALIZER(RANK_ARENA),
    .common_lock = LOCK_INITIALIZER(RANK_REGISTRY),
};

static uint64_t no_free_blocks;

#define EMPTY_BINS                                                       \
    {                                                                    \
        .bins = { [0 ... SIZE_CLASSES - 1] = {.free = &no_free_blocks} } \
    }
static struct blocks_thread unborn_thread = EMPTY_BINS;
static struct blocks_thread dead_thread; /* made when the first thread ends */

static __thread struct blocks_thread *this_thread = &unborn_thread;

const struct blocks_thread *calling_thread(void)
{
    return this_thread;
}

/* The common path. */

static void *alloc_slowly(size_t size) __attribute__((noinline));
static void free_slowly(void *block) __attribute__((noinline));
static void free_to_slab(struct bin *bin, void *block) __attribute__((noinline));
_Noreturn static void report_not_live(const char *function, const void *block)
    __attribute__((noinline, cold));

struct near near = {.base = (uintptr_t)1 << 62}; /* until it is known, no address is near */

static inline void *take_lowest(const struct bin *bin, uint64_t word)
{
    void *block = bin->word_base + (size_t)__builtin_ctzl(word) * bin->block_bytes;
    keep_in_register(block);
    slab_clear_free(bin->free, word & -word);
    set_live(near_unit(block));
    return block;
}

static inline void *take_listed(struct bin *bin)
{
    void *block = bin->listed;
    bin->listed = *(void **)block;
    bin->room++;
    set_live(near_unit(block));
    return block;
}

/* For a block that is not live any more; there was room. */
static inline void list(struct bin *bin, void *block)
{
    *(void **)block = bin->listed;
    bin->listed = block;
}

void *blocks_alloc(size_t size)
{
    if (__builtin_expect(size <= TABLE_LARGEST, 1)) {
        struct bin *bin = &this_thread->bins[size_class_table[(size + 15) / 16]];
        keep_in_register(bin);
        if (__builtin_expect(bin->listed != NULL, 1))
            return take_listed(bin);
        uint64_t word = *bin->free;
        if (__builtin_expect(word != 0, 1))
            return take_lowest(bin, word);
    }
    return alloc_slowly(size);
}

static inline struct slab *slab_at(const void *address)
{
    struct owner *owner = granule_map_get(address);
    return owner && owner->kind == OWNER_SLAB ? (struct slab *)owner : NULL;
}

static inline struct blocks_thread *thread_of(const struct slab *slab)
{
    return atomic_load_explicit(&slab->thread, memory_order_relaxed);
}

bool block_is_live(const struct slab *slab, size_t index)
{
    return (slab_live(slab, index / SLAB_WORD_BLOCKS) & slab_bit(index)) != 0 &&
           (slab_is_large(slab) || unit_is_live(near_unit(slab_block(slab, index))));
}

/* The index of a block. Aborts when it is no live block of the slab. */
static inline size_t live_index(const struct slab *slab, const void *block, const char *function)
{
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    if (!exact || index >= slab->capacity || !block_is_live(slab, index))
        report_not_live(function, block);
    return index;
}

static inline bool is_own(const struct bin *bin)
{
    return (size_t)((const char *)bin - (const char *)this_thread->bins) < sizeof this_thread->bins;
}

void blocks_free(void *block)
{
    size_t unit = near_unit(block), granule = unit / UNITS_PER_GRANULE;
    if (__builtin_expect(granule < NEAR_GRANULES, 1)) {
        struct bin *bin = atomic_load_explicit(&near.bins[granule], memory_order_relaxed);
        if (__builtin_expect(is_own(bin), 1)) {
            if (__builtin_expect(!clear_live(unit), 0))
                report_not_live("free", block);
            if (__builtin_expect(--bin->room < 0, 0))
                free_to_slab(bin, block);
            else
                list(bin, block);
            return;
        }
    }
    free_slowly(block);
}

/* A thread's lists. A signal handler must not find them half changed: POSIX does not let it
 * allocate, and one that does is told so rather than left in a ring without an end. */

static void begin_slow_path(struct blocks_thread *thread)
{
    if (thread->in_slow_path)
        report_signal_handler();
    thread->in_slow_path = true;
    atomic_signal_fence(memory_order_seq_cst);
}

static void end_slow_path(struct blocks_thread *thread)
{
    atomic_signal_fence(memory_order_seq_cst);
    thread->in_slow_path = false;
}

/* Lists of slabs. */

static void push(struct slab **list, struct slab *slab)
{
    slab->previous = NULL;
    slab->next = *list;
    if (*list)
        (*list)->previous = slab;
    *list = slab;
}

static void unlink_from(struct slab **list, struct slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        *list = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

static void announce(struct slab *_Atomic *inbox, struct slab *slab)
{
    struct slab *head = atomic_load_explicit(inbox, memory_order_relaxed);
    do
        slab->inbox_next = head;
    while (!atomic_compare_exchange_weak_explicit(inbox, &head, slab, memory_order_release,
                                                  memory_order_relaxed));
}

static struct slab *empty_inbox(struct slab *_Atomic *inbox)
{
    if (!atomic_load_explicit(inbox, memory_order_relaxed))
        return NULL;
    return atomic_exchange_explicit(inbox, NULL, memory_order_acquire);
}

static void announce_to_owner(struct slab *slab)
{
    struct blocks_thread *thread = thread_of(slab);
    announce(thread ? &thread->inbox : &blocks_heap.shared_inbox, slab);
}

/* Free blocks of a slab. */

/* A block of n units has a bit every n bits, so 64 blocks have n words of bits to themselves. */
void blocks_clear_live(const struct slab *slab, size_t word, uint64_t blocks, bool last)
{
    if (slab_is_large(slab))
        return;
    size_t units = slab->block_bytes >> UNIT_SHIFT, first = word * units;
    size_t slab_unit = near_unit(slab->base);
    if (last && count_bits(blocks) > units / 4) {
        size_t left = slab->granules * UNITS_PER_GRANULE / 64 - first;
        memset((void *)&near.live[slab_unit / 64 + first], 0, (units < left ? units : left) * 8);
        return;
    }
    for (size_t unit = slab_unit + first * 64; blocks; blocks &= blocks - 1)
        clear_live(unit + (size_t)__builtin_ctzl(blocks) * units);
}

/* Makes the remote frees so far the slab's own. For its thread, or without one under the lock. */
static void collect_remote(struct slab *slab)
{
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words; i++)
        if (atomic_load_explicit(&slab->words[i].remote, memory_order_relaxed)) {
            uint64_t blocks =
                atomic_exchange_explicit(&slab->words[i].remote, 0, memory_order_acquire);
            blocks_clear_live(slab, i, blocks, false);
            slab_set_free(&slab->words[i], blocks);
        }
}

/* Where a free of the owner's lists a block; with NULL it must look closer. */
static void set_near_bin(const struct slab *slab, struct bin *bin)
{
    size_t first = near_unit(slab->base) / UNITS_PER_GRANULE;
    for (size_t i = first; i < first + slab->granules && i < NEAR_GRANULES; i++)
        atomic_store_explicit(&near.bins[i], bin, memory_order_relaxed);
}

/* Whose slab it is. While remote frees wait for a look, a free must look at them. */
static void set_thread(struct slab *slab, struct blocks_thread *thread)
{
    atomic_store_explicit(&slab->thread, thread, memory_order_release);
    bool waiting = atomic_load_explicit(&slab->announced, memory_order_seq_cst);
    set_near_bin(slab, thread && !waiting ? &thread->bins[slab->class_index] : NULL);
}

static uint32_t count_free(const struct slab *slab)
{
    uint32_t count = 0;
    size_t words = slab_words(slab);
    for (size_t i = 0; i < words; i++)
        count += count_bits(slab->words[i].free);
    return count;
}

static uint32_t worthwhile(const struct slab *slab)
{
    uint32_t count = slab->capacity / WORTHWHILE;
    return count > 0 ? count : 1;
}

static void point_at_word(struct bin *bin, size_t word)
{
    struct slab *slab = bin->current;
    bin->word_base = slab_block(slab, word * SLAB_WORD_BLOCKS);
    bin->free = &slab->words[word].free;
}

/* Moves on to a word with a free block, from `first` to the end of the current slab. */
static bool find_word(struct bin *bin, size_t first)
{
    size_t words = slab_words(bin->current);
    for (size_t i = first; i < words; i++)
        if (bin->current->words[i].free) {
            point_at_word(bin, i);
            return true;
        }
    return false;
}

static void leave_current(struct bin *bin)
{
    bin->current = NULL;
    bin->free = &no_free_blocks;
}

static struct bin *bin_of(const struct slab *slab)
{
    return &thread_of(slab)->bins[slab->class_index];
}

/* Gives an empty slab's memory back. It is on no list; an inbox may still have its record. */
static void release_locked(struct slab *slab)
{
    char *base = slab->base;
    size_t granules = slab->granules;
    set_thread(slab, NULL);
    drop_slab_record(slab);
    runs_give(&blocks_heap.runs, base, granules, false);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
}

static void release(struct slab *slab)
{
    lock_acquire(&blocks_heap.lock);
    release_locked(slab);
    lock_release(&blocks_heap.lock);
}

/* Puts a slab of this thread, which is neither current nor on a list, where its free blocks say
 * that it belongs. An empty one stays if it is the bin's only one. */
static void put_in_place(struct bin *bin, struct slab *slab)
{
    collect_remote(slab);
    uint32_t count = count_free(slab);
    if (count == slab->capacity && (bin->available || bin->current)) {
        release(slab);
    } else if (count >= worthwhile(slab)) {
        slab->place = SLAB_AVAILABLE;
        slab->credit = count < slab->capacity ? slab->capacity - count : NO_CREDIT_LIMIT;
        push(&bin->available, slab);
    } else {
        slab->place = SLAB_FULL;
        slab->credit = worthwhile(slab) - count;
        push(&bin->full, slab);
    }
}

static void unlink_from_bin(struct bin *bin, struct slab *slab)
{
    if (slab->place == SLAB_AVAILABLE)
        unlink_from(&bin->available, slab);
    else if (slab->place == SLAB_FULL)
        unlink_from(&bin->full, slab);
}

/* The slab's credit is used up, or others have freed blocks of it. */
static void place_anew(struct slab *slab)
{
    if (slab->place == SLAB_CURRENT) {
        slab->credit = NO_CREDIT_LIMIT;
        return;
    }
    struct bin *bin = bin_of(slab);
    unlink_from_bin(bin, slab);
    put_in_place(bin, slab);
}

/* For a block of the thread's slab that is not live any more. True: the slab has its place to
 * find again. */
static bool give_to_slab(void *block)
{
    struct slab *slab = slab_at(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    slab_set_free(&slab->words[index / SLAB_WORD_BLOCKS], slab_bit(index));
    return --slab->credit == 0;
}

/* The common path of free comes here when it found no room. */
static void free_to_slab(struct bin *bin, void *block)
{
    bin->room = 0;
    if (!give_to_slab(block))
        return;
    begin_slow_path(this_thread);
    place_anew(slab_at(block));
    end_slow_path(this_thread);
}

/* Gives what the thread has listed to the slabs. Block by block: a collection may come between. */
static void empty_lists(struct blocks_thread *thread)
{
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        while (thread->bins[i].listed) {
            void *block = thread->bins[i].listed;
            thread->bins[i].listed = *(void **)block;
            thread->bins[i].room++;
            keep_in_register(block);
            if (give_to_slab(block))
                place_anew(slab_at(block));
        }
}

/* After a sweep: every slab of the bin but the current one has its place to find again. */
static void settle(struct bin *bin)
{
    uint64_t sweeps = atomic_load_explicit(&blocks_heap.sweeps, memory_order_acquire);
    if (bin->sweep == sweeps)
        return;
    bin->sweep = sweeps;
    struct slab *lists[] = {bin->full, bin->available};
    bin->full = bin->available = NULL;
    for (size_t i = 0; i < 2; i++)
        for (struct slab *slab = lists[i], *next; slab; slab = next) {
            next = slab->next;
            put_in_place(bin, slab);
        }
}

static void settle_all(struct blocks_thread *thread)
{
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        settle(&thread->bins[i]);
}

void blocks_settle_thread(void)
{
    if (!this_thread->alive || this_thread->in_slow_path)
        return;
    begin_slow_path(this_thread);
    empty_lists(this_thread);
    settle_all(this_thread);
    end_slow_path(this_thread);
}

/* Memory for a bin. */

void count_taken(size_t bytes)
{
    if (blocks_heap.collector && blocks_heap.collector->may_collect)
        atomic_fetch_add_explicit(&blocks_heap.taken_bytes, bytes, memory_order_relaxed);
}

static void make_current(struct bin *bin, struct slab *slab)
{
    count_taken(count_free(slab) * slab->block_bytes);
    slab->place = SLAB_CURRENT;
    slab->credit = NO_CREDIT_LIMIT;
    bin->current = slab;
}

/* Goes round the current slab while that is worthwhile. */
static bool use_current(struct bin *bin)
{
    struct slab *slab = bin->current;
    if (!slab)
        return false;
    const struct slab_word *at =
        (const struct slab_word *)((const char *)bin->free - offsetof(struct slab_word, free));
    if (bin->free != &no_free_blocks && find_word(bin, (size_t)(at - slab->words) + 1))
        return true;
    collect_remote(slab);
    uint32_t count = count_free(slab);
    if (count >= worthwhile(slab)) {
        count_taken(count * slab->block_bytes);
        return find_word(bin, 0);
    }
    leave_current(bin);
    put_in_place(bin, slab);
    return false;
}

static bool use_available(struct bin *bin)
{
    struct slab *slab = bin->available;
    if (!slab)
        return false;
    unlink_from(&bin->available, slab);
    collect_remote(slab);
    make_current(bin, slab);
    return find_word(bin, 0);
}

/* Looks at the slabs of which other threads have freed blocks. An entry is no more than a hint:
 * its record may have been given up, used again or changed hands since. */
static void read_inbox(struct blocks_thread *thread)
{
    struct slab *slab = empty_inbox(&thread->inbox);
    while (slab) {
        struct slab *next = slab->inbox_next;
        if (thread_of(slab) != thread) {
            announce_to_owner(slab);
        } else {
            atomic_store_explicit(&slab->announced, false, memory_order_seq_cst);
            set_thread(slab, thread);
            if (slab->place != SLAB_CURRENT)
                place_anew(slab);
        }
        slab = next;
    }
}

static size_t granules_of_class(unsigned class_index)
{
    return size_class_bytes[class_index] <= SMALL_SLAB_LARGEST ? SMALL_SLAB_GRANULES
                                                               : LARGE_SLAB_GRANULES;
}

/* The bits of a slab to come are clear, and no roots of a collection. */
static void enter_live_bits(char *base, size_t granules, bool zero)
{
    _Atomic uint64_t *bits = &near.live[near_unit(base) / 64];
    size_t bytes = granules * UNITS_PER_GRANULE / 8;
    if (!zero)
        memset((void *)bits, 0, bytes);
    char *granule = (char *)round_down((uintptr_t)bits, GRANULE_BYTES);
    if (blocks_heap.collector && !granule_map_get(granule))
        enter_private_memory(granule, GRANULE_BYTES);
}

/* With the lock held. */
static struct slab *new_slab(unsigned class_index, struct blocks_thread *thread)
{
    size_t granules = granules_of_class(class_index);
    size_t block_bytes = size_class_bytes[class_index];
    uint32_t capacity = (uint32_t)(granules * GRANULE_BYTES / block_bytes);
    bool zero;
    char *base = runs_take(&blocks_heap.runs, granules, &zero);
    if (!base)
        return NULL;
    struct slab *slab = new_slab_record((capacity + SLAB_WORD_BLOCKS - 1) / SLAB_WORD_BLOCKS);
    if (!slab) {
        runs_give(&blocks_heap.runs, base, granules, zero);
        return NULL;
    }
    set_shape(slab, base, block_bytes, capacity);
    slab->granules = granules;
    slab->class_index = (uint8_t)class_index;
    for (size_t i = 0; i < slab_words(slab); i++)
        slab->words[i].free = slab_word_mask(slab, i);
    enter_live_bits(base, granules, zero);
    granule_map_set(base, granules * GRANULE_BYTES, slab);
    set_thread(slab, thread);
    return slab;
}

/* Leaves a slab that is on no list to whichever thread wants it. With the lock held. */
static void share(struct slab *slab)
{
    collect_remote(slab);
    uint32_t count = count_free(slab);
    if (count == slab->capacity) {
        release_locked(slab);
        return;
    }
    struct shared_bin *shared = &blocks_heap.shared[slab->class_index];
    set_thread(slab, NULL);
    slab->place = count > 0 ? SLAB_SHARED : SLAB_SHARED_FULL;
    push(count > 0 ? &shared->available : &shared->full, slab);
}

static void share_anew(struct slab *slab)
{
    struct shared_bin *shared = &blocks_heap.shared[slab->class_index];
    unlink_from(slab->place == SLAB_SHARED ? &shared->available : &shared->full, slab);
    share(slab);
}

static void share_all_anew(struct slab **list)
{
    struct slab *slab = *list;
    *list = NULL;
    while (slab) {
        struct slab *next = slab->next;
        share(slab);
        slab = next;
    }
}

/* What ended threads left has had frees, or a sweep: with the lock held. */
static void settle_shared(void)
{
    for (struct slab *slab = empty_inbox(&blocks_heap.shared_inbox), *next; slab; slab = next) {
        next = slab->inbox_next;
        if (thread_of(slab)) {
            announce_to_owner(slab);
            continue;
        }
        atomic_store_explicit(&slab->announced, false, memory_order_seq_cst);
        if (slab->place == SLAB_SHARED || slab->place == SLAB_SHARED_FULL)
            share_anew(slab);
    }
    uint64_t sweeps = atomic_load_explicit(&blocks_heap.sweeps, memory_order_acquire);
    if (blocks_heap.shared_sweep == sweeps)
        return;
    blocks_heap.shared_sweep = sweeps;
    for (unsigned i = 0; i < SIZE_CLASSES; i++) {
        share_all_anew(&blocks_heap.shared[i].full);
        share_all_anew(&blocks_heap.shared[i].available);
    }
}

/* A slab without a thread that has a free block, as this thread's. With the lock held. */
static struct slab *adopt(unsigned class_index, struct blocks_thread *thread)
{
    struct shared_bin *shared = &blocks_heap.shared[class_index];
    settle_shared();
    struct slab *slab = shared->available;
    if (!slab)
        return NULL;
    unlink_from(&shared->available, slab);
    collect_remote(slab);
    set_thread(slab, thread);
    return slab;
}

/* A record that no thread uses may still have been sent slabs by one that looked too early. */
static void forward_old_inboxes(void)
{
    for (struct blocks_thread *thread = blocks_heap.idle_threads; thread; thread = thread->next)
        read_inbox(thread);
}

static bool adopt_slab(struct blocks_thread *thread, struct bin *bin, unsigned class_index)
{
    lock_acquire(&blocks_heap.lock);
    forward_old_inboxes();
    struct slab *slab = adopt(class_index, thread);
    lock_release(&blocks_heap.lock);
    if (!slab)
        return false;
    make_current(bin, slab);
    return find_word(bin, 0);
}

static bool take_new_slab(struct blocks_thread *thread, struct bin *bin, unsigned class_index)
{
    lock_acquire(&blocks_heap.lock);
    struct slab *slab = new_slab(class_index, thread);
    blocks_heap.used_granules = blocks_heap.runs.used_granules;
    lock_release(&blocks_heap.lock);
    if (!slab)
        return false;
    make_current(bin, slab);
    point_at_word(bin, 0);
    return true;
}

static bool has_collected(void)
{
    const struct blocks_collector *collector = blocks_heap.collector;
    return collector && collector->may_collect && collector->may_collect();
}

enum growth ask_collector(size_t bytes, unsigned tries, bool exhausted)
{
    if (!blocks_heap.collector)
        return GROW;
    return blocks_heap.collector->may_grow(bytes, tries, exhausted);
}

/* Gives the bin a word with a free block. False: out of memory. */
static bool refill(struct blocks_thread *thread, unsigned class_index)
{
    struct bin *bin = &thread->bins[class_index];
    bool exhausted = false;
    for (unsigned tries = 0;; tries++) {
        if (use_current(bin))
            return true;
        if (tries == 0 && has_collected())
            settle_all(thread); /* what is empty now serves any class */
        settle(bin);
        read_inbox(thread);
        if (use_available(bin) || adopt_slab(thread, bin, class_index))
            return true;
        enum growth growth =
            ask_collector(granules_of_class(class_index) * GRANULE_BYTES, tries, exhausted);
        if (growth == REFUSE)
            return false;
        if (growth == RETRY) {
            settle_all(thread); /* what is empty now serves any class */
            continue;
        }
        if (take_new_slab(thread, bin, class_index))
            return true;
        if (exhausted && !blocks_heap.collector)
            return false;
        if (!exhausted)
            empty_lists(thread); /* what it lists keeps whole slabs from serving */
        exhausted = true;
    }
}

static void *alloc_from(struct blocks_thread *thread, unsigned class_index)
{
    struct bin *bin = &thread->bins[class_index];
    if (bin->listed)
        return take_listed(bin);
    if (*bin->free == 0) {
        begin_slow_path(thread);
        bool filled = refill(thread, class_index);
        end_slow_path(thread);
        if (!filled)
            return NULL;
    }
    return take_lowest(bin, *bin->free);
}

/* Threads. */

/* None if a collector must see every allocation. */
int32_t list_room(size_t block_bytes)
{
    const struct blocks_collector *collector = blocks_heap.collector;
    size_t room = LISTED_BYTES / block_bytes;
    return collector && collector->before_allocation ? 0 : room < LISTED ? (int32_t)room : LISTED;
}

static void start_bins(struct blocks_thread *thread)
{
    for (size_t i = 0; i < SIZE_CLASSES; i++)
        thread->bins[i] =
            (struct bin){.free = &no_free_blocks,
                         .block_bytes = size_class_bytes[i],
                         .room = list_room(size_class_bytes[i]),
                         .sweep = atomic_load_explicit(&blocks_heap.sweeps, memory_order_acquire)};
}

static struct blocks_thread *take_thread_record(bool *first)
{
    lock_acquire(&blocks_heap.lock);
    struct blocks_thread *thread = blocks_heap.idle_threads;
    if (thread)
        blocks_heap.idle_threads = thread->next;
    else
        thread = new_thread_record();
    if (thread) {
        start_bins(thread);
        thread->alive = true;
        *first = blocks_heap.threads++ == 0;
    }
    lock_release(&blocks_heap.lock);
    return thread;
}

/* False for a thread that has ended as far as we know, or without memory for a record. */
static bool start_thread(void)
{
    if (this_thread == &dead_thread)
        return false;
    if (!near.bins)
        allocator_first_use();
    bool first = false;
    struct blocks_thread *thread = take_thread_record(&first);
    if (!thread)
        return false;
    this_thread = thread;
    if (!first && allocator_thread_started)
        allocator_thread_started();
    return true;
}

static struct blocks_thread *make_common(void)
{
    lock_acquire(&blocks_heap.lock);
    struct blocks_thread *common = new_thread_record();
    if (common)
        start_bins(common);
    lock_release(&blocks_heap.lock);
    return common;
}

static void *alloc_from_common(unsigned class_index)
{
    lock_acquire(&blocks_heap.common_lock);
    if (!blocks_heap.common)
        blocks_heap.common = make_common();
    void *block = blocks_heap.common ? alloc_from(blocks_heap.common, class_index) : NULL;
    lock_release(&blocks_heap.common_lock);
    return block;
}

static void *alloc_small(size_t size)
{
    unsigned class_index = size_class_of(size);
    if (!this_thread->alive && !start_thread())
        return alloc_from_common(class_index);
    struct blocks_thread *thread = this_thread;
    void *block = alloc_from(thread, class_index);
    if (blocks_heap.collector && blocks_heap.collector->before_allocation)
        thread->bins[class_index].free = &no_free_blocks; /* the next comes here as well */
    return block;
}

static void *alloc_slowly(size_t size)
{
    if (!this_thread->alive)
        start_thread();
    if (blocks_heap.collector && blocks_heap.collector->before_allocation)
        blocks_heap.collector->before_allocation();
    void *block = NULL;
    if (size <= CLASS_LARGEST)
        block = alloc_small(size);
    else if (size <= (size_t)PTRDIFF_MAX)
        block = large_block_alloc(BLOCK_ALIGNMENT, size);
    return block ? block : refuse_memory();
}

/* With the lock held. */
static void share_bin(struct bin *bin)
{
    struct slab *current = bin->current;
    leave_current(bin);
    if (current)
        push(&bin->available, current);
    share_all_anew(&bin->available);
    share_all_anew(&bin->full);
}

void blocks_thread_exit(void)
{
    struct blocks_thread *thread = this_thread;
    lock_acquire(&blocks_heap.lock);
    if (!dead_thread.bins[0].free)
        start_bins(&dead_thread);
    lock_release(&blocks_heap.lock);
    this_thread = &dead_thread;
    if (!thread->alive)
        return;
    empty_lists(thread);
    lock_acquire(&blocks_heap.lock);
    thread->alive = false;
    for (unsigned i = 0; i < SIZE_CLASSES; i++)
        share_bin(&thread->bins[i]);
    thread->next = blocks_heap.idle_threads;
    blocks_heap.idle_threads = thread;
    blocks_heap.threads--;
    lock_release(&blocks_heap.lock);
}

/* Freeing, off the common path. */

static void report_not_live(const char *function, const void *block)
{
    abort_on_pointer_fault(function, block,
                           "not a live block (freed twice, or points into one, or handed out twice "
                           "because a signal handler called malloc)");
}

/* The slab of a block of the program; a stranger is reported, and NULL. */
static struct slab *slab_of_block(const void *block, const char *function)
{
    struct owner *owner = granule_map_get(block);
    if (!owner) {
        report_pointer_fault(function, block, "not a block of this heap; ignored");
        return NULL;
    }
    if (owner->kind != OWNER_SLAB)
        report_not_live(function, block);
    return (struct slab *)owner;
}

static void free_remotely(struct slab *slab, void *block, size_t index)
{
    uint64_t before = atomic_fetch_or_explicit(&slab->words[index / SLAB_WORD_BLOCKS].remote,
                                               slab_bit(index), memory_order_release);
    if (before & slab_bit(index))
        report_not_live("free", block);
    if (!atomic_load_explicit(&slab->announced, memory_order_seq_cst) &&
        !atomic_exchange_explicit(&slab->announced, true, memory_order_seq_cst)) {
        set_near_bin(slab, NULL); /* the owner's frees find that this one waits */
        announce_to_owner(slab);
    }
}

/* Of this thread's slab. */
static void free_own(const struct slab *slab, void *block)
{
    struct bin *bin = bin_of(slab);
    clear_live(near_unit(block));
    if (--bin->room < 0)
        free_to_slab(bin, block);
    else
        list(bin, block);
}

static void free_slowly(void *block)
{
    struct slab *slab = slab_of_block(block, "free");
    if (!slab)
        return;
    size_t index = live_index(slab, block, "free");
    if (slab_is_large(slab))
        large_block_free(slab);
    else if (thread_of(slab) == this_thread)
        free_own(slab, block);
    else
        free_remotely(slab, block, index);
}

void blocks_retire(const void *block, const char *function)
{
    struct slab *slab = slab_of_block(block, function);
    if (!slab)
        return;
    size_t index = live_index(slab, block, function);
    slab_set_retired(&slab->words[index / SLAB_WORD_BLOCKS], slab_bit(index));
    keep_in_register(block); /* so that no collection between frees it: the bit is for this one */
}

/* Other requests. */

void *blocks_alloc_zeroed(size_t size)
{
    void *block = blocks_alloc(size);
    if (!block)
        return NULL;
    if (size > CLASS_LARGEST && slab_at(block)->zero)
        return block;
    return memset(block, 0, size);
}

/* Blocks start at multiples of their size from a granule's start, so a class whose size is a
 * multiple of the alignment will do. */
static size_t aligned_class_size(size_t alignment, size_t size)
{
    for (unsigned i = size_class_of(round_up(size > 0 ? size : 1, alignment)); i < SIZE_CLASSES;
         i++)
        if (size_class_bytes[i] % alignment == 0)
            return size_class_bytes[i];
    return 0;
}

void *blocks_alloc_aligned(size_t alignment, size_t size)
{
    if (alignment <= BLOCK_ALIGNMENT)
        return blocks_alloc(size);
    if (size <= CLASS_LARGEST && alignment <= CLASS_LARGEST) {
        size_t class_size =
            round_up(size, alignment) <= CLASS_LARGEST ? aligned_class_size(alignment, size) : 0;
        if (class_size > 0)
            return blocks_alloc(class_size);
    }
    if (!this_thread->alive)
        start_thread();
    void *block = size <= (size_t)PTRDIFF_MAX ? large_block_alloc(alignment, size) : NULL;
    return block ? block : refuse_memory();
}

void *blocks_resize(void *block, size_t size)
{
    struct slab *slab = slab_of_block(block, "realloc");
    if (!slab)
        return NULL;
    size_t usable = slab->block_bytes;
    live_index(slab, block, "realloc");
    bool large = slab_is_large(slab);
    if (size <= usable && size > usable / 2 && !large)
        return block;
    void *moved = NULL;
    if (large && size > CLASS_LARGEST)
        moved = large_block_resize(slab, size);
    if (moved)
        return moved;
    if (large && size > usable && size <= (size_t)PTRDIFF_MAX)
        moved = large_block_alloc_to_grow(size);
    if (!moved)
        moved = blocks_alloc(size);
    if (!moved)
        return size <= usable ? block : NULL;
    memcpy(moved, block, usable < size ? usable : size);
    blocks_free(block);
    return moved;
}

struct slab *blocks_slab_of(const void *address)
{
    return slab_at(address);
}

size_t blocks_usable_size(const void *block)
{
    const struct slab *slab = slab_at(block);
    if (!slab)
        return 0;
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    return exact && index < slab->capacity && block_is_live(slab, index) ? slab->block_bytes : 0;
}

struct block_waste blocks_waste(const void *block)
{
    (void)block;
    return (struct block_waste){0};
}

bool blocks_owns(const void *address)
{
    return granule_map_get(address) != NULL;
}

/* Fork. */

/* The threads that the child does not have may have been anywhere in here: their lists are
 * forgotten, their slabs shared. At most one block that each was about to hand out is lost. */
static void take_over_slab(void *argument, struct slab *slab)
{
    (void)argument;
    struct blocks_thread *thread = thread_of(slab);
    bool announced = atomic_load_explicit(&slab->announced, memory_order_relaxed);
    atomic_store_explicit(&slab->announced, false, memory_order_relaxed);
    if (thread && thread != this_thread && thread != blocks_heap.common) {
        set_thread(slab, NULL);
        slab->place = SLAB_SHARED;
        push(&blocks_heap.shared[slab->class_index].available, slab);
    } else if (thread && announced) {
        atomic_store_explicit(&slab->announced, true, memory_order_relaxed);
        announce(&thread->inbox, slab);
    }
}

static void take_over_threads(void)
{
    struct segment segment;
    const struct record_pool *pool = &blocks_heap.records[RECORD_THREAD];
    blocks_heap.idle_threads = NULL;
    for (size_t i = 0; area_segment(&pool->area, i, &segment); i++)
        for (char *record = segment.start; record < segment.end; record += pool->record_bytes) {
            struct blocks_thread *thread = (struct blocks_thread *)record;
            atomic_store_explicit(&thread->inbox, NULL, memory_order_relaxed);
            if (thread == this_thread || thread == blocks_heap.common)
                continue;
            thread->alive = thread->in_slow_path = false;
            thread->next = blocks_heap.idle_threads;
            blocks_heap.idle_threads = thread;
        }
    blocks_heap.threads = this_thread->alive;
}

void blocks_fork_child(void)
{
    take_over_threads();
    atomic_store_explicit(&blocks_heap.shared_inbox, NULL, memory_order_relaxed);
    blocks_heap.shared_sweep = UINT64_MAX; /* inboxes are gone: look at every shared slab */
    blocks_each_slab(take_over_slab, NULL);
}

/* Set-up. */

/* The table lies between the bits, which are at the shadow's front, and the window. */
static bool near_init(bool collected)
{
    const size_t bytes = NEAR_GRANULES * sizeof *near.bins;
    near.live = (_Atomic uint64_t *)window.shadow;
    void *bins = (char *)window.base - 2 * bytes; /* a gap: the window stays a mapping of its own */
    near.bins = pages_map_at(bins, bytes) ? bins : pages_map(bytes, GRANULE_BYTES);
    near.base = window.base;
    return near.bins && (!collected || enter_private_memory(near.bins, bytes));
}

bool blocks_init(unsigned retain_percent, const struct blocks_collector *collector)
{
    if (near.bins)
        return true;
    window_init(LIVE_BITS_SHIFT);
    fork_chain_add(&blocks_heap.common_lock);
    fork_chain_add(&blocks_heap.lock);
    if (!near_init(collector != NULL))
        return false;
    blocks_heap.collector = collector;
    runs_init(&blocks_heap.runs, retain_percent);
    return records_init();
}

enum blocks_option { RETAIN };

static bool init_default(const uint64_t *options)
{
    return blocks_init((unsigned)options[RETAIN], NULL);
}

static const struct option_description options[] = {BLOCKS_OPTIONS, {0}};

const struct allocator blocks_default = {
    .name = "blocks",
    .preset = "default",
    .preset_title = "a heap for each thread",
    .title = "segregated fit, slabs of one size, a thread each (today's)",
    .source = "after Berger et al. 2000; Leijen, Zorn, de Moura 2019",
    .options = options,
    .init = init_default,
    .alloc = blocks_alloc,
    .free = blocks_free,
    .resize = blocks_resize,
    .fork_child = blocks_fork_child,
    .trim = blocks_trim,
    .alloc_zeroed = blocks_alloc_zeroed,
    .alloc_aligned = blocks_alloc_aligned,
    BLOCKS_FUNCTIONS,
};
