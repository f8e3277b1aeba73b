/* SPDX-License-Identifier: MIT
 *
 * counted_calls.c: a program that makes system calls; built with -DLIBRARY, a library that is
 * preloaded behind ours and counts these calls, as tools that watch input and output do. One that
 * has sockets of its own (VPP's) serves them there.
 */
#include "tests/contract/contract.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { TIMES = 3, BYTES = 1 << 16 };

#ifdef LIBRARY
static int mapped, unmapped;
static bool advised, protected, added, has_stack, named;

void *mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset)
{
    __typeof__(mmap) *next = (__typeof__(mmap) *)dlsym(RTLD_NEXT, "mmap");
    mapped++;
    return next(start, bytes, protection, flags, file, offset);
}

int munmap(void *start, size_t bytes)
{
    __typeof__(munmap) *next = (__typeof__(munmap) *)dlsym(RTLD_NEXT, "munmap");
    unmapped++;
    return next(start, bytes);
}

int madvise(void *start, size_t bytes, int advice)
{
    __typeof__(madvise) *next = (__typeof__(madvise) *)dlsym(RTLD_NEXT, "madvise");
    advised = true;
    return next(start, bytes, advice);
}

int mprotect(void *start, size_t bytes, int protection)
{
    __typeof__(mprotect) *next = (__typeof__(mprotect) *)dlsym(RTLD_NEXT, "mprotect");
    protected = true;
    return next(start, bytes, protection);
}

int sigaltstack(const stack_t *stack, stack_t *before)
{
    __typeof__(sigaltstack) *next = (__typeof__(sigaltstack) *)dlsym(RTLD_NEXT, "sigaltstack");
    has_stack = true;
    return next(stack, before);
}

int prctl(int option, ...)
{
    named = option == PR_SET_NAME;
    return 0;
}

int epoll_ctl(int descriptor, int operation, int target, struct epoll_event *event)
{
    added = descriptor == -7 && operation == EPOLL_CTL_ADD && target == -8 && event->data.u32 == 9;
    return 0; /* its own descriptors are none of the kernel's */
}

static __attribute__((destructor)) void require_all(void)
{
    require(mapped >= TIMES && unmapped >= TIMES);
    require(advised && protected && added && has_stack && named);
    fprintf(stderr, "all were seen\n");
}
#else
int main(void)
{
    for (int i = 0; i < TIMES; i++) {
        void *pages = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(pages != MAP_FAILED);
        require(madvise(pages, BYTES, MADV_DONTNEED) == 0);
        require(mprotect(pages, BYTES, PROT_NONE) == 0);
        require(munmap(pages, BYTES) == 0);
    }
    struct epoll_event event = {.data.u32 = 9};
    stack_t stack;
    require(epoll_ctl(-7, EPOLL_CTL_ADD, -8, &event) == 0);
    require(sigaltstack(NULL, &stack) == 0 && prctl(PR_SET_NAME, "counted") == 0);
    return 0;
}
#endif
