/* SPDX-License-Identifier: MIT
 *
 * raw.h: understands the recorder's raw stream (protocol/reference_ring.h) and tells a sink what it
 * says.
 *
 * The sink is a trace writer, or whatever uses references while they are made. It numbers
 * superblocks and paths as it likes, from 0; see trace_writer_superblock() and its kin, whose
 * meaning its functions share.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_RAW_H
#define ALLOTROPE_TRACE_REFERENCES_RAW_H

#include <stddef.h>
#include <stdint.h>

#include "trace/format/format.h"

struct raw_sink {
    void *context;
    int (*function)(void *context, uint32_t id, const char *name, const char *object);
    int64_t (*superblock)(void *context, uint64_t address, uint32_t function, uint32_t slot_count,
                          const struct trace_slot *slots);
    int64_t (*path)(void *context, const struct trace_path *path);
    /* The stack pointer has changed by other means than paths. */
    void (*stack)(void *context, uint64_t pointer);
    /* Many at once, in their order; addresses are valid during the call. Before an event is told,
     * all that came before it are. */
    int (*execute)(void *context, const struct trace_execution *executions, size_t count);
    int (*event)(void *context, const struct trace_event *event);
};

struct raw_decoder;

/* Returns NULL when memory is short. The sink must outlive the decoder. */
struct raw_decoder *raw_open(const struct raw_sink *sink);

/* Takes the next words of the stream, whole superblocks and events, until their references may be
 * `enough`, or all. Returns how many words it took, or -1 with raw_error(): the stream is not what
 * it should be, or the sink failed (errno is the sink's). */
int64_t raw_take(struct raw_decoder *decoder, const uint64_t *words, size_t count, size_t enough);

/* Ends the stream: what was pending is told to the sink. Returns as raw_take(). */
int raw_finish(struct raw_decoder *decoder);

const char *raw_error(const struct raw_decoder *decoder);

void raw_close(struct raw_decoder *decoder);

#endif
