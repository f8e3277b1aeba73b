/* SPDX-License-Identifier: MIT
 *
 * deferred.h: calls that wait for the end of a fork.
 *
 * While the heap is frozen (freeze.h) a free cannot be done, nor can a new block be entered into
 * lists and accounts. Both are noted here as calls. The thread that forked makes the calls when the
 * heap thaws, in the parent and in the child: both go on with the same heap.
 *
 * The calls stand in an array that grows by extents. A thread takes the next place by one atomic
 * addition, writes the arguments, then the function. So a call is whole at every moment, and nobody
 * waits.
 *
 * Invariants
 * [function last]   A place whose function is NULL is one that its thread has not written yet. The
 *                   thread that forked runs the calls when no frozen way is open any more
 *                   ([still heap]). So it finds such a place in the child, whose writer exists only
 *                   in the parent, or where there was no memory for it.
 * [in order]        Calls are made in the order in which their places were taken. So a block's
 *                   entry into an account comes before its exit.
 */
#ifndef ALLOTROPE_VM_DEFERRED_H
#define ALLOTROPE_VM_DEFERRED_H

#include <stdbool.h>
#include <stdint.h>

enum { DEFERRED_WORDS = 6 };

typedef void deferred_call(const uintptr_t words[DEFERRED_WORDS]);

/* Notes a call. Allowed on the frozen way: after operation_begin or lock_enter has returned false,
 * until frozen_end. False: there is no memory, and the call will not be made. A caller that makes a
 * block, or was asked for a change that may fail, then fails too. A caller that frees loses the
 * memory. */
bool defer(deferred_call *call, const uintptr_t words[DEFERRED_WORDS]);
bool defer_one(deferred_call *call, const void *word);

/* By the thread that forked, while the heap thaws. */
void deferred_run(void);

#endif
