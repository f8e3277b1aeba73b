/* SPDX-License-Identifier: MIT
 *
 * kept.c: see kept.h.
 */
#include "vm/kernel/kept.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "vm/syscall.h"

/* Where no program puts its own descriptors by accident, if the limit allows. */
enum { HIGH_DESCRIPTOR = 1000, LEAST_DESCRIPTOR = 64 };

static int move_high(int descriptor)
{
    for (int least = HIGH_DESCRIPTOR; least >= LEAST_DESCRIPTOR; least /= 2) {
        long high = SYSCALL_3(SYS_fcntl, descriptor, F_DUPFD_CLOEXEC, least);
        if (!syscall_failed(high)) {
            SYSCALL_1(SYS_close, descriptor);
            return (int)high;
        }
    }
    return descriptor;
}

bool kept_take(struct kept *kept, long opened)
{
    struct stat status;
    if (syscall_failed(opened))
        return false;
    kept->descriptor = move_high((int)opened);
    if (syscall_failed(SYSCALL_2(SYS_fstat, kept->descriptor, &status))) {
        SYSCALL_1(SYS_close, kept->descriptor);
        kept->descriptor = -1;
        return false;
    }
    kept->device = status.st_dev;
    kept->inode = status.st_ino;
    return true;
}

bool kept_is_open(const struct kept *kept)
{
    struct stat status;
    return kept->descriptor >= 0 &&
           !syscall_failed(SYSCALL_2(SYS_fstat, kept->descriptor, &status)) &&
           status.st_dev == kept->device && status.st_ino == kept->inode;
}

void kept_drop(struct kept *kept)
{
    if (kept_is_open(kept))
        SYSCALL_1(SYS_close, kept->descriptor);
    kept->descriptor = -1;
}
