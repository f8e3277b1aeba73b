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
 * Blocks are filled and looked at as held_block.h says. `unexamined`: the heap does not examine
 * itself, for which it may need memory that it will not get. Prints one line of counts; on a fault
 * says what is wrong and aborts.
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

#include "bench_programs/random.h"
#include "shim/configuration/configuration.h"
#include "tests/unit/held_block.h"
#include "vm/sanitizer.h"

/* The allocator under test, and how blocks are asked of it. */

static const struct allocator *heap, *calls;

#ifdef STRESS_TABLE

#include "vm/fork_chain.h"

static void choose(const struct option_description *table, void *options, const char *key,
                   const char *keyword)
{
    for (; table->key[0]; table++)
        for (uint64_t i = 0; strcmp(table->key, key) == 0 && table->keywords[i][0]; i++)
            if (strcmp(table->keywords[i], keyword) == 0)
                option_set(table, options, i);
}

static void open_heap(const struct allocator *allocator)
{
    static struct configuration configuration;
    options_set_initial(allocator->options, configuration.options);
    if (strcmp(allocator->name, "gc") == 0)
        choose(allocator->options, configuration.options, "free", "quarantine");
    heap = calls = allocator;
    if (!heap->init(configuration.options))
        exit(2);
    if (heap->enter_sandbox) /* no collections */
        heap->enter_sandbox();
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

static _Noreturn void fault(const char *what, const void *where);

/* What malloc, calloc or realloc returns: NULL means ENOMEM. */
static void *obtained(void *block)
{
    if (!block && errno != ENOMEM)
        fault("no memory, but errno does not say so", NULL);
    return block;
}

static void *call_malloc(size_t size)
{
    return obtained(malloc(size));
}

static void *call_calloc(size_t size)
{
    return obtained(calloc(1, size));
}

static void *call_memalign(size_t alignment, size_t size)
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

static void *call_realloc(void *block, size_t size)
{
    return obtained(realloc(block, size));
}

static void call_free(void *block)
{
    errno = EDOM;
    free(block);
    if (errno != EDOM)
        fault("free has changed errno", block);
}

static size_t call_usable_size(const void *block)
{
    return malloc_usable_size((void *)block);
}

static bool is_owned(const void *block)
{
    return heap->owns(block);
}

/* The library notices itself that a thread ends. */
static void let_thread_end(void)
{
}

static const struct allocator malloc_family = {
    .alloc = call_malloc,
    .alloc_zeroed = call_calloc,
    .alloc_aligned = call_memalign,
    .resize = call_realloc,
    .free = call_free,
    .usable_size = call_usable_size,
    .owns = is_owned,
    .thread_exit = let_thread_end,
};

static void open_heap(void)
{
    heap = route_resolve()->allocator;
    calls = &malloc_family;
}

static pid_t heap_fork(void)
{
    return fork();
}

#endif

/* The table. */

enum { ENTRIES = 2048, MOST_THREADS = 8 };

/* Live bytes beyond which nothing large is asked for. */
static const size_t MOST_BYTES = (size_t)48 << 20;

struct entry {
    atomic_bool held; /* by a thread that is at work on it */
    struct held_block block;
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

/* Operations on an entry that the caller holds. */

static void count_bytes(const struct entry *entry)
{
    atomic_fetch_add_explicit(&live_bytes, entry->block.usable, memory_order_relaxed);
}

static void discount_bytes(const struct entry *entry)
{
    atomic_fetch_sub_explicit(&live_bytes, entry->block.usable, memory_order_relaxed);
}

/* wrong: what is said of an operation on the entry. False if the operation was refused. */
static bool succeeded(const struct entry *entry, const char *wrong)
{
    if (wrong && wrong != held_refused)
        fault(wrong, entry->block.start);
    if (wrong)
        atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
    return !wrong;
}

static size_t random_size(uint64_t *random)
{
    uint64_t number = random_next(random), size = number >> 16;
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
    static const enum how_allocated kinds[16] = {ZEROED, ALIGNED}; /* the others: PLAIN */
    struct wish wish = {.how = kinds[random_next(random) % 16]};
    wish.bytes = random_size(random);
    wish.alignment = (size_t)1 << random_next(random) % 17;
    wish.number = random_next(random);
    if (succeeded(entry, held_alloc(&entry->block, calls, &wish)))
        count_bytes(entry);
}

static void look_at(const struct entry *entry)
{
    succeeded(entry, held_look(&entry->block, calls));
}

static void drop(struct entry *entry)
{
    discount_bytes(entry);
    succeeded(entry, held_free(&entry->block, calls));
}

static void resize(struct entry *entry, uint64_t *random)
{
    size_t size = random_size(random) + 1;
    discount_bytes(entry);
    succeeded(entry, held_resize(&entry->block, calls, size, random_next(random)));
    count_bytes(entry);
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
    struct entry *entry = &table[random_next(random) % ENTRIES];
    if (!take(entry))
        return;
    uint64_t kind = random_next(random) % 16;
    if (!entry->block.start)
        allocate(entry, random);
    else if (kind < 9)
        drop(entry);
    else if (kind < 14)
        resize(entry, random);
    else
        look_at(entry);
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
    calls->thread_exit();
    return NULL;
}

static _Noreturn void be_child(uint64_t random)
{
    alarm(1800); /* a lock that was left held would be waited for for ever */
    for (int i = 0; i < ENTRIES; i++) {
        if (!take(&table[i]))
            continue;
        if (table[i].block.start && i % 2 == 0)
            drop(&table[i]);
        else if (table[i].block.start)
            look_at(&table[i]);
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
    uint64_t span = 2000 + random_next(&worker->random) % 60000, done = 0;
    while (done < span && !atomic_load_explicit(&stop, memory_order_relaxed)) {
        operate(&worker->random);
        done++;
        if (atomic_load_explicit(&fork_wanted, memory_order_relaxed) &&
            atomic_exchange(&fork_wanted, false))
            fork_once(worker->random);
        if (random_next(&worker->random) % 50000 == 0)
            heap->trim();
    }
    atomic_fetch_add_explicit(&operations, done, memory_order_relaxed);
    atomic_fetch_add_explicit(&lives, 1, memory_order_relaxed);
    calls->thread_exit();
    atomic_store(&worker->ended, true);
    return NULL;
}

static void start_worker(struct worker *worker, uint64_t *random)
{
    worker->random = random_next(random);
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
        if (table[i].block.start) {
            look_at(&table[i]);
            meeting.starts[meeting.count++] = table[i].block.start;
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
    unsigned threads = 1 + (unsigned)(random_next(random) % MOST_THREADS);
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
            fork_once(random_next(random));
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
        if (table[i].block.start)
            drop(&table[i]);
    examine();
    printf("%s:%s: %.0f s, %llu phases, %llu threads, %llu forks, %llu operations, %llu refused\n",
           heap->name, heap->preset, now() - start, (unsigned long long)phases,
           (unsigned long long)lives, (unsigned long long)forks, (unsigned long long)operations,
           (unsigned long long)refusals);
}

#ifdef STRESS_TABLE

/* An allocator is made once in a process, so each has one of its own. Of `gc` there is the
 * quarantine whose blocks age. Collections stay out: they read all memory, and a sanitizer's shadow
 * is most of it. */
int main(void)
{
    for (size_t i = 0; allocators[i]; i++) {
        int status = 0;
        if (strcmp(allocators[i]->name, "gc") == 0 && strcmp(allocators[i]->preset, "default") != 0)
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
