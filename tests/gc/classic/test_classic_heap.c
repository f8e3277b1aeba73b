/* SPDX-License-Identifier: MIT
 *
 * test_classic_heap.c: the 1992 collector's heap alone, over memory and roots that the test gives.
 *
 * The model knows which objects exist and which pointers are stored in them, and finds by itself
 * what can be reached from the roots. After every collection each object that it reaches must have
 * kept its contents, and the heap must have found exactly as many alive.
 */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "gc/classic/heap.h"
#include "vm/kernel/resident.h"
#include "vm/private_memory.h"
#include "vm/pages.h"

enum { GAP = 1 << 20 };
static const size_t SOURCE_BYTES = (size_t)64 << 20;

struct source {
    struct page_source pages;
    char *memory, *end;
    size_t calls_until_refusal, calls_until_apart; /* count down */
};

static void *extend(struct page_source *pages, size_t bytes)
{
    struct source *source = (struct source *)pages;
    if (source->calls_until_refusal-- == 0)
        return NULL;
    if (source->calls_until_apart-- == 0)
        source->end += GAP + 16;
    if (bytes > (size_t)(source->memory + SOURCE_BYTES - source->end))
        return NULL;
    source->end += bytes;
    return source->end - bytes;
}

static bool retract(struct page_source *pages, size_t bytes)
{
    ((struct source *)pages)->end -= bytes;
    return true;
}

static struct source source;
static struct classic_heap heap;

static int begin(bool interior)
{
    source = (struct source){.pages = {extend, retract, NULL}};
    source.memory = source.end = pages_map(SOURCE_BYTES, (size_t)64 << 10);
    source.calls_until_refusal = source.calls_until_apart = SIZE_MAX;
    heap = (struct classic_heap){0};
    return source.memory && classic_heap_init(&heap, &source.pages, interior) ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return begin(false);
}

static int set_up_interior(void **state)
{
    (void)state;
    return begin(true);
}

static int tear_down(void **state)
{
    (void)state;
    private_memory_unmap(heap.stack, heap.stack_room * sizeof *heap.stack);
    if (heap.states)
        private_memory_unmap(heap.states, heap.states_room);
    return pages_unmap(source.memory, SOURCE_BYTES) ? 0 : -1;
}

static struct classic_sweep collect(const void *start, const void *end)
{
    struct classic_sweep result;
    classic_heap_clear_marks(&heap);
    classic_heap_mark(&heap, start, end);
    classic_heap_mark_finish(&heap);
    classic_heap_sweep(&heap, &result);
    assert_true(classic_heap_is_valid(&heap));
    return result;
}

static void test_an_empty_heap_gives_nothing_and_survives_a_collection(void **state)
{
    (void)state;
    assert_null(classic_heap_alloc(&heap, 1));
    assert_null(classic_heap_find(&heap, (uintptr_t)source.memory));
    assert_int_equal(collect(NULL, NULL).live_objects, 0);
}

static size_t pages_of(const char *object, size_t bytes)
{
    uintptr_t start = round_down((uintptr_t)object, PAGE_BYTES);
    uintptr_t end = round_up((uintptr_t)object + bytes, PAGE_BYTES);
    return pages_resident((void *)start, end - start) / PAGE_BYTES;
}

static void test_pages_of_a_large_object_that_were_not_written_take_no_memory(void **state)
{
    (void)state;
    const size_t bytes = (size_t)16 << 20;
    assert_true(resident_open());
    assert_true(classic_heap_grow(&heap, bytes + 2 * CLASSIC_CHUNK_BYTES));
    char *large = classic_heap_alloc(&heap, bytes);
    assert_int_equal(pages_of(large, bytes), 1); /* its header's */
    void **last = (void **)(large + bytes) - 1;
    *last = classic_heap_alloc(&heap, 24);
    assert_int_equal(collect(&large, &large + 1).live_objects, 2);
    assert_int_equal(pages_of(large, bytes), 2);
    memset(large, 1, bytes);
    assert_int_equal(collect(NULL, NULL).live_objects, 0);
    assert_ptr_equal(classic_heap_alloc(&heap, bytes), large);
    assert_int_equal(pages_of(large, bytes), 1);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(large[i], 0);
}

static void test_objects_lie_behind_the_header_of_their_chunk(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, 2 * CLASSIC_CHUNK_BYTES));
    char *first = classic_heap_alloc(&heap, 24), *second = classic_heap_alloc(&heap, 32);
    char *other = classic_heap_alloc(&heap, 33);
    assert_int_equal((uintptr_t)first % CLASSIC_CHUNK_BYTES, CLASSIC_HEADER_BYTES);
    assert_ptr_equal(second, first + 32);
    assert_ptr_equal(other, first + CLASSIC_CHUNK_BYTES);
    assert_int_equal(classic_heap_object_bytes(&heap, other), 48);
    assert_null(classic_heap_alloc(&heap, 64));
}

static void test_only_a_pointer_to_the_start_keeps_an_object(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, 8 * CLASSIC_CHUNK_BYTES));
    char *small = classic_heap_alloc(&heap, 100), *large = classic_heap_alloc(&heap, 9000);
    uintptr_t roots[] = {(uintptr_t)small + 16, (uintptr_t)large + 4096, (uintptr_t)large - 16};
    assert_int_equal(collect(roots, roots + 3).live_objects, 0);
    assert_ptr_equal(classic_heap_alloc(&heap, 100), small);
}

static void test_with_interior_any_byte_keeps_an_object(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, 8 * CLASSIC_CHUNK_BYTES));
    char *small = classic_heap_alloc(&heap, 100), *large = classic_heap_alloc(&heap, 9000);
    uintptr_t roots[] = {(uintptr_t)small + 111, (uintptr_t)large + 8999};
    struct classic_sweep swept = collect(roots, roots + 2);
    assert_int_equal(swept.live_objects, 2);
    assert_int_equal(swept.live_bytes, 112 + 3 * CLASSIC_CHUNK_BYTES - CLASSIC_HEADER_BYTES);
}

static void test_with_interior_a_pointer_behind_the_end_keeps_an_object(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, 8 * CLASSIC_CHUNK_BYTES));
    char *small = classic_heap_alloc(&heap, 32), *next = classic_heap_alloc(&heap, 32);
    char *large = classic_heap_alloc(&heap, 3 * CLASSIC_CHUNK_BYTES - CLASSIC_HEADER_BYTES);
    uintptr_t roots[] = {(uintptr_t)small + 32,
                         (uintptr_t)large + 3 * CLASSIC_CHUNK_BYTES - CLASSIC_HEADER_BYTES};
    assert_ptr_equal(next, small + 32);
    assert_int_equal(collect(roots, roots + 2).live_objects, 3);
}

static void test_a_chain_is_followed_and_a_cycle_ends(void **state)
{
    (void)state;
    void *root = NULL;
    assert_true(classic_heap_grow(&heap, 4 << 20));
    void **last = NULL;
    for (int i = 0; i < 50000; i++) {
        void **object = classic_heap_alloc(&heap, 16 + i % 50);
        object[1] = root;
        root = object;
        last = last ? last : object;
    }
    last[1] = root;
    assert_int_equal(collect(&root, &root + 1).live_objects, 50000);
    root = NULL;
    assert_int_equal(collect(&root, &root + 1).live_objects, 0);
    assert_non_null(classic_heap_alloc(&heap, (4 << 20) - CLASSIC_HEADER_BYTES));
}

static void test_more_than_the_stack_holds_is_found_all_the_same(void **state)
{
    (void)state;
    enum { WIDTH = 3000 };
    assert_true(classic_heap_grow(&heap, 8 << 20));
    void **table = classic_heap_alloc(&heap, WIDTH * sizeof *table);
    for (int i = 0; i < WIDTH; i++) {
        void **branch = table[i] = classic_heap_alloc(&heap, 100);
        for (int j = 0; j < 10; j++) {
            branch[j] = classic_heap_alloc(&heap, 32);
            *(void **)branch[j] = i > 0 ? table[i - 1] : NULL;
        }
    }
    heap.stack_room = 7;
    struct classic_sweep swept = collect(&table, &table + 1);
    heap.stack_room = ((size_t)8 << 20) / sizeof *heap.stack;
    assert_int_equal(swept.live_objects, 1 + WIDTH * 11);
}

static void test_what_is_swept_is_handed_out_again_in_order_and_clear(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, CLASSIC_CHUNK_BYTES));
    char *objects[84];
    size_t count = 0;
    for (char *object; (object = classic_heap_alloc(&heap, 48)); count++) {
        memset(object, 0xaa, 48);
        objects[count] = object;
    }
    assert_int_equal(count, 84);
    void *kept = objects[40];
    assert_int_equal(collect(&kept, &kept + 1).live_objects, 1);
    for (size_t i = 0; i < count; i++)
        if (i != 40) {
            assert_ptr_equal(classic_heap_alloc(&heap, 48), objects[i]);
            assert_true(is_zero(objects[i], 48));
        }
    assert_int_equal(objects[40][47], (char)0xaa);
    assert_null(classic_heap_alloc(&heap, 48));
}

static void test_over_aligned_objects_are_kept_by_their_start(void **state)
{
    (void)state;
    assert_true(classic_heap_grow(&heap, 8 << 20));
    void *roots[16];
    for (int i = 0; i < 16; i++) {
        size_t alignment = (size_t)32 << i;
        roots[i] = classic_heap_alloc_aligned(&heap, alignment, 5000);
        assert_non_null(roots[i]);
        assert_int_equal((uintptr_t)roots[i] % alignment, 0);
        assert_in_range(classic_heap_object_bytes(&heap, roots[i]), 5000, 5000 + 4096);
        memset(roots[i], i, 5000);
    }
    assert_true(classic_heap_is_valid(&heap));
    assert_int_equal(collect(roots, roots + 16).live_objects, 16);
    assert_int_equal(collect(roots, roots + 7).live_objects, 7);
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 5000; j++)
            assert_int_equal(((char *)roots[i])[j], i);
}

static void test_room_for_is_enough_and_a_refusal_changes_nothing(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= (size_t)1 << 20; alignment *= 4) {
        for (size_t size = 1; size < 100000; size = size * 7 + 3) {
            assert_true(classic_heap_grow(&heap, classic_heap_room_for(alignment, size)));
            assert_non_null(alignment > 16 ? classic_heap_alloc_aligned(&heap, alignment, size)
                                           : classic_heap_alloc(&heap, size));
            collect(NULL, NULL);
        }
    }
    size_t before = classic_heap_bytes(&heap);
    source.calls_until_refusal = 0;
    assert_false(classic_heap_grow(&heap, 4096));
    assert_int_equal(classic_heap_bytes(&heap), before);
    assert_true(classic_heap_is_valid(&heap));
}

/* The source is at no multiple of a chunk. It gives what is to fill the gap elsewhere. */
static void test_what_is_given_in_two_places_is_not_taken_for_one(void **state)
{
    (void)state;
    source.end += 16;
    source.calls_until_apart = 1;
    assert_false(classic_heap_grow(&heap, 4096));
    assert_int_equal(classic_heap_bytes(&heap), 0);
    assert_true(classic_heap_grow(&heap, 4096));
    assert_true(classic_heap_is_valid(&heap));
}

/* The model. */

enum { OBJECTS = 4000, LINKS = 4, ROOTS = 40 };

struct object {
    char *address;                          /* NULL: gone */
    size_t bytes, links[LINKS], link_count; /* links: indices + 1 */
    unsigned char fill;
    bool reached;
};

static struct object model[OBJECTS];
static size_t model_count;

static void model_reach(size_t index)
{
    struct object *object = &model[index];
    if (object->reached)
        return;
    object->reached = true;
    for (size_t i = 0; i < object->link_count; i++)
        if (object->links[i])
            model_reach(object->links[i] - 1);
}

static void model_check(const struct object *object)
{
    for (size_t i = 0; i < object->link_count; i++) {
        char *target = object->links[i] ? model[object->links[i] - 1].address : NULL;
        assert_memory_equal(object->address + i * sizeof target, &target, sizeof target);
    }
    for (size_t i = object->link_count * sizeof(char *); i < object->bytes; i++)
        assert_int_equal((unsigned char)object->address[i], object->fill);
}

static void model_add(uint64_t *random)
{
    uint64_t kind = random_next(random) % 100;
    size_t bytes = kind < 90   ? 1 + random_next(random) % 300
                   : kind < 98 ? 1 + random_next(random) % 3000
                               : 1 + random_next(random) % 30000;
    struct object *object = &model[model_count];
    char *address = classic_heap_alloc(&heap, bytes);
    if (!address) {
        assert_true(classic_heap_grow(&heap, classic_heap_room_for(16, bytes)));
        address = classic_heap_alloc(&heap, bytes);
    }
    assert_true(is_zero(address, bytes));
    /* fills with bytes that, eight together, are no address of the heap */
    *object = (struct object){address,
                              bytes,
                              {0},
                              bytes / 8 < LINKS ? bytes / 8 : LINKS,
                              (unsigned char)(0x80 | random_next(random)),
                              false};
    memset(address, object->fill, bytes);
    for (size_t i = 0; i < object->link_count; i++) {
        size_t to = random_next(random) % (model_count + 2);
        bool linked = to < model_count && model[to].address;
        object->links[i] = linked ? to + 1 : 0;
        char *target = linked ? model[to].address : NULL;
        memcpy(address + i * sizeof target, &target, sizeof target);
    }
    model_count++;
}

static void collect_and_compare(char **roots, const size_t *root_indices)
{
    size_t reached = 0;
    for (size_t i = 0; i < model_count; i++)
        model[i].reached = !model[i].address;
    for (int i = 0; i < ROOTS; i++)
        if (roots[i])
            model_reach(root_indices[i]);
    for (size_t i = 0; i < model_count; i++)
        reached += model[i].address && model[i].reached;
    assert_int_equal(collect(roots, roots + ROOTS).live_objects, reached);
    for (size_t i = 0; i < model_count; i++) {
        if (!model[i].reached)
            model[i].address = NULL;
        if (model[i].address)
            model_check(&model[i]);
    }
}

static void test_agrees_with_a_model_on_random_graphs(void **state)
{
    (void)state;
    uint64_t random = 88172645463325252;
    for (int round = 0; round < 12; round++) {
        char *roots[ROOTS] = {NULL};
        size_t root_indices[ROOTS] = {0};
        model_count = 0;
        source.calls_until_apart = 5;
        while (model_count < OBJECTS) {
            model_add(&random);
            size_t at = random_next(&random) % ROOTS, index = model_count - 1;
            if (random_next(&random) % 3 == 0) {
                roots[at] = model[index].address;
                root_indices[at] = index;
            }
            if (random_next(&random) % 600 == 0)
                collect_and_compare(roots, root_indices);
        }
        memset(roots, 0, sizeof roots);
        collect_and_compare(roots, root_indices);
    }
}

struct tally {
    size_t live, live_bytes, all_bytes;
};

static void count(void *argument, const struct block_info *info)
{
    struct tally *tally = argument;
    tally->live += info->state == BLOCK_LIVE;
    tally->live_bytes += info->state == BLOCK_LIVE ? info->usable_bytes : 0;
    tally->all_bytes += info->block_bytes;
}

static void test_walk_tells_free_objects_from_others(void **state)
{
    (void)state;
    struct tally tally = {0};
    assert_true(classic_heap_grow(&heap, 64 * CLASSIC_CHUNK_BYTES));
    for (size_t size = 1; size < 3000; size += 111)
        assert_non_null(classic_heap_alloc(&heap, size));
    classic_heap_walk(&heap, count, &tally);
    assert_int_equal(tally.live, 28);
    assert_in_range(tally.all_bytes, 60 * CLASSIC_CHUNK_BYTES, 64 * CLASSIC_CHUNK_BYTES);
    collect(NULL, NULL);
    tally = (struct tally){0};
    classic_heap_walk(&heap, count, &tally);
    assert_int_equal(tally.live, 0);
    assert_int_equal(tally.all_bytes, 64 * CLASSIC_CHUNK_BYTES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_an_empty_heap_gives_nothing_and_survives_a_collection),
        TEST(test_objects_lie_behind_the_header_of_their_chunk),
        TEST(test_only_a_pointer_to_the_start_keeps_an_object),
        TEST(test_pages_of_a_large_object_that_were_not_written_take_no_memory),
        cmocka_unit_test_setup_teardown(test_with_interior_any_byte_keeps_an_object,
                                        set_up_interior, tear_down),
        cmocka_unit_test_setup_teardown(test_with_interior_a_pointer_behind_the_end_keeps_an_object,
                                        set_up_interior, tear_down),
        TEST(test_a_chain_is_followed_and_a_cycle_ends),
        TEST(test_more_than_the_stack_holds_is_found_all_the_same),
        TEST(test_what_is_swept_is_handed_out_again_in_order_and_clear),
        TEST(test_over_aligned_objects_are_kept_by_their_start),
        TEST(test_room_for_is_enough_and_a_refusal_changes_nothing),
        TEST(test_what_is_given_in_two_places_is_not_taken_for_one),
        TEST(test_agrees_with_a_model_on_random_graphs),
        TEST(test_walk_tells_free_objects_from_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
