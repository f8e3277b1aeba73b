/* SPDX-License-Identifier: MIT
 *
 * heap_driver.c: plays a sequence of requests against one policy heap and says where each block
 * came to lie, for comparison with the models.
 *
 *   heap_driver HEAP [KEY=VALUE ...] < OPERATIONS
 *
 *   a SIZE          allocate; blocks are numbered from 0 in order of a and m
 *   m ALIGNMENT SIZE
 *   f BLOCK
 *   r BLOCK SIZE
 *
 * For every operation but f it prints the block's address, and for all the end of memory, both
 * relative to its start.
 */
#include "tests/unit/heap_source.h"

#include <inttypes.h>

static struct test_heap heap;
static void **blocks;
static size_t block_count, block_room;

static void add_block(void *block)
{
    if (block_count == block_room) {
        block_room = block_room ? 2 * block_room : 1024;
        blocks = realloc(blocks, block_room * sizeof *blocks);
    }
    blocks[block_count++] = block;
}

static void print_result(const void *block)
{
    char *start, *end;
    struct page_source *pages = &heap.source.pages;
    if (!pages->segment(pages, 0, &start, &end)) {
        puts("- 0");
        return;
    }
    if (block)
        printf("%td %td\n", (const char *)block - start, end - start);
    else
        printf("- %td\n", end - start);
}

/* False for a line that is no operation. */
static bool play(const char *line)
{
    const struct heap_policy *policy = heap.policy;
    size_t first, second;
    int fields = sscanf(line + 1, "%zu %zu", &first, &second);
    void *result = NULL;
    if (*line == 'a' && fields == 1)
        add_block(result = policy->alloc(heap.state, first));
    else if (*line == 'm' && fields == 2)
        add_block(result = policy->alloc_aligned(heap.state, first, second));
    else if (*line == 'f' && fields == 1 && first < block_count)
        policy->free(heap.state, blocks[first]);
    else if (*line == 'r' && fields == 2 && first < block_count) {
        result = heap_realloc(policy, heap.state, blocks[first], second);
        if (result)
            blocks[first] = result;
    } else
        return false;
    print_result(result);
    return true;
}

int main(int count, char **words)
{
    if (count < 2) {
        fputs("usage: heap_driver HEAP [KEY=VALUE ...] < OPERATIONS\n", stderr);
        return 2;
    }
    test_heap_init(&heap, heap_policy_named(words[1]), (const char *const *)words + 2);
    char line[128];
    while (fgets(line, sizeof line, stdin))
        if (!play(line)) {
            fprintf(stderr, "not an operation: %s", line);
            return 2;
        }
    if (!heap.policy->is_valid(heap.state)) {
        fputs("the heap is not valid at the end\n", stderr);
        return 1;
    }
    return 0;
}
