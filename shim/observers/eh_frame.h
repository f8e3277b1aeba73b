/* SPDX-License-Identifier: MIT
 *
 * eh_frame.h: from an address in code to its call frame information, in .eh_frame.
 *
 * Every Debian program carries this table for exceptions. A frame description entry (FDE) describes
 * a function: instructions which say how a debugger or an unwinder gets from the function's frame
 * to its caller's (call_frame.h). A common information entry (CIE) holds what many FDEs share.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_EH_FRAME_H
#define ALLOTROPE_SHIM_OBSERVERS_EH_FRAME_H

#include "shim/observers/dwarf.h"

struct cie {
    uint64_t code_alignment_factor; /* bytes of code that one of a location counts */
    int64_t data_alignment_factor;  /* bytes of stack that one of an offset counts */
    uint8_t pointer_encoding;       /* of an FDE's addresses */
    bool has_augmentation_data;     /* in its FDEs */
    struct dwarf_reader initial_instructions;
};

struct fde {
    struct cie cie;
    uintptr_t pc_begin; /* the function's first byte */
    uint64_t pc_range;  /* its bytes */
    struct dwarf_reader instructions;
};

/* Finds the FDE of the function that `pc` lies in, and reads it. eh_frame_hdr: the section of the
 * object that `pc` lies in, as _dl_find_object() returns it; may be NULL. False when there is none,
 * or when it holds a form that is not known here. */
bool fde_find(const uint8_t *eh_frame_hdr, uintptr_t pc, struct fde *fde);

#endif
