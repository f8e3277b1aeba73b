/* SPDX-License-Identifier: MIT
 *
 * heap_source.h: what tests of policy heaps share: the heaps by name, their options by key, and
 * a page source that can be made to fail.
 */
#ifndef ALLOTROPE_TESTS_UNIT_HEAP_SOURCE_H
#define ALLOTROPE_TESTS_UNIT_HEAP_SOURCE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/policies/bsd.h"
#include "alloc/policies/cartesian.h"
#include "alloc/policies/gnu.h"
#include "alloc/heap.h"
#include "alloc/policies/knuth.h"
#include "vm/pages.h"

static const struct heap_policy *const heap_policies[] = {&bsd_policy, &knuth_policy,
                                                          &cartesian_policy, &gnu_policy};
enum { HEAP_POLICIES = sizeof heap_policies / sizeof *heap_policies };

static inline const struct heap_policy *heap_policy_named(const char *name)
{
    for (unsigned i = 0; i < HEAP_POLICIES; i++)
        if (strcmp(heap_policies[i]->name, name) == 0)
            return heap_policies[i];
    fprintf(stderr, "no heap is named '%s'\n", name);
    exit(2);
}

/* word: KEY=VALUE. options: the heap's struct. */
static inline void set_option(const struct heap_policy *policy, const char *word, void *options)
{
    size_t length = strcspn(word, "=");
    for (unsigned i = 0; policy->options && policy->options[i].key[0]; i++) {
        const struct option_description *option = &policy->options[i];
        if (strncmp(option->key, word, length) != 0 || option->key[length] || !word[length])
            continue;
        if (option->kind == OPTION_NUMBER) {
            option_set(option, options, strtoull(word + length + 1, NULL, 10));
            return;
        }
        for (unsigned value = 0; option->keywords[value][0]; value++)
            if (strcmp(option->keywords[value], word + length + 1) == 0) {
                option_set(option, options, value);
                return;
            }
    }
    fprintf(stderr, "%s has no option '%s'\n", policy->name, word);
    exit(2);
}

/* A page source over a stretch of address space of its own. It adjoins always, unless `decide`
 * says otherwise. */
enum source_decision { SOURCE_ADJOIN, SOURCE_JUMP, SOURCE_REFUSE };

enum { SOURCE_SEGMENTS = 4096 };

struct test_source {
    struct page_source pages;
    enum source_decision (*decide)(void *argument);
    void *argument;
    char *base, *end;
    size_t segment_count; /* the last is the current one */
    struct {
        char *start, *end;
    } segments[SOURCE_SEGMENTS];
};

static const size_t SOURCE_BYTES = (size_t)8 << 30;
static const size_t JUMP_BYTES = 65536;

static inline void begin_test_segment(struct test_source *source, char *start)
{
    source->segments[source->segment_count].start = start;
    source->segments[source->segment_count].end = start;
    source->segment_count++;
}

static inline void *extend_test_source(struct page_source *pages, size_t bytes)
{
    struct test_source *source = (struct test_source *)pages;
    enum source_decision decision =
        source->decide ? source->decide(source->argument) : SOURCE_ADJOIN;
    if (source->segment_count == 0)
        begin_test_segment(source, source->base);
    char *start = source->segments[source->segment_count - 1].end;
    if (decision == SOURCE_JUMP && source->segment_count < SOURCE_SEGMENTS) {
        start = (char *)round_up((uintptr_t)start + 1, JUMP_BYTES) + JUMP_BYTES;
        begin_test_segment(source, start);
    }
    if (bytes % 8 != 0) {
        fprintf(stderr, "a heap extends its memory by %zu bytes\n", bytes);
        abort();
    }
    if (decision == SOURCE_REFUSE || bytes > (size_t)(source->end - start))
        return NULL;
    source->segments[source->segment_count - 1].end = start + bytes;
    return start;
}

static inline bool retract_test_source(struct page_source *pages, size_t bytes)
{
    struct test_source *source = (struct test_source *)pages;
    if (source->segment_count == 0)
        return false;
    char *start = source->segments[source->segment_count - 1].start;
    char **end = &source->segments[source->segment_count - 1].end;
    if (bytes > (size_t)(*end - start))
        return false;
    char *from = (char *)round_up((uintptr_t)*end - bytes, PAGE_BYTES);
    char *to = (char *)round_up((uintptr_t)*end, PAGE_BYTES);
    if (from < to)
        pages_discard(from, (size_t)(to - from));
    *end -= bytes;
    return true;
}

static inline bool test_source_segment(struct page_source *pages, size_t index, char **start,
                                       char **end)
{
    const struct test_source *source = (const struct test_source *)pages;
    if (index >= source->segment_count)
        return false;
    *start = source->segments[index].start;
    *end = source->segments[index].end;
    return true;
}

static inline void test_source_init(struct test_source *source)
{
    memset(source, 0, sizeof *source);
    source->pages =
        (struct page_source){extend_test_source, retract_test_source, test_source_segment};
    source->base = mmap(NULL, SOURCE_BYTES + JUMP_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (source->base == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    source->base = (char *)round_up((uintptr_t)source->base, JUMP_BYTES);
    source->end = source->base + SOURCE_BYTES;
}

/* Forgets all segments and their contents, for the next heap. */
static inline void test_source_reset(struct test_source *source)
{
    if (source->segment_count > 0) {
        char *end = source->segments[source->segment_count - 1].end;
        pages_discard(source->base, round_up((size_t)(end - source->base), PAGE_BYTES));
    }
    source->segment_count = 0;
}

struct test_heap {
    const struct heap_policy *policy;
    void *state;
    struct test_source source;
};

/* Makes a heap on the source that there is. words: KEY=VALUE options, ended by NULL; what they do
 * not say is as published. */
static inline void init_with_options(struct test_heap *heap, const struct heap_policy *policy,
                                     const char *const *words)
{
    _Alignas(uint64_t) unsigned char options[OPTIONS_BYTES] = {0};
    options_set_initial(policy->options, options);
    for (; words && *words; words++)
        set_option(policy, *words, options);
    heap->policy = heap_policy_for(policy, options);
    heap->state = calloc(1, heap->policy->heap_bytes);
    heap->policy->init(heap->state, &heap->source.pages, options);
}

/* words: as above. */
static inline void test_heap_init(struct test_heap *heap, const struct heap_policy *policy,
                                  const char *const *words)
{
    test_source_init(&heap->source);
    init_with_options(heap, policy, words);
}

static inline void test_heap_end(struct test_heap *heap)
{
    free(heap->state);
    munmap(heap->source.base, SOURCE_BYTES);
}

#endif
