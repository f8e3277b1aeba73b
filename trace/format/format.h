/* SPDX-License-Identifier: MIT
 *
 * format.h: reading and writing traces (docs/trace-format.md describes the file).
 *
 * A trace is a sequence of chunks. Each decodes alone: it restates the superblocks, functions,
 * mappings and clocks that it needs. The reader turns chunks into batches of plain references,
 * with the events that happened between them.
 *
 *   struct trace_reader *reader = trace_reader_open(fd, error);
 *   struct trace_batch batch;
 *   while ((status = trace_reader_next(reader, &batch)) > 0)
 *       use(batch.references, batch.count, batch.events, batch.event_count);
 *   if (status < 0)
 *       report(trace_reader_error(reader));      // everything before it has been delivered
 *
 * A reader or writer belongs to one thread at a time. Several readers may share one file when
 * each has a descriptor of its own.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_FORMAT_H
#define ALLOTROPE_TRACE_FORMAT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum { TRACE_VERSION = 1, TRACE_ERROR_BYTES = 256 };

enum trace_kind { TRACE_LOAD, TRACE_STORE };

/* Whom a reference belongs to. */
enum trace_class {
    TRACE_CLASS_PROGRAM,
    TRACE_CLASS_ALLOCATOR,
    TRACE_CLASS_COLLECTOR,
    TRACE_CLASS_ROOTS,
    TRACE_CLASS_MARK,
    TRACE_CLASS_SWEEP,
    TRACE_CLASSES,
};

/* What a mapping is. */
enum trace_region {
    TRACE_REGION_ANONYMOUS,
    TRACE_REGION_FILE,
    TRACE_REGION_BREAK,
    TRACE_REGION_STACK,
    TRACE_REGION_DATA, /* static data of the program or a library */
    TRACE_REGIONS,
};

enum trace_event_type {
    TRACE_EVENT_CLASS = 1,        /* class from here on (of the thread that runs) */
    TRACE_EVENT_THREAD,           /* thread that runs from here on */
    TRACE_EVENT_THREAD_START,     /* thread, creator */
    TRACE_EVENT_THREAD_END,       /* thread */
    TRACE_EVENT_MALLOC,           /* pointer, size, site */
    TRACE_EVENT_REALLOC,          /* pointer, size, site, old pointer */
    TRACE_EVENT_FREE,             /* pointer, site */
    TRACE_EVENT_MAP,              /* start, bytes, enum trace_region; name */
    TRACE_EVENT_UNMAP,            /* start, bytes */
    TRACE_EVENT_SIGNAL,           /* signal number */
    TRACE_EVENT_SIGNAL_RETURN,    /* */
    TRACE_EVENT_COLLECTION_BEGIN, /* collector's number */
    TRACE_EVENT_COLLECTION_END,   /* live bytes */
    TRACE_EVENT_MARK,             /* value */
    TRACE_EVENT_TYPES,
};

/* One access to data. Sixteen bytes, without padding: arrays of it can be used from numpy. */
struct trace_reference {
    uint64_t address;
    uint32_t function; /* see trace_reader_function() */
    uint16_t size;     /* bytes */
    uint8_t kind;      /* enum trace_kind */
    uint8_t class;     /* enum trace_class */
};
_Static_assert(sizeof(struct trace_reference) == 16, "no padding");

/* Something that happened between two references. */
struct trace_event {
    uint64_t reference;       /* references before it, from the start of the trace */
    uint64_t instruction;     /* instructions executed before it */
    uint64_t allocated_bytes; /* bytes handed out before it, itself not counted */
    uint32_t thread;
    uint32_t type; /* enum trace_event_type */
    uint64_t value[4];
    const char *name; /* MAP: the mapped file, or ""; belongs to the reader, till the next call */
};

/* References in the order in which they happened, all of one thread. */
struct trace_batch {
    uint64_t first_reference; /* number of references[0], from the start of the trace */
    uint64_t instruction;     /* instructions executed when the batch begins */
    uint32_t thread;
    size_t count;
    const struct trace_reference *references;
    size_t event_count;
    const struct trace_event *events; /* ordered; the thread's switch comes first in its batch */
};

/* Exact counts. */
struct trace_totals {
    uint64_t references;
    uint64_t stores;
    uint64_t instructions;
    uint64_t superblocks; /* executed */
    uint64_t events;
    uint64_t allocated_bytes;
    uint64_t by_class[TRACE_CLASSES];
};

/* A superblock: a run of instructions that is entered at its top only. */
struct trace_slot {
    uint16_t size;
    uint8_t kind;
};

/* Writing. */

struct trace_writer;

/* Begins a trace.
 * fd: where it goes; need not be seekable. The caller closes it, after trace_writer_close().
 * description: what the trace is of, a JSON object in one line; copied.
 * level: zstd's compression level. Returns NULL when memory is short or the first write fails. */
struct trace_writer *trace_writer_open(int fd, const char *description, int level);

/* Names function `id`, before the first superblock that lies in it. Strings are copied. */
int trace_writer_function(struct trace_writer *writer, uint32_t id, const char *name,
                          const char *object);

/* Describes a superblock; returns its number, or -1 when memory is short. At most 65,535 slots. */
int64_t trace_writer_superblock(struct trace_writer *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots);

/* Describes a way through a superblock: the slots [first, end) and so many instructions are
 * executed. Returns its number, or -1 when memory is short. Events that fall inside a superblock
 * divide it into several paths. */
int64_t trace_writer_path(struct trace_writer *writer, uint32_t superblock, uint32_t first,
                          uint32_t end, uint32_t instructions);

/* The address that stands for an access which did not take place. */
#define TRACE_ABSENT UINT64_MAX

/* A path was taken, with these addresses for its slots.
 * Returns 0, or -1 when the trace cannot be written; errno says why. */
int trace_writer_execute(struct trace_writer *writer, uint32_t path, const uint64_t *addresses);

/* An event happened: of `event`, type, value and name count. CLASS and THREAD govern what
 * follows. Returns as trace_writer_execute(). */
int trace_writer_event(struct trace_writer *writer, const struct trace_event *event);

/* What has been written. */
const struct trace_totals *trace_writer_totals(const struct trace_writer *writer);

/* Totals of the run that this trace is a part of, where it is not the whole. */
void trace_writer_whole(struct trace_writer *writer, const struct trace_totals *whole);

/* Bytes written so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);

/* Writes what is left and the index, and frees the writer. Returns as trace_writer_execute(). */
int trace_writer_close(struct trace_writer *writer);

/* Reading. */

struct trace_reader;

/* Opens a trace from its beginning; fd need not be seekable, and stays the caller's.
 * error: at least TRACE_ERROR_BYTES; says what is wrong when NULL is returned. */
struct trace_reader *trace_reader_open(int fd, char *error);

/* The next references and events. Returns 1, 0 at the end, or -1 where the trace is damaged or
 * ends early (trace_reader_error() says at which byte; everything before has been delivered).
 * The batch's arrays are the reader's, valid until its next call. */
int trace_reader_next(struct trace_reader *reader, struct trace_batch *batch);

/* Goes on at the chunk that holds this reference, counted from the trace's start. Needs a
 * seekable fd. The next batch begins at or before the reference; the mappings of that moment
 * precede it as events. Returns 0, or -1 with trace_reader_error(). */
int trace_reader_seek(struct trace_reader *reader, uint64_t reference);

/* What trace_writer_open() was told. */
const char *trace_reader_description(const struct trace_reader *reader);

/* Name and object of a function; "?" where it is not known. Valid until the reader is closed. */
const char *trace_reader_function(const struct trace_reader *reader, uint32_t id,
                                  const char **object);

/* Counted while reading. */
const struct trace_totals *trace_reader_totals(const struct trace_reader *reader);

/* What the trace's end says about the run: NULL until the end has been read. */
const struct trace_totals *trace_reader_whole(const struct trace_reader *reader);

/* The error of the last call that returned -1. */
const char *trace_reader_error(const struct trace_reader *reader);

void trace_reader_close(struct trace_reader *reader);

/* Passes what is read on to a writer, exactly, until `count` references are written; used by
 * cut. Returns 0, or -1 with trace_reader_error() or errno in *write_error. */
int trace_copy(struct trace_reader *reader, struct trace_writer *writer, uint64_t count,
               int *write_error);

#endif
