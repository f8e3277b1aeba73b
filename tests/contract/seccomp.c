/* SPDX-License-Identifier: MIT
 *
 * seccomp.c: a sandbox that kills on every system call it does not expect.
 *
 * Once the program runs, an allocator may use mmap, munmap, mremap, madvise and futex, of what
 * glibc's own uses (which also needs brk and mprotect, and opens files). Random numbers come from
 * AT_RANDOM, not from getrandom. No advice that changes how the process is accounted: huge pages
 * swell it and MADV_FREE looks like a leak.
 * Seen: mimalloc 249; jemalloc 1127, mimalloc 776.
 *
 * With an argument the sandbox is for a thread that is started in it and for an end by exit. It
 * kills for the time, the thread's number, and what has become of another process. With `reported`
 * a report may be written at the end; with `silent` it also kills where a file is opened or the
 * process's number is asked for.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/contract/contract.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)
/* Allows what was loaded to be this. */
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), ANSWER(SECCOMP_RET_ALLOW)
#define KILL(number) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), ANSWER(SECCOMP_RET_KILL_PROCESS)

static void install(struct sock_filter *filter, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, filter};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
            0);
}

static void enter_sandbox(void)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        ALLOW(SYS_mmap),
        ALLOW(SYS_munmap),
        ALLOW(SYS_mremap),
        ALLOW(SYS_futex),
        ALLOW(SYS_write),
        ALLOW(SYS_exit),
        ALLOW(SYS_exit_group),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(args[2]),
        ALLOW(MADV_DONTNEED),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
    };
    install(filter, sizeof filter / sizeof *filter);
}

static void enter_sandbox_until_exit(bool is_silent)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        KILL(SYS_clock_gettime),
        KILL(SYS_gettid),
        KILL(SYS_pidfd_open),
        BPF_STMT(BPF_JMP | BPF_JA, is_silent ? 0 : 4),
        KILL(SYS_getpid),
        KILL(SYS_openat),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    install(filter, sizeof filter / sizeof *filter);
}

static pthread_barrier_t barrier;

static void use_heap(void)
{
    for (int i = 0; i < 20; i++)
        exercise();
    char *growing = NULL;
    for (size_t size = 1; size < 4000000; size += size / 3 + 1) {
        growing = realloc(growing, size);
        require(growing != NULL);
        growing[size - 1] = 'x';
    }
    free(growing);
    enum { BLOCKS = 120000 };
    void **blocks = malloc(BLOCKS * sizeof *blocks);
    require(blocks != NULL);
    for (int i = 0; i < BLOCKS; i++)
        require((blocks[i] = malloc(1 + (size_t)i % 700)) != NULL);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    free(blocks);
    malloc_trim(0);
}

static void *second_thread(void *unused)
{
    exercise();
    pthread_barrier_wait(&barrier); /* started */
    pthread_barrier_wait(&barrier); /* in the sandbox */
    use_heap();
    pthread_barrier_wait(&barrier); /* done; its end would make calls of libc's own */
    pthread_barrier_wait(&barrier);
    return unused;
}

static void *third_thread(void *unused)
{
    use_heap();
    return unused;
}

static int exit_in_sandbox(bool is_silent)
{
    pthread_t thread;
    exercise();
    enter_sandbox_until_exit(is_silent);
    require(pthread_create(&thread, NULL, third_thread, NULL) == 0);
    use_heap();
    require(pthread_join(thread, NULL) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return exit_in_sandbox(strcmp(argv[1], "silent") == 0);
    pthread_t thread;
    require(pthread_barrier_init(&barrier, NULL, 2) == 0);
    require(pthread_create(&thread, NULL, second_thread, NULL) == 0);
    pthread_barrier_wait(&barrier);
    exercise();
    enter_sandbox();
    pthread_barrier_wait(&barrier);
    use_heap();
    pthread_barrier_wait(&barrier);
    _exit(0);
}
