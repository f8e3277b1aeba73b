/* SPDX-License-Identifier: MIT
 *
 * dump.c: a trace's references and events, one by one: as text, or as they are.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/base/json.h"
#include "trace/format/names.h"
#include "trace/inspect/inspect.h"

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

/* Dinero III's: 0 reads, 1 writes; an address without size, so that a reference which straddles
 * blocks touches the first alone. */
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

/* Dinero IV's extended din: r reads, w writes; address and size in hexadecimal. */
static char *xdin_line(char *out, const struct trace_reader *reader,
                       const struct trace_reference *reference, uint32_t thread)
{
    (void)reader;
    (void)thread;
    out = put_text(out, reference->kind == TRACE_STORE ? "w " : "r ");
    out = put_hex(out, reference->address, 1);
    *out++ = ' ';
    out = put_hex(out, reference->size, 1);
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
    {"xdin", "", xdin_line},
};

const struct dump_format *inspect_dump_format(const char *name)
{
    for (size_t i = 0; i < sizeof dump_formats / sizeof *dump_formats; i++)
        if (strcmp(name, dump_formats[i].name) == 0)
            return &dump_formats[i];
    return NULL;
}

int inspect_dump(struct trace_reader *reader, const struct dump_format *format)
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
                    inspect_output_failed();
                out = buffer;
            }
        }
    }
    if (out > buffer && fwrite(buffer, (size_t)(out - buffer), 1, stdout) != 1)
        inspect_output_failed();
    return status;
}

int inspect_events(struct trace_reader *reader)
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

int inspect_export(struct trace_reader *reader)
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
            inspect_output_failed();
    }
    return status;
}
