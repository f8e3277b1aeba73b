/* SPDX-License-Identifier: MIT
 *
 * gnu_family.c: the functions that look into glibc's heap, and the old names.
 *
 * When a replacement leaves mallinfo, mallopt, malloc_info, malloc_stats or malloc_trim to
 * glibc, the call wakes glibc's own dormant heap, which answers for an empty heap of its own.
 * The __libc_ names are called by old programs and tools past the interposed ones; memory that
 * they give must be what free takes.
 */
#include <dlfcn.h>

#include "tests/contract/contract.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static void require_information_as_xml(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    require(stream && malloc_info(0, stream) == 0);
    require(fclose(stream) == 0);
    require(strncmp(text, "<malloc version=\"1\">", 20) == 0);
    require(strstr(text, "</malloc>") != NULL);
    free(text);
    errno = 0;
    require(malloc_info(1, stdout) != 0); /* no such option */
}

int main(void)
{
    void *large = malloc(3000000), *small = malloc(3000);
    require(large && small);
    struct mallinfo2 info = mallinfo2();
    require(info.uordblks + info.hblkhd >= 3000000);
    require(info.arena + info.hblkhd >= 3000000);
    free(large);
    struct mallinfo2 after = mallinfo2();
    require(after.uordblks + after.hblkhd + 2900000 <= info.uordblks + info.hblkhd);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    require(mallinfo().uordblks >= 0);
    free(small);

    int trimmed = malloc_trim(0);
    require(trimmed == 0 || trimmed == 1);
    require_information_as_xml();

    void *block = __libc_malloc(100);
    require(block != NULL);
    fill(block, 100);
    free(block);
    block = malloc(100);
    __libc_free(block);
    block = __libc_calloc(10, 10);
    require(block != NULL && *(char *)block == 0);
    block = __libc_realloc(block, 5000);
    require(block != NULL);
    block = realloc(block, 100000);
    require(block != NULL);
    free(block);
    block = __libc_memalign(1024, 10);
    require(block != NULL && (uintptr_t)block % 1024 == 0);
    free(block);

    /* Called by programs that were linked long ago; no longer for new ones. */
    void (*old_free)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "cfree");
    if (old_free)
        old_free(malloc(100));

    /* Those go to our malloc by themselves. */
    char *copy = strdup("text");
    require(copy != NULL && malloc_usable_size(copy) >= 5);
    copy = reallocarray(copy, 100, 100);
    require(copy != NULL && strcmp(copy, "text") == 0);
    free(copy);
    malloc_stats();
    return 0;
}
