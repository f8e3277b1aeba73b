/* SPDX-License-Identifier: MIT
 *
 * delay.c: see delay.h.
 */
#include "alloc/checked/delay.h"

#include <string.h>

#include "vm/metadata.h"

__thread struct thread_delay thread_delay;

/* Every one that there is; they are never given back, but used again. A push needs no lock. */
static struct delay *_Atomic all;

static struct delay *take_unused(void)
{
    for (struct delay *each = atomic_load(&all); each; each = each->next)
        if (!__atomic_exchange_n(&each->has_thread, true, __ATOMIC_ACQUIRE))
            return each;
    return NULL;
}

static struct delay *new_delay(void)
{
    struct delay *made = metadata_alloc(sizeof *made);
    if (!made)
        return NULL;
    made->has_thread = true;
    made->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &made->next, made))
        ;
    return made;
}

void delay_start(void)
{
    struct delay *delay = take_unused();
    thread_delay.delay = delay ? delay : new_delay();
    thread_delay.random =
        __builtin_ia32_rdtsc() * UINT64_C(0x9E3779B97F4A7C15) ^ (uintptr_t)&thread_delay;
}

/* The slabs are abandoned next, and counted then. */
static void empty(struct delay *delay)
{
    for (size_t i = 0; i < DELAYED; i++)
        if (delay->blocks[i])
            set_block_free(delay->blocks[i]);
    memset(delay->blocks, 0, sizeof delay->blocks);
}

void delay_thread_exit(void)
{
    struct delay *delay = thread_delay.delay;
    if (!delay)
        return;
    thread_delay.delay = NULL;
    empty(delay);
    __atomic_store_n(&delay->has_thread, false, __ATOMIC_RELEASE);
}

void delay_fork_child(void)
{
    for (struct delay *each = atomic_load(&all); each; each = each->next)
        if (each != thread_delay.delay) {
            empty(each);
            each->has_thread = false;
        }
}
