/* SPDX-License-Identifier: MIT
 *
 * stream.c: the consumer's end of the ring, and the recorder's parent. See
 * protocol/reference_ring.h for the ring.
 */
#include "trace/references/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace/protocol/reference_ring.h"

struct trace_stream {
    struct reference_ring *ring;
    int socket;
    pid_t recorder;
    bool reaped;
    int status;
    bool holds_slot; /* handed out, to be released at the next call */
    bool took_rest;
};

/* The recorder's command line; the caller frees the array, not its strings. Without ring_option
 * the options say where the recorder finds its consumer. */
static char **recorder_arguments(char *tool, char *ring_option, char *socket_option,
                                 char *const *options, char *const *command)
{
    size_t count = 8;
    for (char *const *p = options; p && *p; p++)
        count++;
    for (char *const *p = command; *p; p++)
        count++;
    char **arguments = calloc(count, sizeof *arguments);
    if (!arguments)
        return NULL;
    size_t i = 0;
    arguments[i++] = tool;
    arguments[i++] = (char *)"--tool=allotrope";
    arguments[i++] = (char *)"-q";
    if (ring_option) {
        arguments[i++] = ring_option;
        arguments[i++] = socket_option;
    }
    for (char *const *p = options; p && *p; p++)
        arguments[i++] = *p;
    for (char *const *p = command; *p; p++)
        arguments[i++] = *p;
    return arguments;
}

/* In the child: becomes the recorder. Valgrind's launcher is not used, since it is a program
 * like others that a preloaded library would load into. */
static void become_recorder(const char *tool_directory, int ring_fd, int socket_fd, pid_t parent,
                            char *const *environment, char *const *options, char *const *command)
{
    char tool[PATH_MAX], ring_option[32], socket_option[32];
    snprintf(tool, sizeof tool, "%s/allotrope-amd64-linux", tool_directory);
    snprintf(ring_option, sizeof ring_option, "--ring-fd=%d", ring_fd);
    snprintf(socket_option, sizeof socket_option, "--socket-fd=%d", socket_fd);
    char **arguments =
        recorder_arguments(tool, ring_fd < 0 ? NULL : ring_option, socket_option, options, command);
    if (!arguments)
        _exit(127);
    setenv("VALGRIND_LIB", tool_directory, 1);
    setenv("VALGRIND_LAUNCHER", "/usr/bin/valgrind", 1);
    setenv("ALLOTROPE_DOORBELLS", "1", 1); /* asks our library to ring, if it is there */
    for (char *const *entry = environment; entry && *entry; entry++)
        putenv(*entry);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        execv(tool, arguments);
    fprintf(stderr, "allotrope: the recorder %s cannot be run: %s\n", tool, strerror(errno));
    _exit(127);
}

static struct reference_ring *make_ring(int *fd)
{
    *fd = memfd_create("allotrope-ring", 0);
    if (*fd < 0)
        return NULL;
    if (ftruncate(*fd, REFERENCE_RING_BYTES) < 0)
        return NULL;
    struct reference_ring *ring =
        mmap(NULL, REFERENCE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (ring == MAP_FAILED)
        return NULL;
    ring->magic = REFERENCE_RING_MAGIC;
    ring->version = REFERENCE_RING_VERSION;
    return ring;
}

struct trace_stream *trace_stream_start(const char *tool_directory, char *const *environment,
                                        char *const *options, char *const *command)
{
    struct trace_stream *live = calloc(1, sizeof *live);
    int sockets[2] = {-1, -1}, ring_fd = -1;
    pid_t parent = getpid();
    if (!live || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        goto failed;
    live->ring = make_ring(&ring_fd);
    if (!live->ring)
        goto failed;
    live->recorder = fork();
    if (live->recorder < 0)
        goto failed;
    if (live->recorder == 0) {
        fcntl(sockets[1], F_SETFD, 0);
        become_recorder(tool_directory, ring_fd, sockets[1], parent, environment, options, command);
    }
    live->socket = sockets[0];
    close(sockets[1]);
    close(ring_fd);
    return live;
failed:
    close(sockets[0]);
    close(sockets[1]);
    close(ring_fd);
    free(live);
    return NULL;
}

pid_t trace_stream_start_following(const char *tool_directory, char *const *environment,
                                   char *const *options, char *const *command)
{
    pid_t parent = getpid(), recorder = fork();
    if (recorder == 0)
        become_recorder(tool_directory, -1, -1, parent, environment, options, command);
    return recorder;
}

struct trace_stream *trace_stream_adopt(int ring_fd, int socket_fd)
{
    struct trace_stream *live = calloc(1, sizeof *live);
    if (!live)
        return NULL;
    live->ring = mmap(NULL, REFERENCE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
    if (live->ring == MAP_FAILED) {
        free(live);
        return NULL;
    }
    close(ring_fd);
    live->socket = socket_fd;
    live->reaped = true; /* it is no child of ours */
    return live;
}

static bool recorder_is_gone(const struct trace_stream *live)
{
    struct pollfd end = {live->socket, POLLIN, 0};
    return poll(&end, 1, 0) > 0;
}

static const uint64_t *slot_words(const struct trace_stream *live, uint32_t slot)
{
    return (const uint64_t *)((const char *)live->ring + REFERENCE_RING_STATE_BYTES +
                              (size_t)slot * REFERENCE_RING_SLOT_BYTES);
}

static void release_slot(struct trace_stream *live)
{
    struct reference_ring *ring = live->ring;
    __atomic_store_n(&ring->released, ring->released + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &ring->released, FUTEX_WAKE, 1, NULL, NULL, 0);
    live->holds_slot = false;
}

/* Waits until a slot is published; false when none will be any more. */
static bool wait_for_slot(struct trace_stream *live)
{
    struct reference_ring *ring = live->ring;
    bool gone = false;
    while (true) {
        uint32_t published = __atomic_load_n(&ring->published, __ATOMIC_ACQUIRE);
        if (published != ring->released)
            return true;
        if (gone)
            return false;
        gone = recorder_is_gone(live); /* and then look once more */
        if (!gone) {
            struct timespec wait = {0, 50 * 1000 * 1000};
            syscall(SYS_futex, &ring->published, FUTEX_WAIT, published, &wait, NULL, 0);
        }
    }
}

/* What a recorder that was killed left in the slot it was writing, as far as it is complete. */
static int take_rest(struct trace_stream *live, const uint64_t **words, size_t *count)
{
    const struct reference_ring *ring = live->ring;
    uint32_t slot = ring->published % REFERENCE_RING_SLOTS;
    uint64_t start = ring->recorder_base + REFERENCE_RING_STATE_BYTES +
                     (uint64_t)slot * REFERENCE_RING_SLOT_BYTES;
    live->took_rest = true;
    if (ring->end == REFERENCE_RING_FINISHED || !ring->claimed || ring->cursor <= start ||
        ring->cursor - start > REFERENCE_RING_SLOT_BYTES)
        return 0;
    *words = slot_words(live, slot);
    *count = (ring->cursor - start) / sizeof **words;
    return 1;
}

int trace_stream_next(struct trace_stream *live, const uint64_t **words, size_t *count)
{
    struct reference_ring *ring = live->ring;
    if (live->holds_slot)
        release_slot(live);
    if (live->took_rest)
        return 0;
    if (!wait_for_slot(live))
        return take_rest(live, words, count);
    uint32_t slot = ring->released % REFERENCE_RING_SLOTS;
    *words = slot_words(live, slot);
    *count = ring->used_bytes[slot] / sizeof **words;
    live->holds_slot = true;
    return 1;
}

pid_t trace_stream_pid(const struct trace_stream *live)
{
    return live->recorder;
}

int trace_stream_finished(const struct trace_stream *live)
{
    return live->ring->end != REFERENCE_RING_OPEN;
}

int trace_stream_replaced(const struct trace_stream *live)
{
    return live->ring->end == REFERENCE_RING_EXEC;
}

int trace_stream_status(struct trace_stream *live)
{
    while (!live->reaped) {
        if (waitpid(live->recorder, &live->status, 0) == live->recorder)
            live->reaped = true;
        else if (errno != EINTR)
            break;
    }
    return live->status;
}

void trace_stream_close(struct trace_stream *live)
{
    if (!live->reaped) {
        kill(live->recorder, SIGKILL);
        trace_stream_status(live);
    }
    munmap(live->ring, REFERENCE_RING_BYTES);
    close(live->socket);
    free(live);
}
