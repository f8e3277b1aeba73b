/* SPDX-License-Identifier: MIT
 *
 * second_malloc.c: a program that brings a malloc of its own.
 *
 * Firefox, Chromium, rustc, fd and others do. The program's own symbols win over a preloaded
 * library's, so the library serves nobody. That must do no harm, and must be said in one line at
 * start: a comparison of such a program would compare nothing.
 * Seen: mimalloc 21, Mesh 25, 35.
 *
 * Such a malloc may need the program's main first: that of maxima's Lisp crashes before it.
 * `second_malloc not-before-main` fails when anybody has called it so early.
 */
#include "tests/contract/contract.h"

static char memory[16 << 20] __attribute__((aligned(16)));
static size_t used;
static bool main_has_begun, called_early;

void *malloc(size_t size)
{
    called_early |= !main_has_begun;
    size_t *header = (size_t *)(void *)(memory + used);
    used += (size + 31) / 16 * 16;
    require(used <= sizeof memory);
    *header = size;
    return (char *)header + 16;
}

void free(void *block)
{
    require(!block || ((char *)block > memory && (char *)block < memory + sizeof memory));
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* memory is never used twice */
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (block) {
        size_t old = *(size_t *)(void *)((char *)block - 16);
        memcpy(moved, block, old < size ? old : size);
    }
    return moved;
}

int main(int argc, char **argv)
{
    main_has_begun = true;
    if (argc == 2 && strcmp(argv[1], "not-before-main") == 0)
        require(!called_early);
    char *text = NULL;
    for (size_t size = 1; size < 10000; size *= 2) {
        text = realloc(text, size);
        text[size - 1] = 'x';
    }
    free(text);
    char *line = strdup("the program's own malloc");
    require(puts(line) >= 0);
    free(line);
    return used > 0 ? 0 : 1;
}
