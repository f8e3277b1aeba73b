/* SPDX-License-Identifier: MIT
 *
 * reference_source.c: one of three kinds. Traces come in batches that are the reader's and are
 * handed out piece by piece; those of a running program are made where they are wanted.
 */
#include "analysis/simulate/reference_source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/simulate/lackey_text.h"
#include "analysis/simulate/recorded_process.h"
#include "analysis/simulate/region_map.h"
#include "trace/base/array.h"
#include "trace/base/file_limit.h"
#include "trace/format/reader.h"
#include "trace/protocol/reference_ring.h"
#include "trace/references/stream_reader.h"

_Static_assert(sizeof(struct reference) == sizeof(struct trace_reference) &&
                   offsetof(struct reference, address) ==
                       offsetof(struct trace_reference, address) &&
                   offsetof(struct reference, function) ==
                       offsetof(struct trace_reference, function) &&
                   offsetof(struct reference, size) == offsetof(struct trace_reference, size) &&
                   offsetof(struct reference, kind) == offsetof(struct trace_reference, kind) &&
                   offsetof(struct reference, class) == offsetof(struct trace_reference, class) &&
                   (int)REFERENCE_STORE == (int)TRACE_STORE,
               "a trace's references are simulated as they are");
_Static_assert((int)REFERENCE_SOURCE_LEAST_ROOM == (int)TRACE_STREAM_LEAST_ROOM,
               "what a running program does goes where the caller wants it");

/* What a part tells of the whole. */
struct told {
    bool failed; /* nothing more is delivered */
    bool threaded;
    char error[TRACE_ERROR_BYTES]; /* empty while all is well */
};

struct reference_source {
    int file;
    struct lackey_text *text; /* one of these three is not NULL */
    struct trace_reader *trace;
    struct trace_stream_reader *program;
    struct trace_stream *stream;     /* with `program` */
    struct recorded_process process; /* likewise */
    /* What is left of the current batch: references not handed out, events not taken note of. */
    struct trace_batch rest;
    uint64_t from, to; /* numbers of references, `to` not included: the part that is delivered */
    struct region_map regions;
    bool by_instruction;
    struct range_map files; /* of numbers of `file_names`, where instructions are named */
    char **file_names;
    size_t file_count, file_capacity;
    struct filter *filter; /* NULL: everything passes */
    enum window_clock clock;
    uint64_t width;       /* of a window */
    uint32_t window;      /* of the last reference */
    uint64_t window_ends; /* by its clock */
    uint64_t allocated;   /* bytes, so far */
    struct series windows;
    uint64_t text_position; /* references of the text so far */
    uint32_t running;       /* thread of the next reference */
    bool any_thread;
    uint32_t thread; /* of the first batch */
    struct told told;
};

/* References of a window where nothing else is asked for. */
enum { WINDOW_DEFAULT = 4096 };

static char open_error[512 + TRACE_ERROR_BYTES];
static volatile pid_t program_started;

static struct reference_source *refuse(struct reference_source *source, const char *path,
                                       const char *reason, const char **error)
{
    snprintf(open_error, sizeof open_error, "cannot read %.400s: %s", path, reason);
    *error = open_error;
    if (source)
        reference_source_close(source);
    return NULL;
}

/* The first byte without taking it: of a file, or of a pipe. -1 when there is none. */
static int peek(int file)
{
    unsigned char byte;
    if (pread(file, &byte, 1, lseek(file, 0, SEEK_CUR)) == 1)
        return byte;
    int copy[2];
    if (pipe2(copy, O_CLOEXEC) < 0)
        return -1;
    bool got = tee(file, copy[1], 1, 0) == 1 && read(copy[0], &byte, 1) == 1;
    close(copy[0]);
    close(copy[1]);
    return got ? byte : -1;
}

static bool open_text(struct reference_source *source)
{
    source->text = calloc(1, sizeof *source->text);
    if (!source->text)
        return false;
    source->text->file = fdopen(source->file, "r");
    return source->text->file != NULL;
}

static struct reference_source *make_source(void)
{
    struct reference_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    reference_source_set_windows(source, WINDOW_REFERENCES, WINDOW_DEFAULT);
    source->to = UINT64_MAX;
    return source;
}

struct reference_source *reference_source_open(const char *path, const char **error)
{
    /* The first byte of a trace, and of no text. */
    const int trace_first_byte = 0x89;
    struct reference_source *source = make_source();
    if (!source)
        return refuse(NULL, path, "memory is short", error);
    source->file = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (source->file < 0)
        return refuse(source, path, strerror(errno), error);
    if (fstat(source->file, &status) == 0 && S_ISDIR(status.st_mode))
        return refuse(source, path, strerror(EISDIR), error);
    if (peek(source->file) != trace_first_byte)
        return open_text(source) ? source : refuse(source, path, "memory is short", error);
    char reason[TRACE_ERROR_BYTES];
    source->trace = trace_reader_open(source->file, reason);
    return source->trace ? source : refuse(source, path, reason, error);
}

static void pass_on(int number)
{
    kill(program_started, number);
}

struct reference_source *reference_source_start(const char *tools, char *const *environment,
                                                char *const *command, const char **error)
{
    struct reference_source *source = make_source();
    if (!source)
        return refuse(NULL, command[0], "memory is short", error);
    source->file = -1;
    const char *limit = file_limit_refuses(REFERENCE_RING_BYTES);
    if (limit)
        return refuse(source, "the recorder", limit, error);
    source->stream = trace_stream_start(tools, environment, NULL, command);
    if (!source->stream)
        return refuse(source, "the recorder", strerror(errno), error);
    program_started = trace_stream_pid(source->stream);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, pass_on);
    signal(SIGHUP, pass_on);
    source->program = trace_stream_reader_open(source->stream);
    return source->program ? source : refuse(source, command[0], "memory is short", error);
}

void reference_source_close(struct reference_source *source)
{
    if (source->text) {
        if (source->text->file)
            fclose(source->text->file);
        free(source->text);
    } else if (source->file > STDIN_FILENO) {
        close(source->file);
    }
    if (source->trace)
        trace_reader_close(source->trace);
    if (source->program)
        trace_stream_reader_close(source->program);
    if (source->stream)
        trace_stream_close(source->stream);
    recorded_process_free(&source->process);
    region_map_free(&source->regions);
    range_map_free(&source->files);
    for (size_t i = 0; i < source->file_count; i++)
        free(source->file_names[i]);
    free(source->file_names);
    free(source);
}

const char *reference_source_set_windows(struct reference_source *source, enum window_clock clock,
                                         uint64_t width)
{
    if (source->text && clock == WINDOW_ALLOCATED_BYTES)
        return "--window-bytes: lackey's text tells no allocations";
    source->clock = clock;
    source->width = source->window_ends = width;
    return NULL;
}

enum window_clock reference_source_window_clock(const struct reference_source *source)
{
    return source->clock;
}

uint64_t reference_source_window_width(const struct reference_source *source)
{
    return source->width;
}

struct series *reference_source_windows(struct reference_source *source)
{
    return &source->windows;
}

const char *reference_source_filter(struct reference_source *source, struct filter *filter)
{
    if (source->text && filter_needs_attributes(filter))
        return "lackey's text tells no threads, classes, regions and functions: only --references "
               "can choose among its references";
    source->filter = filter;
    return NULL;
}

const char *reference_source_count(struct reference_source *source, uint64_t *references)
{
    if (source->text)
        return "--jobs and --cluster: lackey's text is read from its beginning only";
    if (source->file == STDIN_FILENO || lseek(source->file, 0, SEEK_CUR) < 0)
        return "--jobs and --cluster: standard input and pipes are read from their beginning only";
    return trace_reader_count(source->trace, references) < 0 ? trace_reader_error(source->trace)
                                                             : NULL;
}

const char *reference_source_set_part(struct reference_source *source, uint64_t from, uint64_t to)
{
    source->from = from;
    source->to = to;
    /* From the reference before: a chunk without references may stand between the two, and of every
     * chunk its end must be met by somebody, who verifies it. */
    if (from > 0 && trace_reader_seek(source->trace, from - 1) < 0)
        return trace_reader_error(source->trace);
    return NULL;
}

static void join_told(struct told *told, const struct told *later)
{
    /* A part meets the thread of the reference before it, so it notes a change there. */
    told->threaded |= later->threaded;
    told->failed |= later->failed;
    if (told->error[0] == '\0')
        memcpy(told->error, later->error, sizeof told->error);
}

void reference_source_join(struct reference_source *source, const struct reference_source *later)
{
    join_told(&source->told, &later->told);
}

bool reference_source_write_told(const struct reference_source *source, FILE *file)
{
    return fwrite(&source->told, sizeof source->told, 1, file) == 1;
}

bool reference_source_join_told(struct reference_source *source, FILE *file)
{
    struct told later;
    if (fread(&later, sizeof later, 1, file) != 1)
        return false;
    later.error[sizeof later.error - 1] = '\0';
    join_told(&source->told, &later);
    return true;
}

const struct filter *reference_source_filtered_by(const struct reference_source *source)
{
    return source->filter;
}

/* Keeps where files were mapped, also when they are no longer. */
static bool note_file(struct reference_source *source, const struct trace_event *event)
{
    if (!source->by_instruction || event->type != TRACE_EVENT_MAP || event->name[0] != '/')
        return true;
    size_t number = 0;
    while (number < source->file_count && strcmp(source->file_names[number], event->name) != 0)
        number++;
    if (number == source->file_count) {
        if (!array_reserve(&source->file_names, &source->file_capacity, number,
                           sizeof *source->file_names))
            return false;
        source->file_names[number] = strdup(event->name);
        if (!source->file_names[number])
            return false;
        source->file_count++;
    }
    uint64_t start = event->value[0];
    return range_map_put(&source->files, start, start + event->value[1], (uint32_t)number);
}

static bool take_event(struct reference_source *source, const struct trace_event *event)
{
    bool allocates = event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC;
    source->allocated = event->allocated_bytes;
    if (allocates && event->value[0] != 0)
        source->allocated += event->value[1];
    if (event->type == TRACE_EVENT_THREAD)
        source->running = (uint32_t)event->value[0];
    if (region_map_take(&source->regions, event) && note_file(source, event))
        return true;
    strcpy(source->told.error, "memory is short");
    return false;
}

static bool take_events(struct reference_source *source, const struct trace_event *events,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!take_event(source, &events[i]))
            return false;
    return true;
}

/* At the end of a trace or a program, or where it is damaged. */
static void end(struct reference_source *source, int status)
{
    source->told.failed = true;
    if (status < 0 && source->stream)
        trace_stream_stop(source->stream);
    if (status < 0)
        snprintf(source->told.error, sizeof source->told.error, "%s",
                 source->trace ? trace_reader_error(source->trace)
                               : trace_stream_reader_error(source->program));
    else if (source->stream && !trace_stream_finished(source->stream))
        strcpy(source->told.error, "the recorder was killed");
    else if (source->stream && trace_stream_replaced(source->stream))
        strcpy(source->told.error,
               "became another program (exec), which is not recorded; run that program "
               "itself");
}

/* Gets the trace's next batch that holds references. Returns false at the end and on errors. */
static bool next_batch(struct reference_source *source, bool walks)
{
    struct trace_batch *batch = &source->rest;
    int status;
    while ((status = trace_reader_next(source->trace, batch)) > 0 && batch->count == 0)
        if (walks && !take_events(source, batch->events, batch->event_count)) {
            source->told.failed = true;
            return false;
        }
    if (status <= 0) {
        end(source, status);
        return false;
    }
    source->running = batch->thread;
    source->told.threaded |= source->any_thread && batch->thread != source->thread;
    source->thread = source->any_thread ? source->thread : batch->thread;
    source->any_thread = true;
    return true;
}

static void enter_window(struct reference_source *source, uint64_t now)
{
    uint64_t window = now / source->width;
    source->window = window < UINT32_MAX ? (uint32_t)window : UINT32_MAX;
    source->window_ends = (window + 1) * source->width;
}

/* False when memory is short. */
static bool passes(struct reference_source *source, const struct reference *reference,
                   uint64_t number, uint8_t region, bool *passed)
{
    struct filter *filter = source->filter;
    uint32_t function = reference->function;
    *passed = true;
    if (!filter)
        return true;
    if (!filter_knows(filter, function) &&
        !filter_learn(filter, function, reference_source_function_name(source, function))) {
        strcpy(source->told.error, "memory is short");
        return false;
    }
    struct filter_subject subject = {.number = number, .thread = source->running, .region = region};
    *passed = filter_passes(filter, reference, &subject);
    return true;
}

/* Whether references are looked at one by one. */
static bool walks(const struct reference_source *source, const struct reference_room *room)
{
    return room->regions || room->windows || source->filter;
}

/* Goes through the first `count` references of the rest, with the events between them. What passes
 * is put into the room from *kept on, which may be where it is. False when memory is short. */
static bool walk(struct reference_source *source, const struct reference_room *room, size_t count,
                 size_t *kept)
{
    struct trace_batch *rest = &source->rest;
    bool by_references = source->clock == WINDOW_REFERENCES;
    const struct reference *references = (const struct reference *)rest->references;
    for (size_t i = 0; i < count; i++) {
        const struct reference reference = references[i];
        uint64_t number = rest->first_reference + i;
        while (rest->event_count > 0 && rest->events->reference <= number) {
            if (!take_event(source, rest->events))
                return false;
            rest->events++;
            rest->event_count--;
        }
        uint64_t now = by_references ? number : source->allocated;
        if (now >= source->window_ends)
            enter_window(source, now);
        uint8_t region = (uint8_t)region_map_find(&source->regions, reference.address);
        bool passed;
        if (!passes(source, &reference, number, region, &passed))
            return false;
        if (!passed)
            continue;
        room->references[*kept] = reference;
        if (room->regions)
            room->regions[*kept] = region;
        if (room->windows) {
            room->windows[*kept] = source->window;
            series_add(&source->windows, source->window, 1);
        }
        ++*kept;
    }
    /* What comes behind the last reference of the batch would be forgotten with it. */
    return count < rest->count || take_events(source, rest->events, rest->event_count);
}

bool reference_source_has_regions(const struct reference_source *source)
{
    return !source->text;
}

static void advance(struct trace_batch *rest, size_t count)
{
    rest->first_reference += count;
    rest->references += count;
    rest->count -= count;
}

/* Passes over what comes before the part, and tells how much of the batch is to be delivered now,
 * at most `room`. */
static size_t piece_of_batch(struct reference_source *source, size_t room)
{
    struct trace_batch *rest = &source->rest;
    if (rest->first_reference < source->from) {
        uint64_t before = source->from - rest->first_reference;
        advance(rest, before < rest->count ? (size_t)before : rest->count);
    }
    uint64_t left = source->to - rest->first_reference;
    size_t piece = rest->count < room ? rest->count : room;
    return piece < left ? piece : (size_t)left;
}

static size_t next_of_trace(struct reference_source *source, const struct reference_room *room)
{
    struct trace_batch *rest = &source->rest;
    bool walking = walks(source, room);
    size_t count = 0;
    while (count < room->room && !source->told.failed) {
        if (rest->first_reference >= source->to ||
            (rest->count == 0 && !next_batch(source, walking)))
            break;
        if (source->filter && rest->first_reference >= source->filter->to) {
            source->told.failed = true; /* nothing behind it can pass */
            break;
        }
        size_t piece = piece_of_batch(source, room->room - count);
        if (!walking) {
            memcpy(room->references + count, rest->references, piece * sizeof *rest->references);
            count += piece;
        } else if (!walk(source, room, piece, &count)) {
            source->told.failed = true;
            break;
        }
        advance(rest, piece);
    }
    return count;
}

static size_t next_of_program(struct reference_source *source, const struct reference_room *room)
{
    struct trace_batch *batch = &source->rest;
    size_t kept = 0;
    do {
        int status = source->told.failed
                         ? 0
                         : trace_stream_reader_next(source->program,
                                                    (struct trace_reference *)room->references,
                                                    room->room, batch);
        if (status <= 0) {
            if (!source->told.failed)
                end(source, status);
            return 0;
        }
        kept = 0;
        if (!recorded_process_take(&source->process, batch->events, batch->event_count)) {
            source->told.failed = true;
            strcpy(source->told.error, "memory is short");
        } else if (!walks(source, room)) {
            kept = batch->count;
        } else if (batch->count > 0) {
            source->running = batch->thread;
            source->told.failed = !walk(source, room, batch->count, &kept);
        } else {
            source->told.failed = !take_events(source, batch->events, batch->event_count);
        }
        if (source->told.failed)
            trace_stream_stop(source->stream);
    } while (kept == 0);
    return source->told.failed ? 0 : kept;
}

static size_t next_of_text(struct reference_source *source, const struct reference_room *room)
{
    struct trace_batch *rest = &source->rest;
    size_t kept = 0;
    while (kept == 0) {
        size_t count = lackey_text_next(source->text, room->references, room->room);
        if (count == 0 || !walks(source, room))
            return count;
        *rest = (struct trace_batch){.first_reference = source->text_position, .count = count};
        rest->references = (const struct trace_reference *)room->references;
        source->text_position += count;
        if (!walk(source, room, count, &kept))
            return 0;
    }
    return kept;
}

size_t reference_source_next(struct reference_source *source, const struct reference_room *room)
{
    if (source->text)
        return next_of_text(source, room);
    if (source->trace)
        return next_of_trace(source, room);
    return next_of_program(source, room);
}

const char *reference_source_error(const struct reference_source *source)
{
    const char *error = source->text ? source->text->error : source->told.error;
    return error[0] != '\0' ? error : NULL;
}

int reference_source_status(struct reference_source *source)
{
    if (!source->stream)
        return 0;
    int status = trace_stream_status(source->stream);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void reference_source_put_process(struct json *json, const struct reference_source *source)
{
    recorded_process_put(json, &source->process, trace_stream_children(source->stream));
}

int reference_source_threaded(const struct reference_source *source)
{
    if (source->program)
        return trace_stream_reader_threaded(source->program);
    return source->text ? -1 : source->told.threaded;
}

const char *reference_source_by_instruction(struct reference_source *source)
{
    if (source->text)
        return "--instructions: lackey's text tells none of data references";
    if (source->trace)
        trace_reader_by_instruction(source->trace);
    else
        trace_stream_reader_by_instruction(source->program);
    source->by_instruction = true;
    return NULL;
}

const struct instruction *reference_source_instruction(const struct reference_source *source,
                                                       uint32_t number)
{
    if (!source->by_instruction)
        return NULL;
    return source->trace ? trace_reader_instruction(source->trace, number)
                         : trace_stream_reader_instruction(source->program, number);
}

const struct range_map *reference_source_files(const struct reference_source *source)
{
    return &source->files;
}

const char *reference_source_file(const struct reference_source *source, size_t number)
{
    return source->file_names[number];
}

const char *reference_source_name_of(const struct reference_source *source, uint32_t function)
{
    const char *object, *name = NULL;
    if (source->trace)
        name = trace_reader_function(source->trace, function, &object);
    if (source->program)
        name = trace_stream_reader_function(source->program, function, &object);
    return name && strcmp(name, "?") != 0 ? name : NULL;
}

const char *reference_source_function_name(const struct reference_source *source, uint32_t function)
{
    const struct instruction *instruction = reference_source_instruction(source, function);
    return reference_source_name_of(source, instruction ? instruction->function : function);
}
