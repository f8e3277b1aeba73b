/* SPDX-License-Identifier: MIT */
/* ringing.c: rings every doorbell in known places, for the recorder's tests. What the program
 * touches tells whose reference it is: `program_word` by the program, `allocator_word` between
 * enter and leave, and so on; each by one 16-byte store a time. */
#include "trace/protocol/doorbell.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DOORBELLS_DEFINE;

static volatile unsigned __int128 program_word, allocator_word, mark_word, sweep_word;

static void touch(volatile unsigned __int128 *word)
{
    __asm__ volatile("movaps %%xmm0, %0" : "=m"(*word));
}

static jmp_buf back;
static volatile int *volatile unmapped = (volatile int *)8;

static __attribute__((noinline)) void leave_by_longjmp(void)
{
    doorbell_enter_allocator();
    touch(&allocator_word);
    longjmp(back, 1);
}

static void on_signal(int number)
{
    (void)number;
    touch(&program_word);
    doorbell_enter_allocator();
    touch(&allocator_word);
    doorbell_leave();
    touch(&program_word);
}

static void on_fault(int number)
{
    (void)number;
    touch(&program_word);
    longjmp(back, 2);
}

static __attribute__((noinline)) void fault(void)
{
    doorbell_enter_allocator();
    touch(&allocator_word);
    *unmapped = 1;
}

int main(void)
{
    printf("%d\n", doorbell_register());
    touch(&program_word);
    doorbell_enter_allocator();
    touch(&allocator_word);
    doorbell_malloc((void *)0x1000, 24, (void *)0x77);
    doorbell_enter_mark();
    touch(&mark_word);
    doorbell_enter_sweep();
    touch(&sweep_word);
    doorbell_leave();
    touch(&mark_word);
    doorbell_leave();
    touch(&allocator_word);
    doorbell_leave();
    touch(&program_word);
    doorbell_realloc(0x1000, (void *)0x2000, 48, (void *)0x78);
    doorbell_free((void *)0x2000, (void *)0x79);
    doorbell_collection_begin(5);
    doorbell_collection_end(4096);
    doorbell_malloc(NULL, UINT64_MAX, (void *)0x7a);
    doorbell_mark(UINT64_MAX);

    if (setjmp(back) == 0)
        leave_by_longjmp();
    touch(&program_word);

    signal(SIGUSR1, on_signal);
    doorbell_enter_sweep();
    raise(SIGUSR1);
    touch(&sweep_word);
    doorbell_leave();
    touch(&program_word);

    signal(SIGSEGV, on_fault);
    if (setjmp(back) == 0)
        fault();
    touch(&program_word);
    return 0;
}
