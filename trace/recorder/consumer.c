/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * consumer.c: see consumer.h.
 */
#include "trace/recorder/consumer.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_xarray.h"

#include "trace/recorder/coregrind.h"
#include "trace/recorder/options.h"
#include "trace/recorder/ring.h"

/* The consumer's line ends with the command that this image of the process was started by: after an
 * exec that is another one than `record` was given. */
static void become_consumer(Int ring_fd, Int consumer_fd, Int pid)
{
    HChar consume[64], process[32], level[32];
    VG_(sprintf)(consume, "--consume=%d,%d", ring_fd, consumer_fd);
    VG_(sprintf)(process, "--pid=%d", pid);
    VG_(sprintf)(level, "--level=%d", options.follow_level);
    const HChar *fixed[] = {options.follow,
                            consume,
                            process,
                            "--output",
                            options.follow_output,
                            "--description",
                            options.follow_description,
                            level,
                            "--",
                            VG_(args_the_exename)};
    XArray *arguments = VG_(newXA)(VG_(malloc), "allotrope.consumer", VG_(free), sizeof *fixed);
    for (UInt i = 0; i < sizeof fixed / sizeof *fixed; i++)
        VG_(addToXA)(arguments, &fixed[i]);
    for (Int i = 0; i < VG_(sizeXA)(VG_(args_for_client)); i++)
        VG_(addToXA)(arguments, VG_(indexXA)(VG_(args_for_client), i));
    const HChar *end = NULL;
    VG_(addToXA)(arguments, &end);
    VG_(execv)(options.follow, VG_(indexXA)(arguments, 0));
    VG_(umsg)("error: the consumer %s cannot be run\n", options.follow);
    VG_(exit)(1);
}

/* A consumer that is no parent of ours: the kernel kills this process when the other end of the
 * socket is closed, also while the program waits in a system call. ring_finish() ends that. */
static void die_with(Int socket, Int pid)
{
    enum { O_ASYNC_FLAG = 020000 }; /* Valgrind's headers do not have it */
    VG_(do_syscall)(__NR_fcntl, socket, VKI_F_SETOWN, pid, 0, 0, 0, 0, 0);
    VG_(do_syscall)(__NR_fcntl, socket, VKI_F_SETSIG, VKI_SIGKILL, 0, 0, 0, 0, 0);
    VG_(do_syscall)(__NR_fcntl, socket, VKI_F_SETFL, O_ASYNC_FLAG, 0, 0, 0, 0, 0);
}

/* Like fork(), but the child's end sends no signal, which the program would see. Valgrind's own
 * lets the child wait on a pipe of which it holds both ends: it would wait for ever for a parent
 * that was killed before it wrote. */
static Int fork_now(void)
{
    SysRes child = VG_(do_syscall)(__NR_clone, 0, 0, 0, 0, 0, 0, 0, 0);
    return sr_isError(child) ? -1 : (Int)sr_Res(child);
}

void consumer_start(Addr where)
{
    enum { WAIT_FOR_CLONE = 0x80000000 }; /* __WCLONE: Valgrind's headers do not have it */
    Int ends[2], pid = VG_(getpid)(), status;
    SysRes file = VG_(do_syscall)(__NR_memfd_create, (UWord) "allotrope-ring", 0, 0, 0, 0, 0, 0, 0);
    if (sr_isError(file) ||
        sr_isError(VG_(do_syscall)(__NR_ftruncate, sr_Res(file), REFERENCE_RING_BYTES, 0, 0, 0, 0,
                                   0, 0)) ||
        sr_isError(VG_(do_syscall)(__NR_socketpair, VKI_AF_UNIX, VKI_SOCK_STREAM, 0, (UWord)ends, 0,
                                   0, 0, 0))) {
        VG_(umsg)("error: no ring for process %d\n", pid);
        VG_(exit)(1);
    }
    Int ring_fd = sr_Res(file);
    SysRes mapped = where ? VG_(am_do_mmap_NO_NOTIFY)(where, REFERENCE_RING_BYTES,
                                                      VKI_PROT_READ | VKI_PROT_WRITE,
                                                      VKI_MAP_FIXED | VKI_MAP_SHARED, ring_fd, 0)
                          : VG_(am_shared_mmap_file_float_valgrind)(
                                REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, ring_fd, 0);
    tl_assert(!sr_isError(mapped));
    struct reference_ring *ring = (struct reference_ring *)sr_Res(mapped);
    ring->magic = REFERENCE_RING_MAGIC;
    ring->version = REFERENCE_RING_VERSION;
    Int child = fork_now();
    if (child == 0) {
        if (fork_now() == 0) {
            VG_(close)(ends[0]);
            become_consumer(ring_fd, ends[1], pid);
        }
        VG_(do_syscall)(__NR_exit_group, 0, 0, 0, 0, 0, 0, 0, 0);
    }
    VG_(waitpid)(child, &status, WAIT_FOR_CLONE);
    VG_(close)(ring_fd);
    VG_(close)(ends[1]);
    die_with(ring_watch_socket(ends[0]), pid);
    ring_begin(ring, pid);
}

void consumer_map_ring(void)
{
    if (options.follow) {
        consumer_start(0);
        return;
    }
    if (options.ring_fd < 0) {
        SysRes memory = VG_(am_mmap_anon_float_valgrind)(REFERENCE_RING_BYTES);
        tl_assert(!sr_isError(memory));
        ring_begin_nothing((void *)sr_Res(memory));
        return;
    }
    SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)(
        REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, options.ring_fd, 0);
    if (sr_isError(mapped)) {
        VG_(umsg)
        ("error: --ring-fd=%d cannot be mapped (error %lu)\n", options.ring_fd, sr_Err(mapped));
        VG_(exit)(1);
    }
    struct reference_ring *ring = (struct reference_ring *)sr_Res(mapped);
    VG_(close)(options.ring_fd);
    if (ring->magic != REFERENCE_RING_MAGIC || ring->version != REFERENCE_RING_VERSION) {
        VG_(umsg)
        ("error: --ring-fd=%d is no ring of version %d\n", options.ring_fd, REFERENCE_RING_VERSION);
        VG_(exit)(1);
    }
    ring_begin(ring, VG_(getpid)());
}
