/* SPDX-License-Identifier: MIT
 *
 * remote.c: frees of blocks of other threads' slabs.
 *
 * A thread that frees a block of another's slab sets its remote bit, and pushes the slab to the
 * remote free queue of the thread heap that owns it, unless it is queued already. The owning thread
 * takes the queue when it needs blocks (slow.c), and makes free blocks of the remote bits.
 *
 *     freeing thread                         owning thread
 *     (free_slowly: suspect and retired
 *     bits: clear)
 *     remote bit: fetch_or
 *     queued: if clear, exchange true
 *     fast_table.bins: NULL
 *     push to the queue ------------------>  take the queue
 *                                            queued: false
 *                                            fast_table.bins: its bin again
 *                                            of the blocks with remote bits: live, suspect and
 *                                            retired bits: clear; free bits: set
 *                                            remote bits: clear those
 *
 * A thread that exits closes its queue. What is pushed later, by a thread that has read the slab's
 * owner before, goes to the queue of abandoned slabs. So does a slab that has no owner any more.
 *
 * There is one entry in the queue for any number of frees, and one bit for a block, so a block that
 * two threads free is found.
 *
 * Either thread may be stopped between any two of these lines:
 *
 *     after                    what stands                              harmless by
 *     (suspect, retired)       the program's block, in a register until [on its way]
 *                              its bit is set: the report of a second
 *                              free needs it
 *     remote bit               freed. Its slab is in no queue: the      [queue is a hint]
 *                              owning thread takes the block when it
 *                              next looks at the slab's remote bits
 *     queued: true             the same; nobody else pushes the slab    [queue is a hint]
 *     fast_table.bins: NULL    the same                                 [NULL is always allowed]
 *     push                     the slab is in the queue
 *     take the queue           the slab is in no queue, and nobody      [bit before queue],
 *                              pushes it                                [queue is a hint]
 *     queued: false            its bits are looked at next; those of a  [bit before queue]
 *                              bin's current slab when its words are
 *                              used up
 *     its bin again            a NULL that came with a new free may     [NULL is always allowed]
 *                              be overwritten
 *     live, suspect, retired   freed: the remote bit is set             [remote until free]
 *     free bit                 free: both bits are set                  [remote until free]
 *     remote bit               free
 *
 * A thread that the child of a fork does not have does not go on with any of it there: the child
 * builds the queues anew ([frozen]).
 */
#include "alloc/blocks/remote.h"

#include "alloc/blocks/lookup.h"

/* False: the queue is closed. */
static bool push(struct remote_queue *queue, struct slab *slab)
{
    struct slab *newest = atomic_load_explicit(&queue->newest, memory_order_relaxed);
    do {
        if (newest == QUEUE_CLOSED)
            return false;
        slab->next_queued = newest;
    } while (!atomic_compare_exchange_weak_explicit(&queue->newest, &newest, slab,
                                                    memory_order_release, memory_order_relaxed));
    return true;
}

struct slab *take_remote_queue(struct remote_queue *queue)
{
    if (!atomic_load_explicit(&queue->newest, memory_order_relaxed))
        return NULL;
    return atomic_exchange_explicit(&queue->newest, NULL, memory_order_acquire);
}

void push_to_owner(struct slab *slab)
{
    struct thread_heap *heap = thread_heap_of(slab);
    if (!heap || !push(&heap->remote_queue, slab))
        push(&blocks_heap.abandoned_queue, slab);
}

void open_remote_queue(struct thread_heap *heap)
{
    atomic_store_explicit(&heap->remote_queue.newest, NULL, memory_order_relaxed);
}

/* [bit before queue]: its thread's own slabs are off the queue before their bits are looked at. */
void close_remote_queue(struct thread_heap *heap)
{
    struct slab *slab =
        atomic_exchange_explicit(&heap->remote_queue.newest, QUEUE_CLOSED, memory_order_acquire);
    for (struct slab *next; slab; slab = next) {
        next = slab->next_queued;
        if (thread_heap_of(slab) == heap)
            atomic_store_explicit(&slab->queued, false, memory_order_seq_cst);
        else /* [queue is a hint] */
            push_to_owner(slab);
    }
}

/* [bit before queue]. From the first line on the slab may be given up and its record used again:
 * [NULL is always allowed], [queue is a hint]. */
void push_remote_free(struct slab *slab, void *block, size_t index)
{
    uint64_t before = atomic_fetch_or_explicit(&slab->words[index / SLAB_WORD_BLOCKS].remote,
                                               slab_bit(index), memory_order_release);
    if (before & slab_bit(index))
        report_not_live("free", block);
    offer_to_owner(slab);
}

void offer_to_owner(struct slab *slab)
{
    if (slab_is_queued(slab))
        return;
    bool was_pushing = is_pushing; /* a handler, in the middle of a push */
    is_pushing = true;
    if (!atomic_exchange_explicit(&slab->queued, true, memory_order_seq_cst)) {
        fast_table_set_bin(slab, NULL);
        push_to_owner(slab);
    }
    atomic_signal_fence(memory_order_seq_cst); /* after the push */
    is_pushing = was_pushing;
}

/* [remote until free]. */
static void take_word(struct slab *slab, size_t word, uint64_t blocks)
{
    blocks_clear_live(slab, word, blocks, false);
    if (blocks_heap.collector) {
        clear_suspects(slab, word, blocks);
        clear_retired(slab, word, blocks);
    }
    slab_set_free(&slab->words[word], blocks);
    atomic_fetch_and_explicit(&slab->words[word].remote, ~blocks, memory_order_release);
}

/* Those that were held back too: the slab has no start from here on. */
void take_remote_frees(struct slab *slab)
{
    size_t words = slab_words(slab);
    atomic_store_explicit(&slab->start, 0, memory_order_relaxed);
    for (size_t i = 0; i < words; i++) {
        uint64_t blocks = atomic_load_explicit(&slab->words[i].remote, memory_order_acquire);
        if (blocks)
            take_word(slab, i, blocks);
    }
}
