/* SPDX-License-Identifier: MIT
 *
 * stress.c: everything at once against one allocator, for as long as is asked.
 *
 *   ALLOTROPE=SPEC stress SECONDS [SEED [unexamined]]
 *   stress_table                          every explicit allocator and preset in turn, briefly
 *
 * From 1 to 8 threads share a table of blocks: whoever takes an entry finds in it a block that
 * any thread may have allocated, looks at its contents, and frees, resizes or keeps it, or fills
 * an empty one. Sizes go from nothing to megabytes, alignments from 1 to 64 KiB. Threads die and
 * are replaced in the middle of the others' work. Every second somebody, the main thread or
 * another, forks; the child looks at every block that nobody held, frees half of them, allocates,
 * starts a thread, and lets the heap examine itself. After every phase all threads have ended:
 * then the heap examines itself and is walked, and each block of the table must be met.
 *
 * A block's contents are made from a number of its own, over all that malloc_usable_size
 * promises, so a block that is handed out twice, moved without its contents or written to by the
 * heap is found. `unexamined`: the heap does not examine itself, for which it may need memory that
 * it will not get. Prints one line of counts; on a fault says what is wrong and aborts.
 *
 * Linked with the archive of the library it calls malloc itself. Built with -DSTRESS_TABLE, as
 * stress_table, it calls the allocator's own table: then a sanitizer keeps the malloc of the
 * process and watches ours as it watches any other code.
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/configuration/configuration.h"
#include "vm/sanitizer.h"

/* The allocator under test. */

static const struct allocator *heap;

#ifdef STRESS_TABLE

#include "vm/fork_chain.h"

static void open_heap(const struct allocator *allocator)
{
    static struct configuration configuration;
    options_set_initial(allocator->options, configuration.options);
    heap = allocator;
    if (!heap->init(configuration.options))
        exit(2);
}

static void *heap_malloc(size_t size)
{
    return heap->alloc(size);
}

static void *heap_calloc(size_t size)
{
    return heap->alloc_zeroed(size);
}

static void *heap_aligned(size_t alignment, size_t size)
{
    return heap->alloc_aligned(alignment, size);
}

static void *heap_resize(void *block, size_t size)
{
    return heap->resize(block, size);
}

static void heap_free(void *block)
{
    heap->free(block);
}

static size_t heap_usable(void *block)
{
    return heap->usable_size(block);
}

static void heap_thread_ends(void)
{
    heap->thread_exit();
}

static pid_t heap_fork(void)
{
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0)
        fork_chain_child(heap->fork_child);
    else
        fork_chain_parent();
    return child;
}

#else

#include "shim/route/route.h"

static void open_heap(void)
{
    heap = route_resolve()->allocator;
}

static _Noreturn void fault(const char *what, const void *where);

/* What malloc, calloc or realloc returns: NULL means ENOMEM. */
static void *obtained(void *block)
{
    if (!block && errno != ENOMEM)
        fault("no memory, but errno does not say so", NULL);
    return block;
}

static void *heap_malloc(size_t size)
{
    return obtained(malloc(size));
}

static void *heap_calloc(size_t size)
{
    return obtained(calloc(1, size));
}

static void *heap_aligned(size_t alignment, size_t size)
{
    void *block = NULL;
    if (alignment % 3 == 1) /* powers of two are 1 and 2 by turns */
        return obtained(memalign(alignment, size));
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    int error = posix_memalign(&block, least, size);
    if (error != 0 && error != ENOMEM)
        fault("posix_memalign: an error that is not ENOMEM", NULL);
    return error == 0 ? block : NULL;
}

static void *heap_resize(void *block, size_t size)
{
    return obtained(realloc(block, size));
}

static void heap_free(void *block)
{
    errno = EDOM;
    free(block);
    if (errno != EDOM)
        fault("free has changed errno", block);
}

static size_t heap_usable(void *block)
{
    return malloc_usable_size(block);
}

static void heap_thread_ends(void)
{
}

static pid_t heap_fork(void)
{
    return fork();
}

#endif

/* The table. */

enum { ENTRIES = 2048, MOST_THREADS = 8, EDGE_BYTES = 512, KEPT_WHOLE = 8192 };

/* Live bytes beyond which nothing large is asked for. */
static const size_t MOST_BYTES = (size_t)48 << 20;

struct entry {
    atomic_bool held; /* by a thread that is at work on it */
    unsigned char *start;
    size_t usable;
    uint64_t number; /* what the contents are made from */
};

static struct entry table[ENTRIES];
static bool unexamined;
static _Atomic size_t live_bytes;
static _Atomic uint64_t operations, lives, refusals;
static uint64_t phases, forks;

static _Noreturn void fault(const char *what, const void *where)
{
    char line[256];
    int length = snprintf(line, sizeof line, "stress: %s:%s: %s at %p\n", heap->name, heap->preset,
                          what, where);
    if (write(2, line, (size_t)length) < 0)
        _exit(98);
    abort();
}

/* splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* Contents: a byte for each offset. Of large blocks both ends, and one byte a page between. */

static unsigned char byte_at(uint64_t number, size_t offset)
{
    return (unsigned char)(number >> 8 * (offset % 8)) ^ (unsigned char)(offset >> 3);
}

static size_t next_offset(size_t offset, size_t bytes)
{
    if (bytes <= KEPT_WHOLE || offset + 1 < EDGE_BYTES || offset + 1 > bytes - EDGE_BYTES)
        return offset + 1;
    size_t next = offset + 4096;
    return next < bytes - EDGE_BYTES ? next : bytes - EDGE_BYTES + 1;
}

static void fill(const struct entry *entry)
{
    for (size_t i = 0; i < entry->usable; i = next_offset(i, entry->usable))
        entry->start[i] = byte_at(entry->number, i);
}

/* bytes: how far the contents still reach, if the block has been resized. */
static void look_at(const struct entry *entry, const unsigned char *start, size_t bytes)
{
    for (size_t i = 0; i < bytes; i = next_offset(i, entry->usable))
        if (start[i] != byte_at(entry->number, i))
            fault("contents lost", start + i);
}

/* Operations on an entry that the caller holds. */

static void put(struct entry *entry, void *start, size_t size, uint64_t *random)
{
    entry->start = start;
    entry->usable = heap_usable(start);
    entry->number = next_random(random);
    if (entry->usable < size)
        fault("usable size less than what was asked for", start);
    atomic_fetch_add_explicit(&live_bytes, entry->usable, memory_order_relaxed);
    fill(entry);
}

static size_t random_size(uint64_t *random)
{
    uint64_t number = next_random(random), size = number >> 16;
    bool tight = atomic_load_explicit(&live_bytes, memory_order_relaxed) > MOST_BYTES;
    switch (number & 255) {
    case 0:
        return size % (tight ? 4096 : (size_t)3 << 20);
    case 1:
    case 2:
        return size % (tight ? 4096 : (size_t)300 << 10);
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
        return size % 20000;
    default:
        return size % ((size_t)1 << (3 + size % 8));
    }
}

static void allocate(struct entry *entry, uint64_t *random)
{
    size_t size = random_size(random), alignment = 16;
    uint64_t kind = next_random(random) % 16;
    unsigned char *start;
    if (kind == 0) {
        start = heap_calloc(size);
        for (size_t i = 0; start && i < size; i = next_offset(i, size))
            if (start[i] != 0)
                fault("a block of calloc is not zero", start + i);
    } else if (kind == 1) {
        alignment = (size_t)1 << next_random(random) % 17;
        start = heap_aligned(alignment, size);
    } else {
        start = heap_malloc(size);
    }
    if (!start) {
        atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
        return;
    }
    if ((uintptr_t)start % alignment != 0 || (uintptr_t)start % 16 != 0)
        fault("a block is not aligned", start);
    put(entry, start, size, random);
}

static void drop(struct entry *entry)
{
    look_at(entry, entry->start, entry->usable);
    if (heap_usable(entry->start) != entry->usable)
        fault("usable size has changed", entry->start);
    atomic_fetch_sub_explicit(&live_bytes, entry->usable, memory_order_relaxed);
    heap_free(entry->start);
    entry->start = NULL;
}

static void resize(struct entry *entry, uint64_t *random)
{
    size_t size = random_size(random) + 1;
    look_at(entry, entry->start, entry->usable);
    unsigned char *start = heap_resize(entry->start, size);
    if (!start) {
        atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
        look_at(entry, entry->start, entry->usable);
        return;
    }
    look_at(entry, start, size < entry->usable ? size : entry->usable);
    atomic_fetch_sub_explicit(&live_bytes, entry->usable, memory_order_relaxed);
    put(entry, start, size, random);
}

static bool take(struct entry *entry)
{
    return !atomic_exchange_explicit(&entry->held, true, memory_order_acquire);
}

static void give_back(struct entry *entry)
{
    atomic_store_explicit(&entry->held, false, memory_order_release);
}

static void operate(uint64_t *random)
{
    struct entry *entry = &table[next_random(random) % ENTRIES];
    if (!take(entry))
        return;
    uint64_t kind = next_random(random) % 16;
    if (!entry->start)
        allocate(entry, random);
    else if (kind < 9)
        drop(entry);
    else if (kind < 14)
        resize(entry, random);
    else
        look_at(entry, entry->start, entry->usable);
    give_back(entry);
}

/* The heap is asked twice: it needs memory, which the first time may have been refused. */
static bool heap_is_valid(void)
{
    bool is_valid = false;
    for (int attempt = 0; attempt < 2 && !is_valid; attempt++)
        is_valid = heap->is_valid();
    return is_valid;
}

/* Forked children. Entries that vanished threads held may be in any state and are left alone. */

static void *operate_in_child(void *argument)
{
    uint64_t random = *(uint64_t *)argument;
    for (int i = 0; i < 500; i++)
        operate(&random);
    heap_thread_ends();
    return NULL;
}

static _Noreturn void be_child(uint64_t random)
{
    alarm(1800); /* a lock that was left held would be waited for for ever */
    for (int i = 0; i < ENTRIES; i++) {
        if (!take(&table[i]))
            continue;
        if (table[i].start && i % 2 == 0)
            drop(&table[i]);
        else if (table[i].start)
            look_at(&table[i], table[i].start, table[i].usable);
        give_back(&table[i]);
    }
    pthread_t thread;
    operate_in_child(&(uint64_t){random + 1});
    int error = pthread_create(&thread, NULL, operate_in_child, &random);
    if (error == 0)
        error = pthread_join(thread, NULL);
    if (error != 0 && !(unexamined && error == EAGAIN)) /* a thread takes memory too */
        fault("a child cannot start a thread", NULL);
    if (!unexamined && !heap_is_valid())
        fault("the heap of a child is not valid", NULL);
    _exit(0);
}

static void fork_once(uint64_t random)
{
    int status = 0;
    pid_t child = heap_fork();
    if (child == 0)
        be_child(random);
    if (child < 0)
        return; /* the kernel says no; that is not the heap's fault */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        fault("a forked child failed", NULL);
}

/* Threads. */

struct worker {
    pthread_t thread;
    bool started;
    atomic_bool ended;
    uint64_t random;
};

static struct worker workers[MOST_THREADS];
static atomic_bool stop, fork_wanted;

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t span = 2000 + next_random(&worker->random) % 60000, done = 0;
    while (done < span && !atomic_load_explicit(&stop, memory_order_relaxed)) {
        operate(&worker->random);
        done++;
        if (atomic_load_explicit(&fork_wanted, memory_order_relaxed) &&
            atomic_exchange(&fork_wanted, false))
            fork_once(worker->random);
        if (next_random(&worker->random) % 50000 == 0)
            heap->trim();
    }
    atomic_fetch_add_explicit(&operations, done, memory_order_relaxed);
    atomic_fetch_add_explicit(&lives, 1, memory_order_relaxed);
    heap_thread_ends();
    atomic_store(&worker->ended, true);
    return NULL;
}

static void start_worker(struct worker *worker, uint64_t *random)
{
    worker->random = next_random(random);
    worker->ended = false;
    worker->started = pthread_create(&worker->thread, NULL, work, worker) == 0;
}

static void end_worker(struct worker *worker)
{
    if (worker->started)
        pthread_join(worker->thread, NULL);
    worker->started = false;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* When nobody is at work. */

static int by_start(const void *left, const void *right)
{
    const unsigned char *a = *(unsigned char *const *)left, *b = *(unsigned char *const *)right;
    return a < b ? -1 : a > b;
}

struct meeting {
    unsigned char *starts[ENTRIES]; /* of the table's blocks, ascending */
    size_t count, met, others;
};

/* An over-aligned block may be met as the block that it lies in. */
static void meet(void *argument, const struct block_info *info)
{
    struct meeting *meeting = argument;
    const unsigned char *payload = info->payload;
    size_t low = 0, high = meeting->count;
    if (info->state != BLOCK_LIVE)
        return;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (meeting->starts[middle] < payload)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < meeting->count && meeting->starts[low] < payload + info->usable_bytes)
        meeting->met++;
    else
        meeting->others++;
}

/* What libc itself may hold: buffers, thread stacks' tables. */
enum { OTHERS = 64 };

static bool look_through(struct meeting *meeting)
{
    bool valid = heap_is_valid();
    meeting->met = meeting->others = 0;
    heap->walk(meet, meeting);
    return valid;
}

static void examine(void)
{
    static struct meeting meeting;
    meeting.count = 0;
    for (int i = 0; i < ENTRIES; i++)
        if (table[i].start) {
            look_at(&table[i], table[i].start, table[i].usable);
            meeting.starts[meeting.count++] = table[i].start;
        }
    if (unexamined)
        return;
    qsort(meeting.starts, meeting.count, sizeof *meeting.starts, by_start);
    bool valid = look_through(&meeting);
    /* bsd needs memory to look, which a kernel that refuses once may refuse. */
    if (!valid || meeting.met != meeting.count)
        valid = look_through(&meeting);
    if (!valid)
        fault("the heap is not valid", NULL);
    if (meeting.met != meeting.count)
        fault("a walk does not meet every block", NULL);
    /* A collector's walk meets what is freed but not yet reclaimed. */
    if (strcmp(heap->name, "gc") != 0 && meeting.others > OTHERS)
        fault("blocks are lost: a walk meets more than there are", NULL);
}

static void run_phase(double seconds, double *next_fork, uint64_t *random)
{
    unsigned threads = 1 + (unsigned)(next_random(random) % MOST_THREADS);
    double end = now() + seconds;
    atomic_store(&stop, false);
    for (unsigned i = 0; i < threads; i++)
        start_worker(&workers[i], random);
    while (now() < end) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        for (unsigned i = 0; i < threads; i++)
            if (!workers[i].started || atomic_load(&workers[i].ended)) {
                end_worker(&workers[i]);
                start_worker(&workers[i], random);
            }
        if (now() < *next_fork || UNDER_THREAD_SANITIZER) /* which does not survive it itself */
            continue;
        *next_fork = now() + 1;
        if (forks++ % 2 == 0)
            fork_once(next_random(random));
        else
            atomic_store(&fork_wanted, true);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < threads; i++)
        end_worker(&workers[i]);
    examine();
    phases++;
}

static void run(double seconds, uint64_t random)
{
    double start = now(), end = start + seconds, next_fork = start + 0.2;
    while (now() < end)
        run_phase(seconds / 4 < 2.5 ? seconds / 4 : 2.5, &next_fork, &random);
    for (int i = 0; i < ENTRIES; i++)
        if (table[i].start)
            drop(&table[i]);
    examine();
    printf("%s:%s: %.0f s, %llu phases, %llu threads, %llu forks, %llu operations, %llu refused\n",
           heap->name, heap->preset, now() - start, (unsigned long long)phases,
           (unsigned long long)lives, (unsigned long long)forks, (unsigned long long)operations,
           (unsigned long long)refusals);
}

#ifdef STRESS_TABLE

/* An allocator is made once in a process, so each has one of its own. The collector stays out: it
 * reads all memory, and a sanitizer's shadow is most of it. */
int main(void)
{
    for (size_t i = 0; allocators[i]; i++) {
        int status = 0;
        if (strcmp(allocators[i]->name, "gc") == 0)
            continue;
        pid_t child = fork();
        if (child == 0) {
            open_heap(allocators[i]);
            run(1, i + 1);
            return 0;
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            fprintf(stderr, "stress: %s:%s: failed\n", allocators[i]->name, allocators[i]->preset);
            return 1;
        }
    }
    return 0;
}

#else

int main(int count, char **words)
{
    char *rest = "";
    double seconds = count >= 2 && count <= 4 ? strtod(words[1], &rest) : 0;
    unexamined = count == 4 && strcmp(words[3], "unexamined") == 0;
    if (!(seconds > 0) || *rest || (count == 4 && !unexamined)) {
        fprintf(stderr, "usage: ALLOTROPE=SPEC stress SECONDS [SEED [unexamined]]\n");
        return 2;
    }
    open_heap();
    run(seconds, count >= 3 ? strtoull(words[2], NULL, 10) : 1);
    return 0;
}

#endif
