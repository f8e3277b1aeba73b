/* SPDX-License-Identifier: MIT
 *
 * doorbells.c: see doorbells.h.
 *
 * A doorbell is a store that the recorder (trace/recorder) notices; docs/doorbells.md. This
 * observer stands nearest to the allocator, so that references of other observers do not count as
 * the allocator's.
 *
 * The functions that ring lie in a section of their own, which the recorder leaves out of the
 * trace: recorded references are those that the program and the allocator make without a recorder.
 */
#include "shim/observers/doorbells.h"

#include <string.h>

#include "trace/protocol/doorbell.h"

extern const char __start_doorbell_text[] __attribute__((visibility("hidden")));
extern const char __stop_doorbell_text[] __attribute__((visibility("hidden")));
#define SILENT __attribute__((section("doorbell_text"), noinline)) static

static struct route inner;

SILENT void *ringing_alloc(size_t size)
{
    doorbell_enter_allocator();
    void *block = inner.alloc(size);
    doorbell_malloc(block, size, observer_site());
    doorbell_leave();
    return block;
}

SILENT void *ringing_alloc_zeroed(size_t size)
{
    doorbell_enter_allocator();
    void *block = inner.alloc_zeroed(size);
    doorbell_malloc(block, size, observer_site());
    doorbell_leave();
    return block;
}

SILENT void *ringing_alloc_aligned(size_t alignment, size_t size)
{
    doorbell_enter_allocator();
    void *block = inner.alloc_aligned(alignment, size);
    doorbell_malloc(block, size, observer_site());
    doorbell_leave();
    return block;
}

SILENT void ringing_free(void *block)
{
    doorbell_enter_allocator();
    doorbell_free(block, observer_site());
    inner.free(block);
    doorbell_leave();
}

SILENT void *ringing_resize(void *block, size_t size)
{
    doorbell_enter_allocator();
    void *resized = inner.resize(block, size);
    doorbell_realloc((uintptr_t)block, resized, size, observer_site());
    doorbell_leave();
    return resized;
}

SILENT size_t ringing_usable_size(const void *block)
{
    doorbell_enter_allocator();
    size_t usable = inner.usable_size(block);
    doorbell_leave();
    return usable;
}

SILENT bool ringing_owns(const void *address)
{
    doorbell_enter_allocator();
    bool owns = inner.owns(address);
    doorbell_leave();
    return owns;
}

/* "0" is off. A process that nobody records may have inherited the variable. */
static struct route start(const struct configuration *configuration, struct route behind,
                          const char *value)
{
    (void)configuration;
    if (strcmp(value, "0") == 0 || !doorbell_register())
        return behind;
    doorbell_silence(__start_doorbell_text, __stop_doorbell_text);
    struct route ringing = inner = behind;
    ringing.alloc = ringing_alloc;
    ringing.alloc_zeroed = ringing_alloc_zeroed;
    ringing.alloc_aligned = ringing_alloc_aligned;
    ringing.free = ringing_free;
    ringing.resize = ringing_resize;
    ringing.usable_size = ringing_usable_size;
    ringing.owns = ringing_owns;
    return ringing;
}

const struct observer doorbells_observer = {.variable = "ALLOTROPE_DOORBELLS", .start = start};
