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
#include "shim/system_calls/next_call.h"
#include "shim/route/route.h"
#include "vm/syscall.h"

static const struct allocator *begin_change(void)
{
    const struct allocator *allocator = route_resolve()->allocator;
    if (allocator->before_exec)
        allocator->before_exec();
    return allocator;
}

static int end_change(const struct allocator *allocator, int result)
{
    if (allocator->after_exec)
        allocator->after_exec();
    return result;
}

/* A static program has libc's set...id, which make the change in all threads. */
#ifdef PIC
/* The body of such a function. None of them is a point of cancellation. (initgroups may be: it asks
 * name services, which may take long. What it changes is less than a helper could use.) */
#define CHANGE(name, ...)                                   \
    do {                                                    \
        FIND_NEXT(name);                                    \
        const struct allocator *allocator = begin_change(); \
        return end_change(allocator, next(__VA_ARGS__));    \
    } while (0)

EXPORT int setuid(uid_t user)
{
    CHANGE(setuid, user);
}

EXPORT int seteuid(uid_t effective)
{
    CHANGE(seteuid, effective);
}

EXPORT int setreuid(uid_t real, uid_t effective)
{
    CHANGE(setreuid, real, effective);
}

EXPORT int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    CHANGE(setresuid, real, effective, saved);
}

EXPORT int setgid(gid_t group)
{
    CHANGE(setgid, group);
}

EXPORT int setegid(gid_t effective)
{
    CHANGE(setegid, effective);
}

EXPORT int setregid(gid_t real, gid_t effective)
{
    CHANGE(setregid, real, effective);
}

EXPORT int setresgid(gid_t real, gid_t effective, gid_t saved)
{
    CHANGE(setresgid, real, effective, saved);
}

EXPORT int setgroups(size_t count, const gid_t *groups)
{
    CHANGE(setgroups, count, groups);
}

EXPORT int unshare(int flags)
{
    CHANGE(unshare, flags);
}

EXPORT int setns(int descriptor, int kind)
{
    CHANGE(setns, descriptor, kind);
}
#else
EXPORT int unshare(int flags)
{
    const struct allocator *allocator = begin_change();
    return end_change(allocator, (int)libc_result(SYSCALL_1(SYS_unshare, flags)));
}

EXPORT int setns(int descriptor, int kind)
{
    const struct allocator *allocator = begin_change();
    return end_change(allocator, (int)libc_result(SYSCALL_2(SYS_setns, descriptor, kind)));
}
#endif
