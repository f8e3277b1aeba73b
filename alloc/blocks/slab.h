/* SPDX-License-Identifier: MIT
 *
 * slab.h: a stretch of memory cut into blocks of one size, and its record apart from it.
 *
 * The blocks lie edge to edge from the start of the stretch. A live block holds the program's data
 * only. What the heap knows of them is in the record, a bit per block and 64 blocks to a word:
 *
 *     record  | kind, base, block size, thread heap, ... | word 0 | word 1 | ...
 *     word    | free | mark | remote | retired |   32 bytes, so one cache line has all that is
 *                                                 asked of a block
 *
 *     free      may be handed out
 *     remote    freed by another thread than the owning one, which has not taken the free yet. That
 *               may be a thread that sweeps late (late_sweep.h), or ages a quarantine. Or: held
 *               back in a new slab until its first round is over (slabs.c)
 *     mark      reached by the collection under way. Of a block that is not live it is set when the
 *               collection begins, so that no marker looks into the block
 *     retired   the program has freed the block. The heap has ignored the free, or keeps the block
 *               in quarantine: what the block points to is not kept. Or the program has promised
 *               that it points to nothing (gc_holds_no_pointers, gc/cycle/gc.c)
 *     pinned    kept by every collection, reached or not
 *     suspect   a collection found the block dead and left it, its live bit cleared: it is the
 *               program's still if the program hides pointers (gc/cycle/sweep.c)
 *     old       it has survived a collection (gc/cycle/generations.h); in a quarantine without
 *               collections: it has been retired for some time (quarantine.h)
 *     unborn    it was not live when the cycle under way began (gc/cycle/concurrent.h), or, in one
 *               that marks in a snapshot, has been freed since (gc/cycle/snapshot_cycle.h)
 *     seen      for the verifier of minor collections (gc/cycle/verify.h)
 *
 * Few blocks are pinned or suspect, and the others are asked for in collections alone, so these
 * bits lie behind all words, in rows. The last three are there only for a collector that wants
 * them.
 *
 * Where a block is, by its bits. The live bit is the one for its address (fast_table.h); a large
 * block has none. A collection looks at free and remote alone.
 *
 *     a block that is                    free  remote  live
 *     free in its slab                    1      0    0, or late: [late live bit] (heap.h)
 *     freed by another thread             0      1    1, or 0 of a suspect, or after a sweep that
 *                                                     freed all others of its word. So until it is
 *                                                     taken: [remote until free] (heap.h)
 *     held back in a new slab             0      1      0
 *     being taken by its owning thread    1      1      0    [remote until free]
 *     in a thread's local free list       0      0      0    free is 1 while the world is stopped
 *     on its way between these            0      0    0 or 1 [on its way] (heap.h)
 *     the program's                       0      0      1
 *     a suspect                           0      0    0, or late; suspect is 1
 *
 * The last two may have other bits besides. What a full collection does with them (gc/mark/mark.c,
 * gc/cycle/sweep.c):
 *
 *     bits of a live block    root?  followed?          if nothing points to it
 *     none                    no     if it is reached   by enum sweep_leaks (gc/cycle/sweep.h)
 *     retired                 no     no                 freed
 *     pinned                  yes    yes                stays
 *     retired, pinned         no     no                 stays: pinned after its free, a mistake
 *     suspect                 no     if it is reached   by enum sweep_leaks; it stays a suspect
 *                                                       also when it is reached, until its free
 *     suspect, retired        no     no                 freed: a suspect whose free was ignored
 *     suspect, pinned         yes    yes                stays
 *
 * No block is handed out that is retired or a suspect. Whoever frees it clears these bits before;
 * or right after, but before anybody can take the block (a sweep, free_aged_large). What a sweep
 * releases from quarantine stays retired until its fill was looked at: [looked at before use]
 * (quarantine.h). (The exception is a suspect with a [late live bit].) A block that stayed retired
 * in the program's hands would not be followed, and what it points to would be lost.
 *
 * A slab's states:
 *
 *     new slab
 *         |
 *         v       no free block is left
 *      CURRENT -------------------------------> FULL
 *         ^                                       |
 *         |  its thread needs blocks              |  enough blocks are free again
 *         '------------------------ AVAILABLE <---'
 *         ^
 *         |  another thread needs blocks and adopts it
 *     ABANDONED <---- blocks were freed ---- ABANDONED_FULL
 *
 *     few blocks are free   CURRENT: to AVAILABLE or FULL, when another slab becomes current
 *     its thread exits      CURRENT, AVAILABLE, FULL: to ABANDONED or ABANDONED_FULL
 *     a fork's child        all slabs of threads that it does not have: to ABANDONED, uncounted
 *     all blocks are free   to UNUSED: the memory goes back. The only slab of a bin stays.
 *     RUN, MAPPING          a large block, from its allocation to its free, then UNUSED
 *
 * To *rebin* a slab is to count its free blocks and to put it into the list of that state, or to
 * give it back (slabs.c). It is due when the owning thread has freed so many blocks, when a remote
 * free queue holds the slab, and after a sweep.
 *
 * A block's index is its offset divided by the block size, which is a multiplication by the
 * size's reciprocal; the low half of the product tells whether it came out even (Lemire, Kaser,
 * Kurz: "Faster remainder by direct computation", SP&E 2019). So interior pointers cost what
 * others do.
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_SLAB_H
#define ALLOTROPE_ALLOC_BLOCKS_SLAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vm/granule_map.h"
#include "vm/owner.h"

struct thread_heap;

struct slab_word {
    uint64_t free, mark;
    _Atomic uint64_t remote;
    uint64_t retired;
};

/* The rows behind the words: pinned, suspect; old; unborn; seen. */
enum { SLAB_ROWS = 2, SLAB_OLD_ROWS = 3, SLAB_UNBORN_ROWS = 4, SLAB_SEEN_ROWS = 5 };

enum { SLAB_WORD_BLOCKS = 64, SLAB_MAX_WORDS = 64, SLAB_FEW_WORDS = 16 };

/* A new slab is SLAB_CURRENT before it is in its bin: so nobody rebins it in between. */
enum slab_state {
    SLAB_CURRENT,   /* its thread takes blocks from it */
    SLAB_AVAILABLE, /* enough free blocks to become current */
    SLAB_FULL,      /* fewer */
    SLAB_ABANDONED, /* of no thread, with free blocks; after a fork perhaps without */
    SLAB_ABANDONED_FULL,
    SLAB_RUN,     /* one large block, in memory of the heap's space */
    SLAB_MAPPING, /* one large block, a mapping of its own */
    SLAB_UNUSED,  /* the record is free */
};

struct slab {
    struct owner owner;
    uint32_t frees_until_rebin; /* by its own thread; see NEVER_REBIN */
    char *base;
    uint64_t reciprocal; /* ceil(2^64 / block_bytes) */
    size_t block_bytes;
    struct thread_heap *_Atomic thread_heap; /* NULL: abandoned; all frees are then remote */
    uint32_t capacity;                       /* blocks; 0 while the record is unused */
    uint8_t class_index;
    uint8_t state;                /* enum slab_state */
    bool zero;                    /* what was taken for it was as the kernel gives it */
    bool few_words;               /* the record has SLAB_FEW_WORDS words only */
    _Atomic bool has_pins;        /* a block of it was pinned once */
    bool is_of_fork;              /* a large block, made while the heap was frozen: see large.c */
    bool is_closed;               /* a retired large block has no access: see quarantine.h */
    _Atomic bool has_freed;       /* a block of it has been noted: blocks_note_freed */
    _Atomic uint16_t start;       /* the first block of its first round; 0 after it: slabs.c */
    struct slab *next, *previous; /* by state; the second cache line begins here */
    size_t granules;
    uint32_t seen_free; /* free blocks at the last look, see idle.c; 0: none since it was current */
    uint32_t marks_at;  /* where a snapshot puts its marks: gc/cycle/snapshot_cycle.c; 0: nowhere */
    /* What outlives the record's use: it may be on a remote free queue still. */
    _Atomic bool queued;
    _Atomic bool young;     /* see young.c */
    _Atomic uint32_t swept; /* by which late sweep; see late_sweep.h */
    struct slab *next_queued;
    struct slab *_Atomic next_young;
    struct slab_word words[] __attribute__((aligned(64)));
};

_Static_assert(offsetof(struct slab, words) == 128, "two cache lines");

/* `allotrope leaks --address` reads records from outside (features/leaks/heap.py) and knows them as
 * they are; one that changes takes another number in the name by which the granule map is published
 * (shim/observers/sites.c). */
_Static_assert(OWNER_SLAB == 3 && offsetof(struct slab, base) == 8 &&
                   offsetof(struct slab, block_bytes) == 24 &&
                   offsetof(struct slab, capacity) == 40 &&
                   offsetof(struct slab, few_words) == 47 &&
                   offsetof(struct slab, has_pins) == 48 && sizeof(struct slab_word) == 32 &&
                   SLAB_MAX_WORDS == 64 && SLAB_FEW_WORDS == 16,
               "the records' reader knows another layout");

/* frees_until_rebin of a slab that is never rebinned by count. */
#define NEVER_REBIN UINT32_MAX

/* Index of the block that holds `address`, which is in the slab's stretch. Not below `capacity`
 * for the remainder at its end. *exact: the address is where the block starts. */
static inline size_t slab_index(const struct slab *slab, const void *address, bool *exact)
{
    unsigned __int128 product =
        (unsigned __int128)(size_t)((const char *)address - slab->base) * slab->reciprocal;
    *exact = (uint64_t)product < slab->reciprocal;
    return (size_t)(product >> 64);
}

/* The index of the block, live or not, that begins at `address`, which is in the slab's stretch.
 * False: none does. */
static inline bool slab_find(const struct slab *slab, const void *address, size_t *index)
{
    bool exact;
    *index = slab_index(slab, address, &exact);
    return exact && *index < slab->capacity;
}

/* Whether the slab is one large block. Threads that do not own the slab ask, too. So this looks at
 * what stays as long as a block of the slab is live, not at the state, which the owning thread
 * changes. */
static inline bool slab_is_large(const struct slab *slab)
{
    return slab->capacity == 1;
}

static inline char *slab_block(const struct slab *slab, size_t index)
{
    return slab->base + index * slab->block_bytes;
}

static inline size_t slab_words(const struct slab *slab)
{
    return (slab->capacity + SLAB_WORD_BLOCKS - 1) / SLAB_WORD_BLOCKS;
}

/* The bits of a word that stand for blocks. */
static inline uint64_t slab_word_mask(const struct slab *slab, size_t word)
{
    size_t left = slab->capacity - word * SLAB_WORD_BLOCKS;
    return left >= SLAB_WORD_BLOCKS ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
}

static inline size_t slab_record_words(const struct slab *slab)
{
    return slab->few_words ? SLAB_FEW_WORDS : SLAB_MAX_WORDS;
}

static inline uint64_t *slab_pinned(struct slab *slab, size_t word)
{
    return (uint64_t *)(void *)(slab->words + slab_record_words(slab)) + word;
}

static inline uint64_t *slab_suspects(struct slab *slab, size_t word)
{
    return slab_pinned(slab, slab_record_words(slab) + word);
}

static inline bool slab_has_pins(const struct slab *slab)
{
    return atomic_load_explicit(&slab->has_pins, memory_order_relaxed);
}

/* Pins blocks. Any thread. has_pins comes first, so whoever finds a pin finds has_pins. */
static inline void slab_pin(struct slab *slab, size_t word, uint64_t blocks)
{
    atomic_store_explicit(&slab->has_pins, true, memory_order_relaxed);
    __atomic_fetch_or(slab_pinned(slab, word), blocks, __ATOMIC_RELEASE);
}

/* In a remote free queue, or about to be: [queue is a hint], [bit before queue] (heap.h). */
static inline bool slab_is_queued(const struct slab *slab)
{
    return atomic_load_explicit(&slab->queued, memory_order_seq_cst);
}

/* The slab in which an address lies; NULL: none. Any thread, no lock. */
static inline struct slab *slab_at(const void *address)
{
    struct owner *owner = granule_map_get(address);
    return owner && owner->kind == OWNER_SLAB ? (struct slab *)owner : NULL;
}

/* Only where the records have SLAB_OLD_ROWS rows, or more. */
static inline uint64_t *slab_old(struct slab *slab, size_t word)
{
    return slab_pinned(slab, 2 * slab_record_words(slab) + word);
}

/* Only where the records have SLAB_UNBORN_ROWS rows, or more. */
static inline uint64_t *slab_unborn(struct slab *slab, size_t word)
{
    return slab_pinned(slab, 3 * slab_record_words(slab) + word);
}

/* Only where the records have SLAB_SEEN_ROWS rows. */
static inline uint64_t *slab_seen(struct slab *slab, size_t word)
{
    return slab_pinned(slab, 4 * slab_record_words(slab) + word);
}

static inline size_t slab_record_bytes(size_t words, unsigned rows)
{
    return sizeof(struct slab) + words * (sizeof(struct slab_word) + rows * sizeof(uint64_t));
}

/* For whoever looks while the owning thread changes them. */
static inline uint64_t slab_free(const struct slab_word *word)
{
    return __atomic_load_n(&word->free, __ATOMIC_RELAXED);
}

/* The blocks of a word that are neither free nor freed by another thread: the program's, and those
 * in local free lists, or on their way, while the world runs. */
static inline uint64_t slab_live(const struct slab *slab, size_t word)
{
    const struct slab_word *bits = &slab->words[word];
    return slab_word_mask(slab, word) &
           ~(slab_free(bits) | atomic_load_explicit(&bits->remote, memory_order_relaxed));
}

static inline uint64_t slab_bit(size_t index)
{
    return UINT64_C(1) << (index % SLAB_WORD_BLOCKS);
}

/* The bits of a word's blocks from `index` up to `behind`, which is not included. */
static inline uint64_t slab_bits_within(size_t word, size_t index, size_t behind)
{
    size_t first = word * SLAB_WORD_BLOCKS;
    uint64_t bits = ~UINT64_C(0);
    if (index > first)
        bits <<= index - first;
    if (behind < first + SLAB_WORD_BLOCKS)
        bits &= ~(~UINT64_C(0) << (behind - first));
    return bits;
}

/* slab_live, of one block that the slab has. */
static inline bool slab_block_is_live(const struct slab *slab, size_t index)
{
    const struct slab_word *bits = &slab->words[index / SLAB_WORD_BLOCKS];
    uint64_t gone = slab_free(bits) | atomic_load_explicit(&bits->remote, memory_order_relaxed);
    return (gone & slab_bit(index)) == 0;
}

static inline bool slab_block_is_retired(const struct slab *slab, size_t index)
{
    const struct slab_word *bits = &slab->words[index / SLAB_WORD_BLOCKS];
    return (__atomic_load_n(&bits->retired, __ATOMIC_ACQUIRE) & slab_bit(index)) != 0;
}

/* Blocks of a word are freed for good, or used again: [retired is atomic] (late_sweep.h). Bits that
 * are clear are not written. */
static inline void slab_clear_retired(struct slab_word *word, uint64_t blocks)
{
    if (__builtin_expect((__atomic_load_n(&word->retired, __ATOMIC_RELAXED) & blocks) != 0, 0))
        __atomic_fetch_and(&word->retired, ~blocks, __ATOMIC_RELEASE);
}

/* Clears the retired bits of blocks. Returns the blocks whose bits this call has cleared: of two
 * threads that clear the same bits, each gets its own. */
static inline uint64_t slab_take_retired(struct slab_word *word, uint64_t blocks)
{
    return blocks & __atomic_fetch_and(&word->retired, ~blocks, __ATOMIC_ACQ_REL);
}

/* For processors without an instruction for it, where the compiler's own is a call. */
static inline uint32_t count_bits(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0F0F0F0F0F0F0F0F);
    return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
}

/* Makes the compiler keep this very value up to here, in a register or on the stack, where a
 * collection sees it: [on its way]. Otherwise the compiler may drop it, and compute or load it
 * again. */
#define keep_in_register(pointer) __asm__ volatile("" : "+r"(pointer))

/* One instruction that a stop cannot divide: [single instruction]. */
static inline void slab_set_free(struct slab_word *word, uint64_t bits)
{
    __asm__ volatile("orq %1, %0" : "+m"(word->free) : "r"(bits) : "cc");
}

static inline void slab_clear_free(uint64_t *free, uint64_t bits)
{
    __asm__ volatile("andq %1, %0" : "+m"(*free) : "r"(~bits) : "cc");
}

/* Where frees are ignored. alone: no other thread can change the word, so one instruction without a
 * lock will do ([single instruction]). Elsewhere the instruction is locked, as are those that clear
 * bits: [retired is atomic]. A bit that is lost makes the block a leak. Where leaks are kept
 * nothing would free it. */
static inline void slab_set_retired(struct slab_word *word, uint64_t bits, bool alone)
{
    if (alone)
        __asm__ volatile("orq %1, %0" : "+m"(word->retired) : "r"(bits) : "cc");
    else
        __asm__ volatile("lock orq %1, %0" : "+m"(word->retired) : "r"(bits) : "cc");
}

/* Sets the bit of one block. Returns whether it was set before. Release: who sees the bit sees what
 * this thread wrote before. alone: as of slab_set_retired. */
static inline bool slab_test_and_set_retired(struct slab_word *word, uint64_t bit, bool alone)
{
    if (!alone)
        return (__atomic_fetch_or(&word->retired, bit, __ATOMIC_RELEASE) & bit) != 0;
    bool was_set = (word->retired & bit) != 0;
    atomic_signal_fence(memory_order_release);
    slab_set_retired(word, bit, true);
    return was_set;
}

#endif
