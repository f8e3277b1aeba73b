/* SPDX-License-Identifier: MIT */
/* next.c: the pass-through of docs/doorbells.md, as a library to preload, for the recorder's
 * tests. */
#include "trace/protocol/doorbell.h"

#include <dlfcn.h>
#include <stddef.h>

DOORBELLS_DEFINE;

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

void *malloc(size_t size);
void free(void *pointer);

static __attribute__((constructor)) void start(void)
{
    doorbell_register();
}

static void find_next(void)
{
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
}

void *malloc(size_t size)
{
    if (!next_malloc)
        find_next();
    doorbell_enter_allocator();
    void *pointer = next_malloc(size);
    doorbell_malloc(pointer, size, __builtin_return_address(0));
    doorbell_leave();
    return pointer;
}

void free(void *pointer)
{
    if (!next_free)
        find_next();
    doorbell_enter_allocator();
    doorbell_free(pointer, __builtin_return_address(0));
    next_free(pointer);
    doorbell_leave();
}
