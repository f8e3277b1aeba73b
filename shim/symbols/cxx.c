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

/* One form of operator new. alignment: 0 where the form has none. */
struct form {
    bool is_array;
    size_t alignment;
};

static void *try_once(struct form form, size_t size)
{
    size_t alignment = form.alignment;
    if (size > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX - size)
        return NULL;
    if (alignment > 0)
        return form.is_array ? call_operator(create_array_aligned)(alignment, size)
                             : call_operator(create_aligned)(alignment, size);
    return form.is_array ? call_operator(create_array)(size) : call_operator(create)(size);
}

static __attribute__((noinline)) void *retry_or_throw(struct form form, size_t size)
{
    new_handler *handler;
    while ((handler = current_new_handler())) {
        handler();
        void *block = try_once(form, size);
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

static void *new_aligned_or_throw(struct form form, size_t size)
{
    void *block = try_once(form, size);
    return block ? block : retry_or_throw(form, size);
}

/* The nothrow forms. The handler may throw, which C cannot catch: libstdc++'s own form of the same
 * name does, around a call of the throwing one, which is ours. */
static void *new_or_null(const char *name, struct form form, size_t size)
{
    void *block = try_once(form, size);
    if (__builtin_expect(block != NULL, 1) || !current_new_handler() || !dlsym)
        return block;
    void *theirs = dlsym(RTLD_NEXT, name);
    if (!theirs)
        return NULL;
    if (form.alignment > 0)
        return ((void *(*)(size_t, size_t, const void *))theirs)(size, form.alignment, NULL);
    return ((void *(*)(size_t, const void *))theirs)(size, NULL);
}

/* The mangled names, which no header declares. m: size_t; v: void; RKSt9nothrow_t: const
 * nothrow_t &; St11align_val_t: an enumeration over size_t. */

#define UNUSED_NOTHROW const void *nothrow __attribute__((unused))
#define NEW(name, ...)              \
    EXPORT void *name(__VA_ARGS__); \
    EXPORT void *name(__VA_ARGS__)
/* call: the operator with its arguments. */
#define DELETE(name, call, ...)                   \
    EXPORT void name(void *block, ##__VA_ARGS__); \
    EXPORT void name(void *block, ##__VA_ARGS__)  \
    {                                             \
        if (block)                                \
            call;                                 \
    }

NEW(_Znwm, size_t size)
{
    void *block = call_operator(create)(size);
    return __builtin_expect(block != NULL, 1) ? block
                                              : retry_or_throw((struct form){false, 0}, size);
}

NEW(_Znam, size_t size)
{
    void *block = call_operator(create_array)(size);
    return __builtin_expect(block != NULL, 1) ? block
                                              : retry_or_throw((struct form){true, 0}, size);
}

NEW(_ZnwmSt11align_val_t, size_t size, size_t alignment)
{
    return new_aligned_or_throw((struct form){false, alignment}, size);
}

NEW(_ZnamSt11align_val_t, size_t size, size_t alignment)
{
    return new_aligned_or_throw((struct form){true, alignment}, size);
}

NEW(_ZnwmRKSt9nothrow_t, size_t size, UNUSED_NOTHROW)
{
    return new_or_null("_ZnwmRKSt9nothrow_t", (struct form){false, 0}, size);
}

NEW(_ZnamRKSt9nothrow_t, size_t size, UNUSED_NOTHROW)
{
    return new_or_null("_ZnamRKSt9nothrow_t", (struct form){true, 0}, size);
}

NEW(_ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, UNUSED_NOTHROW)
{
    return new_or_null("_ZnwmSt11align_val_tRKSt9nothrow_t", (struct form){false, alignment}, size);
}

NEW(_ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, UNUSED_NOTHROW)
{
    return new_or_null("_ZnamSt11align_val_tRKSt9nothrow_t", (struct form){true, alignment}, size);
}

DELETE(_ZdlPv, call_operator(destroy)(block))
DELETE(_ZdaPv, call_operator(destroy_array)(block))
DELETE(_ZdlPvm, call_operator(destroy_sized)(block, size), size_t size)
DELETE(_ZdaPvm, call_operator(destroy_array_sized)(block, size), size_t size)
DELETE(_ZdlPvRKSt9nothrow_t, call_operator(destroy)(block), UNUSED_NOTHROW)
DELETE(_ZdaPvRKSt9nothrow_t, call_operator(destroy_array)(block), UNUSED_NOTHROW)
DELETE(_ZdlPvSt11align_val_t, call_operator(destroy_aligned)(block, SIZE_MAX, alignment),
       size_t alignment)
DELETE(_ZdaPvSt11align_val_t, call_operator(destroy_array_aligned)(block, SIZE_MAX, alignment),
       size_t alignment)
DELETE(_ZdlPvmSt11align_val_t, call_operator(destroy_aligned)(block, size, alignment), size_t size,
       size_t alignment)
DELETE(_ZdaPvmSt11align_val_t, call_operator(destroy_array_aligned)(block, size, alignment),
       size_t size, size_t alignment)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t,
       call_operator(destroy_aligned)(block, SIZE_MAX, alignment), size_t alignment, UNUSED_NOTHROW)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t,
       call_operator(destroy_array_aligned)(block, SIZE_MAX, alignment), size_t alignment,
       UNUSED_NOTHROW)
