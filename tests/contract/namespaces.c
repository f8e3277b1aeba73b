/* SPDX-License-Identifier: MIT
 *
 * namespaces.c: memory that comes from glibc's own malloc in the same process.
 *
 * dlmopen loads a second libc with a heap of its own, whose blocks come to ours' free. With
 * RTLD_DEEPBIND a library's calls of malloc would go to libc past the preloaded symbols, and blocks
 * of either heap come to the other's free. The first argument is "dlmopen" or "deepbind".
 * Seen: jemalloc 2419; php with its extensions.
 */
#include <dlfcn.h>

#include "tests/contract/contract.h"

int main(int count, char **arguments)
{
    require(count == 3);
    void *handle = strcmp(arguments[1], "dlmopen") == 0
                       ? dlmopen(LM_ID_NEWLM, arguments[2], RTLD_NOW)
                       : dlopen(arguments[2], RTLD_NOW | RTLD_DEEPBIND);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    require(handle != NULL);
    char *(*new_block)(size_t) = (char *(*)(size_t))dlsym(handle, "new_block");
    void (*delete_block)(char *) = (void (*)(char *))dlsym(handle, "delete_block");
    require(new_block && delete_block);
    enum { BLOCKS = 1000 };
    static char *ours[BLOCKS], *theirs[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        ours[i] = malloc(100);
        theirs[i] = new_block(100);
        require(ours[i] && theirs[i]);
        fill(ours[i], 100);
        fill(theirs[i], 100);
    }
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(ours[i], 100) && is_filled(theirs[i], 100));
        free(ours[i]);
        if (i > 0)
            delete_block(theirs[i]);
    }
    if (strcmp(arguments[1], "deepbind") == 0)
        free(opaque(theirs[0])), delete_block(opaque(malloc(100)));
    exercise();
    return 0;
}
