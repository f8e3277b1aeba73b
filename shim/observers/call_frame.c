/* SPDX-License-Identifier: MIT
 *
 * call_frame.c: see call_frame.h.
 *
 * The instructions are executed in order, as far as the location that they advance to is not beyond
 * the address that is asked for. The row as it then stands is the result. Rules of registers other
 * than rbp and the return address are read over.
 *
 * Sources: DWARF 4, 6.4.2 (instructions), 6.4.3 (use), 7.23 (encoding), 2.5.1 (expressions);
 * LSB 10.5.2 (DW_CFA_GNU_args_size).
 */
#include "shim/observers/call_frame.h"

/* Three instructions carry an operand in their lower 6 bits. */
enum {
    DW_CFA_advance_loc = 0x40,
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xC0,
    OPERAND_BITS = 0x3F
};
enum {
    DW_CFA_nop = 0x00,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0A,
    DW_CFA_restore_state = 0x0B,
    DW_CFA_def_cfa = 0x0C,
    DW_CFA_def_cfa_register = 0x0D,
    DW_CFA_def_cfa_offset = 0x0E,
    DW_CFA_def_cfa_expression = 0x0F,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_expression = 0x16,
    DW_CFA_GNU_args_size = 0x2E,
};

/* The operations of expressions that compilers write for a function that aligns its stack anew. */
enum { DW_OP_deref = 0x06, DW_OP_breg_rbp = 0x70 + DWARF_RBP };

enum { MOST_STATES = 8 };

/* The instructions of one CIE or FDE, as they are being executed. */
struct program {
    struct dwarf_reader reader;
    const struct cie *cie;
    const struct call_frame_row *initial; /* that the CIE's instructions ended with */
    struct call_frame_row *row;
    uint64_t location; /* bytes into the function */
    unsigned states;   /* that are remembered */
    struct call_frame_row state[MOST_STATES];
};

/* Register rules (6.4.2.3). */

/* The register was saved at CFA + offset. */
static void set_offset_rule(struct program *program, uint64_t number, int64_t offset)
{
    if (number != DWARF_RBP && number != DWARF_RETURN_ADDRESS)
        return;
    program->reader.failed |= offset == 0 || offset % (int64_t)sizeof(uintptr_t) != 0;
    if (number == DWARF_RBP) {
        program->row->rbp_offset = offset;
        program->row->rbp_is_saved_at_rbp = false;
    } else {
        program->row->return_offset = offset;
    }
}

/* The register is in another one, or is computed: a row cannot say so of those that it holds. */
static void set_rule_without_offset(struct program *program, uint64_t number)
{
    program->reader.failed |= number == DWARF_RBP || number == DWARF_RETURN_ADDRESS;
}

/* The register was saved where the expression says. Understood is `rbp + 0`, for rbp. */
static void set_expression_rule(struct program *program, uint64_t number)
{
    struct dwarf_reader *reader = &program->reader;
    struct dwarf_reader expression = read_block(reader);
    reader->failed |= number == DWARF_RETURN_ADDRESS;
    if (number != DWARF_RBP)
        return;
    program->row->rbp_is_saved_at_rbp = true;
    reader->failed |= read_fixed(&expression, 1) != DW_OP_breg_rbp ||
                      read_sleb128(&expression) != 0 || expression.at != expression.end;
}

static void restore_rule(struct program *program, const struct call_frame_row *from,
                         uint64_t number)
{
    if (number == DWARF_RBP) {
        program->row->rbp_offset = from->rbp_offset;
        program->row->rbp_is_saved_at_rbp = from->rbp_is_saved_at_rbp;
    } else if (number == DWARF_RETURN_ADDRESS) {
        program->row->return_offset = from->return_offset;
    }
}

static void execute_rule(struct program *program, uint8_t instruction)
{
    struct dwarf_reader *reader = &program->reader;
    uint64_t number = read_uleb128(reader);
    int64_t factor = program->cie->data_alignment_factor;
    switch (instruction) {
    case DW_CFA_offset_extended:
        set_offset_rule(program, number, (int64_t)read_uleb128(reader) * factor);
        break;
    case DW_CFA_offset_extended_sf:
        set_offset_rule(program, number, read_sleb128(reader) * factor);
        break;
    case DW_CFA_restore_extended:
        restore_rule(program, program->initial, number);
        break;
    case DW_CFA_undefined:
        reader->failed |= number == DWARF_RBP;
        if (number == DWARF_RETURN_ADDRESS)
            program->row->return_offset = 0;
        break;
    case DW_CFA_same_value:
        restore_rule(program, &(struct call_frame_row){0}, number);
        break;
    case DW_CFA_register:
        set_rule_without_offset(program, number);
        read_uleb128(reader);
        break;
    case DW_CFA_expression:
        set_expression_rule(program, number);
        break;
    default: /* DW_CFA_val_expression */
        set_rule_without_offset(program, number);
        read_block(reader);
    }
}

/* The definition of the CFA (6.4.2.2). */

static void define_cfa(struct call_frame_row *row, uint64_t number, int64_t offset)
{
    row->cfa_register = number;
    row->cfa_offset = offset;
    row->cfa_is_indirect = false;
}

/* Understood is `the word at rbp + n`. */
static void define_cfa_by_expression(struct program *program)
{
    struct dwarf_reader expression = read_block(&program->reader);
    bool is_from_rbp = read_fixed(&expression, 1) == DW_OP_breg_rbp;
    define_cfa(program->row, DWARF_RBP, read_sleb128(&expression));
    program->row->cfa_is_indirect = true;
    program->reader.failed |= !is_from_rbp || read_fixed(&expression, 1) != DW_OP_deref ||
                              expression.at != expression.end;
}

static void execute_cfa_definition(struct program *program, uint8_t instruction)
{
    struct dwarf_reader *reader = &program->reader;
    struct call_frame_row *row = program->row;
    int64_t factor = program->cie->data_alignment_factor;
    uint64_t number;
    switch (instruction) {
    case DW_CFA_def_cfa:
        number = read_uleb128(reader);
        define_cfa(row, number, (int64_t)read_uleb128(reader));
        break;
    case DW_CFA_def_cfa_sf:
        number = read_uleb128(reader);
        define_cfa(row, number, read_sleb128(reader) * factor);
        break;
    case DW_CFA_def_cfa_register:
        define_cfa(row, read_uleb128(reader), row->cfa_offset);
        break;
    case DW_CFA_def_cfa_offset:
        define_cfa(row, row->cfa_register, (int64_t)read_uleb128(reader));
        break;
    case DW_CFA_def_cfa_offset_sf:
        define_cfa(row, row->cfa_register, read_sleb128(reader) * factor);
        break;
    case DW_CFA_def_cfa_expression:
        define_cfa_by_expression(program);
        break;
    default:
        reader->failed = true;
    }
}

/* Row states (6.4.2.4). */

static void remember_state(struct program *program)
{
    if (program->states < MOST_STATES)
        program->state[program->states++] = *program->row;
    else
        program->reader.failed = true;
}

static void restore_state(struct program *program)
{
    if (program->states > 0)
        *program->row = program->state[--program->states];
    else
        program->reader.failed = true;
}

static void advance(struct program *program, uint64_t delta)
{
    program->location += delta * program->cie->code_alignment_factor;
}

static void execute_extended(struct program *program, uint8_t instruction)
{
    switch (instruction) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        advance(program,
                read_fixed(&program->reader, (size_t)1 << (instruction - DW_CFA_advance_loc1)));
        break;
    case DW_CFA_offset_extended:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_restore_extended:
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_register:
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        execute_rule(program, instruction);
        break;
    case DW_CFA_remember_state:
        remember_state(program);
        break;
    case DW_CFA_restore_state:
        restore_state(program);
        break;
    case DW_CFA_GNU_args_size:
        read_uleb128(&program->reader);
        break;
    default:
        execute_cfa_definition(program, instruction);
    }
}

/* Executes instructions up to the location `distance` bytes into the function. row: as they find
 * it, then as they leave it. */
static bool execute(struct dwarf_reader instructions, const struct cie *cie, uint64_t distance,
                    const struct call_frame_row *initial, struct call_frame_row *row)
{
    struct program program = {.reader = instructions, .cie = cie, .initial = initial, .row = row};
    struct dwarf_reader *reader = &program.reader;
    while (!reader->failed && reader->at < reader->end && program.location <= distance) {
        uint8_t byte = (uint8_t)read_fixed(reader, 1), operand = byte & OPERAND_BITS;
        switch (byte & ~OPERAND_BITS) {
        case DW_CFA_advance_loc:
            advance(&program, operand);
            break;
        case DW_CFA_offset:
            set_offset_rule(&program, operand,
                            (int64_t)read_uleb128(reader) * cie->data_alignment_factor);
            break;
        case DW_CFA_restore:
            restore_rule(&program, initial, operand);
            break;
        default:
            execute_extended(&program, byte);
        }
    }
    return !reader->failed;
}

bool call_frame_row(const struct fde *fde, uintptr_t pc, struct call_frame_row *row)
{
    const struct call_frame_row nothing = {0};
    struct call_frame_row initial = {0};
    if (!execute(fde->cie.initial_instructions, &fde->cie, UINT64_MAX, &nothing, &initial))
        return false;
    *row = initial;
    return execute(fde->instructions, &fde->cie, pc - fde->pc_begin, &initial, row);
}
