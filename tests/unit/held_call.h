/* SPDX-License-Identifier: MIT
 *
 * held_call.h: a thread that stays in a system call, with the locks that it holds there, for as
 * long as the test wants. A filter for that thread alone hands the call to a listener
 * (seccomp_unotify(2)). It is installed by number, so that no library takes it for a sandbox.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HELD_CALL_H
#define ALLOTROPE_TESTS_UNIT_HELD_CALL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From now on the calling thread stays in each call of this number. Returns the listener; -1: the
 * kernel has none. */
static inline int hold_calls(long number)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* Waits until the thread is in such a call. Returns what let_go() is to be given. */
static inline uint64_t wait_for_held_call(int listener)
{
    struct seccomp_notif held = {0};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &held) == 0 ? held.id : 0;
}

static inline bool let_go(int listener, uint64_t held)
{
    struct seccomp_notif_resp answer = {.id = held, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) == 0;
}

#endif
