/* SPDX-License-Identifier: MIT
 *
 * cycle.pml: a cycle that marks while the program runs, before it is built (docs/
 * design-generations.md). `spin` goes through every interleaving of a heap of BLOCKS blocks.
 *
 * A block has a page of its own and one word. A thread has two registers; more threads would add
 * nothing, since each of its steps is one instruction or one fault of the kernel. Frees are
 * ignored. The collector makes COLLECTIONS collections one after the other: cycles, some of which
 * are given up, and minor collections in a stopped world.
 *
 * Properties
 *   nothing-is-lost      A block that is freed cannot be reached from a register.
 *   handed-out-once      A block that is in the local free list or the program's is not free.
 *
 * Each macro WITHOUT_... takes one invariant away; the model must fail then (test_model.py):
 *   WITHOUT_LAST_ROOTS       the last stop visits the roots again
 *   WITHOUT_LAST_HARVEST     the last stop marks again what is marked on written pages
 *   WITHOUT_EVERY_BITMAP     no-bit-unseen: a harvest enters what it finds for all consumers
 *   WITHOUT_BITS_AFTER       a page is protected before its bits are read
 *   WITHOUT_BORN_DIRTY       born dirty: a block that is taken during a cycle is marked, so its page
 *                            is tracked and dirty
 *   WITHOUT_LISTED_MARKED    listed-is-marked: so are blocks in local free lists at the last stop
 *   WITHOUT_SWEPT_BEFORE_USE swept-before-use: nothing is taken of a slab that is not swept
 *   WITHOUT_WHOLE_MARKS      marks are whole: no minor collection after a cycle that was given up
 *   WITHOUT_PROMOTION        first survival promotes: what is marked is old before pages are clean
 */
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef COLLECTIONS
#define COLLECTIONS 2
#endif
#define SIZE (BLOCKS + 1) /* 0: no block */
#define is_free(b) bits[b].free

typedef block_bits {
    bit free, listed, mark, old, scanned;
    bit written, untracked;         /* the kernel's */
    bit dirty_for_generations, dirty_for_cycle;
};

block_bits bits[SIZE];
byte word_of[SIZE];
byte one, other; /* registers */
bit stopped, cycle_runs, is_swept = 1, marks_are_whole;

/* What can be reached from registers, for the properties alone. */
bit reached[SIZE];

inline find_reached()
{
    reached[0] = 0;
    for (k : 1 .. BLOCKS) { reached[k] = (one == k || other == k) }
    for (round : 1 .. BLOCKS) {
        for (k : 1 .. BLOCKS) {
            if
            :: reached[k] && word_of[k] != 0 -> reached[word_of[k]] = 1
            :: else
            fi
        }
    }
    k = 0; round = 0
}

/* Whoever has the slab. It cannot tell a listed block from one of the program's. */
inline sweep()
{
    find_reached();
    for (s : 1 .. BLOCKS) {
        if
        :: !is_free(s) && !bits[s].mark ->
            assert(!reached[s]);     /* nothing-is-lost */
            assert(!bits[s].listed); /* handed-out-once */
            bits[s].free = 1;
            bits[s].old = 0
        :: else
        fi
    }
    s = 0;
    for (k : 0 .. BLOCKS) { reached[k] = 0 }
    k = 0;
    is_swept = 1
}

/* A store; the kernel notes the page before it is made. */
inline store(block, value)
{
    bits[block].written = !bits[block].untracked;
    word_of[block] = value
}

inline refill(b)
{
#ifndef WITHOUT_SWEPT_BEFORE_USE
    if
    :: !is_swept -> sweep()
    :: else
    fi;
#endif
    if
    :: is_free(b) ->
        bits[b].free = 0;
        bits[b].listed = 1;
        bits[b].mark = 0;
        bits[b].scanned = 0;
        if
        :: cycle_runs ->
            bits[b].mark = 1;
            bits[b].scanned = 1;
#ifndef WITHOUT_BORN_DIRTY
            bits[b].dirty_for_cycle = 1;
            bits[b].dirty_for_generations = 1
#else
            bits[b].untracked = 1
#endif
        :: else
        fi
    :: else
    fi
}

proctype thread()
{
    byte k, round, s, b;
    do
    :: atomic { !stopped && one != 0 -> one = word_of[one] }
    :: atomic { !stopped -> other = one }
    :: atomic { !stopped -> b = one; one = other; other = b; b = 0 }
    :: atomic { !stopped -> one = 0 }
    :: atomic { !stopped && one != 0 -> store(one, 0) }
    :: atomic { !stopped && one != 0 -> store(one, other) }
    :: atomic { !stopped -> select(b : 1 .. BLOCKS); refill(b); b = 0 }
    :: atomic { /* a block of the local free list; what is in it is not read */
            !stopped -> select(b : 1 .. BLOCKS);
            if
            :: bits[b].listed ->
                assert(!is_free(b)); /* handed-out-once */
                bits[b].listed = 0;
                store(b, 0);
                one = b
            :: else
            fi;
            b = 0
        }
    od
}

inline mark_block(b)
{
    if
    :: b != 0 && !is_free(b) && !bits[b].mark -> bits[b].mark = 1; bits[b].scanned = 0
    :: else
    fi
}

inline mark_roots()
{
    mark_block(one);
    mark_block(other)
}

/* Of one page: the kernel's bit goes to every consumer, in one step. */
inline harvest(b)
{
    if
    :: bits[b].written ->
        bits[b].written = 0;
        bits[b].dirty_for_cycle = 1;
#ifndef WITHOUT_EVERY_BITMAP
        bits[b].dirty_for_generations = 1
#endif
    :: else
    fi
}

/* In a stopped world: all that can be reached from what is marked and not scanned. */
inline close()
{
    for (r : 1 .. BLOCKS) {
        for (c : 1 .. BLOCKS) {
            if
            :: bits[c].mark && !bits[c].scanned ->
                bits[c].scanned = 1;
                mark_block(word_of[c])
            :: else
            fi
        }
    }
    r = 0; c = 0
}

inline mark_listed()
{
    for (c : 1 .. BLOCKS) {
        if
        :: bits[c].listed -> bits[c].mark = 1; bits[c].scanned = 1
        :: else
        fi
    }
    c = 0
}

/* In a stopped world, marking is done: what is marked is old, and pages are clean. */
inline finish()
{
    for (c : 1 .. BLOCKS) {
#ifndef WITHOUT_PROMOTION
        bits[c].old = bits[c].mark && !is_free(c);
#else
        if
        :: cycle_runs -> bits[c].old = bits[c].mark && !is_free(c)
        :: else
        fi;
#endif
        bits[c].written = 0;
        bits[c].dirty_for_generations = 0;
        bits[c].dirty_for_cycle = 0
    }
    c = 0;
    is_swept = 0;
    marks_are_whole = 1
}

inline minor()
{
    atomic {
        stopped = 1;
        for (c : 1 .. BLOCKS) {
            harvest(c);
            bits[c].mark = bits[c].old;
            bits[c].scanned = !bits[c].dirty_for_generations
        }
        c = 0;
        mark_roots();
        close();
        mark_listed();
        finish();
        sweep();
        stopped = 0
    }
}

inline begin_cycle()
{
    atomic {
        stopped = 1;
        marks_are_whole = 0;
        cycle_runs = 1;
        for (c : 1 .. BLOCKS) {
            harvest(c);
            bits[c].dirty_for_cycle = 0;
            bits[c].mark = 0;
            bits[c].scanned = 0
        }
        c = 0;
        mark_roots();
        stopped = 0
    }
}

/* The word is read in one step, and what it names is marked in another. */
inline mark_some()
{
    do
    :: atomic {
            select(c : 1 .. BLOCKS);
            if
            :: bits[c].mark && !bits[c].scanned ->
                bits[c].scanned = 1;
                found = word_of[c]
            :: else
            fi;
            c = 0
        }
        atomic { mark_block(found); found = 0 }
    :: break
    od
}

/* A round while the program runs: protect, read the bits, clean them, mark again. */
inline round_of_page(b)
{
#ifdef WITHOUT_BITS_AFTER
    atomic {
        if
        :: bits[b].written && bits[b].mark -> bits[b].scanned = 0
        :: else
        fi
    }
    atomic { mark_again(b) }
    atomic { bits[b].dirty_for_generations = bits[b].dirty_for_generations || bits[b].written;
             bits[b].written = 0 }
#else
    atomic { harvest(b) }
    atomic {
        if
        :: bits[b].dirty_for_cycle ->
            bits[b].dirty_for_cycle = 0;
            if
            :: bits[b].mark -> bits[b].scanned = 0
            :: else
            fi
        :: else
        fi
    }
#endif
}

/* As mark_some does, of one block. */
inline mark_again(b)
{
    if
    :: bits[b].mark && !bits[b].scanned -> bits[b].scanned = 1; mark_block(word_of[b])
    :: else
    fi
}

inline end_cycle()
{
    atomic {
        stopped = 1;
#ifndef WITHOUT_LAST_HARVEST
        for (c : 1 .. BLOCKS) {
            harvest(c);
            if
            :: bits[c].dirty_for_cycle && bits[c].mark -> bits[c].scanned = 0
            :: else
            fi
        }
        c = 0;
#endif
#ifndef WITHOUT_LAST_ROOTS
        mark_roots();
#endif
        close();
#ifndef WITHOUT_LISTED_MARKED
        mark_listed();
#endif
        finish();
        cycle_runs = 0;
        stopped = 0
    }
}

/* A fork, or a stop that timed out. */
inline give_up()
{
    atomic {
        cycle_runs = 0;
#ifdef WITHOUT_WHOLE_MARKS
        marks_are_whole = 1;
        for (c : 1 .. BLOCKS) { bits[c].old = bits[c].mark && !is_free(c);
                                bits[c].dirty_for_generations = 0; bits[c].written = 0 }
        c = 0
#endif
    }
}

proctype collector()
{
    byte k, round, s, c, r, found, done;
    for (done : 1 .. COLLECTIONS) {
        atomic { if :: !is_swept -> sweep() :: else fi }
        if
        :: marks_are_whole -> minor()
        :: begin_cycle();
            mark_some();
            if
            :: select(c : 1 .. BLOCKS); round_of_page(c); c = 0; mark_some()
            :: skip
            fi;
            if
            :: end_cycle()
            :: give_up()
            fi
        fi
    }
    atomic { if :: !is_swept -> sweep() :: else fi }
}

init
{
    atomic {
        byte i;
        for (i : 1 .. BLOCKS) { bits[i].free = 1 }
        bits[1].free = 0;
        one = 1;
        run thread();
        run collector()
    }
}
