/* SPDX-License-Identifier: MIT
 *
 * places.c: the pointer is in one of the places where programs keep pointers. The argument names
 * it. `nowhere`, `disguised` and `freed` (in a block that was freed, to which something still
 * points) are the counter-tests: there the block must be reclaimed.
 *
 * A second argument, `without-scans`: on a kernel of before Linux 6.7, which does not know
 * PAGEMAP_SCAN.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/gc/traps/refuse_scans.h"
#include "tests/gc/traps/trap.h"

/* Volatile, because nobody reads them: that is the collector's affair. */
static void *volatile in_data = (void *)&in_data;
static void *volatile in_bss;
static __thread void *volatile in_thread_local;
static void *volatile *volatile in_heap, *volatile *volatile in_mapping;
static pthread_key_t key;
static jmp_buf in_jump;

/* Of several blocks a stale word somewhere may keep one or two; of none may be lost. */
enum { PAGE = 4096, BLOCKS = 50 };

static void *map(int protection, int flags, int file)
{
    void *mapping = mmap(NULL, 4 * PAGE, protection, flags, file, 0);
    require(mapping != MAP_FAILED);
    return mapping;
}

/* The pointer goes through setjmp in rbp, which setjmp disguises. */
__attribute__((noinline)) static void put_in_jump(struct __jmp_buf_tag *jump, void *block)
{
    uint64_t guard;
    __asm__("mov %%fs:0x30, %0" : "=r"(guard));
    uint64_t word = (uint64_t)block ^ guard;
    setjmp(jump);
    jump[0].__jmpbuf[1] = (long)(word << 17 | word >> 47);
}

static void put_nowhere(char *block)
{
    (void)block;
    in_bss = NULL;
}

/* Of the freed blocks the thread then has a list. */
static void put_in_freed(char *block)
{
    static void **freed[BLOCKS];
    static int count;
    freed[count] = malloc(48);
    freed[count][1] = block;
    if (++count == BLOCKS)
        for (int i = 0; i < BLOCKS; i++)
            free(freed[i]);
}

static void put_in_data(char *block)
{
    in_data = block;
}

static void put_in_bss(char *block)
{
    in_bss = block;
}

static void put_interior(char *block)
{
    in_bss = block + TRAP_BYTES / 2;
}

static void put_last_byte(char *block)
{
    in_bss = block + TRAP_BYTES - 1;
}

/* Another block begins there. */
static void put_behind(char *block)
{
    in_bss = block + malloc_usable_size(block);
    in_data = malloc(TRAP_BYTES);
}

static void put_in_thread_local(char *block)
{
    in_thread_local = block;
}

static void put_in_specific(char *block)
{
    require(pthread_key_create(&key, NULL) == 0 && pthread_setspecific(key, block) == 0);
}

static void put_in_heap(char *block)
{
    in_heap = malloc(24);
    in_heap[2] = block;
}

/* Where another block may begin. */
static void put_behind_in_heap(char *block)
{
    put_in_heap(block + TRAP_BYTES);
    in_data = malloc(TRAP_BYTES);
}

/* Where a packed structure has it. */
static void put_packed(char *block)
{
    in_heap = malloc(24);
    memcpy((char *)in_heap + 4, &block, sizeof block);
}

/* Across what is scanned at a time. */
static void put_packed_in_large(char *block)
{
    in_heap = malloc(9000000);
    memcpy((char *)in_heap + 1000 * PAGE - 4, &block, sizeof block);
}

static void put_in_large(char *block)
{
    in_heap = malloc(9000000);
    in_heap[1000000] = block;
}

static void put_in_aligned(char *block)
{
    in_heap = aligned_alloc(4096, 8192);
    in_heap[1000] = block;
}

/* In a block whose third page loses its rights. */
static void put_guarded(char *block, size_t bytes, size_t at)
{
    in_heap = memset(aligned_alloc(PAGE, bytes), 1, bytes);
    in_heap[at / 8] = block;
    require(mprotect((char *)in_heap + 2 * PAGE, PAGE, PROT_NONE) == 0);
}

enum { FEW_PAGES = 16 * PAGE, LARGE_BYTES = 1 << 20, IN_GUARD = 2 * PAGE + 40, BEHIND = 3 * PAGE };

static void put_behind_guard(char *block)
{
    put_guarded(block, FEW_PAGES, BEHIND);
}

static void put_in_guard(char *block)
{
    put_guarded(block, FEW_PAGES, IN_GUARD);
}

static void put_behind_guard_in_large(char *block)
{
    put_guarded(block, LARGE_BYTES, BEHIND);
}

static void put_in_guard_in_large(char *block)
{
    put_guarded(block, LARGE_BYTES, IN_GUARD);
}

/* Half of it lies on a page that has other rights than its neighbour. */
static void put_packed_across_rights(char *block, int rights)
{
    in_heap = memset(aligned_alloc(PAGE, FEW_PAGES), 1, FEW_PAGES);
    memcpy((char *)in_heap + 2 * PAGE - 4, &block, sizeof block);
    require(mprotect((char *)in_heap + 2 * PAGE, PAGE, rights) == 0);
}

static void put_packed_by_guard(char *block)
{
    put_packed_across_rights(block, PROT_NONE);
}

static void put_packed_by_read_only(char *block)
{
    put_packed_across_rights(block, PROT_READ);
}

static void put_in_own_jump(char *block)
{
    put_in_jump(in_jump, block);
}

/* In either half of a vector. */
static void put_in_jump_in_heap(char *block)
{
    in_heap = malloc(sizeof(jmp_buf) + 8);
    put_in_jump((void *)in_heap, block);
}

static void put_in_jump_in_heap_8(char *block)
{
    in_heap = malloc(sizeof(jmp_buf) + 8);
    put_in_jump((void *)(in_heap + 1), block);
}

static void put_in_break(char *block)
{
    in_mapping = sbrk(PAGE);
    in_mapping[5] = block;
}

static void put_in_mapping(char *block)
{
    in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    in_mapping[600] = block;
}

static void put_packed_in_mapping(char *block)
{
    in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memcpy((char *)in_mapping + PAGE - 4, &block, sizeof block);
}

/* Across two mappings. */
static void put_packed_by_mapping(char *block)
{
    put_packed_in_mapping(block);
    require(mprotect((char *)in_mapping + PAGE, PAGE, PROT_READ) == 0);
}

static void put_in_read_only(char *block)
{
    put_in_mapping(block);
    require(mprotect((void *)in_mapping, 4 * PAGE, PROT_READ) == 0);
}

static void put_in_no_access(char *block)
{
    put_in_mapping(block);
    require(mprotect((void *)in_mapping, 4 * PAGE, PROT_NONE) == 0);
}

/* mov $block, %rax at an odd address. */
static void put_in_code(char *block)
{
    char *code = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memcpy(code + 101, "\x48\xb8", 2);
    memcpy(code + 103, &block, sizeof block);
    in_mapping = (void *)code;
}

/* Across two pages. */
static void put_across_in_code(char *block)
{
    char *code = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    memcpy(code + PAGE - 7, "\x48\xb8", 2);
    memcpy(code + PAGE - 5, &block, sizeof block);
    in_mapping = (void *)code;
}

static void put_in_shared(char *block)
{
    in_mapping = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    in_mapping[600] = block;
}

/* Across two pages. */
static void put_packed_in_shared(char *block)
{
    in_mapping = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    memcpy((char *)in_mapping + PAGE - 4, &block, sizeof block);
}

/* As a compiler leaves its code. */
static void put_in_shared_read_only(char *block)
{
    put_in_shared(block);
    require(mprotect((void *)in_mapping, 4 * PAGE, PROT_READ) == 0);
}

static int file_of_pages(void)
{
    int file = memfd_create("trap", 0);
    require(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
    return file;
}

/* Of which the writable mapping is gone. */
static void put_in_shared_code(char *block)
{
    int file = file_of_pages();
    char *code = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
    memcpy(code + 103, &block, sizeof block);
    in_mapping = map(PROT_READ | PROT_EXEC, MAP_SHARED, file);
    require(munmap(code, 4 * PAGE) == 0 && close(file) == 0);
}

/* A private mapping of a file that is cut short behind it. */
static void put_in_file(char *block)
{
    int file = file_of_pages();
    in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
    in_mapping[5] = block;
    in_mapping[3 * PAGE / 8] = block;
    require(ftruncate(file, PAGE) == 0);
}

struct place {
    const char *name;
    void (*put)(char *block);
    bool dies;
};

static const struct place places[] = {
    {"nowhere", put_nowhere, true},
    {"disguised", put_nowhere, true},
    {"freed", put_in_freed, true},
    {"data", put_in_data, false},
    {"bss", put_in_bss, false},
    {"interior", put_interior, false},
    {"last-byte", put_last_byte, false},
    {"behind", put_behind, false},
    {"thread-local", put_in_thread_local, false},
    {"specific", put_in_specific, false},
    {"heap", put_in_heap, false},
    {"behind-in-heap", put_behind_in_heap, false},
    {"packed", put_packed, false},
    {"packed-large", put_packed_in_large, false},
    {"packed-mapping", put_packed_in_mapping, false},
    {"packed-by-mapping", put_packed_by_mapping, false},
    {"packed-by-guard", put_packed_by_guard, false},
    {"packed-by-read-only", put_packed_by_read_only, false},
    {"large", put_in_large, false},
    {"aligned", put_in_aligned, false},
    {"guarded-block", put_behind_guard, false},
    {"guarded-inside", put_in_guard, false},
    {"guarded-large", put_behind_guard_in_large, false},
    {"guarded-large-inside", put_in_guard_in_large, false},
    {"jump", put_in_own_jump, false},
    {"jump-in-heap", put_in_jump_in_heap, false},
    {"jump-in-heap-8", put_in_jump_in_heap_8, false},
    {"break", put_in_break, false},
    {"mapping", put_in_mapping, false},
    {"read-only", put_in_read_only, false},
    {"no-access", put_in_no_access, false},
    {"code", put_in_code, false},
    {"across-code", put_across_in_code, false},
    {"shared", put_in_shared, false},
    {"packed-shared", put_packed_in_shared, false},
    {"shared-read-only", put_in_shared_read_only, false},
    {"shared-code", put_in_shared_code, false},
    {"file", put_in_file, false},
};

static const struct place *place_of(const char *name)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!strcmp(name, places[i].name))
            return &places[i];
    require(!"a known place");
    return NULL;
}

__attribute__((noinline)) static struct disguised put(const struct place *place)
{
    char *block = signed_block();
    place->put(block);
    return disguise(block);
}

int main(int count, char **arguments)
{
    require(count == 2 || (count == 3 && !strcmp(arguments[2], "without-scans")));
    const struct place *place = place_of(arguments[1]);
    if (count == 3)
        refuse_scans();
    struct disguised blocks[BLOCKS];
    pass_first_blocks();
    malloc_trim(0); /* what is mapped by now is not all that there is */
    int count_of_blocks = place->dies ? BLOCKS : 1, kept = 0;
    for (int i = 0; i < count_of_blocks; i++)
        blocks[i] = put(place);
    collect();
    for (int i = 0; i < count_of_blocks; i++)
        kept += is_kept(blocks[i]);
    require(place->dies ? kept < BLOCKS / 5 : kept == 1);
    return 0;
}
