/* SPDX-License-Identifier: MIT
 *
 * stream.c: the consumer's end of the ring (protocol/reference_ring.h).
 */
#include "trace/references/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace/protocol/reference_ring.h"
#include "trace/references/recorder_process.h"

struct trace_stream {
    struct reference_ring *ring;
    int socket;
    pid_t recorder;
    bool reaped;
    int status;
    bool holds_buffer; /* handed out, to be released at the next call */
    bool took_rest;
};

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
    struct trace_stream *stream = calloc(1, sizeof *stream);
    int sockets[2] = {-1, -1}, ring_fd = -1;
    pid_t parent = getpid();
    if (!stream || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        goto failed;
    stream->ring = make_ring(&ring_fd);
    if (!stream->ring)
        goto failed;
    stream->recorder = fork();
    if (stream->recorder < 0)
        goto failed;
    if (stream->recorder == 0) {
        fcntl(sockets[1], F_SETFD, 0);
        become_recorder(tool_directory, ring_fd, sockets[1], parent, environment, options, command);
    }
    stream->socket = sockets[0];
    close(sockets[1]);
    close(ring_fd);
    return stream;
failed:
    close(sockets[0]);
    close(sockets[1]);
    close(ring_fd);
    free(stream);
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
    struct trace_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->ring = mmap(NULL, REFERENCE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0);
    if (stream->ring == MAP_FAILED) {
        free(stream);
        return NULL;
    }
    close(ring_fd);
    stream->socket = socket_fd;
    stream->reaped = true; /* it is no child of ours */
    return stream;
}

static bool recorder_is_gone(const struct trace_stream *stream)
{
    struct pollfd end = {stream->socket, POLLIN, 0};
    return poll(&end, 1, 0) > 0;
}

static const uint64_t *buffer_words(const struct trace_stream *stream, uint32_t buffer)
{
    return (const uint64_t *)((const char *)stream->ring + REFERENCE_RING_STATE_BYTES +
                              (size_t)buffer * REFERENCE_RING_BUFFER_BYTES);
}

static void release_buffer(struct trace_stream *stream)
{
    struct reference_ring *ring = stream->ring;
    __atomic_store_n(&ring->released, ring->released + 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &ring->released, FUTEX_WAKE, 1, NULL, NULL, 0);
    stream->holds_buffer = false;
}

/* Waits until a buffer is published; false when none will be any more. */
static bool wait_for_buffer(struct trace_stream *stream)
{
    struct reference_ring *ring = stream->ring;
    bool gone = false;
    while (true) {
        uint32_t published = __atomic_load_n(&ring->published, __ATOMIC_ACQUIRE);
        if (published != ring->released)
            return true;
        if (gone)
            return false;
        gone = recorder_is_gone(stream); /* and then look once more */
        if (!gone) {
            struct timespec wait = {0, 50 * 1000 * 1000};
            syscall(SYS_futex, &ring->published, FUTEX_WAIT, published, &wait, NULL, 0);
        }
    }
}

/* What a recorder that was killed left in the buffer it was writing, as far as it is complete. */
static bool take_rest(struct trace_stream *stream, const uint64_t **words, size_t *count)
{
    const struct reference_ring *ring = stream->ring;
    uint32_t buffer = ring->published % REFERENCE_RING_BUFFERS;
    uint64_t start = ring->recorder_base + REFERENCE_RING_STATE_BYTES +
                     (uint64_t)buffer * REFERENCE_RING_BUFFER_BYTES;
    stream->took_rest = true;
    if (ring->end == REFERENCE_RING_FINISHED || !ring->claimed || ring->cursor <= start ||
        ring->cursor - start > REFERENCE_RING_BUFFER_BYTES)
        return false;
    *words = buffer_words(stream, buffer);
    *count = (ring->cursor - start) / sizeof **words;
    return true;
}

bool trace_stream_next(struct trace_stream *stream, const uint64_t **words, size_t *count)
{
    struct reference_ring *ring = stream->ring;
    if (stream->holds_buffer)
        release_buffer(stream);
    if (stream->took_rest)
        return false;
    if (!wait_for_buffer(stream))
        return take_rest(stream, words, count);
    uint32_t buffer = ring->released % REFERENCE_RING_BUFFERS;
    *words = buffer_words(stream, buffer);
    *count = ring->used_bytes[buffer] / sizeof **words;
    stream->holds_buffer = true;
    return true;
}

pid_t trace_stream_pid(const struct trace_stream *stream)
{
    return stream->recorder;
}

bool trace_stream_finished(const struct trace_stream *stream)
{
    return stream->ring->end != REFERENCE_RING_OPEN;
}

bool trace_stream_replaced(const struct trace_stream *stream)
{
    return stream->ring->end == REFERENCE_RING_EXEC;
}

uint32_t trace_stream_children(const struct trace_stream *stream)
{
    return stream->ring->children;
}

void trace_stream_stop(struct trace_stream *stream)
{
    if (!stream->reaped)
        kill(stream->recorder, SIGKILL);
}

int trace_stream_status(struct trace_stream *stream)
{
    while (!stream->reaped) {
        if (waitpid(stream->recorder, &stream->status, 0) == stream->recorder)
            stream->reaped = true;
        else if (errno != EINTR)
            break;
    }
    return stream->status;
}

void trace_stream_close(struct trace_stream *stream)
{
    trace_stream_stop(stream);
    trace_stream_status(stream);
    munmap(stream->ring, REFERENCE_RING_BYTES);
    close(stream->socket);
    free(stream);
}
