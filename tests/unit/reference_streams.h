/* SPDX-License-Identifier: MIT */
/* reference_streams.h: streams of references that exercise simulators, the same on every run. */
#ifndef ALLOTROPE_TESTS_UNIT_REFERENCE_STREAMS_H
#define ALLOTROPE_TESTS_UNIT_REFERENCE_STREAMS_H

#include <stdbool.h>

#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/reference.h"

struct stream {
    const char *name;
    size_t count;
    struct reference *reference;
    uint8_t *region;
};

enum { STREAMS = 9 };

/* Makes the stream of that number, below STREAMS, with about `count` references. */
struct stream stream_make(unsigned number, size_t count);
void stream_free(struct stream *stream);

/* The part of the stream from `start` on, at most `count` long, as a batch. */
struct references stream_batch(const struct stream *stream, size_t start, size_t count);

/* Calls `feed` with the whole stream in batches of uneven lengths. Returns false when it does. */
bool stream_feed(const struct stream *stream, bool (*feed)(void *, const struct references *),
                 void *simulator);

/* The first unit of so many bytes that a reference touches, and the one behind its last. One of no
 * bytes touches where it points. */
static inline uint64_t first_unit(const struct reference *reference, uint64_t unit_bytes)
{
    return reference->address / unit_bytes;
}

static inline uint64_t end_of_units(const struct reference *reference, uint64_t unit_bytes)
{
    uint64_t more = reference->size > 0 ? reference->size - 1 : 0;
    return (reference->address + more) / unit_bytes + 1;
}

/* The set-up of a test that may use any vectors. */
static inline int allow_vectors(void **unused)
{
    (void)unused;
    dispatch_allow_avx512(true);
    return 0;
}

#endif
