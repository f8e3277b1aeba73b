/* SPDX-License-Identifier: MIT
 *
 * trace_main.c: allotrope-trace, which tells what is in a trace, prints it, and cuts it.
 * `allotrope trace` is its friendlier face.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/base/json.h"
#include "trace/base/range_map.h"
#include "trace/format/copy.h"
#include "trace/format/names.h"
#include "trace/format/reader.h"

enum { EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

/* Regions and counts. */

/* Kinds that a trace does not know: a mapping that malloc hands out, and what lies in none. */
enum { HEAP = TRACE_REGIONS, NO_MAPPING };

struct account {
    uint32_t kind;
    char *name;
    uint64_t references[TRACE_CLASSES];
};

struct thread_count {
    uint32_t thread;
    uint64_t references;
};

struct census {
    struct range_map regions; /* mappings that are alive, by their accounts */
    struct range last;        /* where the last address was found */
    struct account *accounts; /* by kind and name, kept for good; 0: what lies in no mapping */
    size_t account_count, account_capacity;
    struct thread_count *threads;
    size_t thread_count, thread_capacity;
    uint64_t event_counts[TRACE_EVENT_TYPES];
};

static _Noreturn void memory_is_short(void)
{
    fprintf(stderr, "allotrope: not enough memory\n");
    exit(EXIT_DAMAGED);
}

static void *more(void *array, size_t *capacity, size_t count, size_t element_bytes)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity ? 2 * *capacity : 64;
    array = reallocarray(array, *capacity, element_bytes);
    if (!array)
        memory_is_short();
    return array;
}

static size_t account_of(struct census *census, uint32_t kind, const char *name)
{
    for (size_t i = 0; i < census->account_count; i++)
        if (census->accounts[i].kind == kind && strcmp(census->accounts[i].name, name) == 0)
            return i;
    census->accounts = more(census->accounts, &census->account_capacity, census->account_count,
                            sizeof *census->accounts);
    struct account *account = &census->accounts[census->account_count];
    memset(account, 0, sizeof *account);
    account->kind = kind;
    account->name = strdup(name);
    return census->account_count++;
}

/* A mapping that a block comes from is heap from then on. */
static void note_heap(struct census *census, uint64_t block)
{
    struct range *region = block ? range_map_find(&census->regions, block) : NULL;
    if (!region)
        return;
    uint32_t kind = census->accounts[region->what].kind;
    if (kind == TRACE_REGION_ANONYMOUS)
        region->what = account_of(census, HEAP, "");
    else if (kind == TRACE_REGION_BREAK)
        region->what = account_of(census, HEAP, "break");
    else
        return;
    census->last = (struct range){0};
}

static void note_mapping(struct census *census, const struct trace_event *event)
{
    uint64_t start = event->value[0], end = start + event->value[1];
    bool noted;
    if (event->type == TRACE_EVENT_MAP) {
        uint32_t kind = event->value[2] < TRACE_REGIONS ? (uint32_t)event->value[2] : 0;
        size_t account = account_of(census, kind, event->name);
        noted = range_map_put(&census->regions, start, end, account);
    } else {
        noted = range_map_cut(&census->regions, start, end);
    }
    if (!noted)
        memory_is_short();
    census->last = (struct range){0};
}

static void count_event(struct census *census, const struct trace_event *event)
{
    census->event_counts[event->type]++;
    if (event->type == TRACE_EVENT_MALLOC || event->type == TRACE_EVENT_REALLOC)
        note_heap(census, event->value[0]);
    else if (event->type == TRACE_EVENT_MAP || event->type == TRACE_EVENT_UNMAP)
        note_mapping(census, event);
}

static size_t find_account(struct census *census, uint64_t address)
{
    if (address >= census->last.start && address < census->last.end)
        return census->last.what;
    const struct range *region = range_map_find(&census->regions, address);
    if (!region)
        return 0;
    census->last = *region;
    return region->what;
}

static struct thread_count *count_of_thread(struct census *census, uint32_t thread)
{
    for (size_t i = 0; i < census->thread_count; i++)
        if (census->threads[i].thread == thread)
            return &census->threads[i];
    census->threads = more(census->threads, &census->thread_capacity, census->thread_count,
                           sizeof *census->threads);
    census->threads[census->thread_count] = (struct thread_count){thread, 0};
    return &census->threads[census->thread_count++];
}

static void count_batch(struct census *census, const struct trace_batch *batch)
{
    size_t event = 0, i = 0;
    if (batch->count > 0)
        count_of_thread(census, batch->thread)->references += batch->count;
    while (i < batch->count || event < batch->event_count) {
        size_t end = event < batch->event_count
                         ? batch->events[event].reference - batch->first_reference
                         : batch->count;
        for (; i < end; i++) {
            const struct trace_reference *reference = &batch->references[i];
            census->accounts[find_account(census, reference->address)]
                .references[reference->class]++;
        }
        if (event < batch->event_count)
            count_event(census, &batch->events[event++]);
    }
}

/* Info. */

static void put_classes(struct json *json, const char *key, const uint64_t *by_class)
{
    json_open(json, key);
    for (int i = 0; i < TRACE_CLASSES; i++)
        json_number(json, trace_class_name((uint32_t)i), by_class[i]);
    json_close(json);
}

static void put_totals(struct json *json, const char *key, const struct trace_totals *totals)
{
    json_open(json, key);
    json_number(json, "references", totals->references);
    json_number(json, "loads", totals->references - totals->stores);
    json_number(json, "stores", totals->stores);
    json_number(json, "instructions", totals->instructions);
    json_number(json, "superblocks", totals->superblocks);
    json_number(json, "events", totals->events);
    json_number(json, "allocated_bytes", totals->allocated_bytes);
    put_classes(json, "by_class", totals->by_class);
    json_close(json);
}

static void put_threads(struct json *json, const struct census *census)
{
    json_open_list(json, "threads");
    for (size_t i = 0; i < census->thread_count; i++) {
        json_open(json, NULL);
        json_number(json, "thread", census->threads[i].thread);
        json_number(json, "references", census->threads[i].references);
        json_close(json);
    }
    json_close_list(json);
}

static void put_events(struct json *json, const struct census *census)
{
    json_open(json, "events");
    for (int i = 1; i < TRACE_EVENT_TYPES; i++)
        if (census->event_counts[i] != 0)
            json_number(json, trace_event_name((uint32_t)i), census->event_counts[i]);
    json_close(json);
}

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case NO_MAPPING:
        return "unmapped";
    case HEAP:
        return "heap";
    default:
        return trace_region_name(kind);
    }
}

static void put_regions(struct json *json, const struct census *census)
{
    json_open_list(json, "regions");
    for (size_t i = 0; i < census->account_count; i++) {
        const struct account *account = &census->accounts[i];
        json_open(json, NULL);
        json_text(json, "kind", kind_name(account->kind));
        json_text(json, "name", account->name);
        put_classes(json, "references", account->references);
        json_close(json);
    }
    json_close_list(json);
}

/* Prints what there is, also of a damaged trace: that it is damaged stands beside it. */
static int info(struct trace_reader *reader, int64_t file_bytes)
{
    struct census census = {0};
    struct trace_batch batch;
    int status;
    account_of(&census, NO_MAPPING, "");
    while ((status = trace_reader_next(reader, &batch)) > 0)
        count_batch(&census, &batch);
    struct json json = {.output = stdout};
    json_open(&json, NULL);
    json_text(&json, "schema", "allotrope.trace.info/1");
    if (file_bytes < 0)
        json_null(&json, "bytes");
    else
        json_integer(&json, "bytes", file_bytes);
    json_raw(&json, "description", trace_reader_description(reader));
    put_totals(&json, "totals", trace_reader_totals(reader));
    if (trace_reader_whole(reader))
        put_totals(&json, "run", trace_reader_whole(reader));
    put_threads(&json, &census);
    put_events(&json, &census);
    put_regions(&json, &census);
    json_text(&json, "error", status < 0 ? trace_reader_error(reader) : NULL);
    json_close(&json);
    putchar('\n');
    return status;
}

/* Dump. */

static char *put_hex(char *out, uint64_t value, unsigned least_digits)
{
    unsigned digits = value ? (67 - (unsigned)__builtin_clzll(value)) / 4 : 1;
    if (digits < least_digits)
        digits = least_digits;
    for (unsigned i = digits; i-- > 0; value >>= 4)
        out[i] = "0123456789abcdef"[value & 15];
    return out + digits;
}

static char *put_number(char *out, uint64_t value)
{
    char digits[20];
    unsigned count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count > 0)
        *out++ = digits[--count];
    return out;
}

static char *put_text(char *out, const char *text)
{
    while (*text)
        *out++ = *text++;
    return out;
}

/* A line for a reference in each format; returns its end. `out` has LINE_BYTES of room. */
enum { LINE_BYTES = 4096, NAME_BYTES = 1024 };

/* A name in quotes, doubled where it has them; very long ones (templates) are cut. */
static char *put_quoted(char *out, const char *text)
{
    const char *end = out + NAME_BYTES;
    *out++ = '"';
    for (; *text && out < end; text++) {
        if (*text == '"')
            *out++ = '"';
        *out++ = *text;
    }
    *out++ = '"';
    return out;
}

static char *csv_line(char *out, const struct trace_reader *reader,
                      const struct trace_reference *reference, uint32_t thread)
{
    out = put_number(out, thread);
    out = put_text(out, reference->kind == TRACE_STORE ? ",store,0x" : ",load,0x");
    out = put_hex(out, reference->address, 1);
    *out++ = ',';
    out = put_number(out, reference->size);
    *out++ = ',';
    out = put_text(out, trace_class_name(reference->class));
    *out++ = ',';
    out = put_quoted(out, trace_reader_function(reader, reference->function, NULL));
    *out++ = '\n';
    return out;
}

/* Dinero's: 0 reads, 1 writes; an address without size. */
static char *din_line(char *out, const struct trace_reader *reader,
                      const struct trace_reference *reference, uint32_t thread)
{
    (void)reader;
    (void)thread;
    out = put_text(out, reference->kind == TRACE_STORE ? "1 " : "0 ");
    out = put_hex(out, reference->address, 1);
    *out++ = '\n';
    return out;
}

static char *lackey_line(char *out, const struct trace_reader *reader,
                         const struct trace_reference *reference, uint32_t thread)
{
    (void)reader;
    (void)thread;
    out = put_text(out, reference->kind == TRACE_STORE ? " S " : " L ");
    out = put_hex(out, reference->address, 8);
    *out++ = ',';
    out = put_number(out, reference->size);
    *out++ = '\n';
    return out;
}

struct dump_format {
    const char *name;
    const char *header;
    char *(*line)(char *out, const struct trace_reader *reader,
                  const struct trace_reference *reference, uint32_t thread);
};

static const struct dump_format dump_formats[] = {
    {"csv", "thread,kind,address,size,class,function\n", csv_line},
    {"din", "", din_line},
    {"lackey", "", lackey_line},
};

static int output_failed(void)
{
    if (errno != EPIPE)
        fprintf(stderr, "allotrope: standard output: %s\n", strerror(errno));
    exit(EXIT_DAMAGED);
}

static int dump(struct trace_reader *reader, const struct dump_format *format)
{
    static char buffer[1 << 16];
    char *out = put_text(buffer, format->header);
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0) {
        for (size_t i = 0; i < batch.count; i++) {
            out = format->line(out, reader, &batch.references[i], batch.thread);
            if (out > buffer + sizeof buffer - LINE_BYTES) {
                if (fwrite(buffer, (size_t)(out - buffer), 1, stdout) != 1)
                    return output_failed();
                out = buffer;
            }
        }
    }
    if (out > buffer && fwrite(buffer, (size_t)(out - buffer), 1, stdout) != 1)
        return output_failed();
    return status;
}

static int dump_events(struct trace_reader *reader)
{
    struct trace_batch batch;
    int status;
    puts("reference,instruction,allocated_bytes,thread,event,value1,value2,value3,value4,name");
    while ((status = trace_reader_next(reader, &batch)) > 0) {
        for (size_t i = 0; i < batch.event_count; i++) {
            const struct trace_event *event = &batch.events[i];
            printf("%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%u,%s,0x%" PRIx64 ",0x%" PRIx64
                   ",0x%" PRIx64 ",0x%" PRIx64 ",",
                   event->reference, event->instruction, event->allocated_bytes, event->thread,
                   trace_event_name(event->type), event->value[0], event->value[1], event->value[2],
                   event->value[3]);
            json_text(&(struct json){.output = stdout}, NULL, event->name ? event->name : "");
            putchar('\n');
        }
    }
    return status;
}

/* Bare struct trace_reference, then struct trace_event, batch for batch, each batch behind a
 * header: what trace_reader.py reads. */
static int export_batches(struct trace_reader *reader)
{
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0) {
        uint64_t header[4] = {batch.first_reference, batch.instruction,
                              (uint64_t)batch.event_count << 32 | batch.thread, batch.count};
        bool written = fwrite(header, sizeof header, 1, stdout) == 1;
        if (batch.count > 0)
            written = written && fwrite(batch.references, sizeof *batch.references, batch.count,
                                        stdout) == batch.count;
        for (size_t i = 0; i < batch.event_count; i++)
            written = written &&
                      fwrite(&batch.events[i], offsetof(struct trace_event, name), 1, stdout) == 1;
        if (!written)
            return output_failed();
    }
    return status;
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

/* Cut. */

/* The totals that the input's end states; the input is read on to there. */
static int read_whole(struct trace_reader *reader, struct trace_totals *whole)
{
    struct trace_batch batch;
    int status;
    while ((status = trace_reader_next(reader, &batch)) > 0)
        ;
    if (status == 0)
        *whole = *trace_reader_whole(reader);
    return status;
}

static int cut(struct trace_reader *reader, const char *output, uint64_t count)
{
    int fd =
        strcmp(output, "-") == 0 ? STDOUT_FILENO : open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    struct trace_writer *writer =
        fd < 0 ? NULL : trace_writer_open(fd, trace_reader_description(reader), 1);
    if (!writer) {
        fprintf(stderr, "allotrope: %s: %s\n", output, strerror(errno));
        return -2;
    }
    int error;
    int status = trace_copy(reader, writer, count, &error);
    uint64_t kept = trace_writer_totals(writer)->references;
    if (status == 0 && kept < count)
        fprintf(stderr, "allotrope: the trace has %" PRIu64 " references; all are kept\n", kept);
    struct trace_totals whole = *trace_reader_totals(reader);
    if (status == 0 && read_whole(reader, &whole) < 0)
        status = -1;
    if (status == 0)
        trace_writer_whole(writer, &whole);
    if (trace_writer_close(writer) < 0 && error == 0)
        error = errno;
    if (error != 0) {
        fprintf(stderr, "allotrope: %s: %s\n", output, strerror(error));
        return -2;
    }
    return status;
}

/* Command line. */

static int usage(void)
{
    fprintf(stderr, "usage: allotrope-trace info|check|events|export FILE\n"
                    "       allotrope-trace dump csv|din|lackey FILE\n"
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
        return info(reader, file_bytes);
    if (strcmp(word, "check") == 0 && argc == 3)
        return check(reader);
    if (strcmp(word, "events") == 0 && argc == 3)
        return dump_events(reader);
    if (strcmp(word, "export") == 0 && argc == 3)
        return export_batches(reader);
    if (strcmp(word, "dump") == 0 && argc == 4)
        for (size_t i = 0; i < sizeof dump_formats / sizeof *dump_formats; i++)
            if (strcmp(argv[2], dump_formats[i].name) == 0)
                return dump(reader, &dump_formats[i]);
    if (strcmp(word, "cut") == 0 && argc == 5) {
        char *end;
        errno = 0;
        uint64_t count = strtoull(argv[2], &end, 10);
        if (errno || *end || end == argv[2] || argv[2][0] == '-') {
            fprintf(stderr, "allotrope: COUNT must be a whole number, not '%s'\n", argv[2]);
            exit(EXIT_USAGE);
        }
        return cut(reader, argv[3], count);
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
    if (fflush(stdout) != 0)
        output_failed();
    return status < 0 ? EXIT_DAMAGED : 0;
}
