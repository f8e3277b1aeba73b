/* SPDX-License-Identifier: MIT
 *
 * reference_ring.h: how the recorder, inside Valgrind, hands its raw stream to another process.
 *
 * One file (a memfd) is mapped by both: a page of state, then equal buffers. The recorder's
 * inline code writes straight into the current buffer; a full buffer is published, the consumer
 * takes the buffers in turn and releases them. Nothing is copied between the two.
 *
 *   | struct reference_ring | buffer 0 | buffer 1 | ... |
 *                              ^ released   ^ published (the recorder writes here, at `cursor`)
 *
 * A socket pair beside it carries no data: when either end dies, the other sees the hang-up.
 * The recorder then stops the program; the consumer takes what stands before `cursor`, so of a
 * killed program no more than one of Valgrind's quanta is lost.
 *
 * The raw stream is made of 64-bit words:
 *
 *   HEADER | id            a superblock begins; as many words follow as it has told slots. The
 *                          first of them are the values of those that were executed (addresses,
 *                          and what was stored to doorbells), the others garbage
 *   EVENT | type | words   `words` payload words follow
 *
 * Most addresses are not told: they are constants, or a constant distance from the stack pointer
 * or from an address that is told. RAW_STACK says where the stack pointer is whenever client code
 * is entered; from there on every exit of every superblock says what became of it.
 *
 * What a superblock's slots are (size, load or store, instruction), where its exits lead, and
 * how many slots and instructions stand before each, is told by RAW_DEFINE before its first
 * header. An id beyond the superblock's own names the exit: id + 1 the first, and so on. With
 * its own id, it was left by the exit that leads to where its thread goes on: the entry of
 * the next superblock or the address in RAW_RESUME, whichever comes first; when no exit leads
 * there, by the last. RAW_RESUME precedes every event but RAW_DEFINE and RAW_FUNCTION.
 */
#ifndef ALLOTROPE_TRACE_PROTOCOL_REFERENCE_RING_H
#define ALLOTROPE_TRACE_PROTOCOL_REFERENCE_RING_H

#include <stdint.h>

#define REFERENCE_RING_MAGIC 0x676e69726f6c6c61ULL
enum {
    REFERENCE_RING_VERSION = 3,
    REFERENCE_RING_BUFFERS = 8,
    /* A buffer is full, and published, when it holds this much; behind it is room for all that
     * the recorder may write before it looks. Most of that is never touched. */
    REFERENCE_RING_FULL_BYTES = 1 << 19,
    REFERENCE_RING_BUFFER_BYTES = 32 << 20,
    REFERENCE_RING_STATE_BYTES = 4096,
    REFERENCE_RING_BYTES =
        REFERENCE_RING_STATE_BYTES + REFERENCE_RING_BUFFERS * REFERENCE_RING_BUFFER_BYTES,
    /* Largest number of slots of one superblock, its doorbells included. */
    REFERENCE_RING_MAX_SLOTS = 512,
};

/* How the stream ended: by the program's end, or by an exec, whose program is another. While it is
 * open, or when the recorder was killed, neither. */
enum reference_ring_end { REFERENCE_RING_OPEN, REFERENCE_RING_FINISHED, REFERENCE_RING_EXEC };

struct reference_ring {
    uint64_t magic;
    uint64_t version;
    /* The recorder's process id once it has mapped the ring; 0 before. */
    uint32_t claimed;
    /* Processes that the recorded one has made so far. Writer: the recorder. */
    uint32_t children;
    /* Where the recorder has mapped this ring: makes sense of `cursor`. */
    uint64_t recorder_base;
    /* Next word to write, as of the recorder's last return from client code, or where it began the
     * present buffer if that is later: what stands before it in this buffer is complete. */
    uint64_t cursor __attribute__((aligned(64)));
    /* Buffers published so far, modulo 2^32; a futex. */
    uint32_t published __attribute__((aligned(64)));
    uint32_t end; /* enum reference_ring_end */
    uint32_t used_bytes[REFERENCE_RING_BUFFERS];
    /* Buffers taken and given back by the consumer, modulo 2^32; a futex. */
    uint32_t released __attribute__((aligned(64)));
};

_Static_assert(sizeof(struct reference_ring) <= REFERENCE_RING_STATE_BYTES,
               "the state fits its page");

/* A header is a negative 32-bit number, sign-extended: one instruction stores it. */
#define RAW_HEADER 0xffffffff80000000ULL
#define RAW_HEADER_MASK 0x7fffffffULL
/* Type in bits 0..15, number of payload words in bits 16..47. */
#define RAW_EVENT 0x4000000000000000ULL
/* Value of the slot of a conditional access that did not take place. */
#define RAW_ABSENT 0xffffffffffffffffULL

enum raw_event {
    RAW_DEFINE = 1,    /* id, entry address, function, slots | paths << 32, slots..., paths... */
    RAW_FUNCTION,      /* id, then name NUL object NUL, padded to words */
    RAW_THREAD,        /* thread that runs from here on */
    RAW_THREAD_START,  /* thread, its creator */
    RAW_THREAD_END,    /* thread */
    RAW_MAP,           /* start, bytes, enum trace_region, then name NUL, padded */
    RAW_UNMAP,         /* start, bytes */
    RAW_SIGNAL,        /* thread, signal number, stack pointer before delivery */
    RAW_SIGNAL_RETURN, /* thread */
    RAW_RESUME,        /* where the thread that ran last goes on */
    RAW_STACK,         /* the stack pointer */
    RAW_INTERRUPTED,   /* instructions that the superblock before completed before its fault */
};

/* How a slot's address is known: not, so that a word tells it; or as a constant, or a constant
 * distance from the stack pointer that the superblock found, or from another slot's address. */
enum raw_base {
    RAW_TOLD,
    RAW_BASE_NOTHING,
    RAW_BASE_STACK,
    RAW_BASE_SLOT, /* and up: + number of the slot, which is told and before this one */
};

/* A slot in RAW_DEFINE, three words: kind in bits 0..7, doorbell index in 8..15, size in 16..31, in
 * 32..47 the number of instructions executed up to and including its own, base in 48..63; then the
 * offset from the base, and its instruction's address. */
enum raw_slot_kind {
    RAW_LOAD,
    RAW_STORE,
    RAW_POINTER, /* no reference: only tells an address that others are derived from */
    RAW_DOORBELL,
    /* The new stack pointer after a jump to another frame: longjmp and the like. */
    RAW_STACK_JUMP,
};

/* A path in RAW_DEFINE, three words: slots in bits 0..15, instructions in 16..31, and in 32..47 the
 * base of the stack pointer behind it, which is not RAW_TOLD; then the exit's target, 0 when it is
 * computed; then the stack pointer's offset. The last path is the superblock's end. */

#endif
