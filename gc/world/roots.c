/* SPDX-License-Identifier: MIT
 *
 * roots.c: the roots: every word outside the heap that may be a pointer into it.
 *
 * Nobody has to name them. The kernel lists the mappings of the process at this moment, and every
 * word of them that is not memory of the heap is a root: data segments, stacks, thread control
 * blocks and thread-local storage, registers (the stop's signal has put them on a stack), and the
 * mappings that libraries and interpreters have made for themselves.
 *
 * Which pages are read
 *
 *     private       those that the process has written to, even if it may not write them now.
 *                   Before Linux 6.7 each page is asked for (vm/kernel/resident.h). If the address
 *                   space is larger than the machine's memory, mappings without a page are found
 *                   first, and passed over
 *     shared        all that the kernel has in memory: another process may have written them, and a
 *                   forked child's own page tables do not show them. Of a mapping larger than the
 *                   machine's memory only those that the page tables show: to ask of each of its
 *                   pages takes seconds. Which shared mappings: the writable ones; and those of
 *                   memory rather than of a file, which may have been writable before, or are so
 *                   elsewhere
 *     left out      devices; read-only shared files; the text of programs and libraries, unless the
 *                   program has made code there (roots_code_is_written): to ask for its pages takes
 *                   longer than all the rest; the kernel's own (vdso); whatever the granule map
 *                   knows as memory of the heap
 *     besides       what the program has asked for (vm/asked_roots.h); where threads' stack
 *                   pointers, alternate stacks, FS and GS lead, which may be blocks; buffers that
 *                   are registered with io_uring (kernel/io_uring.c)
 *
 * How a page is read
 *
 *     in place                  where nothing can go wrong with that
 *     through /proc/self/mem,   swapped pages (the kernel calls guard pages so, too); pages without
 *     where a fault is an       read permission; mappings of files and shared ones, which may have
 *     error number              been cut short. Secret memory (memfd_secret) is the exception: it
 *                               is the program's alone, and cannot be cut short. Where the kernel
 *                               reads nothing without permission, the visit fails
 *     at every byte             code that the process has generated or changed. It may have
 *                               addresses in its instructions: HotSpot's inline caches hold the
 *                               only pointers to their records there
 *
 * Blocks with pages that cannot be touched. A marker reads blocks in place, and must not touch such
 * pages. What is in them is read through /proc/self/mem. (Of blocks below a page in size the marker
 * leaves out all of the block.)
 *
 *     the program has                              known by
 *     taken away the right to read the page,       the list of mappings. Such pages are read here,
 *       put a file there, or unmapped it           and handed over with the roots
 *     made a guard of it, or asked to fill it      the shim (roots_pages_may_fault). From then on,
 *       itself when it is touched (userfaultfd),   of all blocks only pages in memory are touched;
 *       which it cannot while it is stopped        the marker itself reads the others. What is in
 *                                                  memory now may not be when it comes to it
 *
 * Stacks. Of a stack only the part in use is scanned, up to the end of its mapping. That part
 * begins with the frame of the stop's signal, which holds the registers. If the frame lies
 * elsewhere, it begins with the red zone: 128 bytes below the stack pointer that code may use.
 *
 * That is so where the mapping is one thread's own stack and nothing else:
 *
 *     - it is the first thread's stack ([stack]), or has a guard below it and the thread's control
 *       block in it, above the stack pointer. Behind the control block the kernel may have joined
 *       another mapping to it, with a coroutine's stack
 *     - it has no page below the stack pointer that may be marked as a guard, as glibc marks its
 *       own since 2.42. Below such a page the kernel may have joined a coroutine's stack, whose
 *       guard is then the one below the mapping
 *     - just one thread's stack pointer is in it
 *     - that thread is not on its alternate signal stack, which may lie among the frames of the
 *       stack proper; and no thread has one of which the kernel does not tell while a handler is on
 *       it (SS_AUTODISARM)
 *     - no thread was given memory for a stack by the program, or a stack without a guard
 *       (roots_stacks_are_given), or it is the first thread's. Below such a stack the program may
 *       have data, in the same mapping
 *
 * Any other mapping is scanned whole, with dead coroutines and with what the signal has put there.
 *
 * Snapshots (snapshot.h). A child of the process has a copy of what is private, but not of what the
 * program has excepted (MADV_DONTFORK) and that is not lent (excepted.h), nor what is in pages that
 * it has wiped (MADV_WIPEONFORK).
 * Shared mappings go on changing under it: a pointer could be moved out of one before the child has
 * read it, into private memory of which the child has an older copy. So
 *
 *     the parent visits,   what stack pointers, FS and GS lead to, shared mappings, what the
 *       in the stop        program has asked for, buffers of io_uring, private mappings that may
 *                          not be copied
 *     the child visits     the other private mappings
 */
#include "gc/world/roots.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "vm/private_memory.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/kernel/io_uring.h"
#include "gc/world/excepted.h"
#include "gc/world/half_seen_stacks.h"
#include "gc/world/stop.h"
#include "gc/world/recorder.h"
#include "vm/asked_roots.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/syscall.h"

enum { RED_ZONE = 128, BUFFER_BYTES = 64 << 10 };

/* Who writes: the collection at hand ([one collection], collection.h). */
static struct {
    char *buffer;
    size_t memory_bytes; /* of the machine */
    int memory_file;
    bool through_file; /* the mapping at hand is read through /proc/self/mem */
    bool code;         /* it holds code that the process has generated */
    bool lacks_pages;  /* some of it could not be read */
    bool has_rings;
    uintptr_t read_end; /* of the last range that was read */
    bool read_in_place; /* that range */
    const struct root_visitor *visitor;
    struct root_result *result;
    enum part { ALL, UNCOPIED, COPIED } part; /* of the roots: what is visited */
    struct stopped_thread self;
} roots;

/* Any thread sets them, before it does what makes them true. */
static _Atomic bool stacks_are_given, first_stack_too, pages_may_fault;

void roots_stacks_are_given(bool first_too)
{
    atomic_store_explicit(&stacks_are_given, true, memory_order_relaxed);
    if (first_too)
        atomic_store_explicit(&first_stack_too, true, memory_order_relaxed);
}

void roots_pages_may_fault(void)
{
    atomic_store_explicit(&pages_may_fault, true, memory_order_relaxed);
}

bool roots_pages_fault(void)
{
    return atomic_load_explicit(&pages_may_fault, memory_order_relaxed);
}

/* What code of files the program has written lies in here; there is none while it is empty. Any
 * thread widens it, before the system call that makes the code executable. Until then the mapping
 * is no text, and is read in any case. */
static _Atomic uintptr_t written_code_start = UINTPTR_MAX, written_code_end;

static void widen(_Atomic uintptr_t *lowest, _Atomic uintptr_t *highest, const void *start,
                  size_t bytes)
{
    uintptr_t first = (uintptr_t)start, end = first + bytes, known = *lowest;
    while (first < known && !atomic_compare_exchange_weak(lowest, &known, first))
        ;
    known = *highest;
    while (end > known && !atomic_compare_exchange_weak(highest, &known, end))
        ;
}

void roots_code_is_written(const void *start, size_t bytes)
{
    widen(&written_code_start, &written_code_end, start, bytes);
}

/* Bounds, as those above. */
static _Atomic uintptr_t uncopied_start = UINTPTR_MAX, uncopied_end;

void roots_are_not_copied(const void *start, size_t bytes)
{
    widen(&uncopied_start, &uncopied_end, start, bytes);
}

bool roots_are_uncopied(uintptr_t start, uintptr_t end)
{
    return start >= uncopied_start && end <= uncopied_end;
}

char *roots_buffer(size_t *bytes)
{
    *bytes = BUFFER_BYTES;
    return roots.buffer;
}

bool roots_init(void)
{
    struct sysinfo information;
    roots.buffer = private_memory_map(BUFFER_BYTES);
    roots.memory_bytes = SIZE_MAX;
    if (!syscall_failed(SYSCALL_1(SYS_sysinfo, &information)))
        roots.memory_bytes = information.totalram * information.mem_unit;
    return roots.buffer && half_seen_init() && recorder_init();
}

static void scan_words(uintptr_t start, uintptr_t end)
{
    if (roots.code && roots.visitor->words_in_code)
        roots.visitor->words_in_code((const void *)start, (const void *)end);
    else
        roots.visitor->words((const void *)start, (const void *)end);
}

static void scan_in_place(uintptr_t start, uintptr_t end)
{
    roots.result->bytes += end - start;
    scan_words(start, end);
}

static long copy_out(uintptr_t start, size_t bytes)
{
    return SYSCALL_4(SYS_pread64, roots.memory_file, roots.buffer, bytes, start);
}

/* As far as it can be read. */
static void scan_copied(uintptr_t start, uintptr_t end)
{
    long bytes = copy_out(start, end - start);
    roots.lacks_pages |= syscall_failed(bytes);
    if (!syscall_failed(bytes))
        scan_words((uintptr_t)roots.buffer, (uintptr_t)roots.buffer + (uintptr_t)bytes);
}

/* Reads page by page. A page that cannot be read is a guard, or lies behind the end of its file, so
 * the program has nothing there either; but see can_read_without_permission. Of each other page a
 * word that begins in it and ends in the next page is read, too. */
static void scan_by_pages(uintptr_t start, uintptr_t chunk_end, uintptr_t end)
{
    for (uintptr_t page_end; start < chunk_end; start = page_end) {
        size_t bytes = PAGE_BYTES - start % PAGE_BYTES;
        page_end = chunk_end - start > bytes ? start + bytes : chunk_end; /* 2^64 is 0 */
        scan_copied(start, end - page_end > sizeof(uintptr_t) ? page_end + sizeof(uintptr_t) : end);
    }
}

static void scan_through_file(uintptr_t start, uintptr_t end)
{
    roots.result->indirect_bytes += end - start;
    while (start < end) {
        size_t bytes = end - start < BUFFER_BYTES ? end - start : BUFFER_BYTES;
        long copied = copy_out(start, bytes);
        if (copied == (long)bytes)
            scan_words((uintptr_t)roots.buffer, (uintptr_t)roots.buffer + bytes);
        else
            scan_by_pages(start, start + bytes, end);
        start +=
            start + bytes < end ? bytes - sizeof(uintptr_t) : bytes; /* a word may lie across */
    }
}

/* Words that begin before an address and end behind it: where two ranges meet. Beside them it reads
 * the last word before the address, and the first one from it on. */
static void scan_across(uintptr_t at, bool in_place)
{
    _Alignas(uintptr_t) char copy[2 * sizeof(uintptr_t)];
    const void *start = (const void *)(at - sizeof copy / 2);
    long bytes = sizeof copy;
    if (in_place)
        memcpy(copy, start, sizeof copy);
    else
        bytes = SYSCALL_4(SYS_pread64, roots.memory_file, copy, sizeof copy, start);
    if (bytes == sizeof copy)
        scan_words((uintptr_t)copy, (uintptr_t)copy + sizeof copy);
}

/* A word may lie across this range and the last one. Both may be of the same mapping or not. */
static void scan_range(uintptr_t start, uintptr_t end, bool in_place)
{
    bool joins = start == roots.read_end;
    if (in_place && joins)
        scan_across(start, roots.read_in_place);
    if (in_place)
        scan_in_place(start, end);
    else
        scan_through_file(joins ? start - sizeof(uintptr_t) : start, end);
    roots.read_end = end;
    roots.read_in_place = in_place;
}

static void scan_but_excluded(uintptr_t start, uintptr_t end, bool in_place)
{
    for (size_t i = 0; i < EXCLUDED_RANGES; i++) {
        const struct excluded_range *excluded = &roots.visitor->excluded[i];
        uintptr_t excluded_start = round_down((uintptr_t)excluded->start, sizeof(uintptr_t));
        uintptr_t excluded_end = round_up(excluded_start + excluded->bytes, sizeof(uintptr_t));
        if (excluded_end <= start || excluded_start >= end)
            continue;
        if (excluded_start > start)
            scan_range(start, excluded_start, in_place);
        start = excluded_end;
    }
    if (start < end)
        scan_range(start, end, in_place);
}

static void scan_written(void *unused, uintptr_t start, uintptr_t end, bool readable)
{
    (void)unused;
    scan_but_excluded(start, end, readable && !roots.through_file);
}

static uintptr_t skip_program_memory(uintptr_t start, uintptr_t end)
{
    while (start < end && !granule_map_is_ours(start)) {
        uintptr_t heaps = granule_map_skip_empty(&owners, start, end);
        uintptr_t beside = granule_map_skip_empty(&beside_heaps, start, end);
        uintptr_t next = heaps < beside ? heaps : beside;
        start = next > start ? next : round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
    }
    return start < end ? start : end;
}

static uintptr_t skip_heap_memory(uintptr_t start, uintptr_t end)
{
    while (start < end && granule_map_is_ours(start))
        start = round_down(start, GRANULE_BYTES) + GRANULE_BYTES;
    return start < end ? start : end;
}

/* Scans the pages of a mapping that the process has written to, without the heap's memory. The
 * kernel is not asked about the heap's pages: to walk their page tables takes it longer than all
 * the rest. */
static bool scan_program_memory(uintptr_t start, uintptr_t end)
{
    while (start < end) {
        uintptr_t heap = skip_program_memory(start, end);
        if (heap > start && !resident_each(start, heap, scan_written, NULL))
            return false;
        start = skip_heap_memory(heap, end);
    }
    return true;
}

static void scan_shared_pages(uintptr_t start, uintptr_t end)
{
    if (start < end)
        scan_range(start, end, !roots.through_file);
}

/* Shared memory: mincore tells of all pages that the kernel has, whoever wrote them. */
static void scan_shared(const struct mapping *mapping)
{
    enum { PAGES = 512 };
    unsigned char in_memory[PAGES];
    uintptr_t run = mapping->start; /* of pages in memory, to where we are */
    for (uintptr_t start = mapping->start; start < mapping->end; start += PAGES * PAGE_BYTES) {
        size_t pages = (mapping->end - start) / PAGE_BYTES;
        if (pages > PAGES)
            pages = PAGES;
        bool known = !syscall_failed(SYSCALL_3(SYS_mincore, start, pages * PAGE_BYTES, in_memory));
        for (size_t page = 0; page < pages; page++) {
            uintptr_t at = start + page * PAGE_BYTES;
            if (known && !(in_memory[page] & 1)) {
                scan_shared_pages(run, at);
                run = at + PAGE_BYTES;
            }
        }
    }
    scan_shared_pages(run, mapping->end);
}

static void scan_shared_run(void *unused, uintptr_t start, uintptr_t end, bool readable)
{
    (void)unused;
    (void)readable;
    scan_range(start, end, false);
}

/* Stacks. */

static bool is_in(uintptr_t address, const struct mapping *mapping)
{
    return address >= mapping->start && address < mapping->end;
}

extern void *__libc_stack_end __attribute__((weak));

/* The first thread's. Valgrind makes it from other memory than the kernel does. */
static bool is_first_stack(const struct mapping *mapping)
{
    size_t ranges;
    recorder_ranges(&ranges);
    return mapping_is_named(mapping, "[stack]") ||
           (ranges > 0 && &__libc_stack_end && is_in((uintptr_t)__libc_stack_end, mapping));
}

struct stack_use {
    unsigned threads; /* whose stack pointer is in the mapping */
    uintptr_t lowest; /* in use */
    bool is_own;      /* a thread's own stack, as far as the thread tells */
};

static void note_stack(struct stack_use *use, const struct stopped_thread *thread,
                       const struct mapping *mapping)
{
    uintptr_t pointer = thread->stack_pointer;
    bool on_alternate = pointer >= thread->alternate_start && pointer < thread->alternate_end;
    use->threads++;
    use->lowest = pointer - RED_ZONE;
    if (is_in(thread->frame, mapping) && thread->frame < use->lowest)
        use->lowest = thread->frame;
    bool is_below_control =
        is_in(thread->thread_pointer, mapping) && pointer < thread->thread_pointer;
    use->is_own = !on_alternate && (is_first_stack(mapping) || is_below_control);
}

static void note_swapped(void *found, uintptr_t start, uintptr_t end, bool readable)
{
    (void)start;
    (void)end;
    *(bool *)found |= !readable;
}

/* Whether pages of a mapping below an address may be marked as guards (MADV_GUARD_INSTALL, Linux
 * 6.13), which the kernel calls swapped. Where it cannot scan there are no marks. */
static bool has_marked_guard(const struct mapping *mapping, uintptr_t end)
{
    bool found = false;
    return !resident_is_slow() &&
           (!resident_each(mapping->start, round_down(end, PAGE_BYTES), note_swapped, &found) ||
            found);
}

/* Whether the guard that a thread's own stack has is the mapping below. A guard within the mapping
 * may be it, and the mapping below another stack's. */
static bool has_guard(const struct mapping *mapping, const struct mapping *below, uintptr_t lowest)
{
    return below && below->end == mapping->start && !below->readable && !below->writable &&
           !has_marked_guard(mapping, lowest);
}

/* Where the part in use of a stack mapping begins; the mapping's start for all others. */
static uintptr_t lowest_in_use(const struct mapping *mapping, const struct mapping *below,
                               const struct stopped_thread *self)
{
    struct stack_use use = {0};
    if (is_in(self->stack_pointer, mapping))
        note_stack(&use, self, mapping);
    for (size_t i = 0; i < stopped_count(); i++) {
        struct stopped_thread thread = stopped_thread(i);
        if (is_in(thread.stack_pointer, mapping))
            note_stack(&use, &thread, mapping);
    }
    if (use.threads != 1 || !use.is_own || use.lowest < mapping->start)
        return mapping->start;
    bool guarded = is_first_stack(mapping)
                       ? !atomic_load_explicit(&first_stack_too, memory_order_relaxed)
                       : !atomic_load_explicit(&stacks_are_given, memory_order_relaxed) &&
                             has_guard(mapping, below, use.lowest);
    return guarded ? round_down(use.lowest, sizeof(uintptr_t)) : mapping->start;
}

static bool has_stack_pointer(const struct mapping *mapping, const struct stopped_thread *thread)
{
    return is_in(thread->stack_pointer, mapping);
}

static bool is_of_thread(const struct mapping *mapping, const struct stopped_thread *thread)
{
    return has_stack_pointer(mapping, thread) || is_in(thread->thread_pointer, mapping) ||
           is_in(thread->alternate_start, mapping);
}

static bool any_thread(bool is_so(const struct mapping *mapping,
                                  const struct stopped_thread *thread),
                       const struct mapping *mapping)
{
    bool found = is_so(mapping, &roots.self);
    for (size_t i = 0; !found && i < stopped_count(); i++) {
        struct stopped_thread thread = stopped_thread(i);
        found = is_so(mapping, &thread);
    }
    return found;
}

static bool has_stack(const struct mapping *mapping)
{
    return is_first_stack(mapping) || any_thread(has_stack_pointer, mapping);
}

static bool is_kernels(const struct mapping *mapping)
{
    return mapping_name_begins(mapping, "[v") || mapping_name_begins(mapping, "[uprobes");
}

static bool is_file(const struct mapping *mapping)
{
    return mapping_name_begins(mapping, "/");
}

static bool is_deleted(const struct mapping *mapping)
{
    static const char DELETED[] = " (deleted)";
    const size_t length = sizeof DELETED - 1;
    return mapping->name_length >= length &&
           memcmp(mapping->name + mapping->name_length - length, DELETED, length) == 0;
}

/* Not of a file, or of one that has no name any more. */
static bool is_shared_memory(const struct mapping *mapping)
{
    return mapping_name_begins(mapping, "/dev/shm/") ||
           mapping_name_begins(mapping, "[anon_shmem:") || is_deleted(mapping);
}

/* What lies below /dev may be files all the same. What cannot be found there is a device, which
 * must not be read. Shared memory is not looked for: the program may have changed its root. */
static bool is_device(const struct mapping *mapping)
{
    char name[256];
    struct stat status;
    if (mapping_name_begins(mapping, "/sys/") || mapping_name_begins(mapping, "/proc/"))
        return true;
    if (!mapping_name_begins(mapping, "/dev/") || is_shared_memory(mapping))
        return false;
    if (mapping->name_length >= sizeof name)
        return true;
    memcpy(name, mapping->name, mapping->name_length);
    name[mapping->name_length] = '\0';
    return syscall_failed(SYSCALL_4(SYS_newfstatat, AT_FDCWD, name, &status, 0)) ||
           !S_ISREG(status.st_mode);
}

static bool is_secret(const struct mapping *mapping)
{
    return mapping_name_begins(mapping, "/secretmem");
}

static bool is_unwritten_text(const struct mapping *mapping)
{
    return mapping->executable && !mapping->writable && is_file(mapping) &&
           (mapping->end <= written_code_start || mapping->start >= written_code_end);
}

/* The report of a snapshot's child. */
static bool is_own_record(const struct mapping *mapping)
{
    return granule_map_get((const void *)mapping->start) == &private_memory_owner;
}

static bool holds_no_roots(const struct mapping *mapping)
{
    if (mapping->shared)
        return is_own_record(mapping) || is_device(mapping) ||
               !(mapping->writable || is_shared_memory(mapping));
    return is_kernels(mapping) || is_unwritten_text(mapping);
}

/* See above. The kernel may have joined pages of a block to the program's own, below or above. Not
 * all of a mapping is searched: it may be a reserved terabyte. */
static bool has_untouchable_block(const struct mapping *mapping)
{
    return !process_may_be_touched(mapping) && !(mapping->shared && is_own_record(mapping)) &&
           (granule_map_is_ours(mapping->start) || granule_map_is_ours(mapping->end - 1));
}

/* Whether a block lies, in part, between two mappings. */
static bool is_hole_in_block(const struct mapping *below, const struct mapping *above)
{
    return below->end < above->start && (granule_map_get((const void *)below->end) ||
                                         granule_map_get((const void *)(above->start - 1)));
}

/* The heap's memory at both ends. */
static void tell_untouchable(uintptr_t start, uintptr_t end)
{
    uintptr_t last = end;
    if (!roots.visitor->untouchable)
        return;
    while (last > start && granule_map_is_ours(last - 1))
        last = round_down(last - 1, GRANULE_BYTES);
    roots.visitor->untouchable(start, skip_heap_memory(start, end));
    roots.visitor->untouchable(last > start ? last : start, end);
}

/* Returns whether there are any. */
static bool tell_untouchable_blocks(const struct mapping *mappings, size_t count)
{
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && is_hole_in_block(&mappings[i - 1], &mappings[i])) {
            tell_untouchable(mappings[i - 1].end, mappings[i].start);
            any = true;
        }
        if (has_untouchable_block(&mappings[i])) {
            tell_untouchable(mappings[i].start, mappings[i].end);
            any = true;
        }
    }
    return any;
}

/* Before all words. */
static void tell_of_unreadable(const struct mapping *mappings, size_t count)
{
    bool beware = atomic_load_explicit(&pages_may_fault, memory_order_relaxed);
    if (roots.visitor->unreadable_blocks && (tell_untouchable_blocks(mappings, count) || beware))
        roots.visitor->unreadable_blocks(beware);
}

static bool scan_shared_mapping(const struct mapping *mapping)
{
    roots.through_file = !(is_secret(mapping) && mapping->readable);
    if (mapping->end - mapping->start > roots.memory_bytes)
        return mapping->is_empty ||
               resident_each_shared(mapping->start, mapping->end, scan_shared_run, NULL);
    scan_shared(mapping);
    return true;
}

/* Whether a child of the process would not have it as it is: see above, Snapshots. */
static bool is_uncopied(const struct mapping *mapping)
{
    return mapping->shared || (mapping->start < uncopied_end && mapping->end > uncopied_start &&
                               !excepted_is_lent(mapping));
}

static bool is_of_part(const struct mapping *mapping)
{
    return roots.part == ALL || is_uncopied(mapping) == (roots.part == UNCOPIED);
}

/* What the process has of it, from `start` on, which may be above its first page. */
static bool scan_pages(const struct mapping *mapping, uintptr_t start)
{
    if (mapping->shared)
        return scan_shared_mapping(mapping);
    if (mapping->is_empty)
        return true;
    roots.through_file = !mapping->readable || is_file(mapping);
    uintptr_t first_page = round_down(start, PAGE_BYTES);
    if (start > first_page) { /* the page of the stack's lowest word in use, which is there */
        scan_range(start, first_page + PAGE_BYTES, true);
        first_page += PAGE_BYTES;
    }
    if (has_untouchable_block(mapping))
        return resident_each(first_page, mapping->end, scan_written, NULL);
    return scan_program_memory(first_page, mapping->end);
}

/* Whether the kernel lets a process read its own pages without read permission. Since Linux 6.12 it
 * may be told not to (proc_mem.force_override). */
static bool can_read_without_permission(void)
{
    char *page = private_memory_map(PAGE_BYTES), copy;
    if (!page)
        return false;
    *page = 1;
    SYSCALL_3(SYS_mprotect, page, PAGE_BYTES, PROT_NONE);
    long bytes = SYSCALL_4(SYS_pread64, roots.memory_file, &copy, 1, page);
    private_memory_unmap(page, PAGE_BYTES);
    return bytes == 1;
}

/* Reads what lies across two mappings of which the child visits only one. */
static void scan_between_parts(const struct mapping *below, const struct mapping *mapping)
{
    uintptr_t at = mapping->start;
    if (roots.part != UNCOPIED || !below || below->end != at ||
        is_uncopied(below) == is_uncopied(mapping) || holds_no_roots(below) ||
        granule_map_is_ours(at - 1) || granule_map_is_ours(at))
        return;
    if (roots.visitor->next_mapping)
        roots.visitor->next_mapping(has_stack(below) || has_stack(mapping));
    roots.code = mapping->executable;
    scan_across(at, false);
}

static bool scan_mapping(const struct mapping *mapping, const struct mapping *below,
                         const struct stopped_thread *self)
{
    if (holds_no_roots(mapping))
        return true;
    roots.result->mappings += roots.part != COPIED;
    uintptr_t start = mapping->shared ? mapping->start : lowest_in_use(mapping, below, self);
    bool half_seen = half_seen_note(mapping->start, mapping->end, start > mapping->start);
    roots.has_rings |= mapping_is_named(mapping, "anon_inode:[io_uring]");
    scan_between_parts(below, mapping);
    if (!is_of_part(mapping))
        return true;
    if (roots.visitor->next_mapping)
        roots.visitor->next_mapping(half_seen || has_stack(mapping));
    roots.code = mapping->executable;
    if (has_untouchable_block(mapping)) { /* the marker reads what is beside it */
        scan_across(mapping->start, false);
        scan_across(mapping->end, false);
    }
    roots.lacks_pages = false;
    return scan_pages(mapping, start) &&
           (mapping->readable || !roots.lacks_pages || can_read_without_permission());
}

/* The kernel may have joined memory of the recorder's to the program's. */
static bool scan_but_recorder(const struct mapping *mapping, const struct mapping *below,
                              const struct stopped_thread *self)
{
    size_t count;
    const uint64_t(*ranges)[2] = recorder_ranges(&count);
    struct mapping piece = *mapping;
    for (size_t i = 0; i < count && ranges[i][0] < mapping->end; i++) {
        if (ranges[i][1] <= piece.start)
            continue;
        piece.end = ranges[i][0];
        if (piece.start < piece.end && !scan_mapping(&piece, below, self))
            return false;
        piece.start = ranges[i][1];
        piece.end = mapping->end;
    }
    return piece.start >= piece.end || scan_mapping(&piece, below, self);
}

static void keep_buffer(uintptr_t address)
{
    roots.visitor->words(&address, &address + 1);
    if (roots.visitor->kernel_writes)
        roots.visitor->kernel_writes(address);
}

/* The range may be no memory any more, or never have been: so it is read by the kernel. The copy
 * must lie as the words did to a multiple of 8, for a visitor may look at these alone. */
static void scan_asked(uintptr_t start, uintptr_t end)
{
    scan_through_file(round_down(start, sizeof(uintptr_t)), end);
}

/* A pointer that is found here is no proof that the program hides pointers: it may have asked for
 * just this one because it hides it. So these words pass for those of a stack. */
static bool visit_asked(void)
{
    if (roots.visitor->next_mapping)
        roots.visitor->next_mapping(true);
    roots.code = false;
    return asked_roots_each(roots.visitor->words, scan_asked);
}

/* A stack may lie in a block: a coroutine's, from malloc, to which nothing else need point while it
 * runs. So may what a segment register leads to: a thread control block, for one. */
static void keep_stack(const struct stopped_thread *thread)
{
    uintptr_t words[] = {thread->stack_pointer, thread->alternate_start, thread->gs_base,
                         thread->thread_pointer};
    roots.visitor->words(words, words + sizeof words / sizeof words[0]);
}

/* A record of the calling thread, like those of the threads that stop_world() stopped. */
static struct stopped_thread own_stacks(uintptr_t stack_pointer)
{
    struct stopped_thread self = {
        .stack_pointer = stack_pointer, .frame = stack_pointer, .gs_base = stop_own_gs_base()};
    __asm__("mov %%fs:0, %0" : "=r"(self.thread_pointer));
    stack_t alternate;
    if (!syscall_failed(SYSCALL_2(SYS_sigaltstack, NULL, &alternate)) &&
        !(alternate.ss_flags & SS_DISABLE)) {
        self.alternate_start = (uintptr_t)alternate.ss_sp;
        self.alternate_end = self.alternate_start + alternate.ss_size;
    }
    return self;
}

static void keep_stacks(void)
{
    keep_stack(&roots.self);
    for (size_t i = 0; i < stopped_count(); i++) {
        struct stopped_thread thread = stopped_thread(i);
        keep_stack(&thread);
    }
}

static void begin_visit(enum part part, const struct root_visitor *visitor,
                        struct root_result *result)
{
    roots.part = part;
    roots.visitor = visitor;
    roots.result = result;
    roots.has_rings = false;
    roots.read_end = 0;
    roots.memory_file = process_file(PROCESS_MEMORY);
}

static bool scan_mappings(const struct mapping *mappings, size_t count)
{
    bool read = true;
    half_seen_begin();
    for (size_t i = 0; read && i < count; i++)
        read = scan_but_recorder(&mappings[i], i > 0 ? &mappings[i - 1] : NULL, &roots.self);
    half_seen_end(read);
    return read;
}

static void lend_excepted(const struct mapping *mappings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (excepted_may_be_lent(&mappings[i]) && !any_thread(is_of_thread, &mappings[i]))
            excepted_lend(&mappings[i]);
}

static uintptr_t address_space(const struct mapping *mappings, size_t count)
{
    uintptr_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += mappings[i].end - mappings[i].start;
    return bytes;
}

/* Where each page is asked for by itself, mappings with nothing in them are to be passed over. A
 * process that has more of them than the machine has memory has such. */
static bool read_mappings(const struct mapping **mappings, size_t *count)
{
    if (!process_read_mappings(mappings, count))
        return false;
    if (resident_is_slow() && address_space(*mappings, *count) > roots.memory_bytes)
        process_note_empty(roots.buffer, BUFFER_BYTES);
    return true;
}

static bool visit(enum part part, uintptr_t stack_pointer, const struct root_visitor *visitor,
                  struct root_result *result)
{
    const struct mapping *mappings;
    size_t count;
    *result = (struct root_result){0};
    begin_visit(part, visitor, result);
    roots.self = own_stacks(stack_pointer);
    keep_stacks();
    if (!recorder_refresh_ranges() || roots.memory_file < 0 || !read_mappings(&mappings, &count))
        return false;
    if (part == UNCOPIED && excepted_is_any() && process_pinned_kilobytes() == 0)
        lend_excepted(mappings, count);
    if (visitor->mapped)
        visitor->mapped(mappings, count);
    tell_of_unreadable(mappings, count);
    return scan_mappings(mappings, count) && visit_asked() &&
           (!roots.has_rings || io_uring_each_buffer(roots.buffer, BUFFER_BYTES, keep_buffer));
}

bool roots_visit(uintptr_t stack_pointer, const struct root_visitor *visitor,
                 struct root_result *result)
{
    return visit(ALL, stack_pointer, visitor, result);
}

/* A mark stack may have grown since the list was read. The child compares the list with what it
 * has, and would lack the smaller one. */
bool roots_visit_uncopied(uintptr_t stack_pointer, const struct root_visitor *visitor,
                          struct root_result *result)
{
    const struct mapping *mappings;
    size_t count;
    unsigned unmaps = private_memory_unmaps();
    return visit(UNCOPIED, stack_pointer, visitor, result) &&
           (private_memory_unmaps() == unmaps || read_mappings(&mappings, &count));
}

/* The mappings that the parent has read: the child has the same. */
bool roots_visit_copied(const struct root_visitor *visitor, struct root_result *result)
{
    size_t count;
    const struct mapping *mappings = process_last_mappings(&count);
    begin_visit(COPIED, visitor, result);
    return roots.memory_file >= 0 && scan_mappings(mappings, count);
}
