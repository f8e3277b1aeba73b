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

struct second {
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

/* The symbols before the first that the hash table lists are the undefined ones. */
static void search_symbols(const ElfW(Dyn) * dynamic, struct search *search)
{
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const uint32_t *hash = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            symbols = (const ElfW(Sym) *)dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_STRTAB)
            strings = (const char *)dynamic->d_un.d_ptr;
        else if (dynamic->d_tag == DT_GNU_HASH)
            hash = (const uint32_t *)dynamic->d_un.d_ptr;
    }
    /* The vdso's addresses are not relocated: they are small. */
    if (!symbols || !strings || !hash || (uintptr_t)symbols < 0x10000)
        return;
    for (uint32_t i = 1, defined = hash[1]; i < defined && !search->found; i++) {
        const char *name = strings + symbols[i].st_name;
        if (symbols[i].st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbols[i].st_info) == STB_GLOBAL &&
            is_name(name, search->imports))
            search->found = name;
    }
}

static int search_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    for (int i = 0; i < info->dlpi_phnum && *info->dlpi_name != '['; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC && !strstr(info->dlpi_name, "linux-vdso"))
            search_symbols((const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
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
    if (!second.realloc)
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

static __attribute__((constructor)) void look_for_second_allocator(void)
{
    const struct second known[] = {{"jemalloc", mallocx, jemalloc_imports},
                                   {"tcmalloc", tc_malloc, tcmalloc_imports},
                                   {"mimalloc", mi_malloc, mimalloc_imports}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct search search = {.imports = known[i].imports};
        if (!known[i].present || !dlsym || !dladdr || malloc != interposed_malloc ||
            route_resolve()->allocator == pass_through)
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
