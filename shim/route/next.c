/* SPDX-License-Identifier: MIT
 *
 * next.c: see next.h.
 *
 * init() looks the functions up, at the first call of malloc; ld.so has mapped all libraries by
 * then. It returns false where there are none. A bad pointer is theirs to report.
 */
#include "shim/route/next.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <string.h>
#include <sys/auxv.h>

#include "shim/reports/output.h"

/* A static program has neither. */
extern __typeof__(dlsym) dlsym __attribute__((weak));
extern __typeof__(dladdr) dladdr __attribute__((weak));

static struct {
    void *(*malloc)(size_t size);
    void *(*calloc)(size_t count, size_t size);
    void *(*memalign)(size_t alignment, size_t size);
    void *(*realloc)(void *block, size_t size);
    void (*free)(void *block);
    size_t (*malloc_usable_size)(void *block);
} next;

struct libc_functions next_libc;
struct next_inspection next_inspection;

static void look_up(void *function, const char *name)
{
    void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;
    __builtin_memcpy(function, &found, sizeof found);
}

/* Whether the program has a loader. A static one may have dlsym as well, which finds nothing and
 * tells that by means of malloc. */
static bool has_loader(void)
{
    const ElfW(Phdr) *header = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    for (unsigned long left = header ? getauxval(AT_PHNUM) : 0; left > 0; left--, header++)
        if (header->p_type == PT_INTERP)
            return true;
    return false;
}

/* The libraries that have a name here; as LIBRARIES in analysis/allotrope/system/serving.py. */
static const struct {
    const char *library; /* up to the version */
    const char *name;
} known_libraries[] = {
    {"libc", "glibc"},
    {"libjemalloc", "jemalloc"},
    {"libmimalloc", "mimalloc"},
    {"libtcmalloc", "tcmalloc"},
    {"libtcmalloc_minimal", "tcmalloc"},
    {"libtcmalloc_minimal_debug", "tcmalloc"},
    {"libtcmalloc_debug", "tcmalloc"},
};

/* What a library's allocator is called: by its file's name, unless it is known. */
static const char *name_of_library(const char *file)
{
    size_t length = strcspn(file, ".");
    for (size_t i = 0; i < sizeof known_libraries / sizeof *known_libraries; i++)
        if (strlen(known_libraries[i].library) == length &&
            strncmp(known_libraries[i].library, file, length) == 0)
            return known_libraries[i].name;
    return file;
}

/* The allocator by which calls are served, for reports. */
static void name_next(void)
{
    Dl_info info;
    void *function;
    __builtin_memcpy(&function, &next.malloc, sizeof function);
    if (!dladdr || !dladdr(function, &info) || !info.dli_fname)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    const char *name = name_of_library(slash ? slash + 1 : info.dli_fname);
    size_t length = strlen(name);
    if (length < sizeof output_passed_to)
        memcpy(output_passed_to, name, length);
}

/* Where the next malloc is libc's own, calls of __libc_malloc and the like are the program's: they
 * go through the route, and observers see them. */
static void look_up_libc(void)
{
    struct libc_functions libc;
    look_up(&libc.malloc, "__libc_malloc");
    if (libc.malloc == next.malloc)
        return;
    look_up(&libc.calloc, "__libc_calloc");
    look_up(&libc.memalign, "__libc_memalign");
    look_up(&libc.realloc, "__libc_realloc");
    look_up(&libc.free, "__libc_free");
    if (libc.malloc && libc.calloc && libc.memalign && libc.realloc && libc.free)
        next_libc = libc;
}

/* A library without these leaves libc's, as it does without us. */
static void look_up_inspection(void)
{
    look_up(&next_inspection.mallopt, "mallopt");
    look_up(&next_inspection.mallinfo2, "mallinfo2");
    look_up(&next_inspection.malloc_info, "malloc_info");
    look_up(&next_inspection.malloc_stats, "malloc_stats");
    look_up(&next_inspection.malloc_trim, "malloc_trim");
}

static bool init(const void *options)
{
    (void)options;
    if (!has_loader())
        return false;
    look_up(&next.malloc, "malloc");
    look_up(&next.calloc, "calloc");
    look_up(&next.memalign, "memalign");
    look_up(&next.realloc, "realloc");
    look_up(&next.free, "free");
    look_up(&next.malloc_usable_size, "malloc_usable_size");
    if (next.malloc && next.calloc && next.memalign && next.realloc && next.free &&
        next.malloc_usable_size) {
        look_up_libc();
        look_up_inspection();
        name_next();
        return true;
    }
    return false;
}

static void *next_alloc(size_t size)
{
    return next.malloc(size);
}

static void *next_alloc_zeroed(size_t size)
{
    return next.calloc(1, size);
}

static void *next_alloc_aligned(size_t alignment, size_t size)
{
    return next.memalign(alignment, size);
}

static void next_free(void *block)
{
    next.free(block);
}

static void *next_resize(void *block, size_t size)
{
    return next.realloc(block, size);
}

static size_t next_usable_size(const void *block)
{
    return next.malloc_usable_size((void *)block);
}

static struct block_waste next_waste(const void *block)
{
    (void)block;
    return (struct block_waste){0};
}

/* Every pointer is the next allocator's to judge. */
static bool next_owns(const void *address)
{
    (void)address;
    return true;
}

static void nothing(void)
{
}

static size_t next_trim(void)
{
    return next_inspection.malloc_trim ? (size_t)next_inspection.malloc_trim(0) : 0;
}

/* Its statistics are not known. */
static void next_statistics(struct allocator_statistics *statistics)
{
    *statistics = (struct allocator_statistics){0};
}

static size_t next_cached_bytes(void)
{
    return 0;
}

static void next_walk(heap_visitor *visit, void *argument)
{
    (void)visit;
    (void)argument;
}

static bool next_is_valid(void)
{
    return true;
}

const struct allocator next_allocator = {
    .name = "next",
    .preset = "default",
    .preset_title = "the allocator that comes after this library",
    .title = "no allocator of our own: the next one in the order of search",
    .source = "",
    .init = init,
    .alloc = next_alloc,
    .alloc_zeroed = next_alloc_zeroed,
    .alloc_aligned = next_alloc_aligned,
    .free = next_free,
    .resize = next_resize,
    .usable_size = next_usable_size,
    .waste = next_waste,
    .owns = next_owns,
    .thread_exit = nothing,
    .trim = next_trim,
    .statistics = next_statistics,
    .cached_bytes = next_cached_bytes,
    .walk = next_walk,
    .is_valid = next_is_valid,
};
