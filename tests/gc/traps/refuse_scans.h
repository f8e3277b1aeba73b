/* SPDX-License-Identifier: MIT
 *
 * refuse_scans.h: makes the kernel one of before Linux 6.7, which does not know PAGEMAP_SCAN.
 */
#ifndef ALLOTROPE_TESTS_GC_TRAPS_REFUSE_SCANS_H
#define ALLOTROPE_TESTS_GC_TRAPS_REFUSE_SCANS_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "tests/gc/traps/trap.h"
#include "vm/kernel/page_scan.h"
#include "vm/syscall.h"

/* The system calls are made here, lest they be taken for the beginning of a sandbox. */
static void refuse_scans(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)PAGEMAP_SCAN_REQUEST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    require(SYSCALL_5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(SYSCALL_5(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

#endif
