/* SPDX-License-Identifier: MIT
 *
 * record_options.c: see record_options.h.
 */
#include "trace/references/record_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "trace/base/number.h"

/* Options that a recorder gives its consumer have no letter. */
enum { CONSUME = 256, PID };

static void usage(FILE *out)
{
    fprintf(out, "usage: allotrope-trace-record -o FILE [option...] -- COMMAND [argument...]\n"
                 "  -o, --output FILE        the trace; - is standard output; with %%p, which\n"
                 "                           becomes a process id, forks and execs are followed\n"
                 "  -t, --tools DIRECTORY    where allotrope-amd64-linux lies\n"
                 "  -d, --description JSON   what the trace is of\n"
                 "  -z, --level N            zstd's level [1]\n"
                 "  -e, --env NAME=VALUE     set for the program alone\n"
                 "  -V, --valgrind OPTION    a further option for Valgrind\n"
                 "  -p, --progress           say now and then how far it is\n");
}

static void check_options(const struct record_options *options)
{
    if (!options->output || (!options->command[0] && options->ring_fd < 0)) {
        fprintf(stderr, "allotrope: %s is missing\n",
                options->output ? "the command" : "--output FILE");
        usage(stderr);
        exit(EXIT_FAILED);
    }
}

/* Adds to a NULL-terminated list. option: by which it was given. */
static void append(char **list, const char *option, char *setting)
{
    for (int i = 0; i < MOST_SETTINGS; i++)
        if (!list[i]) {
            list[i] = setting;
            return;
        }
    fprintf(stderr, "allotrope: %s: more than %d settings\n", option, MOST_SETTINGS);
    exit(EXIT_FAILED);
}

static int level(const char *text)
{
    uint64_t number;
    if (number_parse(text, 1, 19, &number))
        return (int)number;
    fprintf(stderr, "allotrope: --level: \"%s\" is not a number from 1 to 19\n", text);
    exit(EXIT_FAILED);
}

static void take_option(struct record_options *options, int letter, char *value)
{
    switch (letter) {
    case 'o':
        options->output = value;
        break;
    case 't':
        options->tools = value;
        break;
    case 'd':
        options->description = value;
        break;
    case 'z':
        options->level = level(value);
        break;
    case 'e':
        append(options->environment, "--env", value);
        break;
    case 'V':
        append(options->valgrind, "--valgrind", value);
        break;
    case 'p':
        options->progress = true;
        break;
    case CONSUME:
        if (sscanf(value, "%d,%d", &options->ring_fd, &options->socket_fd) != 2)
            exit(EXIT_FAILED);
        break;
    case PID:
        options->pid = value;
        break;
    case 'h':
        usage(stdout);
        exit(0);
    default:
        usage(stderr);
        exit(EXIT_FAILED);
    }
}

struct record_options record_options_parse(int argc, char **argv)
{
    static const struct option names[] = {{"output", required_argument, NULL, 'o'},
                                          {"tools", required_argument, NULL, 't'},
                                          {"description", required_argument, NULL, 'd'},
                                          {"level", required_argument, NULL, 'z'},
                                          {"env", required_argument, NULL, 'e'},
                                          {"valgrind", required_argument, NULL, 'V'},
                                          {"progress", no_argument, NULL, 'p'},
                                          {"consume", required_argument, NULL, CONSUME},
                                          {"pid", required_argument, NULL, PID},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    struct record_options options = {
        .description = "{}", .tools = ".", .level = 1, .ring_fd = -1, .socket_fd = -1, .pid = "0"};
    for (int letter; (letter = getopt_long(argc, argv, "+o:t:d:z:e:V:ph", names, NULL)) >= 0;)
        take_option(&options, letter, optarg);
    options.command = argv + optind;
    check_options(&options);
    return options;
}
