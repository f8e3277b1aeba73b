/* SPDX-License-Identifier: MIT
 *
 * second_allocator.c: see second_allocator.h.
 *
 * A program that is linked with another malloc's library calls malloc, and that is ours: the
 * library preloaded comes first. But it may also call the other by names of its own (mallocx,
 * tc_malloc, mi_malloc), which stay the other's, and give what it gets to free. So if any object
 * of the process imports such a name, one line says that, and free, realloc and malloc_usable_size
 * hand every block that is not ours to the functions that the other library has for them. The other
 * way round nothing can be done: a block of ours that goes to dallocx is an error there.
 *
 * The names are looked for among the weak references of this library, which ld.so has resolved: a
 * process without such a library pays for no search.
 */
#include "shim/symbols/second_allocator.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/configuration/environment.h"
#include "shim/route/calls.h"
#include "shim/route/route.h"
#include "shim/route/start.h"
#include "vm/message.h"

extern __typeof__(dlsym) dlsym __attribute__((weak)); /* a static program has none */
extern __typeof__(dladdr) dladdr __attribute__((weak));

/* One function of each library, which is sure to be there. */
extern void mallocx(void) __attribute__((weak));
extern void tc_malloc(void) __attribute__((weak));
extern void mi_malloc(void) __attribute__((weak));

struct known_library {
    const char *title;
    void (*present)(void);      /* NULL: the library is not in the process */
    const char *const *imports; /* what programs call, or the start of it, before a '*' */
};

static const char *const jemalloc_imports[] = {"mallocx", "rallocx",  "xallocx", "sallocx",
                                               "dallocx", "sdallocx", NULL};
static const char *const tcmalloc_imports[] = {"tc_*", NULL};
static const char *const mimalloc_imports[] = {"mi_*", NULL};

static struct {
    struct route inner;
    void (*free)(void *block);
    void *(*realloc)(void *block, size_t size);
    size_t (*usable_size)(void *block); /* may be NULL */
} second;

/* Among the imports of an object. */

static bool is_name(const char *name, const char *const *imports)
{
    for (; *imports; imports++) {
        size_t length = strcspn(*imports, "*");
        if (strncmp(name, *imports, length) == 0 &&
            (name[length] == '\0' || (*imports)[length] == '*'))
            return true;
    }
    return false;
}

struct search {
    const char *const *imports;
    const char *found;
};

enum { TAGS = DT_JMPREL + 1 };

/* values: of the object's dynamic section, by tag. */
static void search_relocations(const uint64_t values[TAGS], uint64_t table, uint64_t table_bytes,
                               struct search *search)
{
    const ElfW(Sym) *symbols = (const ElfW(Sym) *)values[DT_SYMTAB];
    const ElfW(Rela) *relocation = (const ElfW(Rela) *)table;
    const ElfW(Rela) *end = relocation + table_bytes / sizeof *relocation;
    for (; relocation < end && !search->found; relocation++) {
        const ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(relocation->r_info)];
        const char *name = (const char *)values[DT_STRTAB] + symbol->st_name;
        if (symbol->st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL &&
            is_name(name, search->imports))
            search->found = name;
    }
}

/* Some relocation names each symbol that the object imports, whether it is called or its address
 * is taken. */
static void search_imports(const ElfW(Dyn) * dynamic, struct search *search)
{
    uint64_t values[TAGS] = {0};
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag > 0 && dynamic->d_tag < TAGS)
            values[dynamic->d_tag] = dynamic->d_un.d_val;
    search_relocations(values, values[DT_JMPREL], values[DT_PLTRELSZ], search);
    search_relocations(values, values[DT_RELA], values[DT_RELASZ], search);
}

static int search_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    for (int i = 0; i < info->dlpi_phnum && *info->dlpi_name != '['; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC && !strstr(info->dlpi_name, "linux-vdso"))
            search_imports((const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
                           search);
    return search->found != NULL;
}

/* In the route. */

static void free_either(void *block)
{
    if (second.inner.owns(block))
        second.inner.free(block);
    else
        second.free(block);
}

static size_t usable_size_of_either(const void *block)
{
    if (second.inner.owns(block) || !second.usable_size)
        return second.inner.usable_size(block);
    return second.usable_size((void *)block);
}

bool second_allocator_realloc(void *block, size_t size, void **result)
{
    if (!second.inner.allocator) /* it is not in the route */
        return false;
    *result = second.realloc(block, size);
    return true;
}

static struct route wrap(struct route behind)
{
    struct route either = second.inner = behind;
    either.free = free_either;
    either.usable_size = usable_size_of_either;
    return either;
}

/* Its own free, realloc and the like, if they come right after ours. */
static bool find_functions(void (*present)(void))
{
    Dl_info theirs, next;
    void *their_free = dlsym(RTLD_NEXT, "free"), *their_realloc = dlsym(RTLD_NEXT, "realloc");
    void *their_usable_size = dlsym(RTLD_NEXT, "malloc_usable_size");
    if (!their_free || !their_realloc || !dladdr((void *)(uintptr_t)present, &theirs) ||
        !dladdr(their_free, &next) || theirs.dli_fbase != next.dli_fbase)
        return false;
    memcpy(&second.free, &their_free, sizeof their_free);
    memcpy(&second.realloc, &their_realloc, sizeof their_realloc);
    memcpy(&second.usable_size, &their_usable_size, sizeof their_usable_size);
    return true;
}

static void report(const char *title, const char *import)
{
    struct message message;
    message_begin(&message);
    message_text(&message, environment_program());
    message_text(&message, " calls ");
    message_text(&message, import);
    message_text(&message, ": what it has from ");
    message_text(&message, title);
    message_text(&message, "'s own functions stays with ");
    message_text(&message, title);
    message_send(&message);
}

static bool serves_the_program(void)
{
    return dlsym && dladdr && malloc == interposed_malloc &&
           route_resolve()->allocator != pass_through;
}

static __attribute__((constructor)) void look_for_second_allocator(void)
{
    const struct known_library known[] = {{"jemalloc", mallocx, jemalloc_imports},
                                          {"tcmalloc", tc_malloc, tcmalloc_imports},
                                          {"mimalloc", mi_malloc, mimalloc_imports}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct search search = {.imports = known[i].imports};
        if (!known[i].present || !serves_the_program())
            continue;
        dl_iterate_phdr(search_object, &search);
        if (!search.found)
            continue;
        report(known[i].title, search.found);
        if (find_functions(known[i].present))
            route_wrap(wrap);
        return;
    }
}
