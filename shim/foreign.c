/* SPDX-License-Identifier: MIT
 *
 * foreign.c: see foreign.h.
 */
#include "shim/foreign.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/calls.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* madvise is among the few calls that a seccomp filter is sure to allow, and says ENOMEM for what
 * is not mapped. */
static bool page_is_mapped(const char *page)
{
    return !syscall_failed(SYSCALL_3(SYS_madvise, page, PAGE_BYTES, MADV_WILLNEED));
}

static size_t readable_bytes(const char *start, size_t most)
{
    const char *page = (const char *)round_down((uintptr_t)start, PAGE_BYTES);
    while (page < start + most && page_is_mapped(page))
        page += PAGE_BYTES;
    size_t readable = page > start ? (size_t)(page - start) : 0;
    return readable < most ? readable : most;
}

void *foreign_realloc(void *block, size_t size)
{
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
