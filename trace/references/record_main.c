/* SPDX-License-Identifier: MIT
 *
 * record_main.c: allotrope-trace-record, which runs a program under the recorder and writes
 * its trace to a file or pipe. The program's output is its own; ours goes to standard error.
 *
 * With %p in the trace's name, forks and execs are followed: each recorder starts this program
 * anew, as its consumer (--consume), and the first one waits for all of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trace/base/file_limit.h"
#include "trace/base/json.h"
#include "trace/base/output_file.h"
#include "trace/base/write_all.h"
#include "trace/format/writer.h"
#include "trace/protocol/reference_ring.h"
#include "trace/references/raw.h"
#include "trace/references/record_options.h"
#include "trace/references/stream.h"
#include "trace/references/trace_sink.h"

static volatile pid_t recorder;
static bool reader_ended; /* of the pipe that the trace goes to */

/* A signal from the terminal has reached the program as well; one sent to us has not. */
static void forward_signal(int number, siginfo_t *information, void *context)
{
    (void)context;
    if (information->si_code <= 0 && recorder > 0)
        kill(recorder, number);
}

static void forward_signals(void)
{
    struct sigaction action = {.sa_sigaction = forward_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
    write_without_signals();
}

static void show_progress(const struct trace_writer *writer)
{
    static time_t last;
    time_t now = time(NULL);
    if (now == last)
        return;
    last = now;
    fprintf(stderr, "\rallotrope: %.0f M references, %.1f MB",
            (double)trace_writer_totals(writer)->references / 1e6,
            (double)trace_writer_bytes(writer) / 1e6);
    fflush(stderr);
}

/* Who closes a pipe may have seen enough of the trace, or have died: both end the program. */
static bool incomplete(const char *output, const char *reason)
{
    reader_ended = errno == EPIPE;
    if (reader_ended)
        fprintf(stderr,
                "allotrope: the reader of the recording ended; the recording stops there, and the "
                "program with it\n");
    else
        fprintf(stderr, "allotrope: %s: %s\n", output, reason);
    return false;
}

static int failed_status(void)
{
    return reader_ended ? 128 + SIGPIPE : EXIT_FAILED;
}

/* Takes the whole stream. Returns false, having said why, when the trace is not complete. */
static bool take_stream(struct trace_stream *stream, struct raw_decoder *decoder,
                        const struct trace_writer *writer, const struct record_options *options)
{
    const uint64_t *words;
    size_t count;
    while (trace_stream_next(stream, &words, &count)) {
        if (raw_take(decoder, words, count, SIZE_MAX) < 0)
            return incomplete(options->output, raw_error(decoder));
        if (options->progress)
            show_progress(writer);
    }
    if (options->progress)
        fprintf(stderr, "\r\033[K");
    if (raw_finish(decoder) < 0)
        return incomplete(options->output, raw_error(decoder));
    return true;
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static struct trace_stream *start(const struct record_options *options)
{
    if (options->ring_fd >= 0)
        return trace_stream_adopt(options->ring_fd, options->socket_fd);
    return trace_stream_start(options->tools, options->environment, options->valgrind,
                              options->command);
}

/* A pipe or a socket has one trace, whatever its name. */
static bool may_have_more_traces(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

static void explain_end(const struct trace_stream *stream, const struct record_options *options,
                        int fd)
{
    if (!trace_stream_finished(stream))
        fprintf(stderr, "allotrope: the recorder was killed; the trace ends where it was\n");
    else if (trace_stream_replaced(stream))
        fprintf(stderr,
                "allotrope: %s became another program (exec), which is not in the trace; %s\n",
                options->command[0],
                may_have_more_traces(fd) ? "with %p in the trace's name it has one of its own"
                                         : "run that program itself");
    uint32_t children = trace_stream_children(stream);
    if (children > 0 && may_have_more_traces(fd))
        fprintf(stderr,
                "allotrope: %s started %u process%s not in the trace; with %%p in the trace's name "
                "each has one of its own\n",
                options->command[0], children, children == 1 ? ", which is" : "es, which are");
}

/* Takes what the recorder sends until its end. Returns the program's status, or our own. */
static int record_stream(const struct record_options *options, struct output_file *file,
                         struct trace_writer *writer, struct raw_decoder *decoder,
                         struct trace_stream *stream)
{
    recorder = trace_stream_pid(stream);
    bool complete = take_stream(stream, decoder, writer, options);
    if (!complete)
        trace_stream_stop(stream);
    bool whole = complete && trace_stream_finished(stream);
    int status = trace_stream_status(stream);
    if (complete && options->ring_fd < 0)
        explain_end(stream, options, file->fd);
    trace_stream_close(stream);
    int written = whole ? trace_writer_close(writer) : trace_writer_abandon(writer);
    if (written < 0 && complete)
        complete = incomplete(options->output, strerror(errno));
    file->worth = whole && complete ? OUTPUT_WHOLE : OUTPUT_CUT;
    return complete ? exit_code(status) : failed_status();
}

static int record(const struct record_options *options, struct output_file *file)
{
    struct trace_writer *writer = trace_writer_open(file->fd, options->description, options->level);
    if (!writer) {
        incomplete(options->output, strerror(errno));
        return failed_status();
    }
    struct raw_sink sink = trace_sink(writer);
    struct raw_decoder *decoder = raw_open(&sink);
    struct trace_stream *stream = decoder ? start(options) : NULL;
    if (!stream) {
        fprintf(stderr, "allotrope: the recorder cannot be started: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    int status = record_stream(options, file, writer, decoder, stream);
    raw_close(decoder);
    return status;
}

/* Records, and puts the file into its place. */
static int record_to(const struct record_options *options, struct output_file *file)
{
    int status = record(options, file);
    if (output_file_close(file) < 0) {
        incomplete(options->output, strerror(errno));
        return failed_status();
    }
    return status;
}

/* The name with the process id in the place of %p, and a number behind it when there is such a
 * file: a process that becomes another by exec keeps its id. Returns the file's descriptor. */
static int open_followed(const char *pattern, const char *pid, char *name, size_t room)
{
    const char *place = strstr(pattern, "%p");
    for (int i = 1; i < 10000; i++) {
        char again[16] = "";
        if (i > 1)
            snprintf(again, sizeof again, ".%d", i);
        snprintf(name, room, "%.*s%s%s%s", (int)(place - pattern), pattern, pid, again, place + 2);
        int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

/* The description of a process's trace, with the command that its image was started by as a
 * member. Returns NULL when memory is short. The text is never freed. */
static const char *describe_image(const struct record_options *options)
{
    struct json_memory memory;
    if (!json_memory_begin(&memory))
        return NULL;
    json_open_with(&memory.json, NULL, options->description);
    json_open_list(&memory.json, "command");
    for (char **word = options->command; *word; word++)
        json_bytes(&memory.json, NULL, *word);
    json_close_list(&memory.json);
    json_close(&memory.json);
    return json_memory_end(&memory);
}

static void close_inherited(const struct record_options *options, int fd)
{
    if (fd > STDERR_FILENO && fd != options->ring_fd && fd != options->socket_fd)
        close(fd);
}

/* Closes what is inherited, but for standard streams, the ring and the socket. */
static void close_others(const struct record_options *options)
{
    DIR *folder = opendir("/proc/self/fd");
    for (int fd = 0; !folder && fd < (int)sysconf(_SC_OPEN_MAX) && fd < 4096; fd++)
        close_inherited(options, fd); /* without /proc as many as can be tried in no time */
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name);
        if (fd != dirfd(folder))
            close_inherited(options, fd);
    }
    if (folder)
        closedir(folder);
}

/* A consumer that a recorder has started. It has inherited the program's descriptors, which would
 * keep pipes open, and its terminal, whose interrupts are the program's. */
static int consume(struct record_options *options)
{
    char name[PATH_MAX];
    const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ, SIGTSTP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_IGN);
    close_others(options);
    int null = open("/dev/null", O_RDWR);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    int fd = open_followed(options->output, options->pid, name, sizeof name);
    if (fd < 0) {
        fprintf(stderr, "allotrope: %s: %s\n", name, strerror(errno));
        return EXIT_FAILED;
    }
    options->output = name;
    options->description = describe_image(options);
    if (!options->description) {
        fprintf(stderr, "allotrope: %s: %s\n", name, strerror(errno));
        return EXIT_FAILED;
    }
    struct output_file file = {.fd = fd, .name = name};
    return record_to(options, &file);
}

/* Whether a child that has ended, and is not yet waited for, is a consumer. The others are
 * recorders, whose names are the tool's, and what programs have left behind. */
static bool is_consumer(pid_t child)
{
    char path[64], name[32] = "", own[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)child);
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(name, sizeof name, file))
            name[0] = 0;
        fclose(file);
    }
    prctl(PR_GET_NAME, own);
    return strncmp(name, own, strlen(own)) == 0;
}

/* Waits for everything that the recorder and its consumers are. Returns the recorder's status, or
 * -1 when a consumer has failed. */
static int wait_for_all(void)
{
    int status, recorders_status = 0;
    bool failed = false;
    siginfo_t ended;
    for (;;) {
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT) < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        bool consumer = is_consumer(ended.si_pid);
        if (waitpid(ended.si_pid, &status, 0) != ended.si_pid)
            continue;
        if (ended.si_pid == recorder)
            recorders_status = status;
        else if (consumer && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED)
            failed = true; /* it has said why */
        else if (consumer && WIFSIGNALED(status)) {
            fprintf(stderr,
                    "allotrope: what takes a process's trace was killed (signal %d): the "
                    "process is stopped and its trace cut short\n",
                    WTERMSIG(status));
            failed = true;
        }
    }
    return failed ? -1 : recorders_status;
}

/* Runs the program under recorders that start their own consumers, and waits for all. */
static int follow(struct record_options *options)
{
    static char self[PATH_MAX + 16], output[2 * PATH_MAX + 32], level[32];
    char folder[PATH_MAX], program[PATH_MAX], *description;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0 || !getcwd(folder, sizeof folder) ||
        asprintf(&description, "--follow-description=%s", options->description) < 0)
        return EXIT_FAILED;
    program[length] = 0;
    bool absolute = options->output[0] == '/';
    snprintf(self, sizeof self, "--follow=%s", program);
    snprintf(output, sizeof output, "--follow-output=%s%s%s", absolute ? "" : folder,
             absolute ? "" : "/", options->output);
    snprintf(level, sizeof level, "--follow-level=%d", options->level);
    char *further[MOST_SETTINGS + 6] = {self, output, description, level,
                                        (char *)"--trace-children=yes"};
    for (size_t i = 0; options->valgrind[i]; i++)
        further[5 + i] = options->valgrind[i];
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* consumers are orphans: they become our children */
    recorder = trace_stream_start_following(options->tools, options->environment, further,
                                            options->command);
    if (recorder < 0) {
        fprintf(stderr, "allotrope: the recorder cannot be started: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    free(description);
    int status = wait_for_all();
    return status < 0 ? EXIT_FAILED : exit_code(status);
}

/* The trace's file; standard output becomes standard error where the trace goes there: what the
 * program says goes where it does not end up in the trace. Returns 0, or -1 with errno. */
static int open_output(struct output_file *file, const char *output)
{
    if (strcmp(output, "-") != 0)
        return output_file_open(file, output);
    *file = (struct output_file){.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)};
    return file->fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct record_options options = record_options_parse(argc, argv);
    if (options.ring_fd >= 0)
        return consume(&options);
    const char *limit = file_limit_refuses(REFERENCE_RING_BYTES);
    if (limit) {
        fprintf(stderr, "allotrope: the recorder cannot be started: %s\n", limit);
        return EXIT_FAILED;
    }
    if (strstr(options.output, "%p")) {
        forward_signals();
        return follow(&options);
    }
    struct output_file file;
    if (open_output(&file, options.output) < 0) {
        fprintf(stderr, "allotrope: %s: %s\n", options.output, strerror(errno));
        return EXIT_FAILED;
    }
    forward_signals();
    return record_to(&options, &file);
}
