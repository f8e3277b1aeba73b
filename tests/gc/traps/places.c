/* SPDX-License-Identifier: MIT
 *
 * places.c: the pointer is in one of the places where programs keep pointers. The argument names
 * it. `nowhere`, `disguised` and `freed` (in a block that was freed, to which something still
 * points) are the counter-tests: there the block must be reclaimed.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <unistd.h>

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

static bool dies(const char *place)
{
    return !strcmp(place, "nowhere") || !strcmp(place, "disguised") || !strcmp(place, "freed");
}

__attribute__((noinline)) static struct disguised put(const char *place)
{
    char *block = signed_block();
    if (!strcmp(place, "nowhere") || !strcmp(place, "disguised")) {
        in_bss = NULL;
    } else if (!strcmp(place, "freed")) {
        static void **freed[BLOCKS];
        static int count;
        freed[count] = malloc(48);
        freed[count][1] = block;
        if (++count == BLOCKS) /* of which the thread then has a list */
            for (int i = 0; i < BLOCKS; i++)
                free(freed[i]);
    } else if (!strcmp(place, "data")) {
        in_data = block;
    } else if (!strcmp(place, "bss")) {
        in_bss = block;
    } else if (!strcmp(place, "interior")) {
        in_bss = block + TRAP_BYTES / 2;
    } else if (!strcmp(place, "last-byte")) {
        in_bss = block + TRAP_BYTES - 1;
    } else if (!strcmp(place, "behind")) {
        in_bss = block + malloc_usable_size(block);
        in_data = malloc(TRAP_BYTES); /* which begins there */
    } else if (!strcmp(place, "thread-local")) {
        in_thread_local = block;
    } else if (!strcmp(place, "specific")) {
        require(pthread_key_create(&key, NULL) == 0 && pthread_setspecific(key, block) == 0);
    } else if (!strcmp(place, "heap")) {
        in_heap = malloc(24);
        in_heap[2] = block;
    } else if (!strcmp(place, "behind-in-heap")) { /* where another block may begin */
        in_heap = malloc(24);
        in_heap[2] = block + TRAP_BYTES;
        in_data = malloc(TRAP_BYTES);
    } else if (!strcmp(place, "packed")) { /* where a packed structure has it */
        in_heap = malloc(24);
        memcpy((char *)in_heap + 4, &block, sizeof block);
    } else if (!strcmp(place, "packed-large")) { /* across what is scanned at a time */
        in_heap = malloc(9000000);
        memcpy((char *)in_heap + 1000 * PAGE - 4, &block, sizeof block);
    } else if (!strcmp(place, "packed-mapping")) {
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        memcpy((char *)in_mapping + PAGE - 4, &block, sizeof block);
    } else if (!strcmp(place, "large")) {
        in_heap = malloc(9000000);
        in_heap[1000000] = block;
    } else if (!strcmp(place, "aligned")) {
        in_heap = aligned_alloc(4096, 8192);
        in_heap[1000] = block;
    } else if (!strncmp(place, "guarded-", 8)) { /* behind a page without rights, or in it */
        size_t bytes = strstr(place, "large") ? 1 << 20 : 16 * PAGE;
        in_heap = memset(aligned_alloc(PAGE, bytes), 1, bytes);
        in_heap[strstr(place, "inside") ? 2 * PAGE / 8 + 5 : 3 * PAGE / 8] = block;
        require(mprotect((char *)in_heap + 2 * PAGE, PAGE, PROT_NONE) == 0);
    } else if (!strcmp(place, "jump")) {
        put_in_jump(in_jump, block);
    } else if (!strncmp(place, "jump-in-heap", 12)) { /* in either half of a vector */
        in_heap = malloc(sizeof(jmp_buf) + 8);
        put_in_jump((void *)(in_heap + (place[12] != '\0')), block);
    } else if (!strcmp(place, "break")) {
        in_mapping = sbrk(PAGE);
        in_mapping[5] = block;
    } else if (!strcmp(place, "mapping")) {
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        in_mapping[600] = block;
    } else if (!strcmp(place, "read-only")) {
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        in_mapping[600] = block;
        require(mprotect((void *)in_mapping, 4 * PAGE, PROT_READ) == 0);
    } else if (!strcmp(place, "no-access")) {
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        in_mapping[600] = block;
        require(mprotect((void *)in_mapping, 4 * PAGE, PROT_NONE) == 0);
    } else if (!strcmp(place, "code")) { /* mov $block, %rax at an odd address */
        char *code = map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        memcpy(code + 101, "\x48\xb8", 2);
        memcpy(code + 103, &block, sizeof block);
        in_mapping = (void *)code;
    } else if (!strcmp(place, "shared")) {
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        in_mapping[600] = block;
    } else if (!strcmp(place, "packed-shared")) { /* across two pages */
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        memcpy((char *)in_mapping + PAGE - 4, &block, sizeof block);
    } else if (!strcmp(place, "shared-read-only")) { /* as a compiler leaves its code */
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        in_mapping[600] = block;
        require(mprotect((void *)in_mapping, 4 * PAGE, PROT_READ) == 0);
    } else if (!strcmp(place, "shared-code")) { /* of which the writable mapping is gone */
        int file = memfd_create("trap", 0);
        require(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
        char *code = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
        memcpy(code + 103, &block, sizeof block);
        in_mapping = map(PROT_READ | PROT_EXEC, MAP_SHARED, file);
        require(munmap(code, 4 * PAGE) == 0 && close(file) == 0);
    } else if (!strcmp(place,
                       "file")) { /* a private mapping of a file that is cut short behind it */
        int file = memfd_create("trap", 0);
        require(file >= 0 && ftruncate(file, 4 * PAGE) == 0);
        in_mapping = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
        in_mapping[5] = block;
        in_mapping[3 * PAGE / 8] = block;
        require(ftruncate(file, PAGE) == 0);
    } else {
        require(!"a known place");
    }
    return disguise(block);
}

int main(int count, char **arguments)
{
    require(count == 2);
    struct disguised blocks[BLOCKS];
    pass_first_blocks();
    malloc_trim(0); /* what is mapped by now is not all that there is */
    int count_of_blocks = dies(arguments[1]) ? BLOCKS : 1, kept = 0;
    for (int i = 0; i < count_of_blocks; i++)
        blocks[i] = put(arguments[1]);
    collect();
    for (int i = 0; i < count_of_blocks; i++)
        kept += is_kept(blocks[i]);
    require(dies(arguments[1]) ? kept < BLOCKS / 5 : kept == 1);
    return 0;
}
