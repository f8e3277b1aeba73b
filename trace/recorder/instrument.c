/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * instrument.c: the code that is added to each superblock; see recorder.c for what it does.
 */
#include "trace/recorder/instrument.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

#include "libvex_guest_offsets.h"

#include "trace/protocol/doorbell.h"
#include "trace/recorder/descriptions.h"
#include "trace/recorder/doorbells.h"
#include "trace/recorder/handlers.h"
#include "trace/recorder/ring.h"

struct path {
    Addr target; /* 0 when computed at run time */
    UShort slots;
    UShort instructions;
    Bool explicit;     /* the header tells it */
    UShort stack_base; /* the stack pointer behind it, as a slot's base and offset */
    ULong stack_offset;
};

struct slot {
    ULong description; /* as in RAW_DEFINE */
    ULong offset;      /* from the base */
    Addr instruction;
};

enum { MOST_DELAYED = 40 };

/* A value as a constant distance from a root: a temporary, the stack pointer as the superblock
 * finds it, or nothing, which makes it a constant. */
struct place {
    IRTemp root;
    ULong offset;
};
enum { ROOT_NOTHING = 0xfffffffe, ROOT_STACK = 0xfffffffd };

/* What is known of a temporary. */
struct temporary {
    struct place place;
    Bool foreign; /* it holds a stack pointer of some other frame's making */
};

/* A told slot, from which later ones with the same root are derived. */
struct anchor {
    struct place place;
    UInt slot;
};

/* A superblock being rewritten. A very long one is recorded as several parts in a row. */
struct builder {
    IRSB *in;
    IRSB *out;
    Int position; /* of the statement at hand */
    Int shadow;   /* offset of the first set of shadow registers */
    IRTemp base;
    IRConst *footprint; /* bytes of the part in the ring: patched when known */
    UInt id;
    UInt header;            /* as it was stored last */
    Addr entry;             /* where this part begins, as a jump would name it */
    Addr first_address;     /* of its first instruction, silent or not */
    UInt first_instruction; /* of this part */
    UInt instructions;      /* so far, in the whole */
    Addr at;                /* the instruction at hand */
    Bool silent;            /* the instruction at hand only rings */
    UInt slots;
    UInt words; /* of the slots that are told */
    UInt paths;
    UInt anchors;
    struct place stack_before; /* the stack pointer where the part begins */
    struct place stack;        /* ... and at present */
    struct slot slot[REFERENCE_RING_MAX_SLOTS];
    struct anchor anchor[REFERENCE_RING_MAX_SLOTS];
    struct path path[REFERENCE_RING_MAX_SLOTS];
    Addr instruction[REFERENCE_RING_MAX_SLOTS];
    Int last_access; /* position of the statement in which the instruction refers to memory last */
    IRStmt *delayed[MOST_DELAYED];
    UInt delayed_count;
    struct temporary *temporaries;
};

static void add(struct builder *b, IRStmt *statement)
{
    addStmtToIRSB(b->out, statement);
}

static IRExpr *constant(ULong value)
{
    return IRExpr_Const(IRConst_U64(value));
}

static IRExpr *assign(struct builder *b, IRType type, IRExpr *value)
{
    IRTemp temporary = newIRTemp(b->out->tyenv, type);
    add(b, IRStmt_WrTmp(temporary, value));
    return IRExpr_RdTmp(temporary);
}

static void store_word(struct builder *b, UInt index, IRExpr *value)
{
    IRExpr *address = IRExpr_RdTmp(b->base);
    if (index != 0)
        address = assign(b, Ity_I64, IRExpr_Binop(Iop_Add64, address, constant(8 * index)));
    add(b, IRStmt_Store(Iend_LE, address, value));
}

static void store_header(struct builder *b, UInt header)
{
    b->header = header;
    store_word(b, 0, constant(RAW_HEADER | header));
}

static UInt part_instructions(const struct builder *b)
{
    return b->instructions - b->first_instruction;
}

/* The most slots that a superblock can come to. */
static UInt most_slots(const IRSB *block)
{
    UInt most = 0;
    for (Int i = 0; i < block->stmts_used; i++) {
        const IRStmt *statement = block->stmts[i];
        switch (statement->tag) {
        case Ist_WrTmp:
            most += statement->Ist.WrTmp.data->tag == Iex_Load;
            break;
        case Ist_CAS:
        case Ist_Dirty:
            most += 2;
            break;
        case Ist_Put:
            most += 2 * (statement->Ist.Put.offset == OFFSET_amd64_RSP);
            break;
        case Ist_Store:
        case Ist_StoreG:
        case Ist_LoadG:
            most += 1;
            break;
        default:
            break;
        }
    }
    return most;
}

/* Publishes the ring's slot first if it is full. */
static void add_check(struct builder *b)
{
    IRExpr *end = assign(b, Ity_I64, IRExpr_Get(b->shadow + RING_LIMIT_OFFSET, Ity_I64));
    IRExpr *present = assign(b, Ity_I64, IRExpr_Get(b->shadow + RING_CURSOR_OFFSET, Ity_I64));
    IRDirty *call = unsafeIRDirty_0_N(
        0, "publish", VG_(fnptr_to_fnentry)(ring_publish_inside_client), mkIRExprVec_0());
    call->guard = assign(b, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, end, present));
    add(b, IRStmt_Dirty(call));
}

static void begin_part(struct builder *b, Addr entry)
{
    b->first_address = b->in->stmts[b->position]->Ist.IMark.addr;
    b->id = descriptions_next_id();
    b->entry = entry;
    b->first_instruction = b->instructions;
    b->slots = b->words = b->paths = b->anchors = 0;
    b->stack_before = b->stack;
    tl_assert(b->id < RAW_HEADER_MASK - REFERENCE_RING_MAX_SLOTS);

    if (most_slots(b->in) > RING_SMALL_SUPERBLOCK)
        add_check(b);
    IRExpr *base = assign(b, Ity_I64, IRExpr_Get(b->shadow + RING_CURSOR_OFFSET, Ity_I64));
    b->base = base->Iex.RdTmp.tmp;
    store_header(b, b->id);
    b->footprint = IRConst_U64(0);
    IRExpr *next = assign(b, Ity_I64, IRExpr_Binop(Iop_Add64, base, IRExpr_Const(b->footprint)));
    add(b, IRStmt_Put(b->shadow + RING_CURSOR_OFFSET, next));
}

/* Whether the exit at hand could be taken for another one by its target. A part that a
 * computed jump ends could arrive anywhere: its end is told explicitly. */
static Bool is_ambiguous(const struct builder *b, Addr target)
{
    if (b->paths > 0 && b->path[b->paths - 1].explicit)
        return True;
    for (UInt i = 0; i < b->paths; i++)
        if (b->path[i].target == target || target == 0)
            return True;
    for (Int i = b->position + 1; i < b->in->stmts_used; i++) {
        const IRStmt *later = b->in->stmts[i];
        if (later->tag == Ist_Exit && later->Ist.Exit.dst->Ico.U64 == target)
            return True;
    }
    const IRExpr *end = b->in->next;
    return target != 0 && b->position < b->in->stmts_used && end->tag == Iex_Const &&
           end->Iex.Const.con->Ico.U64 == target;
}

/* Where an address is known to lie: how far from what. TOLD: from nothing that is known. */
static UInt base_of(const struct builder *b, struct place place, ULong *offset)
{
    *offset = place.offset;
    if (place.root == ROOT_NOTHING)
        return RAW_BASE_NOTHING;
    if (place.root == b->stack_before.root) {
        *offset -= b->stack_before.offset;
        return RAW_BASE_STACK;
    }
    for (UInt i = 0; i < b->anchors; i++)
        if (b->anchor[i].place.root == place.root) {
            *offset -= b->anchor[i].place.offset;
            return RAW_BASE_SLOT + b->anchor[i].slot;
        }
    *offset = 0;
    return RAW_TOLD;
}

/* An exit may be taken here. */
static void add_exit(struct builder *b, Addr target)
{
    struct path *path = &b->path[b->paths];
    path->target = target;
    path->slots = b->slots;
    path->instructions = part_instructions(b);
    path->explicit = is_ambiguous(b, target);
    path->stack_base = base_of(b, b->stack, &path->stack_offset);
    tl_assert(path->stack_base != RAW_TOLD);
    b->paths++;
    if (path->explicit)
        store_header(b, b->id + b->paths);
}

/* Tells the stream what the part is, and keeps what a fault in it would need. */
static void end_part(struct builder *b)
{
    b->footprint->Ico.U64 = 8 * (1 + b->words);
    UInt function = descriptions_function(b->first_address);
    UInt words = 4 + 3 * b->slots + 3 * b->paths;
    ULong *payload = ring_begin_event(RAW_DEFINE, words);
    *payload++ = b->id;
    *payload++ = b->entry;
    *payload++ = function;
    *payload++ = b->slots | (ULong)b->paths << 32;
    for (UInt i = 0; i < b->slots; i++) {
        *payload++ = b->slot[i].description;
        *payload++ = b->slot[i].offset;
        *payload++ = b->slot[i].instruction;
    }
    for (UInt i = 0; i < b->paths; i++) {
        const struct path *path = &b->path[i];
        *payload++ = path->slots | (ULong)path->instructions << 16 | (ULong)path->stack_base << 32;
        *payload++ = path->target;
        *payload++ = path->stack_offset;
    }
    ring_end_event(words);

    UShort exits[REFERENCE_RING_MAX_SLOTS];
    for (UInt i = 0; i < b->paths; i++)
        exits[i] = b->path[i].instructions;
    descriptions_add(b->words, b->instruction, part_instructions(b), exits, b->paths);
}

/* A fault is told by its instruction's address and the header, which names the exit that was
 * reached last if that is an explicit one. So no address comes twice from such an exit on: Valgrind
 * unrolls loops, and a part ends where that would happen. */
static Bool comes_twice(const struct builder *b, Addr instruction)
{
    UInt first = 0;
    if (b->paths > 0 && b->path[b->paths - 1].explicit && b->path[b->paths - 1].instructions > 0)
        first = b->path[b->paths - 1].instructions - 1;
    for (UInt i = first; i < part_instructions(b); i++)
        if (b->instruction[i] == instruction)
            return True;
    return False;
}

/* An instruction begins. A part ends early when another statement could go past what it may hold,
 * and where a fault could not be told. */
static void begin_instruction(struct builder *b, Addr instruction)
{
    enum { MOST_SLOTS = REFERENCE_RING_MAX_SLOTS - 8 };
    if (b->slots >= MOST_SLOTS - 64 || part_instructions(b) >= MOST_SLOTS ||
        comes_twice(b, instruction)) {
        add_exit(b, instruction);
        end_part(b);
        begin_part(b, instruction);
    }
    b->at = instruction;
    b->silent = doorbells_silent(instruction);
    if (!b->silent) {
        b->instruction[part_instructions(b)] = instruction;
        b->instructions++;
    }
}

/* Slots. What is known where the superblock is translated, or follows from another slot, is not
 * told; see protocol/reference_ring.h. */

static struct place place_of(const struct builder *b, const IRExpr *value)
{
    if (value->tag == Iex_Const)
        return (struct place){ROOT_NOTHING, value->Iex.Const.con->Ico.U64};
    return b->temporaries[value->Iex.RdTmp.tmp].place;
}

static void add_slot(struct builder *b, UInt kind, UInt index, UInt size, UInt base, ULong offset)
{
    struct slot *slot = &b->slot[b->slots++];
    slot->description = kind | (ULong)index << 8 | (ULong)size << 16 |
                        (ULong)part_instructions(b) << 32 | (ULong)base << 48;
    slot->offset = offset;
    slot->instruction = b->at;
}

static void add_told_slot(struct builder *b, UInt kind, UInt index, UInt size, IRExpr *value)
{
    add_slot(b, kind, index, size, RAW_TOLD, 0);
    b->words++;
    store_word(b, b->words, value);
}

/* A slot that others can be derived from. */
static void add_anchor(struct builder *b, UInt kind, UInt size, IRExpr *value)
{
    b->anchor[b->anchors++] = (struct anchor){place_of(b, value), b->slots};
    add_told_slot(b, kind, 0, size, value);
}

/* The stack pointer's place is known at every exit: where it follows from nothing else, it is told
 * in a slot of no bytes. */
static void add_stack_anchor(struct builder *b)
{
    ULong offset;
    if (base_of(b, b->stack, &offset) != RAW_TOLD)
        return;
    b->anchor[b->anchors++] = (struct anchor){b->stack, b->slots};
    IRExpr *pointer = assign(b, Ity_I64, IRExpr_Get(OFFSET_amd64_RSP, Ity_I64));
    add_told_slot(b, RAW_POINTER, 0, 8, pointer);
}

/* Doorbells. A bell divides the superblock for whoever reads: what is before it is no base for what
 * is behind. */

static void add_bell(struct builder *b, UInt kind, UInt index, IRExpr *value)
{
    add_told_slot(b, kind, index, 8, value);
    b->anchors = 0;
    add_stack_anchor(b);
}

static void add_doorbell(struct builder *b, UInt index, IRExpr *value)
{
    if (index == DOORBELL_ACTIVE)
        return;
    if (typeOfIRExpr(b->out->tyenv, value) != Ity_I64)
        VG_(tool_panic)("a doorbell is rung with a value that is no 64-bit integer");
    add_bell(b, RAW_DOORBELL, index, value);
}

/* References. */

static void add_reference(struct builder *b, UInt kind, IRExpr *address, UInt size, IRExpr *guard)
{
    if (b->silent || doorbells_at(address) >= 0)
        return;
    if (guard) {
        address = assign(b, Ity_I64, IRExpr_ITE(guard, address, constant(RAW_ABSENT)));
        add_told_slot(b, kind, 0, size, address);
        return;
    }
    ULong offset;
    UInt base = base_of(b, place_of(b, address), &offset);
    if (base == RAW_TOLD)
        add_anchor(b, kind, size, address);
    else
        add_slot(b, kind, 0, size, base, offset);
}

static UInt bytes_of(struct builder *b, IRExpr *value)
{
    return sizeofIRType(typeOfIRExpr(b->out->tyenv, value));
}

static void add_compare_and_swap(struct builder *b, IRCAS *cas)
{
    UInt size = bytes_of(b, cas->dataLo) * (cas->dataHi ? 2 : 1);
    add_reference(b, RAW_LOAD, cas->addr, size, NULL);
    add_reference(b, RAW_STORE, cas->addr, size, NULL);
}

static void add_helper(struct builder *b, IRDirty *call)
{
    if (call->mFx == Ifx_None)
        return;
    IRExpr *guard = call->guard;
    if (guard->tag == Iex_Const)
        guard = NULL;
    if (call->mFx == Ifx_Read || call->mFx == Ifx_Modify)
        add_reference(b, RAW_LOAD, call->mAddr, call->mSize, guard);
    if (call->mFx == Ifx_Write || call->mFx == Ifx_Modify)
        add_reference(b, RAW_STORE, call->mAddr, call->mSize, guard);
}

/* Temporaries, and the stack pointer. */

static Bool overlap(Int first, IRType first_type, Int second, IRType second_type)
{
    return first < second + sizeofIRType(second_type) && second < first + sizeofIRType(first_type);
}

static Bool is_foreign(const struct builder *b, const IRExpr *value)
{
    return value->tag == Iex_RdTmp && b->temporaries[value->Iex.RdTmp.tmp].foreign;
}

/* A stack pointer that is computed from the present one, from the frame pointer, or from r10
 * (which realigned frames restore it from) stays on this stack in the ordinary way; anything
 * else (longjmp, unwinding, a switch of stacks) is foreign. */
static Bool makes_foreign(const struct builder *b, const IRExpr *value)
{
    if (value->tag == Iex_Get)
        return value->Iex.Get.offset != OFFSET_amd64_RSP &&
               value->Iex.Get.offset != OFFSET_amd64_RBP &&
               value->Iex.Get.offset != OFFSET_amd64_R10;
    if (value->tag == Iex_Binop &&
        (value->Iex.Binop.op == Iop_Add64 || value->Iex.Binop.op == Iop_Sub64 ||
         value->Iex.Binop.op == Iop_And64))
        return value->Iex.Binop.arg1->tag != Iex_RdTmp || is_foreign(b, value->Iex.Binop.arg1);
    return value->tag != Iex_RdTmp || is_foreign(b, value);
}

/* Where the value of a temporary lies, as far as that is a matter of constants. */
static struct place place_of_temporary(const struct builder *b, IRTemp temporary,
                                       const IRExpr *value)
{
    if (value->tag == Iex_RdTmp ||
        (value->tag == Iex_Const && value->Iex.Const.con->tag == Ico_U64))
        return place_of(b, value);
    if (value->tag == Iex_Get && value->Iex.Get.offset == OFFSET_amd64_RSP &&
        value->Iex.Get.ty == Ity_I64)
        return b->stack;
    if (value->tag == Iex_Binop && value->Iex.Binop.arg1->tag == Iex_RdTmp &&
        value->Iex.Binop.arg2->tag == Iex_Const) {
        struct place place = place_of(b, value->Iex.Binop.arg1);
        ULong distance = value->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
        if (value->Iex.Binop.op == Iop_Add64)
            return (struct place){place.root, place.offset + distance};
        if (value->Iex.Binop.op == Iop_Sub64)
            return (struct place){place.root, place.offset - distance};
    }
    return (struct place){temporary, 0};
}

static void note_temporary(struct builder *b, const IRStmt *statement)
{
    IRTemp temporary = statement->Ist.WrTmp.tmp;
    const IRExpr *value = statement->Ist.WrTmp.data;
    b->temporaries[temporary].foreign = makes_foreign(b, value);
    b->temporaries[temporary].place = place_of_temporary(b, temporary, value);
}

/* A register was written. */
static void note_register(struct builder *b, const IRStmt *statement)
{
    Int offset = statement->Ist.Put.offset;
    IRExpr *value = statement->Ist.Put.data;
    IRType type = typeOfIRExpr(b->out->tyenv, value);
    if (!overlap(offset, type, OFFSET_amd64_RSP, Ity_I64))
        return;
    if (offset == OFFSET_amd64_RSP && type == Ity_I64)
        b->stack = place_of(b, value);
    else
        b->stack = (struct place){newIRTemp(b->out->tyenv, Ity_I64), 0}; /* like nothing before */
    if (offset == OFFSET_amd64_RSP && is_foreign(b, value))
        add_bell(b, RAW_STACK_JUMP, 0, value);
    else
        add_stack_anchor(b);
}

/* Divisions. A fault's address is that of the last instruction that refers to memory, since
 * Valgrind keeps the program counter up to date for these alone. */
static void add_program_counter(struct builder *b, const IRExpr *value)
{
    if (value->tag != Iex_Binop)
        return;
    switch (value->Iex.Binop.op) {
    case Iop_DivModU128to64:
    case Iop_DivModS128to64:
    case Iop_DivModU64to32:
    case Iop_DivModS64to32:
        add(b, IRStmt_Put(OFFSET_amd64_RIP, constant(b->at)));
        break;
    default:
        break;
    }
}

/* One superblock. */

static void copy_statement(struct builder *b, IRStmt *statement)
{
    switch (statement->tag) {
    case Ist_WrTmp: {
        IRExpr *value = statement->Ist.WrTmp.data;
        if (value->tag == Iex_Load)
            add_reference(b, RAW_LOAD, value->Iex.Load.addr, sizeofIRType(value->Iex.Load.ty),
                          NULL);
        note_temporary(b, statement);
        add_program_counter(b, value);
        break;
    }
    case Ist_Store: {
        IRExpr *value = statement->Ist.Store.data;
        Int doorbell = doorbells_at(statement->Ist.Store.addr);
        if (doorbell >= 0)
            add_doorbell(b, doorbell, value);
        else
            add_reference(b, RAW_STORE, statement->Ist.Store.addr, bytes_of(b, value), NULL);
        break;
    }
    case Ist_LoadG: {
        IRLoadG *load = statement->Ist.LoadG.details;
        IRType type, widened;
        typeOfIRLoadGOp(load->cvt, &widened, &type);
        add_reference(b, RAW_LOAD, load->addr, sizeofIRType(type), load->guard);
        break;
    }
    case Ist_StoreG: {
        IRStoreG *store = statement->Ist.StoreG.details;
        add_reference(b, RAW_STORE, store->addr, bytes_of(b, store->data), store->guard);
        break;
    }
    case Ist_CAS:
        add_compare_and_swap(b, statement->Ist.CAS.details);
        break;
    case Ist_Dirty:
        add_helper(b, statement->Ist.Dirty.details);
        break;
    case Ist_Exit:
        add_exit(b, statement->Ist.Exit.dst->Ico.U64);
        break;
    default:
        break;
    }
    add(b, statement);
    if (statement->tag == Ist_Put)
        note_register(b, statement);
}

/* Instructions that begin again.
 *
 * A push moves the stack pointer and then stores; an iteration of `rep movs` counts and then moves.
 * When the access faults and the handler returns, the instruction begins again, with a register
 * that has moved. So a register is written behind the instruction's last access, where nothing
 * between needs it. */

static Bool refers_to_memory(const IRStmt *statement)
{
    switch (statement->tag) {
    case Ist_WrTmp:
        return statement->Ist.WrTmp.data->tag == Iex_Load;
    case Ist_Store:
    case Ist_StoreG:
    case Ist_LoadG:
    case Ist_CAS:
        return True;
    case Ist_Dirty:
        return statement->Ist.Dirty.details->mFx != Ifx_None;
    default:
        return False;
    }
}

static Int find_last_access(const IRSB *block, Int imark)
{
    Int last = -1;
    for (Int i = imark + 1; i < block->stmts_used && block->stmts[i]->tag != Ist_IMark; i++)
        if (refers_to_memory(block->stmts[i]))
            last = i;
    return last;
}

static void write_delayed(struct builder *b)
{
    UInt count = b->delayed_count;
    b->delayed_count = 0;
    for (UInt i = 0; i < count; i++)
        copy_statement(b, b->delayed[i]);
}

/* Whether a register, `type` at `offset`, has a write that is delayed. */
static Bool is_delayed(const struct builder *b, Int offset, IRType type)
{
    for (UInt i = 0; i < b->delayed_count; i++) {
        const IRStmt *put = b->delayed[i];
        if (overlap(offset, type, put->Ist.Put.offset,
                    typeOfIRExpr(b->out->tyenv, put->Ist.Put.data)))
            return True;
    }
    return False;
}

/* Whether what is delayed must be written before this statement. */
static Bool needs_registers(const struct builder *b, const IRStmt *statement)
{
    switch (statement->tag) {
    case Ist_Exit:
    case Ist_Dirty:
    case Ist_PutI:
    case Ist_MBE:
        return True;
    case Ist_Put:
        return is_delayed(b, statement->Ist.Put.offset,
                          typeOfIRExpr(b->out->tyenv, statement->Ist.Put.data));
    case Ist_WrTmp: {
        const IRExpr *value = statement->Ist.WrTmp.data;
        return value->tag == Iex_GetI ||
               (value->tag == Iex_Get && is_delayed(b, value->Iex.Get.offset, value->Iex.Get.ty));
    }
    default:
        return False;
    }
}

static void copy_or_delay(struct builder *b, IRStmt *statement)
{
    if (b->delayed_count > 0 && needs_registers(b, statement))
        write_delayed(b);
    if (statement->tag == Ist_Put && b->position < b->last_access &&
        b->delayed_count < MOST_DELAYED) {
        b->delayed[b->delayed_count++] = statement;
        return;
    }
    copy_statement(b, statement);
    if (b->position != b->last_access)
        return;
    /* Valgrind moves a load to where it is used, past writes of registers, but past no store. */
    if (statement->tag == Ist_WrTmp)
        store_header(b, b->header);
    write_delayed(b);
}

IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                 const VexGuestExtents *extents, const VexArchInfo *machine, IRType guest_word,
                 IRType host_word)
{
    static struct builder builder; /* too large for Valgrind's stack */
    struct builder *b = &builder;

    b->in = in;
    b->out = deepCopyIRSBExceptStmts(in);
    b->shadow = layout->total_sizeB;
    b->instructions = 0;
    b->last_access = -1;
    b->delayed_count = 0;
    b->stack = (struct place){ROOT_STACK, 0};
    b->temporaries =
        VG_(calloc)("allotrope.temporaries", in->tyenv->types_used + 1, sizeof *b->temporaries);
    for (Int i = 0; i < in->tyenv->types_used; i++)
        b->temporaries[i].place.root = i;
    b->position = 0;
    for (; in->stmts[b->position]->tag != Ist_IMark; b->position++)
        add(b, in->stmts[b->position]);
    begin_part(b, closure->nraddr);
    for (; b->position < in->stmts_used; b->position++) {
        IRStmt *statement = in->stmts[b->position];
        if (statement->tag == Ist_IMark)
            begin_instruction(b, statement->Ist.IMark.addr);
        if (statement->tag == Ist_IMark && handlers_need_registers())
            b->last_access = find_last_access(in, b->position);
        tl_assert(b->slots < REFERENCE_RING_MAX_SLOTS - 8 &&
                  b->paths < REFERENCE_RING_MAX_SLOTS - 8);
        copy_or_delay(b, statement);
    }
    Bool known = in->next->tag == Iex_Const;
    add_exit(b, known ? in->next->Iex.Const.con->Ico.U64 : 0);
    end_part(b);
    VG_(free)(b->temporaries);
    return b->out;
}
