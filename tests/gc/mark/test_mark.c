/* SPDX-License-Identifier: MIT
 *
 * test_mark.c: which blocks are marked, against a graph that the test knows.
 */
#include "tests/unit/unit.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/blocks/blocks.h"
#include "gc/mark/candidates.h"
#include "gc/mark/mark.h"
#include "gc/mark/marker.h"
#include "vm/granule_map.h"
#include "vm/own_memory.h"
#include "vm/pages.h"

enum { MARKERS = 4, STACK_BYTES = 1 << 20 };

static int make_heap(void **state)
{
    (void)state;
    own_memory_forked(); /* else mark_prepare takes us for a child, which has no helpers */
    return blocks_init(25, NULL) && mark_init(MARKERS, STACK_BYTES) ? 0 : -1;
}

static bool is_marked(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    assert_true(exact);
    return slab->words[index / SLAB_WORD_BLOCKS].mark & slab_bit(index);
}

/* What a collection does before and after; nothing else runs. */
static void begin_marking(void)
{
    mark_prepare();
    blocks_lock();
    blocks_set_local_free_bits(true);
    mark_begin();
}

static struct mark_result finish_marking(unsigned helpers)
{
    struct mark_result result;
    mark_finish(helpers, &result);
    blocks_set_local_free_bits(false);
    blocks_unlock();
    return result;
}

static struct mark_result mark_from(const void *roots, size_t bytes)
{
    begin_marking();
    mark_roots(roots, (const char *)roots + bytes);
    return finish_marking(0);
}

/* A pinned block is a root. */
static void pin(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    slab->has_pins = true;
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) |= slab_bit(index);
}

static void unpin(const void *block)
{
    struct slab *slab = blocks_slab_of(block);
    bool exact;
    size_t index = slab_index(slab, block, &exact);
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) &= ~slab_bit(index);
}

static struct mark_result mark_from_word(uintptr_t word)
{
    return mark_from(&word, sizeof word);
}

/* An interior pointer: a root that points to the start of a block keeps the one before it too. */
static struct mark_result mark_from_block(const void *block)
{
    return mark_from_word((uintptr_t)block + 1);
}

static void put_word(void *block, size_t offset, uintptr_t word)
{
    memcpy((char *)block + offset, &word, sizeof word);
}

static void *new_block(size_t bytes)
{
    void *block = blocks_alloc(bytes);
    assert_non_null(block);
    return memset(block, 0, blocks_usable_size(block)); /* whatever was there before */
}

/* Random graphs. */

enum { NODES = 30000, MOST_EDGES = 6, ROOTS = 20 };

struct node {
    char *block;
    size_t bytes;
    unsigned edges[MOST_EDGES], edge_count;
    bool reachable;
};

static struct node nodes[NODES];
static unsigned queue[NODES];

static size_t random_bytes(uint64_t *random)
{
    uint64_t kind = random_below(random, 1000);
    return kind == 0   ? random_between(random, 300000, 900000)
           : kind < 50 ? random_between(random, 200, 30000)
                       : random_between(random, 16, 200);
}

/* Words lie at any multiple of four bytes, without overlapping, and point to anywhere in a block.
 */
static void make_graph(uint64_t *random)
{
    for (unsigned i = 0; i < NODES; i++) {
        size_t bytes = random_bytes(random);
        nodes[i] = (struct node){.block = new_block(bytes), .bytes = bytes};
    }
    for (unsigned i = 0; i < NODES; i++) {
        struct node *node = &nodes[i];
        size_t slots = node->bytes / 12;
        for (size_t slot = 0; slot < slots && node->edge_count < MOST_EDGES; slot++) {
            if (random_below(random, slots) >= 2)
                continue;
            unsigned to = (unsigned)random_below(random, NODES);
            uintptr_t word = (uintptr_t)nodes[to].block + random_below(random, nodes[to].bytes);
            put_word(node->block, slot * 12, word);
            node->edges[node->edge_count++] = to;
        }
    }
}

static void free_graph(void)
{
    for (unsigned i = 0; i < NODES; i++)
        blocks_free(nodes[i].block);
    blocks_flush_thread();
}

/* Returns how many. */
static size_t find_reachable(const unsigned *roots)
{
    size_t count = 0;
    for (unsigned i = 0; i < NODES; i++)
        nodes[i].reachable = false;
    for (int i = 0; i < ROOTS; i++)
        if (!nodes[roots[i]].reachable) {
            nodes[roots[i]].reachable = true;
            queue[count++] = roots[i];
        }
    for (size_t at = 0; at < count; at++)
        for (unsigned edge = 0; edge < nodes[queue[at]].edge_count; edge++) {
            unsigned to = nodes[queue[at]].edges[edge];
            if (!nodes[to].reachable)
                queue[count++] = to;
            nodes[to].reachable = true;
        }
    return count;
}

static void mark_random_graphs(unsigned helpers)
{
    uint64_t random = 5 + helpers;
    for (int round = 0; round < 3; round++) {
        uintptr_t words[ROOTS];
        unsigned roots[ROOTS];
        make_graph(&random);
        for (int i = 0; i < ROOTS; i++) {
            roots[i] = (unsigned)random_below(&random, NODES);
            words[i] = (uintptr_t)nodes[roots[i]].block + 1 +
                       random_below(&random, nodes[roots[i]].bytes - 1);
        }
        size_t reachable = find_reachable(roots), bytes = 0;
        begin_marking();
        mark_roots(words, words + ROOTS);
        struct mark_result result = finish_marking(helpers);
        for (unsigned i = 0; i < NODES; i++) {
            assert_int_equal(is_marked(nodes[i].block), nodes[i].reachable);
            bytes += nodes[i].reachable ? blocks_usable_size(nodes[i].block) : 0;
        }
        assert_true(reachable > NODES / 10);
        assert_int_equal(result.blocks, reachable);
        assert_int_equal(result.bytes, bytes);
        assert_in_range(result.markers, 1, helpers + 1);
        free_graph();
    }
}

static void test_exactly_what_the_roots_reach_is_marked(void **state)
{
    (void)state;
    mark_random_graphs(0);
}

static void test_helpers_mark_the_same(void **state)
{
    (void)state;
    mark_random_graphs(MARKERS - 1);
    mark_random_graphs(100); /* no more than there are markers */
}

/* A list in which each block has many leaves that are looked at after the rest of the list: the
 * stack would have to hold nearly all of them. */
static void test_what_overflows_the_stack_is_found_again(void **state)
{
    (void)state;
    enum { LENGTH = 1000, LEAVES = 20 };
    static char *list[LENGTH], *leaves[LENGTH][LEAVES];
    assert_true(mark_init(MARKERS, 4 * PAGE_BYTES));
    for (int i = 0; i < LENGTH; i++) {
        list[i] = new_block((1 + LEAVES) * sizeof(uintptr_t));
        put_word(list[i], 0, i > 0 ? (uintptr_t)list[i - 1] : 0);
        for (size_t leaf = 0; leaf < LEAVES; leaf++) {
            leaves[i][leaf] = new_block(16);
            put_word(list[i], (1 + leaf) * sizeof(uintptr_t), (uintptr_t)leaves[i][leaf]);
        }
    }
    char *retired = leaves[LENGTH / 2][0], *behind = new_block(16);
    put_word(retired, 0, (uintptr_t)behind);
    blocks_retire(retired, "free");
    struct mark_result result = mark_from_block(list[LENGTH - 1]);
    assert_int_equal(result.blocks, LENGTH * (1 + LEAVES));
    assert_true(result.overflows > 0);
    assert_false(is_marked(behind));
    for (int i = 0; i < LENGTH; i++) {
        assert_true(is_marked(list[i]));
        for (int leaf = 0; leaf < LEAVES; leaf++) {
            assert_true(is_marked(leaves[i][leaf]));
            if (leaves[i][leaf] != retired)
                blocks_free(leaves[i][leaf]);
        }
    }
    for (int i = 0; i < LENGTH; i++)
        blocks_free(list[i]);
    assert_true(mark_init(MARKERS, STACK_BYTES));
}

static void test_a_stack_grows_as_far_as_it_may(void **state)
{
    (void)state;
    enum { LENGTH = 10000, WORDS = 41 };
    static char *list[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        list[i] = new_block(WORDS * sizeof(uintptr_t));
        put_word(list[i], 0, i > 0 ? (uintptr_t)list[i - 1] : 0);
        for (size_t word = 1; word < WORDS; word++)
            put_word(list[i], word * sizeof(uintptr_t), (uintptr_t)list[0]);
    }
    assert_true(mark_init(MARKERS, (size_t)4 << 20));
    struct mark_result result = mark_from_block(list[LENGTH - 1]);
    assert_int_equal(result.blocks, LENGTH);
    assert_int_equal(result.overflows, 0);
    for (int i = 0; i < LENGTH; i++)
        blocks_free(list[i]);
    assert_true(mark_init(MARKERS, STACK_BYTES));
}

/* Where words may lie. */

static void test_words_count_at_multiples_of_four_bytes(void **state)
{
    (void)state;
    static const size_t sizes[] = {48, 4000, 40000};
    char *to = new_block(48);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *from = new_block(sizes[i]);
        for (size_t offset = 0; offset <= sizes[i] - 8; offset += sizes[i] > 400 ? 41 : 1) {
            put_word(from, offset, (uintptr_t)to);
            assert_int_equal(mark_from_block(from).blocks, 1 + (offset % 4 == 0));
            assert_int_equal(is_marked(to), offset % 4 == 0);
            put_word(from, offset, 0);
        }
        blocks_free(from);
    }
    blocks_free(to);
}

/* A block of many words is scanned in pieces. */
static void test_a_word_across_two_pieces_counts(void **state)
{
    (void)state;
    char *from = new_block(100000), *to = new_block(48);
    for (size_t offset = 4096 - 40; offset<100000 - 8; offset += offset % 4096> 40 ? 4 : 3996) {
        put_word(from, offset, (uintptr_t)to);
        mark_from_block(from);
        assert_true(is_marked(to));
        put_word(from, offset, 0);
    }
    blocks_free(from);
    blocks_free(to);
}

static void test_roots_count_at_multiples_of_four_bytes_and_in_code_anywhere(void **state)
{
    (void)state;
    _Alignas(64) char memory[400] = {0};
    char *to = new_block(48);
    for (size_t offset = 0; offset <= sizeof memory - 8; offset++) {
        put_word(memory, offset, (uintptr_t)to + 5);
        assert_int_equal(mark_from(memory, sizeof memory).blocks, offset % 4 == 0);
        begin_marking();
        mark_roots_in_code(memory, memory + sizeof memory);
        assert_int_equal(finish_marking(0).blocks, 1);
        put_word(memory, offset, 0);
    }
    put_word(memory, sizeof memory - 8, (uintptr_t)to + 5);
    assert_int_equal(mark_from(memory, sizeof memory - 1).blocks, 0); /* it is not all there */
    blocks_free(to);
}

static void test_a_word_in_code_counts_if_all_of_it_is_there(void **state)
{
    (void)state;
    enum { MOST = 60 };
    _Alignas(64) char memory[MOST + 2 * sizeof(uintptr_t)] = {0};
    char *to = new_block(48);
    put_word(memory, MOST / 2, (uintptr_t)to + 5);
    for (size_t start = 0; start <= MOST; start++)
        for (size_t end = start; end <= sizeof memory; end++) {
            begin_marking();
            mark_roots_in_code(memory + start, memory + end);
            bool is_there = start <= MOST / 2 && end >= MOST / 2 + sizeof(uintptr_t);
            assert_int_equal(finish_marking(0).blocks, is_there);
        }
    blocks_free(to);
}

static uintptr_t mangled(const void *pointer)
{
    uintptr_t word = (uintptr_t)pointer ^ pointer_guard();
    return word << 17 | word >> 47;
}

static void test_what_setjmp_has_mangled_counts_in_roots_and_in_blocks_for_it(void **state)
{
    (void)state;
    uintptr_t roots[16] = {0};
    char *to = new_block(48), *buffer = new_block(sizeof(jmp_buf)), *small = new_block(96);
    for (int i = 0; i < 16; i++) {
        roots[i] = mangled(to + 8);
        mark_from(roots, sizeof roots);
        assert_true(is_marked(to));
        roots[i] = 0;
    }
    for (size_t offset = 0; offset < 64; offset += sizeof(uintptr_t)) {
        put_word(buffer, offset, mangled(to));
        mark_from_block(buffer);
        assert_true(is_marked(to));
        put_word(buffer, offset, 0);
    }
    put_word(small, 8, mangled(to));
    mark_from_block(small);
    assert_false(is_marked(to)); /* too small for a jmp_buf */
    blocks_free(to);
    blocks_free(buffer);
    blocks_free(small);
}

/* What a word refers to. */

static void test_what_is_not_live_is_not_marked(void **state)
{
    (void)state;
    char *from = new_block(48), *dead = new_block(48), *behind = new_block(48);
    put_word(dead, 16, (uintptr_t)behind);
    put_word(from, 0, (uintptr_t)dead + 8);
    blocks_free(dead);
    assert_int_equal(mark_from_block(from).blocks, 1);
    assert_false(is_marked(behind));
    assert_int_equal(mark_from_word((uintptr_t)&from).blocks, 0); /* no block at all */
    blocks_free(from);
    blocks_free(behind);
}

static void test_a_retired_block_is_marked_but_not_followed(void **state)
{
    (void)state;
    char *from = new_block(48), *retired = new_block(48), *behind = new_block(48);
    put_word(from, 0, (uintptr_t)retired);
    put_word(retired, 0, (uintptr_t)behind);
    blocks_retire(retired, "free");
    assert_int_equal(mark_from_block(from).blocks, 2);
    assert_true(is_marked(retired));
    assert_false(is_marked(behind));
}

/* Three blocks side by side. */
static void take_neighbours(char **blocks)
{
    enum { MANY = 64 };
    char *all[MANY];
    for (int i = 0; i < MANY; i++)
        all[i] = new_block(240);
    for (int i = 0; i + 2 < MANY; i++)
        for (int j = 0; j < MANY; j++)
            for (int k = 0; k < MANY; k++)
                if (all[j] == all[i] + 240 && all[k] == all[j] + 240) {
                    blocks[0] = all[i];
                    blocks[1] = all[j];
                    blocks[2] = all[k];
                    return;
                }
    fail_msg("no three blocks lie side by side");
}

static void test_one_past_the_end_in_a_root_keeps_both_neighbours(void **state)
{
    (void)state;
    char *side_by_side[3];
    take_neighbours(side_by_side);
    assert_int_equal(mark_from_word((uintptr_t)side_by_side[1]).blocks, 2);
    assert_true(is_marked(side_by_side[0]));
    assert_true(is_marked(side_by_side[1]));
    assert_false(is_marked(side_by_side[2]));
}

static void test_one_past_the_end_in_a_block_keeps_what_ends_there_if_nothing_begins(void **state)
{
    (void)state;
    char *side_by_side[3], *from = new_block(48);
    take_neighbours(side_by_side);
    put_word(from, 0, (uintptr_t)side_by_side[1]);
    mark_from_block(from);
    assert_false(is_marked(side_by_side[0]));
    assert_true(is_marked(side_by_side[1]));
    blocks_free(side_by_side[1]);
    mark_from_block(from);
    assert_true(is_marked(side_by_side[0]));
    assert_false(is_marked(side_by_side[2]));
}

/* No word leads to it: what the kernel knows it by cannot be seen. */
static void test_a_pinned_block_is_marked_and_followed(void **state)
{
    (void)state;
    char *pinned = new_block(200), *behind = new_block(64), *other = new_block(64);
    struct slab *slab = blocks_slab_of(pinned);
    bool exact;
    size_t index = slab_index(slab, pinned, &exact);
    put_word(pinned, 8, (uintptr_t)behind);
    slab->has_pins = true;
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) |= slab_bit(index);
    begin_marking();
    mark_pinned();
    finish_marking(0);
    assert_true(is_marked(pinned) && is_marked(behind));
    assert_false(is_marked(other));
    *slab_pinned(slab, index / SLAB_WORD_BLOCKS) &= ~slab_bit(index);
    blocks_free(pinned);
    blocks_free(behind);
    blocks_free(other);
}

static void test_a_retired_block_that_is_kept_by_its_end_is_not_followed(void **state)
{
    (void)state;
    char *side_by_side[3], *from = new_block(48), *behind = new_block(48);
    take_neighbours(side_by_side);
    put_word(side_by_side[0], 0, (uintptr_t)behind);
    blocks_retire(side_by_side[0], "free");
    put_word(from, 0, (uintptr_t)side_by_side[1]);
    blocks_free(side_by_side[1]);
    mark_from_block(from);
    assert_true(is_marked(side_by_side[0]));
    assert_false(is_marked(behind));
}

/* The last block of a slab with a remainder behind it, which is no block. */
static char *last_block_of_a_slab(void)
{
    for (int i = 0; i < 10000; i++) {
        char *block = new_block(48);
        struct slab *slab = blocks_slab_of(block);
        if (block == slab_block(slab, slab->capacity - 1))
            return block;
    }
    fail_msg("no slab is used to its end");
    return NULL;
}

static void test_one_past_the_end_of_a_slabs_last_block_keeps_it(void **state)
{
    (void)state;
    char *last = last_block_of_a_slab(), *from = new_block(48);
    assert_ptr_equal(blocks_slab_of(last + 48), blocks_slab_of(last)); /* the remainder */
    put_word(from, 0, (uintptr_t)last + 48);
    mark_from_block(from);
    assert_true(is_marked(last));
}

static void find_end(void *end, struct slab *slab)
{
    char *slab_end = slab->base + slab->granules * GRANULE_BYTES;
    if (slab_end > *(char **)end)
        *(char **)end = slab_end;
}

/* Behind the last slab of all there is nothing of ours. */
static void test_one_past_the_end_of_all_keeps_the_last_block(void **state)
{
    (void)state;
    char *from = new_block(48), *last, *end = NULL;
    do {
        last = new_block(1 << 20);
        blocks_lock();
        blocks_each_slab(find_end, &end);
        blocks_unlock();
    } while (last + blocks_usable_size(last) != end);
    assert_null(blocks_slab_of(end));
    put_word(from, 0, (uintptr_t)end);
    mark_from_block(from);
    assert_true(is_marked(last));
}

/* Pins. */

static uint64_t mark_from_pins(void)
{
    begin_marking();
    uint64_t pinned = mark_pinned();
    finish_marking(0);
    return pinned;
}

static void test_a_pinned_block_is_a_root(void **state)
{
    (void)state;
    char *root = new_block(48), *behind = new_block(48), *further = new_block(48);
    put_word(root, 0, (uintptr_t)behind + 8);
    put_word(behind, 16, (uintptr_t)further);
    mark_from_pins();
    assert_false(is_marked(root));
    pin(root);
    assert_int_equal(mark_from_pins(), 1);
    assert_true(is_marked(root));
    assert_true(is_marked(behind));
    assert_true(is_marked(further));
    unpin(root);
}

static void test_distances_count_in_pinned_blocks_only(void **state)
{
    (void)state;
    char *root = new_block(300 << 10), *from_block = new_block(48), *from_word = new_block(48);
    char *inside = new_block(48), *from_further = new_block(48);
    put_word(root, 0, (uintptr_t)(from_block - root));
    put_word(root, 24, (uintptr_t)(from_word - (root + 24)));
    put_word(root, 40, (uintptr_t)(inside + 16 - root)); /* no block's start */
    put_word(from_block, 0, (uintptr_t)(from_further - from_block));
    mark_from_block(root);
    assert_false(is_marked(from_block));
    assert_false(is_marked(from_word));
    pin(root);
    assert_int_equal(mark_from_pins(), 1);
    assert_true(is_marked(from_block));
    assert_true(is_marked(from_word));
    assert_false(is_marked(inside));
    assert_false(is_marked(from_further)); /* its own block is not pinned */
    unpin(root);
}

static void test_a_pinned_block_that_is_not_live_is_no_root(void **state)
{
    (void)state;
    char *freed = new_block(48), *retired = new_block(48), *behind = new_block(48);
    put_word(freed, 16, (uintptr_t)behind);
    put_word(retired, 16, (uintptr_t)behind);
    pin(freed);
    pin(retired);
    blocks_free(freed);
    blocks_retire(retired, "free");
    assert_int_equal(mark_from_pins(), 0);
    assert_false(is_marked(behind));
    unpin(freed);
    unpin(retired);
}

/* A helper that was late held the pool's lock when the process forked, and is not in the child. */
static void mark_where_a_helper_held_the_pool(void *block)
{
    atomic_store(&mark.pool_lock, 1);
    atomic_store(&mark.markers[1].running, 1);
    mark_forget_helpers();
    alarm(60);
    begin_marking();
    uintptr_t word = (uintptr_t)block + 1;
    mark_roots(&word, (const char *)&word + sizeof word);
    finish_marking(MARKERS - 1);
    require(is_marked(block));
}

static void test_a_child_needs_nothing_that_a_helper_held(void **state)
{
    (void)state;
    void *block = new_block(64);
    assert_child_succeeds(mark_where_a_helper_held_the_pool, block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_what_the_roots_reach_is_marked),
        cmocka_unit_test(test_helpers_mark_the_same),
        cmocka_unit_test(test_what_overflows_the_stack_is_found_again),
        cmocka_unit_test(test_a_stack_grows_as_far_as_it_may),
        cmocka_unit_test(test_words_count_at_multiples_of_four_bytes),
        cmocka_unit_test(test_a_word_across_two_pieces_counts),
        cmocka_unit_test(test_roots_count_at_multiples_of_four_bytes_and_in_code_anywhere),
        cmocka_unit_test(test_a_word_in_code_counts_if_all_of_it_is_there),
        cmocka_unit_test(test_what_setjmp_has_mangled_counts_in_roots_and_in_blocks_for_it),
        cmocka_unit_test(test_what_is_not_live_is_not_marked),
        cmocka_unit_test(test_a_retired_block_is_marked_but_not_followed),
        cmocka_unit_test(test_one_past_the_end_in_a_root_keeps_both_neighbours),
        cmocka_unit_test(test_one_past_the_end_in_a_block_keeps_what_ends_there_if_nothing_begins),
        cmocka_unit_test(test_a_pinned_block_is_marked_and_followed),
        cmocka_unit_test(test_a_retired_block_that_is_kept_by_its_end_is_not_followed),
        cmocka_unit_test(test_one_past_the_end_of_a_slabs_last_block_keeps_it),
        cmocka_unit_test(test_one_past_the_end_of_all_keeps_the_last_block),
        cmocka_unit_test(test_a_pinned_block_is_a_root),
        cmocka_unit_test(test_distances_count_in_pinned_blocks_only),
        cmocka_unit_test(test_a_pinned_block_that_is_not_live_is_no_root),
        cmocka_unit_test(test_a_child_needs_nothing_that_a_helper_held),
    };
    return cmocka_run_group_tests(tests, make_heap, NULL);
}
