/* SPDX-License-Identifier: MIT
 *
 * roots.c: pointers in a file, which collections do not read.
 *
 * The file is mapped for reading only and shared, as a program maps what another process, or an
 * earlier part of it, has written. Its pages are added to the roots as long as they are mapped.
 */
#include <allotrope/gc.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { NAMES = 512, TABLE_BYTES = NAMES * sizeof(char *) };

static __attribute__((noinline)) int write_table(int file)
{
    char *names[NAMES];
    for (int i = 0; i < NAMES; i++) {
        names[i] = malloc(100);
        if (!names[i])
            return -1;
        snprintf(names[i], 100, "name %d", i);
    }
    int done = write(file, names, sizeof names) == (ssize_t)sizeof names ? 0 : -1;
    memset(names, 0, sizeof names);
    __asm__ volatile("" ::"r"(names) : "memory"); /* no copy is left on the stack */
    return done;
}

static int count_whole(char *const *names)
{
    char expected[100];
    int whole = 0;
    for (int i = 0; i < NAMES; i++) {
        snprintf(expected, sizeof expected, "name %d", i);
        whole += strcmp(names[i], expected) == 0;
    }
    return whole;
}

static void collect_and_reuse(void)
{
    for (int i = 0; i < 3 && allotrope_gc_collect; i++)
        allotrope_gc_collect();
    for (int i = 0; i < 10 * NAMES; i++) { /* gets what was reclaimed, had anything been */
        char *other = malloc(100);
        if (other)
            memset(other, 'x', 100);
    }
}

int main(void)
{
    char path[] = "/tmp/allotrope-roots-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write_table(file) != 0) {
        perror(path);
        return 1;
    }
    char **names = mmap(NULL, TABLE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    if (names == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    if (allotrope_gc_add_roots && allotrope_gc_add_roots(names, TABLE_BYTES) != 0)
        return 1;
    collect_and_reuse();
    int whole = count_whole(names);
    printf("%d names\n", whole);
    if (allotrope_gc_remove_roots)
        allotrope_gc_remove_roots(names, TABLE_BYTES);
    munmap(names, TABLE_BYTES);
    close(file);
    unlink(path);
    return whole == NAMES ? 0 : 1;
}
