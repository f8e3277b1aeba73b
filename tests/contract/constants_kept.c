/* SPDX-License-Identifier: MIT
 *
 * constants_kept.c: what ld.so has made read-only in the library stays so.
 *
 * The table of functions that every call goes through lies among these constants, and is written as
 * the process starts. A page that stayed writable is what an attacker looks for.
 */
#include <link.h>

#include "tests/contract/contract.h"

static size_t looked_at;

static void require_read_only(uintptr_t start, uintptr_t end)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], permissions[5];
    unsigned long from, to;
    size_t found = 0;
    require(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %4s", &from, &to, permissions) == 3 && from < end && to > start) {
            require(permissions[1] == '-');
            found += (to < end ? to : end) - (from > start ? from : start);
        }
    fclose(maps);
    require(found == end - start);
    looked_at += found;
}

static int look_at_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (!strstr(info->dlpi_name, "liballotrope"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO) {
            uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
            require_read_only(start & -page, (start + info->dlpi_phdr[i].p_memsz) & -page);
        }
    return 0;
}

int main(void)
{
    exercise();
    dl_iterate_phdr(look_at_object, NULL);
    const char *preloaded = getenv("LD_PRELOAD");
    require(looked_at > 0 || !preloaded || !strstr(preloaded, "liballotrope"));
    return 0;
}
