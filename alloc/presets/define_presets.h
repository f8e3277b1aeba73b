/* SPDX-License-Identifier: MIT
 *
 * define_presets.h: what is the same for every historic heap in its two allocators, default and
 * classic. A heap's file defines what is its own, and ends with DEFINE_PRESETS.
 *
 * Its table of options has the rows of its parts. Ranges and defaults stand where a part is:
 * LAYERED_OPTIONS in layers/layered.h, KNUTH_OPTIONS in policies/knuth.h, and so on.
 */
#ifndef ALLOTROPE_ALLOC_PRESETS_DEFINE_PRESETS_H
#define ALLOTROPE_ALLOC_PRESETS_DEFINE_PRESETS_H

#include "alloc/layers/classic.h"
#include "alloc/layers/layered.h"
#include "alloc/presets/historic.h"

/* Defines `policy`_default and `policy`_classic of the heap `policy`_policy. The file has before
 * it:
 *
 *     TITLE, SOURCE     as in struct allocator
 *     layers            the layered_policy; constant, so that the common paths fold it in
 *     default_options   the default preset's table of options, and
 *     default_init      its init
 *
 * heap_options: the heap's own table of options; NULL when it has none. alignment: of the classic
 * preset's blocks, an expression in `options`, which is what the options were set to. */
#define DEFINE_PRESETS(policy, heap_options, alignment)            \
    void *policy##_default_alloc(size_t size)                      \
    {                                                              \
        return layered_alloc(&layers, size);                       \
    }                                                              \
                                                                   \
    void policy##_default_free(void *block)                        \
    {                                                              \
        layered_free(&layers, block);                              \
    }                                                              \
                                                                   \
    static bool init_classic(const void *options)                  \
    {                                                              \
        return classic_init(&policy##_policy, options, alignment); \
    }                                                              \
                                                                   \
    const struct allocator policy##_default = {                    \
        .name = #policy,                                           \
        .preset = "default",                                       \
        .preset_title = LAYERED_TITLE,                             \
        .title = TITLE,                                            \
        .source = SOURCE,                                          \
        .options = default_options,                                \
        .init = default_init,                                      \
        .alloc = policy##_default_alloc,                           \
        .free = policy##_default_free,                             \
        LAYERED_FUNCTIONS,                                         \
    };                                                             \
                                                                   \
    const struct allocator policy##_classic = {                    \
        .name = #policy,                                           \
        .preset = "classic",                                       \
        .preset_title = CLASSIC_TITLE,                             \
        .title = TITLE,                                            \
        .source = SOURCE,                                          \
        .options = heap_options,                                   \
        .init = init_classic,                                      \
        CLASSIC_FUNCTIONS,                                         \
    }

#endif
