/* SPDX-License-Identifier: MIT
 *
 * main.c: allotrope-events, the program behind `allotrope events`, `lifetimes` and
 * `replay`.
 *
 *   allotrope-events record [options] -- COMMAND...   runs it and records its events
 *   allotrope-events info FILE                        JSON: what the file holds
 *   allotrope-events dump FILE                        CSV: a row for each event
 *   allotrope-events lives FILE                       JSON, a struct for each object, their stacks
 *   allotrope-events operations FILE OUTPUT           for the replay's player (operations.h)
 *
 * FILE is a recording of `record`, or a trace.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "trace/base/json.h"
#include "trace/events/allocations.h"
#include "trace/events/operations.h"
#include "trace/events/record.h"
#include "trace/protocol/event_pool.h"

enum { EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "Usage: allotrope-events record --output=FILE [--level=N] [--frames=N]\n"
    "                               [--env=NAME=VALUE]... [--description=JSON] [--quiet]\n"
    "                               -- COMMAND...\n"
    "       allotrope-events info|dump|lives FILE\n"
    "       allotrope-events operations FILE OUTPUT\n";

static _Noreturn void __attribute__((format(printf, 2, 3)))
refuse(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("allotrope: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(status);
}

static struct allocations *open_file(const char *path)
{
    char error[ALLOCATIONS_ERROR_BYTES];
    struct allocations *all = allocations_open(path, error);
    if (!all)
        refuse(EXIT_USAGE, "%s", error);
    return all;
}

static int close_file(struct allocations *all, const char *path)
{
    int status = 0;
    if (allocations_error(all)) {
        fprintf(stderr, "allotrope: %s: %s; what came before is whole\n", path,
                allocations_error(all));
        status = EXIT_DAMAGED;
    }
    allocations_close(all);
    if (fflush(stdout) != 0)
        refuse(EXIT_DAMAGED, "standard output: %s", strerror(errno));
    return status;
}

/* After the last allocation has been read. One line. */
static void print_facts(struct allocations *all)
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
               ",%u,%d,0x%" PRIx64 ",",
               one.clock, one.bytes, one.thread, names[one.type], one.object, one.pointer, one.size,
               one.alignment ? 1U << one.alignment : 0, one.zeroed, one.site);
        for (uint32_t i = 0; i < one.frame_count; i++)
            printf("%s0x%" PRIx64, i ? " " : "", one.frames[i]);
        putchar('\n');
    }
    return close_file(all, path);
}

/* Lives. */

/* As analysis/allotrope/lifetimes.py reads it. */
struct life {
    uint64_t born_clock, died_clock; /* died: UINT64_MAX when it was never freed */
    uint64_t born_bytes, died_bytes; /* allocated by the whole program before */
    uint64_t size;                   /* the largest that was asked for */
    uint64_t stack;                  /* which of the stacks behind the lives */
    uint32_t born_thread, died_thread;
};

/* Who asked: each stack of return addresses once, found by its hash. */
struct stacks {
    uint64_t *words; /* of each: how many addresses, then these, innermost first */
    size_t used, room;
    size_t *first; /* of each stack in words */
    size_t count, capacity;
    uint32_t *places; /* 1 + a stack's number, 0 free; twice the capacity, a power of two */
};

static void *grown(void *array, size_t count, size_t size)
{
    void *larger = reallocarray(array, count, size);
    if (!larger)
        refuse(EXIT_DAMAGED, "memory is short");
    return larger;
}

/* The place of a stack, or where it belongs. */
static uint32_t *find_stack(const struct stacks *stacks, const uint64_t *stack)
{
    size_t bytes = (stack[0] + 1) * sizeof *stack, mask = 2 * stacks->capacity - 1;
    size_t i = XXH3_64bits(stack, bytes) & mask;
    for (; stacks->places[i]; i = (i + 1) & mask)
        if (memcmp(stacks->words + stacks->first[stacks->places[i] - 1], stack, bytes) == 0)
            break;
    return &stacks->places[i];
}

static void grow_stacks(struct stacks *stacks)
{
    stacks->capacity = stacks->capacity ? 2 * stacks->capacity : 1024;
    stacks->first = grown(stacks->first, stacks->capacity, sizeof *stacks->first);
    stacks->places = grown(stacks->places, 2 * stacks->capacity, sizeof *stacks->places);
    memset(stacks->places, 0, 2 * stacks->capacity * sizeof *stacks->places);
    for (size_t i = 0; i < stacks->count; i++)
        *find_stack(stacks, stacks->words + stacks->first[i]) = (uint32_t)i + 1;
}

/* The number of the stack that an allocation comes from. */
static uint64_t stack_of(struct stacks *stacks, const struct allocation *one)
{
    size_t length = 2 + (size_t)one->frame_count;
    if (stacks->count == stacks->capacity)
        grow_stacks(stacks);
    if (stacks->used + length > stacks->room) {
        stacks->room = 2 * (stacks->room + length);
        stacks->words = grown(stacks->words, stacks->room, sizeof *stacks->words);
    }
    uint64_t *stack = stacks->words + stacks->used; /* stays there if it is new */
    stack[0] = length - 1;
    stack[1] = one->site;
    if (one->frame_count > 0)
        memcpy(stack + 2, one->frames, one->frame_count * sizeof *stack);
    uint32_t *place = find_stack(stacks, stack);
    if (!*place) {
        stacks->first[stacks->count++] = stacks->used;
        stacks->used += length;
        *place = (uint32_t)stacks->count;
    }
    return *place - 1;
}

static void end_life(struct life *life, const struct allocation *one)
{
    life->died_clock = one->clock;
    life->died_bytes = one->bytes;
    life->died_thread = one->thread;
}

static int lives(const char *path)
{
    struct allocations *all = open_file(path);
    struct allocation one;
    size_t capacity = 1 << 16;
    struct stacks stacks = {0};
    struct life *life = grown(NULL, capacity, sizeof *life);
    while (allocations_next(all, &one)) {
        if (one.type == ALLOCATION_FREE) {
            end_life(&life[one.object], &one);
            continue;
        }
        if (one.type == ALLOCATION_RESIZE) {
            if (one.size > life[one.object].size)
                life[one.object].size = one.size;
            continue;
        }
        if (one.object == capacity) {
            capacity *= 2;
            life = grown(life, capacity, sizeof *life);
        }
        life[one.object] = (struct life){.born_clock = one.clock,
                                         .died_clock = UINT64_MAX,
                                         .born_bytes = one.bytes,
                                         .died_bytes = UINT64_MAX,
                                         .size = one.size,
                                         .stack = stack_of(&stacks, &one),
                                         .born_thread = one.thread};
    }
    print_facts(all);
    size_t count = allocations_counts(all)->objects;
    if (count > 0)
        fwrite(life, sizeof *life, count, stdout);
    fwrite(stacks.words, sizeof *stacks.words, stacks.used, stdout);
    free(life);
    free(stacks.words);
    free(stacks.first);
    free(stacks.places);
    return close_file(all, path);
}

/* Operations. */

/* Slots of objects, and the slots that are free. */
struct slots {
    uint32_t *of_object;
    size_t objects;
    uint32_t *spare;
    size_t spares, spare_capacity;
    uint32_t used;
};

static void take_slot(struct slots *slots, uint64_t object)
{
    if (object >= slots->objects) {
        slots->objects *= 2;
        slots->of_object = grown(slots->of_object, slots->objects, sizeof *slots->of_object);
    }
    slots->of_object[object] = slots->spares ? slots->spare[--slots->spares] : slots->used++;
}

static void give_slot(struct slots *slots, uint32_t slot)
{
    if (slots->spares == slots->spare_capacity) {
        slots->spare_capacity = slots->spare_capacity ? 2 * slots->spare_capacity : 1 << 12;
        slots->spare = grown(slots->spare, slots->spare_capacity, sizeof *slots->spare);
    }
    slots->spare[slots->spares++] = slot;
}

static int operations(const char *path, const char *output)
{
    struct allocations *all = open_file(path);
    struct slots slots = {.objects = 1 << 16};
    struct operations_head head = {.magic = OPERATIONS_MAGIC};
    slots.of_object = grown(NULL, slots.objects, sizeof *slots.of_object);
    struct allocation one;
    FILE *file = fopen(output, "we");
    if (!file)
        refuse(EXIT_DAMAGED, "%s: %s", output, strerror(errno));
    bool written = fwrite(&head, sizeof head, 1, file) == 1;
    for (; written && allocations_next(all, &one); head.count++) {
        if (one.type == ALLOCATION_NEW)
            take_slot(&slots, one.object);
        struct operation operation = {.slot = slots.of_object[one.object],
                                      .type = (uint8_t)one.type,
                                      .alignment = one.alignment,
                                      .zeroed = one.zeroed,
                                      .size = one.size};
        if (one.type == ALLOCATION_FREE)
            give_slot(&slots, operation.slot);
        written = fwrite(&operation, sizeof operation, 1, file) == 1;
    }
    head.slots = slots.used;
    head.bytes = allocations_counts(all)->bytes;
    written = written && fseek(file, 0, SEEK_SET) == 0 && fwrite(&head, sizeof head, 1, file) == 1;
    if (fclose(file) != 0 || !written)
        refuse(EXIT_DAMAGED, "%s: %s", output, strerror(errno));
    free(slots.of_object);
    free(slots.spare);
    print_facts(all);
    return close_file(all, path);
}

/* Recording. */

static uint64_t number(const char *option, const char *text, uint64_t least, uint64_t most)
{
    char *end;
    errno = 0;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text || *end || errno || *text == '-' || value < least || value > most)
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
        return lives(argv[2]);
    if (argc == 4 && strcmp(argv[1], "operations") == 0)
        return operations(argv[2], argv[3]);
    fputs(usage, stderr);
    return EXIT_USAGE;
}
