/* SPDX-License-Identifier: MIT
 *
 * test_process.c: what the kernel tells of this process, against what the test has made of it.
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "vm/kernel/process.h"
#include "vm/pages.h"

static int open_process(void **state)
{
    (void)state;
    return process_open() ? 0 : -1;
}

/* Threads that wait until the test has looked at them. */

enum { THREADS = 100 }; /* more than one read of the directory returns */

static pthread_barrier_t look, looked;
static pid_t thread_ids[THREADS];

static void *be_looked_at(void *argument)
{
    size_t number = (size_t)argument;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGRTMAX);
    if (number == 1)
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (number == 2)
        prctl(PR_SET_NAME, "a) 1 2 (b)");
    thread_ids[number] = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&look);
    pthread_barrier_wait(&looked);
    return NULL;
}

static pthread_t threads[THREADS];

static int start_threads(void **state)
{
    (void)state;
    pthread_barrier_init(&look, NULL, THREADS + 1);
    pthread_barrier_init(&looked, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, be_looked_at, (void *)i) != 0)
            return -1;
    pthread_barrier_wait(&look);
    return 0;
}

static int end_threads(void **state)
{
    (void)state;
    pthread_barrier_wait(&looked);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

struct seen {
    size_t threads, ours, most;
};

static bool see_thread(void *argument, pid_t thread)
{
    struct seen *seen = argument;
    seen->threads++;
    seen->ours += thread == getpid();
    for (int i = 0; i < THREADS; i++)
        seen->ours += thread == thread_ids[i];
    return seen->threads < seen->most;
}

static void test_every_thread_is_listed_once(void **state)
{
    (void)state;
    struct seen seen = {.most = SIZE_MAX};
    assert_true(process_each_thread(see_thread, &seen));
    assert_int_equal(seen.ours, THREADS + 1);
    assert_int_equal(seen.threads, THREADS + 1);
    seen = (struct seen){.most = 2};
    assert_false(process_each_thread(see_thread, &seen));
    assert_int_equal(seen.threads, 2);
}

static void *do_nothing(void *id)
{
    *(pid_t *)id = (pid_t)syscall(SYS_gettid);
    return NULL;
}

static pid_t ended_thread(void)
{
    pthread_t thread;
    pid_t id = 0;
    pthread_create(&thread, NULL, do_nothing, &id);
    pthread_join(thread, NULL);
    while (syscall(SYS_tgkill, getpid(), id, 0) == 0)
        usleep(100); /* the kernel is not done with it yet */
    return id;
}

static unsigned long flags_in_stat(pid_t thread)
{
    char path[64];
    unsigned long flags = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %lu", &flags), 1);
    fclose(file);
    return flags;
}

static void test_flags_are_found_behind_any_name(void **state)
{
    (void)state;
    unsigned long flags[2];
    char run_state;
    assert_true(process_thread_state(thread_ids[0], &run_state, &flags[0]));
    assert_true(run_state == 'S' || run_state == 'R');
    assert_int_equal(flags[0], flags_in_stat(thread_ids[0]));
    assert_true(process_thread_state(thread_ids[2], &run_state, &flags[1]));
    assert_int_equal(flags[1], flags[0]);
}

static pid_t make_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(child > 0);
    return child;
}

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* As many as make the kernel's list longer than what is read at once. */
static void test_the_newest_child_is_found(void **state)
{
    (void)state;
    enum { CHILDREN = 150 };
    pid_t children[CHILDREN];
    char run_state;
    unsigned long flags;
    if (access("/proc/thread-self/children", R_OK) != 0)
        skip(); /* a kernel without CONFIG_PROC_CHILDREN */
    assert_int_equal(process_newest_child(gettid()), 0);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = make_child();
        assert_int_equal(process_newest_child(gettid()), children[i]);
    }
    assert_true(process_state(children[0], &run_state, &flags));
    assert_true(run_state == 'S' || run_state == 'R');
    assert_int_equal(process_newest_child(thread_ids[0]), 0);
    for (int i = CHILDREN - 1; i >= 0; i--) {
        end_child(children[i]);
        assert_int_equal(process_newest_child(gettid()), i > 0 ? children[i - 1] : 0);
    }
    assert_false(process_state(children[0], &run_state, &flags));
}

static void test_a_thread_that_has_ended_has_no_flags_and_blocks_nothing(void **state)
{
    (void)state;
    unsigned long flags;
    pid_t gone = ended_thread();
    char run_state;
    assert_false(process_thread_state(gone, &run_state, &flags));
    assert_false(process_thread_holds_back(gone, SIGUSR1));
    assert_false(process_thread_blocks(gone, SIGUSR1));
}

static void test_blocked_signals_are_those_of_the_thread(void **state)
{
    (void)state;
    assert_false(process_thread_blocks(thread_ids[0], SIGUSR1));
    assert_true(process_thread_blocks(thread_ids[1], SIGUSR1));
    assert_true(process_thread_blocks(thread_ids[1], SIGRTMAX));
    assert_false(process_thread_blocks(thread_ids[1], SIGUSR2));
}

/* Of a process with many supplementary groups: their line is long, and stands before the others. */
static void look_behind_groups(void *unused)
{
    (void)unused;
    enum { GROUPS = 400 };
    static gid_t groups[GROUPS];
    pid_t self = getpid();
    struct sock_filter filter = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &filter};
    sigset_t signals;
    require(process_forked());
    for (size_t i = 0; i < GROUPS; i++)
        groups[i] = 4000000000U + (gid_t)i;
    if (setgroups(GROUPS, groups) != 0)
        _exit(CHILD_CANNOT_TELL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    require(sigprocmask(SIG_BLOCK, &signals, NULL) == 0);
    require(process_thread_blocks(self, SIGUSR1) && !process_thread_blocks(self, SIGUSR2));
    require(!process_thread_holds_back(self, SIGUSR1));
    require(syscall(SYS_tgkill, self, self, SIGUSR1) == 0);
    require(process_thread_holds_back(self, SIGUSR1));
    require(process_pinned_kilobytes() == 0);
    require(!process_is_in_sandbox());
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    require(process_is_in_sandbox());
}

static void test_a_status_file_is_read_to_its_end(void **state)
{
    (void)state;
    struct ending ending = run_child(look_behind_groups, NULL);
    if (ending.exit_status == CHILD_CANNOT_TELL)
        skip(); /* only the superuser may have any groups */
    assert_string_equal(ending.errors, "");
    assert_int_equal(ending.exit_status, 0);
}

/* Descriptors. */

struct seen_paths {
    int count, readable, most;
};

static bool see_path(void *argument, const char *path)
{
    struct seen_paths *seen = argument;
    int file = process_open_file(path);
    seen->count++;
    seen->readable += file >= 0;
    process_close(file);
    return seen->count < seen->most;
}

static void test_descriptors_are_found_by_what_they_are_open_on(void **state)
{
    (void)state;
    struct seen_paths seen = {.most = 100};
    int events[2] = {eventfd(0, 0), eventfd(0, 0)};
    assert_true(process_each_descriptor("anon_inode:[eventfd]", see_path, &seen));
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.readable, 2);
    assert_true(process_each_descriptor("anon_inode:[event", see_path, &seen));
    assert_true(process_each_descriptor("anon_inode:[eventfd]s", see_path, &seen));
    assert_true(process_each_descriptor("anon_inode:[eventfs]", see_path, &seen));
    assert_int_equal(seen.count, 2);
    seen = (struct seen_paths){.most = 1};
    assert_false(process_each_descriptor("anon_inode:[eventfd]", see_path, &seen));
    assert_int_equal(seen.count, 1);
    close(events[0]);
    close(events[1]);
}

static ssize_t read_memory(const void *address, void *to, size_t bytes)
{
    return pread(process_file(PROCESS_MEMORY), to, bytes, (off_t)(uintptr_t)address);
}

static void test_memory_is_read_through_a_descriptor_that_stays(void **state)
{
    (void)state;
    static uint64_t value;
    uint64_t found = 0;
    value = 0x1234567890;
    int file = process_file(PROCESS_MEMORY);
    assert_true(file >= 64); /* where programs do not put their own */
    assert_int_equal(read_memory(&value, &found, sizeof found), sizeof found);
    assert_int_equal(found, value);
    assert_int_equal(process_file(PROCESS_MEMORY), file);
    assert_int_equal(fcntl(file, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* As daemons do. */
static void test_a_descriptor_that_the_program_has_closed_is_noticed(void **state)
{
    (void)state;
    uint64_t value = 17, found = 0;
    close(process_file(PROCESS_MEMORY));
    assert_int_equal(read_memory(&value, &found, sizeof found), sizeof found);
    assert_int_equal(found, 17);
    int null = open("/dev/null", O_RDONLY), file = process_file(PROCESS_MEMORY);
    assert_int_equal(dup2(null, file), file); /* the program's own from here on */
    assert_int_equal(read_memory(&value, &found, sizeof found), sizeof found);
    assert_int_not_equal(process_file(PROCESS_MEMORY), file);
    assert_int_equal(fcntl(file, F_GETFD) & FD_CLOEXEC, 0);
    close(file);
    close(null);
}

enum { TURNS = 4 };
static pthread_barrier_t turn;

/* In turn with the other thread. */
static void find_files(int found[TURNS], bool is_first)
{
    for (int i = 0; i < TURNS; i++) {
        pthread_barrier_wait(&turn);
        if (!is_first)
            pthread_barrier_wait(&turn);
        found[i] = process_file(PROCESS_MEMORY);
        if (is_first)
            pthread_barrier_wait(&turn);
    }
}

static void *find_in_own_table(void *found)
{
    require(unshare(CLONE_FILES) == 0);
    find_files(found, true);
    return NULL;
}

/* Else each turn would leave a descriptor behind. */
static void test_each_table_of_descriptors_keeps_its_own(void **state)
{
    (void)state;
    pthread_t thread;
    int own[TURNS], others[TURNS];
    uint64_t value = 18, found = 0;
    close(process_file(PROCESS_MEMORY)); /* which both would have */
    pthread_barrier_init(&turn, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, find_in_own_table, others), 0);
    find_files(own, false);
    pthread_join(thread, NULL);
    for (int i = 1; i < TURNS; i++) {
        assert_int_equal(own[i], own[0]);
        assert_int_equal(others[i], others[0]);
    }
    assert_int_equal(read_memory(&value, &found, sizeof found), sizeof found);
    assert_int_equal(found, 18);
}

static void read_own_memory(void *argument)
{
    uint64_t *value = argument, found = 0;
    *value = 2;
    require(process_forked());
    require(read_memory(value, &found, sizeof found) == sizeof found);
    require(found == 2); /* the parent's is 1 */
}

static void test_a_forked_child_reads_its_own_memory(void **state)
{
    (void)state;
    static uint64_t value = 1;
    process_keep_files();
    assert_child_succeeds(read_own_memory, &value);
}

/* Processors. */

static int running_threads(void)
{
    int running = 0;
    FILE *file = fopen("/proc/loadavg", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*f %*f %*f %d/", &running), 1);
    fclose(file);
    return running;
}

static void test_idle_is_what_is_allowed_but_for_what_runs(void **state)
{
    (void)state;
    cpu_set_t allowed;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int attempt = 0; attempt < 10000; attempt++) {
        int before = running_threads();
        unsigned idle = process_idle_processors();
        int expected = CPU_COUNT(&allowed) > before ? CPU_COUNT(&allowed) - before : 0;
        if (running_threads() == before && idle == (unsigned)expected)
            return; /* otherwise another may have run meanwhile */
    }
    fail_msg("what is idle and what runs are never as many as is allowed");
}

static void have_one_processor(void *unused)
{
    (void)unused;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    require(sched_setaffinity(0, sizeof one, &one) == 0);
    require(process_idle_processors() == 0); /* the caller is at work on it */
}

static void test_the_processor_of_the_caller_is_not_idle(void **state)
{
    (void)state;
    assert_child_succeeds(have_one_processor, NULL);
}

/* Mappings. */

static const struct mapping *mapping_of(const void *address)
{
    const struct mapping *mapping = process_mapping_at((uintptr_t)address);
    assert_true(mapping->start <= (uintptr_t)address && (uintptr_t)address < mapping->end);
    return mapping;
}

static void assert_protection(const struct mapping *mapping, const char *protection)
{
    assert_int_equal(mapping->readable, protection[0] == 'r');
    assert_int_equal(mapping->writable, protection[1] == 'w');
    assert_int_equal(mapping->executable, protection[2] == 'x');
    assert_int_equal(mapping->shared, protection[3] == 's');
}

/* Four mappings of which no two may be joined. */
enum { NO_ACCESS, READ_ONLY, WRITABLE, CODE, PROTECTIONS };

static void test_a_mapping_is_as_it_was_made(void **state)
{
    (void)state;
    static const char NAME[] = "/memfd:a name  with spaces (deleted)";
    const struct mapping *mappings;
    size_t count;
    char *pages =
        mmap(NULL, (size_t)PROTECTIONS * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + READ_ONLY * PAGE_BYTES, PAGE_BYTES, PROT_READ);
    mprotect(pages + WRITABLE * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_WRITE);
    mprotect(pages + CODE * PAGE_BYTES, PAGE_BYTES, PROT_READ | PROT_EXEC);
    int file = memfd_create("a name  with spaces", 0);
    assert_int_equal(ftruncate(file, PAGE_BYTES), 0);
    char *shared = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(process_read_mappings(&mappings, &count));
    assert_protection(mapping_of(pages), "---p");
    assert_protection(mapping_of(pages + READ_ONLY * PAGE_BYTES), "r--p");
    assert_protection(mapping_of(pages + WRITABLE * PAGE_BYTES), "rw-p");
    assert_protection(mapping_of(pages + CODE * PAGE_BYTES), "r-xp");
    const struct mapping *one = mapping_of(pages + READ_ONLY * PAGE_BYTES);
    assert_int_equal(one->start, (uintptr_t)pages + READ_ONLY * PAGE_BYTES);
    assert_int_equal(one->end, one->start + PAGE_BYTES);
    assert_int_equal(one->name_length, 0);
    assert_true(mapping_is_named(one, ""));
    one = mapping_of(shared);
    assert_protection(one, "rw-s");
    assert_true(mapping_is_named(one, NAME));
    assert_true(mapping_name_begins(one, "/memfd:"));
    assert_false(mapping_is_named(one, "/memfd:"));
    assert_false(mapping_name_begins(one, "/memfd:a name  with spaces (deleted) "));
    munmap(pages, (size_t)PROTECTIONS * PAGE_BYTES);
    munmap(shared, PAGE_BYTES);
    close(file);
}

static void test_mappings_are_in_order_and_the_first_behind_an_address_is_found(void **state)
{
    (void)state;
    const struct mapping *mappings;
    size_t count;
    assert_true(process_read_mappings(&mappings, &count));
    for (size_t i = 0; i < count; i++) {
        assert_true(mappings[i].start < mappings[i].end);
        assert_true(i == 0 || mappings[i - 1].end <= mappings[i].start);
        assert_ptr_equal(process_mapping_at(mappings[i].start), &mappings[i]);
        assert_ptr_equal(process_mapping_at(mappings[i].end - 1), &mappings[i]);
        if (i > 0 && mappings[i - 1].end < mappings[i].start)
            assert_ptr_equal(process_mapping_at(mappings[i].start - 1), &mappings[i]);
    }
    assert_true(mapping_is_named(mapping_of(&count), "[stack]"));
}

/* With a page between each and the next. */
enum { UNTOUCHED, WRITTEN, TAKEN_AWAY, ONLY_READ, KINDS };

static void test_mappings_without_a_page_are_told_from_others(void **state)
{
    (void)state;
    const struct mapping *mappings;
    size_t count;
    char *pages[KINDS], line[MAPS_LINE_BYTES];
    char *place = mmap(NULL, (size_t)(2 * KINDS + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(place, PAGE_BYTES);
    for (size_t i = 0; i < KINDS; i++) {
        pages[i] = place + (2 * i + 1) * PAGE_BYTES;
        munmap(pages[i] + PAGE_BYTES, PAGE_BYTES);
    }
    *pages[WRITTEN] = *pages[TAKEN_AWAY] = 1;
    assert_int_equal(mprotect(pages[TAKEN_AWAY], PAGE_BYTES, PROT_NONE), 0);
    assert_int_equal(*(volatile char *)pages[ONLY_READ], 0); /* of the kernel's page of zeros */
    assert_true(process_read_mappings(&mappings, &count));
    for (size_t i = 0; i < count; i++)
        assert_false(mappings[i].is_empty);
    process_note_empty(line, sizeof line);
    assert_true(mapping_of(pages[UNTOUCHED])->is_empty);
    assert_false(mapping_of(pages[WRITTEN])->is_empty);
    assert_false(mapping_of(pages[TAKEN_AWAY])->is_empty);
    assert_true(mapping_of(pages[ONLY_READ])->is_empty);
    assert_false(mapping_of(line)->is_empty);
    for (size_t i = 0; i < KINDS; i++)
        munmap(pages[i], PAGE_BYTES);
}

/* Those that the list lacks are in the kernel's text, and the other way round. */
static void test_a_mapping_that_is_not_in_the_list_any_more_is_not_told_of(void **state)
{
    (void)state;
    const struct mapping *mappings;
    size_t count;
    char line[MAPS_LINE_BYTES];
    char *place = mmap(NULL, 8 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(munmap(place + PAGE_BYTES, PAGE_BYTES), 0);
    assert_int_equal(munmap(place + 4 * PAGE_BYTES, PAGE_BYTES), 0);
    assert_true(process_read_mappings(&mappings, &count));
    assert_int_equal(mprotect(place + 3 * PAGE_BYTES, PAGE_BYTES, PROT_READ), 0);
    munmap(place, PAGE_BYTES);
    process_note_empty(line, sizeof line);
    assert_false(mapping_of(place)->is_empty);
    assert_false(mapping_of(place + 2 * PAGE_BYTES)->is_empty);
    assert_true(mapping_of(place + 5 * PAGE_BYTES)->is_empty);
    munmap(place, 8 * PAGE_BYTES);
}

static void test_huge_pages_of_their_file_system_are_pages(void **state)
{
    (void)state;
    const struct mapping *mappings;
    size_t count;
    char line[MAPS_LINE_BYTES];
    char *huge = mmap(NULL, HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (huge == MAP_FAILED)
        skip(); /* this machine has set none aside */
    *huge = 1;
    assert_true(process_read_mappings(&mappings, &count));
    process_note_empty(line, sizeof line);
    assert_false(mapping_of(huge)->is_empty);
    munmap(huge, HUGE_PAGE_BYTES);
}

/* More text than the first buffer holds. */
static void test_thousands_of_mappings_are_read(void **state)
{
    (void)state;
    enum { MAPPINGS = 8000 };
    const struct mapping *mappings;
    size_t count;
    char *pages =
        mmap(NULL, (size_t)MAPPINGS * PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i < MAPPINGS; i += 2)
        assert_int_equal(mprotect(pages + i * PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
    assert_true(process_read_mappings(&mappings, &count));
    assert_true(count > MAPPINGS);
    for (int i = 0; i < MAPPINGS; i++)
        assert_int_equal(mapping_of(pages + i * PAGE_BYTES)->readable, i % 2 == 0);
    munmap(pages, (size_t)MAPPINGS * PAGE_BYTES);
}

#define WITH_THREADS(test) cmocka_unit_test_setup_teardown(test, start_threads, end_threads)

/* The kernel's shortest lines, of addresses with eight digits, and more than a first guess at their
 * length would leave room for. */
static void test_short_lines_have_room(void **state)
{
    (void)state;
    enum { LINES = 25000 };
    const struct mapping *mappings;
    size_t before, count;
    char name[256];
    char *low = mmap(NULL, LINES * PAGE_BYTES, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_NORESERVE, -1, 0);
    assert_true(low != MAP_FAILED);
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char *below = (char *)((uintptr_t)1 << 28); /* so its line is the first */
    assert_ptr_equal(mmap(below, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, 0),
                     below);
    close(file);
    assert_true(process_read_mappings(&mappings, &before));
    for (size_t i = 0; i < LINES; i += 2)
        assert_int_equal(mprotect(low + i * PAGE_BYTES, PAGE_BYTES, PROT_READ), 0);
    assert_true(process_read_mappings(&mappings, &count));
    assert_in_range(count, before + LINES - 2, before + LINES);
    ssize_t length = readlink("/proc/self/exe", name, sizeof name - 1);
    name[length] = '\0';
    for (size_t i = 1; i < count; i++)
        assert_true(mappings[i - 1].end <= mappings[i].start);
    assert_int_equal(mappings[0].start, (uintptr_t)below);
    assert_true(mapping_is_named(&mappings[0], name));
    munmap(below, PAGE_BYTES);
    munmap(low, LINES * PAGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_THREADS(test_every_thread_is_listed_once),
        WITH_THREADS(test_flags_are_found_behind_any_name),
        WITH_THREADS(test_the_newest_child_is_found),
        cmocka_unit_test(test_a_thread_that_has_ended_has_no_flags_and_blocks_nothing),
        WITH_THREADS(test_blocked_signals_are_those_of_the_thread),
        cmocka_unit_test(test_a_status_file_is_read_to_its_end),
        cmocka_unit_test(test_descriptors_are_found_by_what_they_are_open_on),
        cmocka_unit_test(test_memory_is_read_through_a_descriptor_that_stays),
        cmocka_unit_test(test_a_descriptor_that_the_program_has_closed_is_noticed),
        cmocka_unit_test(test_each_table_of_descriptors_keeps_its_own),
        cmocka_unit_test(test_a_forked_child_reads_its_own_memory),
        cmocka_unit_test(test_idle_is_what_is_allowed_but_for_what_runs),
        cmocka_unit_test(test_the_processor_of_the_caller_is_not_idle),
        cmocka_unit_test(test_a_mapping_is_as_it_was_made),
        cmocka_unit_test(test_mappings_are_in_order_and_the_first_behind_an_address_is_found),
        cmocka_unit_test(test_mappings_without_a_page_are_told_from_others),
        cmocka_unit_test(test_a_mapping_that_is_not_in_the_list_any_more_is_not_told_of),
        cmocka_unit_test(test_huge_pages_of_their_file_system_are_pages),
        cmocka_unit_test(test_thousands_of_mappings_are_read),
        cmocka_unit_test(test_short_lines_have_room),
    };
    return cmocka_run_group_tests(tests, open_process, NULL);
}
