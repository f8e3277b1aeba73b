/* SPDX-License-Identifier: MIT
 *
 * mappings.c: functions by which memory goes, or other memory comes in its place. A collector that
 * lends memory to a child must know (gc/world/excepted.h). Before the program has excepted any,
 * they do nothing but call on.
 *
 * They call the next function of their name, libc's or that of a library between, once it is known:
 * from our constructor on. Before, and in static programs, they make the system call themselves.
 */
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/kernel.h"
#include "shim/system_calls/next_call.h"
#include "vm/syscall.h"

static struct {
    __typeof__(mmap) *mmap;
    __typeof__(munmap) *munmap;
    __typeof__(mremap) *mremap;
    __typeof__(shmat) *shmat;
    __typeof__(shmdt) *shmdt;
} next;

static __attribute__((constructor)) void find_next(void)
{
    static void *_Atomic kept[5];
    next.mmap = next_of(&kept[0], "mmap");
    next.munmap = next_of(&kept[1], "munmap");
    next.mremap = next_of(&kept[2], "mremap");
    next.shmat = next_of(&kept[3], "shmat");
    next.shmdt = next_of(&kept[4], "shmdt");
}

static void *call_mmap(void *start, size_t bytes, int protection, int flags, int file, off_t offset)
{
    if (next.mmap)
        return next.mmap(start, bytes, protection, flags, file, offset);
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
    tell_not_excepted(start, bytes);
    return next.munmap ? next.munmap(start, bytes)
                       : (int)libc_result(SYSCALL_2(SYS_munmap, start, bytes));
}

static void *call_mremap(void *start, size_t bytes, size_t new_bytes, int flags, void *place)
{
    if (next.mremap)
        return next.mremap(start, bytes, new_bytes, flags, place);
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

/* How large the memory is only the kernel knows. */
EXPORT void *shmat(int identifier, const void *place, int flags)
{
    if (flags & SHM_REMAP)
        tell_not_excepted(NULL, SIZE_MAX);
    return next.shmat ? next.shmat(identifier, place, flags)
                      : (void *)libc_result(SYSCALL_3(SYS_shmat, identifier, place, flags));
}

EXPORT int shmdt(const void *start)
{
    tell_not_excepted(NULL, SIZE_MAX);
    return next.shmdt ? next.shmdt(start) : (int)libc_result(SYSCALL_1(SYS_shmdt, start));
}
