/* SPDX-License-Identifier: MIT
 *
 * unit.c: see unit.h.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "vm/message.h"
#include "vm/pages.h"

static _Noreturn void be_child(child_body *body, void *argument, int errors)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    /* cmocka's handlers would take a fault of the child for one of the test. */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGABRT, SIG_DFL);
    dup2(errors, 2);
    message_remember_stderr();
    body(argument);
    _exit(0);
}

static void read_all(int file, char *text, size_t room)
{
    size_t length = 0;
    char rest[512];
    for (;;) {
        bool full = length == room - 1;
        ssize_t count =
            full ? read(file, rest, sizeof rest) : read(file, text + length, room - 1 - length);
        if (count <= 0)
            break;
        length += full ? 0 : (size_t)count;
    }
    text[length] = '\0';
}

struct ending run_child(child_body *body, void *argument)
{
    struct ending ending = {.exit_status = -1};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        be_child(body, argument, ends[1]);
    close(ends[1]);
    read_all(ends[0], ending.errors, sizeof ending.errors);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        ending.exit_status = WEXITSTATUS(status);
    else
        ending.signal = WTERMSIG(status);
    return ending;
}

pid_t start_idle_child(void)
{
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    assert_true(child > 0);
    return child;
}

void end_idle_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

void assert_child_succeeds(child_body *body, void *argument)
{
    const struct ending ending = run_child(body, argument);
    assert_succeeded(&ending);
}

void assert_succeeded(const struct ending *ending)
{
    if (ending->exit_status == CHILD_CANNOT_TELL)
        skip();
    if (ending->exit_status != 0)
        fail_msg("child ended with status %d, signal %d: %s", ending->exit_status, ending->signal,
                 ending->errors);
}

void assert_aborts(child_body *body, void *argument, const char *text)
{
    static const char ours[] = "allotrope: ";
    struct ending ending = run_child(body, argument);
    const char *end = strchr(ending.errors, '\n');
    bool one_line = end && end[1] == '\0' && strncmp(ending.errors, ours, strlen(ours)) == 0;
    if (ending.signal != SIGABRT || !one_line || !strstr(ending.errors, text))
        fail_msg("expected an abort after one line with \"%s\", but status %d, signal %d: %s", text,
                 ending.exit_status, ending.signal, ending.errors);
}

bool sleeps_in_futex(pid_t thread)
{
    char name[64], text[16] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/syscall", thread);
    FILE *file = fopen(name, "r");
    bool is_read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    return is_read && atoi(text) == SYS_futex; /* "running" of one that is in no call */
}

void limit_address_space(size_t bytes)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    require(statm && fscanf(statm, "%lu", &pages) == 1);
    fclose(statm);
    struct rlimit limit = {pages * PAGE_BYTES + bytes, pages * PAGE_BYTES + bytes};
    require(setrlimit(RLIMIT_AS, &limit) == 0);
}

bool exhaust_mappings(void)
{
    const size_t most_pages = (size_t)1 << 18;
    char *pages = mmap(NULL, most_pages * PAGE_BYTES, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(pages != MAP_FAILED);
    for (size_t page = 1; page < most_pages; page += 2)
        if (mprotect(pages + page * PAGE_BYTES, PAGE_BYTES, PROT_READ) != 0)
            return true;
    return false;
}

bool is_readable(const void *address)
{
    static int ends[2] = {-1, -1};
    char byte;
    if (ends[0] < 0)
        assert_int_equal(pipe(ends), 0);
    return write(ends[1], address, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

bool is_zero(const void *start, size_t bytes)
{
    const char *byte = start;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != 0)
            return false;
    return true;
}
