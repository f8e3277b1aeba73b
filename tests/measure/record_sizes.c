/* SPDX-License-Identifier: MIT
 *
 * record_sizes.c: preloaded, counts the sizes that a program asks glibc's malloc for, and writes
 * "{size, count}," lines to the file RECORD_SIZES names. Sizes above 64 KiB are left out: there
 * are few, and they measure the kernel. For programs of one thread. Made bench_programs/data/:
 *
 *   gcc -shared -fPIC -O1 -o record_sizes.so tests/measure/record_sizes.c
 *   LC_ALL=C RECORD_SIZES=gawk_sizes.inc LD_PRELOAD=$PWD/record_sizes.so \
 *       gawk -v passes=1 -f bench_programs/gawk_fill/fill.awk /usr/share/dict/words > /dev/null
 */
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

enum { LARGEST = 65536 };
static unsigned long counts[LARGEST + 1];

static void count(size_t size)
{
    if (size <= LARGEST)
        counts[size]++;
}

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
    count(number * size);
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size)
{
    count(size);
    return __libc_realloc(block, size);
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("RECORD_SIZES");
    FILE *file = path ? fopen(path, "w") : NULL;
    for (size_t size = 0; file && size <= LARGEST; size++)
        if (counts[size] > 0)
            fprintf(file, "{%zu, %lu},\n", size, counts[size]);
    if (file)
        fclose(file);
}
