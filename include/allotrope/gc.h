/* SPDX-License-Identifier: MIT
 *
 * gc.h: what a program may ask of Allotrope's collector.
 *
 *     #include <allotrope/gc.h>
 *
 *     if (allotrope_gc_collect)
 *         allotrope_gc_collect();
 *
 * All functions are weak symbols. A program that was compiled with this header runs
 *
 *     by itself         The functions are not there: each name is a null pointer. Ask before you
 *                       call. allotrope_gc_hide and allotrope_gc_reveal, which are inline, ask by
 *                       themselves.
 *     preloaded         LD_PRELOAD=liballotrope.so ALLOTROPE=gc, or `allotrope run -a gc`: they are
 *                       there. Compile with -fPIE or -fPIC, as most compilers do unasked: in code
 *                       that is linked to fixed addresses (-no-pie -fno-pie) they never are.
 *     linked            cc program.c $(pkg-config --cflags --libs allotrope): they are there, and
 *                       so is the library's malloc, without LD_PRELOAD. ALLOTROPE names the
 *                       allocator; where it is not set, allotrope_default does (see below).
 *
 * The functions may be called under every allocator. Where no collector is at work nothing is ever
 * collected: so a block is kept, pinned or not, and memory without pointers is memory as any other.
 * The libraries of a single allocator (liballotrope-bsd.so, ...) do not have the functions.
 *
 * Unless it says otherwise a function
 *
 *     returns 0 or a number of errno, and leaves errno itself as it was
 *     may be called by any thread at any time, by several at once
 *     may be called in handlers of pthread_atfork, and while another thread forks
 *     holds in the child of a fork, too: roots and pins are those of the parent
 *     may not be called in a signal handler, nor in a child of vfork: as malloc
 */
#ifndef ALLOTROPE_GC_H
#define ALLOTROPE_GC_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ALLOTROPE_GC_WEAK
#define ALLOTROPE_GC_WEAK __attribute__((weak))
#endif

/* A program that is linked with the library may define this array, and so choose its allocator:
 *
 *     const char allotrope_default[] = "gc:free=ignore";
 *
 * It counts where the variable ALLOTROPE is not set, or is empty, and in a privileged program,
 * where the variable is not looked at. It must be an array, for it may be read before the program
 * is relocated. In a program that is only preloaded into, it has no effect. */
extern const char allotrope_default[] ALLOTROPE_GC_WEAK;

/* Collects now, as malloc_trim(0) does, but gives no memory back: a full collection, with all other
 * threads stopped. What nothing points to, and what becomes of it, is the preset's choice: under
 * the default leaks=auto a block that was not freed is reclaimed by the second collection that
 * finds it dead. A pointer that is left in a register or on a stack keeps a block, so what was
 * dropped a moment ago may still be there.
 *   ENOTSUP  There are no collections: another allocator; an option that needs none
 *            (free=honour,leaks=keep); no /proc; a sandbox; a child of _Fork, or of fork by
 *            number; a program that was found to hide pointers.
 *   EAGAIN   The collection was given up: a thread did not stop, or the process forks just now. A
 *            later one may succeed. */
int allotrope_gc_collect(void) ALLOTROPE_GC_WEAK;

/* As malloc, for memory in which the program promises never to keep a pointer to a block: text,
 * pixels, numbers. Collections do not read it. To be freed by free, and resized by realloc, which
 * returns a block as any other. Not zeroed.
 *
 * Where leaks are reclaimed (leaks=auto or collect) the first collection that finds no pointer to
 * the block reclaims it. Elsewhere, and under free=quarantine, it is a block as any other.
 *   NULL, and errno is ENOMEM  There is no memory. */
void *allotrope_gc_malloc_pointer_free(size_t size) ALLOTROPE_GC_WEAK
    __attribute__((malloc, alloc_size(1)));

/* From now on each word in [start, start + bytes) counts as a pointer, at every fourth byte (under
 * gc:classic at addresses that are multiples of 8). All memory that the program can write to is
 * looked at anyway: registers, stacks, data, mappings, blocks that something points to. This is for
 * what is not: memory from allotrope_gc_malloc_pointer_free, shared files that are mapped for
 * reading only, memory of devices. A range in a block does not keep that block: pin it. What cannot
 * be read when a collection looks is passed over; what is elsewhere by then counts all the same. So
 * remove a range before its memory goes.
 *
 * While another thread forks the change is noted and made when that is over; no collection comes
 * between. It returns 0 then.
 *   EINVAL  start is NULL, bytes is 0, or the range goes beyond the end of the address space.
 *   ENOMEM  There is no memory to note it. */
int allotrope_gc_add_roots(const void *start, size_t bytes) ALLOTROPE_GC_WEAK;

/* Takes back one call of allotrope_gc_add_roots with the same arguments.
 *   EINVAL  As there.
 *   ENOENT  There is no such range.
 *   ENOMEM  Another thread forks, and there is no memory to note it. */
int allotrope_gc_remove_roots(const void *start, size_t bytes) ALLOTROPE_GC_WEAK;

/* The block that `address` points to, or into, is kept by collections, and with it what it points
 * to, whether anything else points to it or not. Pins are counted by address. free is to be called
 * after allotrope_gc_unpin: a pin does not end with its block, and would keep the next one there.
 * An address of no block is pinned to no effect. While another thread forks: as
 * allotrope_gc_add_roots.
 *   EINVAL  address is NULL.
 *   ENOMEM  There is no memory to note it. */
int allotrope_gc_pin(const void *address) ALLOTROPE_GC_WEAK;

/* Takes back one call of allotrope_gc_pin with the same address.
 *   EINVAL  address is NULL.
 *   ENOENT  It is not pinned.
 *   ENOMEM  Another thread forks, and there is no memory to note it. */
int allotrope_gc_unpin(const void *address) ALLOTROPE_GC_WEAK;

#ifndef ALLOTROPE_GC_LIBRARY /* the library itself has no use for these two */
/* A number from which no collector sees the pointer; its block is pinned until the pointer is
 * revealed. (In libgc a hidden pointer keeps nothing. Here it does: hiding is safe.) For pointers
 * that are packed, tagged, or written to a file. The number is the complement of the pointer.
 *   0, and errno is EINVAL or ENOMEM  As of allotrope_gc_pin. The pointer is not hidden. */
static inline uintptr_t allotrope_gc_hide(const void *pointer)
{
    int error = !pointer ? EINVAL : allotrope_gc_pin ? allotrope_gc_pin(pointer) : 0;
    if (!error)
        return ~(uintptr_t)pointer;
    errno = error;
    return 0;
}

/* The pointer again, which counts as any other from now on. To be called once for each number that
 * allotrope_gc_hide has returned. NULL for 0. */
static inline void *allotrope_gc_reveal(uintptr_t hidden)
{
    void *pointer = hidden ? (void *)~hidden : NULL;
    if (pointer && allotrope_gc_unpin)
        allotrope_gc_unpin(pointer);
    return pointer;
}
#endif

/* What a block is. */
enum allotrope_gc_state {
    ALLOTROPE_GC_FREE,   /* may be handed out */
    ALLOTROPE_GC_LIVE,   /* the program's */
    ALLOTROPE_GC_RETIRED /* freed by the program, and kept while something points to it: under
                          * free=ignore and free=quarantine. Under free=ignore blocks without
                          * pointers are told so too, for the collector has one mark for both */
};

/* bytes: that the program may use, as malloc_usable_size says. Returns 0 to go on, and anything
 * else to end the walk. */
typedef int allotrope_gc_visitor(void *argument, void *address, size_t bytes,
                                 enum allotrope_gc_state state);

/* Calls `visit` for each block of the heap, in no order. First all blocks are listed, then the
 * visitor is called, without a lock: it may call malloc, free and every function here. One that
 * does not return (an exception, longjmp, the thread's end) leaves the list behind, which is memory
 * that nobody gives back. The list is as old as the call. Blocks that other threads, or the
 * visitor, take or free meanwhile may be told as they were or as they are, so look into a block
 * only if nobody frees it. The library's own memory is not told. The list takes 16 bytes for each
 * block. EINVAL   visit is NULL. ENOTSUP  The heap is another library's (ALLOTROPE=next). EAGAIN
 * The process forks just now. ENOMEM   There is no memory for the list. (Under bsd, whose heap
 * itself needs memory to be walked, its blocks may be missing instead.) */
int allotrope_gc_walk(allotrope_gc_visitor *visit, void *argument) ALLOTROPE_GC_WEAK;

/* What collections have done since the process began. UINT64_MAX: not counted by this preset.
 * Members are only ever added at the end. */
struct allotrope_gc_statistics {
    uint64_t collections;
    uint64_t given_up;         /* collections that could not be done */
    uint64_t pause_ns;         /* all pauses */
    uint64_t longest_pause_ns; /* one of them */
    uint64_t cpu_ns;           /* processor time in pauses, of all threads */
    uint64_t live_bytes;       /* after the last collection */
    uint64_t freed_blocks;     /* by collections, not by free */
    uint64_t freed_bytes;
};

/* bytes: sizeof *statistics, by which later versions know how much you expect. Figures are read
 * while other threads run, so they may be of two moments.
 *   EINVAL   statistics is NULL.
 *   ENOTSUP  The allocator is no collector. Nothing is written. */
int allotrope_gc_read_statistics(struct allotrope_gc_statistics *statistics,
                                 size_t bytes) ALLOTROPE_GC_WEAK;

#ifdef __cplusplus
}
#endif

#endif
