/* SPDX-License-Identifier: MIT
 *
 * doorbell.h: how a library tells the recorder what it is doing.
 *
 * A doorbell is a word at an address that the library registers once. Under the recorder a
 * store to it puts the stored value into the trace, at that very point of the reference
 * stream: the recorder knows the address when it translates the store, so ringing costs no
 * call. Neither the store nor the test before it counts as a reference of the program.
 * Natively nothing is ever stored: each function below is one test of a word that is always
 * zero, and a branch that is never taken.
 *
 *   library's start    doorbell_register()             says whether a recorder listens
 *   malloc             doorbell_enter(DOORBELL_CLASS_ALLOCATOR)
 *                      ... what is referenced from here on is the allocator's
 *                      doorbell_malloc(pointer, size, site)
 *                      doorbell_leave()
 *
 * Classes nest, per thread. A signal handler starts as the program; its return restores what
 * was interrupted; longjmp and exceptions drop the classes of the frames that they leave.
 *
 * A library that wants attribution and nothing else (a pass-through in front of a foreign
 * allocator) does exactly the above round the call to the next malloc: see docs/doorbells.md.
 *
 * One file of the library defines the words: it says DOORBELLS_DEFINE at file scope. They are
 * hidden, so every library has its own. All functions are safe in any thread and in signal
 * handlers, call nothing, and allocate nothing.
 */
#ifndef ALLOTROPE_TRACE_PROTOCOL_DOORBELL_H
#define ALLOTROPE_TRACE_PROTOCOL_DOORBELL_H

#include <stdint.h>

/* Whom a reference belongs to. The numbers stand in traces: never renumber. */
enum doorbell_class {
    DOORBELL_CLASS_PROGRAM,
    DOORBELL_CLASS_ALLOCATOR,
    DOORBELL_CLASS_COLLECTOR, /* collection work that is none of the following */
    DOORBELL_CLASS_ROOTS,
    DOORBELL_CLASS_MARK,
    DOORBELL_CLASS_SWEEP,
    DOORBELL_CLASSES,
};

/* Which word is which. */
enum doorbell_index {
    DOORBELL_ACTIVE,
    DOORBELL_SIZE,
    DOORBELL_SITE,
    DOORBELL_OLD,
    DOORBELL_ENTER, /* one word for each class; the value is the stack pointer */
    DOORBELL_LEAVE = DOORBELL_ENTER + DOORBELL_CLASSES,
    DOORBELL_MALLOC,           /* the new pointer; size and site were stored before */
    DOORBELL_REALLOC,          /* the new pointer; size, site and old pointer before */
    DOORBELL_FREE,             /* the pointer; site before */
    DOORBELL_COLLECTION_BEGIN, /* a number of the collector's own, such as its count */
    DOORBELL_COLLECTION_END,   /* bytes found alive */
    DOORBELL_MARK,             /* any value: the user's own mark, shown as it is */
    DOORBELL_WORDS,
};

struct doorbells {
    uint64_t word[DOORBELL_WORDS];
} __attribute__((aligned(64)));

extern struct doorbells allotrope_doorbells __attribute__((visibility("hidden")));
#define DOORBELLS_DEFINE struct doorbells allotrope_doorbells

/* The recorder must see a constant address, so the store is spelled out. */
#define DOORBELL_STORE(index, value)                            \
    __asm__ volatile("movq %0, allotrope_doorbells+%c1(%%rip)"  \
                     :                                          \
                     : "r"((uint64_t)(value)), "i"(8 * (index)) \
                     : "memory")
#define DOORBELL_INLINE static inline __attribute__((always_inline, unused))

/* Whether a recorder listens. */
DOORBELL_INLINE int doorbell_active(void)
{
    __asm__ goto("cmpb $0, allotrope_doorbells(%%rip)\n\tjne %l[active]" : : : "cc" : active);
    return 0;
active:
    return 1;
}

#define DOORBELL_ENTER_FUNCTION(name, class)                          \
    DOORBELL_INLINE void name(void)                                   \
    {                                                                 \
        if (__builtin_expect(doorbell_active(), 0)) {                 \
            uint64_t stack_pointer;                                   \
            __asm__ volatile("movq %%rsp, %0" : "=r"(stack_pointer)); \
            DOORBELL_STORE(DOORBELL_ENTER + (class), stack_pointer);  \
        }                                                             \
    }

/* What this thread references from here on belongs to the class, until doorbell_leave() or
 * until the calling frame is left by a longjmp. */
DOORBELL_ENTER_FUNCTION(doorbell_enter_program, DOORBELL_CLASS_PROGRAM)
DOORBELL_ENTER_FUNCTION(doorbell_enter_allocator, DOORBELL_CLASS_ALLOCATOR)
DOORBELL_ENTER_FUNCTION(doorbell_enter_collector, DOORBELL_CLASS_COLLECTOR)
DOORBELL_ENTER_FUNCTION(doorbell_enter_roots, DOORBELL_CLASS_ROOTS)
DOORBELL_ENTER_FUNCTION(doorbell_enter_mark, DOORBELL_CLASS_MARK)
DOORBELL_ENTER_FUNCTION(doorbell_enter_sweep, DOORBELL_CLASS_SWEEP)

/* Ends the class that was entered last. */
DOORBELL_INLINE void doorbell_leave(void)
{
    if (__builtin_expect(doorbell_active(), 0))
        DOORBELL_STORE(DOORBELL_LEAVE, 0);
}

/* A block was handed out: pointer (NULL where the request failed), bytes asked for, return
 * address of the call. calloc, memalign, operator new and their kin are all told this way. */
DOORBELL_INLINE void doorbell_malloc(const void *pointer, uint64_t size, const void *site)
{
    if (__builtin_expect(doorbell_active(), 0)) {
        DOORBELL_STORE(DOORBELL_SIZE, size);
        DOORBELL_STORE(DOORBELL_SITE, site);
        DOORBELL_STORE(DOORBELL_MALLOC, pointer);
    }
}

/* A block was resized. pointer is NULL where the request failed: the old block lives on then. */
DOORBELL_INLINE void doorbell_realloc(uint64_t old_pointer, const void *pointer, uint64_t size,
                                      const void *site)
{
    if (__builtin_expect(doorbell_active(), 0)) {
        DOORBELL_STORE(DOORBELL_SIZE, size);
        DOORBELL_STORE(DOORBELL_SITE, site);
        DOORBELL_STORE(DOORBELL_OLD, old_pointer);
        DOORBELL_STORE(DOORBELL_REALLOC, pointer);
    }
}

/* A block is given back. To be rung before its memory can be handed out again. */
DOORBELL_INLINE void doorbell_free(const void *pointer, const void *site)
{
    if (__builtin_expect(doorbell_active(), 0)) {
        DOORBELL_STORE(DOORBELL_SITE, site);
        DOORBELL_STORE(DOORBELL_FREE, pointer);
    }
}

/* A collection begins (number: the collector's own count) and ends. */
DOORBELL_INLINE void doorbell_collection_begin(uint64_t number)
{
    if (__builtin_expect(doorbell_active(), 0))
        DOORBELL_STORE(DOORBELL_COLLECTION_BEGIN, number);
}

DOORBELL_INLINE void doorbell_collection_end(uint64_t live_bytes)
{
    if (__builtin_expect(doorbell_active(), 0))
        DOORBELL_STORE(DOORBELL_COLLECTION_END, live_bytes);
}

/* A mark of the caller's own, found again in `trace dump`. Values below 2^62. */
DOORBELL_INLINE void doorbell_mark(uint64_t value)
{
    if (__builtin_expect(doorbell_active(), 0))
        DOORBELL_STORE(DOORBELL_MARK, value);
}

/* A collector has found a block dead and leaves it: a mark, with a bit set that addresses do not
 * have. */
#define DOORBELL_SUSPECT (UINT64_C(1) << 62)
DOORBELL_INLINE void doorbell_suspect(const void *block)
{
    doorbell_mark((uint64_t)(uintptr_t)block | DOORBELL_SUSPECT);
}

/* Requests to the recorder, in Valgrind's numbering of a tool's client requests ('A', 'L'). */
enum doorbell_request {
    DOORBELL_REQUEST_REGISTER = 0x414c0000, /* address and bytes of struct doorbells */
    DOORBELL_REQUEST_RANGES,                /* array of address pairs, number of pairs */
    DOORBELL_REQUEST_SILENCE,               /* start and end of instructions that ring */
    DOORBELL_REQUEST_USERFAULTFD,           /* flags */
};

/* Asks Valgrind, if this runs inside it; returns 0 natively. The four rotations add up to
 * 128 bits and change nothing; Valgrind recognises the sequence. */
DOORBELL_INLINE uint64_t doorbell_request(uint64_t request, uint64_t first, uint64_t second)
{
    volatile uint64_t block[6] = {request, first, second, 0, 0, 0};
    volatile uint64_t *block_address = block;
    uint64_t result = 0;
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(result)
                     : "a"(block_address)
                     : "cc", "memory");
    return result;
}

/* Registers the library's doorbells: once, at its start, before any other function of this
 * header is called. Returns whether a recorder listens. */
DOORBELL_INLINE int doorbell_register(void)
{
    uint64_t listens = doorbell_request(DOORBELL_REQUEST_REGISTER, (uintptr_t)&allotrope_doorbells,
                                        sizeof(struct doorbells));
    if (listens)
        allotrope_doorbells.word[DOORBELL_ACTIVE] = 1;
    return listens != 0;
}

/* The instructions in [start, end) do nothing but ring: they and their references are left out of
 * the trace, the bells alone are heard. Once, after registering. */
DOORBELL_INLINE void doorbell_silence(const char *start, const char *end)
{
    doorbell_request(DOORBELL_REQUEST_SILENCE, (uintptr_t)start, (uintptr_t)end);
}

/* Address ranges [start, end) that belong to Valgrind and the recorder, the ring included, at
 * this moment: a collector must not take them for roots. Fills at most `capacity` pairs and
 * returns how many there are; 0 natively. The list grows while the program runs: ask anew
 * for each collection. */
DOORBELL_INLINE uint64_t doorbell_recorder_ranges(uint64_t (*pairs)[2], uint64_t capacity)
{
    return doorbell_request(DOORBELL_REQUEST_RANGES, (uintptr_t)pairs, capacity);
}

/* userfaultfd(flags), made by the recorder: Valgrind 3.19 knows no such call and answers ENOSYS.
 * Returns a descriptor of the process, or an error as a negative number; 0 natively. */
DOORBELL_INLINE int64_t doorbell_userfaultfd(uint64_t flags)
{
    return (int64_t)doorbell_request(DOORBELL_REQUEST_USERFAULTFD, flags, 0);
}

#endif
