/* SPDX-License-Identifier: MIT
 *
 * sampled.c: programs for blocks:guard=1, where every block lies between pages without access.
 *
 *     sampled NAME      exit status 0: it went as it should; else a line says what did not
 *
 * test_guard.py says what each is to print, and how it is to end.
 */
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/contract/contract.h"
#include "tests/unit/held_call.h"

enum { PAGE = 4096 };

/* A block that ends with its page, or begins with it. */
static __attribute__((noinline)) char *block_at(size_t bytes, bool at_start)
{
    for (int i = 0; i < 10000; i++) {
        char *block = malloc(bytes);
        require(block != NULL);
        if (((uintptr_t)block % PAGE == 0) == at_start)
            return block;
        free(block);
    }
    require(!"a block at that end of a page");
    return NULL;
}

static char *freed_block(size_t bytes)
{
    char *block = block_at(bytes, false);
    free(block);
    return block;
}

static void write_to(volatile char *byte)
{
    *byte = 1;
}

static int overflow(void)
{
    write_to(block_at(48, false) + 48);
    return 0;
}

static int overflow_from_40(void)
{
    write_to(block_at(40, false) + 49);
    return 0;
}

static int underflow(void)
{
    write_to(block_at(40, true) - 1);
    return 0;
}

static int write_freed(void)
{
    write_to(freed_block(100) + 8);
    return 0;
}

static int read_freed(void)
{
    return *(volatile char *)freed_block(40);
}

static int run_freed(void)
{
    ((void (*)(void))(uintptr_t)freed_block(40))();
    return 0;
}

static int freed_twice(void)
{
    free(freed_block(40));
    return 0;
}

static int resized_after_free(void)
{
    char *block = freed_block(40);
    return realloc(block, 80) != NULL;
}

static int freed_inside(void)
{
    free(block_at(40, false) + 16);
    return 0;
}

/* Behind the block, in its page: nothing faults. */
static int beside(void)
{
    char *block = block_at(40, false);
    write_to(block + 40);
    free(block);
    block = block_at(40, true);
    write_to(block + 140);
    free(block);
    block = block_at(40, false);
    write_to(block - 1);
    free(block);
    return 0;
}

static int beside_kept(void)
{
    write_to(block_at(40, false) + 40);
    return 0;
}

/* Handlers of the program. */

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void *volatile expected_address;
static char alternate[1 << 16];

static void on_plain(int number)
{
    require(number == SIGSEGV);
    handled++;
    siglongjmp(back, 1);
}

static void on_detailed(int number, siginfo_t *info, void *context)
{
    sigset_t blocked;
    char here;
    require(number == SIGSEGV && context != NULL);
    require(info->si_addr == expected_address);
    require(&here > alternate && &here < alternate + sizeof alternate);
    require(sigprocmask(SIG_BLOCK, NULL, &blocked) == 0);
    require(sigismember(&blocked, SIGUSR1) && sigismember(&blocked, SIGSEGV));
    handled++;
    siglongjmp(back, 1);
}

static void fault_at(char *byte)
{
    expected_address = byte;
    if (!sigsetjmp(back, 1))
        write_to(byte);
}

static void use_alternate_stack(void)
{
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    require(sigaltstack(&stack, NULL) == 0);
}

static int chained(void)
{
    struct sigaction action = {.sa_sigaction = on_detailed, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    use_alternate_stack();
    sigaddset(&action.sa_mask, SIGUSR1);
    require(sigaction(SIGSEGV, &action, NULL) == 0);
    char *block = freed_block(40);
    for (int i = 0; i < 3; i++)
        fault_at(block + i);
    require(handled == 3);
    return 0;
}

static int chained_signal(void)
{
    require(signal(SIGSEGV, on_plain) == SIG_DFL);
    fault_at(freed_block(40));
    require(handled == 1);
    require(signal(SIGSEGV, SIG_DFL) == on_plain);
    return 0;
}

/* As runtimes do that check for null pointers by faults. */
static int own_faults(void)
{
    char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(signal(SIGSEGV, on_plain) == SIG_DFL);
    for (int i = 0; i < 100; i++)
        fault_at(page);
    require(handled == 100);
    return 0;
}

static int once(void)
{
    const struct sigaction action = {.sa_handler = on_plain, .sa_flags = SA_RESETHAND};
    struct sigaction now;
    require(sigaction(SIGSEGV, &action, NULL) == 0);
    fault_at(freed_block(40));
    require(handled == 1);
    require(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    write_to(freed_block(40));
    return 0;
}

static int ignored(void)
{
    require(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    require(raise(SIGSEGV) == 0);
    write_to(freed_block(40));
    return 0;
}

static int sent(void)
{
    return raise(SIGSEGV);
}

static int told_back(void)
{
    struct sigaction first,
        set = {.sa_sigaction = on_detailed, .sa_flags = SA_SIGINFO | SA_NODEFER};
    require(sigaction(SIGSEGV, NULL, &first) == 0 && first.sa_handler == SIG_DFL);
    sigaddset(&set.sa_mask, SIGUSR2);
    require(sigaction(SIGSEGV, &set, &first) == 0 && first.sa_handler == SIG_DFL);
    require(sigaction(SIGSEGV, &first, &set) == 0 && set.sa_sigaction == on_detailed);
    require((set.sa_flags & (SA_SIGINFO | SA_NODEFER | SA_ONSTACK)) == (SA_SIGINFO | SA_NODEFER));
    require(sigismember(&set.sa_mask, SIGUSR2) && !sigismember(&set.sa_mask, SIGUSR1));
    return 0;
}

/* In old programs, and inside of libc. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old);

static int old_names(void)
{
    const struct sigaction plain = {.sa_handler = on_plain};
    struct sigaction before;
    require(sigset(SIGSEGV, on_plain) == SIG_DFL);
    fault_at(freed_block(40));
    require(sigset(SIGSEGV, SIG_HOLD) == on_plain && sigset(SIGSEGV, SIG_HOLD) == SIG_HOLD);
    require(sigset(SIGSEGV, SIG_DFL) == SIG_HOLD && sigset(SIGSEGV, on_plain) == SIG_DFL);
    require(sigignore(SIGSEGV) == 0 && raise(SIGSEGV) == 0);
    require(__sigaction(SIGSEGV, &plain, &before) == 0 && before.sa_handler == SIG_IGN);
    fault_at(freed_block(40));
    require(handled == 2);
    return 0;
}

/* Whoever prints a stack in a handler sees the fault's, past the handler in front. */
static void *volatile frames[64];
static volatile int frame_count;

static void on_backtrace(int number)
{
    (void)number;
    frame_count = backtrace((void **)(uintptr_t)frames, 64);
    siglongjmp(back, 1);
}

static int walked(void)
{
    void *probe[4];
    backtrace(probe, 4); /* loads libgcc, which allocates */
    require(signal(SIGSEGV, on_backtrace) == SIG_DFL);
    fault_at(freed_block(40));
    int found = 0;
    for (int i = 0; i < frame_count; i++)
        found += (uintptr_t)frames[i] - (uintptr_t)walked < 512;
    require(found == 1);
    return 0;
}

/* What the kernel is handed does not fault. */
static int kernel(void)
{
    int ends[2];
    require(pipe(ends) == 0);
    char *block = freed_block(40);
    require(write(ends[1], block, 40) == -1 && errno == EFAULT);
    return 0;
}

/* Fork, threads. */

static int child(void)
{
    char *before = block_at(40, false), *freed = freed_block(40);
    pid_t process = fork();
    require(process >= 0);
    if (process == 0) {
        free(before);
        char *own = block_at(40, false);
        memset(own, 1, 40);
        free(own);
        write_to(freed);
        _exit(0);
    }
    int status;
    require(waitpid(process, &status, 0) == process);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    memset(before, 1, 40);
    free(before);
    return 0;
}

/* A child of _Fork, made while another thread is in sigaction, is told what the action was before,
 * and may change it for itself. */
static _Atomic int listener;

static void *change_action(void *unused)
{
    listener = hold_calls(SYS_rt_sigaction);
    require(signal(SIGSEGV, SIG_IGN) == SIG_DFL);
    return unused;
}

static _Noreturn void use_action(bool has_handler)
{
    struct sigaction now;
    alarm(600); /* a wait for ever ends with SIGALRM */
    require(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    require(!has_handler || signal(SIGSEGV, on_plain) == SIG_DFL);
    fault_at((char *)PAGE);
    _exit(handled == 1 ? 0 : 98);
}

/* A vfork child enters a sandbox alone: its parent's blocks have guards as before. */
static void sandbox_child(void)
{
    int status;
    pid_t process = vfork();
    if (process == 0)
        _exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : 99);
    require(process > 0 && waitpid(process, &status, 0) == process && status == 0);
}

static int sandboxed_child(void)
{
    sandbox_child();
    return overflow();
}

static int sandboxed_child_and_large(void)
{
    sandbox_child();
    char *block = malloc(100000);
    write_to(block + 100000 + PAGE / 2);
    free(block);
    return 0;
}

/* Where the kernel refuses every change of an action. */
static int fault_without_actions(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigaction, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof rules / sizeof *rules, rules};
    char *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    alarm(600); /* ends a handler that comes again and again */
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    write_to(nothing);
    return 0;
}

static int forked_by_number(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, change_action, NULL) == 0);
    while (!listener)
        sched_yield();
    if (listener < 0)
        return 77;
    uint64_t held = wait_for_held_call(listener);
    for (int has_handler = 0; has_handler < 2; has_handler++) {
        int status;
        pid_t process = _Fork();
        if (process == 0)
            use_action(has_handler);
        require(process > 0 && waitpid(process, &status, 0) == process);
        require(has_handler ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    require(let_go(listener, held) && pthread_join(thread, NULL) == 0);
    require(signal(SIGSEGV, SIG_DFL) == SIG_IGN);
    return 0;
}

enum { THREADS = 4, ROUNDS = 20000, SHARED = 64 };
static char *_Atomic shared[SHARED];

static void *churn(void *argument)
{
    uint64_t random = (uintptr_t)argument + 1;
    for (int i = 0; i < ROUNDS; i++) {
        size_t bytes = 8 + (random = random * 6364136223846793005u + 1442695040888963407u) % 300;
        char *block = malloc(bytes);
        require(block != NULL);
        memset(block, 1, malloc_usable_size(block));
        char *other =
            __atomic_exchange_n((char **)&shared[(random >> 40) % SHARED], block, __ATOMIC_ACQ_REL);
        if (i % 3 == 0 && other)
            other = realloc(other, bytes / 2 + 1);
        free(other);
    }
    return NULL;
}

static int threads(void)
{
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        require(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        require(pthread_join(thread[i], NULL) == 0);
    return 0;
}

/* With slots=64: a freed block comes back, but not before a quarter of the slots have been freed
 * after it. */
static int quarantine(void)
{
    char *kept[32], *block = freed_block(40);
    uintptr_t page = (uintptr_t)block / PAGE;
    for (int i = 0; i < 32; i++)
        require((kept[i] = malloc(40)) != NULL);
    int others = 0;
    for (;; others++) {
        char *next = malloc(40);
        bool is_again = (uintptr_t)next / PAGE == page;
        free(next);
        if (is_again)
            break;
        require(others < 64);
    }
    require(others + 32 >= 16);
    for (int i = 0; i < 32; i++)
        free(kept[i]);
    return 0;
}

/* Many more live blocks than slots: the rest are those of `blocks`. */
static int many(void)
{
    static char *blocks[5000];
    for (int i = 0; i < 5000; i++)
        require((blocks[i] = calloc(1, 40)) != NULL && blocks[i][39] == 0);
    for (int i = 0; i < 5000; i++)
        free(blocks[i]);
    return 0;
}

/* All zero, however often the page was used; of every alignment; grown and shrunk. */
static int kinds(void)
{
    for (int i = 0; i < 500; i++) {
        unsigned char *zeroed = calloc(1, 1 + (size_t)i);
        for (int byte = 0; byte <= i; byte++)
            require(zeroed[byte] == 0);
        memset(zeroed, 1, 1 + (size_t)i);
        unsigned char *resized = realloc(zeroed, 1 + (size_t)(i * 7) % 500);
        require(resized[0] == 1);
        free(resized);
    }
    for (size_t alignment = 16; alignment <= 8192; alignment *= 2) {
        char *block = aligned_alloc(alignment, 40);
        require((uintptr_t)block % alignment == 0);
        memset(block, 1, 40);
        free(block);
    }
    char *page = malloc(PAGE), *large = malloc(PAGE + 1);
    void *none = malloc(0);
    require(page && large && none);
    memset(page, 1, PAGE);
    memset(large, 1, PAGE + 1);
    free(page);
    free(large);
    free(none);
    return 0;
}

/* What blocks:checked guards: large blocks, and blocks of no bytes. */

enum { LARGE = 100000 };

static char *large_block(void)
{
    char *block = malloc(LARGE);
    require(block != NULL);
    return block;
}

static int large_overflow(void)
{
    write_to(large_block() + LARGE);
    return 0;
}

static int large_underflow(void)
{
    write_to((char *)((uintptr_t)large_block() / PAGE * PAGE) - 8);
    return 0;
}

static int large_freed(void)
{
    char *block = large_block();
    free(block);
    return block[5];
}

static int of_no_bytes(void)
{
    write_to(malloc(0));
    return 0;
}

static int large_chained(void)
{
    char *block = large_block();
    require(signal(SIGSEGV, on_plain) == SIG_DFL);
    for (int i = 0; i < 3; i++)
        fault_at(block + LARGE + i);
    require(handled == 3);
    free(block);
    return 0;
}

/* A page of its block to which the program has no access, as a collector's barrier has it. */
static int large_protected(void)
{
    char *block = large_block(), *page = (char *)((uintptr_t)block / PAGE * PAGE) + 2 * PAGE;
    require(mprotect(page, PAGE, PROT_READ) == 0);
    require(signal(SIGSEGV, on_plain) == SIG_DFL);
    fault_at(page);
    require(handled == 1);
    require(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    write_to(page);
    free(block);
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {
    {"large-overflow", large_overflow},
    {"large-underflow", large_underflow},
    {"large-freed", large_freed},
    {"of-no-bytes", of_no_bytes},
    {"large-chained", large_chained},
    {"large-protected", large_protected},
    {"overflow", overflow},
    {"overflow-from-40", overflow_from_40},
    {"underflow", underflow},
    {"write-freed", write_freed},
    {"read-freed", read_freed},
    {"run-freed", run_freed},
    {"freed-twice", freed_twice},
    {"resized-after-free", resized_after_free},
    {"freed-inside", freed_inside},
    {"beside", beside},
    {"beside-kept", beside_kept},
    {"chained", chained},
    {"chained-signal", chained_signal},
    {"old-names", old_names},
    {"own-faults", own_faults},
    {"once", once},
    {"ignored", ignored},
    {"sent", sent},
    {"told-back", told_back},
    {"walked", walked},
    {"kernel", kernel},
    {"child", child},
    {"forked-by-number", forked_by_number},
    {"fault-without-actions", fault_without_actions},
    {"sandboxed-child", sandboxed_child},
    {"sandboxed-child-and-large", sandboxed_child_and_large},
    {"threads", threads},
    {"quarantine", quarantine},
    {"many", many},
    {"kinds", kinds},
};

int main(int count, char **arguments)
{
    for (size_t i = 0; count == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, arguments[1]) == 0)
            return programs[i].run();
    return 98;
}
