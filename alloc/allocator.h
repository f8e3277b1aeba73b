/* SPDX-License-Identifier: MIT
 *
 * allocator.h: the seam above: a whole, process-wide, thread-safe allocator.
 *
 * The shim alone knows the names of C, POSIX, GNU and C++; to it an allocator is this table. The
 * allocator knows nothing of errno, of environment variables or of who calls it.
 */
#ifndef ALLOTROPE_ALLOC_ALLOCATOR_H
#define ALLOTROPE_ALLOC_ALLOCATOR_H

#include "alloc/heap.h"
#include "vm/message.h"

/* What is in use, for statistics. */
struct allocator_statistics {
    struct heap_statistics heap; /* sums over all arenas */
    uint64_t arenas, threads;
    uint64_t large_blocks, large_bytes; /* mapped one by one */
};

typedef void statistic_visitor(void *argument, const char *group, const char *key, uint64_t number);

struct allocator {
    const char *name;   /* "bsd" */
    const char *preset; /* "default" or "classic" */
    const char *preset_title;
    const char *title;
    const char *source;
    const struct option_description *options; /* may be NULL */

    /* True: what these options ask for cannot be had together, and the reason has been appended to
     * `why`. The function may be NULL: then everything goes together. */
    bool (*conflict)(const void *options, struct message *why);

    /* Called once, before any other and before there is a second thread; no libc is needed.
     * options: the struct that the table describes; it is never moved, changed or freed. False when
     * the kernel refuses the first memory. */
    bool (*init)(const void *options);

    /* All blocks are aligned to 16 at least. Sizes above PTRDIFF_MAX give NULL; size 0 gives a
     * unique block. NULL means out of memory; errno is the shim's business. */
    void *(*alloc)(size_t size);
    void *(*alloc_zeroed)(size_t size);
    void *(*alloc_aligned)(size_t alignment, size_t size); /* alignment: any power of two */

    /* block is not NULL. A pointer that this allocator did not hand out is reported in one line
     * and otherwise ignored; a double free or an interior pointer is reported, then abort(). */
    void (*free)(void *block);
    /* block is not NULL, size is not 0. NULL: the old block is untouched. */
    void *(*resize)(void *block, size_t size);
    /* 0 for a pointer that is not a live block. */
    size_t (*usable_size)(const void *block);
    struct block_waste (*waste)(const void *block);
    /* Whether the address lies in memory of this allocator. */
    bool (*owns)(const void *address);

    /* In the child of a fork: repairs what the threads that the child does not have were doing. The
     * one thread still holds all locks of vm/fork_chain.h. NULL: there is nothing to repair. */
    void (*fork_child)(void);
    /* The calling thread ends; what it caches goes back. It may still allocate and free. */
    void (*thread_exit)(void);

    /* Gives back to the kernel what can be; returns bytes. */
    size_t (*trim)(void);
    void (*statistics)(struct allocator_statistics *statistics);
    /* Bytes that are free to the program but kept by thread caches. Cheap, approximate while
     * other threads run. */
    size_t (*cached_bytes)(void);
    /* Visits every block. Other threads must be quiet for the result to mean anything. */
    void (*walk)(heap_visitor *visit, void *argument);
    bool (*is_valid)(void);

    /* What only some allocators have; NULL in the others. */

    /* Counters of the allocator's own, for statistics: visits each as a key in a group. */
    void (*more_statistics)(statistic_visitor *visit, void *argument);
    /* The block that `address` points into is known to someone who cannot be seen (the kernel):
     * it stays until it is freed. */
    void (*pin)(const void *address);
    /* From now on any system call but those of memory may be the process's end. */
    void (*enter_sandbox)(void);
    /* The kernel is about to hide from the process what it tells of it in /proc. */
    void (*before_hiding)(void);
    /* How many waits of the calling thread have ended in EINTR because of the allocator alone. */
    uint32_t (*ended_waits)(void);
};

/* Set by the shim before init: called by an allocator in each thread that comes to hold a cache,
 * so that thread_exit will be called for it. Must not allocate. NULL: nobody calls. */
extern void (*allocator_thread_started)(void);

/* Called at the first allocation of an allocator that has not been initialised: a library whose
 * calls go straight to it, without a resolver before them, defines it to call init. Elsewhere it
 * does nothing. */
void allocator_first_use(void);

/* Set by the shim: called by an allocator's alloc before it returns NULL, so that malloc itself
 * can be a single jump and errno still be set. */
extern void (*allocator_out_of_memory)(void);

static inline void *refuse_memory(void)
{
    if (allocator_out_of_memory)
        allocator_out_of_memory();
    return NULL;
}

#endif
