/* SPDX-License-Identifier: MIT
 *
 * allocator.h: the seam above: a whole, process-wide, thread-safe allocator.
 *
 * The shim alone knows the names of C, POSIX, GNU and C++; to it an allocator is this table. The
 * allocator knows nothing of errno, of environment variables or of who calls it.
 *
 * What the shim guarantees, besides what stands at each member:
 *
 *   init-first   init returns before any other function is called, and before there is a second
 *                thread. That may be inside ld.so, before libc is ready: so no function calls
 *                anything of libc that allocates, locks or needs its constructors. (A library of a
 *                single allocator has no resolver: there alloc calls allocator_first_use().)
 *   any-thread   After that any thread may call any function at any time, several at once. A signal
 *                handler must not interrupt one and call another, as C says of malloc. Under a
 *                lock this is noticed, and the process aborts (vm/lock.h). On the fast paths
 *                nothing notices it ([one operation], alloc/blocks/heap.h).
 *   owns-first   resize and waste are called only for a block that this allocator has just handed
 *                out, or for an address that owns() has confirmed. That may still be the address of
 *                a block that was freed, or of no block. free and usable_size are called for any
 *                address but NULL, alloc for any size.
 *   shim-errno   The shim sets errno. An allocator never does, not even on the way: it calls the
 *                kernel by vm/syscall.h. So free keeps errno, as glibc's does.
 *   fork         A fork freezes the heap (vm/freeze.h) and takes the locks of vm/fork_chain.h.
 *                Until it is over any thread may call any function, the one that forks among
 *                them: the program's own fork handlers do. alloc, free, resize, usable_size,
 *                waste, owns and thread_exit wait for nobody then. A process that was made by
 *                vfork or clone gets no such care.
 *   no-end       Nothing but at_exit is called at the end of the process: destructors of the
 *                program may run after ours, and allocate.
 */
#ifndef ALLOTROPE_ALLOC_ALLOCATOR_H
#define ALLOTROPE_ALLOC_ALLOCATOR_H

#include "alloc/heap.h"
#include "vm/kernel_action.h"
#include "vm/message.h"

/* What is in use, for statistics. */
struct allocator_statistics {
    struct heap_statistics heap; /* sums over all arenas */
    uint64_t arenas, threads;
    uint64_t large_blocks, large_bytes; /* mapped one by one */
};

typedef void statistic_visitor(void *argument, const char *group, const char *key, uint64_t number);
/* counter: 8 bytes, never moved. */
typedef void counter_visitor(const char *name, const void *counter);

/* What a program may ask for by mallopt. */
enum tuning {
    TUNE_LARGE_BYTES, /* a block of so many bytes is a mapping of its own */
    TUNE_FREE_BYTES,  /* so many free bytes may stay with the heap */
    TUNE_ARENAS,      /* so many arenas at most; 0: the preset's own number */
};

/* The entries for C++'s operators and C23's sized frees, for an allocator that checks whether they
 * match. For any other these calls are alloc, alloc_aligned and free. What holds of those holds
 * here. size, alignment: as the program says. A size that it does not say is SIZE_MAX. */
struct allocator_operators {
    void *(*create)(size_t size);
    void *(*create_array)(size_t size);
    void *(*create_aligned)(size_t alignment, size_t size);
    void *(*create_array_aligned)(size_t alignment, size_t size);
    void (*destroy)(void *block);
    void (*destroy_array)(void *block);
    void (*destroy_sized)(void *block, size_t size);
    void (*destroy_array_sized)(void *block, size_t size);
    void (*destroy_aligned)(void *block, size_t size, size_t alignment);
    void (*destroy_array_aligned)(void *block, size_t size, size_t alignment);
    void (*free_sized)(void *block, size_t size);
    /* An observer comes in between: soon all calls come by alloc, alloc_aligned and free. Until
     * then other threads may still call the functions above. */
    void (*end)(void);
};

/* Called for each leak, in a stopped world with all signals blocked: it takes no lock and allocates
 * nothing. is_direct: no other leak leads to the block. */
typedef void leak_visitor(void *argument, const void *block, bool is_direct);

enum leaks_found {
    LEAKS_UNKNOWN, /* it cannot be found out now, and nothing was visited */
    LEAKS_FOUND,
    LEAKS_LATER, /* nor now, but perhaps at the next call: somebody would have been waited for, or
                  * this is a vfork child, or a thread is in execve */
    LEAKS_BEGUN, /* another process looks for them */
};

enum collected {
    COLLECTED,
    COLLECT_LATER, /* it was given up, but the next may succeed */
    COLLECT_NEVER, /* there are no collections, as things stand */
};

struct allocator {
    const char *name;   /* "bsd" */
    const char *preset; /* "default" or "classic" */
    const char *preset_title;
    const char *title;
    const char *source;
    const struct option_description *options; /* may be NULL */

    /* True: what these options ask for cannot be had together, and the reason has been appended to
     * `why`. The function may be NULL: then everything goes together. Called before init. */
    bool (*conflict)(const void *options, struct message *why);

    /* Called once (init-first). options: the struct that the table describes; it is never moved,
     * changed or freed. False when the kernel refuses the first memory: the process then ends. */
    bool (*init)(const void *options);

    /* Blocks are aligned to 16 at least, unless an option says otherwise
     * (alloc/policies/block_alignment.h); size 0 gives a unique block. NULL means out of memory.
     *
     * alloc gets the program's size as it is: above PTRDIFF_MAX it returns NULL. It is malloc
     * itself, which is a single jump here. So it returns NULL by way of refuse_memory(), through
     * which the shim sets errno. For the other two the shim refuses sizes above PTRDIFF_MAX (with
     * alignment added) beforehand, and sets errno afterwards.
     * alignment: any power of two, also below 16. */
    void *(*alloc)(size_t size);
    void *(*alloc_zeroed)(size_t size);
    void *(*alloc_aligned)(size_t alignment, size_t size);

    /* block: any address but NULL; nobody has asked owns(). A pointer that this allocator did not
     * hand out is reported in one line and otherwise ignored. A double free or an interior pointer
     * is reported, then abort(). A second free of a block whose memory has gone back is one of a
     * pointer that was not handed out. The classic presets find what their algorithm finds. */
    void (*free)(void *block);
    /* Called after owns(block) (owns-first), size from 1 to PTRDIFF_MAX. realloc of another pointer
     * does not get here: the shim copies what it can read into a new block. A block that is not
     * live is reported, then abort(). NULL: the old block is live and untouched. */
    void *(*resize)(void *block, size_t size);
    /* block: any address but NULL. 0 when it is not that of a live block (in a classic
     * preset: when it lies outside of the heap). The block may be freed by
     * another thread meanwhile only if the program has a fault. */
    size_t (*usable_size)(const void *block);
    /* What a block wastes. block: a live one, for which the shim has asked owns() and usable_size()
     * before. */
    struct block_waste (*waste)(const void *block);
    /* Whether the address lies in memory of this allocator. address: any word, NULL among them. A
     * word of the program's data may be asked for, so it must be cheap and read no block. */
    bool (*owns)(const void *address);

    /* In the child of a fork: repairs what the threads that the child does not have were doing. The
     * one thread still holds all locks of vm/fork_chain.h. NULL: there is nothing to repair. */
    void (*fork_child)(void);
    /* The calling thread ends; what it caches goes back. Called in a thread for which the allocator
     * has called allocator_thread_started(), so never in the first one. Destructors of the program
     * may run after it in the same thread, and allocate and free. It may be called again then. */
    void (*thread_exit)(void);

    /* Gives back to the kernel what can be; returns bytes. Called by malloc_trim() alone. */
    size_t (*trim)(void);
    /* Called when the program or a report asks, while other threads run. */
    void (*statistics)(struct allocator_statistics *statistics);
    /* Bytes that are free to the program but kept by thread caches. Cheap, approximate while other
     * threads run. Called under the statistics' lock, whose rank is below all of the allocators'.
     */
    size_t (*cached_bytes)(void);
    /* walk visits every block, with locks held that malloc takes. Blocks that other threads take
     * or free meanwhile may be told as they were or as they are. */
    void (*walk)(heap_visitor *visit, void *argument);
    /* For tests, not called by the shim: checks every structure. Other threads must be quiet for
     * the result to mean anything. */
    bool (*is_valid)(void);

    /* What only some allocators have; NULL in the others. */

    /* Counters of the allocator's own, for statistics: visits each as a key in a group, a group's
     * keys one after the other. A group's name must stay as long; a key need not. */
    void (*more_statistics)(statistic_visitor *visit, void *argument);
    /* Visits the counters that another process may read while this one runs, once, after init. */
    void (*counters)(counter_visitor *visit);
    /* The kernel has been handed `address`: if it points into a block, the block stays until it is
     * freed, since the kernel's pointer to it cannot be seen. address: any word. */
    void (*pin)(const void *address);
    /* With pin, and before_exec. False: there are no collections now, so nothing is lost that is
     * not pinned. Any thread, without a lock. */
    bool (*needs_pins)(void);
    /* A block was handed out to the code at `site`, its return address. Called only once the
     * allocator has called allocator_needs_sites(). Of a call of libc's, strdup for one, the site
     * is that of its caller. */
    void (*allocated_by)(void *block, const void *site);
    /* From now on any system call but those of memory may end the process (prctl with
     * PR_SET_NO_NEW_PRIVS or PR_SET_SECCOMP). Called before that takes effect. */
    void (*enter_sandbox)(void);
    /* The kernel is about to hide the process's own /proc from it (prctl with PR_SET_DUMPABLE 0).
     */
    void (*before_hiding)(void);
    /* Memory below the used part of a stack may hold data from now on: the program gives a thread
     * memory of its own for a stack (pthread_attr_setstack), or a stack without a guard. first_too:
     * so may the first thread's, which may lie below a handler that runs among its frames
     * (SS_AUTODISARM). */
    void (*stacks_are_given)(bool first_too);
    /* The program is about to make pages that fault when they are touched, or whose access waits
     * for one of its other threads, though no line of its maps tells (userfaultfd, MADV_GUARD_*).
     * Pages of blocks may be among them. */
    void (*pages_may_fault)(void);
    /* A child of the process is about to lack these pages, or find them empty (MADV_DONTFORK,
     * MADV_WIPEONFORK). */
    void (*not_copied)(const void *start, size_t bytes);
    /* After not_copied, when MADV_DONTFORK has succeeded. */
    void (*excepted)(const void *start, size_t bytes);
    /* The range is about to be unmapped, mapped over, moved, or advised otherwise, so it may be
     * excepted no longer. Called only once `excepted` was. Any thread, signal handlers, a vfork
     * child. */
    void (*not_excepted)(const void *start, size_t bytes);
    /* [start, start + bytes) becomes executable: it may have been written before. */
    void (*code_is_written)(const void *start, size_t bytes);
    /* Around a call of execve that ends the process, or one that changes its credentials or
     * namespaces: no collection begins between them, no thread of the collector's own is left, and
     * a signal of a collection that was given up is taken away. In any thread, also in a signal
     * handler, and in a vfork child. before_exec: false in that child and where there are no
     * collections; nothing was done, and after_exec is not called. after_exec: the call has
     * returned, or is left. */
    bool (*before_exec)(void);
    void (*after_exec)(void);
    /* The program sets a parameter by mallopt. The value counts from now on, in place of an option
     * of the same meaning. value: any; the preset cuts it off at its own bounds. A parameter that
     * the preset does not have is ignored. */
    void (*tune)(enum tuning parameter, size_t value);
    /* C++'s operators are told apart. */
    const struct allocator_operators *operators;
    /* Takes the place of sigaction for SIGSEGV: the allocator has a handler of its own, which hands
     * on to the program's what is not its own. Either may be NULL. Any thread, signal handlers, and
     * a vfork child. Returns as a system call does. */
    long (*fault_action)(const struct kernel_action *action, struct kernel_action *old);
    /* The process ends by exit; other threads, and destructors of the program, may run on. */
    void (*at_exit)(void);
    /* Whether find_leaks will be called. After init. */
    bool (*reports_leaks)(void);
    /* Visits the blocks that the program has not freed and cannot reach. One call at a time, under
     * a lock of a rank below RANK_COLLECTOR. may_wait: false in a signal handler: other threads may
     * wait for its thread. Called only where reports_leaks() is true. */
    enum leaks_found (*find_leaks)(leak_visitor *visit, void *argument, bool may_wait);
    /* Like find_leaks(), but the search goes on while the program runs. LEAKS_BEGUN: `visit` is
     * called in a child that has a copy of the memory of now, so it writes to memory that is
     * shared. LEAKS_UNKNOWN: it cannot be found out so, but perhaps by find_leaks. */
    enum leaks_found (*begin_leaks)(leak_visitor *visit, void *argument, bool may_wait);
    /* What has become of it, under the same lock: LEAKS_LATER while it goes on; then LEAKS_FOUND or
     * LEAKS_UNKNOWN, once. Cheap. */
    enum leaks_found (*leaks_begun)(void);
    /* The memory of the allocator's own state among the library's data. An address of a block in it
     * is no use of the block. Called only where reports_leaks() is true. */
    void (*own_state)(const void **start, size_t *bytes);
    /* A full collection, at the program's request. */
    enum collected (*collect)(void);
    /* The program promises that a block, which it has just been handed out, never holds a pointer.
     * realloc may end that. */
    void (*holds_no_pointers)(void *block);
    /* Changes whenever the allocator has ended a wait of the calling thread in EINTR, or a transfer
     * early: it is odd then. When a handler of the program's has run since, it is even. A call
     * before and one after a wait tell whether to restart it. */
    uint32_t (*ended_waits)(void);
    /* Where the program's signal handlers are to return to, in place of libc's restorer: [0] those
     * without SA_RESTART, [1] those with it. NULL: libc's own. */
    void (*handler_restorers[2])(void);
};

/* Set by the shim before init. An allocator calls it in each thread but the first that comes to
 * hold a cache, so that thread_exit will be called for that thread. It may allocate, for the
 * thread's specific data: called outside any operation, with the cache in place. NULL: nobody
 * calls. */
extern void (*allocator_thread_started)(void);

/* Set by the shim. The allocator calls it, in init or with all other threads stopped, to have
 * allocated_by called for each allocation from now on. False: not yet, ask again. NULL: nobody can
 * tell. */
extern bool (*allocator_needs_sites)(void);

/* Set by the shim before init: fills `sites` with the return addresses above the frame of these
 * registers (those of `frame` when what it has called returns), innermost first, the library's own
 * left out. Returns how many; 0 when they are not known. Any thread, signal handlers too. NULL:
 * nobody can tell. */
extern uint32_t (*allocator_call_stack)(uintptr_t rip, uintptr_t rsp, uintptr_t rbp,
                                        const void **sites, uint32_t most);

/* Set by the shim where reports_leaks() is true: another process asks for a report. Called in a
 * signal handler, with all signals blocked, of a thread that was in a system call, right before the
 * instruction at `rip`. NULL: nobody answers. */
extern void (*allocator_asked)(uintptr_t rip);

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
