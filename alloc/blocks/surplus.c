/* SPDX-License-Identifier: MIT
 *
 * surplus.c: when free memory goes back to the kernel.
 *
 * decay.h says how much may stay. The rest goes back in the program's own threads: each operation
 * on runs gives back at most as much as it has moved, or one step of 512 KiB, whichever is more. A
 * step is some 25 microseconds. The lock is given up between steps, so that a thread that frees a
 * large heap does not make another wait for longer.
 */
#include "alloc/blocks/surplus.h"

#include "vm/freeze.h"

void release_and_give_back(size_t granules)
{
    bool surplus = runs_have_surplus(&blocks_heap.runs);
    lock_release(&blocks_heap.lock);
    size_t most = granules > SURPLUS_STEP ? granules : SURPLUS_STEP;
    for (size_t done = 0, step = 1; surplus && step > 0 && done < most; done += step) {
        if (!lock_enter(&blocks_heap.lock)) {
            frozen_end();
            return;
        }
        step = runs_give_back_some(&blocks_heap.runs);
        lock_release(&blocks_heap.lock);
    }
}
