/* SPDX-License-Identifier: MIT
 *
 * test_guarded.c: large blocks between pages without access: where a block and its guards lie, what
 * is said of a wrong write or free, and how long a freed block waits.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/mman.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "alloc/blocks/lookup.h"
#include "alloc/checked/guarded.h"
#include "vm/pages.h"

enum {
    WAITING = 8,   /* as guarded.c has it */
    BYTES = 40001, /* with 15 bytes of slack */
};

/* For children too. */
static char *take(size_t size)
{
    return guarded_alloc(BLOCK_ALIGNMENT, size, BY_MALLOC, NULL, LARGE_PLAIN);
}

static char *new_aligned(size_t alignment, size_t size)
{
    char *block = guarded_alloc(alignment, size, BY_MALLOC, NULL, LARGE_PLAIN);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % alignment, 0);
    assert_true(guarded_is_live(slab_at(block), block));
    assert_int_equal(guarded_facts(slab_at(block)).bytes, size);
    return block;
}

static char *new_block(size_t size)
{
    return new_aligned(BLOCK_ALIGNMENT, size);
}

enum { PLAIN_BLOCKS = 48 };

/* Blocks of `blocks` as large as one with guards, all of which are written, and freed. */
static void use_plain_blocks(void)
{
    char *plain[PLAIN_BLOCKS];
    for (size_t i = 0; i < PLAIN_BLOCKS; i++)
        plain[i] = memset(blocks_alloc(BYTES), 0xFF, BYTES);
    for (size_t i = 0; i < PLAIN_BLOCKS; i++)
        blocks_free(plain[i]);
}

static struct freeing freeing_of(void *block)
{
    return (struct freeing){
        .block = block, .function = "free", .size = UNKNOWN_SIZE, .how = BY_MALLOC};
}

static void give(char *block)
{
    const struct freeing freeing = freeing_of(block);
    guarded_free(slab_at(block), &freeing);
}

static size_t waiting(void)
{
    uint64_t blocks, bytes;
    guarded_count_waiting(&blocks, &bytes);
    return blocks;
}

static char *end_of_memory(const struct slab *slab)
{
    return slab->base + slab->granules * GRANULE_BYTES;
}

/* Where a block lies. */

static void test_a_block_ends_where_a_page_without_access_begins(void **state)
{
    (void)state;
    static const size_t sizes[] = {40000, BYTES, 65536, 69632, 1000000};
    static const size_t alignments[] = {16, 64, PAGE_BYTES, 2 * PAGE_BYTES, (size_t)1 << 20};
    for (size_t i = 0; i < 25; i++) {
        size_t size = sizes[i % 5], alignment = alignments[i / 5];
        char *block = new_aligned(alignment, size);
        const struct slab *slab = slab_at(block);
        char *guard = (char *)round_up((uintptr_t)block + size, PAGE_BYTES);
        while (alignment > PAGE_BYTES && guard < end_of_memory(slab) && is_readable(guard))
            guard += PAGE_BYTES; /* what is left over for the alignment is slack */
        assert_in_range(guard - (block + size), 0, alignment - 1);
        memset(block, 1, size);
        assert_true(is_readable(guard - 1));
        for (char *page = guard; page < end_of_memory(slab); page += PAGE_BYTES)
            assert_false(is_readable(page));
        assert_true(guard < end_of_memory(slab));
        assert_true(is_readable(slab->base + PAGE_BYTES));
        assert_false(is_readable(slab->base));
        assert_false(is_readable(slab->base + PAGE_BYTES - 1));
        give(block);
    }
}

static void test_a_block_that_has_grown_has_an_eighth_to_grow_into(void **state)
{
    (void)state;
    char *block = guarded_alloc(16, 80000, BY_MALLOC, NULL, LARGE_TO_GROW);
    struct slab *slab = slab_at(block);
    assert_ptr_equal(block, slab->base + PAGE_BYTES);
    memset(block, 1, 80000);
    assert_true(guarded_resize_in_place(slab, 90000));
    memset(block, 2, 90000);
    assert_int_equal(guarded_facts(slab).bytes, 90000);
    assert_false(guarded_resize_in_place(slab, slab->block_bytes - 2 * PAGE_BYTES + 1));
    assert_true(guarded_resize_in_place(slab, slab->block_bytes - 2 * PAGE_BYTES));
    assert_true(guarded_resize_in_place(slab, 90000));
    assert_false(guarded_resize_in_place(slab, 44999)); /* then it had better move */
    assert_true(guarded_resize_in_place(slab, 45000));
    assert_int_equal(guarded_facts(slab).bytes, 45000);
    give(block);
}

static void test_zero_bytes_come_out_of_memory_that_was_written(void **state)
{
    (void)state;
    char *blocks[PLAIN_BLOCKS];
    use_plain_blocks();
    for (size_t i = 0; i < PLAIN_BLOCKS; i++) {
        blocks[i] = guarded_alloc(16, BYTES, BY_MALLOC, NULL, LARGE_ZERO);
        assert_true(is_zero(blocks[i], BYTES));
    }
    for (size_t i = 0; i < PLAIN_BLOCKS; i++)
        give(blocks[i]);
}

/* Misuse. */

static void write_beside(void *argument)
{
    char *block = take(BYTES);
    block[*(const ptrdiff_t *)argument] ^= 1;
    give(block);
}

static void test_each_byte_beside_a_block_is_looked_at(void **state)
{
    (void)state;
    for (ptrdiff_t i = 1; i <= 16; i++) {
        ptrdiff_t before = -i, behind = BYTES + i - 1;
        assert_aborts(write_beside, &before, "written before its start: block of 40001 bytes");
        if (i < 16)
            assert_aborts(write_beside, &behind, "written behind its end: block of 40001 bytes");
    }
}

static void write_and_look(void *unused)
{
    (void)unused;
    char *block = take(BYTES);
    struct slab *slab = slab_at(block);
    guarded_look(slab, "exit");
    require(guarded_resize_in_place(slab, BYTES - 1000)); /* the slack is another then */
    guarded_look(slab, "exit");
    block[BYTES - 1000] = 1;
    guarded_look(slab, "exit");
}

static void test_a_look_finds_what_was_written_behind_the_end_as_it_is_now(void **state)
{
    (void)state;
    assert_aborts(write_and_look, NULL, "exit(0x");
    assert_aborts(write_and_look, NULL, "written behind its end: block of 39001 bytes");
}

static void free_twice(void *unused)
{
    (void)unused;
    char *block = take(BYTES);
    give(block);
    give(block);
}

static void free_inside(void *unused)
{
    (void)unused;
    give(take(BYTES) + 16);
}

static void test_wrong_frees_abort(void **state)
{
    (void)state;
    assert_aborts(free_twice, NULL, "freed twice: block of 40001 bytes");
    assert_aborts(free_inside, NULL, "not the start of a live block: 16 bytes into a block");
}

static void free_by_another_operator(void *size)
{
    char *block = take(BYTES);
    struct freeing freeing = freeing_of(block);
    freeing.size = *(const size_t *)size;
    freeing.how = freeing.size == UNKNOWN_SIZE ? BY_NEW : BY_MALLOC;
    guarded_free(slab_at(block), &freeing);
}

static void test_a_mismatch_is_told_of_and_ends_nothing(void **state)
{
    (void)state;
    static const struct {
        size_t size;
        const char *said;
    } frees[] = {{UNKNOWN_SIZE, "another kind of operator"},
                 {BYTES - 1, "another size than it was allocated with"}};
    for (size_t i = 0; i < 2; i++) {
        size_t size = frees[i].size;
        struct ending ending = run_child(free_by_another_operator, &size);
        assert_int_equal(ending.exit_status, 0);
        assert_non_null(strstr(ending.errors, frees[i].said));
    }
    size_t right = BYTES;
    struct ending ending = run_child(free_by_another_operator, &right);
    assert_int_equal(ending.exit_status, 0);
    assert_string_equal(ending.errors, "");
}

/* Freed blocks. */

static void test_freed_blocks_have_no_access_until_eight_others_were_freed(void **state)
{
    (void)state;
    enum { BLOCKS = 2 * WAITING };
    char *blocks[BLOCKS];
    struct slab *slabs[BLOCKS];
    guarded_drain();
    for (size_t i = 0; i < BLOCKS; i++)
        slabs[i] = slab_at(blocks[i] = new_block(BYTES + i * PAGE_BYTES));
    for (size_t i = 0; i < BLOCKS; i++) {
        uint64_t count, bytes, expected = 0;
        give(blocks[i]);
        assert_false(guarded_is_live(slabs[i], blocks[i]));
        assert_false(is_readable(blocks[i]));
        for (size_t j = 0; j <= i; j++) {
            bool waits = i - j < WAITING;
            assert_int_equal(slabs[j]->state, waits ? SLAB_RUN : SLAB_UNUSED);
            expected += waits ? slabs[j]->block_bytes : 0;
        }
        guarded_count_waiting(&count, &bytes);
        assert_int_equal(count, i < WAITING ? i + 1 : WAITING);
        assert_int_equal(bytes, expected);
    }
    assert_true(guarded_drain());
    assert_int_equal(waiting(), 0);
    assert_false(guarded_drain());
    use_plain_blocks(); /* which lie there, and find no guards */
    assert_true(blocks_is_valid());
}

static void test_a_very_large_block_does_not_wait(void **state)
{
    (void)state;
    guarded_drain();
    char *block = new_block((size_t)65 << 20);
    assert_int_equal(slab_at(block)->state, SLAB_MAPPING);
    give(block);
    assert_int_equal(waiting(), 0);
    assert_null(slab_at(block));
    assert_false(is_readable(block));
}

/* The kernel may not be asked for guards any more. */
static void alloc_in_sandbox(void *unused)
{
    (void)unused;
    char *old = take(BYTES), *waits = take(BYTES);
    give(waits);
    pages_enter_sandbox();
    require(waiting() == 1);
    char *block = take(BYTES);
    struct slab *slab = slab_at(block);
    memset(slab->base, 1, (size_t)(block - slab->base) - 16);
    memset(block, 1, BYTES);
    give(block);
    give(old);
    require(waiting() == 1 && guarded_drain());
    use_plain_blocks();
    require(blocks_is_valid());
}

static void test_in_a_sandbox_blocks_have_no_guards_and_do_not_wait(void **state)
{
    (void)state;
    assert_child_succeeds(alloc_in_sandbox, NULL);
}

/* From now on the call fails where its argument, counted from 0, has one of the bits. */
static void refuse(unsigned call, unsigned argument, unsigned bits, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 (unsigned)offsetof(struct seccomp_data, args) + argument * 8),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(CHILD_CANNOT_TELL);
}

/* Without marks in the page table, and then without a mapping to split one for protections. */
static void drain_without_mappings(void *unused)
{
    char *waits = take(BYTES);
    (void)unused;
    guarded_drain();
    refuse(SYS_madvise, 2, ADVICE_GUARD_INSTALL & ADVICE_GUARD_REMOVE & ~0xFU, EINVAL);
    give(waits);
    require(waiting() == 1);
    refuse(SYS_mprotect, 1, ~0U, ENOMEM);
    refuse(SYS_mmap, 3, MAP_FIXED, ENOMEM);
    guarded_drain();
    require(waiting() == 0);
    use_plain_blocks();
    require(blocks_is_valid());
}

/* The guard behind the block is refused, and that the one before it goes again. */
static void alloc_with_one_guard(void *unused)
{
    (void)unused;
    const struct slab *slab = slab_at(take(BYTES));
    size_t behind = slab->granules * GRANULE_BYTES - slab->block_bytes + PAGE_BYTES;
    refuse(SYS_madvise, 2, ADVICE_GUARD_INSTALL & ADVICE_GUARD_REMOVE & ~0xFU, EINVAL);
    refuse(SYS_mprotect, 1, (unsigned)behind & ~(unsigned)PAGE_BYTES, ENOMEM);
    refuse(SYS_mprotect, 2, PROT_READ, ENOMEM);
    refuse(SYS_mmap, 3, MAP_FIXED, ENOMEM);
    char *block = take(BYTES);
    memset(block, 1, BYTES);
    give(block);
    guarded_drain();
    use_plain_blocks();
    require(blocks_is_valid());
}

static void test_memory_that_stays_without_access_serves_nobody(void **state)
{
    (void)state;
    assert_child_succeeds(drain_without_mappings, NULL);
    assert_child_succeeds(alloc_with_one_guard, NULL);
}

static void test_blocks_agree_with_a_table_of_sizes_and_contents(void **state)
{
    (void)state;
    enum { MANY = 24, STEPS = 1500 };
    static struct {
        unsigned char *block;
        size_t size;
    } table[MANY];
    uint64_t random = 17;
    for (int step = 0; step < STEPS; step++) {
        size_t i = random_below(&random, MANY), size = random_between(&random, 33000, 300000);
        unsigned char *block = table[i].block;
        if (!block) {
            block = (unsigned char *)new_aligned((size_t)16 << random_below(&random, 10), size);
        } else {
            assert_int_equal(guarded_facts(slab_at(block)).bytes, table[i].size);
            assert_int_equal(block[0], i);
            assert_int_equal(block[table[i].size - 1], i);
            if (!guarded_resize_in_place(slab_at(block), size)) {
                give((char *)block);
                block = NULL;
            }
        }
        table[i].block = block;
        table[i].size = size;
        if (block)
            block[0] = block[size - 1] = (unsigned char)i;
    }
    for (size_t i = 0; i < MANY; i++)
        if (table[i].block)
            give((char *)table[i].block);
    guarded_drain();
    assert_true(blocks_is_valid());
    assert_int_equal(blocks_heap.large_blocks, 0);
}

static int start(void **state)
{
    (void)state;
    report_init(false, 1000);
    checked_fill_most = PAGE_BYTES;
    return sites_init() && blocks_init(25, NULL) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_bytes_come_out_of_memory_that_was_written), /* in a new heap */
        cmocka_unit_test(test_a_block_ends_where_a_page_without_access_begins),
        cmocka_unit_test(test_a_block_that_has_grown_has_an_eighth_to_grow_into),
        cmocka_unit_test(test_each_byte_beside_a_block_is_looked_at),
        cmocka_unit_test(test_a_look_finds_what_was_written_behind_the_end_as_it_is_now),
        cmocka_unit_test(test_wrong_frees_abort),
        cmocka_unit_test(test_a_mismatch_is_told_of_and_ends_nothing),
        cmocka_unit_test(test_freed_blocks_have_no_access_until_eight_others_were_freed),
        cmocka_unit_test(test_a_very_large_block_does_not_wait),
        cmocka_unit_test(test_in_a_sandbox_blocks_have_no_guards_and_do_not_wait),
        cmocka_unit_test(test_memory_that_stays_without_access_serves_nobody),
        cmocka_unit_test(test_blocks_agree_with_a_table_of_sizes_and_contents),
    };
    return cmocka_run_group_tests_name("guarded blocks", tests, start, NULL);
}
