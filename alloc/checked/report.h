/* SPDX-License-Identifier: MIT
 *
 * report.h: what is said of a misuse of the heap.
 *
 *     allotrope: free(0x7f...): written behind its end: block of 24 bytes at 0x7f...
 *       allocated at server+0x1a2b (malloc)
 *       freed at libfoo.so.1+0x77
 *
 *     allotrope: write(0x7f...): outside a block: 1 byte behind a block of 40 bytes at 0x7f..., at
 *     server+0x1a2b
 *       allocated at server+0x1381
 *         from libfoo.so.1+0x77
 *
 * A report is one write (the callers of an access come in a second one). It is made by system
 * calls: it needs no heap and no libc, and may be made in a signal handler. It is not built on the
 * stack, since handlers' stacks are small. So there is one at a time, and a misuse by the reporter
 * itself is not told. A site is the return address of the call, in its file: what addr2line wants.
 */
#ifndef ALLOTROPE_ALLOC_CHECKED_REPORT_H
#define ALLOTROPE_ALLOC_CHECKED_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return addresses, innermost first; none: not known. */
enum { CALL_STACK_FRAMES = 12 };

struct call_stack {
    uint32_t frames;
    const void *sites[CALL_STACK_FRAMES];
};

/* What is known of a block. */
struct block_facts {
    const void *block; /* NULL: nothing is */
    size_t bytes;      /* requested */
    const void *allocated_at, *freed_at;
    const struct call_stack *allocation, *freeing; /* the same with what called it; NULL: no more */
    const char *by;
    ptrdiff_t offset; /* of the address that the report is of, from the block's start */
};

enum report_severity { REPORT_ONLY, REPORT_FATAL };

/* on_error_report: a fatal misuse does not end the process. most: so many reports, the rest is
 * counted. */
void report_init(bool on_error_report, uint64_t most);

/* Reports a misuse. Aborts if it is fatal, unless the options have the process go on. function:
 * "free"; site: where it was called, or NULL. facts: of the block, or of the nearest one; may be
 * NULL. */
void report_misuse(enum report_severity severity, const char *function, const void *address,
                   const char *fault, const struct block_facts *facts, const void *site)
    __attribute__((noinline, cold));

/* An access that the processor has refused; ends nothing. access: "read"; at: the end of the
 * instruction, or any byte of it but the first. False: it was only counted. */
bool report_access(const char *access, const void *address, const char *fault,
                   const struct block_facts *facts, const void *at) __attribute__((noinline, cold));

/* Reports the callers of the code that made an access. The stack's first frame is that of the
 * access, and is left out. */
void report_callers(const char *access, const void *address, const struct call_stack *stack)
    __attribute__((noinline, cold));

#endif
