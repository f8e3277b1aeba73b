/* SPDX-License-Identifier: MIT
 *
 * hiders.c: see hiders.h.
 *
 * What the hiders hide:
 *
 *   fontconfig    FcPattern has its elements, FcCharSet its leaves, by their distance from itself:
 *                 so a cache file can be mapped anywhere.
 *   SWI-Prolog    A table grows without moving: blocks[i] is the block less the index of its first
 *                 entry, an address before the block.
 *   racket        What its C part has allocated is a number to its Scheme part.
 *
 * A hider may be linked into the program, or into a library of another name. It is then known by a
 * function of its own, if the file is there from the start and exports the function: our weak
 * reference gets its address from ld.so. All code of that file then counts as the hider's, and so
 * do all blocks that the file allocates.
 *
 * Invariant
 * [looked at stopped]   Ranges change only while the world is stopped. A thread that was stopped
 *                       while it read them may read half of the old ranges and half of the new
 *                       ones, once, and not pin its block. Therefore two looks in a row tell the
 *                       caller to pin all live blocks: the block is live by then, and one of the
 *                       two looks pins it. Where one call of malloc outlasts both looks, it is not:
 *                       a hider's block that was asked for before the first look is not pinned.
 */
#include "gc/cycle/hiders.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST_RANGES = 16, LOOKS = 2 };

/* Names of files. One with a dot or a dash at its end stands for all that begin with it. (Python's
 * packages bring libraries with a hash in their names: libfontconfig-8f5dd3c0.so.1.12.0.) */
static const char *const known_hiders[] = {"libfontconfig.so.", "libfontconfig-", "libswipl.so.",
                                           "libswipl-", "racket"};

/* NULL: not in this process, or not to be seen. The types do not matter. */
extern const char FcPatternCreate[] __attribute__((weak));
extern const char PL_initialise[] __attribute__((weak));
extern const char racket_boot[] __attribute__((weak));

static const char *const known_functions[] = {FcPatternCreate, PL_initialise, racket_boot};

struct code_range {
    _Atomic uintptr_t start, end;
};

static struct {
    struct code_range ranges[MOST_RANGES];
    _Atomic size_t count;
    unsigned looks_left; /* that say so */
} hiders;

extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static bool has_known_function(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < sizeof known_functions / sizeof *known_functions; i++)
        if (known_functions[i] && (uintptr_t)known_functions[i] >= start &&
            (uintptr_t)known_functions[i] < end)
            return true;
    return false;
}

static bool has_known_name(const char *path, size_t path_length)
{
    size_t start = path_length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    const char *name = path + start;
    size_t length = path_length - start;
    for (size_t i = 0; i < sizeof known_hiders / sizeof *known_hiders; i++) {
        size_t known = strlen(known_hiders[i]);
        bool begins = length >= known && memcmp(name, known_hiders[i], known) == 0;
        if (begins && (length == known || strchr(".-", known_hiders[i][known - 1])))
            return true;
    }
    return false;
}

static bool is_hider(const struct mapping *mapping)
{
    if (!mapping->executable || mapping->name_length == 0)
        return false;
    return has_known_function(mapping->start, mapping->end) ||
           has_known_name(mapping->name, mapping->name_length);
}

/* Returns whether it is known already. */
static bool enter(size_t index, const struct mapping *mapping)
{
    struct code_range *range = &hiders.ranges[index];
    bool known =
        index < hiders.count && range->start == mapping->start && range->end == mapping->end;
    range->start = mapping->start;
    range->end = mapping->end;
    return known;
}

/* [looked at stopped] */
bool hiders_look(const struct mapping *mappings, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count && found < MOST_RANGES; i++)
        if (is_hider(&mappings[i]) && !enter(found++, &mappings[i]))
            hiders.looks_left = LOOKS;
    hiders.count = found;
    if (hiders.looks_left == 0)
        return false;
    hiders.looks_left--;
    return true;
}

void hiders_look_again(void)
{
    hiders.looks_left = LOOKS;
}

bool hiders_have(const void *site)
{
    size_t count = atomic_load_explicit(&hiders.count, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        const struct code_range *range = &hiders.ranges[i];
        uintptr_t start = atomic_load_explicit(&range->start, memory_order_relaxed);
        uintptr_t end = atomic_load_explicit(&range->end, memory_order_relaxed);
        if ((uintptr_t)site - start < end - start)
            return true;
    }
    return !site && count > 0;
}

bool hiders_own(const void *site)
{
    struct dl_find_object object;
    if (hiders_have(site))
        return true;
    if (!site || !_dl_find_object || _dl_find_object((void *)(uintptr_t)site, &object) != 0)
        return false;
    const char *name = object.dlfo_link_map->l_name;
    return has_known_name(name, strlen(name)) ||
           has_known_function((uintptr_t)object.dlfo_map_start, (uintptr_t)object.dlfo_map_end);
}

size_t hiders_count(void)
{
    return atomic_load_explicit(&hiders.count, memory_order_relaxed);
}
