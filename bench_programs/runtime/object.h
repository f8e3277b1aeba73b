/* SPDX-License-Identifier: MIT
 *
 * object.h: what an object of the runtime looks like.
 *
 *   value     an integer n as 2n + 1, or the address of an object (a multiple of 16)
 *
 *   object    | class | size, kind, age | slot 0 | slot 1 | ...          each a word of 8 bytes
 *
 * The slots of KIND_BYTES hold bytes; all others hold values. A frame is the activation of a method
 * or of a block, as in Smalltalk: an object like others, linked to its sender.
 *
 * During a scavenge the class of an object that was copied is its new address + 1.
 */
#ifndef ALLOTROPE_BENCH_PROGRAMS_RUNTIME_OBJECT_H
#define ALLOTROPE_BENCH_PROGRAMS_RUNTIME_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t value;

enum kind { KIND_SLOTS, KIND_BYTES, KIND_FRAME };

struct object {
    value class;
    uint32_t size; /* slots, or bytes */
    uint8_t kind;
    uint8_t age; /* scavenges survived */
    uint16_t unused;
    value slots[];
};

enum { OBJECT_ALIGNMENT = 16 };

static inline bool is_integer(value v)
{
    return v & 1;
}

static inline value integer_value(int64_t n)
{
    return (value)n << 1 | 1;
}

static inline int64_t integer_of(value v)
{
    return (int64_t)v >> 1;
}

static inline struct object *object_of(value v)
{
    return (struct object *)v;
}

static inline value value_of(const struct object *object)
{
    return (value)object;
}

static inline char *bytes_of(struct object *object)
{
    return (char *)object->slots;
}

static inline size_t object_bytes(enum kind kind, size_t size)
{
    size_t bytes = sizeof(struct object) + (kind == KIND_BYTES ? size : size * sizeof(value));
    return (bytes + OBJECT_ALIGNMENT - 1) & ~(size_t)(OBJECT_ALIGNMENT - 1);
}

static inline size_t bytes_used(const struct object *object)
{
    return object_bytes(object->kind, object->size);
}

/* How many values the collector finds in it, its class apart. */
static inline size_t value_count(const struct object *object)
{
    return object->kind == KIND_BYTES ? 0 : object->size;
}

#endif
