/* SPDX-License-Identifier: MIT
 *
 * gc.c: what `free` means, and what becomes of what was never freed.
 * (gc_options.c has the table of the options, gc_statistics.c what a report tells.)
 *
 *     free=ignore     free does nothing but say so; collections free what was freed and cannot be
 *                     reached
 *     free=honour     frees at once
 *     free=quarantine free overwrites the block and keeps it until a collection finds no pointer to
 *                     it (quarantine.h)
 *     leaks=collect   what was not freed and cannot be reached is reclaimed, too
 *     leaks=auto      the same, when it has been found twice, and unless the program hides pointers
 *     leaks=keep      it is left alone; with free=honour there are no collections, and this is
 *                     `blocks` by another name
 *     leaks=watch     it is looked for and left alone
 *     leaks=report    it is left alone, and told when somebody asks, and at exit (leaks.h)
 *
 * Hidden pointers. A program that computes pointers from something else loses live blocks to a
 * collector. Known hiders are recognised (hiders.h). Of any other program a proof is needed: it
 * frees or resizes a block that was found dead. So the sweep makes suspects of what it finds dead
 * for the first time (sweep.h). Once there is a proof the process keeps its leaks, and one line
 * says so. An explicit leaks=collect makes no suspects and asks for no proof.
 *
 * An ignored free still checks its pointer, and reports one that is not a block's start. It does
 * not notice a second free of a block, since the first has not freed it. (If the second free
 * counts, because the block was pinned meanwhile or frees count again, it frees the block.) An
 * ignored free retires the block: the block is kept as long as something points to it, and its
 * contents are not scanned. If they were, one stale pointer into a list that the program frees at
 * one end and extends at the other (node's buffers) would keep the whole list for ever. With
 * free=ignore realloc retires the old block, too, so that a second pointer to it stays good: such a
 * heap forgives that bug. A retired block that realloc leaves in its place is the program's again.
 * Only large blocks move with their pages.
 *
 * Blocks of up to PADDED_BYTES are a byte longer than asked for. A program may keep only the
 * address behind a small header, and the header may be all that the block holds (php's functions
 * without arguments). malloc_usable_size leaves that byte out. In larger ones only a word of the
 * roots keeps the block that ends there (mark.c).
 *
 * In a quarantine leaks=auto keeps leaks. The quarantine is there for programs whose frees are
 * wrong, and what they have not freed is theirs. A pin ends with the free, for the block waits
 * anyway. Generations are refused there: their pace goes by what is handed out.
 *
 * Where the collector cannot work (no /proc, no memory for it) frees are honoured whatever was
 * asked for, since nothing else would ever give memory back; one line says so. The same holds while
 * one collection after the other is given up: when a thread blocks every signal, say. In a
 * quarantine freed blocks wait for a delay then, and no longer (quarantine.h).
 */
#include "gc/cycle/gc.h"

#include <string.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/quarantine.h"
#include "alloc/own_text.h"
#include "gc/cycle/collect.h"
#include "gc/cycle/gc_options.h"
#include "gc/cycle/gc_statistics.h"
#include "gc/cycle/hiders.h"
#include "gc/cycle/pace.h"
#include "gc/cycle/quarantine.h"
#include "gc/cycle/watch.h"
#include "gc/mark/mark.h"
#include "gc/world/excepted.h"
#include "gc/world/handled.h"
#include "gc/world/roots.h"
#include "gc/world/stop.h"
#include "vm/freeze.h"
#include "vm/message.h"
#include "vm/single_threaded.h"

/* A block of up to this size may be no more than such a header, and the extra byte costs it at most
 * 16 bytes. It may cost a larger block a quarter of its size. */
enum { PADDED_BYTES = MARK_PADDED_BYTES };

static const enum sweep_leaks sweeps[] = {[LEAKS_AUTO] = SWEEP_SUSPECT,
                                          [LEAKS_COLLECT] = SWEEP_RECLAIM,
                                          [LEAKS_KEEP] = SWEEP_KEEP,
                                          [LEAKS_WATCH] = SWEEP_WATCH,
                                          [LEAKS_REPORT] = SWEEP_KEEP};

/* What is atomic any thread may write, and read at any time. All else init writes. */
static struct {
    _Atomic bool free_ignored;  /* now */
    _Atomic bool ignores_frees; /* as long as collections work */
    bool quarantines;           /* from the start */
    bool collects;              /* from the start */
    bool watches, reports;
    _Atomic bool listens_again; /* see listen_again */
    _Atomic bool keeps_leaks;   /* now */
    _Atomic uint64_t proofs;    /* uses of suspects */
    uint64_t every;
    _Atomic uint64_t allocations;
    _Atomic bool has_pins;
    _Atomic bool has_pointer_free; /* and frees count: see gc_holds_no_pointers */
    bool retires;                  /* frees, from the start */
    /* There are pins, blocks without pointers, a quarantine, or live bits that are late where frees
     * count again: [late live bit] (alloc/blocks/heap.h). */
    _Atomic bool free_looks;
} gc;

static bool ignores_now(void)
{
    return gc.ignores_frees && collect_works();
}

/* [looks before counts]: free_looks is set before free_ignored is cleared, and is never cleared.
 * gc_free reads them in the other order. So whoever finds that frees count, where they were ignored
 * before, finds that the fast path must not be used ([late live bit]). Any thread. */
static void set_free_ignored(void)
{
    bool ignored;
    do {
        ignored = ignores_now();
        if (gc.free_ignored && !ignored)
            gc.free_looks = true;
        gc.free_ignored = ignored;
        /* Another thread may have set it in between, and this one has undone that. */
    } while (ignored != ignores_now());
}

/* A collection would free nothing. */
static bool needs_no_collections(void)
{
    return gc.keeps_leaks && !gc.ignores_frees && !gc.quarantines;
}

static bool run_collection(enum collect_cause cause, size_t requested)
{
    if (needs_no_collections())
        return false;
    if (cause == CAUSE_ASKED)
        collect_to_verify();
    bool reclaimed = collect(cause, requested);
    bool last_chance = cause == CAUSE_LIMIT || cause == CAUSE_EXHAUSTED;
    /* What was suspected is reclaimed now. A hint: another thread may have collected since. */
    if (reclaimed && last_chance && collect_statistics()->newly_suspected > 0)
        reclaimed = collect(cause, requested);
    if (gc.ignores_frees)
        set_free_ignored();
    if (gc.quarantines && quarantine_after_collection(reclaimed || collect_works()))
        return true;
    return reclaimed;
}

/* After collections: whether frees count may have changed. */
static bool run_slice(void)
{
    bool reclaimed = collect_some();
    if (gc.ignores_frees)
        set_free_ignored();
    return reclaimed;
}

static bool is_due(size_t bytes)
{
    size_t taken = blocks_taken_bytes();
    return pace_is_due(taken + bytes) && !pace_puts_off(blocks_used_bytes(), taken);
}

static bool collect_if_due(void)
{
    if (collect_cycle_runs())
        return run_slice();
    return is_due(0) && run_collection(CAUSE_FULL, 0);
}

/* Whether an empty heap could have so much. */
static bool may_ever_fit(size_t alignment, size_t bytes)
{
    return !pace_is_over_limit(0, bytes) && collection_may_make_room(alignment, bytes);
}

static enum growth before_growth(size_t alignment, size_t bytes, unsigned tries, bool exhausted)
{
    size_t used = blocks_used_bytes();
    bool due = tries == 0 && !exhausted && !needs_no_collections() &&
               (pace_is_full(used, bytes) || is_due(gc.quarantines ? 0 : bytes));
    if ((due || exhausted) && !may_ever_fit(alignment, bytes))
        return REFUSE;
    if (due && collect_cycle_runs() && !pace_is_over_limit(used, bytes))
        return run_slice() ? RETRY : GROW;
    if (due)
        return run_collection(pace_is_over_limit(used, bytes) ? CAUSE_LIMIT : CAUSE_FULL, bytes)
                   ? RETRY
               : pace_is_over_limit(used, bytes) ? REFUSE
                                                 : GROW;
    if (exhausted)
        return tries <= 2 && run_collection(CAUSE_EXHAUSTED, bytes) ? RETRY : REFUSE;
    return pace_is_over_limit(used, bytes) ? REFUSE : GROW;
}

/* A slice of a cycle has from 1 to 128 KiB of work here, so that cycles end at any stage. */
static void count_allocation(void)
{
    enum { SLICES = 8, LEAST_POWER = 10 };
    uint64_t count = atomic_fetch_add_explicit(&gc.allocations, 1, memory_order_relaxed);
    uint64_t between = gc.every / SLICES + 1;
    if (count % gc.every == gc.every - 1)
        run_collection(CAUSE_EVERY, 0);
    else if (collect_cycle_runs() && count % between == 0)
        collect_slice((size_t)1 << (LEAST_POWER + count / between % SLICES));
}

/* Hidden pointers. */

static void say_leaks_are_kept(const void *block, size_t bytes, const char *use)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "gc: ");
    message_text(&message, use);
    message_text(&message, "(");
    message_pointer(&message, block);
    message_text(&message, "), a block of ");
    message_decimal(&message, bytes);
    message_text(&message, " bytes that nothing pointed to before: the program hides pointers, so "
                           "leaks are kept from here on (leaks=collect overrides)");
    message_send(&message);
}

/* use: the function of malloc's that was handed the block. */
static void suspect_used(const void *block, size_t bytes, const char *use)
{
    atomic_fetch_add_explicit(&gc.proofs, 1, memory_order_relaxed);
    if (gc.watches) {
        watch_report(block, bytes, use);
    } else if (!atomic_exchange(&gc.keeps_leaks, true)) {
        collect_keep_leaks();
        say_leaks_are_kept(block, bytes, use);
    }
}

static void suspect_pointed_to(const void *block, size_t bytes)
{
    suspect_used(block, bytes, "a pointer to ");
}

/* A hint: another thread may be counting. */
static bool has_reclaimed(void)
{
    return collect_statistics()->reclaimed_blocks > 0;
}

/* Pins. */

static void have_pins(void)
{
    atomic_store_explicit(&gc.has_pins, true, memory_order_relaxed);
    atomic_store_explicit(&gc.free_looks, true, memory_order_relaxed);
}

/* False: it is in none. */
static bool find_block(const struct slab *slab, const void *address, size_t *index)
{
    bool exact;
    *index = slab ? slab_index(slab, address, &exact) : 0;
    return slab && *index < slab->capacity;
}

/* address: [any word] (alloc/blocks/heap.h). A thread that is stopped between the pin and the entry
 * has the block in a register, or its caller has: so a minor collection keeps it, though it does
 * not see the pin. */
static void gc_pin(const void *address)
{
    size_t index;
    struct slab *slab = blocks_slab_of(address);
    if (!find_block(slab, address, &index) || !slab_block_is_live(slab, index))
        return;
    slab_pin(slab, index / SLAB_WORD_BLOCKS, slab_bit(index));
    blocks_enter_young(slab); /* [pins are roots] */
    have_pins();
}

/* The word of pins that has the block's, and its bit in `bit`; NULL: the slab has none. */
static uint64_t *find_pin(const void *block, uint64_t *bit)
{
    size_t index;
    struct slab *slab = blocks_slab_of(block);
    if (!slab || !slab_has_pins(slab) || !find_block(slab, block, &index))
        return NULL;
    *bit = slab_bit(index);
    return slab_pinned(slab, index / SLAB_WORD_BLOCKS);
}

static bool unpin(const void *block)
{
    uint64_t bit, *pins = find_pin(block, &bit);
    return pins && (__atomic_fetch_and(pins, ~bit, __ATOMIC_RELAXED) & bit) != 0;
}

static inline bool may_be_pinned(void)
{
    return __builtin_expect(atomic_load_explicit(&gc.has_pins, memory_order_relaxed), 0);
}

static inline bool was_pinned(const void *block)
{
    return may_be_pinned() && unpin(block);
}

static bool is_pinned(const void *block)
{
    uint64_t bit, *pins = may_be_pinned() ? find_pin(block, &bit) : NULL;
    return pins && (__atomic_load_n(pins, __ATOMIC_RELAXED) & bit) != 0;
}

/* The new block is pinned before the old one ceases to be: a collection in between follows the
 * distances in both. A large block that is moved by page tables keeps its record, and the pin. */
static void carry_pin(const void *block, const void *moved)
{
    if (!is_pinned(block))
        return;
    gc_pin(moved);
    unpin(block);
}

/* Start. */

static struct blocks_collector collector = {.before_growth = before_growth,
                                            .suspect_used = suspect_used,
                                            .has_reclaimed = has_reclaimed,
                                            .moves = carry_pin};

static void report_unavailable(void)
{
    struct message message;
    message_begin(&message);
    message_text(
        &message,
        "gc: no collections here (/proc cannot be read or is another namespace's, a filter "
        "of system calls was there before the program, or there is no memory for the "
        "collector); free is honoured");
    message_send(&message);
}

static bool need_sites(void)
{
    return allocator_needs_sites && allocator_needs_sites();
}

static bool found_hider(void)
{
    have_pins();
    return need_sites();
}

static enum gc_leaks leaks_of(const struct gc_options *chosen)
{
    bool keeps = chosen->free == FREE_QUARANTINE && chosen->leaks == LEAKS_AUTO;
    return keeps ? LEAKS_KEEP : chosen->leaks;
}

/* By another process. */
static void answer_leak_request(uintptr_t rip)
{
    if (allocator_asked)
        allocator_asked(rip);
}

/* When glibc makes the first thread it puts its own handler in place of ours, before it allocates
 * for the thread. With that handler a request by another process would end a wait in EINTR. So our
 * handler is installed again, once there are threads. */
static void listen_again(void)
{
    bool threads = &__libc_single_threaded && !__libc_single_threaded;
    if (threads && !atomic_exchange_explicit(&gc.listens_again, true, memory_order_relaxed))
        stop_listen(answer_leak_request);
}

/* Sets what the options `free` and `leaks` mean. */
static void init_meanings(bool quarantines, enum gc_leaks leaks)
{
    gc.quarantines = quarantines;
    gc.free_looks = quarantines;
    if (quarantines)
        quarantine_init();
    gc.reports = leaks == LEAKS_REPORT;
    gc.keeps_leaks = leaks == LEAKS_KEEP || gc.reports;
    gc.watches = leaks == LEAKS_WATCH;
    collect_found_hider = found_hider;
    collect_suspect_pointed_to = suspect_pointed_to;
    if (gc.watches && watch_init())
        need_sites();
    if (gc.reports)
        need_sites();
}

static struct pace_options pace_of(const struct collection_options *collections, bool ignored,
                                   bool quarantines)
{
    return (struct pace_options){
        .policy = collections->policy,
        .frees = !ignored && !quarantines,
        .quarantine = quarantines,
        .initial_bytes = collections->initial_bytes,
        .limit_bytes = collections->limit_bytes,
        .pause_goal_ns = collections->pause_ms * 1000000,
        .generations = collections->generations > 1,
        .always_minors = collections->every > 0,
    };
}

static bool init(const void *values)
{
    const struct gc_options *chosen = values;
    const struct collection_options *collections = &chosen->collections;
    bool ignored = chosen->free == FREE_IGNORE, quarantines = chosen->free == FREE_QUARANTINE;
    enum gc_leaks leaks = leaks_of(chosen);
    bool collects = ignored || quarantines || leaks != LEAKS_KEEP;
    struct pace_options pace = pace_of(collections, ignored, quarantines);
    pace_init(&pace);
    gc.collects = collects;
    init_meanings(quarantines, leaks);
    if (pace.policy == POLICY_AUTO && !pace.frees)
        collector.collect_if_due = collect_if_due;
    bool verifies = collections->verify == VERIFY_ON;
    bool uses_snapshots = collections->concurrent == CONCURRENT_FORK && ignored;
    bool concurrent =
        uses_snapshots || (collections->concurrent == CONCURRENT_ON &&
                           collections->generations > 1 && pace.policy == POLICY_AUTO);
    if (concurrent) /* slices go with what is taken, whatever makes a collection due */
        collector.collect_if_due = collect_if_due;
    if (collections->generations > 1 || uses_snapshots)
        collector.rows = verifies ? SLAB_SEEN_ROWS : concurrent ? SLAB_UNBORN_ROWS : SLAB_OLD_ROWS;
    collector.late_live_bits = ignored;
    if (ignored && concurrent)
        collector.sweep_late = sweep_late;
    if (quarantines)
        collector.rows = SLAB_OLD_ROWS;
    gc.every = collections->every;
    if (gc.every > 0)
        collector.before_allocation = count_allocation;
    if (!blocks_init((unsigned)chosen->blocks.retain_percent, collects ? &collector : NULL))
        return false;
    struct collect_options collect = {.markers = (unsigned)collections->markers,
                                      .stack_bytes = collections->stack_bytes,
                                      .leaks = sweeps[leaks],
                                      .generations = collections->generations > 1,
                                      .dirty = collections->dirty,
                                      .verify = verifies,
                                      .concurrent = concurrent,
                                      .uses_snapshots = uses_snapshots,
                                      .tells_hiders = gc.reports,
                                      .retires = ignored};
    if (collects && !collect_init(&collect)) {
        pace_without_clock();
        if (quarantines)
            quarantine_without_collections();
        else
            report_unavailable();
    } else if (gc.reports) {
        stop_listen(answer_leak_request);
    }
    gc.ignores_frees = ignored;
    gc.retires = ignored || quarantines;
    set_free_ignored();
    return true;
}

static void gc_allocated_by(void *block, const void *site)
{
    if (gc.reports ? hiders_own(site) : hiders_have(site))
        gc_pin(block);
    if (gc.reports)
        listen_again();
    if (gc.watches)
        watch_note(block, site);
}

/* Allocation. */

static size_t padded(size_t size)
{
    return size + (size <= PADDED_BYTES && gc.collects);
}

static void *gc_alloc(size_t size)
{
    return blocks_alloc(padded(size));
}

static void *gc_alloc_zeroed(size_t size)
{
    return blocks_alloc_zeroed(padded(size));
}

static void *gc_alloc_aligned(size_t alignment, size_t size)
{
    return blocks_alloc_aligned(alignment, padded(size));
}

/* The padding byte is left out. A program that used it could hold a pointer to its end, which would
 * not keep the block. */
static size_t gc_usable_size(const void *block)
{
    size_t bytes = blocks_usable_size(block);
    return bytes - (bytes > 0 && bytes <= PADDED_BYTES && gc.collects);
}

/* The fast path of free does not look at the retired bit, and the next block must not have it. A
 * thread that is stopped between the two calls has the program's block, in a register. */
static void free_for_good(void *block)
{
    if (atomic_load_explicit(&gc.has_pointer_free, memory_order_relaxed))
        blocks_unretire(block);
    blocks_free(block);
}

static __attribute__((noinline)) void free_looking(void *block)
{
    bool pinned = was_pinned(block);
    /* Nobody sees when the kernel is done with a block that it knows. So the free counts. */
    if (gc.quarantines)
        quarantine_free(block, caller_of_frame());
    else if (gc.free_ignored && !pinned)
        blocks_retire(block, "free");
    else if (blocks_has_late_live_bits())
        blocks_free_by_slab(block);
    else
        free_for_good(block);
}

/* [looks before counts]. A thread that is stopped between the two reads, while frees begin to
 * count, ignores one more. */
static void gc_free(void *block)
{
    bool ignored = gc.free_ignored;
    if (__builtin_expect(gc.free_looks, 0))
        free_looking(block);
    else if (!ignored)
        blocks_free(block);
    else
        blocks_retire(block, "free");
}

static void *resize(void *block, size_t size)
{
    if (!gc.free_ignored || is_pinned(block))
        return blocks_resize(block, size);
    size_t usable = blocks_usable_size(block);
    if (size <= usable && size > usable / 2) {
        blocks_use_again(block);
        return block;
    }
    struct slab *slab = blocks_slab_of(block);
    if (usable == 0 || (slab->capacity == 1 && size > usable))
        return blocks_resize(block, size); /* a bad pointer, which is reported; or by page tables */
    void *moved = blocks_alloc(size);
    if (!moved)
        return NULL;
    memcpy(moved, block, usable < size ? usable : size);
    blocks_retire(block, "realloc");
    return moved;
}

static void *gc_resize(void *block, size_t size)
{
    return gc.quarantines ? quarantine_realloc(block, padded(size), caller_of_frame())
                          : resize(block, padded(size));
}

/* Without collections nothing else gives memory back: frees count from here on. */
static void gc_enter_sandbox(void)
{
    if (!collect_never_again())
        return;
    if (gc.quarantines)
        quarantine_without_collections();
    pace_without_clock();
    gc.ignores_frees = false;
    set_free_ignored();
}

static size_t gc_trim(void)
{
    if (!operation_begin()) {
        frozen_end();
        return 0;
    }
    run_collection(CAUSE_ASKED, 0);
    operation_end();
    return blocks_trim();
}

static void gc_at_exit(void)
{
    if (gc.quarantines)
        quarantine_at_exit();
}

/* At the program's request. */

/* A quarantine that has released blocks by their age has not collected. */
static enum collected gc_collect(void)
{
    if (needs_no_collections() || !collect_is_available())
        return COLLECT_NEVER;
    if (!operation_begin()) {
        frozen_end();
        return COLLECT_LATER;
    }
    bool reclaimed = run_collection(CAUSE_ASKED, 0) && (!gc.quarantines || collect_works());
    operation_end();
    return reclaimed ? COLLECTED : COLLECT_LATER;
}

/* A marker does not follow a retired block, and a collection frees the block when nothing points to
 * it. So a block without pointers gets the retired bit at once, although the program has not freed
 * it. Where frees count, every free must then clear the bit. The bit is not set where leaks are
 * kept or looked for, since the block would be reclaimed or not reported, nor in a quarantine,
 * where its first free would look like a second. */
static void gc_holds_no_pointers(void *block)
{
    if (gc.quarantines || gc.keeps_leaks || gc.watches || !gc.collects)
        return;
    if (!gc.retires) {
        gc.has_pointer_free = true;
        gc.free_looks = true;
    }
    blocks_retire(block, "allotrope_gc_malloc_pointer_free");
}

struct walk {
    heap_visitor *visit;
    void *argument;
};

static bool is_retired(const void *block)
{
    const struct slab *slab = blocks_slab_of(block);
    bool exact;
    return slab_block_is_retired(slab, slab_index(slab, block, &exact));
}

static void visit_block(void *argument, const struct block_info *info)
{
    const struct walk *walk = argument;
    struct block_info told = *info;
    told.usable_bytes -= told.usable_bytes <= PADDED_BYTES && gc.collects;
    if (told.state == BLOCK_LIVE && gc.retires && is_retired(told.payload))
        told.state = BLOCK_RETIRED;
    walk->visit(walk->argument, &told);
}

static void gc_walk(heap_visitor *visit, void *argument)
{
    struct walk walk = {visit, argument};
    blocks_walk(visit_block, &walk);
}

/* Leaks. */

static bool gc_reports_leaks(void)
{
    return gc.reports && collect_is_available();
}

/* A collection as any other: it may have found what was written after its free. */
static enum leaks_found gc_find_leaks(leak_visitor *visit, void *argument, bool may_wait)
{
    enum leaks_found found = collect_find_leaks(visit, argument, may_wait);
    if (gc.quarantines && found == LEAKS_FOUND && may_wait)
        quarantine_after_collection(true);
    return found;
}

static void gc_fork_child(void)
{
    blocks_fork_child();
    collect_fork_child();
    gc.listens_again = false;
    set_free_ignored();
}

static void gc_statistics(statistic_visitor *visit, void *argument)
{
    struct gc_figures figures = {.quarantines = gc.quarantines,
                                 .reports = gc.reports,
                                 .keeps_leaks = gc.keeps_leaks,
                                 .proofs = gc.proofs};
    gc_statistics_visit(&figures, visit, argument);
}

const struct allocator gc_default = {
    .name = "gc",
    .preset = "default",
    .preset_title = "mark and sweep, the world stopped",
    .title = "conservative collector under existing binaries",
    .source = "after Boehm & Weiser, SP&E 1988",
    .options = gc_options,
    .conflict = gc_options_conflict,
    .init = init,
    .alloc = gc_alloc,
    .free = gc_free,
    .resize = gc_resize,
    .fork_child = gc_fork_child,
    .trim = gc_trim,
    .collect = gc_collect,
    .holds_no_pointers = gc_holds_no_pointers,
    .more_statistics = gc_statistics,
    .counters = collect_counters,
    .pin = gc_pin,
    .needs_pins = collect_is_available,
    .allocated_by = gc_allocated_by,
    .enter_sandbox = gc_enter_sandbox,
    .before_hiding = collect_before_hiding,
    .stacks_are_given = roots_stacks_are_given,
    .pages_may_fault = roots_pages_may_fault,
    .not_copied = roots_are_not_copied,
    .excepted = excepted_note,
    .not_excepted = excepted_forget,
    .code_is_written = roots_code_is_written,
    .before_exec = collect_before_exec,
    .after_exec = collect_after_exec,
    .reports_leaks = gc_reports_leaks,
    .find_leaks = gc_find_leaks,
    .begin_leaks = collect_begin_leaks,
    .leaks_begun = collect_leaks_begun,
    .own_state = blocks_state,
    .ended_waits = last_ended_wait,
    .handler_restorers = {restore_from_ending, restore_from_restarting},
    .alloc_zeroed = gc_alloc_zeroed,
    .alloc_aligned = gc_alloc_aligned,
    .usable_size = gc_usable_size,
    .walk = gc_walk,
    .at_exit = gc_at_exit,
    BLOCKS_FUNCTIONS,
};
