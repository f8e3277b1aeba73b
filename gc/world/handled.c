/* SPDX-License-Identifier: MIT
 *
 * handled.c: whether a handler of the program's has run since a system call.
 *
 * A stop that interrupts a wait sees its EINTR, and so does one that comes as a handler of the
 * program's returns to that wait. The first must not end the wait; the second must leave it ended.
 * The registers are the same in both cases. So the program's handlers return by way of restorers
 * of ours, which mark the registers that they return to.
 *
 * The instruction `syscall` overwrites rcx with the address behind it and r11 with the flags. No
 * code relies on either afterwards, and the next system call overwrites them again.
 *
 *     rcx         r11     the registers
 *     rip         flags   *ended*: the call has ended, and nothing has happened since
 *     rip         ~flags  *handled*: the call has ended, and a handler has run since
 *     rip + 2     flags   *set back by the kernel* to the call, because SA_RESTART restarts it; it
 *                         has not begun again
 *     ~(rip + 2)  ~flags  *set back for a stop*: the same, and a stop has seen it
 *     ~(rip + 2)  flags   *set back by a stop* to the call; it has not begun again
 *
 * A restorer turns `ended` into `handled`. It turns `set back by a stop` into `handled`, with EINTR
 * for a result: the handler ran in the wait. The restorer of handlers without SA_RESTART does the
 * same with `set back for a stop`. It leaves `set back by the kernel` alone: no stop came in
 * between, so the kernel has judged the call.
 *
 * The registers keep their values until the thread's next call. In a loop the thread may be right
 * before the call that it made last. Then rcx is rip + 2, which is no mark of a stop's. So such a
 * call can only be taken for one that the kernel has set back. It then ends with EINTR if a stop
 * comes right there, and after it a handler (docs/gc.md has how often).
 *
 * The wrapper of a function of libc's does not see the registers of its call. For it each thread
 * has a word that tells what happened last: a stop ended a wait (odd), or a handler returned
 * (even). A handler may itself wait, and be stopped; then its return is the last. A change of the
 * word is two steps. Between them only a stop can come, or another handler. Neither finds the
 * thread in a wait.
 *
 * Where system calls leave rcx as it is (processors with FRED), the restorer marks nothing but what
 * a stop has set back. Handlers that were installed by number, or by a library between, return
 * without them.
 */
#include "gc/world/handled.h"

#include <errno.h>
#include <stdatomic.h>

#include "vm/lock.h"
#include "vm/pages.h"

enum { CALL_INSTRUCTION_BYTES = 2 };

/* By thread, without thread-local storage, of which there is little. Two threads may share one:
 * then a signal of the program's that ends a wait of the one may be taken for a stop, or the other
 * way round. Writer: the thread, in handlers. */
enum { HASHED = 1024, BY_STOP = 1 };
static _Atomic uint32_t ended_waits[HASHED];

/* Threads whose stacks have the same size get different words, up to some hundreds of threads. This
 * holds for sizes that are a power of two, with or without a guard page. */
static _Atomic uint32_t *own_ended_waits(void)
{
    uintptr_t page = current_thread() / PAGE_BYTES;
    return &ended_waits[(page + page / HASHED) % HASHED];
}

uint32_t last_ended_wait(void)
{
    return atomic_load_explicit(own_ended_waits(), memory_order_relaxed);
}

void note_ended_wait(void)
{
    atomic_fetch_add_explicit(own_ended_waits(), 2, memory_order_relaxed);
    atomic_fetch_or_explicit(own_ended_waits(), BY_STOP, memory_order_relaxed);
}

static void note_handler(void)
{
    atomic_fetch_add_explicit(own_ended_waits(), 2, memory_order_relaxed);
    atomic_fetch_and_explicit(own_ended_waits(), ~(uint32_t)BY_STOP, memory_order_relaxed);
}

static bool is_marked(const greg_t *registers)
{
    return registers[REG_R11] == ~registers[REG_EFL];
}

bool was_handled(const greg_t *registers)
{
    return registers[REG_RCX] == registers[REG_RIP] && is_marked(registers);
}

static greg_t behind_next_call(const greg_t *registers)
{
    return registers[REG_RIP] + CALL_INSTRUCTION_BYTES;
}

enum set_back set_back(const greg_t *registers)
{
    greg_t behind = behind_next_call(registers);
    bool has_flags = registers[REG_R11] == registers[REG_EFL];
    if (registers[REG_RCX] == ~behind)
        return has_flags              ? SET_BACK_BY_STOP
               : is_marked(registers) ? SET_BACK_FOR_STOP
                                      : NOT_SET_BACK;
    return registers[REG_RCX] == behind && has_flags ? SET_BACK_BY_KERNEL : NOT_SET_BACK;
}

void mark_set_back(greg_t *registers, enum set_back as)
{
    greg_t flags = registers[REG_EFL];
    registers[REG_RCX] = ~behind_next_call(registers);
    registers[REG_R11] = as == SET_BACK_BY_STOP ? flags : ~flags;
}

static bool has_ended_call(const greg_t *registers)
{
    return registers[REG_RCX] == registers[REG_RIP] && registers[REG_R11] == registers[REG_EFL];
}

bool ends_waits(void (*restorer)(void))
{
    return restorer == restore_from_ending || restorer == restore_from_restarting;
}

void end_call(greg_t *registers)
{
    registers[REG_RIP] = registers[REG_RCX] = behind_next_call(registers);
    registers[REG_R11] = ~registers[REG_EFL];
    registers[REG_RAX] = -EINTR;
}

/* The stack may be an alternate one that the handler has left little of: so no buffers here. */
__attribute__((visibility("hidden"), used)) void note_handled(ucontext_t *context, bool restarts)
{
    greg_t *registers = context->uc_mcontext.gregs;
    enum set_back set = set_back(registers);
    note_handler();
    if (set == SET_BACK_BY_STOP || (set == SET_BACK_FOR_STOP && !restarts))
        end_call(registers);
    else if (has_ended_call(registers))
        registers[REG_R11] = ~registers[REG_EFL];
}

/* Unwinders must be told where the frame of a signal has the registers, as libc's restorer tells
 * them: they do not recognise this code. rsp is the context's address. They look up the byte before
 * the code, so a nop stands in front. Registers have their numbers of DWARF. */
#define AT_OFFSET(offset) "0x77, 0x80 | (" #offset " & 0x7F), " #offset " >> 7"
#define SAVED(number, offset) ".cfi_escape 0x10, " #number ", 3, " AT_OFFSET(offset) "\n\t"
#define STACK_POINTER_BEFORE(offset) ".cfi_escape 0x0F, 4, " AT_OFFSET(offset) ", 0x06\n\t"
#define R8_TO_R11 SAVED(8, 40) SAVED(9, 48) SAVED(10, 56) SAVED(11, 64)
#define R12_TO_R15 SAVED(12, 72) SAVED(13, 80) SAVED(14, 88) SAVED(15, 96)
#define RDI_RSI_RBP_RBX SAVED(5, 104) SAVED(4, 112) SAVED(6, 120) SAVED(3, 128)
#define RDX_RAX_RCX_RSP_RIP SAVED(1, 136) SAVED(0, 144) SAVED(2, 152) SAVED(7, 160) SAVED(16, 168)
#define SAVED_REGISTERS R8_TO_R11 R12_TO_R15 RDI_RSI_RBP_RBX RDX_RAX_RCX_RSP_RIP

#define RESTORER(name, restarts)                                              \
    __asm__(".pushsection .text\n\t"                                          \
            ".p2align 4\n\t"                                                  \
            ".cfi_startproc\n\t"                                              \
            ".cfi_signal_frame\n\t" STACK_POINTER_BEFORE(160) SAVED_REGISTERS \
            "nop\n\t"                                                         \
            ".globl " #name "\n\t"                                            \
            ".hidden " #name "\n\t"                                           \
            ".type " #name ", @function\n" #name ":\n\t"                      \
            "movq %rsp, %rdi\n\t"                                             \
            "movl $" #restarts ", %esi\n\t"                                   \
            "call note_handled\n\t"                                           \
            "movq $15, %rax\n\t" /* rt_sigreturn */                           \
            "syscall\n\t"                                                     \
            ".cfi_endproc\n\t"                                                \
            ".size " #name ", . - " #name "\n\t"                              \
            ".popsection")

RESTORER(restore_from_ending, 0);
RESTORER(restore_from_restarting, 1);
