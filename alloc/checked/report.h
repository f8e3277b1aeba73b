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
 * In one write (what an access is called from comes in a second). By system calls: a report needs
 * no heap and no libc, and may be made in a signal handler. What it is built in is not on the
 * stack, since handlers' stacks are small; so there is one at a time, and a misuse by the reporter
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

/* Says it, and aborts if the misuse is fatal and the options let it. function: "free"; site: where
 * it was called, or NULL. facts: of the block, or of the nearest one; may be NULL. */
void report_misuse(enum report_severity severity, const char *function, const void *address,
                   const char *fault, const struct block_facts *facts, const void *site)
    __attribute__((noinline, cold));

/* An access that the processor has refused; ends nothing. access: "read"; at: the end of the
 * instruction, or any byte of it but the first. False: it was only counted. */
bool report_access(const char *access, const void *address, const char *fault,
                   const struct block_facts *facts, const void *at) __attribute__((noinline, cold));

/* What was called from where, up to the access; the first frame is its own. */
void report_callers(const char *access, const void *address, const struct call_stack *stack)
    __attribute__((noinline, cold));

#endif
