/* SPDX-License-Identifier: MIT
 *
 * test_roots.c: which words of the process are handed over as roots, and how much of a stack. The
 * threads are not stopped here: there is one, or the others have nothing that is looked for. What
 * a whole collection finds is in test_collection.c.
 */
#include "gc/world/roots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "gc/world/excepted.h"
#include "gc/world/stop.h"
#include "tests/unit/unit.h"
#include "vm/granule_map.h"
#include "vm/kernel/process.h"
#include "vm/kernel/resident.h"
#include "vm/owner.h"
#include "vm/pages.h"
#include "vm/window.h"

enum { WANTED = 4, FIRST_WORDS = 4 };

/* What is looked for, as complements: so they are none of it. */
static uint64_t complements[WANTED];
static bool is_seen[WANTED];
static uint64_t last_value = UINT64_C(0x1CEB00DA5C0FFEE1);

/* What else the visitor was told. */
static struct {
    uintptr_t first_words[FIRST_WORDS];
    bool is_first_seen;
    unsigned times_unreadable;
    bool only_resident;
} told;

static void look_at_every(const void *start, const void *end, size_t step)
{
    for (const char *at = start; at + sizeof(uint64_t) <= (const char *)end; at += step) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        for (int i = 0; i < WANTED; i++)
            is_seen[i] |= ~word == complements[i];
    }
}

static void look_at_words(const void *start, const void *end)
{
    if (!told.is_first_seen && (const char *)end - (const char *)start == sizeof told.first_words)
        memcpy(told.first_words, start, sizeof told.first_words);
    told.is_first_seen = true;
    look_at_every(start, end, 4);
}

static void look_at_code(const void *start, const void *end)
{
    look_at_every(start, end, 1);
}

static void note_unreadable(bool only_resident)
{
    told.times_unreadable++;
    told.only_resident = only_resident;
}

static __attribute__((noinline)) bool visit_below(uintptr_t stack_pointer)
{
    const struct root_visitor visitor = {.words = look_at_words,
                                         .words_in_code = look_at_code,
                                         .unreadable_blocks = note_unreadable};
    struct root_result result;
    memset(is_seen, 0, sizeof is_seen);
    memset(&told, 0, sizeof told);
    return resident_open() && roots_visit(stack_pointer, &visitor, &result);
}

static __attribute__((noinline)) bool visit(void)
{
    return visit_below((uintptr_t)__builtin_frame_address(0));
}

/* Writes a value there that was never anywhere, and looks for it as number `i`. */
static __attribute__((noinline)) void put(void *at, int i)
{
    last_value = last_value * UINT64_C(6364136223846793005) + 1442695040888963407;
    complements[i] = ~last_value;
    memcpy(at, &last_value, sizeof last_value);
    last_value = ~last_value; /* nor is it here */
}

static char *map(size_t bytes, int protection, int flags)
{
    char *pages = mmap(NULL, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    return pages;
}

/* Stacks. */

static void test_the_own_stack_counts_from_the_red_zone_on(void **state)
{
    (void)state;
    char area[3 * PAGE_BYTES] __attribute__((aligned(16)));
    memset(area, 0, sizeof area);
    char *pointer = area + PAGE_BYTES + PAGE_BYTES / 2;
    put(pointer + 64, 0);
    put(pointer - 128, 1);
    put(pointer - 144, 2);
    put(pointer - PAGE_BYTES, 3);
    assert_true(visit_below((uintptr_t)pointer));
    assert_true(is_seen[0]);
    assert_true(is_seen[1]);
    assert_false(is_seen[2]);
    assert_false(is_seen[3]);
    assert_int_equal(told.first_words[0], pointer);
    assert_int_equal(told.first_words[3], pthread_self());
}

/* The page of the lowest word in use is read by itself. */
static void test_a_word_across_the_first_page_edge_of_a_stack_counts(void **state)
{
    (void)state;
    char area[3 * PAGE_BYTES] __attribute__((aligned(16)));
    memset(area, 0, sizeof area);
    char *edge = (char *)round_up((uintptr_t)area + PAGE_BYTES, PAGE_BYTES);
    put(edge - 4, 0);
    put(edge - PAGE_BYTES / 2, 1);
    assert_true(visit_below((uintptr_t)edge - PAGE_BYTES / 4));
    assert_true(is_seen[0]);
    assert_false(is_seen[1]);
}

static __attribute__((noinline)) void put_below_the_stack(int i)
{
    put((char *)__builtin_frame_address(0) - (64 << 10), i);
}

static void *visit_before_and_after_stacks_are_given(void *unused)
{
    uint64_t here;
    put(&here, 0);
    put_below_the_stack(1);
    require(visit());
    require(is_seen[0] && !is_seen[1]);
    roots_stacks_are_given(false);
    require(visit());
    require(is_seen[0] && is_seen[1]);
    return unused;
}

static void run_in_thread(void *body)
{
    pthread_t thread;
    require(process_forked());
    require(pthread_create(&thread, NULL, *(void *(**)(void *))body, NULL) == 0);
    pthread_join(thread, NULL);
}

static void test_dead_words_of_a_stack_count_once_the_program_has_given_one(void **state)
{
    (void)state;
    void *(*body)(void *) = visit_before_and_after_stacks_are_given;
    assert_child_succeeds(run_in_thread, &body);
}

static volatile sig_atomic_t visited;

static void visit_in_handler(int number)
{
    (void)number;
    visited = visit();
}

static __attribute__((noinline)) void raise_with_a_value_in_this_frame(void)
{
    uint64_t here;
    put(&here, 0);
    raise(SIGUSR1);
    __asm__ volatile("" : : "r"(&here) : "memory");
}

/* The handler's stack lies above the frames that it has interrupted, in the same mapping. */
static void *visit_on_an_alternate_stack_in_this_frame(void *unused)
{
    char area[64 << 10];
    const stack_t alternate = {.ss_sp = area, .ss_size = sizeof area};
    const struct sigaction action = {.sa_handler = visit_in_handler, .sa_flags = SA_ONSTACK};
    require(sigaltstack(&alternate, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    raise_with_a_value_in_this_frame();
    require(visited);
    require(is_seen[0]);
    require(told.first_words[1] == (uintptr_t)area); /* it may lie in a block as well */
    return unused;
}

static void test_on_an_alternate_stack_the_whole_mapping_counts(void **state)
{
    (void)state;
    void *(*body)(void *) = visit_on_an_alternate_stack_in_this_frame;
    assert_child_succeeds(run_in_thread, &body);
}

/* Files and shared memory. */

static int make_file(char name[static 32], size_t bytes)
{
    strcpy(name, "/tmp/test_roots_XXXXXX");
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)bytes), 0);
    return file;
}

static void test_text_of_a_file_counts_from_when_the_program_has_written_code_there(void **state)
{
    (void)state;
    char name[32];
    int file = make_file(name, 2 * PAGE_BYTES);
    char *text = mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    assert_ptr_not_equal(text, MAP_FAILED);
    put(text + PAGE_BYTES + 13, 0);
    assert_int_equal(mprotect(text, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
    assert_true(visit());
    assert_false(is_seen[0]);
    roots_code_is_written(text + PAGE_BYTES, 100);
    assert_true(visit());
    assert_true(is_seen[0]); /* at an odd address, as instructions have it */
    munmap(text, 2 * PAGE_BYTES);
    close(file);
    unlink(name);
}

static void test_a_shared_file_that_cannot_be_written_counts_when_nobody_can_open_it(void **state)
{
    (void)state;
    char name[32];
    int file = make_file(name, PAGE_BYTES);
    char *shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    put(shared, 0);
    assert_true(visit());
    assert_true(is_seen[0]);
    assert_int_equal(mprotect(shared, PAGE_BYTES, PROT_READ), 0);
    assert_true(visit());
    assert_false(is_seen[0]);
    unlink(name); /* from here on it is memory */
    assert_true(visit());
    assert_true(is_seen[0]);
    munmap(shared, PAGE_BYTES);
    close(file);
}

static void test_what_another_process_writes_to_shared_memory_counts(void **state)
{
    (void)state;
    int status;
    char *shared = map(8 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED);
    put(&shared[0], 0);
    uint64_t complement = complements[0];
    shared[0] = 0; /* this process has that page, and never had the other */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        uint64_t value = ~complement;
        memcpy(shared + 5 * PAGE_BYTES, &value, sizeof value);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(visit());
    assert_true(is_seen[0]);
    munmap(shared, 8 * PAGE_BYTES);
}

/* Words across two mappings: 0 in data, 1 in code, 2 beside a page that is read by copy, 3 between
 * two such pages. */
static void test_words_across_two_mappings_count(void **state)
{
    (void)state;
    char *data = map(4 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    char *code = map(2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE);
    put(data + PAGE_BYTES - 4, 0);
    put(code + PAGE_BYTES - 3, 1);
    put(data + 2 * PAGE_BYTES - 4, 2);
    put(data + 3 * PAGE_BYTES - 4, 3);
    assert_int_equal(mprotect(data + PAGE_BYTES, PAGE_BYTES, PROT_READ), 0);
    assert_int_equal(mprotect(data + 2 * PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
    assert_int_equal(mprotect(data + 3 * PAGE_BYTES, PAGE_BYTES, PROT_WRITE), 0);
    assert_int_equal(mprotect(code + PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
    assert_true(visit());
    for (int i = 0; i < WANTED; i++)
        assert_true(is_seen[i]);
    munmap(data, 4 * PAGE_BYTES);
    munmap(code, 2 * PAGE_BYTES);
}

/* Of a kernel that reads nothing by force. */
static void refuse_memory_file(int file)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)file, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void visit_where_nothing_is_forced(void *unused)
{
    (void)unused;
    require(process_forked());
    char *page = map(PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    put(page, 0);
    require(mprotect(page, PAGE_BYTES, PROT_NONE) == 0);
    require(visit() && is_seen[0]);
    refuse_memory_file(process_file(PROCESS_MEMORY));
    require(!visit());
    require(munmap(page, PAGE_BYTES) == 0);
    map(PAGE_BYTES, PROT_NONE, MAP_PRIVATE); /* nothing is in it */
    require(visit());
}

static void test_a_page_that_the_kernel_lets_nobody_read_fails_the_visit(void **state)
{
    (void)state;
    assert_child_succeeds(visit_where_nothing_is_forced, NULL);
}

static void test_a_guard_without_rights_does_not_fail_the_visit(void **state)
{
    (void)state;
    char *pages = map(2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    put(pages, 0);
    bool has_guards = madvise(pages + PAGE_BYTES, PAGE_BYTES, ADVICE_GUARD_INSTALL) == 0;
    assert_int_equal(mprotect(pages, 2 * PAGE_BYTES, PROT_NONE), 0);
    assert_true(visit());
    assert_true(is_seen[0]);
    munmap(pages, 2 * PAGE_BYTES);
    if (!has_guards)
        skip(); /* before Linux 6.13 */
}

/* Reservations. */

enum { RESERVATION_SHIFT = 43 };
static const size_t RESERVATION_BYTES = (size_t)1 << RESERVATION_SHIFT;
static const uintptr_t RESERVATIONS = (uintptr_t)4 << RESERVATION_SHIFT;

/* The first, or the second. Larger than any machine's memory. */
static char *reserve(int protection, int flags, size_t number)
{
    char *place = (char *)RESERVATIONS + number * RESERVATION_BYTES;
    char *pages = mmap(place, RESERVATION_BYTES, protection,
                       flags | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    require(pages == place);
    return pages;
}

/* Of a kernel without scans, which moreover tells of no page of the two reservations. An entry of
 * eight bytes for each page: an offset is an address divided by 512. */
static void refuse_scans_and_entries(int file)
{
    const uint32_t first = (uint32_t)(RESERVATIONS >> 41);
    const uint32_t end = first + (2U << (RESERVATION_SHIFT - 41));
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)file, 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pread64, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 3),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, end, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void visit_beside_reservations(void *unused)
{
    (void)unused;
    require(process_forked());
    char *page = map(PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    put(page, 0);
    reserve(PROT_NONE, MAP_PRIVATE, 0);
    char *shared = reserve(PROT_READ | PROT_WRITE, MAP_SHARED, 1);
    refuse_scans_and_entries(process_file(PROCESS_PAGEMAP));
    require(visit() && is_seen[0]);
    put(shared + RESERVATION_BYTES / 2, 1);
    require(!visit()); /* it is to be read, which takes seconds where the kernel tells */
}

static void test_reservations_with_nothing_in_them_are_not_asked_for_by_page(void **state)
{
    (void)state;
    assert_child_succeeds(visit_beside_reservations, NULL);
}

/* Memory of the heap. */

enum { GRANULES = 4 };
static struct owner heap_owner = {OWNER_ARENA};

/* Granules of which the heap has the second and the third; all of one mapping. */
static char *map_beside_heap(void)
{
    char *pages = pages_map(GRANULES * GRANULE_BYTES, GRANULE_BYTES);
    assert_non_null(pages);
    assert_true(granule_map_set(pages + GRANULE_BYTES, 2 * GRANULE_BYTES, &heap_owner));
    for (int i = 0; i < GRANULES; i++)
        put(pages + (size_t)i * GRANULE_BYTES + 24, i);
    return pages;
}

static void unmap_beside_heap(char *pages)
{
    granule_map_set(pages + GRANULE_BYTES, 2 * GRANULE_BYTES, NULL);
    pages_unmap(pages, GRANULES * GRANULE_BYTES);
}

static void test_memory_of_the_heap_is_no_root_and_its_neighbours_are(void **state)
{
    (void)state;
    char *pages = map_beside_heap();
    assert_true(visit());
    for (int i = 0; i < GRANULES; i++)
        assert_int_equal(is_seen[i], i == 0 || i == GRANULES - 1);
    assert_int_equal(told.times_unreadable, 0);
    unmap_beside_heap(pages);
}

static void test_a_block_that_cannot_be_read_is_read_with_the_roots(void **state)
{
    (void)state;
    char *pages = map_beside_heap();
    assert_int_equal(mprotect(pages + GRANULE_BYTES, GRANULE_BYTES, PROT_NONE), 0);
    assert_true(visit());
    assert_true(is_seen[1]);
    assert_false(is_seen[2]); /* the marker reads it when it comes to it */
    assert_int_equal(told.times_unreadable, 1);
    assert_false(told.only_resident);
    assert_int_equal(mprotect(pages + GRANULE_BYTES, GRANULE_BYTES, PROT_READ | PROT_WRITE), 0);
    unmap_beside_heap(pages);
}

/* 0 and 1: across the edges of the page that cannot be read; 2: in the words beside that page, of
 * which no more than one each is read with it. */
static void test_words_across_the_edges_of_what_cannot_be_read_count(void **state)
{
    (void)state;
    char *pages = map_beside_heap(), *part = pages + GRANULE_BYTES + PAGE_BYTES;
    put(part - 4, 0);
    put(part + PAGE_BYTES - 4, 1);
    put(part - 16, 2);
    assert_int_equal(mprotect(part, PAGE_BYTES, PROT_NONE), 0);
    assert_true(visit());
    assert_true(is_seen[0]);
    assert_true(is_seen[1]);
    assert_false(is_seen[2]);
    assert_int_equal(mprotect(part, PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
    unmap_beside_heap(pages);
}

static void test_a_block_with_a_hole_cannot_be_read(void **state)
{
    (void)state;
    char *pages = map_beside_heap();
    assert_int_equal(munmap(pages + GRANULE_BYTES + PAGE_BYTES, PAGE_BYTES), 0);
    assert_true(visit());
    assert_int_equal(told.times_unreadable, 1);
    assert_false(told.only_resident);
    unmap_beside_heap(pages);
}

static void say_that_pages_may_fault(void *unused)
{
    (void)unused;
    require(process_forked());
    require(!roots_pages_fault());
    require(visit() && told.times_unreadable == 0);
    roots_pages_may_fault();
    require(roots_pages_fault());
    require(visit() && told.times_unreadable == 1 && told.only_resident);
}

static void test_where_pages_may_fault_only_those_in_memory_are_touched(void **state)
{
    (void)state;
    assert_child_succeeds(say_that_pages_may_fault, NULL);
}

/* Snapshots: what the parent reads, and what the child. */

static void visit_part(bool visit_one(uintptr_t, const struct root_visitor *, struct root_result *))
{
    const struct root_visitor visitor = {.words = look_at_words};
    struct root_result result;
    memset(is_seen, 0, sizeof is_seen);
    require(resident_open() && visit_one((uintptr_t)__builtin_frame_address(0), &visitor, &result));
}

static bool visit_copied(uintptr_t stack_pointer, const struct root_visitor *visitor,
                         struct root_result *result)
{
    (void)stack_pointer;
    return roots_visit_copied(visitor, result);
}

static void except(char *start, size_t bytes)
{
    roots_are_not_copied(start, bytes);
    require(madvise(start, bytes, MADV_DONTFORK) == 0);
    excepted_note(start, bytes);
}

/* 0: in what can be lent; 1: in less than a granule. */
static void visit_excepted(void *unused)
{
    (void)unused;
    require(process_forked());
    char *place = map(4 * GRANULE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    char *small = map(3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE) + PAGE_BYTES;
    except(place, 4 * GRANULE_BYTES);
    except(small, PAGE_BYTES);
    put(place + 600, 0);
    put(small, 1);
    visit_part(roots_visit_uncopied);
    require(!is_seen[0] && is_seen[1]);
    visit_part(visit_copied);
    require(is_seen[0] && !is_seen[1]);
    excepted_take_back();
    require(visit() && is_seen[0] && is_seen[1]);
    excepted_forget(place, 1);
    visit_part(roots_visit_uncopied);
    require(is_seen[0] && is_seen[1]);
    excepted_take_back();
}

/* 0 and 1: across the edges of a page that the child does not have. */
static void visit_between_parts(void *unused)
{
    (void)unused;
    require(process_forked());
    char *pages = map(3 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    except(pages + PAGE_BYTES, PAGE_BYTES);
    put(pages + PAGE_BYTES - 4, 0);
    put(pages + 2 * PAGE_BYTES - 4, 1);
    visit_part(roots_visit_uncopied);
    bool seen[] = {is_seen[0], is_seen[1]};
    visit_part(visit_copied);
    require((seen[0] || is_seen[0]) && (seen[1] || is_seen[1]));
}

static void test_words_across_what_the_child_has_and_has_not_count(void **state)
{
    (void)state;
    assert_child_succeeds(visit_between_parts, NULL);
}

/* What comes to lie in its place unseen would lack in the program's children. */
static void lend_stack(void *unused)
{
    (void)unused;
    char *place = map(4 * GRANULE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    const struct root_visitor visitor = {.words = look_at_words};
    struct root_result result;
    require(process_forked());
    except(place, 4 * GRANULE_BYTES);
    put(place + 600, 0);
    stack_t stack = {.ss_sp = place, .ss_size = 2 * GRANULE_BYTES};
    require(sigaltstack(&stack, NULL) == 0);
    memset(is_seen, 0, sizeof is_seen);
    require(resident_open() &&
            roots_visit_uncopied((uintptr_t)__builtin_frame_address(0), &visitor, &result));
    require(is_seen[0]);
    excepted_take_back();
}

static void test_a_threads_stack_is_not_lent(void **state)
{
    (void)state;
    assert_child_succeeds(lend_stack, NULL);
}

static void test_what_is_excepted_the_child_reads_if_it_is_lent(void **state)
{
    (void)state;
    assert_child_succeeds(visit_excepted, NULL);
}

static int start(void **state)
{
    (void)state;
    window_init(4);
    excepted_init();
    return process_open() && stop_init() && roots_init() ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_own_stack_counts_from_the_red_zone_on),
        cmocka_unit_test(test_a_word_across_the_first_page_edge_of_a_stack_counts),
        cmocka_unit_test(test_dead_words_of_a_stack_count_once_the_program_has_given_one),
        cmocka_unit_test(test_on_an_alternate_stack_the_whole_mapping_counts),
        cmocka_unit_test(test_text_of_a_file_counts_from_when_the_program_has_written_code_there),
        cmocka_unit_test(test_a_shared_file_that_cannot_be_written_counts_when_nobody_can_open_it),
        cmocka_unit_test(test_what_another_process_writes_to_shared_memory_counts),
        cmocka_unit_test(test_words_across_two_mappings_count),
        cmocka_unit_test(test_a_page_that_the_kernel_lets_nobody_read_fails_the_visit),
        cmocka_unit_test(test_a_guard_without_rights_does_not_fail_the_visit),
        cmocka_unit_test(test_reservations_with_nothing_in_them_are_not_asked_for_by_page),
        cmocka_unit_test(test_memory_of_the_heap_is_no_root_and_its_neighbours_are),
        cmocka_unit_test(test_a_block_that_cannot_be_read_is_read_with_the_roots),
        cmocka_unit_test(test_words_across_the_edges_of_what_cannot_be_read_count),
        cmocka_unit_test(test_a_block_with_a_hole_cannot_be_read),
        cmocka_unit_test(test_where_pages_may_fault_only_those_in_memory_are_touched),
        cmocka_unit_test(test_what_is_excepted_the_child_reads_if_it_is_lent),
        cmocka_unit_test(test_words_across_what_the_child_has_and_has_not_count),
        cmocka_unit_test(test_a_threads_stack_is_not_lent),
    };
    if (UNDER_SANITIZER)
        return 77; /* as in tests/gc/world/test_collection.c */
    return cmocka_run_group_tests_name("roots", tests, start, NULL);
}
