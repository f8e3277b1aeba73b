/* SPDX-License-Identifier: MIT */
/* fuzz_trace_reader.c: the reader must survive any bytes (libFuzzer; `make fuzz-trace`).
 *
 * Checksums would stop a fuzzer at the door, so it is handed the inside: the input's first 48
 * bytes say how long each stream of one data chunk is, the rest is their contents, and a file
 * with right checksums is made of that. An input that begins with the format's magic is read
 * as it is. What can be read is also cut, which writes it anew; the result must read as well.
 */
#include "trace/format/bytes.h"
#include "trace/format/chunk.h"
#include "trace/format/copy.h"

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void put_chunk(int fd, enum chunk_type type, const void *payload, size_t bytes)
{
    struct chunk_header header = {.magic = TRACE_CHUNK_MAGIC,
                                  .type = type,
                                  .payload_bytes = bytes,
                                  .payload_hash = XXH3_64bits(payload, bytes)};
    header.header_hash = XXH3_64bits(&header, offsetof(struct chunk_header, header_hash));
    if (write(fd, &header, sizeof header) < 0 || write(fd, payload, bytes) < 0)
        abort();
}

static void put_file(int fd, const uint8_t *data, size_t bytes)
{
    static uint8_t payload[1 << 20];
    struct trace_file_header header = {TRACE_FILE_MAGIC, TRACE_VERSION,
                                       sizeof(struct chunk_header)};
    struct stream_size sizes[STREAMS];
    uint32_t lengths[STREAMS];
    if (bytes < sizeof lengths || bytes > sizeof payload / 2)
        return;
    memcpy(lengths, data, sizeof lengths);
    size_t at = sizeof lengths, used = sizeof sizes;
    for (int i = 0; i < STREAMS; i++) {
        size_t length = lengths[i] % (bytes - at + 1);
        memcpy(payload + used, data + at, length);
        sizes[i] = (struct stream_size){(uint32_t)length, (uint32_t)length};
        at += length;
        used += length;
    }
    memcpy(payload, sizes, sizeof sizes);
    if (write(fd, &header, sizeof header) < 0)
        abort();
    put_chunk(fd, CHUNK_DESCRIPTION, "{}", 2);
    put_chunk(fd, CHUNK_DATA, payload, used);
}

/* Reads everything, using what it gets as a caller would. Returns the number of references. */
static uint64_t read_everything(int fd)
{
    char error[TRACE_ERROR_BYTES];
    struct trace_batch batch;
    lseek(fd, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(fd, error);
    if (!reader)
        return 0;
    volatile uint64_t sum = 0;
    while (trace_reader_next(reader, &batch) > 0) {
        for (size_t i = 0; i < batch.count; i++)
            sum += batch.references[i].address +
                   (uint64_t)trace_reader_function(reader, batch.references[i].function, NULL)[0];
        for (size_t i = 0; i < batch.event_count; i++)
            sum += batch.events[i].name ? strlen(batch.events[i].name) : 0;
    }
    uint64_t references = trace_reader_totals(reader)->references;
    trace_reader_seek(reader, references / 2);
    trace_reader_next(reader, &batch);
    trace_reader_close(reader);
    return references;
}

static void cut_and_read(int fd)
{
    char error[TRACE_ERROR_BYTES];
    int write_error, copy = memfd_create("copy", 0);
    lseek(fd, 0, SEEK_SET);
    struct trace_reader *reader = trace_reader_open(fd, error);
    struct trace_writer *writer = trace_writer_open(copy, "{}", 1);
    if (reader && writer) {
        trace_copy(reader, writer, UINT64_MAX, &write_error);
        uint64_t written = trace_writer_totals(writer)->references;
        if (trace_writer_close(writer) < 0 || read_everything(copy) != written)
            abort();
        trace_reader_close(reader);
    } else if (writer) {
        trace_writer_close(writer);
    }
    close(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd = memfd_create("input", 0);
    if (bytes >= 8 && memcmp(data, TRACE_FILE_MAGIC, 8) == 0) {
        if (write(fd, data, bytes) < 0)
            abort();
    } else {
        put_file(fd, data, bytes);
    }
    read_everything(fd);
    cut_and_read(fd);
    close(fd);
    return 0;
}
