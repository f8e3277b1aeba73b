/* SPDX-License-Identifier: MIT
 *
 * watch.c: see watch.h.
 *
 * The caller is told with a line, and the process stands still until the caller answers with a
 * byte. So /proc shows the process as it is at that very moment.
 *
 *   fork PARENT CHILD     a process was made; PARENT stands still
 *   exec PID              a process has become another program, which has not begun
 *   exit PID THREAD       a process ends; /proc/THREAD still has its memory
 *   forbidden             the kernel allows no ptrace; nothing follows
 *
 * THREAD is PID but for a process whose first thread has ended before the others. Then a line
 * comes for each of those, and the last one counts.
 *
 * Stopped threads: PTRACE_SEIZE leaves job control as it is; PTRACE_LISTEN leaves a thread
 * stopped that somebody has stopped. Without PTRACE_O_EXITKILL a daemon outlives us, as it does
 * unwatched.
 */
#include "analysis/launcher/watch.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A caller that takes longer is not waited for again, and sees no more. One that has died is
 * noticed at once; one that reads a browser's symbols on a busy machine takes seconds. */
enum { PATIENCE_MILLISECONDS = 120000 };

static const long OPTIONS = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                            PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;

/* Tells the caller and waits for its answer. A caller that is gone is not asked again. */
static void tell(struct watch *watch, const char *line)
{
    char answer;
    struct pollfd readable = {.fd = watch->caller, .events = POLLIN};
    if (watch->caller < 0)
        return;
    if (send(watch->caller, line, strlen(line), MSG_NOSIGNAL) < 0 ||
        poll(&readable, 1, PATIENCE_MILLISECONDS) != 1 || read(watch->caller, &answer, 1) != 1) {
        close(watch->caller);
        watch->caller = -1;
    }
}

bool watch_attach(struct watch *watch, pid_t child)
{
    bool attached = ptrace(PTRACE_SEIZE, child, NULL, OPTIONS) == 0;
    if (!attached)
        tell(watch, "forbidden\n");
    close(watch->gate);
    watch->gate = -1;
    return attached;
}

/* A line of /proc/THREAD/status as a number; `otherwise` when there is none. */
static int status_number(pid_t thread, const char *key, int otherwise)
{
    char path[64];
    char line[256];
    int number = otherwise;
    snprintf(path, sizeof path, "/proc/%d/status", thread);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, key, strlen(key)) == 0)
            number = atoi(line + strlen(key));
    if (status)
        fclose(status);
    return number;
}

static pid_t process_of(pid_t thread)
{
    return status_number(thread, "Tgid:", thread);
}

/* Whether the first thread has ended, and with it /proc/PROCESS shows no memory. */
static bool leader_has_ended(pid_t process)
{
    return status_number(process, "VmSize:", -1) < 0;
}

static void tell_birth(struct watch *watch, pid_t parent)
{
    unsigned long child = 0;
    char line[64];
    ptrace(PTRACE_GETEVENTMSG, parent, NULL, &child);
    pid_t process = process_of((pid_t)child);
    if (process != (pid_t)child)
        return; /* a thread */
    snprintf(line, sizeof line, "fork %d %d\n", process_of(parent), process);
    tell(watch, line);
}

static void tell_end(struct watch *watch, pid_t thread)
{
    char line[64];
    pid_t process = process_of(thread);
    if (thread != process && !leader_has_ended(process))
        return;
    snprintf(line, sizeof line, "exit %d %d\n", process, thread);
    tell(watch, line);
}

void watch_stopped(struct watch *watch, pid_t thread, int status)
{
    int signal = WSTOPSIG(status);
    int event = status >> 16;
    char line[64];
    if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) {
        ptrace(PTRACE_LISTEN, thread, NULL, NULL);
        return;
    }
    if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
        tell_birth(watch, thread);
    if (event == PTRACE_EVENT_EXEC) {
        snprintf(line, sizeof line, "exec %d\n", thread);
        tell(watch, line);
    }
    if (event == PTRACE_EVENT_EXIT)
        tell_end(watch, thread);
    ptrace(PTRACE_CONT, thread, NULL, event != 0 ? 0L : (long)signal);
}
