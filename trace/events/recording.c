/* SPDX-License-Identifier: MIT
 *
 * recording.c: one process's file of events.
 *
 * Some buffers of a thread make up a chunk. A process that replaces its program by exec joins again
 * from the same process: its file then begins anew, since what was recorded before belongs to
 * another program.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/base/array.h"
#include "trace/base/json.h"
#include "trace/events/record_state.h"

enum { CHUNK_BYTES = 16 * EVENT_BUFFER_BYTES };

void report(const char *format, const char *name, int error)
{
    fputs("allotrope: ", stderr);
    fprintf(stderr, format, name, strerror(error));
    fputc('\n', stderr);
}

/* Names and descriptions. */

/* A JSON string; NULL when memory is short. */
static char *quote(const char *text)
{
    struct json_memory memory;
    if (!json_memory_begin(&memory))
        return NULL;
    json_bytes(&memory.json, NULL, text);
    return json_memory_end(&memory);
}

/* The output's name with the process's number in the place of each %p. */
static char *name_for(const char *pattern, pid_t pid)
{
    size_t room = strlen(pattern) + 1;
    for (const char *at = pattern; (at = strstr(at, "%p")) != NULL; at += 2)
        room += 20;
    char *name = malloc(room), *next = name;
    for (; name && *pattern; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            next += sprintf(next, "%d", pid);
            pattern++;
        } else {
            *next++ = *pattern;
        }
    }
    if (name)
        *next = '\0';
    return name;
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* The given description, completed; NULL when memory is short. */
static char *describe(const struct events_recorder *recorder, const struct recording *recording)
{
    const char *given = recorder->options->description;
    struct json_memory memory;
    if (strlen(given) < 2 || !json_memory_begin(&memory))
        return NULL;
    json_open_with(&memory.json, NULL, given);
    json_integer(&memory.json, "pid", recording->pid);
    json_raw(&memory.json, "program", recording->program);
    json_number(&memory.json, "frames", recorder->pool->frames);
    json_open_list(&memory.json, "replaced");
    if (*recording->replaced)
        json_raw(&memory.json, NULL, recording->replaced);
    json_close_list(&memory.json);
    json_close(&memory.json);
    return json_memory_end(&memory);
}

static uint64_t lost_events(const struct events_recorder *recorder,
                            const struct recording *recording)
{
    return atomic_load(&recorder->pool->process[recording - recorder->recordings].lost);
}

/* How the recording ended: of the command itself it is known. NULL when memory is short. */
static char *describe_end(const struct events_recorder *recorder, const struct recording *recording)
{
    struct json_memory memory;
    if (!json_memory_begin(&memory))
        return NULL;
    json_open(&memory.json, NULL);
    if (recording->pid == recorder->child && recorder->child_ended) {
        json_integer(&memory.json, "status", recorder->status);
        json_number(&memory.json, "declined", atomic_load(&recorder->pool->declined));
        json_seconds(&memory.json, "user_seconds", seconds(recorder->usage.ru_utime));
        json_seconds(&memory.json, "system_seconds", seconds(recorder->usage.ru_stime));
    } else {
        json_null(&memory.json, "status");
    }
    json_number(&memory.json, "lost_events", lost_events(recorder, recording));
    json_close(&memory.json);
    return json_memory_end(&memory);
}

/* Recordings. */

static void fail(struct events_recorder *recorder, struct recording *recording)
{
    if (!recording->failed)
        report("%s: cannot be written: %s; the recording ends here", recording->name, errno);
    recording->failed = recorder->failed = true;
}

static void flush(struct events_recorder *recorder, struct recording *recording, uint32_t number)
{
    struct recorded_thread *thread = &recording->threads[number];
    if (thread->bytes > 0 && !recording->failed &&
        event_writer_add(recording->writer, EVENT_CHUNK_EVENTS, number, thread->content,
                         thread->bytes) < 0)
        fail(recorder, recording);
    thread->bytes = 0;
}

static void forget_threads(struct recording *recording)
{
    for (size_t i = 0; i < recording->thread_count; i++)
        free(recording->threads[i].content);
    free(recording->threads);
    recording->threads = NULL;
    recording->thread_count = 0;
}

/* A device has no end to cut off; what it cannot take it says when it is written. */
static bool empty(int fd)
{
    struct stat status;
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    return !is_file || (ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
}

/* Begins the file, or begins it again. */
static void begin_file(struct events_recorder *recorder, struct recording *recording)
{
    const struct event_process *process =
        &recorder->pool->process[recording - recorder->recordings];
    char *description = describe(recorder, recording);
    if (!description || !empty(recording->file.fd))
        recording->writer = NULL;
    else
        recording->writer =
            event_writer_open(recording->file.fd, description, recorder->options->level,
                              process->stamp, process->nanoseconds);
    free(description);
    if (!recording->writer)
        fail(recorder, recording);
}

static struct recording *join(struct events_recorder *recorder, uint32_t place, pid_t pid)
{
    struct recording *recording = &recorder->recordings[place];
    *recording = (struct recording){.on = true, .pid = pid, .file.fd = -1, .pidfd = -1};
    recording->program = quote(recorder->pool->process[place].program);
    return recording;
}

void recording_begin(struct events_recorder *recorder, uint32_t place, pid_t pid)
{
    struct recording *recording = join(recorder, place, pid);
    recording->replaced = strdup("");
    recording->name = name_for(recorder->options->output, pid);
    recording->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    recorder->files++;
    if (!recording->name || output_file_open(&recording->file, recording->name) < 0)
        fail(recorder, recording);
    else
        begin_file(recorder, recording);
}

void recording_take_over(struct events_recorder *recorder, uint32_t place, struct recording *before)
{
    struct recording *recording = join(recorder, place, before->pid);
    char *list = NULL;
    if (asprintf(&list, "%s%s%s", before->replaced, *before->replaced ? ", " : "",
                 before->program) < 0)
        list = NULL;
    recording->file = before->file;
    recording->name = before->name;
    recording->pidfd = before->pidfd;
    recording->replaced = list ? list : strdup("");
    if (before->writer)
        event_writer_close(before->writer, "{}");
    free(before->program);
    free(before->replaced);
    forget_threads(before);
    memset(before, 0, sizeof *before);
    begin_file(recorder, recording);
}

static struct recorded_thread *thread_of(struct recording *recording, uint32_t number)
{
    if (!array_reserve(&recording->threads, &recording->thread_count, number,
                       sizeof *recording->threads))
        return NULL;
    struct recorded_thread *thread = &recording->threads[number];
    if (!thread->content)
        thread->content = malloc(CHUNK_BYTES);
    return thread->content ? thread : NULL;
}

bool recording_add_events(struct events_recorder *recorder, struct recording *recording,
                          const struct event_buffer *buffer, const uint64_t *words)
{
    struct recorded_thread *thread = thread_of(recording, buffer->thread);
    if (!thread) {
        errno = ENOMEM;
        fail(recorder, recording);
        return true;
    }
    if (buffer->sequence != thread->next_sequence)
        return false;
    size_t bytes = EVENT_BUFFER_BYTES;
    while (bytes > 0 && words[bytes / sizeof *words - 1] == 0)
        bytes -= sizeof *words;
    if (thread->bytes + bytes > CHUNK_BYTES)
        flush(recorder, recording, buffer->thread);
    memcpy(thread->content + thread->bytes, words, bytes);
    thread->bytes += bytes;
    thread->next_sequence++;
    return true;
}

void recording_add_maps(struct events_recorder *recorder, struct recording *recording,
                        const char *text, size_t bytes)
{
    if (!recording->failed &&
        event_writer_add(recording->writer, EVENT_CHUNK_MAPS, 0, text, bytes) < 0)
        fail(recorder, recording);
}

void recording_end(struct events_recorder *recorder, struct recording *recording)
{
    for (uint32_t i = 0; i < recording->thread_count; i++)
        flush(recorder, recording, i);
    uint64_t bytes = 0;
    if (recording->writer) {
        char *end = describe_end(recorder, recording);
        if (event_writer_close(recording->writer, end ? end : "{}") < 0)
            fail(recorder, recording);
        free(end);
        bytes = (uint64_t)lseek(recording->file.fd, 0, SEEK_CUR);
        recording->file.worth = recording->failed ? OUTPUT_CUT : OUTPUT_WHOLE;
    }
    if (output_file_close(&recording->file) < 0)
        fail(recorder, recording);
    if (!recording->failed && !recorder->options->quiet)
        fprintf(stderr, "allotrope: %s: the events of %s, %" PRIu64 " bytes\n", recording->name,
                recording->program, bytes);
    uint64_t lost = lost_events(recorder, recording);
    if (lost > 0 && !recorder->options->quiet)
        fprintf(stderr,
                "allotrope: %s: %" PRIu64 " event%s missing, of threads that found no buffer; "
                "%d threads at a time have one\n",
                recording->name, lost, lost == 1 ? " is" : "s are", EVENT_BUFFERS);
    if (recording->pidfd >= 0)
        close(recording->pidfd);
    free(recording->name);
    free(recording->program);
    free(recording->replaced);
    forget_threads(recording);
    memset(recording, 0, sizeof *recording);
}
