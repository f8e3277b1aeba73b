/* SPDX-License-Identifier: MIT
 *
 * slots.c: what a slot of `blocks:checked` tells of its block, and the words for a misuse that
 * shows in it. What a free or a realloc shows is decided in checked.c, the rest in sweep.c.
 */
#include "alloc/checked/slots.h"

#include "alloc/blocks/lookup.h"
#include "alloc/checked/guarded.h"

size_t checked_fill_most;
bool checked_tells_operators = true;

static const char *const operator_names[] = {
    [BY_MALLOC] = "malloc", [BY_NEW] = "new", [BY_NEW_ARRAY] = "new[]", "?"};

const char *how_name(unsigned how)
{
    return operator_names[how & 3];
}

struct block_facts slot_facts(const void *block, size_t slot_bytes, uint64_t decoded)
{
    bool dead = trailer_is_dead(decoded);
    uint32_t detail = trailer_detail(decoded);
    return (struct block_facts){.block = block,
                                .bytes = slot_bytes - TRAILER_BYTES - trailer_slack(decoded),
                                .allocated_at = site_address(trailer_site(decoded)),
                                .freed_at = dead ? site_address(detail) : NULL,
                                .by = dead ? NULL : how_name(detail)};
}

/* Where the fill of a dead slot was written to. */
static ptrdiff_t first_written(const char *block, size_t slot_bytes)
{
    size_t bytes = filled_bytes(slot_bytes);
    bytes += bytes == slot_bytes - 16 ? 8 : 0;
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != (char)FILL_BYTE)
            return (ptrdiff_t)i;
    return 0;
}

void report_dead_slot(const char *function, char *block, size_t slot_bytes)
{
    uint64_t decoded = trailer_decode(block, trailer_load(block, slot_bytes));
    if (!trailer_is_valid(decoded) || !trailer_is_dead(decoded)) {
        struct block_facts facts = {.block = block, .bytes = slot_bytes - TRAILER_BYTES};
        report_misuse(REPORT_FATAL, function, block + slot_bytes - TRAILER_BYTES,
                      "written between two blocks, the first of which is free", &facts, NULL);
        return;
    }
    struct block_facts facts = slot_facts(block, slot_bytes, decoded);
    facts.offset = first_written(block, slot_bytes);
    report_misuse(REPORT_FATAL, function, block + facts.offset, "written after its free", &facts,
                  NULL);
}

void report_overwritten(const char *function, const void *block, size_t slot_bytes,
                        const void *site)
{
    uint64_t decoded = trailer_decode_mended(block, trailer_load(block, slot_bytes));
    struct block_facts facts = {.block = block, .bytes = slot_bytes - TRAILER_BYTES};
    bool known = trailer_is_valid(decoded) && !trailer_is_dead(decoded) &&
                 trailer_detail(decoded) < HOW_MOST && trailer_slack(decoded) <= facts.bytes;
    if (known)
        facts = slot_facts(block, slot_bytes, decoded);
    report_misuse(REPORT_FATAL, function, block,
                  known ? "written behind its end"
                        : "written behind its end (size and site are lost; the slot's are given)",
                  &facts, site);
}

void report_mismatch(const struct freeing *freeing, struct block_facts facts, unsigned how)
{
    const char *fault = "allocated with another alignment";
    if (!checked_tells_operators)
        return;
    if ((how & 3) != (freeing->how & 3))
        fault = "freed by another kind of operator than it was allocated by";
    else if (freeing->size != UNKNOWN_SIZE && freeing->size != facts.bytes)
        fault = "freed with another size than it was allocated with";
    report_misuse(REPORT_ONLY, freeing->function, freeing->block, fault, &facts, freeing->site);
}

/* The block at or round an address of a slab. */
static struct block_facts facts_near(struct slab *slab, const char *address, size_t index)
{
    struct block_facts facts = {0};
    if (slab_is_large(slab)) {
        facts = guarded_facts(slab);
    } else if (index < slab->capacity) {
        const char *block = slab_block(slab, index);
        uint64_t word = trailer_load(block, slab->block_bytes);
        uint64_t decoded = trailer_decode(block, word);
        if (word != 0 && trailer_is_valid(decoded))
            facts = slot_facts(block, slab->block_bytes, decoded);
    }
    if (facts.block)
        facts.offset = address - (const char *)facts.block;
    return facts;
}

void report_dead_pointer(const struct freeing *freeing, struct slab *slab)
{
    bool exact;
    size_t index = slab_index(slab, freeing->block, &exact);
    struct block_facts facts = facts_near(slab, freeing->block, index);
    bool freed = facts.block && facts.offset == 0;
    report_misuse(REPORT_FATAL, freeing->function, freeing->block,
                  freed ? "freed twice" : "not the start of a live block",
                  facts.block ? &facts : NULL, freeing->site);
}

void report_foreign_pointer(const struct freeing *freeing)
{
    if (granule_map_get(freeing->block))
        report_misuse(REPORT_FATAL, freeing->function, freeing->block,
                      "in memory of the heap, but not a block", NULL, freeing->site);
    else
        report_misuse(REPORT_ONLY, freeing->function, freeing->block,
                      "not a block of this heap; ignored", NULL, freeing->site);
}
