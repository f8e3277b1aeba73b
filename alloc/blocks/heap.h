/* SPDX-License-Identifier: MIT
 *
 * heap.h: the structures of `blocks`, and the rules by which threads, signal handlers and a
 * collector meet in them. Only the files of this folder and of alloc/checked include it;
 * docs/architecture.md draws which of them calls which.
 *
 *     thread_heap   a bin for each size class (bin.h); a remote free queue     one for each thread
 *     blocks_heap   abandoned slabs, by size class; runs of granules (runs.h);
 *                   records of slabs and thread heaps (records.c)              one, with a lock
 *     fast_table    live bits and bins, by address (fast_table.h)              one, without a lock
 *
 * A slab belongs to a thread heap, and this to a thread: the slab's owning thread. Three kinds of
 * slabs have none; whoever holds a lock stands for it:
 *
 *     abandoned slabs               thread_heap is NULL                           blocks_heap.lock
 *     large blocks                  thread_heap is NULL                           blocks_heap.lock
 *     slabs of the common heap      of threads that have no heap of their own     common_lock
 *
 * All frees of blocks of the common heap are remote, so its local free lists stay empty. A thread
 * that ends in a frozen heap keeps its slabs. Whoever thaws the heap gives them up, and stands for
 * the thread meanwhile (give_up_deferred).
 *
 * Who writes what. "Owning thread": or who stands for it. "`lock`": blocks_heap.lock. "New": of a
 * slab that nobody can find yet. "Stopped": the collector, while it has stopped all other threads.
 * In the child of a fork its one thread may write everything until blocks_fork_child returns. What
 * blocks_init writes is not listed: there is one thread then. A new record has no bit set: its
 * maker clears all of them, with `lock`.
 *
 *     word                              written by                           how
 *     slab_word.free                    owning thread; stopped;              one instruction
 *                                       of a large block: who frees it
 *                                       in a frozen heap
 *                                       new: with `lock`                     store
 *     slab_word.remote                  any thread sets                      fetch_or, release
 *                                       new: with `lock`                     store
 *                                       owning thread clears                 fetch_and, release
 *     slab_word.retired                 any thread sets;                     fetch_or; or, if alone
 *                                       stopped: clears; so do the owning    fetch_and, release
 *                                       thread that takes a remote free,
 *                                       who resizes the block, or frees it
 *                                       where that counts; and a late sweep;
 *                                       in quarantine the owning thread that
 *                                       has looked at the block's fill
 *     slab_word.mark                    stopped; in a cycle, and new:        the collector's matter
 *                                       holder of `lock`
 *     slab_word.unborn                  the same; of a cycle in a child      the collector's
 *                                       also who frees a block               matter; fetch_or
 *     retired, mark of large blocks     with checks also alloc/checked/      as there
 *                                       guarded.c
 *     pins                              any thread; stopped: sets            fetch_or, fetch_and
 *     suspects                          stopped: sets, clears; so does a     fetch_or, fetch_and
 *                                       late sweep; who frees the block
 *                                       clears, and the owning thread that
 *                                       takes a remote free
 *     old, seen                         stopped; of `old`, in quarantine     the collector's matter
 *                                       and in a late sweep: holder of
 *                                       `lock`
 *     slab.swept                        who sweeps late, with `lock`         store, release
 *     slab.young                        any thread sets; stopped: clears     exchange; store
 *     slab.next_young                   who pushes the slab                  before the push
 *     blocks_heap.young                 any thread pushes;                   compare-exchange,
 *                                       stopped: takes all                   release
 *     blocks_heap.entering_young        any thread                           fetch_add, fetch_sub
 *     fast_table.live_bits              owning thread; stopped: clears       load, change, store
 *                                       new: with `lock` clears
 *     fast_table.bins                   owning thread; any thread: NULL      store, relaxed
 *     fast_table.granules               holder of `lock`; only grows         store, release
 *     a bin; state, frees_until_rebin,  owning thread                        not atomic
 *       next, previous of its slabs
 *     slab.thread_heap                  owning thread; new: with `lock`      store, release
 *     slab.owner, base, granules,       owning thread, with `lock`           not atomic
 *       block_bytes, reciprocal,        new: with `lock`, or in a frozen
 *       capacity, class_index:          heap
 *       shape
 *     slab.few_words                    at the record's first use: the       not atomic
 *                                       holder of `lock`
 *     slab.zero                         new: with `lock`, or in a frozen     not atomic
 *                                       heap
 *     granule map                       holder of `lock`; its own entries:   store, release
 *                                       who makes a large block in a frozen
 *                                       heap, or private memory
 *     slab.start                        owning thread; new: with `lock`      store, relaxed
 *     slab.has_pins                     any thread sets                      store, relaxed,
 *                                                                            before the pin
 *                                       new: with `lock` clears              not atomic
 *     slab.seen_free                    owning thread                        not atomic
 *     slab.is_closed                    holder of `lock`                     not atomic
 *     slab.is_of_fork                   who makes the slab, in a frozen      not atomic
 *                                       heap
 *     slab.queued                       any thread sets                      exchange, seq_cst
 *                                       owning thread clears, which has      store, seq_cst
 *                                       taken the slab from a queue
 *     slab.next_queued                  who pushes the slab                  before the push
 *     thread_heap.alive                 its thread, or whoever thaws the     not atomic
 *                                       heap; both with `lock`
 *     thread_heap.in_slow_path,         owning thread                        not atomic
 *       delay, retired_bytes,
 *       unvisited, visited_class,
 *       used_bins,
 *       calls_until_look,
 *       looked_at_ns,
 *       idle_classes,
 *       round_began_ns, flushed,
 *       has_entered
 *     thread_heap.is_ready              holder of `lock`                     not atomic
 *     thread_heap.next                  holder of `lock`                     not atomic
 *     a remote free queue               any thread pushes, unless it is      compare-exchange,
 *                                       closed                               release
 *                                       its thread takes all; of one         exchange, acquire
 *                                       without: holder of the lock that
 *                                       stands for it
 *                                       holder of `lock` opens and closes    store; exchange,
 *                                                                            acquire
 *     the link in a block of a          owning thread                        before the block is
 *       local free list                                                      the list's head
 *     blocks_heap.taken_bytes           any thread                           fetch_add, relaxed
 *     blocks_heap.block_was_freed       any thread sets; stopped: clears     store, relaxed
 *     slab.has_freed                    any thread sets; holder of `lock`    store, relaxed
 *                                       clears, while notes_freed is false
 *     slab.marks_at                     holder of `lock`                     not atomic
 *     thread_heap.place_in_log          owning thread (gc/cycle/free_log.h)  atomic
 *     blocks_heap.common_heap           holder of common_lock                not atomic
 *     blocks_heap, the rest             holder of `lock`                     some fields atomic
 *
 * What a thread leaves that is stopped just before such a store, or just after it, is harmless by:
 *
 *     free                              [single instruction], [on its way]
 *     remote                            [remote until free], [bit before queue]
 *     retired                           [retired is atomic] (late_sweep.h), [on its way];
 *                                       in quarantine [retired until free] and
 *                                       [looked at before use] (quarantine.h)
 *     mark, unborn, old, seen           no thread of the program writes them: [no stopped holder],
 *                                       [locked sweep] (late_sweep.h). Of a cycle in a child: who
 *                                       frees a block sets its unborn bit, and may do so late. Then
 *                                       the block is kept for one cycle more: [freed is born again]
 *                                       (gc/cycle/snapshot_cycle.h)
 *     pins, has_pins                    not pinned yet, or no more: [on its way]; else [pins are
 *                                       roots] (gc/cycle/generations.h)
 *     suspects                          [suspects are live]
 *     swept                             [locked sweep], [swept before use] (late_sweep.h)
 *     young, next_young,                [young is listed] (young.c)
 *       blocks_heap.young,
 *       entering_young
 *     live bits                         [late live bit], [list before live bit]
 *     fast_table.bins                   [NULL is always allowed]
 *     fast_table.granules               an entry is mapped before it is counted (fast_table.h)
 *     a bin, a link                     [whole list], [current is young] (young.c)
 *     thread_heap, queued,              [bit before queue], [queue is a hint]
 *       next_queued, queues
 *     state, next, previous,            no list of a bin is followed (slabs.c); the others are
 *       frees_until_rebin               written with `lock`, or [young is listed]
 *     shape, and all with `lock`        [no stopped holder]; in a fork [frozen]
 *     block_was_freed                   the block is in a register, or noted (blocks_have_freed)
 *     has_freed                         at the first stop of a cycle the block is in a
 *                                       register, or not live: it is marked
 *     is_of_fork                        there are no collections in a frozen heap
 *     granule map, in a frozen heap     who makes the block has the only pointer to it until the
 *                                       call is noted
 *     place_in_log                      [one fills a chunk] (gc/cycle/free_log.h)
 *     start, zero, in_slow_path,        no collection reads them
 *       delay, retired_bytes,
 *       unvisited, visited_class,
 *       used_bins,
 *       calls_until_look,
 *       looked_at_ns,
 *       idle_classes,
 *       round_began_ns, flushed,
 *       has_entered, seen_free
 *     common_heap                       a collection that does not find it misses empty bins only
 *                                       (fill.c)
 *     taken_bytes                       a hint: a collection comes early or late
 *     all, in the child of a fork       [the child's copy]
 *
 * The steps of a free, and what each leaves: fast.c (local), slow.c (where free goes on), remote.c,
 * large.c, collector.c (ignored), blocks.c (blocks_free_by_slab: a free that counts although frees
 * are ignored), quarantine.h, alloc/checked/checked.h.
 *
 * What holds between any two instructions. Functions name what they rely on.
 *
 * [owning thread writes]
 *     Free bits, live bits and what a bin leads to have one writer at a time, so malloc and free
 *     need no lock and no atomic instruction.
 *
 * [single instruction]
 *     A change of free bits is one instruction on memory. A thread that is stopped has made it or
 *     not. A sweep may set other bits of the word meanwhile; they stay. The bit that the thread
 *     is about to clear is still set when it goes on: a sweep only sets bits, and a collection
 *     clears none but those that it has set for listed blocks ([whole list]).
 *
 * [on its way]
 *     A block that moves between free bits, local free list and program is neither free nor
 *     remote for a few instructions. So it looks like the program's. Its address is in a register
 *     of the thread, or on its stack. A collection finds it there and keeps the block. (The last
 *     stop of a cycle that marks in a child reads no register. If the block was live and reached at
 *     the first stop, or was not live, the child has marked it. If it was freed and handed out
 *     since, its free was noted: [freed is born again]. All blocks of a newer slab count as marked:
 *     [born marked].) Other blocks that are on their way:
 *     A block that free has begun with on the slow path (slow.c), until it is free, remote or in a
 *     list. Its suspect and retired bits may be clear by then, so it is followed, too.
 *     A large block that is freed, until its thread has the lock. The thread may wait for it while
 *     a collection holds it.
 *     A block whose free is ignored or put into quarantine, until its retired bit is set. The
 *     collection keeps the block, and follows what is in it.
 *     Both blocks of a realloc that moves one: the old one until its free, the new one until the
 *     program has it.
 *     The child of a fork loses a block on its way, unless a collection finds it.
 *
 * [remote until free]
 *     The owning thread takes a remote free in this order: it clears the block's live, suspect and
 *     retired bits, sets its free bit, and clears its remote bit. So neither a collection nor the
 *     child of a fork takes the block for the program's in between. Whoever finds the remote bit
 *     clear finds the retired bit clear. While the free and the remote bit are set the block is
 *     free. Only the owning thread hands it out, after it has cleared the remote bit. In the child
 *     whoever adopts the slab takes the remote frees first.
 *
 * [whole list]
 *     A local free list is whole between any two instructions: a block's link is stored before
 *     the block becomes the head, and the head moves by one store. While the world is stopped the
 *     free bits of the blocks in it are set (blocks_set_local_free_bits), so that a link in a
 *     free block keeps nothing, and no block of the list is swept.
 *
 * [late live bit]
 *     A live bit is late if it is set and its block is free. There are two kinds.
 *     Written back: a thread is stopped between the load and the store of a word of live bits. A
 *     sweep clears bits of the word. The thread then stores them as they were.
 *     Left: a collector that ignores frees does not clear the live bits of what it sweeps
 *     (late_live_bits). Clearing them took a third of the sweep, in a stopped world.
 *     Why a late bit does no harm:
 *         malloc       sets the bit anyway, before it hands the block out.
 *         the slab     has its words of live bits to itself, so each word has one writer. The
 *                      next slab in that memory begins with clear bits (enter_live_bits).
 *         slow free    asks the free bit too (block_is_live). Without a collector it need not: then
 *                      nobody but the owning thread clears a live bit.
 *         fast free    asks the live bit alone. But nobody has the address of a swept block, so
 *                      nobody frees it. Only a wrong pointer to it is not detected.
 *                      Where bits are left, no free takes the fast path. A free that is ignored
 *                      goes to blocks_retire. One that counts (a pinned block's, realloc's, or when
 *                      frees count again) goes to blocks_free_by_slab. Both ask the free bit.
 *     A suspect's live bit may be written back, too, though a suspect is not free. The fast path
 *     then frees the suspect without a report, and its suspect bit stays for the next block there.
 *     Either a pointer to that block passes for a proof that pointers are hidden, and leaks are
 *     kept from there on; or a collection frees that block when it finds it dead for the first
 *     time.
 *     A late sweep of another thread's slab leaves the live bits of new suspects. Only that thread
 *     may clear them. As long as that bit is set, the use of such a suspect is no proof.
 *
 * [list before live bit]
 *     malloc takes a block from its list, or clears its free bit, before it sets the live bit. A
 *     sweep may clear all live bits of 64 blocks in one go, those of free and listed blocks too
 *     (blocks_clear_live). A live bit that is set too early is lost then. The program's free of the
 *     block then finds no live block, and ends the process. A fence in set_live keeps the compiler
 *     from another order.
 *
 * [suspects are live]
 *     A suspect is the program's like any other block, but for its live bit. So nobody hands it
 *     out. free and realloc of it take the slow path, which finds the suspect bit. Only malloc sets
 *     live bits, so that of a suspect stays clear, unless it is a [late live bit].
 *
 * [no stopped holder]
 *     The collector takes `lock` before it stops the threads. So in a stopped world what the lock
 *     guards is whole, the shape of slabs included (base, block_bytes, granules, reciprocal,
 *     capacity). A thread that reads a shape without the lock owns the slab, or has a live block
 *     of it, which keeps it. A thread with neither: [NULL is always allowed], [any word].
 *     A stopped thread may hold common_lock, or the locks of metadata and window. The collector
 *     takes no lock in a stopped world: [no lock while stopped] (gc/world/collection.h). The
 *     holder of common_lock stands for an owning thread, and is stopped as one.
 *
 * [any word]
 *     A thread that gives the kernel a message pins what its words may point to (gc_pin,
 *     gc/cycle/gc.c). So it reads the shape of a slab of which it may have no block, and the shape
 *     may be another's by the time it is read. few_words never changes in a record, and an index
 *     below the capacity has a word in it. So what is written is a pin, of the block that is meant
 *     if the thread has it, else of some block, which is kept like one that a number happens to
 *     point to. (The record of a block that was made during a fork goes with the block. A thread
 *     that has an old address of it, and reads while another frees the block, faults.)
 *
 * [NULL is always allowed]
 *     An entry of fast_table.bins that is not NULL is a bin of the thread heap that owns the
 *     slab, or has just given it up: the thread that does so enters NULL next, and frees nothing in
 *     between. NULL sends a free to the slow path, which is always right.
 *     So any thread may store NULL, and may do so late. After a thread has freed the last block of
 *     a slab, it may read the shape of a record that is used again, and so store NULL for another
 *     slab's granules. A thread gives up its heap with the lock, and stores NULL for all its slabs
 *     first. So whoever gets the heap next finds no entry of before.
 *
 * [bit before queue]
 *     A remote free sets the block's bit, then asks `queued`. The owning thread takes the slab
 *     from the queue, clears `queued`, and only then looks at the bits. Either the bit is seen or
 *     the slab is queued again. For that all four accesses must be in one order that both threads
 *     agree on. On x86 the fetch_or and the exchange are full barriers, and so is the store to
 *     `queued`, which is sequentially consistent; another processor needs seq_cst on the fetch_or
 *     and on the look at the bits as well. From a few instructions after `queued` was set, the
 *     slab's entries in fast_table.bins are NULL. So the owning thread's free of a block that
 *     another thread has freed takes the slow path, and finds the remote bit.
 *     Two such second frees are not detected. (1) The owning thread may overwrite a NULL that comes
 *     at the same time. (2) For the current slab of a bin the owning thread restores the entries
 *     without a look at the remote bits: it takes the remote frees when the slab's words are used
 *     up. Until then its own free of such a block is fast. No correct program depends on either.
 *
 * [queue is a hint]
 *     A slab is in one remote free queue; or about to be pushed to one, by the thread that set
 *     `queued`; or among those that somebody has taken from a queue and goes through; or in none.
 *     Since it was pushed it may have been abandoned, adopted or given up, or its record used
 *     again; `queued` and next_queued outlive that. Whoever takes it from the queue looks at its
 *     thread_heap, and passes it on if that is another. The queue of a heap that its thread has
 *     given up is closed, so nobody need look into it. (That of the common heap is open: who
 *     allocates from it looks.) A slab that is pushed there too late goes to the queue of abandoned
 *     slabs. Its thread does not release a slab that it finds queued (insert_in_bin): nobody would
 *     push the slab that the record served next, until this thread takes its queue. That may be
 *     long. A slab that is queued in the moment of its release goes to the next owner's queue, to
 *     that of abandoned slabs, or still to the old owner's: the pusher may have read the owner
 *     before.
 *     A thread that is stopped before it pushes delays the hint, no more: the remote bits are set.
 *     The child of a fork, in which such a thread does not go on, clears `queued` of all records,
 *     unused ones too. (The thread that forked does go on, if it did so in a handler that
 *     interrupted its own push. Then the child clears nothing: is_pushing.) A thread that has set a
 *     bit there and not asked `queued` leaves no hint: the block waits until its slab is rebinned
 *     for another reason.
 *
 * [one operation]
 *     A signal handler must not call malloc or free while they change bins and slabs. If both are
 *     in a refill or a rebinning, in_slow_path tells, and the process ends with a message. If
 *     either is elsewhere (the fast path, a free before it rebins, a thread's exit), nothing tells.
 *     There a handler may change the list, or the word of live bits, that the thread has loaded;
 *     the thread then undoes that. So a block is handed out twice, is lost, or is not live when it
 *     is freed; or a list leads into the program's data. A block of a page that idle.c has found
 *     free loses its contents. A handler may also get the slab released that the thread is about to
 *     rebin: the thread then faults, or changes the lists of the thread that got the record.
 *     Some of this is found at a free. In a thread's start the heap that the handler got is lost,
 *     with its slabs.
 *     Nor may a handler leave malloc or free by longjmp or pthread_exit (POSIX forbids it).
 *     in_slow_path would stay set. The operation would stay begun, and another thread's fork would
 *     wait for ever. `queued` of a slab may stay set, and nobody would queue it again. A thread
 *     that ends by a bare system call keeps its slabs.
 *
 * [frozen]
 *     During a fork the heap is frozen (vm/freeze.h): what `lock` guards stays as it is, and no
 *     thread is inside an operation: malloc's slow path, the resizing of a large block,
 *     thread_exit, and whatever has `lock` (a large free, trim, a collection). Five things go on:
 *         the fast paths
 *         rebinning by the owning thread, which then gives no slab back
 *         remote frees, which set bits of other threads' slabs and push to their queues
 *         single instructions that set or clear retired, suspect and pinned bits. (A pin also
 *         pushes its slab to the young ones. forget_young is for that.)
 *         words that only a collection reads (has_freed, unborn, block_was_freed), counters, and
 *         the contents of blocks that are being freed. The child gives its cycle up.
 *     A large block that is freed gets its free bit, and the call is noted (large.c). So is the end
 *     of a thread. A large block that is allocated is a mapping of its own, and its record is
 *     noted. The child may have the record in no list, but it has no pointer to the block either.
 *     So the child finds every word above as a stopped world would, and every local free list
 *     whole. It builds the remote free queues anew from the bits (abandon_in_child), since a
 *     thread that it does not have may have set `queued` and not pushed.
 *
 * [the child's copy]
 *     The child of a fork sees a prefix of each thread's stores, though the kernel copies the page
 *     tables page by page while threads run. It protects each page as it copies its entry. A
 *     thread that then writes to the page waits until the clone is over, or it still has the old
 *     entry in its TLB and writes to the page that both share. So when a store is missing in the
 *     child, its thread waited there, and all its later stores are missing too. Pages that a
 *     device writes to at the time (O_DIRECT, io_uring) are copied at once and stay writable in
 *     the parent: of these the child may miss a store and have a later one to another page. A
 *     local free list with a link there may be torn: what the program left in the block stands in
 *     the link's place. That may be a pointer to a live block of the same slabs. The bits are not
 *     torn: no device writes to their pages. A listed block has no live bit: free clears it before
 *     the block is in the list, malloc sets it after. So free_local_lists goes on only to a block
 *     of the same thread heap and size class that is neither free, nor remote, nor live, nor a
 *     suspect. What lies behind a torn link is lost to the child. (A child that repairs nothing, as
 *     a handler forked amid a rebinning, goes on with lists that may be torn so.)
 *
 * Locks: common_lock, then the collector's (gc/cycle/collect.c), then lock, then those of metadata
 * and window (vm/lock.h).
 */
#ifndef ALLOTROPE_ALLOC_BLOCKS_HEAP_H
#define ALLOTROPE_ALLOC_BLOCKS_HEAP_H

#include "alloc/blocks/bin.h"
#include "alloc/blocks/blocks.h"
#include "alloc/blocks/runs.h"
#include "alloc/blocks/size_class.h"
#include "vm/granule_map.h"
#include "vm/lock.h"

/* A remote free queue: the slabs that other threads have freed blocks of since it was last taken,
 * linked through next_queued, the newest first. QUEUE_CLOSED: that of a heap without a thread. */
struct remote_queue {
    struct slab *_Atomic newest;
};

#define QUEUE_CLOSED ((struct slab *)UINTPTR_MAX)

/* The lists of slabs that a bin has, and how many they are. */
enum { AVAILABLE_LIST, FULL_LIST, BIN_LISTS };

struct thread_heap {
    struct bin bins[SIZE_CLASSES];
    struct remote_queue remote_queue;
    struct thread_heap *next; /* of those without a thread */
    struct delay *delay;      /* of alloc/checked; stays when the thread ends */
    bool alive;               /* a thread has it */
    bool in_slow_path;        /* [one operation] */
    bool is_ready;            /* its bins are as a thread needs them that starts */
    uint64_t used_bins;       /* bits: classes that have had a slab since the thread's start */
    size_t retired_bytes;     /* that quarantine.c has not counted yet */
    _Atomic uint64_t
        place_in_log; /* gc/cycle/free_log.h; 0 at first, and it stays when a thread ends */
    /* The slabs of each class that have not been looked at since the last late sweep: from here to
     * the end of the list. See late_sweep.h. Without a collector: in the round of idle.c. */
    struct slab *unvisited[BIN_LISTS][SIZE_CLASSES];
    unsigned visited_class; /* where the walk over all classes goes on */
    /* See idle.c. */
    uint64_t looked_at_ns;     /* the clock, at the last look */
    uint32_t calls_until_look; /* of malloc's slow path */
    uint32_t idle_classes;     /* left to look at in the round under way; 0: there is none */
    uint32_t flushed;          /* blocks of the class at hand, in this round */
    bool has_entered;          /* that class: its list has been flushed */
    uint64_t round_began_ns;   /* the last; before the first: the first look */
};

/* The calling thread's heap. Before the thread's first need it is one that is always empty. After
 * thread_exit it is `exited_heap`, which is always empty too. So the fast paths need no test for
 * either. Both are constants: only a heap that is `alive` is written to. */
extern __thread struct thread_heap *thread_heap
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern const struct thread_heap exited_heap __attribute__((visibility("hidden")));

/* The calling thread is about to push a slab to a remote free queue or to the young slabs. Set from
 * before it claims the slab (`queued`, `young`) until after the push. */
extern __thread bool is_pushing __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* size: at most TABLE_LARGEST. */
static inline struct bin *bin_of_size(struct thread_heap *heap, size_t size)
{
    return (struct bin *)((char *)heap->bins + bin_offsets[(size + 15) / 16]);
}

/* Whether it is a bin of the calling thread's; NULL is none. */
static inline bool is_own(const struct bin *bin)
{
    return (size_t)((const char *)bin - (const char *)thread_heap->bins) < sizeof thread_heap->bins;
}

/* The thread heap that owns a slab; NULL: none does. The slab may be another's already when a
 * thread that does not own it has the answer. */
static inline struct thread_heap *thread_heap_of(const struct slab *slab)
{
    return atomic_load_explicit(&slab->thread_heap, memory_order_relaxed);
}

/* Slabs of one class that have no thread. */
struct abandoned_bin {
    struct slab *available, *full;
};

/* A granule of the heap's memory that has become records of one size: they follow this. */
struct record_granule {
    struct record_granule *next;
} __attribute__((aligned(64)));

/* Records of one size, from an area of their own, so that they can be visited in order; where the
 * area cannot grow, in granules of the heap's free memory. */
struct record_pool {
    struct area area;
    struct record_granule *granules;
    size_t record_bytes;
    void *unused; /* linked through their `next` */
};

enum record_kind { RECORD_FEW_WORDS, RECORD_ALL_WORDS, RECORD_THREAD_HEAP, RECORD_KINDS };

struct blocks_heap {
    struct lock lock; /* of all that follows, but for what is atomic */
    struct record_pool records[RECORD_KINDS];
    struct abandoned_bin abandoned[SIZE_CLASSES];
    struct remote_queue abandoned_queue;
    struct thread_heap *unused_thread_heaps;
    uint64_t threads;
    uint64_t large_blocks, large_bytes;
    struct slab *mappings;              /* SLAB_MAPPINGs with records of the heap */
    uintptr_t mappings_from;            /* the place that was last proposed: large.c */
    struct slab *_Atomic young;         /* see young.c */
    _Atomic uint32_t entering_young;    /* threads that are about to push: [young is listed] */
    unsigned rows;                      /* of bits, behind a record's words: slab.h */
    uint32_t class_slabs[SIZE_CLASSES]; /* slabs of each class, large blocks not counted */
    size_t populate_from;               /* see slow.c; 0: never */
    struct slab *fork_slabs;            /* whose records stand with them: see large.c */
    _Atomic size_t mapped_granules;     /* of SLAB_MAPPINGs */
    _Atomic size_t used_granules;       /* a copy of runs.used_granules */
    _Atomic size_t taken_bytes;         /* see blocks_taken_bytes */
    uint64_t abandoned_rebinned_sweep;  /* as struct bin has it, of all that is abandoned */
    _Atomic uint64_t sweeps;
    bool marks_newborn;           /* see blocks_mark_newborn */
    _Atomic uint32_t late_sweep;  /* the number of the last one, see late_sweep.h */
    _Atomic bool sweep_was_late;  /* the last of `sweeps` */
    _Atomic bool block_was_freed; /* see blocks_have_freed */
    _Atomic bool notes_freed;     /* see blocks_note_freed */
    const struct blocks_collector *collector;
    /* Called with the lock for each new slab, before anybody can find it; zero: its memory is.
     * NULL for none. */
    void (*slab_made)(const struct slab *slab, bool zero);
    /* Called by free for an address in memory that is OWNER_GUARDED. */
    void (*free_guarded)(void *block);
    struct lock common_lock;         /* of the next; taken before `lock` */
    struct thread_heap *common_heap; /* of the threads that have none of their own */
    struct runs runs;                /* of what `lock` guards; the longest comes last */
};

extern struct blocks_heap blocks_heap __attribute__((visibility("hidden")));

/* See blocks_have_freed. */
static inline void note_free(void)
{
    if (!atomic_load_explicit(&blocks_heap.block_was_freed, memory_order_relaxed))
        atomic_store_explicit(&blocks_heap.block_was_freed, true, memory_order_relaxed);
}

/* Around what changes bins and slabs: [one operation]. */
static inline void begin_slow_path(struct thread_heap *heap)
{
    if (heap->in_slow_path)
        report_signal_handler();
    heap->in_slow_path = true;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void end_slow_path(struct thread_heap *heap)
{
    atomic_signal_fence(memory_order_seq_cst);
    heap->in_slow_path = false;
}

#endif
