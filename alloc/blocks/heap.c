/* SPDX-License-Identifier: MIT
 *
 * heap.c: the data that heap.h declares.
 */
#include "alloc/blocks/heap.h"

struct blocks_heap blocks_heap = {
    .lock = LOCK_INITIALIZER(RANK_ARENA),
    .common_lock = LOCK_INITIALIZER(RANK_REGISTRY),
};

uint64_t empty_free_word;

#define EMPTY_BINS                                                             \
    {                                                                          \
        .bins = { [0 ... SIZE_CLASSES - 1] = {.free_word = &empty_free_word} } \
    }
static struct thread_heap unstarted_heap = EMPTY_BINS;
struct thread_heap exited_heap;

__thread struct thread_heap *thread_heap = &unstarted_heap;
