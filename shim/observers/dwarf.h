/* SPDX-License-Identifier: MIT
 *
 * dwarf.h: a cursor over DWARF data, and DWARF's numbers: the forms in which they stand there,
 * and those of registers.
 *
 * Whatever is damaged, or has none of the forms that are known here, sets `failed`. A caller
 * reads on and asks once at the end.
 *
 * Sources: "DWARF Debugging Information Format", version 4 (DWARF 4), 7.6 for LEB128; Linux
 * Standard Base Core 5.0, Generic Part (LSB), 10.5.1 for encoded pointers;
 * AMD64 psABI 1.0, 3.7, figure 3.36, for registers.
 */
#ifndef ALLOTROPE_SHIM_OBSERVERS_DWARF_H
#define ALLOTROPE_SHIM_OBSERVERS_DWARF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The registers that matter here. */
enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RETURN_ADDRESS = 16 };

struct dwarf_reader {
    const uint8_t *at, *end;
    bool failed;
};

/* An unsigned number of `count` bytes, little endian. count: 1 to 8. */
static inline uint64_t read_fixed(struct dwarf_reader *reader, size_t count)
{
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < count) {
        reader->failed = true;
        return 0;
    }
    memcpy(&value, reader->at, count);
    reader->at += count;
    return value;
}

/* Seven bits a byte, lowest first; the top bit says that another byte follows. */
static inline uint64_t read_uleb128(struct dwarf_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = read_fixed(reader, 1);
        value |= (byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->failed = true;
    return 0;
}

/* Like read_uleb128(), but with the sign in bit 6 of the last byte. */
static inline int64_t read_sleb128(struct dwarf_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = read_fixed(reader, 1);
        value |= (byte & 0x7F) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
    reader->failed = true;
    return 0;
}

/* The pointer encodings that are known here: the lower half is the form, the upper one what
 * the value is relative to. */
enum {
    DW_EH_PE_absptr = 0x00,
    DW_EH_PE_udata4 = 0x03,
    DW_EH_PE_sdata4 = 0x0B,
    DW_EH_PE_sdata8 = 0x0C,
    DW_EH_PE_FORM_MASK = 0x0F,
    DW_EH_PE_pcrel = 0x10,   /* to where the value stands */
    DW_EH_PE_datarel = 0x30, /* to the start of .eh_frame_hdr */
    DW_EH_PE_indirect = 0x80,
};

static inline uintptr_t read_encoded_pointer(struct dwarf_reader *reader, uint8_t encoding)
{
    uintptr_t here = (uintptr_t)reader->at;
    switch (encoding) {
    case DW_EH_PE_absptr:
        return read_fixed(reader, 8);
    case DW_EH_PE_udata4: /* of programs that are not position-independent */
        return read_fixed(reader, 4);
    case DW_EH_PE_pcrel | DW_EH_PE_sdata4:
        return here + (uintptr_t)(int64_t)(int32_t)(uint32_t)read_fixed(reader, 4);
    case DW_EH_PE_pcrel | DW_EH_PE_sdata8:
        return here + read_fixed(reader, 8);
    default:
        reader->failed = true;
        return 0;
    }
}

/* Takes a block, a length in ULEB128 and as many bytes, off the data. Returns a reader of the
 * bytes; an empty one that has failed where there are less. */
static inline struct dwarf_reader read_block(struct dwarf_reader *reader)
{
    uint64_t length = read_uleb128(reader);
    reader->failed |= length > (uint64_t)(reader->end - reader->at);
    if (reader->failed)
        return (struct dwarf_reader){reader->at, reader->at, true};
    const uint8_t *start = reader->at;
    reader->at += length;
    return (struct dwarf_reader){start, reader->at, false};
}

#endif
