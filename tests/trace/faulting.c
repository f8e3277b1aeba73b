/* SPDX-License-Identifier: MIT */
/* faulting.c: a deterministic program for the recorder's tests that handles its faults, as write
 * barriers and JIT compilers do: every kind of instruction meets closed pages, a handler opens
 * them, and the instruction begins again.
 *
 * With the argument "calm" no page is closed, so nothing faults: what the instructions refer to in
 * the pages at PAGES is the same, reference by reference, and is what a recording of the other way
 * is compared with.
 *
 *     PAGES      | page 0 | page 1 | ... | page 15 | END: closed for ever |
 */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGES ((char *)0x10000000)
#define END (PAGES + 16 * PAGE)
enum { PAGE = 4096 };

static bool calm;
static unsigned faults;
static sigjmp_buf back;
static bool jump_back, fault_in_handler;
static char *resume_at; /* where a fault at END goes on */

/* Closes all pages; the program that stays calm makes the same calls. */
static void close_pages(void)
{
    mprotect(PAGES, END - PAGES, calm ? PROT_READ | PROT_WRITE : PROT_NONE);
}

static void open_page(char *address)
{
    mprotect((void *)((uintptr_t)address & -PAGE), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static void on_fault(int number, siginfo_t *information, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *address = information->si_addr;
    (void)number;
    faults++;
    if (address >= END) {
        registers[REG_RIP] = (greg_t)resume_at;
        return;
    }
    if (fault_in_handler) {
        fault_in_handler = false;
        *(volatile char *)(PAGES + 9 * PAGE) = 1;
    }
    open_page(address);
    if (jump_back) {
        jump_back = false;
        siglongjmp(back, 1);
    }
}

/* A division by zero goes on as one by one; `ud2` and `int3` go on behind. */
static void on_other(int number, siginfo_t *information, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)information;
    faults++;
    if (number == SIGFPE)
        registers[REG_RCX] = 1;
    else if (number == SIGILL)
        registers[REG_RIP] += 2;
}

/* Loops: short ones, which Valgrind unrolls, and ones without an end. */

static void store_loop(void)
{
    for (volatile uint64_t *p = (volatile uint64_t *)PAGES; (char *)p < END; p += 33)
        *p = (uintptr_t)p;
}

static void short_loops(void)
{
    char *p = PAGES;
    long count = 256;
    __asm__ volatile("1: movq %%rax, (%0); addq $256, %0; decq %1; jnz 1b"
                     : "+r"(p), "+r"(count)
                     :
                     : "memory", "cc");
    close_pages();
    p = PAGES;
    __asm__ volatile("1: addq $1, (%0); addq $264, %0; cmpq %1, %0; jb 1b"
                     : "+r"(p)
                     : "r"(END - 16)
                     : "memory", "cc");
    close_pages();
    p = PAGES;
    __asm__ volatile("1: movq (%0), %%rax; movq %%rax, 4096(%0); movq 40(%0), %%rax; testq %%rax, "
                     "%%rax; js 2f; addq $520, %0; cmpq %1, %0; jb 1b; 2:"
                     : "+r"(p)
                     : "r"(END - PAGE - 64)
                     : "rax", "memory", "cc");
}

/* Left by a fault alone. */
static void endless_loop(void)
{
    char *p = PAGES;
    __asm__ volatile("leaq 2f(%%rip), %%rax; movq %%rax, %1\n"
                     "1: movb $1, (%0); addq $64, %0; jmp 1b\n"
                     "2:"
                     : "+r"(p), "=m"(resume_at)
                     :
                     : "rax", "memory", "cc");
}

/* String instructions: each iteration is one of its own. */
static void strings(void)
{
    const char *from = PAGES + 100;
    char *to = PAGES + 4 * PAGE + 50;
    size_t count = 3 * PAGE;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    close_pages();
    to = PAGES + 20, count = 1500;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0) : "memory");
    close_pages();
    from = PAGES + 8 * PAGE, to = PAGES + 12 * PAGE, count = 800;
    __asm__ volatile("std; rep movsq; cld" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    close_pages();
    from = PAGES + 32, to = PAGES + 2 * PAGE, count = 5000;
    __asm__ volatile("repe cmpsb" : "+S"(from), "+D"(to), "+c"(count) : : "memory", "cc");
    close_pages();
    to = PAGES + 32, count = 9000;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(7) : "memory", "cc");
    close_pages();
    from = PAGES + 4, to = PAGES + PAGE - 2;
    __asm__ volatile("movsl; movsl; stosb; lodsq" : "+S"(from), "+D"(to) : : "rax", "memory");
}

/* What an instruction reads of registers and flags is there again when it begins again. */
static void flags(void)
{
    uint64_t got[4] = {0};
    for (int i = 0; i < 8; i++) {
        uint64_t *p = (uint64_t *)(PAGES + i * PAGE), sum = 0, count = 5;
        __asm__ volatile("stc; adcq (%2), %0; adcq $0, %1"
                         : "+r"(sum), "+r"(count)
                         : "r"(p)
                         : "cc");
        got[0] += sum, got[1] += count;
        close_pages();
        sum = 3;
        __asm__ volatile("stc; sbbq %0, (%2); setc %b0; stc; rclq (%2); movq (%2), %1"
                         : "+r"(sum), "=r"(count)
                         : "r"(p)
                         : "memory", "cc");
        got[2] += sum, got[3] += count;
        *p = 0;
        close_pages();
    }
    if (got[0] != 8 || got[1] != 8 * 5 || got[2] != 8 * 1 || got[3] != (uint64_t)-8 * 7)
        exit(3);
}

static void locked(void)
{
    uint64_t *p = (uint64_t *)PAGES;
    for (int i = 0; i < 15; i++, p += PAGE / 8) {
        uint64_t low = 0, high = 0;
        __asm__ volatile("lock xaddq %%rax, 8(%0)" : : "r"(p) : "rax", "memory");
        close_pages();
        __asm__ volatile("lock cmpxchgq %1, 16(%0)" : : "r"(p), "r"(3L) : "rax", "memory", "cc");
        close_pages();
        __asm__ volatile("xchgq %%rax, 24(%0)" : : "r"(p) : "rax", "memory");
        close_pages();
        __asm__ volatile("lock cmpxchg16b 32(%2)"
                         : "+a"(low), "+d"(high)
                         : "r"(p), "b"(1L), "c"(2L)
                         : "memory", "cc");
        close_pages();
        __asm__ volatile("lock incl 48(%0)" : : "r"(p) : "memory", "cc");
        close_pages();
        __asm__ volatile("lock btsq %1, 64(%0)" : : "r"(p), "r"(700L) : "memory", "cc");
        close_pages();
    }
}

/* Halves of a reference on either side of a page's end, closed one by one and both. */
static void straddles(void)
{
    for (int closed = 1; closed < 4; closed++)
        for (int offset = 1; offset < 8; offset++) {
            char *p = PAGES + PAGE - offset;
            close_pages();
            if (!(closed & 1))
                open_page(PAGES);
            if (!(closed & 2))
                open_page(PAGES + PAGE);
            __asm__ volatile("movq %%rax, (%0); movq (%0), %%rax" : : "r"(p) : "rax", "memory");
        }
}

__attribute__((target("avx2"))) static void vectors(void)
{
    static const int mask[8] = {-1, 0, -1, -1, 0, 0, -1, -1};
    static const int steps[8] = {0, 4096, 8192, 12, 4100, 12300, 16384, 5};
    for (char *p = PAGES + PAGE - 12; p < END - 8 * PAGE; p += PAGE) {
        close_pages();
        __asm__ volatile("vmovdqu (%0), %%ymm0; vmovdqu %%ymm0, (%0)"
                         :
                         : "r"(p)
                         : "xmm0", "memory");
        close_pages();
        __asm__ volatile("vmovdqu %1, %%ymm1; vmaskmovps %%ymm0, %%ymm1, (%0); vmaskmovps (%0), "
                         "%%ymm1, %%ymm2"
                         :
                         : "r"(p), "m"(mask)
                         : "xmm0", "xmm1", "xmm2", "memory");
        close_pages();
        __asm__ volatile("vmovdqu %1, %%ymm1; vpmaskmovq (%0), %%ymm1, %%ymm2"
                         :
                         : "r"(p), "m"(mask)
                         : "xmm1", "xmm2", "memory");
        close_pages();
        __asm__ volatile("vmovdqu %1, %%ymm1; vmovdqu %2, %%ymm2; vpgatherdd %%ymm1, (%0,%%ymm2), "
                         "%%ymm3"
                         :
                         : "r"(p), "m"(mask), "m"(steps)
                         : "xmm1", "xmm2", "xmm3", "memory");
    }
}

/* What Valgrind does in functions of its own. */
static void helpers(void)
{
    char *p = PAGES + PAGE - 256;
    __asm__ volatile("fxsave (%0)" : : "r"(p) : "memory");
    close_pages();
    __asm__ volatile("fxrstor (%0); fldl 4160(%0); fstpt 8186(%0); fnstenv 12288(%0)"
                     :
                     : "r"(p)
                     : "memory");
    close_pages();
    __asm__ volatile("fldenv 12288(%0)" : : "r"(p) : "memory");
}

/* Calls, pushes and pops on a stack that is closed. */
static __attribute__((noinline)) void closed_stack(void)
{
    __asm__ volatile("movq %%rsp, %%rbx\n"
                     "movq %0, %%rsp\n"
                     "pushq %%rax; pushq $5; popq %%rcx; subq $4096, %%rsp\n"
                     "call 1f\n"
                     "jmp 2f\n"
                     "1: enter $4096, $0; pushfq; popfq; leave; ret\n"
                     "2: movq %%rbx, %%rsp"
                     :
                     : "r"(END)
                     : "rax", "rbx", "rcx", "memory", "cc");
}

/* And other faults that are none of memory's. */
static void divisions(void)
{
    for (int i = 0; i < 40; i++) {
        long number = 100, divisor = calm || i % 3 ? 1 : 0;
        volatile long *p = (volatile long *)PAGES + 3 * (long)i;
        p[0] = i;
        __asm__ volatile("xorl %%edx, %%edx; idivq %%rcx; movq %%rax, 16(%2)"
                         : "+a"(number), "+c"(divisor)
                         : "r"(p)
                         : "rdx", "memory", "cc");
        if (!calm)
            __asm__ volatile("int3; ud2");
    }
}

/* A handler that does not return, one that faults itself, and code on a closed page. */
static void ways_out(void)
{
    for (int i = 0; i < 16; i++) {
        char *volatile p = PAGES + (size_t)i * PAGE;
        jump_back = !calm;
        sigsetjmp(back, 1);
        __asm__ volatile("movq %%rax, 4080(%0)" : : "r"(p) : "memory");
    }
}

static void nested(void)
{
    fault_in_handler = !calm;
    if (calm)
        *(volatile char *)(PAGES + 9 * PAGE) = 1;
    *(volatile char *)PAGES = 1;
}

static void closed_code(void)
{
    for (int i = 3; i < 6; i++) {
        char *code = PAGES + i * PAGE;
        open_page(code);
        *(volatile char *)code = (char)0xc3; /* ret */
        if (!calm)
            mprotect(code, PAGE, PROT_NONE);
        ((void (*)(void))code)();
    }
}

static void on_signals(void)
{
    static char stack[1 << 16];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    action.sa_sigaction = on_other;
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
}

int main(int argc, char **argv)
{
    static void (*const kinds[])(void) = {
        store_loop, short_loops, endless_loop, strings,  flags,  locked,      straddles,
        vectors,    helpers,     divisions,    ways_out, nested, closed_code, closed_stack};
    static const char *const names[] = {"store_loop",  "short_loops", "endless_loop", "strings",
                                        "flags",       "locked",      "straddles",    "vectors",
                                        "helpers",     "divisions",   "ways_out",     "nested",
                                        "closed_code", "closed_stack"};
    calm = argc > 2 && strcmp(argv[2], "calm") == 0;
    on_signals();
    if (mmap(PAGES, END - PAGES + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != PAGES)
        return 2;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (argc > 1 && strcmp(argv[1], names[i]) == 0) {
            close_pages();
            kinds[i]();
            printf("%u faults\n", faults);
            return 0;
        }
    return 1;
}
