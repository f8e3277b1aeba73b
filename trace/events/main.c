/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-events, the program behind `allotrope events`, `lifetimes` and
 * `replay`.
 *
 *   allotrope-events record [options] -- COMMAND...   runs it and records its events
 *   allotrope-events info FILE                        JSON: what the file holds
 *   allotrope-events dump FILE                        CSV: a row for each event
 *   allotrope-events lives FILE                       JSON, objects, resizes, stacks (lives.c)
 *   allotrope-events operations FILE OUTPUT           for the replay's player (operations.h)
 *
 * FILE is a recording of `record`, or a trace.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/base/flush_all.h"
#include "trace/base/json.h"
#include "trace/base/last_words.h"
#include "trace/base/number.h"
#include "trace/events/commands.h"
#include "trace/events/record.h"
#include "trace/protocol/event_pool.h"

static const char usage[] =
    "Usage: allotrope-events record --output=FILE [--level=N] [--frames=N]\n"
    "                               [--env=NAME=VALUE]... [--description=JSON] [--quiet]\n"
    "                               -- COMMAND...\n"
    "       allotrope-events info|dump|lives FILE\n"
    "       allotrope-events operations FILE OUTPUT\n";

void refuse(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say_last_words("allotrope", format, arguments);
    va_end(arguments);
    exit(status);
}

void *grown(void *array, size_t count, size_t size)
{
    void *larger = reallocarray(array, count, size);
    if (!larger)
        refuse(EXIT_DAMAGED, "memory is short");
    return larger;
}

struct allocations *open_file(const char *path)
{
    char error[ALLOCATIONS_ERROR_BYTES];
    struct allocations *all = allocations_open(path, error);
    if (!all)
        refuse(EXIT_USAGE, "%s", error);
    return all;
}

int close_file(struct allocations *all, const char *path)
{
    int status = 0;
    if (allocations_error(all)) {
        fprintf(stderr, "allotrope: %s: %s; what came before is whole\n", path,
                allocations_error(all));
        status = EXIT_DAMAGED;
    }
    allocations_close(all);
    if (flush_all(stdout) < 0)
        refuse(EXIT_DAMAGED, "standard output: %s", strerror(errno));
    return status;
}

void print_facts(struct allocations *all)
{
    const struct allocation_counts *counts = allocations_counts(all);
    struct json json = {.output = stdout};
    json_open(&json, NULL);
    json_text(&json, "schema", "allotrope.events/1");
    json_text(&json, "clock", allocations_clock(all));
    json_number(&json, "length", allocations_now(all));
    json_number(&json, "objects", counts->objects);
    json_number(&json, "frees", counts->frees);
    json_number(&json, "resizes", counts->resizes);
    json_number(&json, "bytes", counts->bytes);
    json_number(&json, "live_objects", counts->live_objects);
    json_number(&json, "live_bytes", counts->live_bytes);
    json_number(&json, "most_live_objects", counts->most_live_objects);
    json_number(&json, "most_live_bytes", counts->most_live_bytes);
    json_number(&json, "unknown_frees", counts->unknown_frees);
    json_number(&json, "lost_frees", counts->lost_frees);
    json_number(&json, "threads", counts->threads);
    json_bool(&json, "whole", !allocations_error(all));
    json_raw(&json, "description", allocations_description(all));
    json_raw(&json, "end", allocations_end(all));
    json_bytes(&json, "maps", allocations_maps(all));
    json_close(&json);
    putchar('\n');
}

static int info(const char *path)
{
    struct allocations *all = open_file(path);
    struct allocation one;
    while (allocations_next(all, &one))
        ;
    print_facts(all);
    return close_file(all, path);
}

static int dump(const char *path)
{
    static const char *const names[] = {"new", "free", "resize"};
    struct allocations *all = open_file(path);
    struct allocation one;
    printf("%s,bytes,thread,event,object,pointer,size,alignment,zeroed,site,callers\n",
           allocations_clock(all));
    while (allocations_next(all, &one)) {
        printf("%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%s,%" PRIu64 ",0x%" PRIx64 ",%" PRIu64
               ",%" PRIu64 ",%d,0x%" PRIx64 ",",
               one.clock, one.bytes, one.thread, names[one.type], one.object, one.pointer, one.size,
               one.alignment ? UINT64_C(1) << one.alignment : 0, one.zeroed, one.site);
        for (uint32_t i = 0; i < one.frame_count; i++)
            printf("%s0x%" PRIx64, i ? " " : "", one.frames[i]);
        putchar('\n');
    }
    return close_file(all, path);
}

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    uint64_t value;
    if (!number_parse(text, least, most, &value))
        refuse(EXIT_USAGE, "--%s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64, option,
               text, least, most);
    return value;
}

static void take_setting(struct events_record_options *options, char *setting)
{
    if (!strchr(setting, '=') || *setting == '=')
        refuse(EXIT_USAGE, "--env: \"%s\" is not NAME=VALUE", setting);
    if (options->environment_count == EVENTS_RECORD_SETTINGS)
        refuse(EXIT_USAGE, "--env: more than %d settings", EVENTS_RECORD_SETTINGS);
    options->environment[options->environment_count++] = setting;
}

static int record(int argc, char **argv)
{
    enum { OUTPUT = 256, LEVEL, FRAMES, ENVIRONMENT, DESCRIPTION, QUIET };
    static const struct option known[] = {{"output", required_argument, NULL, OUTPUT},
                                          {"level", required_argument, NULL, LEVEL},
                                          {"frames", required_argument, NULL, FRAMES},
                                          {"env", required_argument, NULL, ENVIRONMENT},
                                          {"description", required_argument, NULL, DESCRIPTION},
                                          {"quiet", no_argument, NULL, QUIET},
                                          {NULL, 0, NULL, 0}};
    struct events_record_options options = {.description = "{}", .level = 1, .frames = 1};
    int option;
    while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1) {
        if (option == OUTPUT)
            options.output = optarg;
        else if (option == LEVEL)
            options.level = (int)number("level", optarg, 0, 19);
        else if (option == FRAMES)
            options.frames = (uint32_t)number("frames", optarg, 1, EVENT_MOST_FRAMES);
        else if (option == ENVIRONMENT)
            take_setting(&options, optarg);
        else if (option == DESCRIPTION)
            options.description = optarg;
        else if (option == QUIET)
            options.quiet = true;
        else
            refuse(EXIT_USAGE, "see allotrope-events --help");
    }
    if (!options.output || optind == argc)
        refuse(EXIT_USAGE, "record needs --output=FILE and a command; see allotrope-events --help");
    options.command = argv + optind;
    return events_record(&options);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "record") == 0)
        return record(argc - 1, argv + 1);
    if (argc == 3 && strcmp(argv[1], "info") == 0)
        return info(argv[2]);
    if (argc == 3 && strcmp(argv[1], "dump") == 0)
        return dump(argv[2]);
    if (argc == 3 && strcmp(argv[1], "lives") == 0)
        return command_lives(argv[2]);
    if (argc == 4 && strcmp(argv[1], "operations") == 0)
        return command_operations(argv[2], argv[3]);
    fputs(usage, stderr);
    return EXIT_USAGE;
}
