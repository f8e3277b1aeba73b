/* SPDX-License-Identifier: MIT
 *
 * cxx.c: operator new and delete, by their mangled names (Itanium C++ ABI, 5.1), so that C++
 * programs are served whether or not they link libstdc++'s.
 *
 * A new that cannot be satisfied calls the program's new handler until there is none, then
 * throws bad_alloc: both through libstdc++'s own functions, which a program that calls new has.
 * This file is compiled so that exceptions pass through it.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "shim/route/calls.h"
#include "shim/symbols/interpose.h"
#include "vm/message.h"

typedef void new_handler(void);
__attribute__((weak)) new_handler *_ZSt15get_new_handlerv(void);
__attribute__((weak)) _Noreturn void _ZSt17__throw_bad_allocv(void);
extern __typeof__(dlsym) dlsym __attribute__((weak)); /* a static program has none */

static new_handler *current_new_handler(void)
{
    return _ZSt15get_new_handlerv ? _ZSt15get_new_handlerv() : NULL;
}

/* alignment 0: as malloc. */
static void *try_once(size_t alignment, size_t size)
{
    if (size > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX - size)
        return NULL;
    return alignment > 0 ? call_alloc_aligned(alignment, size) : call_alloc(size);
}

static __attribute__((noinline)) void *retry_or_throw(size_t alignment, size_t size)
{
    new_handler *handler;
    while ((handler = current_new_handler())) {
        handler();
        void *block = try_once(alignment, size);
        if (block)
            return block;
    }
    if (_ZSt17__throw_bad_allocv)
        _ZSt17__throw_bad_allocv();
    struct message message;
    message_begin(&message);
    message_text(&message, "operator new: out of memory, and no libstdc++ to throw bad_alloc");
    message_send(&message);
    abort();
}

static inline void *new_or_throw(size_t size)
{
    void *block = call_alloc(size);
    return __builtin_expect(block != NULL, 1) ? block : retry_or_throw(0, size);
}

static void *new_aligned_or_throw(size_t size, size_t alignment)
{
    void *block = try_once(alignment, size);
    return block ? block : retry_or_throw(alignment, size);
}

/* The nothrow forms. The handler may throw, which C cannot catch: libstdc++'s own form of the same
 * name does, around a call of the throwing one, which is ours. */
static void *new_or_null(const char *name, size_t alignment, size_t size)
{
    void *block = try_once(alignment, size);
    if (__builtin_expect(block != NULL, 1) || !current_new_handler() || !dlsym)
        return block;
    void *theirs = dlsym(RTLD_NEXT, name);
    if (!theirs)
        return NULL;
    if (alignment > 0)
        return ((void *(*)(size_t, size_t, const void *))theirs)(size, alignment, NULL);
    return ((void *(*)(size_t, const void *))theirs)(size, NULL);
}

/* The mangled names, which no header declares. m: size_t; v: void; RKSt9nothrow_t: const
 * nothrow_t &; St11align_val_t: an enumeration over size_t. */

#define NEW(name, ...)              \
    EXPORT void *name(__VA_ARGS__); \
    EXPORT void *name(__VA_ARGS__)
#define DELETE(name, ...)                         \
    EXPORT void name(void *block, ##__VA_ARGS__); \
    EXPORT void name(void *block, ##__VA_ARGS__)  \
    {                                             \
        if (block)                                \
            call_free(block);                     \
    }

NEW(_Znwm, size_t size)
{
    return new_or_throw(size);
}

NEW(_Znam, size_t size)
{
    return new_or_throw(size);
}

NEW(_ZnwmSt11align_val_t, size_t size, size_t alignment)
{
    return new_aligned_or_throw(size, alignment);
}

NEW(_ZnamSt11align_val_t, size_t size, size_t alignment)
{
    return new_aligned_or_throw(size, alignment);
}

NEW(_ZnwmRKSt9nothrow_t, size_t size, const void *nothrow __attribute__((unused)))
{
    return new_or_null("_ZnwmRKSt9nothrow_t", 0, size);
}

NEW(_ZnamRKSt9nothrow_t, size_t size, const void *nothrow __attribute__((unused)))
{
    return new_or_null("_ZnamRKSt9nothrow_t", 0, size);
}

NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
    const void *nothrow __attribute__((unused)))
{
    return new_or_null("_ZnwmSt11align_val_tRKSt9nothrow_t", alignment, size);
}

NEW(_ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment,
    const void *nothrow __attribute__((unused)))
{
    return new_or_null("_ZnamSt11align_val_tRKSt9nothrow_t", alignment, size);
}

#define UNUSED_SIZE size_t size __attribute__((unused))
#define UNUSED_ALIGNMENT size_t alignment __attribute__((unused))
#define UNUSED_NOTHROW const void *nothrow __attribute__((unused))

DELETE(_ZdlPv)
DELETE(_ZdaPv)
DELETE(_ZdlPvm, UNUSED_SIZE)
DELETE(_ZdaPvm, UNUSED_SIZE)
DELETE(_ZdlPvRKSt9nothrow_t, UNUSED_NOTHROW)
DELETE(_ZdaPvRKSt9nothrow_t, UNUSED_NOTHROW)
DELETE(_ZdlPvSt11align_val_t, UNUSED_ALIGNMENT)
DELETE(_ZdaPvSt11align_val_t, UNUSED_ALIGNMENT)
DELETE(_ZdlPvmSt11align_val_t, UNUSED_SIZE, UNUSED_ALIGNMENT)
DELETE(_ZdaPvmSt11align_val_t, UNUSED_SIZE, UNUSED_ALIGNMENT)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, UNUSED_ALIGNMENT, UNUSED_NOTHROW)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t, UNUSED_ALIGNMENT, UNUSED_NOTHROW)
