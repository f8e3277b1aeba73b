/* SPDX-License-Identifier: MIT */
/* sorting.c: a deterministic program for the recorder's tests: heap blocks of many sizes,
 * sorted, searched, freed, printed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_programs/random.h"

enum { WORDS = 1000 };

static int compare(const void *first, const void *second)
{
    return strcmp(*(char *const *)first, *(char *const *)second);
}

int main(void)
{
    static char *words[WORDS];
    uint64_t random = 1;
    for (int i = 0; i < WORDS; i++) {
        size_t length = random_between(&random, 1, 300);
        words[i] = malloc(length + 1);
        memset(words[i], 'a' + (int)random_below(&random, 26), length);
        words[i][length] = 0;
    }
    qsort(words, WORDS, sizeof *words, compare);
    size_t total = 0;
    for (int i = 0; i < WORDS; i++) {
        char **found = bsearch(&words[i], words, WORDS, sizeof *words, compare);
        total += strlen(*found);
        if (i % 3 == 0)
            words[i] = realloc(words[i], 1000);
    }
    for (int i = 0; i < WORDS; i++)
        free(words[i]);
    printf("%zu bytes in %d words\n", total, WORDS);
    return 0;
}
