/* SPDX-License-Identifier: MIT
 *
 * write.c: see write.h.
 *
 * The signals are raised in the thread that writes. So they are blocked there, and one that the
 * write has raised is taken from the thread's pending ones. A signal that was pending before stays
 * pending: there is never more than one of a kind, so none has been added then.
 */
#include "vm/write.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "vm/pages.h"
#include "vm/signals.h"
#include "vm/syscall.h"

static const uint64_t RAISED_BY_WRITE = UINT64_C(1) << (SIGPIPE - 1) | UINT64_C(1) << (SIGXFSZ - 1);

/* Blocks the signals that a write raises. Returns the mask from before. *pending: the signals that
 * were pending then; none if neither of the two was blocked before. */
static uint64_t block_signals(uint64_t *pending)
{
    uint64_t before = signals_block(RAISED_BY_WRITE);
    *pending = 0;
    if (before & RAISED_BY_WRITE) /* else they are delivered, not pending */
        SYSCALL_2(SYS_rt_sigpending, pending, sizeof *pending);
    return before;
}

static void unblock_signals(uint64_t before, uint64_t pending, long error)
{
    static const struct timespec no_time;
    uint64_t raised = RAISED_BY_WRITE & ~pending;
    if (error == -EPIPE || error == -EFBIG)
        SYSCALL_4(SYS_rt_sigtimedwait, &raised, NULL, &no_time, sizeof raised);
    signals_restore(before);
}

/* False: there is no room in time. */
static bool wait_for_room(int descriptor, int wait_ms)
{
    struct pollfd room = {.fd = descriptor, .events = POLLOUT};
    long found = SYSCALL_3(SYS_poll, &room, 1, wait_ms);
    return found > 0 || found == -EINTR;
}

/* Returns 0, or the error of the call that failed. */
static long write_all_of(int descriptor, const char *text, size_t bytes, int wait_ms)
{
    while (bytes > 0) {
        long count = SYSCALL_3(SYS_write, descriptor, text, bytes);
        if (count > 0) {
            text += count;
            bytes -= (size_t)count;
        } else if (count == 0) {
            return -EIO;
        } else if (count == -EAGAIN) {
            if (pages_are_in_sandbox() || !wait_for_room(descriptor, wait_ms))
                return count;
        } else if (count != -EINTR) {
            return count;
        }
    }
    return 0;
}

bool write_whole(int descriptor, const char *text, size_t bytes, int wait_ms)
{
    if (pages_are_in_sandbox())
        return write_all_of(descriptor, text, bytes, wait_ms) == 0;
    uint64_t pending, before = block_signals(&pending);
    long error = write_all_of(descriptor, text, bytes, wait_ms);
    unblock_signals(before, pending, error);
    return error == 0;
}
