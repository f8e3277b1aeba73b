/* SPDX-License-Identifier: MIT
 *
 * test_blocks.c: `blocks` against the model, and its edges.
 */
#include "tests/unit/allocator_unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/blocks/blocks.h"
#include "alloc/blocks/fast_table.h"
#include "alloc/blocks/heap.h"
#include "alloc/blocks/size_class.h"
#include "vm/fork_chain.h"
#include "vm/granule_map.h"
#include "vm/pages.h"
#include "vm/window.h"

static const struct allocator_case whole = {&blocks_default, .rounds = 10, .most_bytes = 8 << 20};

static void count_live(void *argument, const struct block_info *info)
{
    *(size_t *)argument += info->state == BLOCK_LIVE;
}

static size_t live_blocks(void)
{
    size_t live = 0;
    blocks_walk(count_live, &live);
    return live;
}

static void test_size_classes_are_the_least_that_fit(void **state)
{
    (void)state;
    for (size_t size = 1; size <= CLASS_LARGEST; size++) {
        unsigned found = size_class_of(size);
        assert_true(size_class_bytes[found] >= size);
        assert_true(found == 0 || size_class_bytes[found - 1] < size);
    }
    assert_int_equal(size_class_of(0), 0);
}

/* Four threads exchange blocks through slots, so that most frees are remote. */
static unsigned char *_Atomic slots[512];

static void exchange(uint64_t seed, int count)
{
    for (int i = 0; i < count; i++) {
        size_t bytes = random_between(&seed, 16, 415);
        unsigned char *block = blocks_alloc(bytes);
        memset(block, (int)(bytes & 0xFF), bytes);
        *(size_t *)block = bytes;
        block = atomic_exchange(&slots[random_below(&seed, 512)], block);
        if (!block)
            continue;
        bytes = *(size_t *)block;
        assert_int_equal(block[bytes - 1], bytes & 0xFF);
        blocks_free(block);
    }
    blocks_thread_exit();
}

static void *exchange_blocks(void *argument)
{
    exchange((uintptr_t)argument, 100000);
    return NULL;
}

static void *exchange_few_blocks(void *argument)
{
    exchange((uintptr_t)argument, 2000);
    return NULL;
}

static void test_remote_frees_come_back(void **state)
{
    (void)state;
    size_t before = live_blocks();
    pthread_t threads[4];
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, exchange_blocks, (void *)(i + 3));
        for (size_t i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    size_t used = blocks_used_bytes();
    for (size_t i = 0; i < 512; i++)
        if (slots[i])
            blocks_free(atomic_exchange(&slots[i], NULL));
    assert_int_equal(live_blocks(), before);
    assert_true(blocks_is_valid());
    assert_true(used < (size_t)16 << 20); /* what ended threads left is used by the next */
}

static void *use_after_thread_exit(void *unused)
{
    (void)unused;
    void *mine = blocks_alloc(100);
    blocks_thread_exit();
    blocks_free(mine);
    void *late = blocks_alloc(48);
    memset(late, 1, 48);
    blocks_free(late);
    blocks_thread_exit();
    return NULL;
}

static void test_a_thread_may_allocate_after_its_exit(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_create(&thread, NULL, use_after_thread_exit, NULL);
    pthread_join(thread, NULL);
    assert_true(blocks_is_valid());
}

static void test_empty_slabs_go_back(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static void *held[COUNT];
    blocks_trim(); /* else a round of idle.c may release slabs of other sizes meanwhile */
    size_t before = blocks_used_bytes();
    for (size_t i = 0; i < COUNT; i++)
        held[i] = blocks_alloc(400);
    size_t full = blocks_used_bytes();
    assert_true(full - before >= (size_t)COUNT * 400);
    for (size_t i = 0; i < COUNT; i++)
        blocks_free(held[i]);
    assert_true(blocks_used_bytes() <= before + 4 * 65536);
    blocks_trim();
    assert_true(blocks_is_valid());
}

static void test_the_block_freed_last_is_handed_out_first(void **state)
{
    (void)state;
    void *first = blocks_alloc(100), *second = blocks_alloc(100);
    size_t cached = blocks_cached_bytes();
    blocks_free(first);
    blocks_free(second);
    assert_true(blocks_is_valid());
    assert_int_equal(blocks_cached_bytes(), cached + 2 * 112);
    assert_int_equal(blocks_usable_size(first), 0);
    assert_ptr_equal(blocks_alloc(100), second);
    assert_ptr_equal(blocks_alloc(100), first);
    assert_int_equal(blocks_usable_size(first), 112);
    blocks_free(first);
    blocks_free(second);
}

/* More are freed than a list takes, so that lists and slabs both hold some. */
static void test_trim_empties_the_lists(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static void *held[COUNT];
    blocks_trim();
    size_t before = blocks_used_bytes();
    for (size_t i = 0; i < COUNT; i++)
        held[i] = blocks_alloc(2048);
    for (size_t i = 0; i < COUNT; i++)
        blocks_free(held[i * 997 % COUNT]);
    blocks_trim();
    assert_true(blocks_used_bytes() <= before + 65536);
    assert_true(blocks_is_valid());
}

static void test_large_blocks_grow_and_keep_contents(void **state)
{
    (void)state;
    size_t bytes = 40000;
    unsigned char *block = blocks_alloc(bytes);
    memset(block, 0xA5, bytes);
    for (; bytes < (size_t)64 << 20; bytes = bytes * 3 / 2) {
        block = blocks_resize(block, bytes * 3 / 2);
        assert_non_null(block);
        for (size_t i = 0; i < 40000; i += 1999)
            assert_int_equal(block[i], 0xA5);
        block[bytes * 3 / 2 - 1] = 1;
    }
    block = blocks_resize(block, 50);
    assert_int_equal(block[49], 0xA5);
    blocks_free(block);
    assert_true(blocks_is_valid());
}

/* With a neighbour behind it there is no room in place: after one copy its pages move. */
static void test_a_large_block_that_outgrows_its_place_is_copied_once(void **state)
{
    (void)state;
    size_t bytes = 100000;
    enum { TRIES = 64 };
    char *tried[TRIES], *block = NULL, *neighbour = blocks_alloc(bytes);
    size_t tries = 0;
    for (; !block && tries < TRIES; tries++) { /* until one lies right before the other */
        tried[tries] = neighbour;
        neighbour = blocks_alloc(bytes);
        if (neighbour == tried[tries] + 2 * GRANULE_BYTES)
            block = tried[tries];
    }
    assert_non_null(block);
    for (size_t i = 0; i + 1 < tries; i++)
        blocks_free(tried[i]);
    memset(block, 1, bytes);
    block = blocks_resize(block, bytes += GRANULE_BYTES);
    assert_int_equal(blocks_slab_of(block)->state, SLAB_MAPPING);
    uint64_t moves = page_calls.mremap;
    for (; bytes < (size_t)3 << 20; bytes += GRANULE_BYTES) {
        block = blocks_resize(block, bytes);
        assert_int_equal(block[bytes / 2] | block[99999], 1);
    }
    assert_in_range(page_calls.mremap - moves, 44, 3 * 44);
    block = blocks_resize(block, bytes - GRANULE_BYTES);
    assert_int_equal(blocks_slab_of(block)->state, SLAB_MAPPING);
    block = blocks_resize(block, bytes / 4);
    assert_int_equal(blocks_slab_of(block)->state, SLAB_RUN);
    assert_int_equal(block[99999], 1);
    blocks_free(block);
    blocks_free(neighbour);
    assert_true(blocks_is_valid());
}

static void test_blocks_of_no_bytes_are_distinct(void **state)
{
    (void)state;
    void *first = blocks_alloc(0), *second = blocks_alloc(0);
    assert_true(first && second && first != second);
    blocks_free(first);
    blocks_free(second);
}

static void test_blocks_are_aligned_to_every_power_of_two(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)1 << 24; alignment *= 2)
        for (size_t size = 0; size < 200000; size = size * 3 + 1) {
            void *block = blocks_alloc_aligned(alignment, size);
            assert_int_equal((uintptr_t)block % alignment, 0);
            assert_true(blocks_usable_size(block) >= size);
            memset(block, 1, size);
            blocks_free(block);
        }
    assert_true(blocks_is_valid());
}

static void free_twice(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(40);
    blocks_free(block);
    blocks_free(block);
}

static void free_large_twice(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(400000);
    blocks_free(block);
    blocks_free(block);
}

static void free_interior(void *unused)
{
    (void)unused;
    blocks_free((char *)blocks_alloc(40) + 16);
}

static void free_interior_of_large(void *unused)
{
    (void)unused;
    blocks_free((char *)blocks_alloc(400000) + 65536);
}

static void free_remainder_of_slab(void *unused)
{
    (void)unused;
    struct slab *slab = blocks_slab_of(blocks_alloc(48));
    blocks_free(slab_block(slab, slab->capacity));
}

static void *free_in_thread(void *block)
{
    blocks_free(block);
    return NULL;
}

static void free_there(void *block)
{
    pthread_t thread;
    pthread_create(&thread, NULL, free_in_thread, block);
    pthread_join(thread, NULL);
}

static void free_here_and_there(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(40);
    free_there(block);
    blocks_free(block);
}

static void free_there_after_here(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(40);
    blocks_free(block);
    free_there(block);
}

static void free_there_twice(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(40);
    free_there(block);
    free_there(block);
}

static void free_interior_there(void *unused)
{
    (void)unused;
    free_there((char *)blocks_alloc(40) + 16);
}

static void free_unaligned_there(void *unused)
{
    (void)unused;
    free_there((char *)blocks_alloc(40) + 3);
}

static void free_what_was_never_handed_out(void *unused)
{
    (void)unused;
    blocks_free((char *)blocks_alloc(3000) + 3072);
}

static void resize_freed(void *unused)
{
    (void)unused;
    void *block = blocks_alloc(40);
    blocks_free(block);
    blocks_resize(block, 50);
}

static void test_faults_of_the_program_abort(void **state)
{
    (void)state;
    assert_aborts(free_twice, NULL, "allotrope: free(0x");
    assert_aborts(free_twice, NULL, "): not a live block (freed twice");
    assert_aborts(free_large_twice, NULL, "): not a live block (freed twice");
    assert_aborts(free_interior, NULL, "or points into one");
    assert_aborts(free_interior_of_large, NULL, "or points into one");
    assert_aborts(free_remainder_of_slab, NULL, "): not a live block (");
    assert_aborts(free_here_and_there, NULL, "): not a live block (freed twice");
    assert_aborts(free_there_after_here, NULL, "): not a live block (freed twice");
    assert_aborts(free_there_twice, NULL, "): not a live block (freed twice");
    assert_aborts(free_interior_there, NULL, "or points into one");
    assert_aborts(free_unaligned_there, NULL, "or points into one");
    assert_aborts(free_what_was_never_handed_out, NULL, "): not a live block (");
    assert_aborts(resize_freed, NULL, "allotrope: realloc(0x");
}

static atomic_bool stop_churning;

static void *churn_until_told(void *argument)
{
    struct model *model = argument;
    const char *wrong = NULL;
    while (!stop_churning && !wrong)
        wrong = model_run(model, 200);
    if (!wrong)
        wrong = model_drop(model);
    blocks_thread_exit();
    return (void *)wrong;
}

static void *churn_through_threads(void *argument)
{
    for (uintptr_t i = 0; !stop_churning; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, exchange_few_blocks, (void *)((uintptr_t)argument + i));
        pthread_join(thread, NULL);
    }
    return NULL;
}

/* What one thread reads of the others' slabs and bins is for the thread sanitizer to judge. */
static void test_the_heap_may_be_looked_at_while_threads_come_and_go(void **state)
{
    (void)state;
    static struct model models[2];
    pthread_t threads[4];
    stop_churning = false;
    for (unsigned i = 0; i < 2; i++) {
        models[i].allocator = &blocks_default;
        models[i].random = i;
        pthread_create(&threads[i], NULL, churn_until_told, &models[i]);
    }
    for (uintptr_t i = 2; i < 4; i++)
        pthread_create(&threads[i], NULL, churn_through_threads, (void *)(i * 1000 + 5));
    void *mine = blocks_alloc(1000);
    for (int round = 0; round < 100; round++) {
        struct allocator_statistics statistics;
        blocks_statistics(&statistics);
        assert_true(statistics.threads >= 1);
        assert_in_range(blocks_cached_bytes(), 24, (size_t)1 << 30);
        assert_true(live_blocks() >= 1);
        assert_true(blocks_usable_size(mine) >= 1000);
        blocks_trim();
    }
    stop_churning = true;
    for (size_t i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    blocks_free(mine);
    for (size_t i = 0; i < 512; i++)
        if (slots[i])
            blocks_free(atomic_exchange(&slots[i], NULL));
    assert_true(blocks_is_valid());
}

enum { FILLED_BYTES = 128 << 20, MOST_BYTES = 192 << 20, LEAST_SIZE = 112 };

/* Until there is no more, or so many bytes of blocks. */
static size_t fill_to(void **blocks, size_t count, size_t size, size_t bytes)
{
    while (count * size < bytes && (blocks[count] = blocks_alloc(size)))
        count++;
    return count;
}

/* A child has all the memory there is in blocks of one size, frees them here and there, so that
 * what it lists is of many slabs, and goes over to another size. */
static void assert_serves_another_size(size_t first, size_t second)
{
    static void *blocks[MOST_BYTES / LEAST_SIZE];
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(blocks_fork_child);
        size_t count = fill_to(blocks, 0, first, FILLED_BYTES);
        setrlimit(RLIMIT_AS, &(struct rlimit){1, 1});
        count = fill_to(blocks, count, first, MOST_BYTES);
        for (size_t i = 0; i < count; i++)
            blocks_free(blocks[i * 997 % count]);
        size_t again = fill_to(blocks, 0, second, MOST_BYTES);
        _exit(!blocks_is_valid() ? 1 : again * second < count * first / 32 * 31 ? 2 : 0);
    }
    fork_chain_parent();
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

static void test_all_memory_may_go_to_another_size(void **state)
{
    (void)state;
    if (UNDER_SANITIZER)
        skip();                               /* whose own memory the limit holds for too */
    assert_serves_another_size(2000, 112);    /* as many slabs and more */
    assert_serves_another_size(10000, 2000);  /* more slabs, of fewer granules */
    assert_serves_another_size(112, 240);     /* slabs that a listed block holds */
    assert_serves_another_size(112, 5000000); /* mappings that cannot be had */
}

/* What a child says of a small block that lies behind 5 GiB of blocks which nobody touches. */
enum far_verdict { FAR_FAST, FAR_SLOW, FAR_LOST, FAR_NOT_VALID, FAR_REFUSED };

/* The way of a free: fast if the block's bin is in the fast table. */
static enum far_verdict free_far_block(void)
{
    enum { LARGE = 3 << 20, SMALL = 3000 };
    for (size_t bytes = 0; bytes < (size_t)5 << 30; bytes += LARGE)
        if (!blocks_alloc(LARGE))
            return FAR_REFUSED;
    char *block, *again;
    do /* until the slabs that there are already are used up */
        block = blocks_alloc(SMALL);
    while (block && (uintptr_t)block - fast_table.base < (size_t)5 << 30);
    if (!block)
        return FAR_REFUSED;
    size_t granule = fast_table_unit(block) / UNITS_PER_GRANULE;
    bool fast = fast_table_covers(granule) && fast_table.bins[granule] != NULL;
    blocks_free(block);
    again = blocks_alloc(SMALL);
    if (again != block)
        return FAR_LOST;
    return !blocks_is_valid() ? FAR_NOT_VALID : fast ? FAR_FAST : FAR_SLOW;
}

/* obstacle: something else lies where the fast table would grow. */
static enum far_verdict child_frees_far_block(bool obstacle)
{
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(blocks_fork_child);
        if (obstacle && !pages_map_at((void *)&fast_table.bins[fast_table.granules], PAGE_BYTES))
            _exit(FAR_REFUSED);
        _exit((int)free_far_block());
    }
    fork_chain_parent();
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    return (enum far_verdict)WEXITSTATUS(status);
}

static void test_blocks_behind_4_gib_are_freed_the_fast_way(void **state)
{
    (void)state;
    enum far_verdict verdict = child_frees_far_block(false);
    if (verdict == FAR_REFUSED) {
        print_message("skipped: no address space of 5 GiB\n");
        skip();
    }
    assert_int_equal(verdict, FAR_FAST);
}

static void test_blocks_are_freed_where_the_fast_table_cannot_grow(void **state)
{
    (void)state;
    enum far_verdict verdict = child_frees_far_block(true);
    if (verdict == FAR_REFUSED) {
        print_message("skipped: no address space of 5 GiB\n");
        skip();
    }
    assert_int_equal(verdict, FAR_SLOW);
}

static int start(void **state)
{
    (void)state;
    return blocks_init(25, NULL) ? 0 : -1;
}

/* In a heap that has not seen memory come back, of which it would keep more. */
static void free_large_heap(void *unused)
{
    (void)unused;
    enum { BLOCKS = 256, BYTES = 1 << 20 };
    static void *all[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        all[i] = memset(blocks_alloc(BYTES), 1, BYTES);
    void *window_start = (void *)window.base;
    require(pages_resident(window_start, window_used_bytes()) >= (size_t)BLOCKS * BYTES);
    for (int i = 0; i < BLOCKS; i++)
        blocks_free(all[i]);
    require(pages_resident(window_start, window_used_bytes()) <
            (size_t)BLOCKS * BYTES / 4); /* decay.h: 32 MiB */
    require(blocks_is_valid());
}

/* Freed at once by a program that then does nothing: no look at a clock is needed. */
static void test_most_of_a_large_heap_is_given_back_while_it_is_freed(void **state)
{
    (void)state;
    assert_child_succeeds(free_large_heap, NULL);
}

static void test_calloc_of_what_was_written_and_freed_is_zero(void **state)
{
    (void)state;
    for (size_t bytes = 100000; bytes < (64 << 20); bytes *= 3)
        for (int i = 0; i < 3; i++) {
            char *first = blocks_alloc(bytes), *second = blocks_alloc(bytes);
            memset(first, 1, bytes);
            memset(second, 1, bytes);
            blocks_free(first);
            char *zero = blocks_alloc_zeroed(bytes + bytes / 2 * (size_t)i);
            assert_true(is_zero(zero, bytes + bytes / 2 * (size_t)i));
            blocks_free(zero);
            blocks_free(second);
        }
}

static pthread_barrier_t list_is_torn;

static void *tear_list(void *unused)
{
    (void)unused;
    void *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = blocks_alloc(1500);
    for (int i = 0; i < 3; i++)
        blocks_free(blocks[i]);
    *(uintptr_t *)blocks[1] = UINT64_C(0x4141414141414141);
    pthread_barrier_wait(&list_is_torn);
    pthread_barrier_wait(&list_is_torn); /* the child is forked */
    *(void **)blocks[1] = blocks[0];
    blocks_thread_exit();
    return NULL;
}

/* The copy of a page that a device writes to may be older than that of another: [the child's copy]
 * (heap.h). Here the program itself has written where it must not. */
static void test_a_forked_child_stops_where_another_threads_list_is_torn(void **state)
{
    (void)state;
    int status;
    pthread_t thread;
    assert_int_equal(pthread_barrier_init(&list_is_torn, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, tear_list, NULL), 0);
    pthread_barrier_wait(&list_is_torn);
    fork_chain_prepare();
    pid_t child = fork();
    if (child == 0) {
        fork_chain_child(blocks_fork_child);
        for (int i = 0; i < 100; i++)
            memset(blocks_alloc(1500), 1, 1500);
        _exit(blocks_is_valid() ? 0 : 1);
    }
    fork_chain_parent();
    pthread_barrier_wait(&list_is_torn);
    pthread_join(thread, NULL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static bool kernel_populates(void)
{
    char *page = pages_map(PAGE_BYTES, PAGE_BYTES);
    pages_populate(page, PAGE_BYTES);
    bool populates = pages_resident(page, PAGE_BYTES) == PAGE_BYTES;
    pages_unmap(page, PAGE_BYTES);
    return populates;
}

/* Takes slabs of a size, none of whose blocks is written, and tells how many of them have all their
 * pages, how many none. */
struct populated {
    size_t whole, none;
};

static struct populated take_slabs(size_t slabs, size_t bytes)
{
    struct populated found = {0};
    char *last = NULL;
    while (found.whole + found.none < slabs) {
        char *granule = (char *)round_down((uintptr_t)blocks_alloc(bytes), GRANULE_BYTES);
        if (granule == last)
            continue;
        last = granule;
        size_t resident = pages_resident(granule, GRANULE_BYTES);
        found.whole += resident == GRANULE_BYTES;
        found.none += resident == 0;
        assert_true(resident == 0 || resident == GRANULE_BYTES);
    }
    return found;
}

/* In a heap of one thread that nothing was freed of. */
static void grow_slabs(void *unused)
{
    (void)unused;
    enum { FROM = 4, SLABS = 40 };
    blocks_heap.populate_from = FROM;
    struct populated small = take_slabs(SLABS, 3584);
    require(small.none == FROM && small.whole == SLABS - FROM);
    struct populated large = take_slabs(SLABS, 8192);
    require(large.none == SLABS);
    blocks_heap.populate_from = 0;
    struct populated again = take_slabs(SLABS, 3584);
    require(again.none >= SLABS - 1); /* the first may be of the slab before */
}

/* Few system calls where most pages will be written, and no page too many where they may not. */
static void test_a_class_that_grows_gets_the_pages_of_a_slab_at_once(void **state)
{
    (void)state;
    if (!kernel_populates())
        skip();
    assert_child_succeeds(grow_slabs, NULL);
}

/* Slabs of a class that no other thread has, taken one after the other: where each one's first
 * block lies, and after how many blocks the next came. */
enum { STARTING_SLABS = 32 };

struct starts {
    size_t offset[STARTING_SLABS], blocks[STARTING_SLABS];
};

static char *granule_of(const void *block)
{
    return (char *)round_down((uintptr_t)block, GRANULE_BYTES);
}

/* Nothing was freed of the class. One slab more, so that the last one is counted to its end. */
static struct starts take_whole_slabs(size_t bytes)
{
    struct starts starts = {0};
    const char *last = NULL;
    for (size_t slab = 0; slab <= STARTING_SLABS;) {
        char *block = blocks_alloc(bytes);
        require(block);
        if (granule_of(block) != last) {
            last = granule_of(block);
            if (slab < STARTING_SLABS)
                starts.offset[slab] = (size_t)(block - last);
            slab++;
        }
        starts.blocks[slab <= STARTING_SLABS ? slab - 1 : 0]++;
    }
    starts.blocks[0]--; /* the first of the slab after the last one */
    return starts;
}

static void take_slabs_to_their_ends(void *bytes)
{
    size_t size = (size_t)bytes;
    struct starts starts = take_whole_slabs(size);
    uint64_t pages = 0;
    for (size_t i = 0; i < STARTING_SLABS; i++) {
        require(starts.blocks[i] == GRANULE_BYTES / size);
        pages |= UINT64_C(1) << starts.offset[i] / PAGE_BYTES;
    }
    require(count_bits(pages) >= 6); /* of 16; of some sizes few blocks begin soon after a page */
    require(live_blocks() == STARTING_SLABS * (GRANULE_BYTES / size) + 1);
    require(blocks_is_valid());
}

static void test_slabs_start_at_different_pages_and_are_used_to_their_ends(void **state)
{
    (void)state;
    for (size_t i = 0; size_class_bytes[i] <= PAGE_BYTES; i++)
        assert_child_succeeds(take_slabs_to_their_ends, (void *)(size_t)size_class_bytes[i]);
}

/* What is held back of a new slab is free to everyone who asks. */
static void look_at_a_new_slab(void *unused)
{
    (void)unused;
    enum { BYTES = 48 };
    size_t capacity = GRANULE_BYTES / BYTES, held_back = 0;
    for (size_t slab = 0; slab < STARTING_SLABS; slab++) {
        void *block = blocks_alloc(BYTES);
        const struct slab *of = blocks_slab_of(block);
        held_back += of->start % SLAB_WORD_BLOCKS > 0;
        struct allocator_statistics statistics;
        blocks_statistics(&statistics);
        require(statistics.heap.cached_blocks == capacity - 1);
        require(blocks_is_valid());
        for (size_t i = 1; i < capacity; i++)
            require(granule_of(blocks_alloc(BYTES)) == of->base);
        blocks_statistics(&statistics);
        require(statistics.heap.cached_blocks == 0);
    }
    require(held_back > 0);
}

static void test_blocks_that_a_new_slab_holds_back_count_as_free(void **state)
{
    (void)state;
    assert_child_succeeds(look_at_a_new_slab, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_size_classes_are_the_least_that_fit),
        cmocka_unit_test(test_a_class_that_grows_gets_the_pages_of_a_slab_at_once), /* in a child */
        cmocka_unit_test(test_slabs_start_at_different_pages_and_are_used_to_their_ends), /* too */
        cmocka_unit_test(test_blocks_that_a_new_slab_holds_back_count_as_free),           /* too */
        cmocka_unit_test(test_most_of_a_large_heap_is_given_back_while_it_is_freed),      /* too */
        cmocka_unit_test(test_all_memory_may_go_to_another_size), /* of a heap without gaps */
        cmocka_unit_test(test_blocks_behind_4_gib_are_freed_the_fast_way),
        cmocka_unit_test(test_blocks_are_freed_where_the_fast_table_cannot_grow),
        cmocka_unit_test(test_remote_frees_come_back),
        ALLOCATOR_TEST(test_agrees_with_a_model, whole),
        ALLOCATOR_TEST(test_threads_agree_with_models_and_free_each_others_blocks, whole),
        cmocka_unit_test(test_a_thread_may_allocate_after_its_exit),
        cmocka_unit_test(test_empty_slabs_go_back),
        cmocka_unit_test(test_the_block_freed_last_is_handed_out_first),
        cmocka_unit_test(test_trim_empties_the_lists),
        cmocka_unit_test(test_large_blocks_grow_and_keep_contents),
        cmocka_unit_test(test_a_large_block_that_outgrows_its_place_is_copied_once),
        ALLOCATOR_TEST(test_impossible_sizes_are_refused_and_the_shim_is_told, whole),
        ALLOCATOR_TEST(test_foreign_pointers_are_reported_and_ignored, whole),
        cmocka_unit_test(test_blocks_of_no_bytes_are_distinct),
        cmocka_unit_test(test_blocks_are_aligned_to_every_power_of_two),
        cmocka_unit_test(test_faults_of_the_program_abort),
        cmocka_unit_test(test_the_heap_may_be_looked_at_while_threads_come_and_go),
        ALLOCATOR_TEST(test_fork_while_threads_allocate, whole),
        ALLOCATOR_TEST(test_a_thread_allocates_while_another_forks, whole),
        ALLOCATOR_TEST(test_a_forked_child_has_the_free_blocks_of_all_threads, whole),
        cmocka_unit_test(test_a_forked_child_stops_where_another_threads_list_is_torn),
        ALLOCATOR_TEST(test_calloc_of_what_was_written_and_freed_is_zero, whole),
    };
    return cmocka_run_group_tests_name("blocks", tests, start, NULL);
}
