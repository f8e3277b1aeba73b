/* SPDX-License-Identifier: MIT
 *
 * model.c: see model.h.
 */
#include "tests/unit/model.h"

#include "bench_programs/random.h"

/* Mostly small, now and then of any class, or large. */
static size_t random_size(struct model *model)
{
    uint64_t number = random_next(&model->random), size = number >> 8;
    switch (number % 128) {
    case 0:
        return size % (model->most_bytes ? model->most_bytes : (size_t)1 << 20);
    case 1 ... 4:
        return size % 300000;
    case 5 ... 20:
        return size % 40000;
    default:
        return size % 400;
    }
}

static const char *allocate(struct model *model, struct held_block *block, size_t bytes)
{
    static const enum how_allocated kinds[16] = {ZEROED, ZEROED, ZEROED, ALIGNED,
                                                 ALIGNED}; /* the others: PLAIN */
    struct wish wish = {
        .how = kinds[random_below(&model->random, 16)],
        .bytes = bytes,
    };
    wish.alignment = (size_t)1 << random_below(&model->random, 15);
    wish.number = random_next(&model->random);
    return held_alloc(block, model->allocator, &wish);
}

static size_t entries(const struct model *model)
{
    return model->entries ? model->entries : MODEL_BLOCKS;
}

const char *model_request(struct model *model, size_t bytes)
{
    struct held_block *block = &model->blocks[random_below(&model->random, entries(model))];
    if (!block->start)
        return allocate(model, block, bytes);
    if (random_below(&model->random, 4) != 0)
        return held_free(block, model->allocator);
    return held_resize(block, model->allocator, bytes + 1, random_next(&model->random));
}

const char *model_run(struct model *model, size_t requests)
{
    const char *wrong = NULL;
    while (!wrong && requests-- > 0)
        wrong = model_request(model, random_size(model));
    return wrong;
}

const char *model_drop(struct model *model)
{
    const char *wrong = NULL;
    for (size_t i = 0; i < entries(model) && !wrong; i++)
        if (model->blocks[i].start)
            wrong = held_free(&model->blocks[i], model->allocator);
    return wrong;
}

struct walk {
    const struct model *models;
    size_t count;
    struct meeting meeting;
};

/* The models' block that lies in what a walk has met; its whole size must. */
static const struct held_block *find_held(const struct walk *walk, const struct block_info *info)
{
    const unsigned char *payload = info->payload, *end = payload + info->usable_bytes;
    for (size_t i = 0; i < walk->count; i++)
        for (size_t j = 0; j < entries(&walk->models[i]); j++) {
            const struct held_block *block = &walk->models[i].blocks[j];
            if (payload <= block->start && block->start < end && block->start + block->bytes <= end)
                return block;
        }
    return NULL;
}

static void meet(void *argument, const struct block_info *info)
{
    struct walk *walk = argument;
    struct meeting *meeting = &walk->meeting;
    if (info->state == BLOCK_FREE) {
        meeting->free_blocks++;
        meeting->free_bytes += info->block_bytes;
    } else if (info->state == BLOCK_CACHED) {
        meeting->cached_blocks++;
        meeting->cached_bytes += info->usable_bytes;
    } else {
        const struct held_block *held = find_held(walk, info);
        meeting->live++;
        meeting->unknown += !held;
        meeting->elsewhere += held && held->start != info->payload;
    }
}

struct meeting model_meet(const struct model *models, size_t count)
{
    struct walk walk = {.models = models, .count = count};
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < entries(&models[i]); j++)
            walk.meeting.held += models[i].blocks[j].start != NULL;
    models->allocator->walk(meet, &walk);
    return walk.meeting;
}
