/* SPDX-License-Identifier: MIT
 *
 * pages.c: the only pointer to a block lies in memory that a collector may overlook, or must not
 * touch. The argument names it.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gc/traps/trap.h"
#include "vm/syscall.h"

enum { PAGE = 4096, INSTALL_GUARD = 102 };
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564D41
#define PR_SET_VMA_ANON_NAME 0
#endif

static struct disguised held;
static char *volatile memory; /* a root: what is in it is what counts */

static char *map(size_t bytes, int protection, int flags, int file)
{
    char *mapping = mmap(NULL, bytes, protection, flags, file, 0);
    require(mapping != MAP_FAILED);
    return mapping;
}

static char *map_memory(size_t bytes)
{
    return map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int memory_file(size_t bytes)
{
    int file = memfd_create("trap", 0);
    require(file >= 0 && ftruncate(file, (off_t)bytes) == 0);
    return file;
}

__attribute__((noinline)) static void put_at(char *place)
{
    void *block = signed_block();
    held = disguise(block);
    memcpy(place, &block, sizeof block);
}

static void collect_and_look(void)
{
    collect();
    require(is_kept(held));
}

/* A stack that the program has given to a thread, and data of its own below. */
static _Atomic int ready, stop;

static void *wait_on_given_stack(void *unused)
{
    ready = 1;
    while (!stop)
        sched_yield();
    return unused;
}

static void below_given_stack(void)
{
    enum { BYTES = 1 << 20 };
    char *mapping = map_memory(BYTES + PAGE);
    pthread_attr_t attributes;
    pthread_t thread;
    require(mprotect(mapping, PAGE, PROT_NONE) == 0 && pthread_attr_init(&attributes) == 0 &&
            pthread_attr_setstack(&attributes, mapping + BYTES / 2, BYTES / 2 + PAGE) == 0 &&
            pthread_create(&thread, &attributes, wait_on_given_stack, NULL) == 0);
    while (!ready)
        sched_yield();
    put_at(mapping + PAGE + 600);
    collect_and_look();
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* A stack without a guard, which the kernel joins with what is mapped as a stack right below. */
static _Atomic uintptr_t stack_start;

static void *wait_without_guard(void *unused)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    require(pthread_getattr_np(pthread_self(), &attributes) == 0 &&
            pthread_attr_getstack(&attributes, &start, &bytes) == 0);
    stack_start = (uintptr_t)start;
    return wait_on_given_stack(unused);
}

static char *map_below_stack(int pages, int protection)
{
    void *wanted = (char *)stack_start - (size_t)pages * PAGE;
    void *mapping = mmap(wanted, PAGE, protection,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0);
    if (mapping != wanted)
        skip("something else is below the stack");
    return mapping;
}

static void below_stack_without_guard(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    require(pthread_attr_init(&attributes) == 0 && pthread_attr_setguardsize(&attributes, 0) == 0 &&
            pthread_create(&thread, &attributes, wait_without_guard, NULL) == 0);
    while (!ready)
        sched_yield();
    put_at(map_below_stack(1, PROT_READ | PROT_WRITE) + 600);
    map_below_stack(2, PROT_NONE);
    collect_and_look();
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* As glibc 2.42 has its stacks: the guard is a mark in the page table, of the same mapping. The
 * kernel joins the stack of a coroutine, with a guard of its own, to it. The system calls are made
 * here, since libc's own are not seen either. */
static void *wait_with_marked_guard(void *unused)
{
    pthread_attr_t attributes;
    void *start;
    size_t bytes;
    require(pthread_getattr_np(pthread_self(), &attributes) == 0 &&
            pthread_attr_getstack(&attributes, &start, &bytes) == 0);
    bool is_guard = access(start, F_OK) != 0 && errno == EFAULT; /* of some versions' answer */
    stack_start = (uintptr_t)start - (is_guard ? 0 : PAGE);
    require(SYSCALL_3(SYS_mprotect, stack_start, PAGE, PROT_READ | PROT_WRITE) == 0);
    if (SYSCALL_3(SYS_madvise, stack_start, PAGE, INSTALL_GUARD) != 0)
        skip("this kernel has no marks for guards");
    return wait_on_given_stack(unused);
}

static void below_stack_with_marked_guard(void)
{
    pthread_t thread;
    require(pthread_create(&thread, NULL, wait_with_marked_guard, NULL) == 0);
    while (!ready)
        sched_yield();
    put_at(map_below_stack(1, PROT_READ | PROT_WRITE) + 600);
    map_below_stack(2, PROT_NONE);
    collect_and_look();
    stop = 1;
    require(pthread_join(thread, NULL) == 0);
}

/* Pages that this thread may not touch as long as its register of rights says so; the last is in a
 * block. */
static void protection_key(void)
{
    int key = pkey_alloc(0, 0);
    if (key < 0)
        skip("this processor or kernel has no protection keys");
    char *mapping = map_memory(4 * PAGE);
    memory = aligned_alloc(PAGE, 16 * PAGE);
    put_at(mapping + 600);
    struct disguised first = held;
    put_at(memory + 2 * PAGE + 600);
    require(pkey_mprotect(mapping, 4 * PAGE, PROT_READ | PROT_WRITE, key) == 0 &&
            pkey_mprotect(memory + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE, key) == 0 &&
            pkey_set(key, PKEY_DISABLE_ACCESS) == 0);
    collect_and_look();
    require(is_kept(first) && pkey_get(key) == PKEY_DISABLE_ACCESS);
    require(pkey_set(key, 0) == 0 &&
            pkey_mprotect(memory, 16 * PAGE, PROT_READ | PROT_WRITE, 0) == 0);
}

/* Pages that a thread of the program fills when they are first touched. It cannot while it is
 * stopped. */
static int faults;
static unsigned long register_request = UFFDIO_REGISTER;

static void *fill_pages(void *unused)
{
    struct uffd_msg message;
    while (read(faults, &message, sizeof message) == sizeof message) {
        struct uffdio_zeropage page = {
            .range = {.start = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1), .len = PAGE}};
        require(ioctl(faults, UFFDIO_ZEROPAGE, &page) == 0);
    }
    return unused;
}

static void user_faults(bool shared)
{
    struct uffdio_api interface = {.api = UFFD_API};
    pthread_t thread;
    faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &interface) != 0)
        skip("userfaultfd is not allowed here");
    size_t bytes = shared ? 4 * PAGE : 16 * PAGE;
    memory = shared ? map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1)
                    : memset(aligned_alloc(PAGE, bytes), 1, bytes);
    char *block = memory;
    put_at(block + 600);
    require(madvise(block + PAGE, PAGE, shared ? MADV_REMOVE : MADV_DONTNEED) == 0);
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)block + PAGE, .len = bytes - PAGE},
        .mode = UFFDIO_REGISTER_MODE_MISSING};
    require(ioctl(faults, register_request, &range) == 0);
    require(pthread_create(&thread, NULL, fill_pages, NULL) == 0);
    collect_and_look();
    require(*(volatile char *)(block + PAGE) == 0);
    collect_and_look();
    require(ioctl(faults, UFFDIO_UNREGISTER, &range.range) == 0);
}

static void user_faults_in_block(void)
{
    user_faults(false);
}

/* The request as one that keeps it in an int gives it: the kernel looks at the low half. */
static void user_faults_signed(void)
{
    register_request = (unsigned long)(int)UFFDIO_REGISTER;
    user_faults(false);
}

static void user_faults_in_shared(void)
{
    user_faults(true);
}

/* A guard that no line of the maps tells of, in a block; the pointer lies behind it. */
static void guard_in(size_t bytes)
{
    memory = aligned_alloc(PAGE, bytes);
    memset(memory, 1, bytes);
    put_at(memory + 3 * PAGE + 600);
    if (madvise(memory + 2 * PAGE, PAGE, INSTALL_GUARD) != 0)
        skip("this kernel has no guard pages");
    collect_and_look();
}

/* By the call for another process's memory, of its own. */
static void guard_by_descriptor(void)
{
    const size_t bytes = 16 * (size_t)PAGE;
    int self = pidfd_open(getpid(), 0);
    memory = aligned_alloc(PAGE, bytes);
    memset(memory, 1, bytes);
    put_at(memory + 3 * PAGE + 600);
    struct iovec guard = {memory + 2 * PAGE, PAGE};
    if (self < 0 || process_madvise(self, &guard, 1, INSTALL_GUARD, 0) != PAGE)
        skip("this kernel gives no guard pages by process_madvise");
    collect_and_look();
}

static void guard_in_block(void)
{
    guard_in(16 * PAGE);
}

static void guard_in_large(void)
{
    guard_in(512 * PAGE);
}

/* Below /dev, and no device. */
static void below_dev(bool deleted)
{
    char name[32];
    snprintf(name, sizeof name, "/dev/trap%d", getpid());
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0)
        skip("files below /dev are not allowed here");
    if (deleted || ftruncate(file, 4 * PAGE) != 0)
        unlink(name);
    require(ftruncate(file, 4 * PAGE) == 0);
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    put_at(memory + 600);
    collect();
    unlink(name);
    require(is_kept(held));
}

static void file_below_dev(void)
{
    below_dev(false);
}

static void deleted_below_dev(void)
{
    below_dev(true);
}

/* Shared memory with a name that is not to be found in the root that the program has now. */
static void other_root(void)
{
    char name[32];
    snprintf(name, sizeof name, "/dev/shm/trap%d", getpid());
    int root = open("/", O_RDONLY | O_DIRECTORY), file = open(name, O_RDWR | O_CREAT, 0600);
    if (root < 0 || file < 0 || ftruncate(file, 4 * PAGE) != 0 || chroot("/usr") != 0) {
        unlink(name);
        skip("needs the right to change the root");
    }
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    put_at(memory + 600);
    collect();
    require(fchdir(root) == 0 && chroot(".") == 0 && unlink(name) == 0);
    require(is_kept(held));
}

/* Shared memory that has become read-only, by a name that the program has given it. */
static void named_shared(void)
{
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    put_at(memory + 600);
    if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory, 4 * PAGE, "trap") != 0)
        skip("this kernel has no names for memory");
    require(mprotect(memory, 4 * PAGE, PROT_READ) == 0);
    collect_and_look();
}

/* A guard in shared memory, which is read page by page then. */
static void guard_in_shared(size_t guard, size_t place)
{
    enum { PAGES = 40 };
    memory = map(PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    memset(memory, 1, PAGES * PAGE);
    put_at(memory + place);
    if (madvise(memory + guard, PAGE, INSTALL_GUARD) != 0)
        skip("this kernel has no guards in shared memory");
    collect_and_look();
}

static void behind_guard_in_shared(void)
{
    guard_in_shared(20 * PAGE, 21 * PAGE + 600);
}

/* Packed, across two pages that can be read. */
static void packed_by_guard_in_shared(void)
{
    guard_in_shared(12 * PAGE, 8 * PAGE - 4);
}

/* A private mapping of a file that code was written to. */
static void written_text(void)
{
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, memory_file(4 * PAGE));
    put_at(memory + 601);
    require(mprotect(memory, 4 * PAGE, PROT_READ | PROT_EXEC) == 0);
    collect_and_look();
}

static void file_for_code(void)
{
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, memory_file(4 * PAGE));
    put_at(memory + 601);
    collect_and_look();
}

/* The shortest lines that the kernel writes, more than fit into what a first guess sets aside. */
static void low_mappings(void)
{
    enum { COUNT = 25000 };
    char *low = mmap(NULL, 2 * COUNT * PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT | MAP_NORESERVE, -1, 0);
    require(low != MAP_FAILED);
    for (int i = 0; i < COUNT / 2; i++)
        require(mprotect(low + 2 * i * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
    put_at(low + 2 * 77 * PAGE);
    collect_and_look();
}

/* The program has put a file in the place of a page of a block, and cut it short. */
static void truncated_in_block(int flags)
{
    memory = aligned_alloc(PAGE, 16 * PAGE);
    int file = memory_file(2 * PAGE);
    require(mmap(memory + 2 * PAGE, 2 * PAGE, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) !=
            MAP_FAILED);
    put_at(memory + 2 * PAGE + 600);
    require(ftruncate(file, PAGE) == 0);
    collect_and_look();
}

static void truncated_private(void)
{
    truncated_in_block(MAP_PRIVATE);
}

static void truncated_shared(void)
{
    truncated_in_block(MAP_SHARED);
}

/* Or has unmapped some. */
static void unmapped_in(size_t bytes)
{
    memory = aligned_alloc(PAGE, bytes);
    memset(memory, 1, bytes);
    put_at(memory + 3 * PAGE + 600);
    require(munmap(memory + 2 * PAGE, PAGE) == 0);
    collect_and_look();
}

static void unmapped_in_block(void)
{
    unmapped_in(16 * PAGE);
}

static void unmapped_in_large(void)
{
    unmapped_in(512 * PAGE);
}

/* A block's first page without rights, which the kernel has joined to what is below. */
static void joined_below_block(void)
{
    char *below = MAP_FAILED;
    for (int i = 0; i < 100 && below == MAP_FAILED; i++) { /* until nothing is below */
        memory = aligned_alloc(PAGE, (size_t)40 << 20);
        below = mmap(memory - PAGE, PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    }
    require(below == memory - PAGE);
    memset(memory, 1, 4 * PAGE);
    put_at(memory + 600);
    require(mprotect(below, 2 * PAGE, PROT_NONE) == 0);
    collect_and_look();
}

/* Pages that the child of a fork lacks, with small blocks: a driver's buffer is one of them, and
 * the driver gives the kernel whole pages. What another block there points to has to be known by
 * other words. */
static void not_for_children(void)
{
    enum { BLOCKS = 4000, MIDDLE = BLOCKS / 2 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(64 + 64 * (i % 4)); /* of a vector's size, and of a jmp_buf's */
    for (int i = MIDDLE; i < MIDDLE + 4; i++)
        require(madvise((void *)((uintptr_t)blocks[i] & ~(uintptr_t)(PAGE - 1)), PAGE,
                        MADV_DONTFORK) == 0);
    pid_t child = fork();
    if (child == 0) {
        put_at((char *)&memory);
        collect_and_look();
        collect_and_look();
        _exit(0);
    }
    int status;
    require(waitpid(child, &status, 0) == child && status == 0);
    collect();
}

static bool a_child_has(char *page)
{
    pid_t child = fork();
    if (child == 0) {
        unsigned char in_memory;
        _exit(mincore(page, PAGE, &in_memory) != 0);
    }
    int status;
    require(waitpid(child, &status, 0) == child);
    return status == 0;
}

enum { EXCEPTED_PARTS = 11, EXCEPTED_PART = 1 << 18 };

static void map_unseen(char *place)
{
    require((char *)syscall(SYS_mmap, place, EXCEPTED_PART, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == place);
}

/* V8's heap: the collector may lend it to a child of its own, and only to that. What comes to lie
 * in the place of each second part the program's children have, if libc was told of its end or of
 * its beginning: libc's own mappings are not seen. */
static void excepted(void)
{
    enum { PARTS = EXCEPTED_PARTS, PART = EXCEPTED_PART };
    memory = map_memory((PARTS + 1) * PART);
    memory += PART - (uintptr_t)memory % PART;
    for (int i = 0; i < PARTS; i++)
        require(madvise(memory + i * PART, PART, MADV_DONTFORK) == 0);
    put_at(memory + 600);
    collect_and_look();
    for (int i = 0; i < PARTS; i++)
        require(!a_child_has(memory + i * PART));

    require(madvise(memory + PART, PART, MADV_DOFORK) == 0);
    require(mmap(memory + 3 * PART, PART, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + 3 * PART);
    require(munmap(memory + 5 * PART, PART) == 0);
    map_unseen(memory + 5 * PART);
    require(syscall(SYS_munmap, memory + 7 * PART, PART) == 0);
    require(mmap(memory + 7 * PART, PART, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory + 7 * PART);
    char *moved = map_memory(PART);
    require(mremap(memory + 9 * PART, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED, moved) == moved);
    map_unseen(memory + 9 * PART);
    collect_and_look();
    for (int i = 0; i < PARTS; i++)
        require(a_child_has(memory + i * PART) == i % 2);
    require(!a_child_has(moved));
}

/* Memory that the kernel itself cannot read. */
static void secret(void)
{
    int file = (int)syscall(SYS_memfd_secret, 0);
    if (file < 0)
        skip("this kernel has no secret memory");
    require(ftruncate(file, 4 * PAGE) == 0);
    memory = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    put_at(memory + 2 * PAGE + 600);
    collect_and_look();
}

/* Written through one mapping, of which nothing is left, and looked at through another. */
static void other_view(void)
{
    int file = memory_file(4 * PAGE);
    char *view = map(4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file);
    memory = map(4 * PAGE, PROT_READ, MAP_SHARED, file);
    put_at(view + 600);
    require(munmap(view, 4 * PAGE) == 0 && close(file) == 0);
    collect_and_look();
}

static void system_v(void)
{
    int identifier = shmget(IPC_PRIVATE, 4 * PAGE, 0600);
    if (identifier < 0)
        skip("shared memory of System V is not allowed here");
    memory = shmat(identifier, NULL, 0);
    require(shmctl(identifier, IPC_RMID, NULL) == 0);
    put_at(memory + 600);
    collect_and_look();
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } places[] = {
        {"below-given-stack", below_given_stack},
        {"below-stack-without-guard", below_stack_without_guard},
        {"below-stack-with-marked-guard", below_stack_with_marked_guard},
        {"protection-key", protection_key},
        {"user-faults", user_faults_in_block},
        {"user-faults-signed", user_faults_signed},
        {"user-faults-shared", user_faults_in_shared},
        {"guard-in-block", guard_in_block},
        {"guard-in-large", guard_in_large},
        {"guard-by-descriptor", guard_by_descriptor},
        {"below-dev", file_below_dev},
        {"below-dev-deleted", deleted_below_dev},
        {"other-root", other_root},
        {"named-shared", named_shared},
        {"behind-guard-in-shared", behind_guard_in_shared},
        {"packed-by-guard-in-shared", packed_by_guard_in_shared},
        {"written-text", written_text},
        {"file-for-code", file_for_code},
        {"low-mappings", low_mappings},
        {"truncated-in-block", truncated_private},
        {"truncated-in-block-shared", truncated_shared},
        {"unmapped-in-block", unmapped_in_block},
        {"unmapped-in-large", unmapped_in_large},
        {"joined-below-block", joined_below_block},
        {"not-for-children", not_for_children},
        {"excepted", excepted},
        {"secret", secret},
        {"other-view", other_view},
        {"system-v", system_v},
    };
    require(count == 2);
    pass_first_blocks();
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strcmp(arguments[1], places[i].name)) {
            places[i].run();
            return 0;
        }
    require(!"a known place");
}
