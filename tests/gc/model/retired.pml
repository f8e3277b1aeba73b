/* SPDX-License-Identifier: MIT
 *
 * retired.pml: the bits of blocks whose free was ignored, of which many are in one word
 * ([retired is atomic], docs/design-generations.md). A thread frees block A while a sweep clears
 * the bit of block B, which was freed before and is dead. Then the thread is handed B.
 *
 * Properties
 *   handed-out-clean     A block that is handed out is not retired. Nobody would look into it.
 *   free-is-noted        A block whose free was ignored is retired until a sweep frees it.
 *
 * Each macro WITHOUT_... takes one invariant away; the model must fail then (test_model.py):
 *   WITHOUT_LOCKED_SET   the thread sets its bit by one locked instruction
 *   WITHOUT_LOCKED_CLEAR a sweep that runs beside it clears by one
 *   WITHOUT_STOP         a sweep that clears by a load and a store does so in a stopped world
 */
#define A 1
#define B 2

byte word = B; /* of retired bits */
bit stopped, b_is_free;

proctype thread()
{
    byte read;
#ifndef WITHOUT_LOCKED_SET
    atomic { !stopped -> word = word | A }
#else
    atomic { !stopped -> read = word }
    atomic { !stopped -> word = read | A }
#endif
    atomic { !stopped && b_is_free -> b_is_free = 0 }
    assert(!(word & B)); /* handed-out-clean */
    assert(word & A)     /* free-is-noted */
}

inline clear_by_load_and_store()
{
    read = word;
    word = read & ~B
}

proctype sweep()
{
    byte read;
    if
    ::
#ifndef WITHOUT_LOCKED_CLEAR
        atomic { word = word & ~B }
#else
        clear_by_load_and_store()
#endif
    ::
#ifndef WITHOUT_STOP
        stopped = 1;
#endif
        clear_by_load_and_store();
        stopped = 0
    fi;
    b_is_free = 1
}

init
{
    atomic { run thread(); run sweep() }
}
