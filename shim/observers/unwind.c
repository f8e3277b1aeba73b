/* SPDX-License-Identifier: MIT
 *
 * unwind.c: see unwind.h.
 *
 * Every Debian program carries tables for exceptions that tell, for each address in its code, where
 * the caller's frame begins and which registers were saved (.eh_frame). To read them takes some
 * 600 instructions a frame, and libgcc does it at every frame of every walk. But what they say of
 * an address never changes and fits in a word, so here it is read once and remembered:
 *
 *     caller's frame = rsp + n, or rbp + n, or what lies at rbp + n (and its rbp at rbp)
 *     return address = what lies below that; caller's rbp = rbp, or what lies at the frame - m
 *
 * Nearly all code is of that kind. The rest (signal frames, the lazy binder's, expressions) is
 * libgcc's: unwind() then returns 0.
 *
 * Which tables are whose is asked of ld.so anew for every run of frames in one object, so that an
 * address in a library that was unloaded is not taken for the one that lies there now.
 *
 * Sources: "DWARF Debugging Information Format", version 4, 6.4; Linux Standard Base, Core 5.0,
 * 10.6 (.eh_frame, .eh_frame_hdr); AMD64 psABI 1.0, 3.7.
 */
#include "shim/observers/unwind.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* A rule, packed: kind in the lowest 2 bits, the end of the stack in the next, then two signed
 * numbers of words: from the kind's register to the caller's frame, and from there to where its
 * rbp was saved, 0 when it is still in the register. A rule of 0 is not known. */
enum rule_kind { KIND_UNKNOWN, FROM_STACK, FROM_BASE, AT_BASE };
enum { KIND_BITS = 2, END_BIT = 4, NUMBER_BITS = 30, WORD = sizeof(uintptr_t) };
#define MOST_WORDS ((INT64_C(1) << (NUMBER_BITS - 1)) - 1)

enum { REGISTER_BASE = 6, REGISTER_STACK = 7, REGISTER_RETURN = 16 };

/* What a row of the table says, as it is being read. */
struct row {
    uint64_t frame_register; /* 6 or 7 are understood */
    int64_t frame_offset;
    bool frame_is_indirect;
    bool base_is_at_base;  /* the saved rbp lies where rbp points */
    int64_t base_offset;   /* from the frame to the saved rbp, 0: not saved */
    int64_t return_offset; /* likewise; 0: undefined, so nobody called */
};

/* A cursor over bytes of a table. What is not understood sets `odd`. */
struct reader {
    const uint8_t *at, *end;
    bool odd;
};

static uint64_t read_bytes(struct reader *reader, size_t count)
{
    uint64_t value = 0;
    if ((size_t)(reader->end - reader->at) < count) {
        reader->odd = true;
        return 0;
    }
    memcpy(&value, reader->at, count);
    reader->at += count;
    return value;
}

static uint64_t read_unsigned(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = read_bytes(reader, 1);
        value |= (byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return value;
    }
    reader->odd = true;
    return 0;
}

static int64_t read_signed(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = read_bytes(reader, 1);
        value |= (byte & 0x7F) << shift;
        shift += 7;
        if (byte & 0x80)
            continue;
        if (shift < 64 && (byte & 0x40))
            value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
    reader->odd = true;
    return 0;
}

/* An address in one of the forms that x86-64's tools write: whole, or 4 or 8 bytes relative to
 * where it stands. */
static uintptr_t read_address(struct reader *reader, uint8_t encoding)
{
    enum { WHOLE = 0x00, RELATIVE_4 = 0x1B, RELATIVE_8 = 0x1C };
    uintptr_t here = (uintptr_t)reader->at;
    switch (encoding) {
    case WHOLE:
        return read_bytes(reader, 8);
    case RELATIVE_4:
        return here + (uintptr_t)(int64_t)(int32_t)(uint32_t)read_bytes(reader, 4);
    case RELATIVE_8:
        return here + read_bytes(reader, 8);
    default:
        reader->odd = true;
        return 0;
    }
}

static uint64_t read_length(struct reader *reader, uint8_t encoding)
{
    return read_bytes(reader, encoding == 0x1B ? 4 : 8);
}

/* What is common to many functions' tables. */
struct common {
    uint64_t code_unit;
    int64_t data_unit;
    uint8_t address_encoding;
    bool has_lengths; /* augmentation data carry their length */
    struct reader instructions;
};

/* A record of .eh_frame: its bytes after the length. */
static struct reader open_record(const uint8_t *record)
{
    uint32_t length;
    memcpy(&length, record, sizeof length);
    bool odd = length == 0 || length == UINT32_MAX;
    return (struct reader){record + 4, record + 4 + (odd ? 0 : length), odd};
}

static void read_augmentation(struct common *common, struct reader *reader, const char *letters)
{
    uint64_t length = read_unsigned(reader);
    const uint8_t *end = reader->at + length;
    common->has_lengths = true;
    for (; *letters; letters++) {
        uint8_t encoding = 0;
        switch (*letters) {
        case 'R':
            common->address_encoding = (uint8_t)read_bytes(reader, 1);
            break;
        case 'L':
            read_bytes(reader, 1);
            break;
        case 'P': /* the personality: one more form, through a pointer (0x80) */
            encoding = (uint8_t)read_bytes(reader, 1);
            read_address(reader, encoding & 0x7F);
            break;
        default: /* among them S, a signal's frame */
            reader->odd = true;
        }
    }
    reader->at = end;
}

static struct common read_common(const uint8_t *record)
{
    struct common common = {0};
    struct reader reader = open_record(record);
    reader.odd |= read_bytes(&reader, 4) != 0;
    uint64_t version = read_bytes(&reader, 1);
    const char *letters = (const char *)reader.at;
    size_t length = strnlen(letters, (size_t)(reader.end - reader.at));
    reader.at += length;
    reader.odd |= (version != 1 && version != 3) || read_bytes(&reader, 1) != 0;
    common.code_unit = read_unsigned(&reader);
    common.data_unit = read_signed(&reader);
    reader.odd |=
        (version == 1 ? read_bytes(&reader, 1) : read_unsigned(&reader)) != REGISTER_RETURN;
    if (!reader.odd && letters[0] == 'z')
        read_augmentation(&common, &reader, letters + 1);
    else
        reader.odd |= letters[0] != '\0';
    common.instructions = reader;
    return common;
}

static void save_at(struct row *row, struct reader *reader, uint64_t number, int64_t offset)
{
    reader->odd |= offset == 0 || offset % WORD != 0;
    if (number == REGISTER_BASE) {
        row->base_offset = offset;
        row->base_is_at_base = false;
    } else if (number == REGISTER_RETURN) {
        row->return_offset = offset;
    }
}

/* A register whose place is another register, or computed: of interest only if it is followed. */
static void save_oddly(struct reader *reader, uint64_t number)
{
    reader->odd |= number == REGISTER_BASE || number == REGISTER_RETURN;
}

/* The two expressions that compilers write for a function that aligns its stack anew: its frame is
 * what lies at rbp + n, its caller's rbp what lies at rbp. */
enum { RBP_PLUS = 0x76, DEREFERENCE = 0x06 };

static void save_at_expression(struct row *row, struct reader *reader, uint64_t number)
{
    uint64_t length = read_unsigned(reader);
    reader->odd |= length > (uint64_t)(reader->end - reader->at) || number == REGISTER_RETURN;
    if (reader->odd)
        return;
    if (number == REGISTER_BASE) {
        row->base_is_at_base = true;
        reader->odd |= length != 2 || reader->at[0] != RBP_PLUS || reader->at[1] != 0;
    }
    reader->at += length;
}

static void define_frame_by_expression(struct row *row, struct reader *reader)
{
    uint64_t length = read_unsigned(reader);
    const uint8_t *end = reader->at + length;
    reader->odd |= read_bytes(reader, 1) != RBP_PLUS;
    row->frame_register = REGISTER_BASE;
    row->frame_offset = read_signed(reader);
    row->frame_is_indirect = true;
    reader->odd |= read_bytes(reader, 1) != DEREFERENCE || reader->at != end;
}

static void define_frame(struct row *row, uint64_t number, int64_t offset)
{
    row->frame_register = number;
    row->frame_offset = offset;
    row->frame_is_indirect = false;
}

static void skip_block(struct reader *reader)
{
    uint64_t length = read_unsigned(reader);
    reader->odd |= length > (uint64_t)(reader->end - reader->at);
    if (!reader->odd)
        reader->at += length;
}

static void restore(struct row *row, const struct row *initial, uint64_t number)
{
    if (number == REGISTER_BASE) {
        row->base_offset = initial->base_offset;
        row->base_is_at_base = initial->base_is_at_base;
    } else if (number == REGISTER_RETURN) {
        row->return_offset = initial->return_offset;
    }
}

/* Instructions: three that carry a number in their lower 6 bits, then the others. */
enum { ADVANCE_LOC = 0x40, OFFSET = 0x80, RESTORE = 0xC0, LOWER_BITS = 0x3F };
enum {
    NOP = 0x00,
    ADVANCE_LOC_1 = 0x02,
    ADVANCE_LOC_2 = 0x03,
    ADVANCE_LOC_4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER_STATE = 0x0A,
    RESTORE_STATE = 0x0B,
    DEF_CFA = 0x0C,
    DEF_CFA_REGISTER = 0x0D,
    DEF_CFA_OFFSET = 0x0E,
    DEF_CFA_EXPRESSION = 0x0F,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SF = 0x11,
    DEF_CFA_SF = 0x12,
    DEF_CFA_OFFSET_SF = 0x13,
    VAL_EXPRESSION = 0x16,
    GNU_ARGS_SIZE = 0x2E,
};

/* Instructions being followed to the row that holds for one address. */
struct run {
    struct reader *reader;
    const struct common *common;
    const struct row *initial; /* that the common part ended with */
    struct row *row;
    uint64_t location; /* bytes into the function */
    unsigned depth;    /* of what is remembered */
    struct row remembered[8];
};

static void remember_state(struct run *run)
{
    if (run->depth < sizeof run->remembered / sizeof *run->remembered)
        run->remembered[run->depth++] = *run->row;
    else
        run->reader->odd = true;
}

static void restore_state(struct run *run)
{
    if (run->depth > 0)
        *run->row = run->remembered[--run->depth];
    else
        run->reader->odd = true;
}

/* The frame's offset: in the forms that end in _SF it is signed and counts data units. */
static int64_t read_frame_offset(struct run *run, bool is_sf)
{
    return is_sf ? read_signed(run->reader) * run->common->data_unit
                 : (int64_t)read_unsigned(run->reader);
}

static void follow_frame(struct run *run, uint8_t instruction)
{
    struct row *row = run->row;
    uint64_t number;
    switch (instruction) {
    case DEF_CFA:
    case DEF_CFA_SF:
        number = read_unsigned(run->reader);
        define_frame(row, number, read_frame_offset(run, instruction == DEF_CFA_SF));
        break;
    case DEF_CFA_REGISTER:
        define_frame(row, read_unsigned(run->reader), row->frame_offset);
        break;
    case DEF_CFA_OFFSET:
    case DEF_CFA_OFFSET_SF:
        define_frame(row, row->frame_register,
                     read_frame_offset(run, instruction == DEF_CFA_OFFSET_SF));
        break;
    case DEF_CFA_EXPRESSION:
        define_frame_by_expression(row, run->reader);
        break;
    default:
        run->reader->odd = true;
    }
}

static void follow_saved(struct run *run, uint8_t instruction)
{
    struct reader *reader = run->reader;
    uint64_t number = read_unsigned(reader);
    int64_t offset;
    switch (instruction) {
    case OFFSET_EXTENDED:
    case OFFSET_EXTENDED_SF:
        offset =
            instruction == OFFSET_EXTENDED ? (int64_t)read_unsigned(reader) : read_signed(reader);
        save_at(run->row, reader, number, offset * run->common->data_unit);
        break;
    case RESTORE_EXTENDED:
        restore(run->row, run->initial, number);
        break;
    case UNDEFINED:
        reader->odd |= number == REGISTER_BASE;
        if (number == REGISTER_RETURN)
            run->row->return_offset = 0;
        break;
    case SAME_VALUE:
        restore(run->row, &(struct row){0}, number);
        break;
    case REGISTER:
        save_oddly(reader, number);
        read_unsigned(reader);
        break;
    case EXPRESSION:
        save_at_expression(run->row, reader, number);
        break;
    default: /* VAL_EXPRESSION */
        save_oddly(reader, number);
        skip_block(reader);
    }
}

static void follow_other(struct run *run, uint8_t instruction)
{
    switch (instruction) {
    case NOP:
        break;
    case ADVANCE_LOC_1:
    case ADVANCE_LOC_2:
    case ADVANCE_LOC_4:
        run->location += read_bytes(run->reader, (size_t)1 << (instruction - ADVANCE_LOC_1)) *
                         run->common->code_unit;
        break;
    case OFFSET_EXTENDED:
    case OFFSET_EXTENDED_SF:
    case RESTORE_EXTENDED:
    case UNDEFINED:
    case SAME_VALUE:
    case REGISTER:
    case EXPRESSION:
    case VAL_EXPRESSION:
        follow_saved(run, instruction);
        break;
    case REMEMBER_STATE:
        remember_state(run);
        break;
    case RESTORE_STATE:
        restore_state(run);
        break;
    case GNU_ARGS_SIZE:
        read_unsigned(run->reader);
        break;
    default:
        follow_frame(run, instruction);
    }
}

/* Follows the instructions as far as they hold for an address `distance` bytes into the function.
 * initial: the row that the common part ended with. */
static void follow(struct reader *reader, const struct common *common, uint64_t distance,
                   const struct row *initial, struct row *row)
{
    struct run run = {.reader = reader, .common = common, .initial = initial, .row = row};
    while (!reader->odd && reader->at < reader->end && run.location <= distance) {
        uint8_t byte = (uint8_t)read_bytes(reader, 1), lower = byte & LOWER_BITS;
        switch (byte & ~LOWER_BITS) {
        case ADVANCE_LOC:
            run.location += lower * common->code_unit;
            break;
        case OFFSET:
            save_at(row, reader, lower, (int64_t)read_unsigned(reader) * common->data_unit);
            break;
        case RESTORE:
            restore(row, initial, lower);
            break;
        default:
            follow_other(&run, byte);
        }
    }
}

/* The record of the function that `address` lies in; NULL when there is none. The header is a
 * table sorted by address, of pairs of 4 bytes relative to its own start. */
static const uint8_t *find_record(const uint8_t *header, uintptr_t address)
{
    static const uint8_t expected[4] = {1, 0x1B, 0x03, 0x3B};
    struct {
        int32_t start, record;
    } entry;
    uint32_t count;
    if (!header || memcmp(header, expected, sizeof expected) != 0)
        return NULL;
    memcpy(&count, header + 8, sizeof count);
    const uint8_t *table = header + 12;
    int64_t wanted = (int64_t)(address - (uintptr_t)header);
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        memcpy(&entry, table + (size_t)middle * sizeof entry, sizeof entry);
        if (entry.start <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    memcpy(&entry, table + (size_t)(low - 1) * sizeof entry, sizeof entry);
    return header + entry.record;
}

static uint64_t pack(const struct row *row)
{
    int64_t frame = row->frame_offset / WORD, base = row->base_offset / WORD;
    if (row->return_offset == 0)
        return END_BIT | FROM_STACK;
    if (row->return_offset != -(int64_t)WORD || row->frame_offset % WORD != 0 ||
        frame > MOST_WORDS || frame < -MOST_WORDS || base > MOST_WORDS || base < -MOST_WORDS)
        return KIND_UNKNOWN;
    uint64_t kind = KIND_UNKNOWN;
    if (row->frame_register == REGISTER_STACK && !row->frame_is_indirect)
        kind = FROM_STACK;
    else if (row->frame_register == REGISTER_BASE)
        kind = row->frame_is_indirect ? AT_BASE : FROM_BASE;
    if (row->base_is_at_base != (kind == AT_BASE))
        kind = KIND_UNKNOWN;
    uint64_t mask = (UINT64_C(1) << NUMBER_BITS) - 1;
    if (kind == KIND_UNKNOWN)
        return KIND_UNKNOWN;
    return kind | ((uint64_t)frame & mask) << 4 | ((uint64_t)base & mask) << (4 + NUMBER_BITS);
}

/* Reads the rule for a return address: it holds for the call before it. */
static uint64_t read_rule(uintptr_t address, const uint8_t *header)
{
    const uint8_t *record = find_record(header, address - 1);
    if (!record)
        return KIND_UNKNOWN;
    struct reader reader = open_record(record);
    const uint8_t *place = reader.at;
    uint32_t back = (uint32_t)read_bytes(&reader, 4);
    if (reader.odd || back == 0)
        return KIND_UNKNOWN;
    struct common common = read_common(place - back);
    if (common.instructions.odd)
        return KIND_UNKNOWN;
    uintptr_t start = read_address(&reader, common.address_encoding);
    uint64_t length = read_length(&reader, common.address_encoding);
    uint64_t distance = address - 1 - start;
    if (reader.odd || distance >= length)
        return KIND_UNKNOWN;
    if (common.has_lengths)
        skip_block(&reader);
    struct row initial = {0}, row;
    follow(&common.instructions, &common, UINT64_MAX, &(struct row){0}, &initial);
    row = initial;
    follow(&reader, &common, distance, &initial, &row);
    return common.instructions.odd || reader.odd ? KIND_UNKNOWN : pack(&row);
}

/* Rules that were read. Two words that may be of different writers belong together when their
 * difference is the key (Hyatt and Mann, "A lockless transposition table implementation for
 * parallel search", 2002). */
enum { REMEMBERED_BITS = 11 };
static struct {
    _Atomic uint64_t key, rule;
} rules[1 << REMEMBERED_BITS];

static uint64_t rule_of(uintptr_t address, const uint8_t *header)
{
    uint64_t key = address ^ (uint64_t)(uintptr_t)header << 16;
    size_t place = key * UINT64_C(0x9E3779B97F4A7C15) >> (64 - REMEMBERED_BITS);
    uint64_t rule = atomic_load_explicit(&rules[place].rule, memory_order_relaxed);
    if (rule && (atomic_load_explicit(&rules[place].key, memory_order_relaxed) ^ rule) == key)
        return rule;
    rule = read_rule(address, header);
    atomic_store_explicit(&rules[place].rule, rule, memory_order_relaxed);
    atomic_store_explicit(&rules[place].key, key ^ rule, memory_order_relaxed);
    return rule;
}

static uintptr_t word_at(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* Goes up by one frame; false: not by this rule. */
static bool go_up(struct frame *frame, uint64_t rule)
{
    uint64_t kind = rule & ((1 << KIND_BITS) - 1);
    int64_t words = (int64_t)(rule << (64 - 4 - NUMBER_BITS)) >> (64 - NUMBER_BITS);
    int64_t base = (int64_t)rule >> (4 + NUMBER_BITS);
    uintptr_t above = (uintptr_t)(words * WORD);
    above += kind == FROM_STACK ? frame->stack : frame->base;
    if (kind == AT_BASE)
        above = word_at(above);
    if (above <= frame->stack || above % WORD != 0)
        return false;
    frame->stack = above;
    frame->address = word_at(above - WORD);
    if (kind == AT_BASE)
        frame->base = word_at(frame->base);
    else if (base != 0)
        frame->base = word_at(above + (uintptr_t)(base * WORD));
    return true;
}

uint32_t unwind(struct frame frame, const void **addresses, uint32_t *places, uint32_t most)
{
    struct dl_find_object object = {0};
    uintptr_t start = frame.stack;
    uint32_t count = 0;
    if (!_dl_find_object)
        return 0;
    while (count < most && frame.address != 0) {
        if (frame.address - (uintptr_t)object.dlfo_map_start >=
                (uintptr_t)object.dlfo_map_end - (uintptr_t)object.dlfo_map_start &&
            _dl_find_object((void *)frame.address, &object) != 0)
            return 0; /* code made at run time, which libgcc may have been told of */
        if (places)
            places[count] = (uint32_t)(frame.stack - WORD - start);
        addresses[count++] = (const void *)frame.address;
        uint64_t rule = rule_of(frame.address, object.dlfo_eh_frame);
        if (rule & END_BIT)
            break;
        if (rule == KIND_UNKNOWN || !go_up(&frame, rule))
            return 0;
    }
    return count;
}
