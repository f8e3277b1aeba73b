/* SPDX-License-Identifier: MIT
 *
 * quarantined.c: what becomes of freed blocks under gc:free=quarantine.
 *
 * The program remembers a block's address only in a form that no collector takes for one
 * (tests/gc/traps/trap.h), besides the one place that the case is about. Exit status 0: as it
 * should be; 77: this machine lacks what the case is about.
 */
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gc/traps/trap.h"

enum { FILL = 0xDF, LOST = 50 };

static void *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static __attribute__((noinline)) struct disguised freed_block(void)
{
    char *block = signed_block();
    struct disguised place = disguise(block);
    free(opaque(block));
    return place;
}

static bool is_filled(const volatile unsigned char *block, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != FILL)
            return false;
    return true;
}

/* collect() overwrites what is handed out again. */
static __attribute__((noinline)) bool is_quarantined(struct disguised place)
{
    return malloc_usable_size(reveal(place)) > 0 && is_filled(reveal(place), TRAP_BYTES);
}

static __attribute__((noinline)) void require_quarantined(struct disguised place)
{
    for (int i = 0; i < 3; i++) {
        collect();
        require(is_quarantined(place));
    }
}

/* Stale words, in frames of libc's say, may keep a few. */
static void require_released(const struct disguised *places, int count)
{
    int held = 0;
    for (int i = 0; i < 2; i++)
        collect();
    for (int i = 0; i < count; i++)
        held += is_quarantined(places[i]);
    require(held <= count / 5);
}

static void *volatile global;

static void test_global(void)
{
    struct disguised place = freed_block();
    global = reveal(place);
    require_quarantined(place);
}

static __attribute__((noinline)) void with_stack(struct disguised place)
{
    void *volatile kept = reveal(place);
    require_quarantined(place);
    require(kept != NULL);
}

static void test_stack(void)
{
    with_stack(freed_block());
}

static void test_inside(void)
{
    struct disguised place = freed_block();
    global = (char *)reveal(place) + 40;
    require_quarantined(place);
}

static void test_heap(void)
{
    struct disguised place = freed_block();
    void **outer = malloc(64), **inner = malloc(64);
    global = outer;
    outer[3] = inner;
    inner[5] = reveal(place);
    outer = inner = NULL;
    require_quarantined(place);
}

static __thread void *volatile own;

static void test_thread_local(void)
{
    struct disguised place = freed_block();
    own = reveal(place);
    require_quarantined(place);
}

static struct disguised shared_place;
static _Atomic int step;

static void await_step(int wanted)
{
    while (atomic_load(&step) != wanted)
        usleep(100);
}

static void *hold_in_register(void *unused)
{
    void *kept = reveal(shared_place);
    int seen;
    atomic_store(&step, 1);
    __asm__ volatile("1: movl %1, %0\n\tpause\n\tcmpl $2, %0\n\tjne 1b"
                     : "=&r"(seen)
                     : "m"(step), "r"(kept)
                     : "memory");
    return unused;
}

static void *hold_on_stack(void *unused)
{
    void *volatile kept = reveal(shared_place);
    atomic_store(&step, 1);
    await_step(2);
    require(kept != NULL);
    return unused;
}

static void with_thread(void *(*hold)(void *))
{
    pthread_t thread;
    shared_place = freed_block();
    require(pthread_create(&thread, NULL, hold, NULL) == 0);
    await_step(1);
    require_quarantined(shared_place);
    atomic_store(&step, 2);
    pthread_join(thread, NULL);
}

static void test_register(void)
{
    with_thread(hold_in_register);
}

static void test_thread_stack(void)
{
    with_thread(hold_on_stack);
}

/* Freed by a thread that is not the block's. */
static void *free_it(void *block)
{
    free(block);
    return NULL;
}

static __attribute__((noinline)) struct disguised freed_elsewhere(void)
{
    pthread_t thread;
    char *block = signed_block();
    struct disguised place = disguise(block);
    require(pthread_create(&thread, NULL, free_it, block) == 0);
    pthread_join(thread, NULL);
    return place;
}

static void test_freed_elsewhere(void)
{
    struct disguised place = freed_elsewhere(), gone[LOST];
    global = reveal(place);
    require_quarantined(place);
    for (int i = 0; i < LOST; i++)
        gone[i] = freed_elsewhere();
    require_released(gone, LOST);
}

static void *volatile held[LOST];

static void test_released(void)
{
    struct disguised places[LOST];
    for (int i = 0; i < LOST; i++) {
        places[i] = freed_block();
        held[i] = reveal(places[i]);
    }
    for (int i = 0; i < LOST; i++)
        require(is_quarantined(places[i]));
    collect();
    for (int i = 0; i < LOST; i++)
        require(is_quarantined(places[i]));
    for (int i = 0; i < LOST; i++)
        held[i] = NULL;
    require_released(places, LOST);
}

/* What freed blocks pointed to does not count: neither a chain nor a ring keeps itself. */
static __attribute__((noinline)) void make_ring(struct disguised *places)
{
    void **blocks[LOST];
    for (int i = 0; i < LOST; i++)
        blocks[i] = malloc(TRAP_BYTES);
    for (int i = 0; i < LOST; i++) {
        blocks[i][0] = blocks[(i + 1) % LOST];
        places[i] = disguise(blocks[i]);
    }
    for (int i = 0; i < LOST; i++)
        free(opaque(blocks[i]));
    memset(blocks, 0, sizeof blocks);
    __asm__ volatile("" : : "r"(blocks) : "memory");
}

static void test_ring(void)
{
    struct disguised places[LOST];
    make_ring(places);
    global = reveal(places[0]);
    require_quarantined(places[0]);
    require_released(places + 1, LOST - 1);
}

/* Pointers that nobody sees cost what they point to its protection, and nothing live. */
static void test_hidden(void)
{
    struct disguised live[LOST], freed[LOST];
    for (int i = 0; i < LOST; i++) {
        live[i] = lost_block();
        freed[i] = freed_block();
    }
    require_released(freed, LOST);
    for (int i = 0; i < LOST; i++)
        require(is_kept(live[i]));
}

static __attribute__((noinline)) struct disguised resized_block(void)
{
    char *block = signed_block();
    struct disguised place = disguise(block);
    char *moved = realloc(opaque(block), 20000);
    require(moved && moved[TRAP_BYTES - 1] == 0x5A);
    free(moved);
    return place;
}

static void test_resized(void)
{
    struct disguised place = resized_block(), gone[LOST];
    global = reveal(place);
    require_quarantined(place);
    for (int i = 0; i < LOST; i++)
        gone[i] = resized_block();
    require_released(gone, LOST);
}

static void test_fork(void)
{
    struct disguised place = freed_block(), gone[LOST];
    global = reveal(place);
    for (int i = 0; i < LOST; i++)
        gone[i] = freed_block();
    pid_t child = fork();
    require(child >= 0);
    require_quarantined(place);
    require_released(gone, LOST);
    struct disguised places[LOST];
    for (int i = 0; i < LOST; i++)
        places[i] = freed_block();
    require_released(places, LOST);
    if (child == 0)
        _exit(0);
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

static _Atomic bool ends;

static void *churn(void *unused)
{
    enum { KEPT = 64 };
    unsigned char *kept[KEPT] = {0};
    for (unsigned i = 0; !atomic_load(&ends); i++) {
        unsigned place = i * 7 % KEPT;
        size_t bytes = 16 + i % 1000 * (i % 100 == 0 ? 100 : 1);
        if (kept[place])
            require(kept[place][0] == place && kept[place][15] == place);
        void *gone = kept[place];
        kept[place] = NULL;
        free(opaque(gone));
        gone = NULL;
        kept[place] = malloc(bytes);
        memset(kept[place], (int)place, 16);
    }
    for (int i = 0; i < KEPT; i++)
        free(kept[i]);
    return unused;
}

/* Other threads free while the process forks: nothing of that is a write after a free. */
static void test_fork_of_threads(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        require(pthread_create(&threads[i], NULL, churn, NULL) == 0);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        require(child >= 0);
        if (child == 0) {
            for (int round = 0; round < 3; round++)
                collect();
            _exit(0);
        }
        int status;
        require(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&ends, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

enum { LARGE_BYTES = 300000 };

static __attribute__((noinline)) struct disguised freed_large(void)
{
    char *block = malloc(LARGE_BYTES);
    memset(block, 0x5A, LARGE_BYTES);
    struct disguised place = disguise(block);
    free(opaque(block));
    return place;
}

/* No access to a large block; when it is released it has it again. */
static void test_large(void)
{
    struct disguised place = freed_large();
    char byte;
    int file[2];
    global = reveal(place);
    collect();
    require(pipe(file) == 0);
    if (write(file[1], (char *)global + 5000, 1) == 1) {
        require(read(file[0], &byte, 1) == 1 && byte != 0x5A);
        skip("no pages without access here");
    }
    require(errno == EFAULT);
    global = NULL;
    for (int i = 0; i < 3; i++)
        collect();
    for (int i = 0; i < 20; i++) {
        char *block = calloc(1, LARGE_BYTES);
        for (int at = 0; at < LARGE_BYTES; at++)
            require(block[at] == 0);
        memset(block, 1, LARGE_BYTES);
    }
}

/* The kernel may know it: its free ends that. */
static __attribute__((noinline)) struct disguised freed_pinned(int poll)
{
    char *block = signed_block();
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = block};
    struct disguised place = disguise(block);
    int file[2];
    require(pipe(file) == 0 && epoll_ctl(poll, EPOLL_CTL_ADD, file[0], &event) == 0);
    event.data.ptr = NULL;
    free(opaque(block));
    close(file[0]);
    close(file[1]);
    return place;
}

static void test_pinned(void)
{
    struct disguised places[LOST];
    int poll = epoll_create1(0);
    for (int i = 0; i < LOST; i++)
        places[i] = freed_pinned(poll);
    global = reveal(places[0]);
    require_quarantined(places[0]);
    require_released(places + 1, LOST - 1);
}

/* A thread that has given its heap up allocates from the common one: its bins too are looked at
 * when a collection has released blocks. Each free is a right one. */
static pthread_key_t late_key;

static void allocate_late(void *unused)
{
    enum { ROUNDS = 200, COUNT = 300 };
    static void *blocks[COUNT];
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            require((blocks[i] = malloc(TRAP_BYTES)) != NULL);
        for (int i = 0; i < COUNT; i++) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
        clean_stack();
        if (round % 10 == 0)
            malloc_trim(0);
    }
}

static void *set_late_key(void *unused)
{
    free(malloc(TRAP_BYTES));
    pthread_setspecific(late_key, &late_key);
    return unused;
}

static void *free_one(void *unused)
{
    free(malloc(TRAP_BYTES));
    return unused;
}

/* The library's key is there when the first thread has begun; destructors run in that order. */
static void test_after_exit(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, free_one, NULL) == 0);
    pthread_join(thread, NULL);
    require(pthread_key_create(&late_key, allocate_late) == 0);
    for (int i = 0; i < 3; i++) {
        require(pthread_create(&thread, NULL, set_late_key, NULL) == 0);
        pthread_join(thread, NULL);
    }
}

/* Misuse: standard error tells. */

static void write_to_freed(int count)
{
    struct disguised places[LOST];
    for (int i = 0; i < count; i++)
        places[i] = freed_block();
    for (int i = 0; i < count; i++)
        ((char *)reveal(places[i]))[33] = 'w';
    clean_stack();
    malloc_trim(0);
    malloc_trim(0);
}

static void test_written(void)
{
    write_to_freed(LOST);
}

/* As many as one collection notes (MOST_WRITTEN). */
static void test_written_16(void)
{
    write_to_freed(16);
}

/* What is released is looked at when it is handed out again, and nothing is left to the exit. */
static void test_written_reused(void)
{
    write_to_freed(16);
    for (int i = 0; i < 5000; i++)
        require(malloc(TRAP_BYTES) != NULL);
    _exit(0);
}

/* The slab that has the blocks is empty when they are released: it is looked at before its memory
 * is anything else's. */
static void test_written_dropped(void)
{
    enum { BYTES = 3000, COUNT = 400 };
    static struct disguised places[COUNT];
    static void *blocks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = malloc(BYTES);
        places[i] = disguise(blocks[i]);
    }
    for (int i = 0; i < COUNT; i++)
        free(opaque(blocks[i]));
    memset(blocks, 0, sizeof blocks);
    for (int i = 0; i < COUNT; i += COUNT / 16)
        ((char *)reveal(places[i]))[33] = 'w';
    for (int i = 0; i < 3; i++) {
        clean_stack();
        malloc_trim(0);
        for (int j = 0; j < 100; j++)
            require(malloc(2000) != NULL);
    }
    malloc_trim(0);
    _exit(0);
}

static __attribute__((noinline)) void free_first(void *block)
{
    free(opaque(block));
    __asm__ volatile("");
}

static void test_freed_twice(void)
{
    void *block = malloc(100);
    free_first(block);
    collect();
    free(opaque(block));
}

static void test_freed_twice_elsewhere(void)
{
    void *block = malloc(100);
    pthread_t thread;
    require(pthread_create(&thread, NULL, free_it, block) == 0);
    pthread_join(thread, NULL);
    free(opaque(block));
}

static void test_freed_twice_large(void)
{
    void *block = malloc(LARGE_BYTES);
    free_first(block);
    free(opaque(block));
}

static void test_resized_after_free(void)
{
    void *block = malloc(100);
    free_first(block);
    require(realloc(opaque(block), 50) == NULL);
}

/* Two threads free the same blocks at once: one is told. */
enum { RACES = 2000 };
static void *raced[RACES];
static pthread_barrier_t both;

static void *free_all(void *unused)
{
    pthread_barrier_wait(&both);
    for (int i = 0; i < RACES; i++)
        free(opaque(raced[i]));
    return unused;
}

static void test_freed_by_both(void)
{
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < RACES; i++)
        raced[i] = malloc(64);
    require(pthread_create(&other, NULL, free_all, NULL) == 0);
    free_all(NULL);
    pthread_join(other, NULL);
}

/* Two threads free neighbours at once: no bit is lost, so all are released. */
static _Atomic int ready;

static void *free_every_other(void *first)
{
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) % 2 != 0) /* both run now, if there are two processors */
        ;
    for (int i = first ? 1 : 0; i < RACES; i += 2)
        free(opaque(raced[i]));
    return NULL;
}

/* Where there are many collections, several rounds have the same block. */
static bool is_among(struct disguised place, const struct disguised *places, int count)
{
    for (int i = 0; i < count; i++)
        if (places[i].low == place.low && places[i].high == place.high)
            return true;
    return false;
}

static void test_neighbours(void)
{
    enum { ROUNDS = 60 };
    static struct disguised places[ROUNDS * RACES];
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t other;
        for (int i = 0; i < RACES; i++) {
            raced[i] = signed_block();
            places[round * RACES + i] = disguise(raced[i]);
        }
        require(pthread_create(&other, NULL, free_every_other, raced) == 0);
        free_every_other(NULL);
        pthread_join(other, NULL);
        memset(raced, 0, sizeof raced);
    }
    for (int i = 0; i < 3; i++)
        collect();
    enum { MOST = 20 };
    struct disguised found[MOST];
    int held = 0;
    for (int i = 0; i < ROUNDS * RACES; i++)
        if (is_quarantined(places[i]) && !is_among(places[i], found, held)) {
            require(held < MOST);
            found[held++] = places[i];
        }
}

/* Without collections. */

static size_t peak_kilobytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (size_t)usage.ru_maxrss;
}

/* A freed block is not handed out before a megabyte of others has been freed, and is some time
 * later, although something points to it. What is freed does not grow without an end. */
static void require_delay(size_t megabytes)
{
    enum { BLOCK_BYTES = 1000, AT_ONCE = 700 };
    char *block = malloc(BLOCK_BYTES);
    global = block;
    free(opaque(block));
    void *others[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
        others[i] = malloc(BLOCK_BYTES);
        require(others[i] != block);
    }
    for (int i = 0; i < AT_ONCE; i++)
        free(others[i]);
    size_t before = peak_kilobytes();
    bool again = false;
    for (size_t done = 0; done < megabytes << 20; done += BLOCK_BYTES) {
        char *other = malloc(BLOCK_BYTES);
        again |= other == block;
        memset(other, 1, BLOCK_BYTES);
        free(opaque(other));
    }
    require(again);
    require(peak_kilobytes() < before + (100 << 10));
}

static void test_sandbox(void)
{
    struct disguised before[LOST];
    for (int i = 0; i < LOST; i++)
        before[i] = freed_block();
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    for (int i = 0; i < LOST; i++)
        require(is_quarantined(before[i]));
    require_delay(300);
}

static void *block_every_signal(void *unused)
{
    uint64_t all = ~UINT64_C(0);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, NULL, sizeof all);
    atomic_store(&step, 1);
    await_step(2);
    return unused;
}

static void test_stop_fails(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, block_every_signal, NULL) == 0);
    await_step(1);
    require_delay(200);
    atomic_store(&step, 2);
    pthread_join(thread, NULL);
    struct disguised place = freed_block();
    global = reveal(place);
    for (int i = 0; i < 3; i++)
        malloc_trim(0); /* collections work again */
    require_quarantined(place);
}

/* In a child that does not know that it is one. */
static void test_forked_by_number(void)
{
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    require(child >= 0);
    if (child == 0) {
        require_delay(300);
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

/* Memory is refused rather than handed out too early. */
static void test_no_memory(void)
{
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    struct rlimit limit = {(rlim_t)200 << 20, (rlim_t)200 << 20};
    require(setrlimit(RLIMIT_AS, &limit) == 0);
    enum { BLOCK_BYTES = 30000, MOST = 20000 };
    static void *blocks[MOST];
    int count = 0;
    while (count < MOST && (blocks[count] = malloc(BLOCK_BYTES)) != NULL)
        count++;
    require(count > 100 && count < MOST);
    void *last = blocks[count - 1];
    free(opaque(last));
    for (int i = 0; i < 5; i++)
        require(malloc(BLOCK_BYTES) == NULL);
    for (int i = 0; i < count - 1; i++)
        free(opaque(blocks[i]));
    require(malloc(BLOCK_BYTES) != NULL);
}

/* Collections come by themselves, as often as the retired bytes ask for it. */
static void test_bounded(void)
{
    enum { BLOCKS = 3000, BLOCK_BYTES = 1000 };
    static char *kept[BLOCKS];
    size_t before = peak_kilobytes();
    for (int i = 0; i < 1000000; i++) {
        char **place = &kept[i * 31 % BLOCKS];
        if (*place)
            require((*place)[BLOCK_BYTES - 1] == 7);
        free(*place);
        *place = malloc(BLOCK_BYTES);
        memset(*place, 7, BLOCK_BYTES);
    }
    require(peak_kilobytes() < before + (40 << 10));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"global", test_global},
    {"stack", test_stack},
    {"inside", test_inside},
    {"heap", test_heap},
    {"thread-local", test_thread_local},
    {"register", test_register},
    {"thread-stack", test_thread_stack},
    {"freed-elsewhere", test_freed_elsewhere},
    {"released", test_released},
    {"ring", test_ring},
    {"hidden", test_hidden},
    {"resized", test_resized},
    {"fork", test_fork},
    {"fork-of-threads", test_fork_of_threads},
    {"large", test_large},
    {"pinned", test_pinned},
    {"bounded", test_bounded},
    {"after-exit", test_after_exit},
    {"written", test_written},
    {"written-16", test_written_16},
    {"written-reused", test_written_reused},
    {"written-dropped", test_written_dropped},
    {"freed-twice", test_freed_twice},
    {"freed-twice-elsewhere", test_freed_twice_elsewhere},
    {"freed-twice-large", test_freed_twice_large},
    {"resized-after-free", test_resized_after_free},
    {"freed-by-both", test_freed_by_both},
    {"neighbours", test_neighbours},
    {"sandbox", test_sandbox},
    {"stop-fails", test_stop_fails},
    {"forked-by-number", test_forked_by_number},
    {"no-memory", test_no_memory},
};

int main(int count, char **words)
{
    pass_first_blocks();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (count == 2 && strcmp(words[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 98;
}
