/* SPDX-License-Identifier: MIT
 *
 * foreign_pointers.c: pointers that the allocator did not hand out.
 *
 * A program, or one of its libraries, may have obtained memory from another malloc (its own,
 * glibc's past us) and give it to our free. Such a pointer is recognised by its address alone,
 * named in one line, and ignored; reading a header before it may already fault. The argument
 * chooses what is done.
 * Seen: google/sanitizers 179, mimalloc 21, Mesh 25 and 35.
 */
#include <sys/mman.h>

#include "tests/contract/contract.h"

static char in_data[4096] = "x";

/* A page with nothing mapped before it. */
static char *lone_page(void)
{
    char *pages = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(pages != MAP_FAILED);
    require(mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE) == 0);
    return pages + 4096;
}

int main(int count, char **arguments)
{
    require(count == 2);
    const char *mode = arguments[1];
    char on_stack[64];
    exercise();
    if (strcmp(mode, "data") == 0) {
        free(opaque(in_data));
        free(opaque(in_data + 16));
    } else if (strcmp(mode, "stack") == 0) {
        free(opaque(on_stack));
    } else if (strcmp(mode, "page") == 0) {
        free(opaque(lone_page()));
    } else if (strcmp(mode, "unmapped") == 0) {
        char *page = lone_page();
        require(munmap(page, 4096) == 0);
        free(opaque(page + 16));
    } else if (strcmp(mode, "wild") == 0) {
        free(opaque((void *)16));
        free(opaque((void *)UINT64_C(0xDEADBEEFDEADBEE0)));
        free(opaque((void *)UINT64_C(0x7FFFFFFFFFF0)));
    } else if (strcmp(mode, "realloc") == 0) {
        /* What can be read of it is copied: the program goes on with its data. */
        char *page = lone_page();
        strcpy(page, "foreign");
        char *moved = realloc(opaque(page), 10000);
        require(moved && moved != page && strcmp(moved, "foreign") == 0);
        free(moved);
    } else if (strcmp(mode, "usable") == 0) {
        require(malloc_usable_size(opaque(in_data)) == 0);
        require(malloc_usable_size(opaque(lone_page())) == 0);
    } else {
        require(!"a known mode");
    }
    exercise();
    return 0;
}
