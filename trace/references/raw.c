/* SPDX-License-Identifier: MIT
 *
 * raw.c: from the recorder's words to executions, events and classes.
 *
 * A superblock that can be left in several ways is pending until it is known where its thread
 * went on. Doorbells divide it: what stands before one is executed, then the bell is rung.
 *
 * Classes: each thread has a stack of what it has entered, with the stack pointer at entry.
 * A signal puts the program on top, its return takes everything from there off. A jump to
 * another frame takes off what was entered in frames below its target: those are dead.
 */
#include "trace/references/raw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/protocol/doorbell.h"
#include "trace/protocol/reference_ring.h"

enum {
    /* A jump farther than this leads to another stack, and says nothing of this one. */
    STACK_REACH = 64 << 20,
    MOST_CLASSES_ENTERED = 256,
    /* Executions that are told to the sink at once: a few kilobytes. */
    EXECUTIONS = 256,
    /* How far ahead of what is taken the ring is fetched: another processor wrote it. */
    AHEAD_WORDS = 64,
};

/* References up to a bell, or to the path's end. */
struct segment {
    uint32_t path; /* the sink's number */
    uint16_t first_slot;
    uint16_t bell_slot; /* NO_BELL: none */
};
enum { NO_BELL = 0xffff };
#define NONE UINT32_MAX

struct way {
    uint64_t target;
    uint32_t slots;
    uint32_t instructions;
    uint32_t path;            /* the sink's number, where no bell divides it */
    struct segment *segments; /* up to the one with NO_BELL; NULL where no bell divides it */
};

struct superblock {
    uint64_t entry;
    uint32_t number; /* the sink's */
    uint32_t slot_count;
    uint32_t exit_count; /* ways that are exits; faults add further ways */
    uint32_t way_count;
    uint64_t *slots;
    struct way *ways;
};

/* What most executions ask for, half a cache line by header number. A superblock has a header for
 * itself, which leaves open how it was left, and one for each exit. */
struct header {
    uint64_t entry;
    uint64_t target; /* the superblock went on here by `path`, elsewhere by `other` */
    uint32_t path, other;
    uint16_t slot_count;
    uint16_t way; /* 0: told by where it goes on; else 1 + the exit */
    bool simple;  /* the paths say all: it has two ways at most, and no bells */
};

struct entered {
    uint64_t stack_pointer;
    uint8_t class;
    bool by_signal;
};

struct thread {
    uint32_t number;          /* Valgrind's numbers are used again, these are not */
    uint64_t size, site, old; /* told by doorbells, for the event that follows */
    uint32_t depth;
    struct entered entered[MOST_CLASSES_ENTERED];
};

struct raw_stream {
    const struct raw_sink *sink;
    struct header *headers;
    struct superblock **superblocks; /* by header number too */
    uint16_t *slot_counts; /* likewise: dense, since the next header's place waits for it */
    size_t header_count, header_capacity;
    uint32_t pending; /* header number; NONE */
    const uint64_t *pending_slots;
    uint64_t kept_slots[REFERENCE_RING_MAX_SLOTS];
    struct thread **threads;
    size_t thread_count;
    uint32_t threads_started;
    uint32_t running;
    uint32_t class;         /* as last told to the sink */
    size_t execution_count; /* of those that the sink has not been told */
    struct raw_execution executions[EXECUTIONS];
    char error[TRACE_ERROR_BYTES];
};

static int fail(struct raw_stream *stream, const char *what, uint64_t value)
{
    snprintf(stream->error, sizeof stream->error, "the recorder's stream is damaged: %s %" PRIu64,
             what, value);
    errno = EPROTO;
    return -1;
}

static int sink_failed(struct raw_stream *stream)
{
    int error = errno;
    snprintf(stream->error, sizeof stream->error, "%s", strerror(error));
    errno = error;
    return -1;
}

/* Classes. */

static struct thread *running_thread(struct raw_stream *stream)
{
    return stream->threads[stream->running];
}

/* Makes sure that a thread's state exists. */
static int know_thread(struct raw_stream *stream, uint64_t thread)
{
    enum { MOST_THREADS = 1 << 20 };
    if (thread >= MOST_THREADS)
        return fail(stream, "thread", thread);
    if (thread >= stream->thread_count) {
        struct thread **larger = realloc(stream->threads, (thread + 1) * sizeof *larger);
        if (!larger)
            return sink_failed(stream);
        memset(larger + stream->thread_count, 0,
               (thread + 1 - stream->thread_count) * sizeof *larger);
        stream->threads = larger;
        stream->thread_count = thread + 1;
    }
    if (!stream->threads[thread])
        stream->threads[thread] = calloc(1, sizeof(struct thread));
    return stream->threads[thread] ? 0 : sink_failed(stream);
}

static int tell_executions(struct raw_stream *stream)
{
    size_t count = stream->execution_count;
    stream->execution_count = 0;
    return stream->sink->execute(stream->sink->context, stream->executions, count) < 0
               ? sink_failed(stream)
               : 0;
}

static int tell(struct raw_stream *stream, const struct trace_event *event)
{
    if (tell_executions(stream) < 0)
        return -1;
    return stream->sink->event(stream->sink->context, event) < 0 ? sink_failed(stream) : 0;
}

static int tell_class(struct raw_stream *stream)
{
    const struct thread *thread = running_thread(stream);
    uint32_t class = thread->depth ? thread->entered[thread->depth - 1].class : 0;
    if (class == stream->class)
        return 0;
    stream->class = class;
    return tell(stream, &(struct trace_event){.type = TRACE_EVENT_CLASS, .value = {class}});
}

static int enter(struct raw_stream *stream, uint32_t class, uint64_t stack_pointer, bool by_signal)
{
    struct thread *thread = running_thread(stream);
    if (thread->depth == MOST_CLASSES_ENTERED)
        return fail(stream, "classes entered and not left:", thread->depth);
    thread->entered[thread->depth++] = (struct entered){stack_pointer, (uint8_t) class, by_signal};
    return tell_class(stream);
}

static int leave(struct raw_stream *stream)
{
    struct thread *thread = running_thread(stream);
    if (thread->depth > 0 && !thread->entered[thread->depth - 1].by_signal)
        thread->depth--;
    return tell_class(stream);
}

static int return_from_signal(struct raw_stream *stream)
{
    struct thread *thread = running_thread(stream);
    while (thread->depth > 0 && !thread->entered[--thread->depth].by_signal)
        ;
    return tell_class(stream);
}

/* Drops what was entered in frames that a jump to `stack_pointer` leaves. */
static int unwind(struct raw_stream *stream, uint64_t stack_pointer)
{
    struct thread *thread = running_thread(stream);
    for (uint32_t i = 0; i < thread->depth; i++) {
        uint64_t entered_at = thread->entered[i].stack_pointer;
        if (entered_at < stack_pointer && stack_pointer - entered_at < STACK_REACH) {
            thread->depth = i;
            break;
        }
    }
    return tell_class(stream);
}

/* Doorbells. */

static int ring_event(struct raw_stream *stream, uint32_t index, uint64_t value)
{
    const struct thread *thread = running_thread(stream);
    struct trace_event event = {.value = {value, thread->size, thread->site, thread->old}};
    switch (index) {
    case DOORBELL_MALLOC:
        event.type = TRACE_EVENT_MALLOC;
        break;
    case DOORBELL_REALLOC:
        event.type = TRACE_EVENT_REALLOC;
        break;
    case DOORBELL_FREE:
        event.type = TRACE_EVENT_FREE;
        event.value[1] = thread->site;
        break;
    case DOORBELL_COLLECTION_BEGIN:
        event.type = TRACE_EVENT_COLLECTION_BEGIN;
        break;
    case DOORBELL_COLLECTION_END:
        event.type = TRACE_EVENT_COLLECTION_END;
        break;
    case DOORBELL_MARK:
        event.type = TRACE_EVENT_MARK;
        break;
    default:
        return fail(stream, "doorbell", index);
    }
    return tell(stream, &event);
}

static int ring(struct raw_stream *stream, uint64_t slot, uint64_t value)
{
    struct thread *thread = running_thread(stream);
    uint32_t index = slot >> 8 & 0xff;
    if ((slot & 0xff) == RAW_STACK_JUMP)
        return unwind(stream, value);
    switch (index) {
    case DOORBELL_SIZE:
        thread->size = value;
        return 0;
    case DOORBELL_SITE:
        thread->site = value;
        return 0;
    case DOORBELL_OLD:
        thread->old = value;
        return 0;
    case DOORBELL_LEAVE:
        return leave(stream);
    default:
        if (index >= DOORBELL_ENTER && index < DOORBELL_ENTER + DOORBELL_CLASSES)
            return enter(stream, index - DOORBELL_ENTER, value, false);
        return ring_event(stream, index, value);
    }
}

/* Superblocks. */

static bool is_bell(uint64_t slot)
{
    return (slot & 0xff) == RAW_DOORBELL || (slot & 0xff) == RAW_STACK_JUMP;
}

/* Describes to the sink the slots [first, end) of a way, of which `bells` bells precede, and the
 * instructions from `done` to `now`. Returns the path's number, or -1. */
static int64_t describe_path(struct raw_stream *stream, const struct superblock *superblock,
                             uint32_t first, uint32_t end, uint32_t bells, uint32_t instructions)
{
    int64_t path = stream->sink->path(stream->sink->context, superblock->number, first - bells,
                                      end - bells, instructions);
    return path < 0 ? sink_failed(stream) : path;
}

/* Describes a way to the sink, in as many segments as its bells make of it. */
static int prepare_way(struct raw_stream *stream, const struct superblock *superblock,
                       struct way *way)
{
    uint32_t bells = 0;
    for (uint32_t i = 0; i < way->slots; i++)
        bells += is_bell(superblock->slots[i]);
    if (bells == 0) {
        int64_t path = describe_path(stream, superblock, 0, way->slots, 0, way->instructions);
        way->path = (uint32_t)path;
        return path < 0 ? -1 : 0;
    }
    struct segment *segment = way->segments = calloc(bells + 1, sizeof *segment);
    if (!segment)
        return sink_failed(stream);
    uint32_t first = 0, instructions = 0, passed = 0;
    for (uint32_t i = 0; i <= way->slots; i++) {
        bool end = i == way->slots;
        if (!end && !is_bell(superblock->slots[i]))
            continue;
        uint32_t now = end ? way->instructions : superblock->slots[i] >> 32 & 0xffff;
        int64_t path = describe_path(stream, superblock, first, i, passed++, now - instructions);
        if (path < 0)
            return -1;
        *segment++ = (struct segment){(uint32_t)path, (uint16_t)first, end ? NO_BELL : (uint16_t)i};
        first = i + 1;
        instructions = now;
    }
    return 0;
}

static int describe_superblock(struct raw_stream *stream, struct superblock *superblock,
                               uint64_t address, uint32_t function)
{
    struct trace_slot slots[REFERENCE_RING_MAX_SLOTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < superblock->slot_count; i++) {
        uint64_t slot = superblock->slots[i];
        if (!is_bell(slot))
            slots[count++] = (struct trace_slot){
                (uint16_t)(slot >> 16), (slot & 0xff) == RAW_STORE ? TRACE_STORE : TRACE_LOAD};
    }
    int64_t number =
        stream->sink->superblock(stream->sink->context, address, function, count, slots);
    if (number < 0)
        return sink_failed(stream);
    superblock->number = (uint32_t)number;
    for (uint32_t i = 0; i < superblock->way_count; i++)
        if (prepare_way(stream, superblock, &superblock->ways[i]) < 0)
            return -1;
    return 0;
}

static int reserve_headers(struct raw_stream *stream, size_t more)
{
    if (stream->header_count + more <= stream->header_capacity)
        return 0;
    size_t capacity = 2 * (stream->header_count + more) + 4096;
    struct header *headers = reallocarray(stream->headers, capacity, sizeof *headers);
    if (headers)
        stream->headers = headers;
    struct superblock **superblocks =
        reallocarray(stream->superblocks, capacity, sizeof *superblocks);
    if (superblocks)
        stream->superblocks = superblocks;
    uint16_t *slot_counts = reallocarray(stream->slot_counts, capacity, sizeof *slot_counts);
    if (slot_counts)
        stream->slot_counts = slot_counts;
    if (!headers || !superblocks || !slot_counts)
        return sink_failed(stream);
    stream->header_capacity = capacity;
    return 0;
}

/* Adds the headers of a superblock that the sink knows, for which there is room. */
static void add_headers(struct raw_stream *stream, struct superblock *superblock)
{
    const struct way *ways = superblock->ways;
    uint32_t count = superblock->exit_count;
    for (uint32_t i = 0; i <= count; i++) {
        const struct way *first = i > 0 ? &ways[i - 1] : &ways[0];
        const struct way *last = i > 0 ? first : &ways[count - 1];
        stream->headers[stream->header_count] = (struct header){
            .entry = superblock->entry,
            .target = first->target,
            .path = first->path,
            .other = last->path,
            .slot_count = (uint16_t)superblock->slot_count,
            .way = (uint16_t)i,
            .simple = (i > 0 || count <= 2) && !first->segments && !last->segments,
        };
        stream->superblocks[stream->header_count] = superblock;
        stream->slot_counts[stream->header_count] = (uint16_t)superblock->slot_count;
        stream->header_count++;
    }
}

static void free_superblock(struct superblock *superblock)
{
    for (uint32_t i = 0; superblock->ways && i < superblock->way_count; i++)
        free(superblock->ways[i].segments);
    free(superblock->ways);
    free(superblock->slots);
    free(superblock);
}

/* Reads what RAW_DEFINE says, and describes it to the sink. */
static int fill_superblock(struct raw_stream *stream, struct superblock *superblock,
                           const uint64_t *words)
{
    uint32_t slots = superblock->slot_count, paths = superblock->exit_count;
    superblock->slots = calloc(slots + 1, sizeof *superblock->slots);
    superblock->ways = calloc(paths, sizeof *superblock->ways);
    if (!superblock->slots || !superblock->ways || reserve_headers(stream, paths + 1) < 0)
        return sink_failed(stream);
    memcpy(superblock->slots, words + 4, slots * sizeof *words);
    for (uint32_t i = 0; i < paths; i++) {
        const uint64_t *path = words + 4 + slots + 2 * (size_t)i;
        superblock->ways[i] = (struct way){
            .slots = path[0] & 0xffff, .instructions = path[0] >> 16 & 0xffff, .target = path[1]};
        if (superblock->ways[i].slots > slots)
            return fail(stream, "definition of superblock", words[0]);
    }
    return describe_superblock(stream, superblock, words[1], (uint32_t)words[2]);
}

static int define(struct raw_stream *stream, const uint64_t *words, size_t count)
{
    uint32_t slots = count >= 4 ? (uint32_t)words[3] : 0, paths = count >= 4 ? words[3] >> 32 : 0;
    if (count < 4 || words[0] != stream->header_count || slots > REFERENCE_RING_MAX_SLOTS ||
        paths == 0 || paths > REFERENCE_RING_MAX_SLOTS || count != 4 + slots + 2 * (size_t)paths)
        return fail(stream, "definition of superblock", words[0]);
    struct superblock *superblock = calloc(1, sizeof *superblock);
    if (!superblock)
        return sink_failed(stream);
    superblock->entry = words[1];
    superblock->slot_count = slots;
    superblock->exit_count = superblock->way_count = paths;
    if (fill_superblock(stream, superblock, words) < 0) {
        free_superblock(superblock);
        return -1;
    }
    add_headers(stream, superblock);
    return 0;
}

/* Executions. */

static inline int add_execution(struct raw_stream *stream, uint32_t path, const uint64_t *addresses)
{
    if (stream->execution_count == EXECUTIONS && tell_executions(stream) < 0)
        return -1;
    stream->executions[stream->execution_count++] = (struct raw_execution){addresses, path};
    return 0;
}

static __attribute__((noinline)) int execute_ringing(struct raw_stream *stream,
                                                     const struct superblock *superblock,
                                                     const struct way *way, const uint64_t *slots)
{
    for (const struct segment *segment = way->segments;; segment++) {
        if (add_execution(stream, segment->path, slots + segment->first_slot) < 0)
            return -1;
        if (segment->bell_slot == NO_BELL)
            return 0;
        if (ring(stream, superblock->slots[segment->bell_slot], slots[segment->bell_slot]) < 0)
            return -1;
    }
}

static int execute(struct raw_stream *stream, const struct superblock *superblock,
                   const struct way *way, const uint64_t *slots)
{
    if (way->segments)
        return execute_ringing(stream, superblock, way, slots);
    return add_execution(stream, way->path, slots);
}

static __attribute__((noinline)) int resolve_among_many(struct raw_stream *stream,
                                                        const struct superblock *superblock,
                                                        uint64_t address)
{
    uint32_t i = 0, last = superblock->exit_count - 1;
    while (i < last && superblock->ways[i].target != address)
        i++;
    return execute(stream, superblock, &superblock->ways[i], stream->pending_slots);
}

/* The pending superblock's thread goes on at an address. */
static inline int resolve(struct raw_stream *stream, uint64_t address)
{
    uint32_t pending = stream->pending;
    if (pending == NONE)
        return 0;
    stream->pending = NONE;
    const struct header *header = &stream->headers[pending];
    if (!header->simple)
        return resolve_among_many(stream, stream->superblocks[pending], address);
    return add_execution(stream, address == header->target ? header->path : header->other,
                         stream->pending_slots);
}

/* The superblock executed last was interrupted after so many instructions. */
static int interrupted(struct raw_stream *stream, uint64_t instructions)
{
    if (stream->pending == NONE)
        return fail(stream, "interruption after", instructions);
    struct superblock *superblock = stream->superblocks[stream->pending];
    stream->pending = NONE;
    uint32_t i = superblock->exit_count;
    while (i < superblock->way_count && superblock->ways[i].instructions != instructions)
        i++;
    if (i == superblock->way_count) {
        struct way *ways = realloc(superblock->ways, (i + 1) * sizeof *ways);
        if (!ways)
            return sink_failed(stream);
        superblock->ways = ways;
        superblock->way_count++;
        ways[i] = (struct way){.instructions = (uint32_t)instructions};
        while (ways[i].slots < superblock->slot_count &&
               (superblock->slots[ways[i].slots] >> 32 & 0xffff) <= instructions)
            ways[i].slots++;
        if (prepare_way(stream, superblock, &ways[i]) < 0)
            return -1;
    }
    return execute(stream, superblock, &superblock->ways[i], stream->pending_slots);
}

/* Events. */

static int switch_thread(struct raw_stream *stream, uint64_t thread)
{
    if (know_thread(stream, thread) < 0)
        return -1;
    stream->running = (uint32_t)thread;
    struct trace_event event = {.type = TRACE_EVENT_THREAD,
                                .value = {running_thread(stream)->number}};
    return tell(stream, &event) < 0 ? -1 : tell_class(stream);
}

static int start_thread(struct raw_stream *stream, uint64_t thread, uint64_t creator)
{
    if (know_thread(stream, thread) < 0 || know_thread(stream, creator) < 0)
        return -1;
    memset(stream->threads[thread], 0, sizeof *stream->threads[thread]);
    stream->threads[thread]->number = ++stream->threads_started;
    struct trace_event event = {
        .type = TRACE_EVENT_THREAD_START,
        .value = {stream->threads_started, stream->threads[creator]->number}};
    return tell(stream, &event);
}

static int end_thread(struct raw_stream *stream, uint64_t thread)
{
    if (know_thread(stream, thread) < 0)
        return -1;
    struct trace_event event = {.type = TRACE_EVENT_THREAD_END,
                                .value = {stream->threads[thread]->number}};
    return tell(stream, &event);
}

static int plain_event(struct raw_stream *stream, uint32_t type, const uint64_t *words,
                       size_t count, const char *name)
{
    struct trace_event event = {.type = type, .name = name};
    memcpy(event.value, words, count * sizeof *words);
    return tell(stream, &event);
}

static int name_function(struct raw_stream *stream, const uint64_t *words, size_t count)
{
    const char *name = (const char *)(words + 1), *end = (const char *)(words + count);
    if (count < 2 || end[-1] != 0)
        return fail(stream, "function", words[0]);
    const char *object = name + strlen(name) + 1;
    if (stream->sink->function(stream->sink->context, (uint32_t)words[0], name,
                               object < end ? object : "?") < 0)
        return sink_failed(stream);
    return 0;
}

/* Payload words that an event has at least. */
static const uint8_t least_words[] = {
    [RAW_DEFINE] = 4,        [RAW_FUNCTION] = 2, [RAW_THREAD] = 1,      [RAW_THREAD_START] = 2,
    [RAW_THREAD_END] = 1,    [RAW_MAP] = 4,      [RAW_UNMAP] = 2,       [RAW_SIGNAL] = 3,
    [RAW_SIGNAL_RETURN] = 1, [RAW_RESUME] = 1,   [RAW_INTERRUPTED] = 1,
};

static int take_event(struct raw_stream *stream, uint32_t type, const uint64_t *words, size_t count)
{
    if (type >= sizeof least_words || count < least_words[type])
        return fail(stream, "event of type", type);
    switch (type) {
    case RAW_DEFINE:
        return define(stream, words, count);
    case RAW_FUNCTION:
        return name_function(stream, words, count);
    case RAW_RESUME:
        return resolve(stream, words[0]);
    case RAW_INTERRUPTED:
        return interrupted(stream, words[0]);
    default:
        break;
    }
    if (stream->pending != NONE)
        return fail(stream, "unsettled superblock before event", type);
    switch (type) {
    case RAW_THREAD:
        return switch_thread(stream, words[0]);
    case RAW_THREAD_START:
        return start_thread(stream, words[0], words[1]);
    case RAW_THREAD_END:
        return end_thread(stream, words[0]);
    case RAW_MAP:
        return plain_event(stream, TRACE_EVENT_MAP, words, 3, (const char *)(words + 3));
    case RAW_UNMAP:
        return plain_event(stream, TRACE_EVENT_UNMAP, words, 2, NULL);
    case RAW_SIGNAL:
        if (plain_event(stream, TRACE_EVENT_SIGNAL, words + 1, 1, NULL) < 0)
            return -1;
        return enter(stream, TRACE_CLASS_PROGRAM, words[2], true);
    case RAW_SIGNAL_RETURN:
        if (plain_event(stream, TRACE_EVENT_SIGNAL_RETURN, words, 0, NULL) < 0)
            return -1;
        return return_from_signal(stream);
    default:
        return fail(stream, "event of type", type);
    }
}

/* The stream. */

/* Takes the superblock that begins at `words`, behind its header. Returns its slots, or -1. */
static inline int64_t take_superblock(struct raw_stream *stream, uint32_t id, const uint64_t *words,
                                      size_t left)
{
    if (id >= stream->header_count)
        return fail(stream, "superblock", id);
    uint16_t slot_count = stream->slot_counts[id];
    if (slot_count > left)
        return fail(stream, "cut superblock", id);
    __builtin_prefetch(words + AHEAD_WORDS);
    const struct header *header = &stream->headers[id];
    if (resolve(stream, header->entry) < 0)
        return -1;
    stream->pending_slots = words;
    if (header->way == 0) {
        stream->pending = id;
        return slot_count;
    }
    const struct superblock *superblock = stream->superblocks[id];
    int status = header->simple
                     ? add_execution(stream, header->path, words)
                     : execute(stream, superblock, &superblock->ways[header->way - 1], words);
    return status < 0 ? -1 : slot_count;
}

static int64_t take_words(struct raw_stream *stream, const uint64_t *words, size_t count,
                          size_t enough)
{
    const uint64_t *start = words, *end = words + count;
    while (words < end && (size_t)(words - start) < enough) {
        uint64_t word = *words++;
        if ((word & ~RAW_HEADER_MASK) == RAW_HEADER) {
            int64_t slots =
                take_superblock(stream, word & RAW_HEADER_MASK, words, (size_t)(end - words));
            if (slots < 0)
                return -1;
            words += slots;
        } else if ((word & 0xff00000000000000) == RAW_EVENT) {
            size_t payload = word >> 16 & 0xffffffff;
            if (payload > (size_t)(end - words))
                return fail(stream, "cut event", word & 0xffff);
            if (take_event(stream, word & 0xffff, words, payload) < 0)
                return -1;
            words += payload;
        } else {
            return fail(stream, "word", word);
        }
    }
    return words - start;
}

int64_t raw_take(struct raw_stream *stream, const uint64_t *words, size_t count, size_t enough)
{
    int64_t taken = take_words(stream, words, count, enough);
    if (tell_executions(stream) < 0 || taken < 0)
        return -1;
    if (stream->pending != NONE && stream->pending_slots != stream->kept_slots) {
        memcpy(stream->kept_slots, stream->pending_slots,
               stream->slot_counts[stream->pending] * sizeof *words);
        stream->pending_slots = stream->kept_slots;
    }
    return taken;
}

int raw_finish(struct raw_stream *stream)
{
    return resolve(stream, 0) < 0 ? -1 : tell_executions(stream);
}

const char *raw_error(const struct raw_stream *stream)
{
    return stream->error;
}

struct raw_stream *raw_open(const struct raw_sink *sink)
{
    struct raw_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->sink = sink;
    stream->pending = NONE;
    if (know_thread(stream, 0) == 0)
        return stream;
    raw_close(stream);
    return NULL;
}

void raw_close(struct raw_stream *stream)
{
    for (size_t i = 0; i < stream->header_count; i++)
        if (stream->headers[i].way == 0)
            free_superblock(stream->superblocks[i]);
    for (size_t i = 0; i < stream->thread_count; i++)
        free(stream->threads[i]);
    free(stream->threads);
    free(stream->headers);
    free(stream->superblocks);
    free(stream->slot_counts);
    free(stream);
}

/* Into a trace. */

static int write_function(void *writer, uint32_t id, const char *name, const char *object)
{
    return trace_writer_function(writer, id, name, object);
}

static int64_t write_superblock(void *writer, uint64_t address, uint32_t function,
                                uint32_t slot_count, const struct trace_slot *slots)
{
    return trace_writer_superblock(writer, address, function, slot_count, slots);
}

static int64_t write_path(void *writer, uint32_t superblock, uint32_t first, uint32_t end,
                          uint32_t instructions)
{
    return trace_writer_path(writer, superblock, first, end, instructions);
}

static int write_executions(void *writer, const struct raw_execution *executions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (trace_writer_execute(writer, executions[i].path, executions[i].addresses) < 0)
            return -1;
    return 0;
}

static int write_event(void *writer, const struct trace_event *event)
{
    return trace_writer_event(writer, event);
}

struct raw_sink raw_writer_sink(struct trace_writer *writer)
{
    return (struct raw_sink){writer,     write_function,   write_superblock,
                             write_path, write_executions, write_event};
}
