/* SPDX-License-Identifier: MIT
 *
 * pages.c: references become touches of pages, the sample's among them go to an LRU stack.
 *
 * While the threshold is "all" the stack's own histogram is the result. At every halving what it
 * has counted is scaled into `scaled` and it starts again, so each touch counts by the rate at
 * which it was sampled.
 */
#include "analysis/simulate/simulators/pages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/simulate/simulators/touches.h"

struct pages {
    struct pages_options options;
    struct touch_source source;
    struct lru_stack *stack;
    unsigned halvings;
    struct lru_histogram scaled[REFERENCE_CLASSES]; /* used once halvings > 0 */
    const char *error;
    char error_text[120];
    uint64_t touches[TOUCH_CAPACITY];
};

struct pages *pages_new(const struct pages_options *options)
{
    struct pages *pages = calloc(1, sizeof *pages);
    if (!pages)
        return NULL;
    pages->options = *options;
    touches_init(&pages->source, options->page_bytes, false);
    pages->stack = lru_stack_new();
    if (pages->stack)
        return pages;
    free(pages);
    return NULL;
}

void pages_free(struct pages *pages)
{
    if (!pages)
        return;
    lru_stack_free(pages->stack);
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++)
        free(pages->scaled[class].of_distance);
    free(pages);
}

const char *pages_error(const struct pages *pages)
{
    return pages->error;
}

/* 64 well-mixed bits of a page number: the finaliser of MurmurHash3. */
static inline uint64_t mixed(uint64_t page)
{
    page = (page ^ page >> 33) * 0xff51afd7ed558ccdULL;
    page = (page ^ page >> 33) * 0xc4ceb9fe1a85ec53ULL;
    return page ^ page >> 33;
}

/* Whether a page is in the sample of one in 2^halvings; halvings is at least 1. */
static bool in_sample(uint64_t page, uint64_t halvings)
{
    return mixed(page) >> (64 - halvings) == 0;
}

static size_t select_sample(uint64_t *touches, size_t count, unsigned halvings)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t touch = touches[i];
        touches[kept] = touch;
        kept += in_sample(touch_unit(touch), halvings);
    }
    return kept;
}

/* Moves what the stack has counted, scaled, into `scaled`. */
static bool scale_counts(struct pages *pages)
{
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *found = lru_stack_histogram(pages->stack, class);
        struct lru_histogram *scaled = &pages->scaled[class];
        if (!found || !lru_histogram_reach(scaled, found->length << pages->halvings))
            return false;
        scaled->cold += found->cold << pages->halvings;
        for (size_t distance = 0; distance < found->length; distance++)
            scaled->of_distance[distance << pages->halvings] += found->of_distance[distance]
                                                                << pages->halvings;
    }
    lru_stack_clear_histograms(pages->stack);
    return true;
}

static bool halve_until_few(struct pages *pages)
{
    while (lru_stack_units(pages->stack) > PAGES_SAMPLED_MOST) {
        if (!scale_counts(pages))
            return false;
        pages->halvings++;
        if (!lru_stack_forget(pages->stack, in_sample, pages->halvings))
            return false;
    }
    return true;
}

static void fail(struct pages *pages, const char *format, uint64_t value)
{
    snprintf(pages->error_text, sizeof pages->error_text, format, value);
    pages->error = pages->error_text;
}

bool pages_feed(struct pages *pages, const struct references *references)
{
    size_t position = 0;
    while (position < references->count && !pages->error) {
        size_t count = touches_take(&pages->source, references, &position, pages->touches);
        if (pages->halvings > 0)
            count = select_sample(pages->touches, count, pages->halvings);
        if (!lru_stack_touch(pages->stack, pages->touches, count) ||
            (pages->options.sampled && !halve_until_few(pages)))
            fail(pages, "memory is short for %" PRIu64 " pages", lru_stack_units(pages->stack));
        else if (pages->source.bad_address != 0)
            fail(pages, "address 0x%" PRIx64 " is no user's address (2^56 or above)",
                 pages->source.bad_address);
    }
    return !pages->error;
}

void pages_keep_first_touches(struct pages *pages)
{
    lru_stack_keep_first_touches(pages->stack);
}

bool pages_join(struct pages *pages, struct pages *later)
{
    touches_join(&pages->source, &later->source);
    return lru_stack_join(pages->stack, later->stack);
}

bool pages_write(struct pages *pages, FILE *file)
{
    return fwrite(pages->error_text, sizeof pages->error_text, 1, file) == 1 &&
           fwrite(&pages->source, sizeof pages->source, 1, file) == 1 &&
           (pages->error || lru_stack_write(pages->stack, file));
}

struct pages *pages_read(const struct pages_options *options, FILE *file)
{
    struct pages *pages = pages_new(options);
    if (!pages)
        return NULL;
    char *text = pages->error_text;
    bool is_read = fread(text, sizeof pages->error_text, 1, file) == 1 &&
                   fread(&pages->source, sizeof pages->source, 1, file) == 1;
    text[sizeof pages->error_text - 1] = '\0';
    pages->error = text[0] != '\0' ? text : NULL;
    is_read = is_read && pages->source.class_count <= REFERENCE_CLASSES;
    if (is_read && !pages->error) {
        lru_stack_free(pages->stack);
        pages->stack = lru_stack_read(file);
        is_read = pages->stack != NULL;
    }
    if (is_read)
        return pages;
    pages_free(pages);
    return NULL;
}

const struct lru_histogram *pages_histogram(struct pages *pages, unsigned class)
{
    if (pages->halvings == 0)
        return lru_stack_histogram(pages->stack, class);
    return scale_counts(pages) ? &pages->scaled[class] : NULL;
}

bool pages_sum_histograms(struct pages *pages, struct lru_histogram *sum)
{
    *sum = (struct lru_histogram){0};
    for (unsigned class = 0; class < REFERENCE_CLASSES; class ++) {
        const struct lru_histogram *one = pages_histogram(pages, class);
        if (!one || !lru_histogram_add_distances(sum, one)) {
            free(sum->of_distance);
            return false;
        }
        sum->cold += one->cold;
    }
    return true;
}

struct reference_totals pages_class_totals(const struct pages *pages, unsigned class)
{
    return pages->source.of_class[class];
}

unsigned pages_halvings(const struct pages *pages)
{
    return pages->halvings;
}

size_t pages_followed(const struct pages *pages)
{
    return lru_stack_units(pages->stack);
}
