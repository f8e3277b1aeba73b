/* SPDX-License-Identifier: MIT
 *
 * privileges.c: changes of a process's credentials and namespaces.
 *
 * A collector has threads of its own for moments. Such a thread keeps the credentials that it was
 * made with: libc's setuid tells libc's threads alone. And the kernel lets only a process of one
 * thread enter another namespace of users. So the collector is told before: it waits until its
 * threads are gone, and makes no others until the call has returned.
 *
 * As libc's own, these functions may be called from a signal handler and in a vfork child.
 */
#include <grp.h>
#include <sched.h>
#include <unistd.h>

#include "shim/symbols/interpose.h"
#include "shim/system_calls/without_collections.h"
#include "vm/syscall.h"

EXPORT int unshare(int flags)
{
    FIND_NEXT(unshare);
    struct hold hold;
    hold_collections(&hold);
    int result = next ? next(flags) : (int)libc_result(SYSCALL_1(SYS_unshare, flags));
    return allow_collections(&hold, result);
}

EXPORT int setns(int descriptor, int kind)
{
    FIND_NEXT(setns);
    struct hold hold;
    hold_collections(&hold);
    int result =
        next ? next(descriptor, kind) : (int)libc_result(SYSCALL_2(SYS_setns, descriptor, kind));
    return allow_collections(&hold, result);
}

/* libc's functions make the change in all threads. A static program has libc's own: they cannot be
 * found from here. None of these is a point of cancellation. (initgroups may be one, and is not
 * here: it asks name services, which may take long. A thread of the collector that keeps the old
 * groups can do nothing with them.) */
#ifdef PIC
EXPORT int setuid(uid_t user)
{
    NEXT_WITHOUT_COLLECTIONS(setuid, user);
}

EXPORT int seteuid(uid_t effective)
{
    NEXT_WITHOUT_COLLECTIONS(seteuid, effective);
}

EXPORT int setreuid(uid_t real, uid_t effective)
{
    NEXT_WITHOUT_COLLECTIONS(setreuid, real, effective);
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    NEXT_WITHOUT_COLLECTIONS(setresuid, real, effective, saved);
}

EXPORT int setgid(gid_t group)
{
    NEXT_WITHOUT_COLLECTIONS(setgid, group);
}

EXPORT int setegid(gid_t effective)
{
    NEXT_WITHOUT_COLLECTIONS(setegid, effective);
}

EXPORT int setregid(gid_t real, gid_t effective)
{
    NEXT_WITHOUT_COLLECTIONS(setregid, real, effective);
}

EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved)
{
    NEXT_WITHOUT_COLLECTIONS(setresgid, real, effective, saved);
}

EXPORT int setgroups(size_t count, const gid_t *groups)
{
    NEXT_WITHOUT_COLLECTIONS(setgroups, count, groups);
}
#endif
