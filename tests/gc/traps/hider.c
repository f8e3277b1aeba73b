/* SPDX-License-Identifier: MIT
 *
 * hider.c: a library that hides its pointers, as fontconfig does (a pattern knows its elements and
 * its name by their distance from itself) and SWI-Prolog (a table knows the address that its
 * entry 0 would have). hiders.c opens it, under the name of a known hider or of none. Or it is
 * linked into the program, which then has a known hider's function.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT_BYTES = 112, FIRST_ENTRY = 1 << 20 };
static const char NAME[] =
    "a name that is long enough not to fit into the pattern itself, and is a "
    "block of the size of the others";

struct pattern {
    intptr_t elements, name;
    char unused[ELEMENT_BYTES - 2 * sizeof(intptr_t)];
};

static char *entries[1000]; /* of which each lies before its block */
static int entry_count;

static char *at(struct pattern *pattern, intptr_t distance)
{
    return (char *)pattern + distance;
}

struct pattern *pattern_new(void)
{
    struct pattern *pattern = calloc(1, sizeof *pattern);
    char *elements = malloc(ELEMENT_BYTES);
    memset(elements, 0x5A, ELEMENT_BYTES);
    pattern->elements = elements - (char *)pattern;
    pattern->name = strdup(NAME) - (char *)pattern;
    return pattern;
}

bool pattern_is_whole(struct pattern *pattern)
{
    const char *elements = at(pattern, pattern->elements);
    for (int i = 0; i < ELEMENT_BYTES; i++)
        if (elements[i] != 0x5A)
            return false;
    return strcmp(at(pattern, pattern->name), NAME) == 0;
}

/* The block becomes the pattern's elements. */
void pattern_take(struct pattern *pattern, char *block)
{
    free(at(pattern, pattern->elements));
    pattern->elements = block - (char *)pattern;
}

void pattern_grow(struct pattern *pattern)
{
    char *elements = realloc(at(pattern, pattern->elements), ELEMENT_BYTES * 10);
    pattern->elements = elements - (char *)pattern;
}

/* To a size that the block has room for. */
void pattern_resize(struct pattern *pattern)
{
    char *elements = realloc(at(pattern, pattern->elements), ELEMENT_BYTES - 1);
    pattern->elements = elements - (char *)pattern;
}

void *pattern_elements(struct pattern *pattern)
{
    return at(pattern, pattern->elements);
}

void pattern_free(struct pattern *pattern)
{
    free(at(pattern, pattern->elements));
    free(at(pattern, pattern->name));
    free(pattern);
}

void entry_new(void)
{
    char *block = malloc(ELEMENT_BYTES);
    memset(block, 0x5A, ELEMENT_BYTES);
    entries[entry_count++] = block - FIRST_ENTRY;
}

bool entries_are_whole(void)
{
    for (int i = 0; i < entry_count; i++)
        for (int j = 0; j < ELEMENT_BYTES; j++)
            if (entries[i][FIRST_ENTRY + j] != 0x5A)
                return false;
    return true;
}

#ifdef KNOWN_BY
struct pattern *KNOWN_BY(void)
{
    return pattern_new();
}
#endif
