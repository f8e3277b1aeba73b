/* SPDX-License-Identifier: MIT
 *
 * heap_unit.h: a fresh heap around each cmocka test of one policy.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HEAP_UNIT_H
#define ALLOTROPE_TESTS_UNIT_HEAP_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/heap_source.h"

static struct test_heap heap;

static inline void *take(size_t size)
{
    return heap.policy->alloc(heap.state, size);
}

static inline void give(void *block)
{
    heap.policy->free(heap.state, block);
}

static inline size_t usable(const void *block)
{
    return heap.policy->usable_size(heap.state, block);
}

static inline struct heap_statistics statistics(void)
{
    struct heap_statistics result = {0};
    heap.policy->statistics(heap.state, &result);
    return result;
}

/* Where memory ends, relative to its start. */
static inline size_t end_of_memory(void)
{
    char *start, *end;
    bool any = heap.source.pages.segment(&heap.source.pages, 0, &start, &end);
    return any ? (size_t)(end - start) : 0;
}

static inline void assert_valid(void)
{
    assert_true(heap.policy->is_valid(heap.state));
}

/* Whether freeing `block` ends the process with abort. */
static inline bool free_aborts(void *block)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        signal(SIGABRT, SIG_DFL);
        give(block);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static inline int end_heap(void **state)
{
    (void)state;
    assert_valid();
    test_heap_end(&heap);
    return 0;
}

#endif
