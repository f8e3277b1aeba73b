/* SPDX-License-Identifier: MIT
 *
 * roots.h: hands everything outside the heap that may hold a pointer into it to the marker.
 */
#ifndef ALLOTROPE_GC_WORLD_ROOTS_H
#define ALLOTROPE_GC_WORLD_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct root_result {
    uint64_t mappings;       /* looked into */
    uint64_t bytes;          /* scanned in place */
    uint64_t indirect_bytes; /* scanned through a copy */
};

enum { ROOT_OWN = 2 };

/* Who marks. */
struct root_sink {
    /* Each word in [start, end), at every fourth byte. */
    void (*words)(const void *start, const void *end);
    /* Words at any address, in code that the process has generated. NULL: as `words`. */
    void (*words_in_code)(const void *start, const void *end);
    /* Before any word: pages of blocks cannot be read in place, as process.h tells; what is in them
     * is handed over with the roots. NULL: nobody minds. */
    void (*protected_blocks)(void);
    /* What we keep of the heap among the program's data, in order of address: it is left out. */
    struct {
        const void *start;
        size_t bytes;
    } own[ROOT_OWN];
};

/* Called once. False: without memory. */
bool roots_init(void);

/* The world is stopped and marking has begun. stack_pointer: of the calling thread, below which
 * nothing of the program is. False: something could not be read, so nothing must be reclaimed. */
bool roots_scan(uintptr_t stack_pointer, const struct root_sink *sink, struct root_result *result);

#endif
