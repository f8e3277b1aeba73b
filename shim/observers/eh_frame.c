/* SPDX-License-Identifier: MIT
 *
 * eh_frame.c: see eh_frame.h.
 *
 *   .eh_frame_hdr   | 1 | encodings: 3 bytes | .eh_frame | count | (function, FDE) ... |
 *                                                               sorted by function ^
 *   .eh_frame
 *      CIE          | length | 0 | version | "zPLR" | code and data alignment factors |
 *                   | return address register | augmentation data | initial instructions |
 *      FDE          | length | CIE pointer | pc_begin | pc_range |
 *                   | augmentation data | instructions |
 *
 * The CIE pointer is the distance from where it stands back to the CIE. The augmentation string
 * names what the augmentation data hold: z their length, P the personality routine, L the encoding
 * of the language-specific data area, R the encoding of the FDEs' addresses, S that it is a
 * signal's frame.
 *
 * Sources: LSB 10.6.1 (.eh_frame), 10.6.2 (.eh_frame_hdr); DWARF 4, 6.4.1 and 7.23.
 */
#include "shim/observers/eh_frame.h"

/* The FDE of the last function that does not begin above `pc`; NULL when there is none. Only the
 * table that GNU ld and lld write is understood: pairs of 4 bytes, relative to the section. */
static const uint8_t *search_table(const uint8_t *eh_frame_hdr, uintptr_t pc)
{
    static const uint8_t expected[4] = {1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
                                        DW_EH_PE_datarel | DW_EH_PE_sdata4};
    struct {
        int32_t function, fde;
    } entry;
    uint32_t count;
    if (!eh_frame_hdr || memcmp(eh_frame_hdr, expected, sizeof expected) != 0)
        return NULL;
    memcpy(&count, eh_frame_hdr + 8, sizeof count);
    const uint8_t *table = eh_frame_hdr + 12;
    int64_t wanted = (int64_t)(pc - (uintptr_t)eh_frame_hdr);
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        memcpy(&entry, table + (size_t)middle * sizeof entry, sizeof entry);
        if (entry.function <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    memcpy(&entry, table + (size_t)(low - 1) * sizeof entry, sizeof entry);
    return eh_frame_hdr + entry.fde;
}

/* Reads the length of a CIE or an FDE; returns a reader of the rest. Length 0 ends .eh_frame; the
 * form with a length of 8 bytes is not understood. */
static struct dwarf_reader open_entry(const uint8_t *entry)
{
    uint32_t length;
    memcpy(&length, entry, sizeof length);
    bool failed = length == 0 || length == UINT32_MAX;
    return (struct dwarf_reader){entry + 4, entry + 4 + (failed ? 0 : length), failed};
}

/* letters: of the augmentation string, those after the z. */
static void read_augmentation(struct cie *cie, struct dwarf_reader *reader, const char *letters)
{
    struct dwarf_reader data = read_block(reader);
    cie->has_augmentation_data = true;
    for (; *letters; letters++) {
        uint8_t encoding;
        switch (*letters) {
        case 'R':
            cie->pointer_encoding = (uint8_t)read_fixed(&data, 1);
            break;
        case 'L':
            read_fixed(&data, 1);
            break;
        case 'P':
            encoding = (uint8_t)read_fixed(&data, 1);
            read_encoded_pointer(&data, encoding & ~DW_EH_PE_indirect);
            break;
        default: /* S among them: what a signal's frame holds is not the same */
            reader->failed = true;
        }
    }
    reader->failed |= data.failed;
}

static struct cie read_cie(const uint8_t *entry)
{
    struct cie cie = {0};
    struct dwarf_reader reader = open_entry(entry);
    reader.failed |= read_fixed(&reader, 4) != 0; /* a CIE's id */
    uint64_t version = read_fixed(&reader, 1);
    const char *augmentation = (const char *)reader.at;
    reader.at += strnlen(augmentation, (size_t)(reader.end - reader.at));
    reader.failed |= (version != 1 && version != 3) || read_fixed(&reader, 1) != 0;
    cie.code_alignment_factor = read_uleb128(&reader);
    cie.data_alignment_factor = read_sleb128(&reader);
    uint64_t return_register = version == 1 ? read_fixed(&reader, 1) : read_uleb128(&reader);
    reader.failed |= return_register != DWARF_RETURN_ADDRESS;
    if (!reader.failed && augmentation[0] == 'z')
        read_augmentation(&cie, &reader, augmentation + 1);
    else
        reader.failed |= augmentation[0] != '\0';
    cie.initial_instructions = reader;
    return cie;
}

bool fde_find(const uint8_t *eh_frame_hdr, uintptr_t pc, struct fde *fde)
{
    const uint8_t *entry = search_table(eh_frame_hdr, pc);
    if (!entry)
        return false;
    struct dwarf_reader reader = open_entry(entry);
    const uint8_t *here = reader.at;
    uint32_t cie_pointer = (uint32_t)read_fixed(&reader, 4);
    if (reader.failed || cie_pointer == 0)
        return false;
    fde->cie = read_cie(here - cie_pointer);
    if (fde->cie.initial_instructions.failed)
        return false;
    uint8_t encoding = fde->cie.pointer_encoding;
    fde->pc_begin = read_encoded_pointer(&reader, encoding);
    /* The length has the form of an address, but is relative to nothing. */
    uint8_t form = encoding & DW_EH_PE_FORM_MASK;
    bool is_short = form == DW_EH_PE_udata4 || form == DW_EH_PE_sdata4;
    fde->pc_range = read_fixed(&reader, is_short ? 4 : 8);
    if (reader.failed || pc - fde->pc_begin >= fde->pc_range)
        return false;
    if (fde->cie.has_augmentation_data)
        read_block(&reader);
    fde->instructions = reader;
    return !reader.failed;
}
