/* SPDX-License-Identifier: MIT
 *
 * bytes.h: strings of bytes that grow, numbers in as few bytes as they need, and bytes being read.
 */
#ifndef ALLOTROPE_TRACE_FORMAT_BYTES_H
#define ALLOTROPE_TRACE_FORMAT_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t used;
    size_t capacity;
};

/* Room for so many more bytes; false when memory is short. */
static inline bool bytes_reserve(struct bytes *bytes, size_t more)
{
    if (bytes->capacity - bytes->used >= more)
        return true;
    size_t capacity =
        bytes->capacity * 2 > bytes->used + more ? bytes->capacity * 2 : bytes->used + more;
    uint8_t *data = realloc(bytes->data, capacity);
    if (!data)
        return false;
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

enum { VARINT_BYTES = 10 };

/* Seven bits a byte, the lowest first. Needs VARINT_BYTES of room. */
static inline void put_varint(struct bytes *bytes, uint64_t value)
{
    while (value >= 0x80) {
        bytes->data[bytes->used++] = (uint8_t)value | 0x80;
        value >>= 7;
    }
    bytes->data[bytes->used++] = (uint8_t)value;
}

/* Small numbers of either sign become small numbers. */
static inline uint64_t zigzag(uint64_t value)
{
    return value << 1 ^ (uint64_t)((int64_t)value >> 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
    return value >> 1 ^ -(value & 1);
}

static inline bool put_string(struct bytes *bytes, const char *text)
{
    size_t length = strlen(text);
    if (!bytes_reserve(bytes, VARINT_BYTES + length))
        return false;
    put_varint(bytes, length);
    memcpy(bytes->data + bytes->used, text, length);
    bytes->used += length;
    return true;
}

/* Bytes being read; `failed` is set by any attempt to go past the end. */
struct cursor {
    const uint8_t *next;
    const uint8_t *end;
    bool failed;
};

static inline uint64_t get_varint(struct cursor *cursor)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (cursor->next == cursor->end)
            break;
        uint8_t byte = *cursor->next++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    cursor->failed = true;
    return 0;
}

#endif
