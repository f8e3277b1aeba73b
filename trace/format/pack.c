/* SPDX-License-Identifier: MIT
 *
 * pack.c: finished chunks, compressed and written by a thread of their own; see writer_state.h.
 *
 * Compression is a fifth of what a chunk costs and needs nothing but the chunk's streams. So the
 * writer fills one set of streams while the packing thread takes another set to the file. There are
 * two sets: a writer that is a whole chunk ahead waits. Small chunks, which are a trace's last and
 * those of short traces, are not worth a thread, and the writer packs them itself.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <xxhash.h>

#include "trace/base/write_all.h"
#include "trace/format/writer_state.h"

/* A chunk of fewer executions is small: packing it takes less than a millisecond. */
enum { SMALL_CHUNK = 1 << 16 };

/* Into the file. These are called by whoever packs: one thread at a time. */

int pack_bytes(struct packer *packer, const void *data, size_t bytes)
{
    if (packer->error == 0 && write_all(packer->fd, data, bytes) < 0)
        packer->error = errno;
    if (packer->error != 0) {
        errno = packer->error; /* nothing follows half a chunk */
        return -1;
    }
    __atomic_fetch_add(&packer->offset, bytes, __ATOMIC_RELAXED);
    return 0;
}

int pack_chunk(struct packer *packer, struct chunk_header *header, enum chunk_type type,
               const void *payload, size_t bytes)
{
    header->magic = TRACE_CHUNK_MAGIC;
    header->type = type;
    header->sequence = packer->sequence++;
    header->payload_bytes = bytes;
    header->payload_hash = XXH3_64bits(payload, bytes);
    header->header_hash = XXH3_64bits(header, offsetof(struct chunk_header, header_hash));
    if (pack_bytes(packer, header, sizeof *header) < 0)
        return -1;
    return pack_bytes(packer, payload, bytes);
}

/* Puts the streams one after the other, compressed where that makes them smaller. */
static int compress_streams(struct packer *packer, const struct bytes *streams)
{
    struct bytes *out = &packer->compressed;
    struct stream_size sizes[STREAMS];
    out->used = 0;
    if (!bytes_reserve(out, sizeof sizes))
        return -1;
    out->used = sizeof sizes;
    for (int i = 0; i < STREAMS; i++) {
        const struct bytes *in = &streams[i];
        if (!bytes_reserve(out, ZSTD_compressBound(in->used)))
            return -1;
        size_t stored =
            ZSTD_compressCCtx(packer->zstd, out->data + out->used, out->capacity - out->used,
                              in->data, in->used, packer->level);
        if (ZSTD_isError(stored) || stored >= in->used) {
            stored = in->used;
            if (stored > 0)
                memcpy(out->data + out->used, in->data, stored);
        }
        sizes[i] = (struct stream_size){(uint32_t)in->used, (uint32_t)stored};
        out->used += stored;
    }
    memcpy(out->data, sizes, sizeof sizes);
    return 0;
}

static int pack_streams(struct packer *packer, struct chunk_header *header,
                        const struct bytes *streams)
{
    struct chunk_index_entry entry = {packer->offset, header->start.references,
                                      header->added.references};
    if (!bytes_reserve(&packer->index, sizeof entry) || compress_streams(packer, streams) < 0)
        return -1;
    memcpy(packer->index.data + packer->index.used, &entry, sizeof entry);
    packer->index.used += sizeof entry;
    return pack_chunk(packer, header, CHUNK_DATA, packer->compressed.data, packer->compressed.used);
}

/* The thread. */

static void *pack_as_told(void *context)
{
    struct packer *packer = context;
    pthread_mutex_lock(&packer->lock);
    while (!packer->stop) {
        if (!packer->busy) {
            pthread_cond_wait(&packer->changed, &packer->lock);
            continue;
        }
        pthread_mutex_unlock(&packer->lock);
        int status = pack_streams(packer, &packer->header, packer->stream);
        pthread_mutex_lock(&packer->lock);
        if (status < 0)
            packer->failed = errno;
        packer->busy = false;
        pthread_cond_broadcast(&packer->changed);
    }
    pthread_mutex_unlock(&packer->lock);
    return NULL;
}

/* Signals are the first thread's. */
static bool start_thread(struct packer *packer)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    packer->has_thread = pthread_create(&packer->thread, NULL, pack_as_told, packer) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return packer->has_thread;
}

int pack_wait(struct packer *packer)
{
    pthread_mutex_lock(&packer->lock);
    while (packer->busy)
        pthread_cond_wait(&packer->changed, &packer->lock);
    int failed = packer->failed;
    pthread_mutex_unlock(&packer->lock);
    if (failed == 0)
        return 0;
    errno = failed;
    return -1;
}

int pack_streams_of(struct trace_writer *writer)
{
    struct packer *packer = &writer->packer;
    if (pack_wait(packer) < 0)
        return -1;
    bool here =
        writer->executions < SMALL_CHUNK ||
        (!packer->has_thread && (!writer_reserve_streams(packer->stream) || !start_thread(packer)));
    if (here)
        return pack_streams(packer, &writer->header, writer->stream);
    pthread_mutex_lock(&packer->lock);
    struct bytes filled[STREAMS];
    memcpy(filled, writer->stream, sizeof filled);
    memcpy(writer->stream, packer->stream, sizeof filled);
    memcpy(packer->stream, filled, sizeof filled);
    packer->header = writer->header;
    packer->busy = true;
    pthread_cond_broadcast(&packer->changed);
    pthread_mutex_unlock(&packer->lock);
    return 0;
}

/* Beginning and end. */

bool packer_begin(struct packer *packer, int fd, int level)
{
    packer->fd = fd;
    packer->level = level;
    pthread_mutex_init(&packer->lock, NULL);
    pthread_cond_init(&packer->changed, NULL);
    packer->zstd = ZSTD_createCCtx();
    return packer->zstd != NULL;
}

void packer_end(struct packer *packer)
{
    if (packer->has_thread) {
        pthread_mutex_lock(&packer->lock);
        packer->stop = true;
        pthread_cond_broadcast(&packer->changed);
        pthread_mutex_unlock(&packer->lock);
        pthread_join(packer->thread, NULL);
    }
    pthread_cond_destroy(&packer->changed);
    pthread_mutex_destroy(&packer->lock);
    for (int i = 0; i < STREAMS; i++)
        free(packer->stream[i].data);
    free(packer->compressed.data);
    free(packer->index.data);
    ZSTD_freeCCtx(packer->zstd);
}
