/* SPDX-License-Identifier: MIT
 *
 * clock.c: the clock that the kernel keeps in a page of every process.
 *
 * A sandbox may kill a process for a system call that it does not expect, and clock_gettime is one
 * that few programs make: libc reads the time by code that the kernel maps into every process, the
 * vDSO. An allocator must make no call that the program does not make, and cannot ask libc, since
 * another library may have its function in libc's place. So the vDSO's symbol table is read here.
 *
 * Source: Linux, Documentation/ABI/stable/vdso; the ELF specification, "Dynamic Linking".
 */
#include "vm/clock.h"

#include <elf.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

typedef int clock_function(clockid_t clock, struct timespec *time);

struct tables {
    const Elf64_Sym *symbols;
    const char *strings;
    const Elf64_Word *hash;
};

static const void *at(uintptr_t bias, Elf64_Addr address)
{
    return (const void *)(bias + address); /* NOLINT(performance-no-int-to-ptr) */
}

static struct tables tables_of(uintptr_t bias, const Elf64_Dyn *entry)
{
    struct tables tables = {0};
    for (; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            tables.symbols = at(bias, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            tables.strings = at(bias, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_HASH)
            tables.hash = at(bias, entry->d_un.d_ptr);
    }
    return tables;
}

/* Without a hash table the number follows from the layout: all linkers put the strings behind the
 * symbols. */
static size_t symbol_count(const struct tables *tables)
{
    if (tables->hash)
        return tables->hash[1];
    ptrdiff_t bytes = tables->strings - (const char *)tables->symbols;
    return bytes > 0 ? (size_t)bytes / sizeof *tables->symbols : 0;
}

static const void *find_symbol(uintptr_t start, const char *name)
{
    const Elf64_Ehdr *header = at(start, 0);
    const Elf64_Phdr *segments = at(start, header->e_phoff);
    const Elf64_Phdr *load = NULL, *dynamic = NULL;
    for (size_t i = header->e_phnum; i-- > 0;) {
        if (segments[i].p_type == PT_LOAD)
            load = &segments[i];
        else if (segments[i].p_type == PT_DYNAMIC)
            dynamic = &segments[i];
    }
    if (!load || !dynamic)
        return NULL;
    uintptr_t bias = start + load->p_offset - load->p_vaddr;
    struct tables tables = tables_of(bias, at(start, dynamic->p_offset));
    if (!tables.symbols || !tables.strings)
        return NULL;
    for (size_t i = 0; i < symbol_count(&tables); i++)
        if (tables.symbols[i].st_shndx != SHN_UNDEF &&
            strcmp(tables.strings + tables.symbols[i].st_name, name) == 0)
            return at(bias, tables.symbols[i].st_value);
    return NULL;
}

static int no_clock(clockid_t clock, struct timespec *time)
{
    (void)clock, (void)time;
    return -1;
}

static clock_function *find_clock(void)
{
    uintptr_t start = getauxval(AT_SYSINFO_EHDR);
    const void *found = start ? find_symbol(start, "__vdso_clock_gettime") : NULL;
    clock_function *function = no_clock;
    if (found)
        memcpy(&function, &found, sizeof function);
    return function;
}

uint64_t coarse_ns(void)
{
    static clock_function *_Atomic kept;
    clock_function *function = atomic_load_explicit(&kept, memory_order_relaxed);
    if (!function) {
        function = find_clock();
        atomic_store_explicit(&kept, function, memory_order_relaxed);
    }
    struct timespec time;
    if (function(CLOCK_MONOTONIC_COARSE, &time) != 0)
        return 0;
    return timespec_ns(time);
}
