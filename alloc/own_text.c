/* SPDX-License-Identifier: MIT
 *
 * own_text.c: see own_text.h.
 */
#include "alloc/own_text.h"

#include <link.h>
#include <sys/auxv.h>

uintptr_t own_text_start __attribute__((visibility("hidden")));
uintptr_t own_text_bytes __attribute__((visibility("hidden")));

/* By the library's own program headers. (The linker would export a symbol for the text's end.) */
void own_text_find(void)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    const ElfW(Ehdr) *header = (const void *)__ehdr_start;
    const ElfW(Phdr) *part = (const void *)(__ehdr_start + header->e_phoff);
    const ElfW(Phdr) *end = part + header->e_phnum;
    if (getauxval(AT_PHDR) == (uintptr_t)part)
        return;
    for (; part < end; part++)
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            own_text_start = (uintptr_t)__ehdr_start + part->p_vaddr;
            own_text_bytes = part->p_memsz;
        }
}
