/* SPDX-License-Identifier: MIT
 *
 * call_frame.h: executes the call frame instructions of a function, for one address in it.
 *
 * They build a table with a row for each address of the function. A row says how to compute the
 * canonical frame address (CFA: the stack pointer before the call of the function) and where each
 * of the caller's registers was saved.
 *
 * Source: DWARF 4, 6.4.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_CALL_FRAME_H
#define ALLOTROPE_SHIM_OBSERVERS_CALL_FRAME_H

#include "shim/observers/eh_frame.h"

/* A row: the CFA, and the rules of the two registers that a walk up the stack needs. */
struct call_frame_row {
    uint64_t cfa_register;    /* CFA = this register + cfa_offset */
    int64_t cfa_offset;       /* bytes, as all offsets here */
    bool cfa_is_indirect;     /* CFA = the word that lies there */
    bool rbp_is_saved_at_rbp; /* the caller's rbp is the word that rbp points to */
    int64_t rbp_offset;       /* it lies at CFA + this; 0: it is still in rbp */
    int64_t return_offset;    /* the return address lies at CFA + this; 0: undefined, since nobody
                               * called the function */
};

/* Executes the instructions of `fde` up to `pc`, an address in its function. False when one of them
 * cannot be said in a row. */
bool call_frame_row(const struct fde *fde, uintptr_t pc, struct call_frame_row *row);

#endif
