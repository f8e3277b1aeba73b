/* SPDX-License-Identifier: MIT
 *
 * mappings.c: functions by which memory goes, or other memory comes in its place. A collector that
 * lends memory to a child must know (gc/world/excepted.h). Before the program has excepted any,
 * they do nothing but call on.
 *
 * They call the next function of their name once it is known: from our constructor on. Before, and
 * in static programs, they make the system call themselves: a search may map memory.
 */
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "vm/syscall.h"

static void *call_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset)
{
    NEXT_IF_KNOWN(mmap);
    if (next)
        return next(start, bytes, protection, flags, file, offset);
    return (void *)libc_result(SYSCALL_6(SYS_mmap, start, bytes, protection, flags, file, offset));
}

/* Where the kernel is to choose a place it is known afterwards. */
EXPORT void *mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (flags & MAP_FIXED)
        tell_not_excepted(start, bytes);
    void *mapping = call_mmap(start, bytes, protection, flags, file, offset);
    if (mapping != MAP_FAILED)
        tell_not_excepted(mapping, bytes);
    return mapping;
}
EXPORT void *mmap64(void *start, size_t bytes, int protection, int flags, int file, off_t offset)
    __attribute__((alias("mmap")));

EXPORT int munmap(void *start, size_t bytes)
{
    NEXT_IF_KNOWN(munmap);
    tell_not_excepted(start, bytes);
    return next ? next(start, bytes) : (int)libc_result(SYSCALL_2(SYS_munmap, start, bytes));
}

static void *call_mremap(void *start, size_t bytes, size_t new_bytes, int flags, void *place)
{
    NEXT_IF_KNOWN(mremap);
    if (next)
        return next(start, bytes, new_bytes, flags, place);
    return (void *)libc_result(SYSCALL_5(SYS_mremap, start, bytes, new_bytes, flags, place));
}

/* There is a fifth argument where a place may be given. What was excepted is so where it moves. */
EXPORT void *mremap(void *start, size_t bytes, size_t new_bytes, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    bool has_place = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP);
    void *place = has_place ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    tell_not_excepted(start, bytes);
    if (has_place)
        tell_not_excepted(place, new_bytes);
    void *mapping = call_mremap(start, bytes, new_bytes, flags, place);
    if (mapping != MAP_FAILED) {
        tell_not_excepted(mapping, new_bytes);
        tell_moved(mapping, new_bytes);
    }
    return mapping;
}

/* Only the kernel knows how large the segment is. So no memory at all counts as excepted then. */
EXPORT void *shmat(int identifier, const void *place, int flags)
{
    NEXT_IF_KNOWN(shmat);
    if (flags & SHM_REMAP)
        tell_not_excepted(NULL, SIZE_MAX);
    return next ? next(identifier, place, flags)
                : (void *)libc_result(SYSCALL_3(SYS_shmat, identifier, place, flags));
}

EXPORT int shmdt(const void *start)
{
    NEXT_IF_KNOWN(shmdt);
    tell_not_excepted(NULL, SIZE_MAX);
    return next ? next(start) : (int)libc_result(SYSCALL_1(SYS_shmdt, start));
}
