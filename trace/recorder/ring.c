/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ring.c: see ring.h.
 */
#include "trace/recorder/ring.h"

#include "pub_tool_libcassert.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vkiscnums.h"

#include "trace/recorder/coregrind.h"

static struct reference_ring *ring;
/* Next word to write, and where a buffer is full. While client code runs both live in the
 * thread's shadow registers, which translations reach as cheaply as the registers proper. */
static Addr cursor;
static Addr limit;
static Bool inside_client;
static Addr entry_cursor;   /* the cursor when client code was entered */
static Addr resume_address; /* where the thread that ran last goes on */
static Bool unsettled;      /* ... which the stream has not been told */
static Bool to_nothing;     /* no consumer: the ring's first buffer is written over and over */
static Int socket_fd = -1;

/* The buffers. */

static Addr buffer_address(UInt buffer)
{
    return (Addr)ring + REFERENCE_RING_STATE_BYTES + (Addr)buffer * REFERENCE_RING_BUFFER_BYTES;
}

static void begin_buffer(UInt buffer)
{
    cursor = buffer_address(buffer);
    limit = cursor + REFERENCE_RING_FULL_BYTES;
}

/* Room is looked for whenever client code is entered, and at the start of superblocks that are not
 * small. Valgrind leaves client code after QUANTUM superblocks at the
 * latest; what small ones write till then has room behind the limit. */
enum { QUANTUM = 100000, EVENT_COUNTER_OFFSET = 8 };
_Static_assert(REFERENCE_RING_FULL_BYTES +
                       8 * (QUANTUM * (RING_SMALL_SUPERBLOCK + 1) + 2 * REFERENCE_RING_MAX_SLOTS) <
                   REFERENCE_RING_BUFFER_BYTES,
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

void ring_take_cursor(ThreadId thread)
{
    if (inside_client)
        VG_(get_shadow_regs_area)(thread, (UChar *)&cursor, 1, RING_CURSOR_OFFSET, 8);
}

void ring_give_cursor(ThreadId thread)
{
    if (!inside_client)
        return;
    VG_(set_shadow_regs_area)(thread, 1, RING_CURSOR_OFFSET, 8, (UChar *)&cursor);
    VG_(set_shadow_regs_area)(thread, 1, RING_LIMIT_OFFSET, 8, (UChar *)&limit);
    entry_cursor = cursor;
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

/* Waits until the consumer gives back a buffer. */
static void wait_for_buffer(void)
{
    UInt published = ring->published;
    while (True) {
        UInt released = __atomic_load_n(&ring->released, __ATOMIC_ACQUIRE);
        if (published - released < REFERENCE_RING_BUFFERS)
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

static void publish_buffer(void)
{
    UInt buffer = ring->published % REFERENCE_RING_BUFFERS;
    ring->used_bytes[buffer] = cursor - buffer_address(buffer);
    __atomic_store_n(&ring->published, ring->published + 1, __ATOMIC_RELEASE);
    futex_wake(&ring->published);
}

static void publish(void)
{
    if (!to_nothing) {
        publish_buffer();
        wait_for_buffer();
    }
    begin_buffer(to_nothing ? 0 : ring->published % REFERENCE_RING_BUFFERS);
    ring->cursor = cursor;
}

void ring_publish_inside_client(void)
{
    ThreadId thread = VG_(get_running_tid)();
    ring_take_cursor(thread);
    publish();
    ring_give_cursor(thread);
}

ULong *ring_begin_event(UInt type, UInt words)
{
    if (cursor >= limit)
        publish();
    ULong *event = (ULong *)cursor;
    event[0] = RAW_EVENT | type | (ULong)words << 16;
    return event + 1;
}

void ring_end_event(UInt words)
{
    cursor += 8 * (1 + (Addr)words);
}

void ring_settle(void)
{
    if (!unsettled)
        return;
    unsettled = False;
    *ring_begin_event(RAW_RESUME, 1) = resume_address;
    ring_end_event(1);
}

void ring_event2(UInt type, ULong first, ULong second)
{
    ULong *payload = ring_begin_event(type, 2);
    payload[0] = first;
    payload[1] = second;
    ring_end_event(2);
}

UInt ring_put_string(ULong *payload, const HChar *first, const HChar *second)
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

void ring_tag_event(ULong *payload, UInt type, UInt words)
{
    payload[-1] = RAW_EVENT | type | (ULong)words << 16;
}

/* Client code. */

/* Outside client code the stack pointer may have changed. */
static void put_stack_pointer(ThreadId thread)
{
    ring_settle();
    *ring_begin_event(RAW_STACK, 1) = VG_(get_SP)(thread);
    ring_end_event(1);
}

void ring_enter_client(ThreadId thread)
{
    put_stack_pointer(thread);
    if (cursor >= limit)
        publish();
    limit_quantum(thread);
    inside_client = True;
    ring_give_cursor(thread);
}

void ring_leave_client(ThreadId thread, Bool settled)
{
    ring_take_cursor(thread);
    inside_client = False;
    ring->cursor = cursor;
    resume_address = VG_(get_IP)(thread);
    unsettled = !settled;
}

Bool ring_inside_client(void)
{
    return inside_client;
}

void ring_written_in_client(ULong **first, ULong **end)
{
    *first = (ULong *)entry_cursor;
    *end = (ULong *)cursor;
}

/* Beginning and end. */

void ring_begin(struct reference_ring *mapped, Int pid)
{
    ring = mapped;
    ring->recorder_base = (Addr)ring;
    ring->claimed = pid;
    unsettled = False;
    begin_buffer(0);
}

void ring_begin_nothing(void *memory)
{
    ring = memory;
    to_nothing = True;
    begin_buffer(0);
}

void ring_record_to_nothing(void)
{
    SysRes mapped =
        VG_(am_do_mmap_NO_NOTIFY)((Addr)ring, REFERENCE_RING_BYTES, VKI_PROT_READ | VKI_PROT_WRITE,
                                  VKI_MAP_FIXED | VKI_MAP_PRIVATE | VKI_MAP_ANONYMOUS, -1, 0);
    tl_assert(!sr_isError(mapped));
    ring_begin_nothing(ring);
}

Bool ring_to_nothing(void)
{
    return to_nothing;
}

Addr ring_address(void)
{
    return (Addr)ring;
}

void ring_count_child(void)
{
    ring->children++;
}

Int ring_watch_socket(Int socket)
{
    socket_fd = VG_(safe_fd)(socket);
    return socket_fd;
}

void ring_forget_socket(void)
{
    if (socket_fd >= 0)
        VG_(close)(socket_fd);
}

void ring_set_end(UInt end)
{
    ring->end = end;
}

void ring_finish(void)
{
    ring_settle();
    publish_buffer();
    VG_(do_syscall)(__NR_fcntl, socket_fd, VKI_F_SETFL, 0, 0, 0, 0, 0, 0); /* see consumer.c */
    ring->end = REFERENCE_RING_FINISHED;
    futex_wake(&ring->published);
}
