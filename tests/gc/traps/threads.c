/* SPDX-License-Identifier: MIT
 *
 * threads.c: the pointer is held by another thread, in a register or on an unusual stack, while
 * this one collects. The argument names how.
 */
#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/gc/traps/trap.h"

static _Atomic int ready, stop;
static struct disguised held;

static void wait_for(_Atomic int *flag)
{
    while (!*flag)
        sched_yield();
}

/* The compiler does not know that it could turn it back. */
static uint64_t turn_round(void *block)
{
    uint64_t word = ~(uint64_t)block;
    __asm__("" : "+r"(word));
    return word;
}

/* Spins with the pointer in one register only. */
static void hold_in_register(uint64_t turned)
{
    register uint64_t r12 __asm__("r12") = turned;
    __asm__ volatile("notq %0\n\t"
                     "movl $1, %1\n\t"
                     "1: pause\n\tcmpl $0, %2\n\tje 1b"
                     : "+r"(r12), "=m"(ready)
                     : "m"(stop)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r13", "memory");
}

static void *in_register(void *unused)
{
    void *block = signed_block();
    held = disguise(block);
    uint64_t turned = turn_round(block);
    block = NULL;
    clean_stack();
    hold_in_register(turned);
    return unused;
}

static void *in_vector_register(void *unused)
{
    void *block = signed_block();
    held = disguise(block);
    uint64_t turned = turn_round(block);
    block = NULL;
    clean_stack();
    __asm__ volatile("notq %0\n\t"
                     "vmovq %0, %%xmm7\n\t"
                     "vinsertf128 $1, %%xmm7, %%ymm9, %%ymm9\n\t"
                     "vpxor %%xmm7, %%xmm7, %%xmm7\n\t"
                     "xor %0, %0\n\t"
                     "movl $1, %1\n\t"
                     "1: pause\n\tcmpl $0, %2\n\tje 1b"
                     : "+r"(turned), "=m"(ready)
                     : "m"(stop)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "xmm7", "xmm9", "memory");
    return unused;
}

/* Of all vector registers, which calls need not keep. */
__attribute__((noinline)) static void clean_vectors(void)
{
    __asm__ volatile("vzeroall");
}

/* In the 128 bytes below the stack pointer that a function may use which calls no other. */
static void *in_red_zone(void *unused)
{
    void *block = signed_block();
    held = disguise(block);
    uint64_t turned = turn_round(block);
    block = NULL;
    clean_stack();
    clean_vectors();
    __asm__ volatile("notq %0\n\t"
                     "movq %0, -120(%%rsp)\n\t"
                     "notq %0\n\t"
                     "movl $1, %1\n\t"
                     "1: pause\n\tcmpl $0, %2\n\tje 1b"
                     : "+r"(turned), "=m"(ready)
                     : "m"(stop)
                     : "memory");
    return unused;
}

/* There, while the signal that stops the thread is taken on another stack, so that nothing of it
 * lies below. */
static void *in_red_zone_alone(void *unused)
{
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    require(sigaltstack(&stack, NULL) == 0);
    return in_red_zone(unused);
}

/* Runs the first instructions of a page, with nothing before it, while its registers look as if a
 * call had just returned a part of what it was to. */
static void *stay_at_page_start(long result)
{
    char *pages =
        mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED && mprotect(pages, 4096, PROT_NONE) == 0);
    memcpy(pages + 4096, "\xeb\xfe", 2); /* jmp . */
    held = disguise(signed_block());
    *(void *volatile *)(pages + 8000) = reveal(held);
    ready = 1;
    __asm__ volatile("mov $5, %%edx\n\tjmp *%0" : : "r"(pages + 4096), "a"(result));
    __builtin_unreachable();
}

static void *at_page_start(void *unused)
{
    (void)unused;
    return stay_at_page_start(1);
}

/* Or as if a signal had ended it. */
static void *interrupted_at_page_start(void *unused)
{
    (void)unused;
    return stay_at_page_start(-EINTR);
}

/* What ld.so allocates for a thread: the table of its thread-local storage, and in that a library's
 * that was loaded later. glibc keeps a dead thread's stack and table for the next. */
static void *volatile *(*slot)(void);

static void *in_loaded_storage(void *unused)
{
    require(*slot() == NULL);
    *slot() = signed_block();
    held = disguise(*slot());
    clean_stack();
    ready = 1;
    wait_for(&stop);
    return unused;
}

static void overwrite_what_is_free(void)
{
    for (size_t bytes = 16; bytes <= 8192; bytes += 16)
        for (int i = 0; i < 40; i++)
            memset(malloc(bytes), 0xEE, bytes);
}

static void in_thread(void *(*start)(void *));
static char *program;

static void loaded_storage(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/storage.so", dirname(program));
    void *library = dlopen(path, RTLD_NOW);
    require(library != NULL);
    slot = (void *volatile *(*)(void))dlsym(library, "slot");
    for (int i = 0; i < 5; i++) {
        ready = stop = 0;
        in_thread(in_loaded_storage);
        collect();
        overwrite_what_is_free();
    }
}

static void *on_stack(void *unused)
{
    void *volatile block = signed_block();
    held = disguise(block);
    ready = 1;
    wait_for(&stop);
    return block ? NULL : unused;
}

/* Blocks every signal, those of glibc included: it cannot be stopped, so nothing is reclaimed. */
static void *blocking_signals(void *unused)
{
    uint64_t all = ~UINT64_C(0);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8);
    return in_register(unused);
}

static void *blocking_filled_set(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    return on_stack(unused);
}

/* Made by clone, without libc's knowledge. */
__attribute__((noreturn)) static int cloned(void *unused)
{
    on_stack(unused);
    for (;;)
        syscall(SYS_exit, 0);
}

static void start_clone(int (*start)(void *))
{
    enum { STACK = 256 << 10 };
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(stack != MAP_FAILED);
    require(clone(start, stack + STACK,
                  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
                  NULL) > 0);
}

/* A thread that is made while the others are being stopped, by one that has not answered yet. */
__attribute__((noreturn)) static int made_late(void *unused)
{
    (void)unused;
    uint64_t none = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8);
    hold_in_register((uint64_t)held.high << 32 | held.low);
    for (;;)
        syscall(SYS_exit, 0);
}

enum { STOP_SIGNAL = 33 };
static _Atomic int blocks_stop, takes_stop;

static void *make_late(void *unused)
{
    uint64_t all = ~UINT64_C(0), before, pending = 0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, 8);
    blocks_stop = 1;
    while (!(pending >> (STOP_SIGNAL - 1) & 1))
        syscall(SYS_rt_sigpending, &pending, 8);
    start_clone(made_late);
    wait_for(&ready);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
    takes_stop = 1;
    wait_for(&stop);
    return unused;
}

static void made_while_stopping(void)
{
    pthread_t thread;
    held = lost_block();
    require(pthread_create(&thread, NULL, make_late, NULL) == 0);
    wait_for(&blocks_stop);
    collect();
    require(is_kept(held));
    wait_for(&takes_stop);
    malloc_trim(0); /* the others may have been given up */
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* The collection is done on an alternate signal stack that lies among the frames of this one.
 * disarm: the kernel does not tell of it meanwhile. */
static const int DISARM = INT_MIN; /* SS_AUTODISARM of <linux/signal.h> */
static int alternate_flags;

static void collect_in_handler(int signal)
{
    (void)signal;
    collect();
}

__attribute__((noinline)) static void *deep(void)
{
    void *volatile block = signed_block();
    held = disguise(block);
    require(raise(SIGUSR1) == 0);
    return block;
}

static void on_alternate_stack(void)
{
    char alternate[128 << 10];
    stack_t stack = {alternate, alternate_flags, sizeof alternate};
    struct sigaction action = {.sa_handler = collect_in_handler, .sa_flags = SA_ONSTACK};
    require(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    require(deep() != NULL && is_kept(held));
}

static void on_disarmed_alternate_stack(void)
{
    alternate_flags = DISARM;
    on_alternate_stack();
}

/* The same in a thread that another one stops there. */
static void spin_in_handler(int signal)
{
    (void)signal;
    ready = 1;
    wait_for(&stop);
}

static void *stopped_on_alternate_stack(void *unused)
{
    char alternate[128 << 10];
    stack_t stack = {alternate, alternate_flags, sizeof alternate};
    struct sigaction action = {.sa_handler = spin_in_handler, .sa_flags = SA_ONSTACK};
    require(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    require(deep() != NULL);
    return unused;
}

static void *stopped_on_disarmed_alternate_stack(void *unused)
{
    alternate_flags = DISARM;
    return stopped_on_alternate_stack(unused);
}

/* A coroutine, on a stack from malloc to which nothing points while it runs. */
static ucontext_t outside, inside;
static struct disguised stack_of_coroutine;
enum { STACK_BYTES = 256 << 10 };
static int small;

static void coroutine(void)
{
    memset(&inside, 0, sizeof inside); /* it holds the stack pointer to begin with */
    void *volatile block = signed_block();
    held = disguise(block);
    if (small) {
        malloc_trim(0); /* with little room left */
    } else {
        collect();
        require(is_kept(held) && malloc_usable_size(reveal(stack_of_coroutine)) >= STACK_BYTES);
    }
    swapcontext(&inside, &outside);
    require(block != NULL);
}

__attribute__((noinline)) static void make_coroutine(size_t bytes)
{
    char *stack = malloc(bytes);
    stack_of_coroutine = disguise(stack);
    require(getcontext(&inside) == 0);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = bytes;
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    inside.uc_stack.ss_sp = NULL;
}

static void enter_coroutine(size_t bytes)
{
    make_coroutine(bytes);
    clean_stack();
    clean_vectors();
    swapcontext(&outside, &inside);
}

/* A stack in a block to which no word points that is not on it. */
static uint64_t turned_end_of_stack;

__attribute__((noinline)) static void make_stack(void)
{
    char *stack = malloc(STACK_BYTES);
    require(stack != NULL);
    stack_of_coroutine = disguise(stack);
    turned_end_of_stack = turn_round(stack + STACK_BYTES);
}

__attribute__((noinline)) static void run_there(void (*function)(void))
{
    clean_stack();
    clean_vectors();
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %1, %%rax\n\t"
                     "not %%rax\n\t"
                     "mov %%rax, %%rsp\n\t"
                     "xor %%eax, %%eax\n\t"
                     "call *%0\n\t"
                     "mov %%rbx, %%rsp"
                     :
                     : "r"(function), "m"(turned_end_of_stack)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "xmm0",
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
}

static void run_on_stack(void (*function)(void))
{
    make_stack();
    run_there(function);
}

static void collect_there(void)
{
    void *volatile block = signed_block();
    held = disguise(block);
    collect();
    require(is_kept(held) && block &&
            malloc_usable_size(reveal(stack_of_coroutine)) >= STACK_BYTES);
}

static void stack_in_block(void)
{
    run_on_stack(collect_there);
}

static void wait_there(void)
{
    on_stack(NULL);
}

static void *wait_in_block(void *unused)
{
    run_on_stack(wait_there);
    return unused;
}

static void stopped_in_block(void)
{
    in_thread(wait_in_block);
    require(malloc_usable_size(reveal(stack_of_coroutine)) >= STACK_BYTES);
}

/* The vector of thread-local storage: only the thread's control block, at FS, has its address, and
 * that of its second entry. The first one has a number of entries. */
static uint64_t *own_vector(void)
{
    uint64_t *second;
    __asm__("mov %%fs:8, %0" : "=r"(second));
    return second - 2;
}

static _Atomic(uint64_t) turned_vector, turned_control;

static void *tell_vector(void *unused)
{
    turned_vector = ~(uint64_t)own_vector();
    turned_control = ~(uint64_t)pthread_self();
    return unused;
}

/* If it is reclaimed its memory is handed out again. */
static void require_vector(uint64_t entries)
{
    uint64_t *vector = (uint64_t *)~turned_vector;
    size_t bytes = malloc_usable_size(vector);
    require(bytes > 0);
    vector = NULL;
    collect();
    for (int i = 0; i < 1000; i++)
        memset(malloc(bytes), 0xEE, bytes);
    require(*(uint64_t *)~turned_vector == entries);
}

static void *keep_own_vector(void *unused)
{
    tell_vector(unused);
    ready = 1;
    wait_for(&stop);
    require_vector(*own_vector());
    return unused;
}

/* The program gives the thread a stack; the control block comes to lie in it as well. */
static void control_block_in_block(void)
{
    static void *volatile given;
    pthread_attr_t attributes;
    pthread_t thread;
    given = malloc(STACK_BYTES);
    require(pthread_attr_init(&attributes) == 0);
    require(pthread_attr_setstack(&attributes, given, STACK_BYTES) == 0);
    require(pthread_create(&thread, &attributes, keep_own_vector, NULL) == 0);
    wait_for(&ready);
    require_vector(*(uint64_t *)~turned_vector);
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* libc keeps a dead thread's stack, and all that belongs to it, for the next thread. Here the page
 * cannot be read in place. */
static void dead_control_block_by_copy(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, tell_vector, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
    uint64_t entries = *(uint64_t *)~turned_vector;
    void *page = (void *)(~turned_control & -4096UL);
    require(mprotect(page, 4096, PROT_NONE) == 0);
    require_vector(entries);
    require(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    require(pthread_create(&thread, NULL, tell_vector, NULL) == 0);
    require(pthread_join(thread, NULL) == 0);
}

/* A coroutine's stack right behind the thread's own: the kernel makes one mapping of both. They are
 * so large that nothing else is where they fit. */
enum { LONG_STACK = 64 << 20 };
static char *coroutine_stack;

static void wait_as_coroutine(void)
{
    ready = 1;
    wait_for(&stop);
}

static void *wait_behind_stack(void *unused)
{
    void *volatile block = signed_block();
    held = disguise(block);
    turned_end_of_stack = turn_round(coroutine_stack + LONG_STACK);
    run_there(wait_as_coroutine);
    return block ? NULL : unused;
}

static void behind_stack(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    coroutine_stack = mmap(NULL, LONG_STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    require(coroutine_stack != MAP_FAILED && pthread_attr_init(&attributes) == 0 &&
            pthread_attr_setstacksize(&attributes, LONG_STACK) == 0 &&
            pthread_create(&thread, &attributes, wait_behind_stack, NULL) == 0);
    wait_for(&ready);
    collect();
    require(is_kept(held));
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* An alternate signal stack of which only the kernel knows. */
__attribute__((noinline)) static void make_alternate(void)
{
    stack_t stack = {.ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES};
    held = disguise(stack.ss_sp);
    require(sigaltstack(&stack, NULL) == 0);
    memset(&stack, 0, sizeof stack);
}

static void alternate_in_block(void)
{
    make_alternate();
    collect();
    require(malloc_usable_size(reveal(held)) >= STACK_BYTES);
}

static void *have_alternate(void *unused)
{
    make_alternate();
    clean_stack();
    ready = 1;
    wait_for(&stop);
    return unused;
}

static void others_alternate_in_block(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, have_alternate, NULL) == 0);
    wait_for(&ready);
    collect();
    require(malloc_usable_size(reveal(held)) >= STACK_BYTES);
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

static void suspended_coroutine(void)
{
    small = 1;
    enter_coroutine(16384);
    collect(); /* only its saved context leads to it now */
    require(is_kept(held));
}

static void in_thread(void *(*start)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, start, NULL) == 0);
    wait_for(&ready);
    collect();
    require(is_kept(held));
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* /proc numbers the threads of the child otherwise than they do themselves, so that they cannot be
 * stopped. */
static void other_namespace(void)
{
    if (unshare(CLONE_NEWPID) != 0)
        skip("namespaces are not allowed here");
    pid_t child = fork();
    if (child == 0) {
        in_thread(in_register);
        exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
}

/* A child that borrows the memory has none of the threads, and must not collect. */
static void borrowed_memory(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, in_register, NULL) == 0);
    wait_for(&ready);
    pid_t child = vfork();
    if (child == 0) {
        malloc_trim(0);
        _exit(0);
    }
    require(waitpid(child, NULL, 0) == child);
    overwrite_what_is_free();
    require(is_kept(held));
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* The argument of a thread that has not begun. */

static void *take_argument(void *block)
{
    require(malloc_usable_size(block) >= TRAP_BYTES && *(unsigned char *)block == 0x5A);
    return NULL;
}

static void starting_threads(void)
{
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        require(pthread_create(&thread, NULL, take_argument, signed_block()) == 0);
        malloc_trim(0);
        require(pthread_join(thread, NULL) == 0);
    }
}

/* Threads come and go while others collect. */
static void *collect_and_end(void *unused)
{
    for (int i = 0; i < 3; i++) {
        void *volatile block = signed_block();
        struct disguised mine = disguise(block);
        malloc_trim(0);
        require(is_kept(mine) && block);
        free(block);
    }
    return unused;
}

static void coming_and_going(void)
{
    for (int round = 0; round < 40; round++) {
        pthread_t threads[8];
        for (int i = 0; i < 8; i++)
            require(pthread_create(&threads[i], NULL, collect_and_end, NULL) == 0);
        for (int i = 0; i < 8; i++)
            require(pthread_join(threads[i], NULL) == 0);
    }
}

static void *outlive_main(void *unused)
{
    usleep(20000);
    for (int i = 0; i < 20; i++) {
        void *volatile block = signed_block();
        held = disguise(block);
        collect();
        require(is_kept(held) && block);
    }
    require_collections();
    exit(0);
    return unused;
}

static void in_clone(void)
{
    start_clone(cloned);
    wait_for(&ready);
    collect();
    require(is_kept(held));
    stop = 1;
}

static void coroutine_in_block(void)
{
    enter_coroutine(STACK_BYTES);
}

static void main_ends(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, outlive_main, NULL) == 0);
    pthread_exit(NULL);
}

/* Of a thread that does not end. */
static void collect_beside(void *(*start)(void *))
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, start, NULL) == 0);
    wait_for(&ready);
    usleep(1000);
    collect();
    require(is_kept(held));
    malloc_trim(0); /* which the thread must have come back for */
}

static void call_at_page_start(void)
{
    collect_beside(at_page_start);
}

static void interrupted_call_at_page_start(void)
{
    collect_beside(interrupted_at_page_start);
}

static const struct {
    const char *name;
    void *(*thread)(void *);
    void (*run)(void);
} ways[] = {
    {"register", in_register, NULL},
    {"vector", in_vector_register, NULL},
    {"red-zone", in_red_zone, NULL},
    {"red-zone-alone", in_red_zone_alone, NULL},
    {"stack", on_stack, NULL},
    {"blocks-all", blocking_signals, NULL},
    {"blocks-filled", blocking_filled_set, NULL},
    {"stopped-on-alternate", stopped_on_alternate_stack, NULL},
    {"stopped-on-alternate-disarmed", stopped_on_disarmed_alternate_stack, NULL},
    {"alternate", NULL, on_alternate_stack},
    {"alternate-disarmed", NULL, on_disarmed_alternate_stack},
    {"suspended", NULL, suspended_coroutine},
    {"starting", NULL, starting_threads},
    {"loaded-storage", NULL, loaded_storage},
    {"other-namespace", NULL, other_namespace},
    {"borrowed-memory", NULL, borrowed_memory},
    {"coming-and-going", NULL, coming_and_going},
    {"made-while-stopping", NULL, made_while_stopping},
    {"stack-in-block", NULL, stack_in_block},
    {"stopped-in-block", NULL, stopped_in_block},
    {"control-block-in-block", NULL, control_block_in_block},
    {"dead-control-block-by-copy", NULL, dead_control_block_by_copy},
    {"behind-stack", NULL, behind_stack},
    {"alternate-in-block", NULL, alternate_in_block},
    {"others-alternate-in-block", NULL, others_alternate_in_block},
    {"clone", NULL, in_clone},
    {"coroutine", NULL, coroutine_in_block},
    {"main-ends", NULL, main_ends},
    {"at-page-start", NULL, call_at_page_start},
    {"interrupted-at-page-start", NULL, interrupted_call_at_page_start},
};

int main(int count, char **arguments)
{
    require(count == 2);
    program = arguments[0];
    pass_first_blocks();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (!strcmp(arguments[1], ways[i].name)) {
            if (ways[i].thread)
                in_thread(ways[i].thread);
            else
                ways[i].run();
            return 0;
        }
    require(!"a known way");
}
