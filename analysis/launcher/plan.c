/* SPDX-License-Identifier: MIT
 *
 * plan.c: see plan.h.
 */
#include "analysis/launcher/plan.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/base/last_words.h"
#include "trace/base/number.h"

enum { GRACE_SECONDS = 2, MOST_SECONDS = 1000 * 1000 * 1000 };

enum {
    REPORT = 256,
    ENV,
    UNSET,
    TIMEOUT,
    GRACE,
    HELP,
    STDIN,
    STDOUT,
    STDERR,
    FIXED,
    TREE,
    SAMPLES,
    PROCESSORS,
    WATCH,
    GATE
};

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_last_words("allotrope-launch", format, arguments);
    va_end(arguments);
    exit(STATUS_USAGE);
}

static long long parse_seconds(const char *option, const char *text)
{
    double seconds;
    if (!number_parse_positive(text, MOST_SECONDS, &seconds))
        fail("%s: '%s' is not a number of seconds above 0", option, text);
    return (long long)(seconds * NANOSECONDS);
}

/* Settings reach the command through our own environment, which we ourselves read no more. */
static void set_environment(const char *setting)
{
    if (!strchr(setting, '=') || *setting == '=')
        fail("--env: '%s' is not of the form NAME=VALUE", setting);
    if (putenv((char *)setting) != 0)
        fail("--env: no memory");
}

/* A list as taskset has it: "0,2-3". */
static cpu_set_t parse_processors(const char *text)
{
    cpu_set_t processors;
    CPU_ZERO(&processors);
    for (const char *rest = text;; rest++) {
        uint64_t first;
        uint64_t last;
        if (!number_read_range(&rest, &first, &last) || last >= CPU_SETSIZE ||
            (*rest != ',' && *rest != '\0'))
            fail("--processors: '%s' is not a list such as 0,2-3", text);
        for (uint64_t one = first; one <= last; one++)
            CPU_SET(one, &processors);
        if (*rest == '\0')
            return processors;
    }
}

static int parse_descriptor(const char *option, const char *text)
{
    uint64_t descriptor;
    if (!number_parse(text, 0, INT_MAX, &descriptor))
        fail("%s: '%s' is no file descriptor", option, text);
    return (int)descriptor;
}

static void print_usage(void)
{
    puts("usage: allotrope-launch [OPTION]... -- COMMAND [ARGUMENT]...\n"
         "Runs COMMAND and reports as JSON what that run cost.\n\n"
         "  --report FILE       write the report there (default: standard error)\n"
         "  --env NAME=VALUE    set in COMMAND's environment; repeatable\n"
         "  --unset NAME        remove from COMMAND's environment; repeatable\n"
         "  --stdin FILE, --stdout FILE, --stderr FILE\n"
         "                      redirect COMMAND\n"
         "  --fixed-addresses   the kernel puts nothing at random (where it may be told so)\n"
         "  --processors LIST   keep COMMAND on these, such as 0,2-3\n"
         "  --samples FILE      write the memory of COMMAND's processes over time: lines of\n"
         "                      nanoseconds (CLOCK_MONOTONIC), bytes (PSS), processes\n"
         "  --whole-tree        stop what left COMMAND's process group too\n"
         "  --watch DESCRIPTOR  show every process there, a socket (analysis/launcher/watch.c)\n"
         "  --gate DESCRIPTOR   a socket: write a byte there when COMMAND is ready to begin, and\n"
         "                      begin when a byte comes back; without one it never begins\n"
         "  --timeout SECONDS   stop COMMAND's process group after that long\n"
         "  --grace SECONDS     between TERM and KILL (default 2)");
}

static void take_option(struct plan *plan, int choice, char *value)
{
    switch (choice) {
    case REPORT:
        plan->report = value;
        break;
    case ENV:
        set_environment(value);
        break;
    case UNSET:
        unsetenv(value);
        break;
    case TIMEOUT:
        plan->timeout_nanoseconds = parse_seconds("--timeout", value);
        break;
    case GRACE:
        plan->grace_nanoseconds = parse_seconds("--grace", value);
        break;
    case STDIN:
    case STDOUT:
    case STDERR:
        plan->redirects[choice - STDIN] = value;
        break;
    case FIXED:
        plan->fixed_addresses = true;
        break;
    case TREE:
        plan->whole_tree = true;
        break;
    case SAMPLES:
        plan->samples = value;
        break;
    case PROCESSORS:
        plan->processors = parse_processors(value);
        plan->has_processors = true;
        break;
    case WATCH:
        plan->watch = parse_descriptor("--watch", value);
        break;
    case GATE:
        plan->gate = parse_descriptor("--gate", value);
        break;
    case HELP:
        print_usage();
        exit(0);
    default:
        exit(STATUS_USAGE); /* getopt has named the option */
    }
}

struct plan plan_parse(int argc, char **argv)
{
    static const struct option options[] = {{"watch", required_argument, NULL, WATCH},
                                            {"gate", required_argument, NULL, GATE},
                                            {"report", required_argument, NULL, REPORT},
                                            {"env", required_argument, NULL, ENV},
                                            {"unset", required_argument, NULL, UNSET},
                                            {"timeout", required_argument, NULL, TIMEOUT},
                                            {"grace", required_argument, NULL, GRACE},
                                            {"help", no_argument, NULL, HELP},
                                            {"whole-tree", no_argument, NULL, TREE},
                                            {"samples", required_argument, NULL, SAMPLES},
                                            {"processors", required_argument, NULL, PROCESSORS},
                                            {"stdin", required_argument, NULL, STDIN},
                                            {"stdout", required_argument, NULL, STDOUT},
                                            {"stderr", required_argument, NULL, STDERR},
                                            {"fixed-addresses", no_argument, NULL, FIXED},
                                            {0}};
    struct plan plan = {
        .grace_nanoseconds = (long long)GRACE_SECONDS * NANOSECONDS, .watch = -1, .gate = -1};
    for (int choice; (choice = getopt_long(argc, argv, "+", options, NULL)) != -1;)
        take_option(&plan, choice, optarg);
    if (!argv[optind])
        fail("no command given; see --help");
    plan.command = argv + optind;
    return plan;
}
