/* SPDX-License-Identifier: MIT
 *
 * freeze.h: what keeps the heap still while a process forks, without making anybody wait.
 *
 * The child of a fork gets the heap as it is at the moment of the clone, and one thread. So no
 * other thread may be in the middle of a change then. To hold all locks over the clone is not
 * enough: libc's fork takes locks of its own between our prepare handler and the clone (the name
 * service's, stdio's list of files), and their holders may be in malloc. If they waited there for
 * the thread that forks, both would wait for ever.
 *
 * So fork *freezes* the heap: it waits until nobody is inside an operation, and from then on until
 * fork is over nobody changes the heap, the forking thread included. Whoever comes then goes
 * another way, on which nobody waits:
 *
 *     malloc      a mapping of its own, made by the calling thread alone     alloc/fork_block.h
 *     free        off the fast path: is noted, and done when the heap thaws  vm/deferred.h
 *     realloc     both
 *     asking      reads the frozen heap, without its lock
 *
 * Two things go on as ever: fast paths, which change nothing but what belongs to the thread, and
 * in `blocks` changes of one instruction each, such as remote frees (alloc/blocks/heap.h,
 * [frozen]).
 *
 * An *operation* is what must be over before the heap is frozen. There are two kinds:
 *
 *     under one lock         from lock_enter to lock_release; locks of higher ranks may be taken
 *                            in between. Fork waits for the lock.
 *     under several in turn  from operation_begin to operation_end. The thread leaves a mark;
 *                            fork waits until the mark is gone.
 *
 * The states, all but the first by the forking thread:
 *
 *     IN_USE ---> FREEZING --------> FROZEN --------> THAWING -------------> IN_USE
 *       fork:     wait until no      libc's locks;    wait until nobody      nobody waits
 *                 operation is       the clone        goes the other way;    any more
 *                 under way; take                     run what was
 *                 the locks                           deferred; give the
 *                                                     locks back
 *       others:   wait for FROZEN    go the other     wait for IN_USE
 *                 (operations end)   way
 *
 * Invariants
 * [nobody waits]     In FROZEN no malloc or free waits for another thread. In FREEZING and THAWING
 *                    they may wait for the forking thread, which then waits for nothing but
 *                    operations and frozen ways that have begun. These end by themselves. An
 *                    operation that has left a mark may begin others inside, of one lock or of
 *                    several: fork takes no lock before the mark is gone, so they are never
 *                    refused, and wait for no fork. On the frozen way nobody waits, but for a
 *                    moment of the clock (frozen_pause), and for a free mark where more threads
 *                    are inside than there are marks. Marks become free by themselves.
 * [still heap]       From FROZEN until the last frozen mark is gone nobody changes what a lock of
 *                    vm/fork_chain.h guards, or what is changed inside of operations.
 * [mark then look]   A thread sets its mark, then reads the state. The forking thread changes the
 *                    state, then reads the marks. All four are sequentially consistent. So one of
 *                    the two sees the other.
 * [own operation]    A signal handler may fork while it interrupts an operation of its own thread.
 *                    The mark, or the state of a lock, tells: both are changed by one instruction.
 *                    Such a fork freezes nothing and waits for nobody, because others may wait for
 *                    what the interrupted operation holds. Neither parent nor child repair or reset
 *                    what the operation has: it goes on when the handler returns, in both. The
 *                    child of a process with one thread gets a whole heap. In the child of a
 *                    process with several, what the other threads were changing is not whole: that
 *                    child can exec, no more. [nobody waits] does not hold meanwhile. libc's fork
 *                    would wait for ever for a lock whose holder waits for what the interrupted
 *                    operation holds, so the fork is _Fork where fork is wrapped
 *                    (shim/system_calls/forks.c).
 * [own handlers]     A signal handler may call malloc while it interrupts fork. It meets the heap
 *                    in FROZEN alone and goes the frozen way: in FREEZING and THAWING, where the
 *                    forking thread has locks and changes the heap, its signals are blocked
 *                    (vm/fork_chain.c). No code of the program runs meanwhile, so it never sees
 *                    another mask than its own.
 *
 * Requests from outside are operations too: statistics and tuning (shim/route/outside.h), and each
 * allocator's `trim`. While the heap is frozen, statistics tell zeros, trim gives nothing back, and
 * tuning is put off. Walks may wait for the end of a fork. So may the calls that tell a collector
 * that a sandbox, or an end of its rights, is near.
 */
#ifndef ALLOTROPE_VM_FREEZE_H
#define ALLOTROPE_VM_FREEZE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The thread that is in fork, 0 if none is. */
extern _Atomic uintptr_t forking_thread;

/* Around an operation that takes several locks in turn. True: the operation may go on, and ends
 * with operation_end. False: the heap is frozen; the frozen way ends with frozen_end. */
bool operation_begin(void);
void operation_end(void);

/* For lock_enter. True: the heap is frozen, and stays so until frozen_end. False: it is in use, or
 * the calling thread freezes or thaws it. */
bool frozen_begin(void);
void frozen_end(void);

/* Called on the frozen way, before expensive system calls: waits for the thread that forks, 50
 * microseconds at most. A thread that allocates on, while the one that forks has no processor,
 * would make mappings that the thaw takes apart again. */
void frozen_pause(void);

/* Called by a thread that has given back a lock for which others wait. Lets the thread that freezes
 * the heap have the lock first. A lock has no queue: a thread that takes it again at once would
 * keep it for seconds. Waits a millisecond at most. */
void freezing_pause(void);

/* The calling thread is the one that forks, and the heap is frozen or thaws. */
bool heap_is_frozen_by_this_thread(void);

/* For vm/fork_chain.c. */

/* Whether a signal handler interrupted an operation of this thread: see [own operation]. */
bool operation_is_interrupted(void);
/* To FREEZING. Waits until no other thread forks, then for the operations of other threads. */
void freeze_begin(void);
/* To FROZEN. */
void freeze_end(void);
/* To THAWING. Waits until nobody goes the frozen way. */
void thaw_begin(void);
/* To IN_USE. */
void thaw_end(void);
/* In the child: removes the marks of the threads that it does not have. */
void forget_marks_of_others(void);

#endif
