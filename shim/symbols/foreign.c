/* SPDX-License-Identifier: MIT
 *
 * foreign.c: see foreign.h.
 */
#include "shim/symbols/foreign.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "shim/route/calls.h"
#include "shim/symbols/second_allocator.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* To wait until a word changes, with no time to wait, is to read it once: EFAULT when it cannot be
 * read, whether unmapped or without access. And futex is among the few calls that a seccomp
 * filter is sure to allow. */
static bool is_readable(const char *page)
{
    static const struct timespec no_time;
    return SYSCALL_4(SYS_futex, page, FUTEX_WAIT_PRIVATE, 0, &no_time) != -EFAULT;
}

static size_t readable_bytes(const char *start, size_t most)
{
    const char *page = (const char *)round_down((uintptr_t)start, PAGE_BYTES);
    while (page < start + most && is_readable(page))
        page += PAGE_BYTES;
    size_t readable = page > start ? (size_t)(page - start) : 0;
    return readable < most ? readable : most;
}

void *foreign_realloc(void *block, size_t size)
{
    void *resized;
    if (second_allocator_realloc(block, size, &resized))
        return resized;
    report_pointer_fault("realloc", block, "not a block of this heap; copied into it");
    if (size == 0)
        return NULL;
    void *copy = size <= (size_t)PTRDIFF_MAX ? call_alloc(size) : NULL;
    if (!copy) {
        errno = ENOMEM;
        return NULL;
    }
    return memcpy(copy, block, readable_bytes(block, size));
}
