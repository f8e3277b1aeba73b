/* SPDX-License-Identifier: MIT
 *
 * events.c: see events.h.
 *
 * Each thread fills a buffer of its own in the event pool, memory that the program shares with the
 * writer, another process (trace/protocol/event_pool.h).
 *
 * Fork: the word `membership` says whether this process has joined the recording. It lies in a page
 * that the kernel clears in a forked child (MADV_WIPEONFORK), also after a bare clone(). So the
 * child joins as a process of its own, or is not recorded; it never writes into its parent's
 * buffers.
 *
 * Time: to read the time stamp counter takes more than all the rest (15 ns under a hypervisor). A
 * process with one thread reads it once for some hundred words. From the second thread on every
 * event has a time stamp, taken before a free and after an allocation: from them the reader knows
 * in which order threads had a block.
 *
 * Sandboxes. A filter of system calls may end the process for a question. From the moment on when
 * there may be one, none is asked: the number of a new thread is left out, and a child is not
 * recorded.
 */
#include "shim/observers/events.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "shim/configuration/environment.h"
#include "shim/observers/stack_trace.h"
#include "shim/route/start.h"
#include "trace/protocol/event_pool.h"
#include "vm/clock.h"
#include "vm/kernel/maps.h"
#include "vm/lock.h"
#include "vm/pages.h"
#include "vm/syscall.h"

/* A time stamp, an event, and the time stamp that a nested call may have put between the two. */
enum { MOST_EVENT_WORDS = 8 + EVENT_MOST_FRAMES, WRITER_CHECK_SECONDS = 1 };

_Static_assert((int)EVENT_MOST_FRAMES <= (int)MOST_FRAMES, "as many as can be walked");

enum membership { NOT_JOINED, RECORDED, NOT_RECORDED }; /* the cleared page holds the first */

static struct route inner;
static struct event_pool *pool;
static uint32_t *membership;    /* enum membership, in a page that the kernel clears at fork */
static uint32_t process_number; /* of this process in the pool */
static uint32_t frames_wanted;
static uintptr_t first_thread;   /* of this process, which joins at its first event */
static _Atomic bool has_threads; /* a second thread has a buffer, or had one */
/* Where this thread is in its buffer. A structure of the two words would be aligned to 16 bytes of
 * the thread's scarce memory. */
static __thread uint64_t *next_word;  /* where the next word goes; NULL: there is no buffer */
static __thread uint64_t *word_limit; /* from here on a time stamp or another buffer is due */

/* The fence keeps the processor from reading the counter while earlier instructions still wait for
 * memory. Otherwise a block that another thread has just handed over could have a free with an
 * earlier time than its allocation. */
static inline uint64_t time_stamp(void)
{
    __builtin_ia32_lfence();
    return __builtin_ia32_rdtsc() << 3 | EVENT_TIME;
}

/* Buffers. */

/* Asks by a descriptor of the process: a zombie (ended, not yet waited for) still has its number. A
 * sandbox may end this process for the question: there a writer that has set no buffer free
 * meanwhile counts as ended. */
static bool writer_is_running(uint32_t freed)
{
    if (pages_are_in_sandbox())
        return atomic_load(&pool->freed) != freed;
    long writer = SYSCALL_2(SYS_pidfd_open, pool->writer, 0);
    struct pollfd end = {.fd = (int)writer, .events = POLLIN};
    if (syscall_failed(writer))
        return writer != -ESRCH;
    bool ended = SYSCALL_3(SYS_poll, &end, 1, 0) > 0;
    SYSCALL_1(SYS_close, writer);
    return !ended;
}

static bool wait_for_writer(uint32_t freed)
{
    const struct timespec a_while = {WRITER_CHECK_SECONDS, 0};
    atomic_fetch_add(&pool->waiting, 1);
    SYSCALL_4(SYS_futex, &pool->freed, FUTEX_WAIT, freed, &a_while);
    atomic_fetch_sub(&pool->waiting, 1);
    return writer_is_running(freed);
}

/* Tries low numbers first, so that few buffers are in use and stay in the cache. Waits while the
 * writer has buffers to set free. False: threads are filling all of them, or there is no writer any
 * more, and the recording of this process ends. */
static bool take_buffer(uint32_t *number)
{
    for (;;) {
        uint32_t freed = atomic_load(&pool->freed);
        bool is_any_full = false;
        for (*number = 0; *number < EVENT_BUFFERS; ++*number) {
            _Atomic uint32_t *buffer = &pool->buffer[*number].state;
            uint32_t state = atomic_load_explicit(buffer, memory_order_relaxed);
            if (state == EVENT_BUFFER_FREE &&
                atomic_compare_exchange_strong(buffer, &state, EVENT_BUFFER_FILLING))
                return true;
            is_any_full |= state == EVENT_BUFFER_FULL;
        }
        if (!is_any_full)
            return false;
        if (!wait_for_writer(freed)) {
            *membership = NOT_RECORDED;
            return false;
        }
    }
}

/* 0 in a sandbox, which may end the process for the question. */
static uint32_t own_tid(void)
{
    return pages_are_in_sandbox() ? 0 : (uint32_t)SYSCALL_0(SYS_gettid);
}

static void label_buffer(uint32_t number, uint32_t kind, uint32_t thread, uint32_t tid,
                         uint64_t sequence)
{
    struct event_buffer *buffer = &pool->buffer[number];
    buffer->process = process_number;
    buffer->thread = thread;
    buffer->tid = tid;
    buffer->kind = kind;
    buffer->bytes = 0;
    buffer->sequence = sequence;
    atomic_store_explicit(&buffer->labelled, 1, memory_order_release);
}

static struct event_buffer *buffer_of(const uint64_t *word)
{
    size_t offset = (size_t)((const char *)word - (const char *)event_buffer_words(pool, 0));
    return &pool->buffer[offset / EVENT_BUFFER_BYTES];
}

static void hand_over(struct event_buffer *buffer)
{
    atomic_store_explicit(&buffer->state, EVENT_BUFFER_FULL, memory_order_release);
}

/* Joining. */

/* Takes an entry of the pool for this process. False when it is not to be recorded, or the pool has
 * no room, or a sandbox may end the process for what it takes. */
static bool enter_process(void)
{
    if (pages_are_in_sandbox())
        return false;
    uint32_t pid = (uint32_t)SYSCALL_0(SYS_getpid);
    uint32_t only = atomic_load(&pool->only);
    for (process_number = 0; process_number < EVENT_PROCESSES && (only == 0 || only == pid);
         process_number++) {
        uint32_t none = 0;
        struct event_process *process = &pool->process[process_number];
        if (!atomic_compare_exchange_strong(&process->pid, &none, pid))
            continue;
        environment_program_path(process->program, EVENT_PROGRAM_BYTES);
        process->stamp = __builtin_ia32_rdtsc();
        process->nanoseconds = monotonic_ns();
        atomic_store(&process->ready, 1);
        return true;
    }
    return false;
}

/* Sends /proc/self/maps, by which the reader names return addresses. */
static void send_maps(void)
{
    long maps = maps_open();
    size_t length = EVENT_BUFFER_BYTES;
    uint32_t number;
    for (uint64_t sequence = 0; length == EVENT_BUFFER_BYTES && take_buffer(&number); sequence++) {
        label_buffer(number, EVENT_BUFFER_MAPS, 0, own_tid(), sequence);
        length = maps_read(maps, (char *)event_buffer_words(pool, number), EVENT_BUFFER_BYTES);
        pool->buffer[number].bytes = (uint32_t)length;
        hand_over(&pool->buffer[number]);
    }
    maps_close(maps);
}

/* At the first event of a process or of a forked child, which has one thread then. */
static void join(void)
{
    next_word = word_limit = NULL;
    first_thread = current_thread();
    atomic_store(&has_threads, false);
    *membership = enter_process() ? RECORDED : NOT_RECORDED;
    if (*membership == RECORDED)
        send_maps();
    else
        atomic_fetch_add(&pool->declined, 1);
}

/* Without one next_word is NULL. */
static void next_buffer(void)
{
    uint32_t number, thread = 0, tid = 0;
    uint64_t sequence = 0;
    struct event_buffer *last = next_word ? buffer_of(next_word) : NULL;
    next_word = word_limit = NULL;
    if (last) {
        thread = last->thread;
        tid = last->tid;
        sequence = last->sequence + 1;
        hand_over(last);
    }
    if (!take_buffer(&number))
        return;
    if (!last) {
        tid = own_tid();
        thread = atomic_fetch_add(&pool->process[process_number].threads, 1);
        if (thread > 0)
            atomic_store(&has_threads, true);
    }
    label_buffer(number, EVENT_BUFFER_EVENTS, thread, tid, sequence);
    next_word = event_buffer_words(pool, number);
    if (!last) {
        word_limit = next_word + EVENT_STAMP_WORDS;
        if (current_thread() != first_thread)
            observer_watch_thread(); /* which may allocate */
    }
}

/* Makes room for an event and its stamp. False when none is recorded. */
static __attribute__((noinline)) bool make_room(void)
{
    if (*membership == NOT_JOINED)
        join();
    if (*membership != RECORDED)
        return false;
    if (!next_word || next_word > event_buffer_end(pool, next_word) - 2 * MOST_EVENT_WORDS)
        next_buffer();
    if (!next_word) {
        atomic_fetch_add(&pool->process[process_number].lost, 1);
        return false;
    }
    *next_word++ = time_stamp();
    uint64_t *due = next_word + EVENT_STAMP_WORDS;
    uint64_t *last = event_buffer_end(pool, next_word) - MOST_EVENT_WORDS;
    word_limit = due < last ? due : last;
    return true;
}

/* Returns where the event's words go; NULL when it is not recorded. */
static inline __attribute__((always_inline)) uint64_t *begin_event(void)
{
    if (__builtin_expect(*membership != RECORDED || next_word >= word_limit, 0)) {
        if (!make_room())
            return NULL;
    } else if (__builtin_expect(atomic_load_explicit(&has_threads, memory_order_relaxed), 0)) {
        *next_word++ = time_stamp();
    }
    return next_word;
}

static inline __attribute__((always_inline)) void note_pointer(enum event_type type,
                                                               const void *block)
{
    uint64_t *word = begin_event();
    if (!word)
        return;
    *word = UINT64_C(1) << EVENT_HIGH_SHIFT | ((uint64_t)block & EVENT_POINTER_MASK) | type;
    next_word = word + 1;
}

static inline __attribute__((always_inline)) uint64_t *put_block(uint64_t *word,
                                                                 enum event_type type,
                                                                 const void *block, size_t size,
                                                                 uint64_t flags, uintptr_t site)
{
    bool small = size + 1 < EVENT_SIZE_BEHIND;
    word[0] = (small ? size + 1 : EVENT_SIZE_BEHIND) << EVENT_HIGH_SHIFT |
              ((uint64_t)block & EVENT_POINTER_MASK) | type;
    word[1] = (flags | EVENT_FLAG_ALWAYS) << EVENT_HIGH_SHIFT | (site & EVENT_ADDRESS_MASK);
    if (!small)
        word[2] = size;
    return word + (small ? 2 : 3);
}

/* Walks the stack before the time stamp is taken. */
static __attribute__((noinline)) void note_block_and_stack(enum event_type type, const void *block,
                                                           size_t size, uint64_t flags,
                                                           const uintptr_t *frame)
{
    const void *frames[EVENT_MOST_FRAMES];
    uint64_t further = stack_trace(frame, frames, NULL, frames_wanted) - 1;
    uint64_t *word = begin_event();
    if (!word)
        return;
    word = put_block(word, type, block, size, flags | further << EVENT_FRAMES_SHIFT, frame[1]);
    for (uint64_t i = 1; i <= further; i++)
        *word++ = (uint64_t)EVENT_FLAG_ALWAYS << EVENT_HIGH_SHIFT |
                  ((uintptr_t)frames[i] & EVENT_ADDRESS_MASK);
    next_word = word;
}

static inline __attribute__((always_inline)) void note_block(enum event_type type,
                                                             const void *block, size_t size,
                                                             uint64_t flags, const uintptr_t *frame)
{
    if (__builtin_expect(frames_wanted > 1, 0)) {
        note_block_and_stack(type, block, size, flags, frame);
        return;
    }
    uint64_t *word = begin_event();
    if (word)
        next_word = put_block(word, type, block, size, flags, frame[1]);
}

/* The route. An allocation that fails is no event. A resize that fails has both of its events, and
 * the second has no block. */

static void *noted_alloc(size_t size)
{
    void *block = inner.alloc(size);
    if (__builtin_expect(block != NULL, 1))
        note_block(EVENT_NEW, block, size, 0, observer_frame());
    return block;
}

static void *noted_alloc_zeroed(size_t size)
{
    void *block = inner.alloc_zeroed(size);
    if (block)
        note_block(EVENT_NEW, block, size, EVENT_FLAG_ZEROED, observer_frame());
    return block;
}

static void *noted_alloc_aligned(size_t alignment, size_t size)
{
    void *block = inner.alloc_aligned(alignment, size);
    uint64_t log2 = (uint64_t)__builtin_ctzl(alignment);
    if (block)
        note_block(EVENT_NEW, block, size, log2 << EVENT_ALIGNMENT_SHIFT, observer_frame());
    return block;
}

static void noted_free(void *block)
{
    note_pointer(EVENT_FREE, block);
    inner.free(block);
}

/* Two events, since another thread may be handed the old block before the call returns. */
static void *noted_resize(void *block, size_t size)
{
    note_pointer(EVENT_RESIZE_FROM, block);
    void *resized = inner.resize(block, size);
    note_block(EVENT_RESIZE_TO, resized, size, 0, observer_frame());
    return resized;
}

/* The observer. */

static _Noreturn void stop_without_pool(const char *path)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "ALLOTROPE_EVENTS=");
    message_quoted(&message, path, strnlen(path, 128));
    message_text(&message, " is no recording that can be joined; start it with "
                           "`allotrope events -o FILE -- CMD...`");
    stop_before_main(&message);
}

/* A page beyond a file's end is a fault, so the file must be as long as a pool. */
static struct event_pool *map_pool(long file)
{
    struct stat status;
    if (syscall_failed(SYSCALL_2(SYS_fstat, file, &status)) ||
        status.st_size < (off_t)EVENT_POOL_BYTES)
        return NULL;
    long address =
        SYSCALL_6(SYS_mmap, 0, EVENT_POOL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return syscall_failed(address) ? NULL : (struct event_pool *)address;
}

/* The path names a descriptor of the writer, /proc/PID/fd/N. The writer ends when the recorded
 * command does. A daemon may live longer, and start programs with the same environment. A process
 * may also have become another user, or have another root. All of these cannot open the path, and
 * are left out of the recording, as a process is for which the pool has no room. */
static bool is_out_of_reach(const char *path, long error)
{
    return strncmp(path, "/proc/", strlen("/proc/")) == 0 &&
           (error == -ENOENT || error == -EACCES || error == -EPERM);
}

static struct route leave_out(struct route behind)
{
    static uint32_t left_out = NOT_RECORDED;
    membership = &left_out;
    return behind;
}

static struct route start(const struct configuration *configuration, struct route behind,
                          const char *path)
{
    (void)configuration;
    long file = SYSCALL_4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (syscall_failed(file) && is_out_of_reach(path, file))
        return leave_out(behind);
    if (!syscall_failed(file)) {
        pool = map_pool(file);
        SYSCALL_1(SYS_close, file);
    }
    membership = pages_map(PAGE_BYTES, PAGE_BYTES);
    if (!pool || !membership || pool->magic != EVENT_POOL_MAGIC ||
        pool->version != EVENT_POOL_VERSION)
        stop_without_pool(path);
    frames_wanted = pool->frames < EVENT_MOST_FRAMES ? pool->frames : EVENT_MOST_FRAMES;
    /* Otherwise a forked child would write to its parent's buffer. */
    if (syscall_failed(SYSCALL_3(SYS_madvise, membership, PAGE_BYTES, MADV_WIPEONFORK))) {
        atomic_fetch_add(&pool->declined, 1);
        return leave_out(behind);
    }
    struct route noted = inner = behind;
    noted.alloc = noted_alloc;
    noted.alloc_zeroed = noted_alloc_zeroed;
    noted.alloc_aligned = noted_alloc_aligned;
    noted.free = noted_free;
    noted.resize = noted_resize;
    return noted;
}

static void before_main(void)
{
    if (*membership == NOT_JOINED)
        join(); /* a program that never allocates is a recording too, of nothing */
    if (frames_wanted > 1)
        stack_trace_prepare();
}

/* Once more, for libraries that the program has loaded meanwhile. Not in a sandbox, which may end
 * the process where a file is opened. */
static void at_exit(void)
{
    if (*membership == RECORDED && !pages_are_in_sandbox())
        send_maps();
}

static void thread_end(void)
{
    if (*membership == RECORDED && next_word)
        hand_over(buffer_of(next_word));
    next_word = word_limit = NULL;
}

const struct observer events_observer = {.variable = "ALLOTROPE_EVENTS",
                                         .start = start,
                                         .before_main = before_main,
                                         .thread_end = thread_end,
                                         .at_exit = at_exit};
