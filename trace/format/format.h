/* SPDX-License-Identifier: MIT
 *
 * format.h: what a trace is made of (docs/trace-format.md describes the file).
 *
 * A trace is a sequence of chunks. Each decodes alone: it restates the superblocks, functions,
 * mappings and clocks that it needs. reader.h reads a trace, writer.h writes one.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_FORMAT_H
#define ALLOTROPE_TRACE_FORMAT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum {
    TRACE_VERSION = 2,
    TRACE_ERROR_BYTES = 256,
    TRACE_MOST_SLOTS = 0xf000, /* of a superblock: each is a base's number */
};

enum trace_kind {
    TRACE_LOAD,
    TRACE_STORE,
    TRACE_POINTER, /* of a slot that is no reference: others are derived from its address */
};

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

/* What an address is a constant distance from. An address with a base is derived, and never told.
 */
enum trace_base {
    TRACE_TOLD, /* nothing that is known: each execution tells it */
    TRACE_BASE_NOTHING,
    TRACE_BASE_STACK, /* the stack pointer that the superblock found */
    TRACE_BASE_SLOT,  /* and up: + number of a told slot, which comes before in the same path and is
                       * never absent */
};

/* Where a superblock accesses data. A superblock is a run of instructions that is entered at its
 * top only. */
struct trace_slot {
    uint16_t size;
    uint8_t kind;
    uint16_t base;        /* enum trace_base */
    uint64_t offset;      /* of the address from its base */
    uint64_t instruction; /* the address of its instruction; 0 when unknown */
};

/* A way through a superblock. */
struct trace_path {
    uint32_t superblock;
    uint32_t first, end; /* the slots that are executed */
    uint32_t instructions;
    uint16_t stack_base; /* the stack pointer behind it, as a slot's; TRACE_TOLD: unchanged */
    uint64_t stack_offset;
};

/* A path was taken, with these addresses for its told slots. */
struct trace_execution {
    const uint64_t *addresses;
    uint32_t path;
};

/* The address that stands for an access which did not take place. */
#define TRACE_ABSENT UINT64_MAX

#endif
