/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-trace, which tells what is in a trace, prints it, and cuts it.
 * `allotrope trace` is its friendlier face.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/base/flush_all.h"
#include "trace/base/number.h"
#include "trace/inspect/inspect.h"

_Noreturn void inspect_output_failed(void)
{
    if (errno != EPIPE)
        fprintf(stderr, "allotrope: standard output: %s\n", strerror(errno));
    exit(EXIT_DAMAGED);
}

/* Decodes and does nothing else: what the reader's speed is measured with. */
static int check(struct trace_reader *reader)
{
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0)
        ;
    printf("%" PRIu64 " references\n", trace_reader_totals(reader)->references);
    return status;
}

static int usage(void)
{
    fprintf(stderr, "usage: allotrope-trace info|check|events|export|unsafe FILE\n"
                    "       allotrope-trace dump csv|din|drmemtrace|lackey|xdin FILE\n"
                    "       allotrope-trace cut COUNT OUTPUT FILE\n"
                    "FILE is a trace; - is standard input (or output).\n");
    return EXIT_USAGE;
}

/* -1: a pipe, which has none. */
static int64_t file_size(int fd)
{
    off_t end = lseek(fd, 0, SEEK_END);
    if (end >= 0)
        lseek(fd, 0, SEEK_SET);
    return end;
}

static int run(int argc, char **argv, struct trace_reader *reader, int64_t file_bytes)
{
    const char *word = argv[1];
    if (strcmp(word, "info") == 0 && argc == 3)
        return inspect_info(reader, file_bytes);
    if (strcmp(word, "check") == 0 && argc == 3)
        return check(reader);
    if (strcmp(word, "events") == 0 && argc == 3)
        return inspect_events(reader);
    if (strcmp(word, "unsafe") == 0 && argc == 3)
        return inspect_unsafe(reader);
    if (strcmp(word, "export") == 0 && argc == 3)
        return inspect_export(reader);
    if (strcmp(word, "dump") == 0 && argc == 4 && strcmp(argv[2], "drmemtrace") == 0)
        return inspect_drmemtrace(reader);
    if (strcmp(word, "dump") == 0 && argc == 4 && inspect_dump_format(argv[2]))
        return inspect_dump(reader, inspect_dump_format(argv[2]));
    if (strcmp(word, "cut") == 0 && argc == 5) {
        uint64_t count;
        if (!number_parse(argv[2], 0, UINT64_MAX, &count)) {
            fprintf(stderr, "allotrope: COUNT must be a whole number, not '%s'\n", argv[2]);
            exit(EXIT_USAGE);
        }
        return inspect_cut(reader, argv[3], count);
    }
    exit(usage());
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return usage();
    signal(SIGPIPE, SIG_DFL); /* Python ignores it: who closes the pipe has seen enough */
    const char *file = argv[argc - 1];
    int fd = strcmp(file, "-") == 0 ? STDIN_FILENO : open(file, O_RDONLY);
    char error[TRACE_ERROR_BYTES];
    if (fd < 0) {
        fprintf(stderr, "allotrope: %s: %s\n", file, strerror(errno));
        return EXIT_USAGE;
    }
    int64_t bytes = file_size(fd);
    struct trace_reader *reader = trace_reader_open(fd, error);
    if (!reader) {
        fprintf(stderr, "allotrope: %s: %s\n", file, error);
        return EXIT_USAGE;
    }
    int status = run(argc, argv, reader, bytes);
    if (status == -1)
        fprintf(stderr, "allotrope: %s: %s\n", file, trace_reader_error(reader));
    trace_reader_close(reader);
    if (flush_all(stdout) < 0)
        inspect_output_failed();
    return status < 0 ? EXIT_DAMAGED : 0;
}
