/* SPDX-License-Identifier: MIT
 *
 * roots.h: hands everything outside the heap that may hold a pointer into it to a visitor.
 */
#ifndef ALLOTROPE_GC_WORLD_ROOTS_H
#define ALLOTROPE_GC_WORLD_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping;

struct root_result {
    uint64_t mappings;       /* looked into */
    uint64_t bytes;          /* scanned in place */
    uint64_t indirect_bytes; /* scanned through a copy */
};

struct excluded_range {
    const void *start;
    size_t bytes;
};
enum { EXCLUDED_RANGES = 3 };

/* Who is handed the roots. */
struct root_visitor {
    /* Each word in [start, end), at every fourth byte; gc:classic looks at every eighth. Memory
     * that was copied for it lies there as it lay to a multiple of 8. */
    void (*words)(const void *start, const void *end);
    /* Words at any address, in code that the process has generated. NULL: as `words`. */
    void (*words_in_code)(const void *start, const void *end);
    /* Called before the words of any mapping with what the process has mapped; those that tell
     * where a thread's stack is come earlier. NULL: it need not be known. */
    void (*mapped)(const struct mapping *mappings, size_t count);
    /* Called before the words of each mapping: whether a thread's stack lies in it, or did at an
     * earlier collection. There stand words that nobody has cleared, too. NULL: it need not be
     * known. */
    void (*next_mapping)(bool has_stack);
    /* Called before the words of any mapping, if pages of blocks cannot be touched;
     * process_may_be_touched tells in which mappings. Their words are handed over with the roots.
     * only_resident: pages of blocks that are not in memory (resident.h) must not be touched
     * either; nobody hands their words over. NULL: it need not be known. */
    void (*unreadable_blocks)(bool only_resident);
    /* Called before the words of any mapping, for the heap's memory at both ends of a mapping where
     * pages of blocks cannot be touched, and of a hole between mappings that a block lies in. Only
     * where unreadable_blocks is not NULL. NULL: it need not be known. */
    void (*untouchable)(uintptr_t start, uintptr_t end);
    /* The kernel may write at the address, into a buffer that is registered with io_uring, and page
     * tables do not tell. Called beside `words`. NULL: it need not be known. */
    void (*kernel_writes)(uintptr_t address);
    /* Records of the heap that lie among the program's data, in order of address. They hold no
     * roots. */
    struct excluded_range excluded[EXCLUDED_RANGES];
};

/* Called once. False: without memory. */
bool roots_init(void);

/* From now on. For struct allocator: its members of these names. */
void roots_stacks_are_given(bool first_too);
void roots_pages_may_fault(void);
bool roots_pages_fault(void); /* whether it was said */
void roots_code_is_written(const void *start, size_t bytes);

/* The world is stopped and marking has begun. stack_pointer: of the calling thread, below which
 * nothing of the program is. False: something could not be read, so nothing must be reclaimed. */
bool roots_visit(uintptr_t stack_pointer, const struct root_visitor *visitor,
                 struct root_result *result);

/* roots_visit() in two parts (snapshot.h). The process visits the first part: what a child with a
 * copy of the memory does not have, or would find changed. The child visits the second part: the
 * rest. False from either: as from roots_visit(). From the first on, whatever it returns, memory is
 * lent (excepted.h). */
bool roots_visit_uncopied(uintptr_t stack_pointer, const struct root_visitor *visitor,
                          struct root_result *result);
bool roots_visit_copied(const struct root_visitor *visitor, struct root_result *result);

/* Notes private memory that a child of the process will not have, or not with these contents. Any
 * thread, before that becomes true. Only the bounds of all such ranges are kept, so memory between
 * two of them counts, too. */
void roots_are_not_copied(const void *start, size_t bytes);
/* Whether all of a range is known to be so. */
bool roots_are_uncopied(uintptr_t start, uintptr_t end);

/* Room that a visit uses, between two visits. */
char *roots_buffer(size_t *bytes);

#endif
