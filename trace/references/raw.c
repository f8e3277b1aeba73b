/* SPDX-License-Identifier: MIT
 *
 * raw.c: from the recorder's words to executions and events; see raw_state.h.
 *
 * A superblock that can be left in several ways is pending until it is known where its thread
 * went on.
 */
#include "trace/references/raw.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/references/raw_state.h"

/* How far ahead of what is taken the ring is fetched: another processor wrote it. */
enum { AHEAD_WORDS = 64 };

int raw_fail(struct raw_decoder *decoder, const char *what, uint64_t value)
{
    snprintf(decoder->error, sizeof decoder->error, "the recorder's stream is damaged: %s %" PRIu64,
             what, value);
    errno = EPROTO;
    return -1;
}

int raw_sink_failed(struct raw_decoder *decoder)
{
    int error = errno;
    snprintf(decoder->error, sizeof decoder->error, "%s", strerror(error));
    errno = error;
    return -1;
}

int raw_tell_executions(struct raw_decoder *decoder)
{
    size_t count = decoder->execution_count;
    decoder->execution_count = 0;
    return decoder->sink->execute(decoder->sink->context, decoder->executions, count) < 0
               ? raw_sink_failed(decoder)
               : 0;
}

int raw_tell(struct raw_decoder *decoder, const struct trace_event *event)
{
    if (raw_tell_executions(decoder) < 0)
        return -1;
    return decoder->sink->event(decoder->sink->context, event) < 0 ? raw_sink_failed(decoder) : 0;
}

/* Executions. */

static inline int add_execution(struct raw_decoder *decoder, uint32_t path,
                                const uint64_t *addresses)
{
    if (decoder->execution_count == EXECUTIONS && raw_tell_executions(decoder) < 0)
        return -1;
    decoder->executions[decoder->execution_count++] = (struct trace_execution){addresses, path};
    return 0;
}

static __attribute__((noinline)) int execute_segments(struct raw_decoder *decoder,
                                                      const struct superblock *superblock,
                                                      const struct way *way, const uint64_t *words)
{
    for (const struct segment *segment = way->segments;; segment++) {
        if (add_execution(decoder, segment->path, words + segment->first_word) < 0)
            return -1;
        if (segment->bell_slot == NO_BELL)
            return 0;
        if (raw_bell(decoder, superblock->slots[segment->bell_slot].description,
                     words[segment->bell_word]) < 0)
            return -1;
    }
}

static int execute(struct raw_decoder *decoder, const struct superblock *superblock,
                   const struct way *way, const uint64_t *words)
{
    if (way->segments)
        return execute_segments(decoder, superblock, way, words);
    return add_execution(decoder, way->path, words);
}

static __attribute__((noinline)) int resolve_among_many(struct raw_decoder *decoder,
                                                        const struct superblock *superblock,
                                                        uint64_t address)
{
    uint32_t i = 0, last = superblock->exit_count - 1;
    while (i < last && superblock->ways[i].target != address)
        i++;
    return execute(decoder, superblock, &superblock->ways[i], decoder->pending_words);
}

/* The pending superblock's thread goes on at an address. */
static inline int resolve(struct raw_decoder *decoder, uint64_t address)
{
    uint32_t pending = decoder->pending;
    if (pending == NO_HEADER)
        return 0;
    decoder->pending = NO_HEADER;
    const struct header *header = &decoder->headers[pending];
    if (!header->simple)
        return resolve_among_many(decoder, decoder->superblocks[pending], address);
    return add_execution(decoder, address == header->target ? header->path : header->other,
                         decoder->pending_words);
}

/* The superblock executed last was interrupted after so many instructions. */
static int interrupted(struct raw_decoder *decoder, uint64_t instructions)
{
    if (decoder->pending == NO_HEADER)
        return raw_fail(decoder, "interruption after", instructions);
    struct superblock *superblock = decoder->superblocks[decoder->pending];
    decoder->pending = NO_HEADER;
    const struct way *way = raw_interrupted_way(decoder, superblock, instructions);
    return way ? execute(decoder, superblock, way, decoder->pending_words) : -1;
}

/* Events. */

static int switch_thread(struct raw_decoder *decoder, uint64_t thread)
{
    if (raw_know_thread(decoder, thread) < 0)
        return -1;
    decoder->running = (uint32_t)thread;
    struct trace_event event = {.type = TRACE_EVENT_THREAD,
                                .value = {raw_running_thread(decoder)->number}};
    return raw_tell(decoder, &event) < 0 ? -1 : raw_tell_class(decoder);
}

static int start_thread(struct raw_decoder *decoder, uint64_t thread, uint64_t creator)
{
    if (raw_know_thread(decoder, thread) < 0 || raw_know_thread(decoder, creator) < 0)
        return -1;
    memset(decoder->threads[thread], 0, sizeof *decoder->threads[thread]);
    decoder->threads[thread]->number = ++decoder->threads_started;
    struct trace_event event = {
        .type = TRACE_EVENT_THREAD_START,
        .value = {decoder->threads_started, decoder->threads[creator]->number}};
    return raw_tell(decoder, &event);
}

static int end_thread(struct raw_decoder *decoder, uint64_t thread)
{
    if (raw_know_thread(decoder, thread) < 0)
        return -1;
    struct trace_event event = {.type = TRACE_EVENT_THREAD_END,
                                .value = {decoder->threads[thread]->number}};
    return raw_tell(decoder, &event);
}

static int plain_event(struct raw_decoder *decoder, uint32_t type, const uint64_t *words,
                       size_t count, const char *name)
{
    struct trace_event event = {.type = type, .name = name};
    memcpy(event.value, words, count * sizeof *words);
    return raw_tell(decoder, &event);
}

static int move_stack(struct raw_decoder *decoder, uint64_t pointer)
{
    if (raw_tell_executions(decoder) < 0)
        return -1;
    decoder->sink->stack(decoder->sink->context, pointer);
    return 0;
}

static int name_function(struct raw_decoder *decoder, const uint64_t *words, size_t count)
{
    const char *name = (const char *)(words + 1), *end = (const char *)(words + count);
    if (count < 2 || end[-1] != 0)
        return raw_fail(decoder, "function", words[0]);
    const char *object = name + strlen(name) + 1;
    if (decoder->sink->function(decoder->sink->context, (uint32_t)words[0], name,
                                object < end ? object : "?") < 0)
        return raw_sink_failed(decoder);
    return 0;
}

/* Payload words that an event has at least. */
static const uint8_t least_words[] = {
    [RAW_DEFINE] = 4,        [RAW_FUNCTION] = 2, [RAW_THREAD] = 1, [RAW_THREAD_START] = 2,
    [RAW_THREAD_END] = 1,    [RAW_MAP] = 4,      [RAW_UNMAP] = 2,  [RAW_SIGNAL] = 3,
    [RAW_SIGNAL_RETURN] = 1, [RAW_RESUME] = 1,   [RAW_STACK] = 1,  [RAW_INTERRUPTED] = 1,
};

static int take_event(struct raw_decoder *decoder, uint32_t type, const uint64_t *words,
                      size_t count)
{
    if (type >= sizeof least_words || count < least_words[type])
        return raw_fail(decoder, "event of type", type);
    switch (type) {
    case RAW_DEFINE:
        return raw_define(decoder, words, count);
    case RAW_FUNCTION:
        return name_function(decoder, words, count);
    case RAW_RESUME:
        return resolve(decoder, words[0]);
    case RAW_INTERRUPTED:
        return interrupted(decoder, words[0]);
    default:
        break;
    }
    if (decoder->pending != NO_HEADER)
        return raw_fail(decoder, "unsettled superblock before event", type);
    switch (type) {
    case RAW_STACK:
        return move_stack(decoder, words[0]);
    case RAW_THREAD:
        return switch_thread(decoder, words[0]);
    case RAW_THREAD_START:
        return start_thread(decoder, words[0], words[1]);
    case RAW_THREAD_END:
        return end_thread(decoder, words[0]);
    case RAW_MAP:
        return plain_event(decoder, TRACE_EVENT_MAP, words, 3, (const char *)(words + 3));
    case RAW_UNMAP:
        return plain_event(decoder, TRACE_EVENT_UNMAP, words, 2, NULL);
    case RAW_SIGNAL:
        if (plain_event(decoder, TRACE_EVENT_SIGNAL, words + 1, 1, NULL) < 0)
            return -1;
        return raw_enter_class(decoder, TRACE_CLASS_PROGRAM, words[2], true);
    case RAW_SIGNAL_RETURN:
        if (plain_event(decoder, TRACE_EVENT_SIGNAL_RETURN, words, 0, NULL) < 0)
            return -1;
        return raw_return_from_signal(decoder);
    default:
        return raw_fail(decoder, "event of type", type);
    }
}

/* The stream. */

/* Takes the superblock that begins at `words`, behind its header. Returns its words, or -1. */
static inline int64_t take_superblock(struct raw_decoder *decoder, uint32_t id,
                                      const uint64_t *words, size_t left)
{
    if (id >= decoder->header_count)
        return raw_fail(decoder, "superblock", id);
    uint16_t word_count = decoder->word_counts[id];
    if (word_count > left)
        return raw_fail(decoder, "cut superblock", id);
    __builtin_prefetch(words + AHEAD_WORDS);
    const struct header *header = &decoder->headers[id];
    decoder->slots_taken += header->slot_count;
    if (resolve(decoder, header->entry) < 0)
        return -1;
    decoder->pending_words = words;
    if (header->way == 0) {
        decoder->pending = id;
        return word_count;
    }
    const struct superblock *superblock = decoder->superblocks[id];
    int status = header->simple
                     ? add_execution(decoder, header->path, words)
                     : execute(decoder, superblock, &superblock->ways[header->way - 1], words);
    return status < 0 ? -1 : word_count;
}

static int64_t take_words(struct raw_decoder *decoder, const uint64_t *words, size_t count,
                          size_t enough)
{
    const uint64_t *start = words, *end = words + count;
    decoder->slots_taken = 0;
    while (words < end && decoder->slots_taken < enough) {
        uint64_t word = *words++;
        if ((word & ~RAW_HEADER_MASK) == RAW_HEADER) {
            int64_t taken =
                take_superblock(decoder, word & RAW_HEADER_MASK, words, (size_t)(end - words));
            if (taken < 0)
                return -1;
            words += taken;
        } else if ((word & 0xff00000000000000) == RAW_EVENT) {
            size_t payload = word >> 16 & 0xffffffff;
            if (payload > (size_t)(end - words))
                return raw_fail(decoder, "cut event", word & 0xffff);
            if (take_event(decoder, word & 0xffff, words, payload) < 0)
                return -1;
            words += payload;
        } else {
            return raw_fail(decoder, "word", word);
        }
    }
    return words - start;
}

int64_t raw_take(struct raw_decoder *decoder, const uint64_t *words, size_t count, size_t enough)
{
    int64_t taken = take_words(decoder, words, count, enough);
    if (raw_tell_executions(decoder) < 0 || taken < 0)
        return -1;
    if (decoder->pending != NO_HEADER && decoder->pending_words != decoder->kept_words) {
        memcpy(decoder->kept_words, decoder->pending_words,
               decoder->word_counts[decoder->pending] * sizeof *words);
        decoder->pending_words = decoder->kept_words;
    }
    return taken;
}

int raw_finish(struct raw_decoder *decoder)
{
    return resolve(decoder, 0) < 0 ? -1 : raw_tell_executions(decoder);
}

const char *raw_error(const struct raw_decoder *decoder)
{
    return decoder->error;
}

struct raw_decoder *raw_open(const struct raw_sink *sink)
{
    struct raw_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return NULL;
    decoder->sink = sink;
    decoder->pending = NO_HEADER;
    if (raw_know_thread(decoder, 0) == 0)
        return decoder;
    raw_close(decoder);
    return NULL;
}

void raw_close(struct raw_decoder *decoder)
{
    for (size_t i = 0; i < decoder->header_count; i++)
        if (decoder->headers[i].way == 0)
            raw_free_superblock(decoder->superblocks[i]);
    for (size_t i = 0; i < decoder->thread_count; i++)
        free(decoder->threads[i]);
    free(decoder->threads);
    free(decoder->headers);
    free(decoder->superblocks);
    free(decoder->word_counts);
    free(decoder);
}
