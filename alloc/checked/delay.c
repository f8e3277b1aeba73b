/* SPDX-License-Identifier: MIT
 *
 * delay.c: see delay.h.
 */
#include "alloc/checked/delay.h"

#include <string.h>

#include "vm/freeze.h"
#include "vm/metadata.h"
#include "vm/random.h"

/* Every one that there is; they are never given back. A push needs no lock. */
static struct delay *_Atomic all;

static struct delay *make(void)
{
    bool may_go_on = operation_begin();
    struct delay *made = may_go_on ? metadata_alloc(sizeof(struct delay)) : NULL;
    if (may_go_on)
        operation_end();
    else
        frozen_end();
    return made;
}

/* Makes the thread heap's delay. While another thread forks none is made, because nobody waits for
 * a fork; the next free tries again. */
void delay_start(void)
{
    struct delay *made = make();
    if (!made)
        return;
    made->random = random_seed();
    made->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &made->next, made))
        ;
    thread_heap->delay = made;
}

/* The slabs are abandoned next, and counted then. */
static void empty(struct delay *delay)
{
    for (size_t i = 0; i < DELAYED; i++)
        if (delay->blocks[i])
            set_block_free(delay->blocks[i]);
    memset(delay->blocks, 0, sizeof delay->blocks);
}

bool delay_holds(const void *block)
{
    for (struct delay *each = atomic_load(&all); each; each = each->next)
        for (size_t i = 0; i < DELAYED; i++)
            if (__atomic_load_n(&each->blocks[i], __ATOMIC_ACQUIRE) == block)
                return true;
    return false;
}

void delay_thread_exit(void)
{
    if (thread_heap->delay)
        empty(thread_heap->delay);
}

void delay_fork_child(void)
{
    for (struct delay *each = atomic_load(&all); each; each = each->next)
        if (each != thread_heap->delay)
            empty(each);
}
