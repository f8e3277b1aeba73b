/* SPDX-License-Identifier: MIT
 *
 * snapshot_cycle.pml: a cycle that marks in a snapshot (gc/cycle/snapshot_cycle.h). `spin` goes
 * through every interleaving of one cycle.
 *
 * There are two records of slabs, and two blocks in a slab. The program has a register, and a word
 * in a block that is always reached. It moves its pointers between them, takes blocks, makes slabs,
 * and drops empty ones. So records are used again. One block is hidden when the cycle begins: no
 * word leads to it. The program may hide others. A second thread takes a hidden block and frees it
 * in steps. Then the program may take it again.
 *
 * A stop is one step, for nothing else runs in it. The child's copy does not change. So the child
 * marks in the step that makes it. A slice of the take-over is one step, too: it changes marks
 * alone, and these have no other writer while the heap's lock is held.
 *
 * Not in the model: blocks that are made during a fork, cycles that are given up, the late sweep.
 *
 * Properties, at the last stop
 *   nothing-is-lost      What the program can reach has its mark.
 *   free-is-marked       So has what is free ([listed is marked], alloc/blocks/late_sweep.h).
 *
 * A block that was hidden at the first stop does not count before it is freed and taken again.
 *
 * Each macro WITHOUT_... takes one protection away; the model must fail then (test_model.py):
 *   WITHOUT_COPY         the child has the memory as it was when the roots were read
 *   WITHOUT_BORN_MARKED  born marked: the blocks of a slab that is made after the fork are marked
 *   WITHOUT_MARK_NEWER   born marked: so are those of a slab without a place, at the take-over
 *   WITHOUT_NOTE         freed is born again: who frees a block notes it
 *   WITHOUT_NOTE_FIRST   freed is born again: the note comes before the free
 *   WITHOUT_SAYING_SO    freed is born again: who frees says so first (blocks_have_freed)
 *   WITHOUT_REGISTER     freed is born again: who is stopped between the question whether to note
 *                        and the free has the block in a register, which is a root
 *   WITHOUT_OWN_PLACE    marks in their place: a record that is used again has no place
 *   WITHOUT_FREE_MARKED  free is marked: the child marks what is free
 *
 * Three things can be changed without a failure. The two parts of a note may come in either order.
 * has_freed only saves work. `| ~live` in snapshot_cycle_complete adds no mark.
 *
 * FREES: how many blocks the second thread frees.
 */
#ifndef FREES
#define FREES 1
#endif
#define SLABS 2
#define BLOCKS 4
#define ROOT 3   /* the block of the word */
#define PLACES 3 /* a slab may get a second one */
#define slab_of(b) slabs[(b - 1) / 2]
#define left_of(s) bits[2 * s + 1]
#define right_of(s) bits[2 * s + 2]
#define at(place, b) ((place - 1) * 2 + (b - 1) % 2)

typedef slab_record {
    bit used, has_freed;
    byte place; /* 0: none */
};

typedef block_bits {
    bit live, mark, unborn;
};

slab_record slabs[SLABS];
block_bits bits[BLOCKS + 1]; /* 0: no block */
byte one, word;              /* the program's register and word */
byte disguised;              /* the hidden block */
byte freeing;                /* the register of the thread that frees */
bit block_was_freed, notes_freed, marks_newborn, locked, ended;
bit result[PLACES * 2];

bit reached[BLOCKS + 1];
hidden byte b, c; /* of one step */

inline set_marks(s, marked)
{
    left_of(s).mark = marked;
    right_of(s).mark = marked
}

inline set_unborn(s, unborn_ones)
{
    left_of(s).unborn = unborn_ones;
    right_of(s).unborn = unborn_ones
}

inline take_block()
{
    select(c : 1 .. BLOCKS);
    if
    :: slab_of(c).used && !bits[c].live -> bits[c].live = 1; one = c
    :: else
    fi
}

inline make_slab(s)
{
    slabs[s].used = 1;
    slabs[s].has_freed = 0;
#ifndef WITHOUT_OWN_PLACE
    slabs[s].place = 0;
#endif
    set_marks(s, 0);
    set_unborn(s, 0);
#ifndef WITHOUT_BORN_MARKED
    if
    :: marks_newborn -> set_marks(s, 1); set_unborn(s, 1)
    :: else
    fi
#endif
}

inline make_or_drop(s)
{
    if
    :: !slabs[s].used -> make_slab(s)
    :: slabs[s].used && !left_of(s).live && !right_of(s).live -> slabs[s].used = 0
    :: else
    fi
}

proctype program()
{
    do
    :: atomic { !ended -> one = word }
    :: atomic { !ended -> word = one }
    :: atomic { !ended -> one = 0 }
    :: atomic { !ended -> take_block() }
    :: atomic { !ended && !locked -> select(c : 0 .. SLABS - 1); make_or_drop(c) }
    :: atomic { /* hides its only pointer */
            !ended && one != 0 && one != ROOT && one != word && disguised == 0 ->
            disguised = one;
            one = 0
        }
    :: ended -> break
    od
}

inline note()
{
    if
    :: asked ->
        slab_of(freeing).has_freed = 1;
        bits[freeing].unborn = 1
    :: else
    fi
}

/* Who asked before the cycle, in the last one, may have been told to note. */
inline ask()
{
    if
    :: asked = notes_freed
    :: !notes_freed -> asked = 1
    fi
}

proctype thread_that_frees()
{
    byte frees;
    bit asked;
    do
    :: atomic {
            !ended && disguised != 0 && frees < FREES ->
            freeing = disguised;
            disguised = 0;
            frees++
        }
#ifndef WITHOUT_SAYING_SO
        block_was_freed = 1;
#endif
#ifndef WITHOUT_NOTE
        ask();
#endif
#ifndef WITHOUT_NOTE_FIRST
        note();
        bits[freeing].live = 0;
#else
        bits[freeing].live = 0;
        note();
#endif
        atomic { freeing = 0; asked = 0 }
    :: ended -> break
    od
}

/* With the lock. Notes of the last cycle may come in between. */
inline give_place(s)
{
    atomic {
        places++;
        slabs[s].place = places;
        slabs[s].has_freed = 0
    }
    set_unborn(s, 0)
}

inline give_place_of_next()
{
    if
    :: slabs[next].used -> give_place(next)
    :: else
    fi;
    next++
}

/* The roots are read in the stop. */
inline begin_noting()
{
    reached[ROOT] = 1;
    reached[one] = 1;
#ifndef WITHOUT_REGISTER
    reached[freeing] = 1;
#endif
    block_was_freed = 0;
    notes_freed = 1
}

inline mark_in_child()
{
    reached[word] = 1;
    for (b : 1 .. BLOCKS) {
        if
        :: slab_of(b).used && slab_of(b).place > 0 ->
#ifndef WITHOUT_FREE_MARKED
            result[at(slab_of(b).place, b)] = reached[b] || !bits[b].live
#else
            result[at(slab_of(b).place, b)] = reached[b]
#endif
        :: else
        fi
    }
    for (b : 0 .. BLOCKS) { reached[b] = 0 }
}

inline take_over(s)
{
    if
    :: slabs[s].used && slabs[s].place > 0 ->
        left_of(s).mark = result[at(slabs[s].place, 1)];
        right_of(s).mark = result[at(slabs[s].place, 2)]
#ifndef WITHOUT_MARK_NEWER
    :: slabs[s].used && slabs[s].place == 0 -> set_marks(s, 1)
#endif
    :: else
    fi
}

inline complete()
{
    for (b : 1 .. BLOCKS) {
        if
        :: block_was_freed && slab_of(b).used && slab_of(b).has_freed ->
            bits[b].mark = bits[b].mark || bits[b].unborn || !bits[b].live
        :: else
        fi
    }
}

inline look()
{
    for (b : 1 .. BLOCKS) {
        assert(!(b == ROOT || b == one || b == word) || bits[b].mark); /* nothing-is-lost */
#ifndef NOTHING_IS_LOST_ALONE
        assert(!slab_of(b).used || bits[b].live || bits[b].mark) /* free-is-marked */
#endif
    }
}

proctype collector()
{
    byte next, places;
    bit again; /* the one slab that was visited twice */

    /* Some slabs get places in slices, and the rest before the stop. The lock is held until the
     * child is there. */
    do
    :: next < SLABS ->
        atomic { !locked -> locked = 1 }
        give_place_of_next();
        locked = 0
    :: atomic { next > 0 && !again -> next--; again = 1 }
    :: locked = 1 -> break
    od;
    do
    :: next < SLABS -> give_place_of_next()
    :: else -> break
    od;
    atomic {
        begin_noting();
#ifndef WITHOUT_COPY
        mark_in_child();
#endif
        marks_newborn = 1;
        locked = 0;
        next = 0;
        places = 0;
        again = 0
    }
#ifdef WITHOUT_COPY
    atomic { mark_in_child() }
#endif
    do
    :: atomic { next < SLABS -> take_over(next); next++ }
    :: atomic { next > 0 && !again -> next--; again = 1 }
    :: next == SLABS -> break
    od;
    atomic {
        complete();
        look();
        ended = 1
    }
}

init
{
    atomic {
        slabs[0].used = 1;
        bits[1].live = 1;
        disguised = 1;
        slabs[1].used = 1;
        bits[ROOT].live = 1;
        run program();
        run thread_that_frees();
        run collector()
    }
}
