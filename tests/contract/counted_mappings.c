/* SPDX-License-Identifier: MIT
 *
 * counted_mappings.c: a program that maps memory; built with -DLIBRARY, a library that is preloaded
 * behind ours and counts such calls, as tools that watch input and output do.
 */
#include "tests/contract/contract.h"

#include <dlfcn.h>
#include <sys/mman.h>

enum { TIMES = 3, BYTES = 1 << 16 };

#ifdef LIBRARY
static int mapped, unmapped;

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

static __attribute__((destructor)) void require_all(void)
{
    require(mapped >= TIMES && unmapped >= TIMES);
    fprintf(stderr, "all were seen\n");
}
#else
int main(void)
{
    for (int i = 0; i < TIMES; i++) {
        void *pages = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(pages != MAP_FAILED);
        require(munmap(pages, BYTES) == 0);
    }
    return 0;
}
#endif
