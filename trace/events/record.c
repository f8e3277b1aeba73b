/* SPDX-License-Identifier: MIT
 *
 * record.c: see record.h.
 *
 * One thread looks over the ring's buffers again and again, a thousand times a second while they
 * fill, and appends what is full to the file of its process: some buffers of a thread make up a
 * chunk. A process that has ended, however it ended, leaves the rest in buffers that are neither
 * full nor free; so does a program that replaced itself by exec, which joins again from the same
 * process: the file then begins anew, since what was recorded before belongs to another program.
 */
#include "trace/events/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trace/base/json.h"
#include "trace/events/file.h"
#include "trace/protocol/event_pool.h"

enum { CHUNK_BYTES = 16 * EVENT_BUFFER_BYTES, SHORT_SLEEP_MS = 1, LONG_SLEEP_MS = 16 };

/* What of a thread has come, and not yet been written. */
struct thread {
    uint64_t next_sequence;
    size_t bytes;
    char *content;
};

/* One process that is recorded. */
struct recording {
    bool on;
    pid_t pid;
    int pidfd; /* -1: it has ended */
    int fd;
    char *name;
    char *program;
    char *replaced; /* JSON strings, comma-separated: the programs before it */
    struct event_writer *writer;
    struct thread *threads;
    uint32_t thread_count;
    uint64_t bytes;
    bool failed;
};

struct recorder {
    const struct events_record_options *options;
    struct event_pool *ring;
    int ring_fd;
    pid_t child;
    bool child_ended;
    int status;
    struct rusage usage; /* of the child alone, unless it waited for children of its own */
    struct recording recordings[EVENT_PROCESSES]; /* by their place in the ring */
    uint64_t files;
    bool failed;
};

static pid_t child_to_signal;

static void report(const char *format, const char *name, int error)
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
static char *describe(const struct recorder *recorder, const struct recording *recording)
{
    const char *given = recorder->options->description;
    struct json_memory memory;
    if (strlen(given) < 2 || !json_memory_begin(&memory))
        return NULL;
    json_open_with(&memory.json, NULL, given);
    json_integer(&memory.json, "pid", recording->pid);
    json_raw(&memory.json, "program", recording->program);
    json_number(&memory.json, "frames", recorder->ring->frames);
    json_open_list(&memory.json, "replaced");
    if (*recording->replaced)
        json_raw(&memory.json, NULL, recording->replaced);
    json_close_list(&memory.json);
    json_close(&memory.json);
    return json_memory_end(&memory);
}

/* How the recording ended: of the command itself it is known. NULL when memory is short. */
static char *describe_end(const struct recorder *recorder, const struct recording *recording)
{
    struct json_memory memory;
    if (!json_memory_begin(&memory))
        return NULL;
    json_open(&memory.json, NULL);
    if (recording->pid == recorder->child && recorder->child_ended) {
        json_integer(&memory.json, "status", recorder->status);
        json_number(&memory.json, "declined", atomic_load(&recorder->ring->declined));
        json_seconds(&memory.json, "user_seconds", seconds(recorder->usage.ru_utime));
        json_seconds(&memory.json, "system_seconds", seconds(recorder->usage.ru_stime));
    } else {
        json_null(&memory.json, "status");
    }
    json_close(&memory.json);
    return json_memory_end(&memory);
}

/* Recordings. */

static void fail(struct recorder *recorder, struct recording *recording)
{
    if (!recording->failed)
        report("%s: cannot be written: %s; the recording ends here", recording->name, errno);
    recording->failed = recorder->failed = true;
}

static void flush(struct recorder *recorder, struct recording *recording, uint32_t number)
{
    struct thread *thread = &recording->threads[number];
    if (thread->bytes > 0 && !recording->failed &&
        event_writer_add(recording->writer, EVENT_CHUNK_EVENTS, number, thread->content,
                         thread->bytes) < 0)
        fail(recorder, recording);
    thread->bytes = 0;
}

static void forget_threads(struct recording *recording)
{
    for (uint32_t i = 0; i < recording->thread_count; i++)
        free(recording->threads[i].content);
    free(recording->threads);
    recording->threads = NULL;
    recording->thread_count = 0;
}

/* Begins the file, or begins it again. */
static bool begin_file(struct recorder *recorder, struct recording *recording)
{
    char *description = describe(recorder, recording);
    if (!description || ftruncate(recording->fd, 0) < 0 || lseek(recording->fd, 0, SEEK_SET) < 0)
        recording->writer = NULL;
    else
        recording->writer = event_writer_open(recording->fd, description, recorder->options->level);
    free(description);
    if (!recording->writer)
        fail(recorder, recording);
    return recording->writer != NULL;
}

static struct recording *find(struct recorder *recorder, pid_t pid, const struct recording *but)
{
    for (size_t i = 0; i < EVENT_PROCESSES; i++) {
        struct recording *recording = &recorder->recordings[i];
        if (recording->on && recording->pid == pid && recording != but)
            return recording;
    }
    return NULL;
}

/* The process of `before` replaced its program: the file is the new program's. */
static void take_over(struct recorder *recorder, struct recording *recording,
                      struct recording *before)
{
    char *list = NULL;
    if (asprintf(&list, "%s%s%s", before->replaced, *before->replaced ? ", " : "",
                 before->program) < 0)
        list = NULL;
    recording->fd = before->fd;
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

static void clear(struct recorder *recorder, uint32_t number)
{
    struct event_buffer *buffer = &recorder->ring->buffer[number];
    uint64_t *words = event_buffer_words(recorder->ring, number);
    size_t used = EVENT_BUFFER_WORDS;
    while (used > 0 && words[used - 1] == 0)
        used--;
    memset(words, 0, used * sizeof *words);
    atomic_store(&buffer->labelled, 0);
    atomic_store_explicit(&buffer->state, EVENT_BUFFER_FREE, memory_order_release);
}

/* What a program that was replaced left behind belongs to nobody. */
static void drop_buffers(struct recorder *recorder, uint32_t place)
{
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
        struct event_buffer *buffer = &recorder->ring->buffer[i];
        if (atomic_load(&buffer->state) != EVENT_BUFFER_FREE && atomic_load(&buffer->labelled) &&
            buffer->process == place)
            clear(recorder, i);
    }
    atomic_store(&recorder->ring->process[place].threads, 0);
    atomic_store(&recorder->ring->process[place].ready, 0);
    atomic_store(&recorder->ring->process[place].pid, 0);
}

static void begin(struct recorder *recorder, uint32_t place, pid_t pid)
{
    struct recording *recording = &recorder->recordings[place];
    *recording = (struct recording){.on = true, .pid = pid, .fd = -1, .pidfd = -1};
    recording->program = quote(recorder->ring->process[place].program);
    struct recording *before = find(recorder, pid, recording);
    if (before) {
        uint32_t old_place = (uint32_t)(before - recorder->recordings);
        take_over(recorder, recording, before);
        drop_buffers(recorder, old_place);
        return;
    }
    recording->replaced = strdup("");
    recording->name = name_for(recorder->options->output, pid);
    recording->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    recording->fd = recording->name
                        ? open(recording->name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                        : -1;
    recorder->files++;
    if (recording->fd < 0)
        fail(recorder, recording);
    else
        begin_file(recorder, recording);
}

static struct thread *thread_of(struct recording *recording, uint32_t number)
{
    if (number >= recording->thread_count) {
        struct thread *more = reallocarray(recording->threads, (size_t)number + 1, sizeof *more);
        if (!more)
            return NULL;
        memset(more + recording->thread_count, 0,
               (number + 1 - recording->thread_count) * sizeof *more);
        recording->threads = more;
        recording->thread_count = number + 1;
    }
    struct thread *thread = &recording->threads[number];
    if (!thread->content)
        thread->content = malloc(CHUNK_BYTES);
    return thread->content ? thread : NULL;
}

/* Saves a buffer that is full or abandoned. False when another of its thread comes first. */
static bool save(struct recorder *recorder, struct recording *recording, uint32_t number)
{
    const struct event_buffer *buffer = &recorder->ring->buffer[number];
    const uint64_t *words = event_buffer_words(recorder->ring, number);
    if (buffer->kind == EVENT_BUFFER_MAPS) {
        if (!recording->failed &&
            event_writer_add(recording->writer, EVENT_CHUNK_MAPS, 0, words, buffer->bytes) < 0)
            fail(recorder, recording);
        return true;
    }
    struct thread *thread = thread_of(recording, buffer->thread);
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

/* Saves what is full, and what is half full where `rest` says so. Returns how many buffers. */
static unsigned save_buffers(struct recorder *recorder, struct recording *only, bool rest)
{
    unsigned saved = 0, round;
    do {
        round = 0;
        for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
            struct event_buffer *buffer = &recorder->ring->buffer[i];
            uint32_t state = atomic_load_explicit(&buffer->state, memory_order_acquire);
            if (state == EVENT_BUFFER_FREE || !atomic_load(&buffer->labelled) ||
                (state == EVENT_BUFFER_FILLING && !rest))
                continue;
            struct recording *recording = &recorder->recordings[buffer->process];
            if (!recording->on || (only && recording != only) || !save(recorder, recording, i))
                continue;
            clear(recorder, i);
            round++;
        }
        saved += round;
    } while (round > 0);
    if (saved > 0) {
        atomic_fetch_add(&recorder->ring->freed, 1);
        if (atomic_load(&recorder->ring->waiting))
            syscall(SYS_futex, &recorder->ring->freed, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    return saved;
}

/* Threads that ended without a word, as those of raw clone do, are found when buffers get few. */
static void collect_dead_threads(struct recorder *recorder)
{
    unsigned busy = 0;
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++)
        busy += atomic_load(&recorder->ring->buffer[i].state) == EVENT_BUFFER_FILLING;
    if (busy < EVENT_BUFFERS / 4)
        return;
    for (uint32_t i = 0; i < EVENT_BUFFERS; i++) {
        struct event_buffer *buffer = &recorder->ring->buffer[i];
        char path[64];
        uint32_t filling = EVENT_BUFFER_FILLING;
        if (atomic_load(&buffer->state) != filling || !atomic_load(&buffer->labelled))
            continue;
        pid_t pid = recorder->recordings[buffer->process].pid;
        snprintf(path, sizeof path, "/proc/%d/task/%u", pid, buffer->tid);
        if (pid && access(path, F_OK) < 0 && errno == ENOENT)
            atomic_compare_exchange_strong(&buffer->state, &filling, EVENT_BUFFER_FULL);
    }
}

static void finish(struct recorder *recorder, struct recording *recording)
{
    uint32_t place = (uint32_t)(recording - recorder->recordings);
    save_buffers(recorder, recording, true);
    for (uint32_t i = 0; i < recording->thread_count; i++)
        flush(recorder, recording, i);
    if (recording->writer) {
        char *end = describe_end(recorder, recording);
        if (event_writer_close(recording->writer, end ? end : "{}") < 0)
            fail(recorder, recording);
        free(end);
        uint64_t bytes = (uint64_t)lseek(recording->fd, 0, SEEK_CUR);
        if (!recording->failed && !recorder->options->quiet)
            fprintf(stderr, "allotrope: %s: the events of %s, %" PRIu64 " bytes\n", recording->name,
                    recording->program, bytes);
    }
    if (recording->fd >= 0 && close(recording->fd) < 0)
        fail(recorder, recording);
    if (recording->pidfd >= 0)
        close(recording->pidfd);
    free(recording->name);
    free(recording->program);
    free(recording->replaced);
    forget_threads(recording);
    memset(recording, 0, sizeof *recording);
    drop_buffers(recorder, place);
}

static void find_new(struct recorder *recorder)
{
    for (uint32_t i = 0; i < EVENT_PROCESSES; i++) {
        pid_t pid = (pid_t)atomic_load(&recorder->ring->process[i].pid);
        if (pid && atomic_load(&recorder->ring->process[i].ready) && !recorder->recordings[i].on)
            begin(recorder, i, pid);
    }
}

static void reap(struct recorder *recorder)
{
    int status;
    if (!recorder->child_ended &&
        wait4(recorder->child, &status, WNOHANG, &recorder->usage) == recorder->child) {
        recorder->child_ended = true;
        recorder->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
}

/* Waits until a process ends, or so long. Finishes those that have. Returns how many are left. */
static unsigned wait_and_finish(struct recorder *recorder, int milliseconds)
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

static void record(struct recorder *recorder)
{
    int milliseconds = SHORT_SLEEP_MS;
    unsigned left = 1;
    while (left > 0 || !recorder->child_ended) {
        find_new(recorder);
        if (save_buffers(recorder, NULL, false) > 0)
            milliseconds = SHORT_SLEEP_MS;
        else if (milliseconds < LONG_SLEEP_MS)
            milliseconds *= 2;
        collect_dead_threads(recorder);
        left = wait_and_finish(recorder, milliseconds);
        if (left == 0 && recorder->child_ended) {
            find_new(recorder);
            left = wait_and_finish(recorder, 0);
        }
    }
}

/* Starting. */

static bool make_ring(struct recorder *recorder)
{
    recorder->ring_fd = memfd_create("allotrope-events", MFD_CLOEXEC);
    if (recorder->ring_fd < 0 || ftruncate(recorder->ring_fd, (off_t)EVENT_POOL_BYTES) < 0)
        return false;
    void *ring =
        mmap(NULL, EVENT_POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, recorder->ring_fd, 0);
    if (ring == MAP_FAILED)
        return false;
    recorder->ring = ring;
    recorder->ring->magic = EVENT_POOL_MAGIC;
    recorder->ring->version = EVENT_POOL_VERSION;
    recorder->ring->frames = recorder->options->frames;
    recorder->ring->writer = (uint32_t)getpid();
    return true;
}

static _Noreturn void become_command(struct recorder *recorder, pid_t parent)
{
    const struct events_record_options *options = recorder->options;
    char ring[64];
    if (!strstr(options->output, "%p"))
        atomic_store(&recorder->ring->only, (uint32_t)getpid());
    snprintf(ring, sizeof ring, "/proc/%d/fd/%d", parent, recorder->ring_fd);
    for (size_t i = 0; i < options->environment_count; i++)
        putenv(options->environment[i]);
    setenv("ALLOTROPE_EVENTS", ring, 1);
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
    static struct recorder recorder;
    pid_t self = getpid();
    recorder.options = options;
    if (!make_ring(&recorder)) {
        report("%s: cannot be shared: %s", "memory for events", errno);
        return 1;
    }
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
    uint32_t declined = atomic_load(&recorder.ring->declined);
    if (declined > 0 && !options->quiet)
        fprintf(stderr,
                "allotrope: %u further process%s not recorded; a %%p in the name of the "
                "output gives each a file\n",
                declined, declined == 1 ? " was" : "es were");
    return recorder.failed ? 1 : recorder.status;
}
