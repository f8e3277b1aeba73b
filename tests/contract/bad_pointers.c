/* SPDX-License-Identifier: MIT
 *
 * bad_pointers.c: pointers into the heap that are not live blocks.
 *
 * Freed twice, pointing into a block, not aligned: the heap is or will be corrupt, so one line
 * names the pointer and the fault and the program is aborted. It must not crash while it looks.
 * A block written past its end is found at the latest when it goes back to the heap.
 * The argument is the fault, then the size of the block.
 */
#include "tests/contract/contract.h"

int main(int count, char **arguments)
{
    require(count == 3);
    const char *mode = arguments[1];
    size_t size = strtoul(arguments[2], NULL, 10);
    exercise();
    char *before = malloc(size), *block = malloc(size), *after = malloc(size);
    require(before && block && after);
    fill(before, size);
    fill(block, size);
    fill(after, size);
    if (strcmp(mode, "twice") == 0) {
        free(opaque(block));
        free(opaque(block));
    } else if (strcmp(mode, "twice-later") == 0) {
        free(opaque(block));
        free(opaque(after));
        free(opaque(before));
        free(opaque(block));
    } else if (strcmp(mode, "interior") == 0) {
        free(opaque(block + 16));
    } else if (strcmp(mode, "unaligned") == 0) {
        free(opaque(block + 3));
    } else if (strcmp(mode, "granule") == 0) {
        /* Where a heap's first mapping begins, what stands before it may not be readable. */
        free(opaque((void *)((uintptr_t)block & ~(uintptr_t)0xFFFF)));
    } else if (strcmp(mode, "past-end") == 0) {
        /* One byte, and the blocks go back to the heap. */
        ((char *)opaque(block))[malloc_usable_size(block)] ^= 's';
        free(opaque(block));
        malloc_trim(0);
    } else if (strcmp(mode, "realloc-freed") == 0) {
        free(opaque(block));
        block = realloc(opaque(block), 2 * size);
    } else if (strcmp(mode, "realloc-interior") == 0) {
        block = realloc(opaque(block + 16), 2 * size);
    } else if (strcmp(mode, "aligned-twice") == 0) {
        char *aligned = memalign(1024, size);
        require(aligned != NULL);
        free(opaque(aligned));
        free(opaque(aligned));
    } else {
        require(!"a known mode");
    }
    return 0; /* undetected */
}
