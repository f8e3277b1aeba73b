/* SPDX-License-Identifier: MIT */
/* jumping.c: a deterministic program for the recorder's tests: indirect calls, jump tables,
 * recursion, setjmp and longjmp, handled signals. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static jmp_buf back;
static volatile unsigned handled;

static unsigned add(unsigned a)
{
    return a + 1;
}
static unsigned twice(unsigned a)
{
    return a * 2;
}
static unsigned mix(unsigned a)
{
    return a ^ a >> 3;
}

static unsigned tabled(unsigned n)
{
    switch (n % 7) {
    case 0:
        return 3;
    case 1:
        return add(n);
    case 2:
        return twice(n);
    case 3:
        return 11;
    case 4:
        return mix(n);
    case 5:
        return n;
    default:
        return 1;
    }
}

static unsigned ackermann(unsigned m, unsigned n)
{
    if (m == 0)
        return n + 1;
    return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

static void jump(int depth)
{
    if (depth > 0)
        jump(depth - 1);
    else if (handled == 0)
        longjmp(back, 1);
}

static void on_signal(int number)
{
    handled += (unsigned)number;
}

int main(void)
{
    static unsigned (*const functions[])(unsigned) = {add, twice, mix, tabled};
    unsigned value = 1;
    for (unsigned i = 0; i < 20000; i++)
        value = functions[(i * 7 + value) % 4](value % 100000 + i);
    volatile int jumps = 0;
    while (jumps < 50)
        if (setjmp(back) == 0)
            jump(jumps);
        else
            jumps++;
    signal(SIGUSR1, on_signal);
    for (int i = 0; i < 20; i++)
        raise(SIGUSR1);
    printf("%u %u %u\n", value, ackermann(2, 40), handled);
    return 0;
}
