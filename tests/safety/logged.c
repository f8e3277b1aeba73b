/* SPDX-License-Identifier: MIT
 *
 * logged.c: a server that does away with its descriptors and then frees a block twice.
 *
 *     logged NAME [FILE]     exit status 0: it went as it should
 *
 * test_log.py says what each is to leave in the log.
 */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/contract/contract.h"

static const char *file;

static void free_twice(void)
{
    char *block = opaque(malloc(40));
    require(block != NULL);
    free(block);
    free(opaque(block));
}

static void send_away(int descriptor)
{
    int nowhere = open("/dev/null", O_RDWR);
    require(nowhere >= 0 && dup2(nowhere, descriptor) == descriptor);
    close(nowhere);
}

static void redirected(void)
{
    send_away(2);
    free_twice();
}

static void await_child(pid_t child)
{
    int status;
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

static void forked(void)
{
    send_away(2);
    pid_t child = fork();
    if (child == 0) {
        free_twice();
        _exit(0);
    }
    await_child(child);
    free_twice();
}

/* It shares its parent's memory. */
static void vforked(void)
{
    send_away(2);
    pid_t child = vfork();
    if (child == 0) {
        free_twice();
        _exit(0);
    }
    await_child(child);
    free_twice();
}

/* Says what the lowest free descriptor is, by taking it. */
static int lowest_free(void)
{
    int lowest = open("/dev/null", O_RDONLY);
    close(lowest);
    return lowest;
}

static void closed(void)
{
    closefrom(0);
    free_twice();
    if (lowest_free() != 0)
        _exit(1);
    for (int descriptor = 0; descriptor < 3; descriptor++)
        if (open("/dev/null", O_RDWR) != descriptor)
            _exit(2);
    free_twice();
    if (lowest_free() != 3)
        _exit(3);
}

/* Each descriptor is the program's own data. */
static void reuse_all(void)
{
    int data = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
    require(data >= 0 && write(data, "data", 4) == 4);
    for (int descriptor = 2; descriptor < sysconf(_SC_OPEN_MAX); descriptor++)
        dup2(data, descriptor);
}

static void crowded(void)
{
    reuse_all();
    free_twice();
}

static void reused(void)
{
    reuse_all();
    close(3);
    free_twice();
    if (lowest_free() != 3)
        _exit(1);
}

static void jailed(void)
{
    send_away(2);
    require(chroot(file) == 0 && chdir("/") == 0 && setuid(65534) == 0);
    free_twice();
}

static void jailed_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        jailed();
        _exit(0);
    }
    await_child(child);
}

static void executed(void)
{
    send_away(2);
    free_twice();
    execl("/proc/self/exe", "logged", "redirected", (char *)NULL);
    require(!"executed");
}

#define ENDS_IN(number)                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Opening a file ends the process. */
static void sandboxed(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ENDS_IN(SYS_openat),
        ENDS_IN(SYS_getpid),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    send_away(2);
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    free_twice();
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"redirected", redirected}, {"forked", forked},
    {"vforked", vforked},       {"closed", closed},
    {"crowded", crowded},       {"reused", reused},
    {"jailed", jailed},         {"jailed-child", jailed_child},
    {"executed", executed},     {"sandboxed", sandboxed},
    {"plain", free_twice},
};

int main(int count, char **arguments)
{
    file = count > 2 ? arguments[2] : NULL;
    for (size_t i = 0; count > 1 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, arguments[1]) == 0) {
            programs[i].run();
            return 0;
        }
    return 98;
}
