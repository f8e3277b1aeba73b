/* SPDX-License-Identifier: MIT */
/* test_caches.c: every number of sets, associativity and count of caches.c and shapes.c, against a
 * cache that is simulated by itself in the plainest way: a row of blocks with the time of their
 * last use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/caches.h"
#include "analysis/simulate/simulators/dispatch.h"
#include "analysis/simulate/simulators/shapes.h"
#include "tests/unit/reference_streams.h"

enum { REFERENCES = 12000 };

struct naive_line {
    uint64_t block, used;
    bool dirty;
};

struct naive {
    uint64_t misses[REFERENCE_CLASSES];
    uint64_t misses_once; /* a straddling reference counted once */
    uint64_t write_backs;
    uint64_t touches;
};

static struct naive naive_run(const struct stream *stream, uint64_t block_bytes, uint64_t sets,
                              unsigned ways)
{
    struct naive result = {0};
    struct naive_line *lines = calloc(sets * ways, sizeof *lines);
    for (size_t i = 0; i < stream->count; i++) {
        const struct reference *reference = &stream->reference[i];
        uint64_t end = end_of_units(reference, block_bytes);
        bool missed = false;
        for (uint64_t block = first_unit(reference, block_bytes); block < end; block++) {
            struct naive_line *set = &lines[block % sets * ways];
            struct naive_line *line = &set[0];
            for (unsigned way = 0; way < ways; way++) {
                if (set[way].used != 0 && set[way].block == block) {
                    line = &set[way];
                    break;
                }
                if (set[way].used < line->used)
                    line = &set[way];
            }
            if (line->used == 0 || line->block != block) {
                result.misses[reference->class]++;
                missed = true;
                result.write_backs += line->used != 0 && line->dirty;
                line->block = block;
                line->dirty = false;
            }
            line->dirty |= reference->kind;
            line->used = ++result.touches;
        }
        result.misses_once += missed;
    }
    free(lines);
    return result;
}

static bool feed_caches(void *caches, const struct references *references)
{
    return caches_feed(caches, references);
}

static bool feed_shape(void *cache, const struct references *references)
{
    return shape_cache_feed(cache, references);
}

static struct caches *run(const struct stream *stream, const struct caches_options *options)
{
    struct caches *caches = caches_new(options);
    assert_non_null(caches);
    assert_true(stream_feed(stream, feed_caches, caches));
    return caches;
}

static uint64_t misses_of_all(const struct caches *caches, unsigned sets_log2, unsigned ways)
{
    uint64_t sum = 0;
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        sum += caches_misses(caches, sets_log2, ways, class);
    return sum;
}

/* One simulator's results for one cache against the naive ones. */
static void compare(const struct caches *caches, const struct caches_options *options,
                    unsigned sets_log2, unsigned ways, const struct naive *naive)
{
    if (!options->everything) {
        uint64_t sum = 0;
        for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
            sum += naive->misses[class];
        assert_int_equal(misses_of_all(caches, sets_log2, ways), sum);
        return;
    }
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        assert_int_equal(caches_misses(caches, sets_log2, ways, class), naive->misses[class]);
    assert_int_equal(caches_write_backs(caches, sets_log2, ways), naive->write_backs);
}

/* Every way to simulate: stacks of 1, 8 and 16 ways, with and without everything, with and
 * without vectors. */
enum { VARIANTS = 12 };

static struct caches_options variant_options(unsigned variant, uint64_t block_bytes,
                                             unsigned fewest)
{
    static const unsigned ways[] = {1, 8, 16};
    return (struct caches_options){block_bytes, ways[variant / 4], variant % 2, UINT32_MAX, fewest};
}

/* fewest: the logarithm of the fewest sets. */
static void check_stream(unsigned number, uint64_t block_bytes, unsigned fewest)
{
    struct stream stream = stream_make(number, REFERENCES);
    struct caches *caches[VARIANTS];
    for (unsigned variant = 0; variant < VARIANTS; variant++) {
        struct caches_options options = variant_options(variant, block_bytes, fewest);
        dispatch_allow_avx512(variant / 2 % 2);
        caches[variant] = run(&stream, &options);
    }
    for (unsigned sets_log2 = fewest; sets_log2 < fewest + CACHES_LEVELS; sets_log2++)
        for (unsigned ways = 1; ways <= 16; ways++) {
            struct naive naive = naive_run(&stream, block_bytes, 1ULL << sets_log2, ways);
            for (unsigned variant = 0; variant < VARIANTS; variant++) {
                struct caches_options options = variant_options(variant, block_bytes, fewest);
                if (ways <= options.ways)
                    compare(caches[variant], &options, sets_log2, ways, &naive);
            }
        }
    for (unsigned variant = 0; variant < VARIANTS; variant++)
        caches_free(caches[variant]);
    stream_free(&stream);
}

static void test_every_cache_of_32_byte_blocks_equals_a_naive_one(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++)
        check_stream(number, 32, CACHES_FEWEST_SETS_LOG2);
}

static void test_every_cache_of_64_byte_blocks_equals_a_naive_one(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++)
        check_stream(number, 64, CACHES_FEWEST_SETS_LOG2);
}

static void test_every_cache_of_16_byte_blocks_equals_a_naive_one(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++)
        check_stream(number, 16, CACHES_FEWEST_SETS_LOG2);
}

static void test_every_tlb_equals_a_naive_cache_of_pages(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++) {
        check_stream(number, 4096, TLBS_FEWEST_SETS_LOG2);
        check_stream(number, 2 << 20, TLBS_FEWEST_SETS_LOG2);
    }
}

/* From one set on, where a name has room for no bit of the block's number below its tag. */
static void test_any_number_of_sets_can_be_the_fewest(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++)
        check_stream(number, 64, number % 5);
}

/* The largest reference touches more blocks of 16 bytes than any other unit. */
static void test_the_largest_reference_fits_a_batch(void **unused)
{
    (void)unused;
    enum { LONG = 40 };
    struct reference reference[LONG];
    for (unsigned i = 0; i < LONG; i++)
        reference[i] =
            (struct reference){.address = 0x10000fff + i * 8ULL, .size = UINT16_MAX, .kind = i % 2};
    struct stream stream = {"", LONG, reference, NULL};
    for (unsigned vectors = 0; vectors < 2; vectors++) {
        dispatch_allow_avx512(vectors);
        struct caches_options options = {16, 8, true, UINT32_MAX, CACHES_FEWEST_SETS_LOG2};
        struct caches *caches = caches_new(&options);
        struct references batch = {LONG, reference, NULL, NULL};
        assert_true(caches_feed(caches, &batch));
        for (unsigned sets_log2 = 5; sets_log2 <= 17; sets_log2++) {
            struct naive naive = naive_run(&stream, 16, 1ULL << sets_log2, 8);
            compare(caches, &options, sets_log2, 8, &naive);
        }
        caches_free(caches);
    }
}

/* Two simulators that share no code, on the same TLBs. */
static void test_tlbs_equal_shapes(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++) {
        struct stream stream = stream_make(number, REFERENCES);
        struct caches_options options = {4096, 16, true, UINT32_MAX, TLBS_FEWEST_SETS_LOG2};
        struct caches *caches = run(&stream, &options);
        for (unsigned sets_log2 = 2; sets_log2 <= 8; sets_log2++)
            for (unsigned ways = 1; ways <= 16; ways++) {
                struct shape shape = {"", 4096, 1ULL << sets_log2, ways};
                struct shape_cache *cache = shape_cache_new(&shape, false);
                assert_true(stream_feed(&stream, feed_shape, cache));
                const struct shape_counts *counts = shape_cache_counts(cache);
                assert_int_equal(counts->misses, misses_of_all(caches, sets_log2, ways));
                assert_int_equal(counts->write_backs, caches_write_backs(caches, sets_log2, ways));
                shape_cache_free(cache);
            }
        caches_free(caches);
        stream_free(&stream);
    }
}

static void test_slices_add_up_to_the_whole(void **unused)
{
    (void)unused;
    struct stream stream = stream_make(0, REFERENCES);
    struct caches_options options = {32, 16, true, UINT32_MAX, CACHES_FEWEST_SETS_LOG2};
    struct caches *whole = run(&stream, &options);
    options.slices = 0x0f3355aa;
    struct caches *part = run(&stream, &options);
    options.slices = ~options.slices;
    struct caches *rest = run(&stream, &options);
    for (unsigned sets_log2 = 5; sets_log2 <= 17; sets_log2++)
        for (unsigned ways = 1; ways <= 16; ways++) {
            assert_int_equal(misses_of_all(whole, sets_log2, ways),
                             misses_of_all(part, sets_log2, ways) +
                                 misses_of_all(rest, sets_log2, ways));
            assert_int_equal(caches_write_backs(whole, sets_log2, ways),
                             caches_write_backs(part, sets_log2, ways) +
                                 caches_write_backs(rest, sets_log2, ways));
        }
    caches_free(whole);
    caches_free(part);
    caches_free(rest);
    stream_free(&stream);
}

static void test_totals_count_references_stores_and_touches(void **unused)
{
    (void)unused;
    for (unsigned number = 0; number < STREAMS; number++)
        for (unsigned vectors = 0; vectors < 2; vectors++) {
            struct stream stream = stream_make(number, REFERENCES);
            struct caches_options options = {32, 1, true, UINT32_MAX, CACHES_FEWEST_SETS_LOG2};
            dispatch_allow_avx512(vectors);
            struct caches *caches = run(&stream, &options);
            struct reference_totals want[REFERENCE_CLASSES] = {0};
            for (size_t i = 0; i < stream.count; i++) {
                const struct reference *reference = &stream.reference[i];
                struct reference_totals *totals = &want[reference->class];
                totals->references++;
                totals->stores += reference->kind;
                totals->touches += end_of_units(reference, 32) - first_unit(reference, 32);
            }
            for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
                struct reference_totals got = caches_class_totals(caches, class);
                assert_memory_equal(&got, &want[class], sizeof got);
            }
            caches_free(caches);
            stream_free(&stream);
        }
}

static void test_shapes_equal_a_naive_cache(void **unused)
{
    (void)unused;
    static const struct shape shapes[] = {
        {"", 64, 64, 12}, {"", 64, 12, 20}, {"", 32, 48, 3},   {"", 64, 1, 40},
        {"", 32, 32, 1},  {"", 16, 24, 3},  {"", 4096, 1, 72}, {"", 2 << 20, 8, 4},
    };
    for (unsigned number = 0; number < STREAMS; number++) {
        struct stream stream = stream_make(number, REFERENCES);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            struct naive naive =
                naive_run(&stream, shapes[i].block_bytes, shapes[i].sets, shapes[i].ways);
            struct shape_cache *cache = shape_cache_new(&shapes[i], false);
            struct shape_cache *once = shape_cache_new(&shapes[i], true);
            assert_true(stream_feed(&stream, feed_shape, cache));
            assert_true(stream_feed(&stream, feed_shape, once));
            const struct shape_counts *counts = shape_cache_counts(cache);
            assert_int_equal(counts->write_backs, naive.write_backs);
            assert_memory_equal(counts->misses_of_class, naive.misses, sizeof naive.misses);
            assert_int_equal(shape_cache_counts(once)->misses, naive.misses_once);
            uint64_t by_set = 0, by_function = 0, by_region = 0;
            for (uint64_t set = 0; set < shapes[i].sets; set++)
                by_set += counts->misses_of_set[set];
            for (size_t function = 0; function < counts->functions; function++)
                by_function += counts->misses_of_function[function];
            for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
                for (unsigned region = 0; region < REFERENCE_REGIONS; region++)
                    by_region += counts->misses_of_region[class][region];
            assert_int_equal(by_set, counts->misses);
            assert_int_equal(by_function, counts->misses);
            assert_int_equal(by_region, counts->misses);
            shape_cache_free(cache);
            shape_cache_free(once);
        }
        stream_free(&stream);
    }
}

/* What a run shows by function: the misses of the references that carry its number. */
static void test_a_miss_belongs_to_the_function_region_and_set_of_its_reference(void **unused)
{
    (void)unused;
    const struct reference reference[] = {
        {0x1000, 7, 8, REFERENCE_LOAD, 0},
        {0x1040, 900, 8, REFERENCE_LOAD, 1},
        {0x1000, 7, 8, REFERENCE_LOAD, 2},
        {0x2000, 8, 8, REFERENCE_LOAD, 3},
    };
    const uint8_t region[] = {1, 2, 1, 3};
    struct references batch = {4, reference, region, NULL};
    struct shape shape = {"", 64, 2, 1};
    struct shape_cache *cache = shape_cache_new(&shape, false);
    assert_true(shape_cache_feed(cache, &batch));
    const struct shape_counts *counts = shape_cache_counts(cache);
    assert_int_equal(counts->misses, 3);
    assert_int_equal(counts->misses_of_function[7], 1);
    assert_int_equal(counts->misses_of_function[8], 1);
    assert_int_equal(counts->misses_of_function[900], 1);
    assert_int_equal(counts->misses_of_region[0][1], 1);
    assert_int_equal(counts->misses_of_region[1][2], 1);
    assert_int_equal(counts->misses_of_region[3][3], 1);
    assert_int_equal(counts->misses_of_class[2], 0);
    assert_int_equal(counts->misses_of_set[0], 2);
    assert_int_equal(counts->misses_of_set[1], 1);
    shape_cache_free(cache);
}

static void test_an_address_that_is_no_users_is_refused(void **unused)
{
    (void)unused;
    struct reference reference[24];
    for (unsigned i = 0; i < 24; i++)
        reference[i] = (struct reference){.address = 0x1000, .size = 8};
    reference[13].address = 0xffff800000000000;
    struct references batch = {24, reference, NULL, NULL};
    struct caches_options options = {32, 1, false, UINT32_MAX, CACHES_FEWEST_SETS_LOG2};
    for (unsigned vectors = 0; vectors < 2; vectors++) {
        dispatch_allow_avx512(vectors);
        struct caches *caches = caches_new(&options);
        assert_false(caches_feed(caches, &batch));
        assert_non_null(strstr(caches_error(caches), "0xffff800000000000"));
        assert_int_equal(caches_class_totals(caches, 0).references, 13);
        assert_false(caches_feed(caches, &batch));
        caches_free(caches);
    }
}

static void test_too_many_stretches_of_memory_are_refused(void **unused)
{
    (void)unused;
    enum { STRETCHES = 1 << 15 };
    struct reference *reference = malloc(STRETCHES * sizeof *reference);
    for (uint64_t i = 0; i < STRETCHES; i++)
        reference[i] = (struct reference){.address = (1ULL << 40) + (i << 22), .size = 8};
    struct references batch = {STRETCHES - 1, reference, NULL, NULL};
    struct caches_options options = {32, 1, false, UINT32_MAX, CACHES_FEWEST_SETS_LOG2};
    struct caches *caches = caches_new(&options);
    assert_true(caches_feed(caches, &batch));
    assert_int_equal(caches_misses(caches, 17, 1, 0), STRETCHES - 1);
    batch.count = STRETCHES;
    assert_false(caches_feed(caches, &batch));
    assert_non_null(strstr(caches_error(caches), "32767"));
    caches_free(caches);
    free(reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cache_of_32_byte_blocks_equals_a_naive_one),
        cmocka_unit_test(test_every_cache_of_64_byte_blocks_equals_a_naive_one),
        cmocka_unit_test(test_every_cache_of_16_byte_blocks_equals_a_naive_one),
        cmocka_unit_test(test_every_tlb_equals_a_naive_cache_of_pages),
        cmocka_unit_test(test_any_number_of_sets_can_be_the_fewest),
        cmocka_unit_test(test_the_largest_reference_fits_a_batch),
        cmocka_unit_test(test_tlbs_equal_shapes),
        cmocka_unit_test(test_slices_add_up_to_the_whole),
        cmocka_unit_test(test_totals_count_references_stores_and_touches),
        cmocka_unit_test(test_shapes_equal_a_naive_cache),
        cmocka_unit_test(test_a_miss_belongs_to_the_function_region_and_set_of_its_reference),
        cmocka_unit_test(test_an_address_that_is_no_users_is_refused),
        cmocka_unit_test(test_too_many_stretches_of_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, allow_vectors, NULL);
}
