/* SPDX-License-Identifier: MIT
 *
 * superblocks.c: what the recorder says of superblocks, prepared for executing them.
 *
 * A superblock can be left in several ways. A doorbell divides a way into segments, each of which
 * is a path of the sink's: what stands before the bell is executed, then the bell is rung.
 */
#include <stdlib.h>
#include <string.h>

#include "trace/references/raw_state.h"

static bool is_bell(const struct raw_slot *slot)
{
    unsigned kind = slot->description & 0xff;
    return kind == RAW_DOORBELL || kind == RAW_STACK_JUMP;
}

static uint32_t base_of(const struct raw_slot *slot)
{
    return slot->description >> 48;
}

_Static_assert((int)RAW_BASE_NOTHING == (int)TRACE_BASE_NOTHING &&
                   (int)RAW_BASE_STACK == (int)TRACE_BASE_STACK &&
                   (int)RAW_BASE_SLOT == (int)TRACE_BASE_SLOT && (int)RAW_TOLD == (int)TRACE_TOLD,
               "bases are passed on as they are");

/* Bells among the slots before `end`. */
static uint32_t count_bells(const struct superblock *superblock, uint32_t end)
{
    uint32_t bells = 0;
    for (uint32_t i = 0; i < end; i++)
        bells += is_bell(&superblock->slots[i]);
    return bells;
}

static uint32_t count_words(const struct superblock *superblock, uint32_t end)
{
    uint32_t words = 0;
    for (uint32_t i = 0; i < end; i++)
        words += base_of(&superblock->slots[i]) == RAW_TOLD;
    return words;
}

/* The base as the sink numbers slots: it does not know bells. */
static uint16_t sinks_base(const struct superblock *superblock, uint32_t base)
{
    if (base < RAW_BASE_SLOT)
        return (uint16_t)base;
    return (uint16_t)(base - count_bells(superblock, base - RAW_BASE_SLOT));
}

/* Describes to the sink the slots [first, end) of a way and the instructions from `done` to `now`.
 * The way's effect on the stack pointer is that of its last part. Returns the path's number, or -1.
 */
static int64_t describe_path(struct raw_decoder *decoder, const struct superblock *superblock,
                             const struct way *way, uint32_t first, uint32_t end, uint32_t done,
                             uint32_t now)
{
    struct trace_path described = {
        .superblock = superblock->number,
        .first = first - count_bells(superblock, first),
        .end = end - count_bells(superblock, end),
        .instructions = now - done,
    };
    if (end == way->slots) {
        described.stack_base = sinks_base(superblock, way->stack_base);
        described.stack_offset = way->stack_offset;
    }
    int64_t path = decoder->sink->path(decoder->sink->context, &described);
    return path < 0 ? raw_sink_failed(decoder) : path;
}

int raw_prepare_way(struct raw_decoder *decoder, const struct superblock *superblock,
                    struct way *way)
{
    uint32_t bells = count_bells(superblock, way->slots);
    if (bells == 0) {
        int64_t path = describe_path(decoder, superblock, way, 0, way->slots, 0, way->instructions);
        way->path = (uint32_t)path;
        return path < 0 ? -1 : 0;
    }
    struct segment *segment = way->segments = calloc(bells + 1, sizeof *segment);
    if (!segment)
        return raw_sink_failed(decoder);
    uint32_t first = 0, instructions = 0;
    for (uint32_t i = 0; i <= way->slots; i++) {
        bool end = i == way->slots;
        if (!end && !is_bell(&superblock->slots[i]))
            continue;
        uint32_t now = end ? way->instructions : superblock->slots[i].description >> 32 & 0xffff;
        int64_t path = describe_path(decoder, superblock, way, first, i, instructions, now);
        if (path < 0)
            return -1;
        *segment++ = (struct segment){
            .path = (uint32_t)path,
            .first_word = (uint16_t)count_words(superblock, first),
            .bell_slot = end ? NO_BELL : (uint16_t)i,
            .bell_word = (uint16_t)count_words(superblock, i),
        };
        first = i + 1;
        instructions = now;
    }
    return 0;
}

static enum trace_kind kind_of(const struct raw_slot *slot)
{
    switch (slot->description & 0xff) {
    case RAW_STORE:
        return TRACE_STORE;
    case RAW_POINTER:
        return TRACE_POINTER;
    default:
        return TRACE_LOAD;
    }
}

static int describe_superblock(struct raw_decoder *decoder, struct superblock *superblock,
                               uint64_t address, uint32_t function)
{
    struct trace_slot slots[REFERENCE_RING_MAX_SLOTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < superblock->slot_count; i++) {
        const struct raw_slot *slot = &superblock->slots[i];
        if (!is_bell(slot))
            slots[count++] = (struct trace_slot){
                .size = (uint16_t)(slot->description >> 16),
                .kind = (uint8_t)kind_of(slot),
                .base = sinks_base(superblock, base_of(slot)),
                .offset = slot->offset,
                .instruction = slot->instruction,
            };
    }
    int64_t number =
        decoder->sink->superblock(decoder->sink->context, address, function, count, slots);
    if (number < 0)
        return raw_sink_failed(decoder);
    superblock->number = (uint32_t)number;
    for (uint32_t i = 0; i < superblock->way_count; i++)
        if (raw_prepare_way(decoder, superblock, &superblock->ways[i]) < 0)
            return -1;
    return 0;
}

static int reserve_headers(struct raw_decoder *decoder, size_t more)
{
    if (decoder->header_count + more <= decoder->header_capacity)
        return 0;
    size_t capacity = 2 * (decoder->header_count + more) + 4096;
    struct header *headers = reallocarray(decoder->headers, capacity, sizeof *headers);
    if (headers)
        decoder->headers = headers;
    struct superblock **superblocks =
        reallocarray(decoder->superblocks, capacity, sizeof *superblocks);
    if (superblocks)
        decoder->superblocks = superblocks;
    uint16_t *word_counts = reallocarray(decoder->word_counts, capacity, sizeof *word_counts);
    if (word_counts)
        decoder->word_counts = word_counts;
    if (!headers || !superblocks || !word_counts)
        return raw_sink_failed(decoder);
    decoder->header_capacity = capacity;
    return 0;
}

/* Adds the headers of a superblock that the sink knows, for which there is room. */
static void add_headers(struct raw_decoder *decoder, struct superblock *superblock)
{
    const struct way *ways = superblock->ways;
    uint32_t count = superblock->exit_count;
    for (uint32_t i = 0; i <= count; i++) {
        const struct way *first = i > 0 ? &ways[i - 1] : &ways[0];
        const struct way *last = i > 0 ? first : &ways[count - 1];
        decoder->headers[decoder->header_count] = (struct header){
            .entry = superblock->entry,
            .target = first->target,
            .path = first->path,
            .other = last->path,
            .slot_count = (uint16_t)superblock->slot_count,
            .way = (uint16_t)i,
            .simple = (i > 0 || count <= 2) && !first->segments && !last->segments,
        };
        decoder->superblocks[decoder->header_count] = superblock;
        decoder->word_counts[decoder->header_count] = (uint16_t)superblock->word_count;
        decoder->header_count++;
    }
}

void raw_free_superblock(struct superblock *superblock)
{
    for (uint32_t i = 0; superblock->ways && i < superblock->way_count; i++)
        free(superblock->ways[i].segments);
    free(superblock->ways);
    free(superblock->slots);
    free(superblock);
}

/* Whether a base is none, or a slot that is told before `end` and that no bell divides from it. */
static bool base_is_sound(const struct superblock *superblock, uint32_t base, uint32_t end)
{
    uint32_t slot = base - RAW_BASE_SLOT;
    return base < RAW_BASE_SLOT ||
           (slot < end && base_of(&superblock->slots[slot]) == RAW_TOLD &&
            count_bells(superblock, slot + 1) == count_bells(superblock, end) &&
            !is_bell(&superblock->slots[slot]));
}

static bool is_sound(const struct superblock *superblock)
{
    for (uint32_t i = 0; i < superblock->slot_count; i++) {
        const struct raw_slot *slot = &superblock->slots[i];
        if (!base_is_sound(superblock, base_of(slot), i) ||
            (is_bell(slot) && base_of(slot) != RAW_TOLD))
            return false;
    }
    for (uint32_t i = 0; i < superblock->exit_count; i++) {
        const struct way *way = &superblock->ways[i];
        if (way->slots > superblock->slot_count || way->stack_base == RAW_TOLD ||
            !base_is_sound(superblock, way->stack_base, way->slots))
            return false;
    }
    return true;
}

/* Reads what RAW_DEFINE says, and describes it to the sink. */
static int fill_superblock(struct raw_decoder *decoder, struct superblock *superblock,
                           const uint64_t *words)
{
    uint32_t slots = superblock->slot_count, paths = superblock->exit_count;
    superblock->slots = calloc(slots + 1, sizeof *superblock->slots);
    superblock->ways = calloc(paths, sizeof *superblock->ways);
    if (!superblock->slots || !superblock->ways || reserve_headers(decoder, paths + 1) < 0)
        return raw_sink_failed(decoder);
    memcpy(superblock->slots, words + 4, slots * sizeof *superblock->slots);
    const uint64_t *path = words + 4 + 3 * (size_t)slots;
    for (uint32_t i = 0; i < paths; i++, path += 3)
        superblock->ways[i] = (struct way){.slots = path[0] & 0xffff,
                                           .instructions = path[0] >> 16 & 0xffff,
                                           .stack_base = (uint16_t)(path[0] >> 32),
                                           .target = path[1],
                                           .stack_offset = path[2]};
    if (!is_sound(superblock))
        return raw_fail(decoder, "definition of superblock", words[0]);
    superblock->word_count = count_words(superblock, slots);
    return describe_superblock(decoder, superblock, words[1], (uint32_t)words[2]);
}

int raw_define(struct raw_decoder *decoder, const uint64_t *words, size_t count)
{
    uint32_t slots = count >= 4 ? (uint32_t)words[3] : 0, paths = count >= 4 ? words[3] >> 32 : 0;
    if (count < 4 || words[0] != decoder->header_count || slots > REFERENCE_RING_MAX_SLOTS ||
        paths == 0 || paths > REFERENCE_RING_MAX_SLOTS ||
        count != 4 + 3 * (size_t)slots + 3 * (size_t)paths)
        return raw_fail(decoder, "definition of superblock", words[0]);
    struct superblock *superblock = calloc(1, sizeof *superblock);
    if (!superblock)
        return raw_sink_failed(decoder);
    superblock->entry = words[1];
    superblock->slot_count = slots;
    superblock->exit_count = superblock->way_count = paths;
    if (fill_superblock(decoder, superblock, words) < 0) {
        raw_free_superblock(superblock);
        return -1;
    }
    add_headers(decoder, superblock);
    return 0;
}

struct way *raw_interrupted_way(struct raw_decoder *decoder, struct superblock *superblock,
                                uint64_t instructions)
{
    uint32_t i = superblock->exit_count;
    while (i < superblock->way_count && superblock->ways[i].instructions != instructions)
        i++;
    if (i < superblock->way_count)
        return &superblock->ways[i];
    struct way *ways = realloc(superblock->ways, (i + 1) * sizeof *ways);
    if (!ways) {
        raw_sink_failed(decoder);
        return NULL;
    }
    superblock->ways = ways;
    superblock->way_count++;
    ways[i] = (struct way){.instructions = (uint32_t)instructions};
    while (ways[i].slots < superblock->slot_count &&
           (superblock->slots[ways[i].slots].description >> 32 & 0xffff) <= instructions)
        ways[i].slots++;
    return raw_prepare_way(decoder, superblock, &ways[i]) < 0 ? NULL : &ways[i];
}
