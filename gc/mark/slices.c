/* SPDX-License-Identifier: MIT
 *
 * slices.c: a cycle's marking (gc/cycle/concurrent.h): slices beside the program, and what the
 * stopped world does before and after them.
 *
 * Threads run during a slice, and change free, remote and retired bits. A slice goes by the mark
 * bits. Nobody else writes these meanwhile: new slabs are made under the lock that the slice holds.
 * A block without a mark was live when the cycle began, or was made during a fork: the slice marks
 * and follows it. If the block has been freed since, its mark does no harm: the sweep asks the free
 * bit. Too much may be kept then. If a thread writes a word while the slice reads it, the word's
 * page is dirty. A block that the slice finds retired is marked and not followed. If realloc makes
 * it the program's again before the last stop, only what lies on its written pages is followed.
 *
 * Invariants
 * [locked shapes]     A slice holds the heap's lock, so no slab comes, goes or changes its shape in
 *                     it. Between two slices they may. The words on the mark stack stay right: they
 *                     are mere addresses, whose slab is looked up when they are taken. The blocks
 *                     in `pending` are looked up again when the world is stopped.
 * [read by copy]      A slice reads a block of a page or more through /proc/self/mem, since the
 *                     program may unmap or protect a part of it at any moment. What cannot be
 *                     copied is entered as dirty, and the stopped world reads it. A smaller block
 *                     is read where it is: it shares its pages with others, so no program takes
 *                     them away.
 * [free is marked]    At the last stop every block that is not live has its mark, so that no marker
 *                     looks into it, and a late sweep does not take it for dead
 *                     ([listed is marked], alloc/blocks/late_sweep.h). A block that is free then
 *                     was free at the first stop, or of a newer slab; or it was on its way from a
 *                     list at the first stop, and is marked from the thread's register, a root; or
 *                     it was freed since, which blocks_have_freed tells; or its thread is in free,
 *                     and has it in a register now, a root. That root also keeps the block that
 *                     ends where this one begins.
 *   [boundary marks both]
 *                     Where two blocks meet, a word may mean either: it is the end of the left one,
 *                     L, and the start of the right one, R.
 *
 *                         | L ................... | R ................... |
 *                                                 ^ the word
 *
 *                     A marker takes it for R where R is live, and else for L (mark.c). That may
 *                     change during a cycle: a slice takes the word, sees R live and marks R; then
 *                     the program frees R. At the last stop the word means L. But its page is
 *                     clean, so nobody reads it again, and L would be lost. So L is marked as well:
 *
 *                         if R                       L is marked by
 *                         was live at the beginning  mark_end_cycle (push_ends), if R has a mark
 *                                                    and is free then
 *                         was not live then          drain_some (may_mean_end): such a block has
 *                                                    a mark from the beginning, which tells
 *                                                    nothing at the last stop
 *                         begins a granule           drain_some (may_mean_end): the slab of R, and
 *                                                    its bits, may be gone at the last stop
 *
 *                     No L of up to MARK_PADDED_BYTES is in danger: it has a byte more than was
 *                     asked for, so a word that means it never is its end.
 */
#include "gc/mark/slices.h"

#include "alloc/blocks/blocks.h"
#include "gc/mark/drain.h"
#include "gc/mark/mark.h"
#include "gc/mark/referent.h"
#include "gc/mark/scan.h"
#include "vm/kernel/dirty.h"
#include "vm/kernel/resident.h"
#include "vm/pages.h"
#include "vm/private_memory.h"
#include "vm/syscall.h"

enum {
    COPY_BYTES = 64 << 10,
    BLOCK_WORK = 32, /* of mark_some, for a block, besides its bytes */
};

bool mark_init_cycle(void)
{
    mark.pending = private_memory_map(MOST_RANGES * sizeof *mark.pending);
    mark.copy = private_memory_map(COPY_BYTES);
    return mark.pending && mark.copy;
}

static void clear_marks_for_cycle(void *unused, struct slab *slab)
{
    mark_clear_marks(unused, slab);
    for (size_t i = 0; i < slab_words(slab); i++)
        *slab_unborn(slab, i) = slab->words[i].mark;
}

void mark_begin_cycle(void)
{
    blocks_forget_frees();
    mark_visit_slabs(clear_marks_for_cycle);
    mark_make_ready();
    mark.defers_roots = true;
}

void mark_defer_roots(bool defer)
{
    mark.defers_roots = defer;
}

/* The bounds of all that blocks may lie in now. */

static void add_range(void *unused, const char *start, const char *end, const struct slab *mapping)
{
    (void)unused, (void)mapping;
    uintptr_t low = (uintptr_t)start - 1, high = (uintptr_t)end + 1;
    mark.low = low < mark.low ? low : mark.low;
    mark.high = high > mark.high ? high : mark.high;
}

static void add_slab(void *unused, struct slab *slab)
{
    (void)unused;
    mark_add_to_bounds(slab);
}

static void widen_to_slabs(void)
{
    blocks_each_range(add_range, NULL);
    blocks_each_of_fork(add_slab, NULL);
}

static void widen_bounds(void)
{
    widen_to_slabs();
    mark_set_bounds();
}

/* Snapshots. */

void mark_begin_noting(void)
{
    mark.is_minor = false;
    mark.low = UINTPTR_MAX;
    mark.high = 0;
    widen_to_slabs();
    mark_make_ready();
    mark.defers_roots = true;
}

/* After mark_skip_part there is no marking here: the marks that it has set would be cleared. */
bool mark_begin_noted(void)
{
    if (mark.markers[0].overflowed || mark.skips_small)
        return false;
    blocks_each_slab_by_bits(mark_clear_marks, NULL);
    mark.defers_roots = false;
    return true;
}

/* What is read by copy. */

static void scan_copy(uintptr_t start, uintptr_t end)
{
    size_t bytes = end - start;
    mark.work += bytes;
    long copied = mark.memory_file < 0
                      ? -1
                      : SYSCALL_4(SYS_pread64, mark.memory_file, mark.copy, bytes, start);
    if (copied == (long)bytes)
        scan_with_jmp_bufs(&mark.markers[0], mark.copy, mark.copy + bytes);
    else
        dirty_set(round_down(start, PAGE_BYTES), round_up(end, PAGE_BYTES)); /* [read by copy] */
}

static void scan_pending_piece(void)
{
    struct range *range = &mark.pending[mark.pending_count - 1];
    const char *piece = range->start, *end = piece + COPY_BYTES;
    if (end >= range->end) {
        end = range->end;
        mark.pending_count--;
    } else {
        range->start = end - VECTOR_BYTES; /* a word may lie across */
    }
    scan_copy((uintptr_t)piece, (uintptr_t)end);
}

/* The part of a block that is to be copied. */
struct part {
    uintptr_t start, end;
    uintptr_t last_end; /* of the last run of pages */
};

/* A word may lie across this run and the last one. */
static void push_pending_range(void *argument, uintptr_t start, uintptr_t end, bool readable)
{
    struct part *part = argument;
    (void)readable;
    if (start == part->last_end)
        start -= VECTOR_BYTES;
    part->last_end = end;
    if (mark.pending_count == MOST_RANGES)
        scan_pending_piece();
    if (mark.pending_count == MOST_RANGES) { /* a long one: the stopped world reads this */
        dirty_set(round_down(start, PAGE_BYTES), round_up(end, PAGE_BYTES));
        return;
    }
    mark.pending[mark.pending_count++] =
        (struct range){(const char *)(start > part->start ? start : part->start),
                       (const char *)(end < part->end ? end : part->end)};
}

void slices_push(const char *start, size_t bytes)
{
    struct part part = {(uintptr_t)start, (uintptr_t)start + bytes, 0};
    if (bytes < LARGE_BYTES ||
        !resident_each(round_down(part.start, PAGE_BYTES), round_up(part.end, PAGE_BYTES),
                       push_pending_range, &part))
        push_pending_range(&part, part.start, part.end, true);
}

/* No other thread writes marks: [locked shapes]. Returns whether the block had no mark. */
static bool mark_in_slice(struct marker *marker, const struct scan *scan,
                          const struct referent *referent)
{
    if (!set_mark(referent->bits, referent->bit, false))
        return false;
    marker->blocks++;
    marker->bytes += referent->bytes;
    mark.work += BLOCK_WORK;
    if (referent->bits->retired & referent->bit)
        return true;
    if (referent->bytes >= PAGE_BYTES) {
        slices_push(referent->start, referent->bytes);
        return true;
    }
    mark.work += referent->bytes;
    if (referent->bytes < sizeof(jmp_buf))
        marker->top =
            with_room(marker, scan_small(marker->top, scan, referent->start, referent->bytes));
    else
        scan_with_jmp_bufs(marker, referent->start, referent->start + referent->bytes);
    return true;
}

static void mark_before_in_slice(struct marker *marker, const struct scan *scan, uintptr_t word)
{
    struct referent before;
    if (find_referent(word - 1, &before))
        mark_in_slice(marker, scan, &before);
}

static bool is_unborn(const struct referent *referent)
{
    struct slab *slab = slab_at((const void *)referent->word);
    return (*slab_unborn(slab, (size_t)(referent->bits - slab->words)) & referent->bit) != 0;
}

/* Whether the word may mean the block that ends there: [boundary marks both]. */
static bool may_mean_end(const struct referent *referent, bool had_mark)
{
    if (referent->bit == 0)
        return true;
    if (referent->word != (uintptr_t)referent->start)
        return false;
    return referent->word % GRANULE_BYTES == 0 ||
           (had_mark &&
            (!is_live(referent) || (referent->bytes > MARK_PADDED_BYTES && is_unborn(referent))));
}

/* As drain, until there is nothing left or enough is done. It ends with an empty queue: words that
 * were taken from the stack are not forgotten. */
static __attribute__((noinline)) void drain_some(struct marker *marker, size_t work)
{
    const struct scan scan = {mark.bounds, NULL};
    for (unsigned first = 0, queued = 0;;) {
        while (queued < PREFETCH_QUEUE && marker->top > marker->stack && mark.work < work) {
            struct referent *referent = &marker->queue[(first + queued) % PREFETCH_QUEUE];
            uintptr_t word = *--marker->top;
            if (find_referent(word, referent)) {
                prefetch(referent);
                queued++;
            } else {
                mark_before_in_slice(marker, &scan, word);
            }
        }
        if (queued > 0) {
            const struct referent referent = marker->queue[first];
            first = (first + 1) % PREFETCH_QUEUE;
            queued--;
            bool had_mark = !mark_in_slice(marker, &scan, &referent);
            if (may_mean_end(&referent, had_mark))
                mark_before_in_slice(marker, &scan, referent.word);
        } else if (mark.pending_count > 0 && mark.work < work) {
            scan_pending_piece();
        } else {
            return;
        }
    }
}

void mark_begin_slice(int memory_file)
{
    mark.in_slice = mark.defers_roots = true;
    mark.memory_file = memory_file;
    mark.work = 0;
    widen_bounds();
}

void mark_end_slice(void)
{
    mark.in_slice = false;
}

size_t mark_work_of_slice(void)
{
    return mark.work;
}

bool mark_some(size_t work)
{
    struct marker *marker = &mark.markers[0];
    mark_changed_done();
    drain_some(marker, work);
    return marker->top == marker->stack && mark.pending_count == 0;
}

/* The world is stopped. */

/* freed: blocks of the word that were marked and are free now. Pushes the address right before each
 * of them, so that the block which ends there is marked as well: [boundary marks both]. */
static void push_ends(const struct slab *slab, size_t word, uint64_t freed)
{
    struct marker *marker = &mark.markers[0];
    for (; freed; freed &= freed - 1) {
        size_t index = word * SLAB_WORD_BLOCKS + (size_t)__builtin_ctzl(freed);
        *marker->top = (uintptr_t)slab_block(slab, index) - 1;
        marker->top = with_room(marker, marker->top + 1);
    }
}

/* A block that is not live has a mark that is set, as in mark_begin. */
static void mark_what_was_freed(void *unused, struct slab *slab)
{
    (void)unused;
    for (size_t i = 0; i < slab_words(slab); i++) {
        uint64_t dead = ~slab_live(slab, i), *mark_bits = &slab->words[i].mark;
        uint64_t freed = dead & *mark_bits & ~*slab_unborn(slab, i) & slab_word_mask(slab, i);
        if (slab->block_bytes > MARK_PADDED_BYTES)
            push_ends(slab, i, freed);
        *mark_bits |= dead;
    }
}

/* The roots are read again next: [last roots] (gc/cycle/concurrent.h). A block that is not live got
 * its mark at the first stop, or is of a slab that was made since then and has all marks. Only one
 * that was freed since then may be without: [free is marked]. */
void mark_end_cycle(void)
{
    mark_visit_slabs(blocks_have_freed() ? mark_what_was_freed : NULL);
    widen_to_slabs();
    mark_begin_roots();
    mark.defers_roots = true;
}

/* A block that was not read to its end, if it is there still: [locked shapes]. */
static void scan_rest(struct marker *marker, const struct range *range)
{
    struct referent referent;
    if (!find_referent((uintptr_t)range->start, &referent) || !is_live(&referent))
        return;
    const char *end = referent.start + referent.bytes;
    end = range->end < end ? range->end : end;
    if (end > range->start)
        scan_block(marker, range->start, (size_t)(end - range->start));
}

/* [untracked is followed], [read by copy] */
void mark_untracked(void)
{
    for (size_t i = 0; i < mark.pending_count; i++)
        scan_rest(&mark.markers[0], &mark.pending[i]);
    mark.pending_count = 0;
    mark_of_fork();
}
