/* SPDX-License-Identifier: MIT */
/* signalling.c: a thread that waits in a system call is sent a signal by another, for the
 * recorder's tests. Both are in a class of their own, and each touches the word of its class, by
 * one 16-byte store a time: the sender `sweep_word`, the other `allocator_word`, and in the
 * handler `program_word`. */
#include "trace/protocol/doorbell.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

DOORBELLS_DEFINE;

enum { SIGNALS = 20 };

static volatile unsigned __int128 program_word, allocator_word, sweep_word;
static int to_waiting[2], to_sender[2];

static void touch(volatile unsigned __int128 *word)
{
    __asm__ volatile("movaps %%xmm0, %0" : "=m"(*word));
}

static void say(int pipe)
{
    if (write(pipe, "x", 1) != 1)
        _exit(1);
}

static void hear(int pipe)
{
    char byte;
    if (read(pipe, &byte, 1) != 1)
        _exit(1);
}

static void on_signal(int number)
{
    (void)number;
    touch(&program_word);
    say(to_sender[1]);
}

static void *wait_for_signals(void *unused)
{
    doorbell_enter_allocator();
    for (int i = 0; i < SIGNALS; i++) {
        say(to_sender[1]);
        hear(to_waiting[0]);
        touch(&allocator_word);
    }
    doorbell_leave();
    return unused;
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t waiting;
    printf("%d\n", doorbell_register());
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(to_waiting) != 0 || pipe(to_sender) != 0 ||
        pthread_create(&waiting, NULL, wait_for_signals, NULL) != 0)
        return 1;
    doorbell_enter_sweep();
    for (int i = 0; i < SIGNALS; i++) {
        hear(to_sender[0]);
        usleep(1000); /* the other thread waits by now, mostly */
        touch(&sweep_word);
        pthread_kill(waiting, SIGUSR1);
        touch(&sweep_word);
        hear(to_sender[0]);
        touch(&sweep_word);
        say(to_waiting[1]);
    }
    doorbell_leave();
    pthread_join(waiting, NULL);
    return 0;
}
