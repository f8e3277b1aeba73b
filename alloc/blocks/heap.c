/* SPDX-License-Identifier: MIT
 *
 * heap.c: the data that heap.h declares.
 */
#include "alloc/blocks/heap.h"

struct blocks_heap blocks_heap = {
    .lock = LOCK_INITIALIZER(RANK_ARENA),
    .common_lock = LOCK_INITIALIZER(RANK_REGISTRY),
};

/* Constants all of whose bytes are zero: neither ld.so nor anybody else writes to them. */
static const struct thread_heap unstarted_heap;
const struct thread_heap exited_heap;

__thread struct thread_heap *thread_heap = (struct thread_heap *)&unstarted_heap;
__thread bool is_pushing;
