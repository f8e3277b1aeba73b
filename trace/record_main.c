/* SPDX-License-Identifier: MIT */
/* record_main.c: allotrope-trace-record, which runs a program under the recorder and writes
 * its trace to a file or pipe. The program's output is its own; ours goes to standard error. */
#include "trace/format.h"
#include "trace/live.h"
#include "trace/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FAILED = 125, MOST_SETTINGS = 256 };

struct options {
    const char *output;
    const char *tools;
    const char *description;
    int level;
    bool progress;
    char *environment[MOST_SETTINGS + 1];
    char *valgrind[MOST_SETTINGS + 1];
    char **command;
};

static volatile pid_t recorder;

static void usage(FILE *out)
{
    fprintf(out, "usage: allotrope-trace-record -o FILE [option...] -- COMMAND [argument...]\n"
                 "  -o, --output FILE        the trace; - is standard output\n"
                 "  -t, --tools DIRECTORY    where allotrope-amd64-linux lies\n"
                 "  -d, --description JSON   what the trace is of\n"
                 "  -z, --level N            zstd's level [1]\n"
                 "  -e, --env NAME=VALUE     set for the program alone\n"
                 "  -V, --valgrind OPTION    a further option for Valgrind\n"
                 "  -p, --progress           say now and then how far it is\n");
}

static void parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"tools", required_argument, NULL, 't'},
                                          {"description", required_argument, NULL, 'd'},
                                          {"level", required_argument, NULL, 'z'},
                                          {"env", required_argument, NULL, 'e'},
                                          {"valgrind", required_argument, NULL, 'V'},
                                          {"progress", no_argument, NULL, 'p'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int letter, settings = 0, further = 0;
    while ((letter = getopt_long(argc, argv, "+o:t:d:z:e:V:ph", names, NULL)) >= 0) {
        switch (letter) {
        case 'o':
            options->output = optarg;
            break;
        case 't':
            options->tools = optarg;
            break;
        case 'd':
            options->description = optarg;
            break;
        case 'z':
            options->level = atoi(optarg);
            break;
        case 'e':
            if (settings < MOST_SETTINGS)
                options->environment[settings++] = optarg;
            break;
        case 'V':
            if (further < MOST_SETTINGS)
                options->valgrind[further++] = optarg;
            break;
        case 'p':
            options->progress = true;
            break;
        case 'h':
            usage(stdout);
            exit(0);
        default:
            usage(stderr);
            exit(EXIT_FAILED);
        }
    }
    options->command = argv + optind;
    if (options->level < 1 || options->level > 19) {
        fprintf(stderr, "allotrope: --level must be from 1 to 19\n");
        exit(EXIT_FAILED);
    }
    if (!options->output || !options->command[0]) {
        fprintf(stderr, "allotrope: %s is missing\n",
                options->output ? "the command" : "--output FILE");
        usage(stderr);
        exit(EXIT_FAILED);
    }
}

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
    signal(SIGPIPE, SIG_IGN);
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

/* Takes the whole stream. Returns false, having said why, when the trace is not complete. */
static bool take_stream(struct trace_live *live, struct raw_stream *stream,
                        const struct trace_writer *writer, const struct options *options)
{
    const uint64_t *words;
    size_t count;
    while (trace_live_next(live, &words, &count)) {
        if (raw_take(stream, words, count) < 0) {
            fprintf(stderr, "allotrope: %s: %s\n", options->output, raw_error(stream));
            return false;
        }
        if (options->progress)
            show_progress(writer);
    }
    if (options->progress)
        fprintf(stderr, "\r\033[K");
    if (raw_finish(stream) < 0) {
        fprintf(stderr, "allotrope: %s: %s\n", options->output, raw_error(stream));
        return false;
    }
    return true;
}

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int record(const struct options *options, int fd)
{
    struct trace_writer *writer = trace_writer_open(fd, options->description, options->level);
    if (!writer) {
        fprintf(stderr, "allotrope: %s: %s\n", options->output, strerror(errno));
        return EXIT_FAILED;
    }
    struct raw_sink sink = raw_writer_sink(writer);
    struct raw_stream *stream = raw_open(&sink);
    struct trace_live *live = stream ? trace_live_start(options->tools, options->environment,
                                                        options->valgrind, options->command)
                                     : NULL;
    if (!live) {
        fprintf(stderr, "allotrope: the recorder cannot be started: %s\n", strerror(errno));
        return EXIT_FAILED;
    }
    recorder = trace_live_pid(live);
    bool complete = take_stream(live, stream, writer, options);
    if (!complete)
        kill(recorder, SIGKILL);
    int status = trace_live_status(live);
    if (complete && !trace_live_finished(live))
        fprintf(stderr, "allotrope: the recorder was killed; the trace ends where it was\n");
    trace_live_close(live);
    raw_close(stream);
    if (trace_writer_close(writer) < 0 && complete) {
        fprintf(stderr, "allotrope: %s: %s\n", options->output, strerror(errno));
        complete = false;
    }
    return complete ? exit_code(status) : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    struct options options = {.description = "{}", .tools = ".", .level = 1};
    parse_options(argc, argv, &options);
    int fd = STDOUT_FILENO;
    if (strcmp(options.output, "-") != 0)
        fd = open(options.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    else
        fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        fprintf(stderr, "allotrope: %s: %s\n", options.output, strerror(errno));
        return EXIT_FAILED;
    }
    forward_signals();
    return record(&options, fd);
}
