/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * recorder.c: the Valgrind tool that records every data reference of a program.
 *
 * Each superblock that Valgrind translates gets a number and a description; the code added to
 * it stores the number and then, before each access, the address, straight into the ring
 * (protocol/reference_ring.h). Sizes, kinds and instruction counts never change and stand in the
 * description.
 *
 *   at its start    if (cursor >= limit) publish();
 *                   base = cursor;  cursor += 1 + slots;  *base = HEADER | id
 *   a reference     base[k] = address                (k is known at translation)
 *
 * A superblock takes its full room in the ring, also when it is left early: what was not
 * executed is garbage there. By which exit it was left follows from where the next superblock
 * begins. Where that could be misread (two exits with one target, a computed jump), the
 * header is overwritten before the exit by a number that stands for this exit.
 *
 * A superblock may also be interrupted by a fault: the signal's delivery then adds how many
 * instructions were completed. Stack growth, which interrupts unseen, is avoided by making the
 * main stack its full size at the start; see prepare_address_space().
 */
#include "pub_tool_basics.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_transtab.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "pub_tool_wordfm.h"
#include "pub_tool_xarray.h"
#include "libvex_guest_offsets.h"

#include "trace/protocol/doorbell.h"
#include "trace/format/format.h"
#include "trace/protocol/reference_ring.h"

/* In the packaged libcoregrind, but not in its public headers. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd,
                                                      Off64T offset);
extern SysRes VG_(am_do_mmap_NO_NOTIFY)(Addr start, SizeT length, UInt prot, UInt flags, Int fd,
                                        Off64T offset);
extern SysRes VG_(am_mmap_anon_fixed_client)(Addr start, SizeT length, UInt prot);
extern Bool VG_(am_create_reservation)(Addr start, SizeT length, ShrinkMode smode, SSizeT extra);
extern Bool VG_(extend_stack)(ThreadId tid, Addr addr);
extern SysRes VG_(do_syscall)(UWord number, RegWord a1, RegWord a2, RegWord a3, RegWord a4,
                              RegWord a5, RegWord a6, RegWord a7, RegWord a8);
extern Int VG_(safe_fd)(Int fd);
extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar *who);
extern Addr VG_(brk_base);
extern Addr VG_(brk_limit);
extern Addr VG_(clstk_start_base);
extern Addr VG_(clstk_end);

static struct reference_ring *ring;
/* Next word to write, and where a slot is full. While client code runs both live in the
 * thread's shadow registers, which translations reach as cheaply as the registers proper. */
static Addr cursor;
static Addr limit;
static Bool inside_client;
static Addr entry_cursor;   /* the cursor when client code was entered */
static Addr resume_address; /* where the thread that ran last goes on */
static Bool interrupted;    /* a fault has ended the stay in client code */
static Bool unsettled;      /* ... which the stream has not been told */
static Bool to_nothing;     /* no consumer: the ring's first slot is written over and over */
static Int socket_fd = -1;
static ThreadId running_thread = VG_INVALID_THREADID;

static Int option_ring_fd = -1;
static Int option_socket_fd = -1;
static Bool option_native_layout = True;
static const HChar *option_follow; /* the consumer's program; NULL: forks are not followed */
static const HChar *option_follow_output = "";
static const HChar *option_follow_description = "{}";
static Int option_follow_level = 1;

/* The ring's writing end. */

static Addr slot_address(UInt slot)
{
    return (Addr)ring + REFERENCE_RING_STATE_BYTES + (Addr)slot * REFERENCE_RING_SLOT_BYTES;
}

static void begin_slot(UInt slot)
{
    cursor = slot_address(slot);
    limit = cursor + REFERENCE_RING_FULL_BYTES;
}

/* Room is looked for whenever client code is entered, and at the start of superblocks of more
 * than SMALL_SUPERBLOCK slots. Valgrind leaves client code after QUANTUM superblocks at the
 * latest; what small ones write till then has room behind the limit. */
enum { QUANTUM = 100000, SMALL_SUPERBLOCK = 32, EVENT_COUNTER_OFFSET = 8 };
_Static_assert(REFERENCE_RING_FULL_BYTES +
                       8 * (QUANTUM * (SMALL_SUPERBLOCK + 1) + 2 * REFERENCE_RING_MAX_SLOTS) <
                   REFERENCE_RING_SLOT_BYTES,
               "a quantum fits behind the limit");

static void limit_quantum(ThreadId thread)
{
    UInt counter;
    VG_(get_shadow_regs_area)(thread, (UChar *)&counter, 0, EVENT_COUNTER_OFFSET, 4);
    if (counter <= QUANTUM)
        return;
    counter = QUANTUM;
    VG_(set_shadow_regs_area)(thread, 0, EVENT_COUNTER_OFFSET, 4, (UChar *)&counter);
}

/* The cursor's and limit's places in the first set of shadow registers: rax, rcx. */
enum { CURSOR_OFFSET = OFFSET_amd64_RAX, LIMIT_OFFSET = OFFSET_amd64_RCX };

static void take_cursor(ThreadId thread)
{
    if (inside_client)
        VG_(get_shadow_regs_area)(thread, (UChar *)&cursor, 1, CURSOR_OFFSET, 8);
}

static void give_cursor(ThreadId thread)
{
    if (!inside_client)
        return;
    VG_(set_shadow_regs_area)(thread, 1, CURSOR_OFFSET, 8, (UChar *)&cursor);
    VG_(set_shadow_regs_area)(thread, 1, LIMIT_OFFSET, 8, (UChar *)&limit);
    entry_cursor = cursor;
}

/* From here on nothing is recorded: the ring's pages are replaced by private ones, since
 * translations keep writing there. */
static void record_to_nothing(void)
{
    SysRes mapped =
        VG_(am_do_mmap_NO_NOTIFY)((Addr)ring, REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE,
                                  VKI_MAP_FIXED | VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS, -1, 0);
    tl_assert(!sr_isError(mapped));
    to_nothing = True;
    begin_slot(0);
}

static void consumer_is_gone(void)
{
    VG_(umsg)("error: the process that takes the trace has ended; the program is stopped\n");
    VG_(exit)(1);
}

static void futex_wake(UInt *word)
{
    VG_(do_syscall)(__NR_futex, (UWord)word, VKI_FUTEX_WAKE, 1, 0, 0, 0, 0, 0);
}

/* Waits until the consumer gives back a slot. */
static void wait_for_slot(void)
{
    UInt published = ring->published;
    while (True) {
        UInt released = __atomic_load_n(&ring->released, __ATOMIC_ACQUIRE);
        if (published - released < REFERENCE_RING_SLOTS)
            return;
        struct vki_timespec tenth = {0, 100 * 1000 * 1000};
        VG_(do_syscall)
        (__NR_futex, (UWord)&ring->released, VKI_FUTEX_WAIT, released, (UWord)&tenth, 0, 0, 0, 0);
        struct vki_pollfd consumer = {socket_fd, VKI_POLLIN, 0};
        SysRes polled = VG_(poll)(&consumer, 1, 0);
        if (!sr_isError(polled) && sr_Res(polled) > 0)
            consumer_is_gone();
    }
}

static void publish_slot(void)
{
    UInt slot = ring->published % REFERENCE_RING_SLOTS;
    ring->used_bytes[slot] = cursor - slot_address(slot);
    __atomic_store_n(&ring->published, ring->published + 1, __ATOMIC_RELEASE);
    futex_wake(&ring->published);
}

static void publish(void)
{
    if (!to_nothing) {
        publish_slot();
        wait_for_slot();
    }
    begin_slot(to_nothing ? 0 : ring->published % REFERENCE_RING_SLOTS);
}

/* Called by translations when the slot is full. */
static void publish_inside_client(void)
{
    ThreadId thread = VG_(get_running_tid)();
    take_cursor(thread);
    publish();
    give_cursor(thread);
}

/* Room for an event of so many payload words; returns where the payload goes. */
static ULong *begin_event(UInt type, UInt words)
{
    if (cursor >= limit)
        publish();
    ULong *event = (ULong *)cursor;
    event[0] = RAW_EVENT | type | (ULong)words << 16;
    return event + 1;
}

static void end_event(UInt words)
{
    cursor += 8 * (1 + (Addr)words);
}

/* Says where the superblock executed last was left, which an event behind it must not hide. */
static void settle(void)
{
    if (!unsettled)
        return;
    unsettled = False;
    *begin_event(RAW_RESUME, 1) = resume_address;
    end_event(1);
}

static void event2(UInt type, ULong first, ULong second)
{
    ULong *payload = begin_event(type, 2);
    payload[0] = first;
    payload[1] = second;
    end_event(2);
}

/* Appends a string, cut to what an event may hold, and returns the words it took. */
static UInt put_string(ULong *payload, const HChar *first, const HChar *second)
{
    enum { LONGEST = 1500 };
    HChar *text = (HChar *)payload;
    SizeT length = 0;
    for (; *first && length < LONGEST; first++)
        text[length++] = *first;
    text[length++] = 0;
    for (; *second && length < 2 * LONGEST; second++)
        text[length++] = *second;
    do
        text[length++] = 0;
    while (length % 8);
    return length / 8;
}

static void event_tag_words(ULong *payload, UInt type, UInt words)
{
    payload[-1] = RAW_EVENT | type | (ULong)words << 16;
}

/* What was translated. */

/* Needed when a fault interrupts the superblock: which instructions it has. */
struct superblock {
    UInt slots;
    UInt instruction_count;
    Addr instructions[];
};
/* By header number; a superblock has one for itself and one for each exit. */
static XArray *superblocks;

static WordFM *functions; /* name of object and function -> id + 1 */
static UInt function_count;

static Word compare_strings(UWord first, UWord second)
{
    return VG_(strcmp)((const HChar *)first, (const HChar *)second);
}

/* The number of the function that an address lies in; it is described in the stream when it is
 * met first. */
static UInt function_of(Addr address)
{
    const HChar *name = "?", *object = "?";
    DiEpoch now = VG_(current_DiEpoch)();
    if (!VG_(get_objname)(now, address, &object))
        object = "?";
    object = VG_(strdup)("allotrope.object", object);
    if (!VG_(get_fnname)(now, address, &name))
        name = "?";
    SizeT length = VG_(strlen)(object) + VG_(strlen)(name) + 2;
    HChar *key = VG_(malloc)("allotrope.function", length);
    VG_(sprintf)(key, "%s|%s", object, name);
    UWord known = 0;
    if (VG_(lookupFM)(functions, NULL, &known, (UWord)key)) {
        VG_(free)(key);
    } else {
        known = ++function_count;
        VG_(addToFM)(functions, (UWord)key, known);
        ULong *payload = begin_event(RAW_FUNCTION, 0);
        payload[0] = known;
        UInt words = 1 + put_string(payload + 1, name, object);
        event_tag_words(payload, RAW_FUNCTION, words);
        end_event(words);
    }
    VG_(free)((void *)object);
    return known;
}

/* Instrumentation. */

struct path {
    Addr target; /* 0 when computed at run time */
    UShort slots;
    UShort instructions;
    Bool explicit; /* the header tells it */
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
    Addr entry;             /* where this part begins, as a jump would name it */
    Addr first_address;     /* of its first instruction, silent or not */
    UInt first_instruction; /* of this part */
    UInt instructions;      /* so far, in the whole */
    Bool silent;            /* the instruction at hand only rings */
    UInt slots;
    UInt paths;
    ULong slot[REFERENCE_RING_MAX_SLOTS];
    struct path path[REFERENCE_RING_MAX_SLOTS];
    Addr instruction[REFERENCE_RING_MAX_SLOTS];
    /* Temporaries that hold a stack pointer of some other frame's making. */
    UChar *foreign;
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
            most += statement->Ist.Put.offset == OFFSET_amd64_RSP;
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
    IRExpr *end = assign(b, Ity_I64, IRExpr_Get(b->shadow + LIMIT_OFFSET, Ity_I64));
    IRExpr *present = assign(b, Ity_I64, IRExpr_Get(b->shadow + CURSOR_OFFSET, Ity_I64));
    IRDirty *call = unsafeIRDirty_0_N(0, "publish", VG_(fnptr_to_fnentry)(publish_inside_client),
                                      mkIRExprVec_0());
    call->guard = assign(b, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, end, present));
    add(b, IRStmt_Dirty(call));
}

static void begin_part(struct builder *b, Addr entry)
{
    b->first_address = b->in->stmts[b->position]->Ist.IMark.addr;
    b->id = VG_(sizeXA)(superblocks);
    b->entry = entry;
    b->first_instruction = b->instructions;
    b->slots = 0;
    b->paths = 0;
    tl_assert(b->id < RAW_HEADER_MASK - REFERENCE_RING_MAX_SLOTS);

    if (most_slots(b->in) > SMALL_SUPERBLOCK)
        add_check(b);
    IRExpr *base = assign(b, Ity_I64, IRExpr_Get(b->shadow + CURSOR_OFFSET, Ity_I64));
    b->base = base->Iex.RdTmp.tmp;
    store_word(b, 0, constant(RAW_HEADER | b->id));
    b->footprint = IRConst_U64(0);
    IRExpr *next = assign(b, Ity_I64, IRExpr_Binop(Iop_Add64, base, IRExpr_Const(b->footprint)));
    add(b, IRStmt_Put(b->shadow + CURSOR_OFFSET, next));
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

/* An exit may be taken here. */
static void add_exit(struct builder *b, Addr target)
{
    struct path *path = &b->path[b->paths];
    path->target = target;
    path->slots = b->slots;
    path->instructions = part_instructions(b);
    path->explicit = is_ambiguous(b, target);
    b->paths++;
    if (path->explicit)
        store_word(b, 0, constant(RAW_HEADER | (b->id + b->paths)));
}

/* Tells the stream what the part is, and keeps what a fault in it would need. */
static void end_part(struct builder *b)
{
    b->footprint->Ico.U64 = 8 * (1 + b->slots);
    UInt function = function_of(b->first_address);
    UInt words = 4 + b->slots + 2 * b->paths;
    ULong *payload = begin_event(RAW_DEFINE, words);
    *payload++ = b->id;
    *payload++ = b->entry;
    *payload++ = function;
    *payload++ = b->slots | (ULong)b->paths << 32;
    for (UInt i = 0; i < b->slots; i++)
        *payload++ = b->slot[i];
    for (UInt i = 0; i < b->paths; i++) {
        *payload++ = b->path[i].slots | (ULong)b->path[i].instructions << 16;
        *payload++ = b->path[i].target;
    }
    end_event(words);

    SizeT addresses = sizeof(Addr) * part_instructions(b);
    struct superblock *kept = VG_(perm_malloc)(sizeof *kept + addresses, 8);
    kept->slots = b->slots;
    kept->instruction_count = part_instructions(b);
    VG_(memcpy)(kept->instructions, b->instruction, addresses);
    for (UInt i = 0; i <= b->paths; i++)
        VG_(addToXA)(superblocks, &kept);
}

static void add_slot(struct builder *b, UInt kind, UInt index, UInt size, IRExpr *value)
{
    b->slot[b->slots] =
        kind | (ULong)index << 8 | (ULong)size << 16 | (ULong)part_instructions(b) << 32;
    b->slots++;
    store_word(b, b->slots, value);
}

/* Doorbells. */

enum { MOST_DOORBELLS = 64 };
static Addr doorbell_ranges[MOST_DOORBELLS];
static UInt doorbell_range_count;

/* Instructions that only ring; doorbell_silence() tells them. */
static struct {
    Addr start, end;
} silences[MOST_DOORBELLS];
static UInt silence_count;

static Bool is_silent(Addr instruction)
{
    for (UInt i = 0; i < silence_count; i++)
        if (instruction >= silences[i].start && instruction < silences[i].end)
            return True;
    return False;
}

/* Which doorbell an address expression means; -1 for none. */
static Int doorbell_at(IRExpr *address)
{
    if (doorbell_range_count == 0 || address->tag != Iex_Const)
        return -1;
    Addr where = address->Iex.Const.con->Ico.U64;
    for (UInt i = 0; i < doorbell_range_count; i++)
        if (where - doorbell_ranges[i] < sizeof(struct doorbells))
            return (where - doorbell_ranges[i]) / 8;
    return -1;
}

static void add_doorbell(struct builder *b, UInt index, IRExpr *value)
{
    if (index == DOORBELL_ACTIVE)
        return;
    if (typeOfIRExpr(b->out->tyenv, value) != Ity_I64)
        VG_(tool_panic)("a doorbell is rung with a value that is no 64-bit integer");
    add_slot(b, RAW_DOORBELL, index, 8, value);
}

/* References. */

static void add_reference(struct builder *b, UInt kind, IRExpr *address, UInt size, IRExpr *guard)
{
    if (b->silent || doorbell_at(address) >= 0)
        return;
    if (guard)
        address = assign(b, Ity_I64, IRExpr_ITE(guard, address, constant(RAW_ABSENT)));
    add_slot(b, kind, 0, size, address);
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

/* Jumps between frames. */

static Bool is_foreign(const struct builder *b, const IRExpr *value)
{
    return value->tag == Iex_RdTmp && b->foreign[value->Iex.RdTmp.tmp];
}

/* A stack pointer that is computed from the present one, from the frame pointer, or from r10
 * (which realigned frames restore it from) stays on this stack in the ordinary way; anything
 * else (longjmp, unwinding, a switch of stacks) is foreign. */
static void note_stack_pointer(struct builder *b, const IRStmt *statement)
{
    const IRExpr *value = statement->Ist.WrTmp.data;
    Bool foreign = True;
    if (value->tag == Iex_Get)
        foreign = value->Iex.Get.offset != OFFSET_amd64_RSP &&
                  value->Iex.Get.offset != OFFSET_amd64_RBP &&
                  value->Iex.Get.offset != OFFSET_amd64_R10;
    else if (value->tag == Iex_Binop &&
             (value->Iex.Binop.op == Iop_Add64 || value->Iex.Binop.op == Iop_Sub64 ||
              value->Iex.Binop.op == Iop_And64))
        foreign = value->Iex.Binop.arg1->tag != Iex_RdTmp || is_foreign(b, value->Iex.Binop.arg1);
    else if (value->tag == Iex_RdTmp)
        foreign = is_foreign(b, value);
    b->foreign[statement->Ist.WrTmp.tmp] = foreign;
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
        note_stack_pointer(b, statement);
        break;
    }
    case Ist_Store: {
        IRExpr *value = statement->Ist.Store.data;
        Int doorbell = doorbell_at(statement->Ist.Store.addr);
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
    if (statement->tag == Ist_Put && statement->Ist.Put.offset == OFFSET_amd64_RSP &&
        is_foreign(b, statement->Ist.Put.data))
        add_slot(b, RAW_STACK_JUMP, 0, 8, statement->Ist.Put.data);
}

static IRSB *instrument(VgCallbackClosure *closure, IRSB *in, const VexGuestLayout *layout,
                        const VexGuestExtents *extents, const VexArchInfo *machine,
                        IRType guest_word, IRType host_word)
{
    /* A part ends early when another statement could go past what it may hold. */
    enum { MOST_SLOTS = REFERENCE_RING_MAX_SLOTS - 8 };
    static struct builder builder; /* too large for Valgrind's stack */
    struct builder *b = &builder;

    b->in = in;
    b->out = deepCopyIRSBExceptStmts(in);
    b->shadow = layout->total_sizeB;
    b->instructions = 0;
    b->foreign = VG_(calloc)("allotrope.foreign", in->tyenv->types_used + 1, 1);
    b->position = 0;
    for (; in->stmts[b->position]->tag != Ist_IMark; b->position++)
        add(b, in->stmts[b->position]);
    begin_part(b, closure->nraddr);
    for (; b->position < in->stmts_used; b->position++) {
        IRStmt *statement = in->stmts[b->position];
        if (statement->tag == Ist_IMark) {
            if (b->slots >= MOST_SLOTS - 64 || part_instructions(b) >= MOST_SLOTS) {
                add_exit(b, statement->Ist.IMark.addr);
                end_part(b);
                begin_part(b, statement->Ist.IMark.addr);
            }
            b->silent = is_silent(statement->Ist.IMark.addr);
            if (!b->silent) {
                b->instruction[part_instructions(b)] = statement->Ist.IMark.addr;
                b->instructions++;
            }
        }
        tl_assert(b->slots < MOST_SLOTS && b->paths < MOST_SLOTS);
        copy_statement(b, statement);
    }
    Bool known = in->next->tag == Iex_Const;
    add_exit(b, known ? in->next->Iex.Const.con->Ico.U64 : 0);
    end_part(b);
    VG_(free)(b->foreign);
    return b->out;
}

/* Threads and signals. */

static void client_code_begins(ThreadId thread, ULong blocks)
{
    if (thread != running_thread) {
        settle();
        event2(RAW_THREAD, thread, 0);
        running_thread = thread;
    }
    if (cursor >= limit)
        publish();
    limit_quantum(thread);
    inside_client = True;
    give_cursor(thread);
}

static void client_code_ends(ThreadId thread, ULong blocks)
{
    take_cursor(thread);
    inside_client = False;
    ring->cursor = cursor;
    resume_address = VG_(get_IP)(thread);
    unsettled = !interrupted;
    interrupted = False;
}

static void thread_starts(ThreadId creator, ThreadId thread)
{
    settle();
    event2(RAW_THREAD_START, thread, creator);
}

static void thread_ends(ThreadId thread)
{
    settle();
    event2(RAW_THREAD_END, thread, 0);
}

/* The superblock whose header was written last, if any was since client code was entered. */
static const struct superblock *last_superblock(void)
{
    const struct superblock *last = NULL;
    for (const ULong *word = (const ULong *)entry_cursor; word < (const ULong *)cursor;) {
        UWord id = *word & RAW_HEADER_MASK;
        tl_assert((*word & ~RAW_HEADER_MASK) == RAW_HEADER && id < VG_(sizeXA)(superblocks));
        last = *(const struct superblock **)VG_(indexXA)(superblocks, id);
        word += 1 + last->slots;
    }
    return last;
}

/* A fault leaves its superblock in the middle: says how many instructions were completed. */
static void record_interruption(ThreadId thread)
{
    const struct superblock *block = last_superblock();
    interrupted = True;
    if (!block)
        return;
    Addr faulting = VG_(get_IP)(thread);
    UInt done = 0;
    while (done < block->instruction_count && block->instructions[done] != faulting)
        done++;
    event2(RAW_INTERRUPTED, done, 0);
}

/* Valgrind delivers faults from inside client code, all other signals from outside. */
static void signal_begins(ThreadId thread, Int signal, Bool alternate_stack)
{
    take_cursor(thread);
    if (inside_client)
        record_interruption(thread);
    settle();
    ULong *payload = begin_event(RAW_SIGNAL, 3);
    payload[0] = thread;
    payload[1] = signal;
    payload[2] = VG_(get_SP)(thread);
    end_event(3);
    give_cursor(thread);
}

static void signal_ends(ThreadId thread, Int signal)
{
    settle();
    event2(RAW_SIGNAL_RETURN, thread, 0);
}

/* Mappings. */

static void region_appears(Addr start, SizeT bytes, UInt kind)
{
    if (bytes == 0)
        return;
    const NSegment *segment = VG_(am_find_nsegment)(start);
    const HChar *name = segment ? VG_(am_get_filename)(segment) : NULL;
    if (kind == TRACE_REGION_ANONYMOUS && name)
        kind = TRACE_REGION_FILE;
    settle();
    ULong *payload = begin_event(RAW_MAP, 0);
    payload[0] = start;
    payload[1] = bytes;
    payload[2] = kind;
    UInt words = 3 + put_string(payload + 3, name ? name : "", "");
    event_tag_words(payload, RAW_MAP, words);
    end_event(words);
}

static void region_goes(Addr start, SizeT bytes)
{
    if (bytes == 0)
        return;
    settle();
    event2(RAW_UNMAP, start, bytes);
}

/* Static data is what can be written of a file that is mapped to be executed, and the memory for
 * zeros right behind it: ld.so maps a library's whole extent at first and then, over it, its parts.
 * The program itself is mapped before anything else could lie there. */
static Bool is_static_data(Addr start, SizeT bytes, Bool w, Bool x, Bool at_start)
{
    static const HChar *object, *text;
    static Addr object_end, data_end;
    const NSegment *segment = VG_(am_find_nsegment)(start);
    const HChar *name = segment ? VG_(am_get_filename)(segment) : NULL;
    Addr end = start + bytes;
    if (name && name != object) {
        object = name;
        object_end = end;
    }
    if (x && name)
        text = name;
    Bool is_data =
        w && text && text == object &&
        (name == text || (!name && start == data_end && (at_start || end <= object_end)));
    if (is_data)
        data_end = end;
    return is_data;
}

static void mapping_appears(Addr start, SizeT bytes, Bool r, Bool w, Bool x, ULong handle)
{
    Bool is_data = is_static_data(start, bytes, w, x, False);
    region_appears(start, bytes, is_data ? TRACE_REGION_DATA : TRACE_REGION_ANONYMOUS);
}

static void startup_mapping(Addr start, SizeT bytes, Bool r, Bool w, Bool x, ULong handle)
{
    if (start + bytes - 1 == VG_(clstk_end))
        return; /* told in full by prepare_address_space() */
    Bool is_data = is_static_data(start, bytes, w, x, True);
    region_appears(start, bytes, is_data ? TRACE_REGION_DATA : TRACE_REGION_ANONYMOUS);
}

static void break_grows(Addr start, SizeT bytes, ThreadId thread)
{
    region_appears(start, bytes, TRACE_REGION_BREAK);
}

static void mapping_moves(Addr from, Addr to, SizeT bytes)
{
    region_goes(from, bytes);
    region_appears(to, bytes, TRACE_REGION_ANONYMOUS);
}

/* Valgrind gives the break 8 MB and lets the stack grow by faults. Natively a heap in the
 * break can grow as long as there is room: it gets a range of its own here. The stack is made
 * its full size, which costs nothing until it is used. */
static void prepare_address_space(void)
{
    const Addr break_start = 0x800000000; /* 32 GB: beyond programs, below Valgrind */
    const SizeT break_room = 0x400000000;
    if (option_native_layout &&
        !sr_isError(VG_(am_mmap_anon_fixed_client)(break_start, VKI_PAGE_SIZE,
                                                   VKI_PROT_READ | VKI_PROT_WRITE)) &&
        VG_(am_create_reservation)(break_start + VKI_PAGE_SIZE, break_room, SmLower, 0)) {
        VG_(brk_base) = VG_(brk_limit) = break_start;
    }
    const NSegment *room = VG_(am_find_nsegment)(VG_(clstk_start_base) - 1);
    Addr lowest = VG_(clstk_start_base);
    if (room && room->kind == SkResvn && room->end - room->start > VKI_PAGE_SIZE) {
        lowest = room->start + VKI_PAGE_SIZE;
        VG_(extend_stack)(1, lowest);
    }
    region_appears(lowest, VG_(clstk_end) + 1 - lowest, TRACE_REGION_STACK);
}

/* Client requests. */

static void register_doorbells(Addr start, SizeT bytes)
{
    if (bytes != sizeof(struct doorbells)) {
        VG_(umsg)
        ("error: doorbells of %lu bytes; this recorder knows %lu: rebuild the library\n", bytes,
         sizeof(struct doorbells));
        VG_(exit)(1);
    }
    for (UInt i = 0; i < doorbell_range_count; i++)
        if (doorbell_ranges[i] == start)
            return;
    if (doorbell_range_count == MOST_DOORBELLS) {
        VG_(umsg)("error: more than %d libraries register doorbells\n", MOST_DOORBELLS);
        VG_(exit)(1);
    }
    doorbell_ranges[doorbell_range_count++] = start;
    /* Tests of the doorbells translated so far count as references: translate anew. */
    VG_(discard_translations_safely)(0x1000, 0x7ffffffff000, "doorbells");
}

/* What is a library's own ringing is left out from here on. */
static void silence(Addr start, Addr end)
{
    for (UInt i = 0; i < silence_count; i++)
        if (silences[i].start == start)
            return;
    if (start >= end || silence_count == MOST_DOORBELLS) {
        VG_(umsg)("error: instructions %#lx to %#lx cannot be left out\n", start, end);
        VG_(exit)(1);
    }
    silences[silence_count].start = start;
    silences[silence_count++].end = end;
    VG_(discard_translations_safely)(start, end - start, "doorbells");
}

/* What is Valgrind's, gaps between neighbouring ranges not joined. */
static UWord own_ranges(ULong (*pairs)[2], UWord capacity)
{
    enum { MOST = 4096 };
    static Addr starts[MOST];
    Int count = VG_(am_get_segment_starts)(SkAnonV | SkFileV, starts, MOST);
    if (count < 0)
        return -count;
    for (Int i = 0; i < count && i < capacity; i++) {
        const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
        pairs[i][0] = segment->start;
        pairs[i][1] = segment->end + 1;
    }
    return count;
}

static Bool client_request(ThreadId thread, UWord *arguments, UWord *result)
{
    switch (arguments[0]) {
    case DOORBELL_REQUEST_REGISTER:
        register_doorbells(arguments[1], arguments[2]);
        *result = 1;
        return True;
    case DOORBELL_REQUEST_SILENCE:
        silence(arguments[1], arguments[2]);
        *result = 1;
        return True;
    case DOORBELL_REQUEST_RANGES:
        *result = own_ranges((ULong(*)[2])arguments[1], arguments[2]);
        return True;
    default:
        return False;
    }
}

/* Start and end. */

static void become_consumer(Int ring_fd, Int consumer_fd, Int pid)
{
    HChar consume[64], process[32], level[32];
    VG_(sprintf)(consume, "--consume=%d,%d", ring_fd, consumer_fd);
    VG_(sprintf)(process, "--pid=%d", pid);
    VG_(sprintf)(level, "--level=%d", option_follow_level);
    const HChar *arguments[] = {option_follow,
                                consume,
                                process,
                                "--output",
                                option_follow_output,
                                "--description",
                                option_follow_description,
                                level,
                                NULL};
    VG_(execv)(option_follow, arguments);
    VG_(umsg)("error: the consumer %s cannot be run\n", option_follow);
    VG_(exit)(1);
}

/* Makes a ring, at `where` if that is not 0, and starts a consumer for it: a grandchild, since a
 * child would be found by the program's own wait. */
static void start_consumer(Addr where)
{
    Int ends[2], pid = VG_(getpid)(), status;
    SysRes file = VG_(do_syscall)(__NR_memfd_create, (UWord) "allotrope-ring", 0, 0, 0, 0, 0, 0, 0);
    if (sr_isError(file) ||
        sr_isError(VG_(do_syscall)(__NR_ftruncate, sr_Res(file), REFERENCE_RING_BYTES, 0, 0, 0, 0,
                                   0, 0)) ||
        sr_isError(VG_(do_syscall)(__NR_socketpair, VKI_AF_UNIX, VKI_SOCK_STREAM, 0, (UWord)ends, 0,
                                   0, 0, 0))) {
        VG_(umsg)("error: no ring for process %d\n", pid);
        VG_(exit)(1);
    }
    Int ring_fd = sr_Res(file);
    SysRes mapped = where ? VG_(am_do_mmap_NO_NOTIFY)(where, REFERENCE_RING_BYTES,
                                                      VKI_PROT_READ | VKI_PROT_WRITE,
                                                      VKI_MAP_FIXED | VKI_MAP_SHARED, ring_fd, 0)
                          : VG_(am_shared_mmap_file_float_valgrind)(
                                REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, ring_fd, 0);
    tl_assert(!sr_isError(mapped));
    ring = (struct reference_ring *)sr_Res(mapped);
    ring->magic = REFERENCE_RING_MAGIC;
    ring->version = REFERENCE_RING_VERSION;
    Int child = VG_(fork)();
    if (child == 0) {
        if (VG_(fork)() == 0) {
            VG_(close)(ends[0]);
            become_consumer(ring_fd, ends[1], pid);
        }
        VG_(do_syscall)(__NR_exit_group, 0, 0, 0, 0, 0, 0, 0, 0);
    }
    VG_(waitpid)(child, &status, 0);
    VG_(close)(ring_fd);
    VG_(close)(ends[1]);
    socket_fd = VG_(safe_fd)(ends[0]);
    ring->recorder_base = (Addr)ring;
    ring->claimed = pid;
    begin_slot(0);
}

static void map_ring(void)
{
    if (option_follow) {
        start_consumer(0);
        return;
    }
    if (option_ring_fd < 0) {
        ring = VG_(am_shadow_alloc)(REFERENCE_RING_BYTES);
        to_nothing = True;
        begin_slot(0);
        return;
    }
    SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)(
        REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE, option_ring_fd, 0);
    if (sr_isError(mapped)) {
        VG_(umsg)
        ("error: --ring-fd=%d cannot be mapped (error %lu)\n", option_ring_fd, sr_Err(mapped));
        VG_(exit)(1);
    }
    ring = (struct reference_ring *)sr_Res(mapped);
    VG_(close)(option_ring_fd);
    if (ring->magic != REFERENCE_RING_MAGIC || ring->version != REFERENCE_RING_VERSION) {
        VG_(umsg)
        ("error: --ring-fd=%d is no ring of version %d\n", option_ring_fd, REFERENCE_RING_VERSION);
        VG_(exit)(1);
    }
    ring->recorder_base = (Addr)ring;
    ring->claimed = VG_(getpid)();
    begin_slot(0);
}

static void begin_descriptions(void)
{
    superblocks =
        VG_(newXA)(VG_(malloc), "allotrope.superblocks", VG_(free), sizeof(struct superblock *));
    functions = VG_(newFM)(VG_(malloc), "allotrope.functions", VG_(free), compare_strings);
    function_count = 0;
}

/* What is mapped already, for a trace that begins in the middle of a program. */
static void restate_regions(void)
{
    enum { MOST = 4096 };
    static Addr starts[MOST];
    Int count = VG_(am_get_segment_starts)(SkFileC | SkAnonC | SkShmC, starts, MOST);
    for (Int i = 0; i < count; i++) {
        const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
        UInt kind = TRACE_REGION_ANONYMOUS;
        if (VG_(clstk_end) >= segment->start && VG_(clstk_end) <= segment->end)
            kind = TRACE_REGION_STACK;
        else if (segment->start >= VG_(brk_base) && segment->start < VG_(brk_limit))
            kind = TRACE_REGION_BREAK;
        else if (segment->kind == SkFileC && segment->hasW)
            kind = TRACE_REGION_DATA;
        region_appears(segment->start, segment->end + 1 - segment->start, kind);
    }
}

/* A child that is followed begins a trace of its own, in which everything is described anew: so
 * everything is translated anew. */
static void child_after_fork(ThreadId thread)
{
    if (to_nothing)
        return;
    if (socket_fd >= 0)
        VG_(close)(socket_fd);
    if (!option_follow) {
        record_to_nothing();
        return;
    }
    start_consumer((Addr)ring);
    begin_descriptions();
    VG_(discard_translations)(0x1000, 0x7ffffffff000, "fork");
    running_thread = VG_INVALID_THREADID;
    unsettled = interrupted = False;
    event2(RAW_THREAD_START, thread, 0);
    restate_regions();
}

static Bool command_line_option(const HChar *argument)
{
    if (VG_INT_CLO(argument, "--ring-fd", option_ring_fd) ||
        VG_INT_CLO(argument, "--socket-fd", option_socket_fd) ||
        VG_STR_CLO(argument, "--follow", option_follow) ||
        VG_STR_CLO(argument, "--follow-output", option_follow_output) ||
        VG_STR_CLO(argument, "--follow-description", option_follow_description) ||
        VG_INT_CLO(argument, "--follow-level", option_follow_level) ||
        VG_BOOL_CLO(argument, "--native-layout", option_native_layout))
        return True;
    return False;
}

static void print_usage(void)
{
    VG_(printf)
    ("    --ring-fd=<number>         write the trace to the ring behind this file\n"
     "                               descriptor [none: record to nothing]\n"
     "    --socket-fd=<number>       its hang-up says that the consumer has ended\n"
     "    --follow=<program>         each process starts this program, which takes its trace\n"
     "    --follow-output=<name> --follow-description=<json> --follow-level=<number>\n"
     "                               what that program is told\n"
     "    --native-layout=no|yes     lift Valgrind's limit on the break [yes]\n");
}

static void print_debug_usage(void)
{
    VG_(printf)("    (none)\n");
}

static void after_options(void)
{
    begin_descriptions();
    map_ring();
    if (option_socket_fd >= 0)
        socket_fd = VG_(safe_fd)(option_socket_fd);
    VG_(atfork)(NULL, NULL, child_after_fork);
    prepare_address_space();
}

static void finish(Int exit_status)
{
    if (to_nothing)
        return;
    take_cursor(running_thread);
    if (inside_client)
        record_interruption(running_thread);
    settle();
    publish_slot();
    ring->end = REFERENCE_RING_FINISHED;
    futex_wake(&ring->published);
}

/* An exec ends the recorder with the program, unless it fails. */
static void before_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count)
{
    if (number == __NR_execve || number == __NR_execveat)
        ring->end = REFERENCE_RING_EXEC;
}

static void after_syscall(ThreadId thread, UInt number, UWord *arguments, UInt count, SysRes result)
{
    if (number == __NR_execve || number == __NR_execveat)
        ring->end = REFERENCE_RING_OPEN;
}

static void before_options(void)
{
    VG_(details_name)("allotrope");
    VG_(details_version)("0.1");
    VG_(details_description)("records every data reference");
    VG_(details_copyright_author)("GNU GPL 2 or later");
    VG_(details_bug_reports_to)("the allotrope project");
    VG_(details_avg_translation_sizeB)(300);
    VG_(basic_tool_funcs)(after_options, instrument, finish);
    VG_(needs_command_line_options)(command_line_option, print_usage, print_debug_usage);
    VG_(needs_client_requests)(client_request);
    VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
    VG_(track_start_client_code)(client_code_begins);
    VG_(track_stop_client_code)(client_code_ends);
    VG_(track_pre_thread_ll_create)(thread_starts);
    VG_(track_pre_thread_ll_exit)(thread_ends);
    VG_(track_pre_deliver_signal)(signal_begins);
    VG_(track_post_deliver_signal)(signal_ends);
    VG_(track_new_mem_startup)(startup_mapping);
    VG_(track_new_mem_mmap)(mapping_appears);
    VG_(track_new_mem_brk)(break_grows);
    VG_(track_copy_mem_remap)(mapping_moves);
    VG_(track_die_mem_munmap)(region_goes);
    VG_(track_die_mem_brk)(region_goes);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
