/* SPDX-License-Identifier: MIT
 *
 * code_place.c: see code_place.h.
 */
#include "vm/code_place.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <string.h>

/* Not in glibc before 2.35. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

/* The loader has no name for the program itself. */
static const char *name_of(const struct link_map *file)
{
    const char *path = *file->l_name ? file->l_name : program_invocation_short_name;
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void message_code_place(struct message *message, const void *address)
{
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)(uintptr_t)address, &found) != 0) {
        message_pointer(message, address);
        return;
    }
    message_text(message, name_of(found.dlfo_link_map));
    message_text(message, "+");
    message_pointer(message, (const char *)address - found.dlfo_link_map->l_addr);
}
