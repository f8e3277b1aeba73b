/* SPDX-License-Identifier: MIT
 *
 * allocator_model.c: see allocator_model.h.
 */
#include "tests/unit/allocator_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "vm/fork_chain.h"

/* Mostly small, now and then of any class, or large. */
static size_t random_size(struct model *model)
{
    uint64_t number = next_random(&model->random), size = number >> 8;
    if (number % 128 == 0)
        return size % ((size_t)1 << 20);
    if (number % 8 == 0)
        return size % 40000;
    return size % 400;
}

/* Large blocks are looked at by samples, for speed. */
static size_t stride(size_t bytes)
{
    return bytes < 4096 ? 1 : 509;
}

static void fill(struct model_block *block)
{
    for (size_t i = 0; i < block->bytes; i += stride(block->bytes))
        block->start[i] = block->pattern;
    if (block->bytes > 0)
        block->start[block->bytes - 1] = block->pattern;
}

static const char *look_at(const struct allocator *allocator, const struct model_block *block)
{
    for (size_t i = 0; i < block->bytes; i += stride(block->bytes))
        if (block->start[i] != block->pattern)
            return "a block has lost its contents";
    if (allocator->usable_size(block->start) < block->bytes)
        return "a block has lost its size";
    return NULL;
}

static const char *enter(struct model *model, struct model_block *block, void *start, size_t bytes)
{
    block->start = start;
    block->bytes = bytes;
    block->pattern = (unsigned char)next_random(&model->random);
    if (!start)
        return "no memory";
    if ((uintptr_t)start % BLOCK_ALIGNMENT != 0)
        return "a block is not aligned";
    if (!model->allocator->owns(start))
        return "an allocator does not know its own block";
    if (model->allocator->usable_size(start) < bytes)
        return "a block is too small";
    fill(block);
    return NULL;
}

static const char *allocate(struct model *model, struct model_block *block)
{
    size_t bytes = random_size(model);
    uint64_t kind = next_random(&model->random) % 16;
    if (kind == 0) {
        void *start = model->allocator->alloc_zeroed(bytes);
        if (start && !is_zero(start, bytes))
            return "a block is not zero";
        return enter(model, block, start, bytes);
    }
    if (kind == 1) {
        size_t alignment = (size_t)1 << next_random(&model->random) % 15;
        void *start = model->allocator->alloc_aligned(alignment, bytes);
        if ((uintptr_t)start % alignment != 0)
            return "a block is not aligned as it should be";
        return enter(model, block, start, bytes);
    }
    return enter(model, block, model->allocator->alloc(bytes), bytes);
}

static const char *resize(struct model *model, struct model_block *block)
{
    size_t bytes = random_size(model) + 1;
    size_t kept = block->bytes < bytes ? block->bytes : bytes;
    unsigned char *resized = model->allocator->resize(block->start, bytes);
    if (!resized)
        return "no memory to resize a block";
    for (size_t i = 0; i < kept; i += stride(block->bytes))
        if (resized[i] != block->pattern)
            return "a block was resized without its contents";
    return enter(model, block, resized, bytes);
}

const char *model_free(const struct allocator *allocator, struct model_block *block)
{
    const char *wrong = look_at(allocator, block);
    allocator->free(block->start);
    block->start = NULL;
    return wrong;
}

static const char *request(struct model *model)
{
    struct model_block *block = &model->blocks[next_random(&model->random) % MODEL_BLOCKS];
    if (!block->start)
        return allocate(model, block);
    const char *wrong = look_at(model->allocator, block);
    if (wrong)
        return wrong;
    return next_random(&model->random) % 4 == 0 ? resize(model, block)
                                                : model_free(model->allocator, block);
}

const char *model_run(struct model *model, size_t requests)
{
    const char *wrong = NULL;
    while (!wrong && requests-- > 0)
        wrong = request(model);
    return wrong;
}

const char *model_drop(struct model *model)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < MODEL_BLOCKS; i++)
        if (model->blocks[i].start && !wrong)
            wrong = model_free(model->allocator, &model->blocks[i]);
    return wrong;
}

struct comparison {
    const struct model *models;
    size_t count;
    size_t live, unknown;
    uint64_t free_blocks, free_bytes, cached_blocks, cached_bytes;
};

static bool holds(const struct model *model, const struct block_info *info)
{
    for (size_t i = 0; i < MODEL_BLOCKS; i++)
        if (model->blocks[i].start == info->payload)
            return model->blocks[i].bytes <= info->usable_bytes;
    return false;
}

static void compare(void *argument, const struct block_info *info)
{
    struct comparison *comparison = argument;
    if (info->state == BLOCK_FREE) {
        comparison->free_blocks++;
        comparison->free_bytes += info->block_bytes;
    } else if (info->state == BLOCK_CACHED) {
        comparison->cached_blocks++;
        comparison->cached_bytes += info->usable_bytes;
    } else {
        bool known = false;
        for (size_t i = 0; i < comparison->count; i++)
            known = known || holds(&comparison->models[i], info);
        comparison->live++;
        comparison->unknown += !known;
    }
}

void model_assert_walk(const struct model *models, size_t count)
{
    const struct allocator *allocator = models->allocator;
    struct comparison found = {.models = models, .count = count};
    struct allocator_statistics statistics;
    size_t held = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < MODEL_BLOCKS; j++)
            held += models[i].blocks[j].start != NULL;
    allocator->walk(compare, &found);
    allocator->statistics(&statistics);
    assert_int_equal(found.unknown, 0);
    assert_int_equal(found.live, held);
    assert_int_equal(found.free_blocks, statistics.heap.free_blocks);
    assert_int_equal(found.free_bytes, statistics.heap.free_bytes);
    assert_int_equal(found.cached_blocks, statistics.heap.cached_blocks);
    assert_int_equal(found.cached_bytes, statistics.heap.cached_bytes);
    assert_int_equal(found.cached_bytes, allocator->cached_bytes());
    assert_true(allocator->is_valid());
}

enum { FORKING_THREADS = 3 };

static _Atomic bool stop;

static void *allocate_all_the_time(void *argument)
{
    struct model *model = argument;
    const char *wrong = NULL;
    while (!stop && !wrong)
        wrong = model_run(model, 100);
    if (!wrong)
        wrong = model_drop(model);
    model->allocator->thread_exit();
    return (void *)wrong;
}

static void go_on_in_child(const struct allocator *allocator)
{
    static struct model model;
    model = (struct model){.allocator = allocator, .random = 9};
    alarm(20); /* a lock that was left held would be waited for for ever */
    const char *wrong = model_run(&model, 2000);
    if (!wrong)
        wrong = model_drop(&model);
    _exit(wrong || !allocator->is_valid() ? 1 : 0);
}

void model_assert_forks(const struct allocator *allocator)
{
    static struct model models[FORKING_THREADS];
    pthread_t threads[FORKING_THREADS];
    stop = false;
    for (unsigned i = 0; i < FORKING_THREADS; i++) {
        models[i] = (struct model){.allocator = allocator, .random = 200 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_all_the_time, &models[i]), 0);
    }
    for (int i = 0; i < 30; i++) {
        int status;
        fork_chain_prepare();
        pid_t child = fork();
        if (child == 0) {
            fork_chain_child(allocator->fork_child);
            go_on_in_child(allocator);
        }
        fork_chain_parent();
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    stop = true;
    for (int i = 0; i < FORKING_THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (char *)wrong);
    }
    model_assert_walk(models, FORKING_THREADS);
}
