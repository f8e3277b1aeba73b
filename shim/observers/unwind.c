/* SPDX-License-Identifier: MIT
 *
 * unwind.c: see unwind.h.
 *
 * To find the row of the call frame table for an address (eh_frame.c, call_frame.c) takes some 600
 * instructions. libgcc does so at every frame of every walk. But the row of an address changes
 * only with the code that lies there, and nearly every one fits in a word. Here it is read once and
 * kept as a *step*:
 *
 *     CFA = rsp + n, or rbp + n, or the word at rbp + n (then the caller's rbp is the word at rbp)
 *     return address = the word below the CFA
 *     the caller's rbp = rbp, or the word at CFA + m
 *
 * At the rest (frames of signals, the lazy binder, other expressions) unwind() ends, and the caller
 * may turn to libgcc.
 *
 * ld.so says which table describes an address (_dl_find_object). It is asked anew for every run of
 * frames in one object, and a step belongs to an address and to the place of its table. So the step
 * of a library that was unloaded is not taken for that of one that lies there now with its table
 * elsewhere. With code and table at the same places it is, as where a library is built anew while
 * the process runs, and loaded again. Such a step may lead out of the stack.
 */
#include "shim/observers/unwind.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "shim/observers/call_frame.h"
#include "shim/observers/eh_frame.h"

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* A step in a word; n and m are signed and count words of the stack, m is 0 while rbp is still in
 * the register:
 *
 *   63 .. 34   33 .. 4   3   2           1 .. 0
 *   m          n         0   OUTERMOST   kind
 */
enum step_kind { STEP_UNKNOWN, CFA_FROM_RSP, CFA_FROM_RBP, CFA_AT_RBP };
enum {
    KIND_MASK = 3,
    OUTERMOST = 4,
    N_SHIFT = 4,
    NUMBER_BITS = 30,
    M_SHIFT = N_SHIFT + NUMBER_BITS
};
enum { WORD = sizeof(uintptr_t) };
#define MOST_WORDS ((INT64_C(1) << (NUMBER_BITS - 1)) - 1)

static uint64_t pack_step(const struct call_frame_row *row)
{
    int64_t n = row->cfa_offset / WORD, m = row->rbp_offset / WORD;
    if (row->return_offset == 0)
        return OUTERMOST | CFA_FROM_RSP;
    if (row->return_offset != -(int64_t)WORD || row->cfa_offset % WORD != 0 || n > MOST_WORDS ||
        n < -MOST_WORDS || m > MOST_WORDS || m < -MOST_WORDS)
        return STEP_UNKNOWN;
    uint64_t kind = STEP_UNKNOWN;
    if (row->cfa_register == DWARF_RSP && !row->cfa_is_indirect)
        kind = CFA_FROM_RSP;
    else if (row->cfa_register == DWARF_RBP)
        kind = row->cfa_is_indirect ? CFA_AT_RBP : CFA_FROM_RBP;
    if (row->rbp_is_saved_at_rbp != (kind == CFA_AT_RBP))
        kind = STEP_UNKNOWN;
    uint64_t mask = (UINT64_C(1) << NUMBER_BITS) - 1;
    if (kind == STEP_UNKNOWN)
        return STEP_UNKNOWN;
    return kind | ((uint64_t)n & mask) << N_SHIFT | (uint64_t)m << M_SHIFT;
}

/* The step from a return address. The row is that of the call, which ends before it: a call that
 * never returns may be the last instruction of its function. */
static uint64_t read_step(uintptr_t return_address, const uint8_t *eh_frame_hdr)
{
    struct fde fde;
    struct call_frame_row row;
    uintptr_t pc = return_address - 1;
    if (!fde_find(eh_frame_hdr, pc, &fde) || !call_frame_row(&fde, pc, &row))
        return STEP_UNKNOWN;
    return pack_step(&row);
}

/* Steps that were read.
 *
 * Shared words: key and step of an entry. Writer: any thread, at any time, with relaxed stores and
 * no lock. So the two words may be of different writers. They belong together when key XOR step is
 * the key that is looked for; otherwise the entry counts as empty (Hyatt and Mann, "A lockless
 * transposition table implementation for parallel search", 2002). */
enum { CACHE_BITS = 11 };
static struct {
    _Atomic uint64_t key_xor_step, step;
} cache[1 << CACHE_BITS];

static uint64_t step_from(uintptr_t return_address, const uint8_t *eh_frame_hdr)
{
    uint64_t key = return_address ^ (uint64_t)(uintptr_t)eh_frame_hdr << 16;
    size_t slot = key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - CACHE_BITS);
    uint64_t step = atomic_load_explicit(&cache[slot].step, memory_order_relaxed);
    if (step &&
        (atomic_load_explicit(&cache[slot].key_xor_step, memory_order_relaxed) ^ step) == key)
        return step;
    step = read_step(return_address, eh_frame_hdr);
    atomic_store_explicit(&cache[slot].step, step, memory_order_relaxed);
    atomic_store_explicit(&cache[slot].key_xor_step, key ^ step, memory_order_relaxed);
    return step;
}

static uintptr_t word_at(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* From a frame to its caller's. False when the step does not fit the stack. */
static bool take_step(struct unwind_frame *frame, uint64_t step)
{
    uint64_t kind = step & KIND_MASK;
    int64_t n = (int64_t)(step << (64 - M_SHIFT)) >> (64 - NUMBER_BITS);
    int64_t m = (int64_t)step >> M_SHIFT;
    uintptr_t cfa = (uintptr_t)(n * WORD);
    cfa += kind == CFA_FROM_RSP ? frame->rsp : frame->rbp;
    if (kind == CFA_AT_RBP)
        cfa = word_at(cfa);
    if (cfa <= frame->rsp || cfa % WORD != 0)
        return false;
    frame->rsp = cfa;
    frame->rip = word_at(cfa - WORD);
    if (kind == CFA_AT_RBP)
        frame->rbp = word_at(frame->rbp);
    else if (m != 0)
        frame->rbp = word_at(cfa + (uintptr_t)(m * WORD));
    return true;
}

uint32_t unwind(struct unwind_frame frame, const void **return_addresses, uint32_t *offsets,
                uint32_t most, bool *is_whole)
{
    struct dl_find_object object = {0};
    uintptr_t start = frame.rsp;
    uint32_t count = 0;
    *is_whole = false;
    if (!_dl_find_object)
        return 0;
    while (count < most && frame.rip != 0) {
        if (frame.rip - (uintptr_t)object.dlfo_map_start >=
                (uintptr_t)object.dlfo_map_end - (uintptr_t)object.dlfo_map_start &&
            _dl_find_object((void *)frame.rip, &object) != 0)
            return count; /* code made at run time, which libgcc may have been told of */
        if (offsets)
            offsets[count] = (uint32_t)(frame.rsp - WORD - start);
        return_addresses[count++] = (const void *)frame.rip;
        if (count == most)
            break; /* whatever kind of frame it is */
        uint64_t step = step_from(frame.rip, object.dlfo_eh_frame);
        if (step & OUTERMOST)
            break;
        if (step == STEP_UNKNOWN || !take_step(&frame, step))
            return count;
    }
    *is_whole = true;
    return count;
}
