/* SPDX-License-Identifier: MIT
 *
 * record.c: runs a program and sees its processes come and go; see record_state.h.
 *
 * One thread looks over the pool's buffers again and again, a thousand times a second while they
 * fill. A process that has ended, however it ended, leaves the rest in buffers that are neither
 * full nor free; so does a program that replaced itself by exec.
 */
#include "trace/events/record.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/base/file_limit.h"
#include "trace/base/write_all.h"
#include "trace/events/record_state.h"

enum { SHORT_SLEEP_MS = 1, LONG_SLEEP_MS = 16 };

static pid_t child_to_signal;

/* Processes. */

static struct recording *find(struct events_recorder *recorder, pid_t pid)
{
    for (size_t i = 0; i < EVENT_PROCESSES; i++)
        if (recorder->recordings[i].on && recorder->recordings[i].pid == pid)
            return &recorder->recordings[i];
    return NULL;
}

static uint32_t place_of(const struct events_recorder *recorder, const struct recording *recording)
{
    return (uint32_t)(recording - recorder->recordings);
}

static void begin(struct events_recorder *recorder, uint32_t place, pid_t pid)
{
    struct recording *before = find(recorder, pid);
    if (!before) {
        recording_begin(recorder, place, pid);
        return;
    }
    recording_take_over(recorder, place, before);
    pool_drop(recorder, place_of(recorder, before));
}

static void finish(struct events_recorder *recorder, struct recording *recording)
{
    pool_save(recorder, recording, true);
    recording_end(recorder, recording);
    pool_drop(recorder, place_of(recorder, recording));
}

static void find_new(struct events_recorder *recorder)
{
    for (uint32_t i = 0; i < EVENT_PROCESSES; i++) {
        pid_t pid = (pid_t)atomic_load(&recorder->pool->process[i].pid);
        if (pid && atomic_load(&recorder->pool->process[i].ready) && !recorder->recordings[i].on)
            begin(recorder, i, pid);
    }
}

static void reap(struct events_recorder *recorder)
{
    int status;
    if (!recorder->child_ended &&
        wait4(recorder->child, &status, WNOHANG, &recorder->usage) == recorder->child) {
        recorder->child_ended = true;
        recorder->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* Waits until a process ends, or so long. Finishes those that have. Returns how many are left. */
static unsigned wait_and_finish(struct events_recorder *recorder, int milliseconds)
{
    struct pollfd polled[EVENT_PROCESSES + 1];
    struct recording *of[EVENT_PROCESSES];
    nfds_t count = 0;
    unsigned left = 0;
    for (size_t i = 0; i < EVENT_PROCESSES; i++)
        if (recorder->recordings[i].on) {
            of[count] = &recorder->recordings[i];
            polled[count] = (struct pollfd){of[count]->pidfd, POLLIN, 0};
            if (of[count]->pidfd < 0)
                milliseconds = 0;
            count++;
        }
    poll(polled, count, milliseconds);
    reap(recorder);
    for (nfds_t i = 0; i < count; i++) {
        bool is_child = of[i]->pid == recorder->child;
        bool ended = is_child ? recorder->child_ended : of[i]->pidfd < 0 || polled[i].revents;
        if (ended) {
            find_new(recorder); /* the same process may have joined under another program */
            if (of[i]->on)
                finish(recorder, of[i]);
        } else {
            left++;
        }
    }
    return left;
}

static void record(struct events_recorder *recorder)
{
    int milliseconds = SHORT_SLEEP_MS;
    unsigned left = 1;
    while (left > 0 || !recorder->child_ended) {
        find_new(recorder);
        if (pool_save(recorder, NULL, false) > 0)
            milliseconds = SHORT_SLEEP_MS;
        else if (milliseconds < LONG_SLEEP_MS)
            milliseconds *= 2;
        pool_collect_dead_threads(recorder);
        left = wait_and_finish(recorder, milliseconds);
        if (left == 0 && recorder->child_ended) {
            find_new(recorder);
            left = wait_and_finish(recorder, 0);
        }
    }
}

/* Starting. */

static bool make_pool(struct events_recorder *recorder)
{
    recorder->pool_fd = memfd_create("allotrope-events", MFD_CLOEXEC);
    if (recorder->pool_fd < 0 || ftruncate(recorder->pool_fd, (off_t)EVENT_POOL_BYTES) < 0)
        return false;
    void *pool =
        mmap(NULL, EVENT_POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, recorder->pool_fd, 0);
    if (pool == MAP_FAILED)
        return false;
    recorder->pool = pool;
    recorder->pool->magic = EVENT_POOL_MAGIC;
    recorder->pool->version = EVENT_POOL_VERSION;
    recorder->pool->frames = recorder->options->frames;
    recorder->pool->writer = (uint32_t)getpid();
    return true;
}

static _Noreturn void become_command(struct events_recorder *recorder, pid_t parent)
{
    const struct events_record_options *options = recorder->options;
    char path[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* who records it may be killed */
    if (getppid() != parent)
        _exit(127);
    if (!strstr(options->output, "%p"))
        atomic_store(&recorder->pool->only, (uint32_t)getpid());
    snprintf(path, sizeof path, "/proc/%d/fd/%d", parent, recorder->pool_fd);
    for (size_t i = 0; i < options->environment_count; i++)
        putenv(options->environment[i]);
    setenv("ALLOTROPE_EVENTS", path, 1);
    execvp(options->command[0], options->command);
    int error = errno;
    report("%s: cannot be run: %s", options->command[0], error);
    _exit(error == ENOENT ? 127 : 126);
}

static void pass_on(int number)
{
    kill(child_to_signal, number);
}

int events_record(const struct events_record_options *options)
{
    static struct events_recorder recorder;
    pid_t self = getpid();
    recorder.options = options;
    const char *limit = file_limit_refuses(EVENT_POOL_BYTES);
    if (limit) {
        fprintf(stderr, "allotrope: the recorder cannot be started: %s\n", limit);
        return 1;
    }
    if (!make_pool(&recorder)) {
        report("%s: cannot be shared: %s", "memory for events", errno);
        return 1;
    }
    write_without_signals();
    recorder.child = fork();
    if (recorder.child == 0)
        become_command(&recorder, self);
    if (recorder.child < 0) {
        report("%s: cannot be started: %s", options->command[0], errno);
        return 1;
    }
    child_to_signal = recorder.child;
    signal(SIGINT, SIG_IGN); /* the terminal sends it to the command too */
    signal(SIGQUIT, SIG_IGN);
    signal(SIGTERM, pass_on);
    signal(SIGHUP, pass_on);
    record(&recorder);
    if (recorder.files == 0 && !recorder.failed) {
        fprintf(stderr,
                "allotrope: nothing was recorded: %s did not load the preloaded library (static or "
                "privileged?)\n",
                options->command[0]);
        return recorder.status ? recorder.status : 1;
    }
    uint32_t declined = atomic_load(&recorder.pool->declined);
    if (declined > 0 && !options->quiet)
        fprintf(stderr,
                "allotrope: %u further process%s not recorded; a %%p in the name of the "
                "output gives each a file\n",
                declined, declined == 1 ? " was" : "es were");
    return recorder.failed ? 1 : recorder.status;
}
