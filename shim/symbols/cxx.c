/* SPDX-License-Identifier: MIT
 *
 * cxx.c: operator new and delete, by their mangled names (Itanium C++ ABI, 5.1), so that C++
 * programs are served whether or not they link libstdc++'s.
 *
 * A program may replace some of them, and means with them those that the standard builds on them
 * ([new.delete]): the forms for arrays are built on those for one object, those that do not throw
 * on those that do, the sized ones on those without a size. So a form that is built on another
 * calls it where it is not ours. They are weak, so that a static program may replace them too.
 *
 * A new that cannot be satisfied calls the program's new handler until there is none, then
 * throws bad_alloc: both through the C++ runtime's own functions. A program that calls new has
 * them, maybe since it opened a library that brought them along.
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

/* A function of the C++ runtime, NULL where there is none: of the program's, or of the one that
 * the object with the code address `caller` was linked with. A static program has all of them, or
 * none. dlopen may allocate, so it is no import of ours, which any of our files could call. */
static void *runtime_function(const char *name, const void *caller)
{
#ifdef PIC
    void *function = dlsym(RTLD_NEXT, name);
    Dl_info found;
    __typeof__(dlopen) *open_object;
    if (function || !dladdr(caller, &found) ||
        !(*(void **)&open_object = dlsym(RTLD_NEXT, "dlopen")))
        return function;
    void *object = open_object(found.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (object) {
        function = dlsym(object, name);
        dlclose(object);
    }
    return function;
#else
    (void)name, (void)caller;
    return NULL;
#endif
}

static new_handler *current_new_handler(const void *caller)
{
    __typeof__(_ZSt15get_new_handlerv) *get = _ZSt15get_new_handlerv;
    if (!get)
        *(void **)&get = runtime_function("_ZSt15get_new_handlerv", caller);
    return get ? get() : NULL;
}

/* One form of operator new. alignment: 0 where the form has none. */
struct form {
    bool is_array;
    size_t alignment;
};

static bool has_valid_alignment(struct form form)
{
    return (form.alignment & (form.alignment - 1)) == 0;
}

static void *try_once(struct form form, size_t size)
{
    size_t alignment = form.alignment;
    if (size > (size_t)PTRDIFF_MAX || alignment > (size_t)PTRDIFF_MAX - size ||
        !has_valid_alignment(form))
        return NULL;
    if (alignment > 0)
        return form.is_array ? call_operator(create_array_aligned)(alignment, size)
                             : call_operator(create_aligned)(alignment, size);
    return form.is_array ? call_operator(create_array)(size) : call_operator(create)(size);
}

static __attribute__((noinline)) void *retry_or_throw(struct form form, size_t size,
                                                      const void *caller)
{
    new_handler *handler;
    while (has_valid_alignment(form) && (handler = current_new_handler(caller))) {
        handler();
        void *block = try_once(form, size);
        if (block)
            return block;
    }
    void (*throw_bad_alloc)(void) = _ZSt17__throw_bad_allocv;
    if (!throw_bad_alloc)
        *(void **)&throw_bad_alloc = runtime_function("_ZSt17__throw_bad_allocv", caller);
    if (throw_bad_alloc)
        throw_bad_alloc();
    struct message message;
    message_begin(&message);
    message_text(&message, "operator new: out of memory, and no libstdc++ to throw bad_alloc");
    message_send(&message);
    abort();
}

static void *new_aligned_or_throw(struct form form, size_t size, const void *caller)
{
    void *block = try_once(form, size);
    return block ? block : retry_or_throw(form, size, caller);
}

/* The mangled names, which no header declares. m: size_t; v: void; RKSt9nothrow_t: const
 * nothrow_t &; St11align_val_t: an enumeration over size_t. */

/* ours_name: the address by which this form is called where it is ours. */
#define OPERATOR(type, name, ...)                                              \
    EXPORT __attribute__((weak)) type name(__VA_ARGS__);                       \
    OWN(name);                                                                 \
    static __typeof__(name) *ours_##name __attribute__((unused)) = own_##name; \
    type name(__VA_ARGS__)
#define UNUSED_NOTHROW const void *nothrow __attribute__((unused))
#define CALLER __builtin_return_address(0)
#define IS_REPLACED(name) __builtin_expect((name) != ours_##name, 0)
#define ONE_IS_REPLACED(name, other) (IS_REPLACED(name) || IS_REPLACED(other))

OPERATOR(void *, _Znwm, size_t size)
{
    void *block = call_operator(create)(size);
    return __builtin_expect(block != NULL, 1)
               ? block
               : retry_or_throw((struct form){false, 0}, size, CALLER);
}

OPERATOR(void *, _Znam, size_t size)
{
    if (IS_REPLACED(_Znwm))
        return _Znwm(size);
    void *block = call_operator(create_array)(size);
    return __builtin_expect(block != NULL, 1)
               ? block
               : retry_or_throw((struct form){true, 0}, size, CALLER);
}

OPERATOR(void *, _ZnwmSt11align_val_t, size_t size, size_t alignment)
{
    return new_aligned_or_throw((struct form){false, alignment}, size, CALLER);
}

OPERATOR(void *, _ZnamSt11align_val_t, size_t size, size_t alignment)
{
    if (IS_REPLACED(_ZnwmSt11align_val_t))
        return _ZnwmSt11align_val_t(size, alignment);
    return new_aligned_or_throw((struct form){true, alignment}, size, CALLER);
}

/* The forms that do not throw. What the program has replaced may throw, and the handler may, which
 * C cannot catch: libstdc++'s own form of the same name does, around a call of the form that
 * throws. So a static program has that alone. */
#ifdef PIC
static const char *const nothrow_names[2][2] = {
    {"_ZnwmRKSt9nothrow_t", "_ZnwmSt11align_val_tRKSt9nothrow_t"},
    {"_ZnamRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"}};

/* libstdc++'s, by is_array and whether there is an alignment; NULL where ours serves
 * (find_replaced). */
static void *next_nothrow[2][2];

static void *new_or_null(struct form form, size_t size, bool is_replaced, const void *caller)
{
    void *block = is_replaced ? NULL : try_once(form, size);
    if (block || (!is_replaced && !current_new_handler(caller)))
        return block;
    void *theirs = next_nothrow[form.is_array][form.alignment > 0];
    if (!theirs)
        theirs = runtime_function(nothrow_names[form.is_array][form.alignment > 0], caller);
    if (!theirs)
        return NULL;
    if (form.alignment > 0)
        return ((void *(*)(size_t, size_t, const void *))theirs)(size, form.alignment, NULL);
    return ((void *(*)(size_t, const void *))theirs)(size, NULL);
}

OPERATOR(void *, _ZnwmRKSt9nothrow_t, size_t size, UNUSED_NOTHROW)
{
    return new_or_null((struct form){false, 0}, size, IS_REPLACED(_Znwm), CALLER);
}

OPERATOR(void *, _ZnamRKSt9nothrow_t, size_t size, UNUSED_NOTHROW)
{
    return new_or_null((struct form){true, 0}, size, ONE_IS_REPLACED(_Znam, _Znwm), CALLER);
}

OPERATOR(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, UNUSED_NOTHROW)
{
    return new_or_null((struct form){false, alignment}, size, IS_REPLACED(_ZnwmSt11align_val_t),
                       CALLER);
}

OPERATOR(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t size, size_t alignment, UNUSED_NOTHROW)
{
    return new_or_null((struct form){true, alignment}, size,
                       ONE_IS_REPLACED(_ZnamSt11align_val_t, _ZnwmSt11align_val_t), CALLER);
}
#endif

/* is_replaced: whether the program has replaced what this form is built on; below: the call of
 * that; call: ours. */
#define DELETE(name, is_replaced, below, call, ...)  \
    OPERATOR(void, name, void *block, ##__VA_ARGS__) \
    {                                                \
        if (is_replaced)                             \
            below;                                   \
        else if (block)                              \
            call;                                    \
    }

DELETE(_ZdlPv, false, (void)0, call_operator(destroy)(block))
DELETE(_ZdlPvm, IS_REPLACED(_ZdlPv), _ZdlPv(block), call_operator(destroy_sized)(block, size),
       size_t size)
DELETE(_ZdlPvRKSt9nothrow_t, IS_REPLACED(_ZdlPv), _ZdlPv(block), call_operator(destroy)(block),
       UNUSED_NOTHROW)

DELETE(_ZdaPv, IS_REPLACED(_ZdlPv), _ZdlPv(block), call_operator(destroy_array)(block))
DELETE(_ZdaPvm, ONE_IS_REPLACED(_ZdaPv, _ZdlPv), _ZdaPv(block),
       call_operator(destroy_array_sized)(block, size), size_t size)
DELETE(_ZdaPvRKSt9nothrow_t, ONE_IS_REPLACED(_ZdaPv, _ZdlPv), _ZdaPv(block),
       call_operator(destroy_array)(block), UNUSED_NOTHROW)

DELETE(_ZdlPvSt11align_val_t, false, (void)0,
       call_operator(destroy_aligned)(block, SIZE_MAX, alignment), size_t alignment)
DELETE(_ZdlPvmSt11align_val_t, IS_REPLACED(_ZdlPvSt11align_val_t),
       _ZdlPvSt11align_val_t(block, alignment),
       call_operator(destroy_aligned)(block, size, alignment), size_t size, size_t alignment)
DELETE(_ZdlPvSt11align_val_tRKSt9nothrow_t, IS_REPLACED(_ZdlPvSt11align_val_t),
       _ZdlPvSt11align_val_t(block, alignment),
       call_operator(destroy_aligned)(block, SIZE_MAX, alignment), size_t alignment, UNUSED_NOTHROW)

DELETE(_ZdaPvSt11align_val_t, IS_REPLACED(_ZdlPvSt11align_val_t),
       _ZdlPvSt11align_val_t(block, alignment),
       call_operator(destroy_array_aligned)(block, SIZE_MAX, alignment), size_t alignment)
DELETE(_ZdaPvmSt11align_val_t, ONE_IS_REPLACED(_ZdaPvSt11align_val_t, _ZdlPvSt11align_val_t),
       _ZdaPvSt11align_val_t(block, alignment),
       call_operator(destroy_array_aligned)(block, size, alignment), size_t size, size_t alignment)
DELETE(_ZdaPvSt11align_val_tRKSt9nothrow_t,
       ONE_IS_REPLACED(_ZdaPvSt11align_val_t, _ZdlPvSt11align_val_t),
       _ZdaPvSt11align_val_t(block, alignment),
       call_operator(destroy_array_aligned)(block, SIZE_MAX, alignment), size_t alignment,
       UNUSED_NOTHROW)

/* The program's stubs are no replacements. Where a form that throws is one, each call of those that
 * do not throw goes to libstdc++, and must not look for its function: the holder of the loader's
 * lock may wait for the caller. */
#ifdef PIC
#define NOTE_STUB(name)                                               \
    ((name) != own_##name && is_stub_of_program((const void *)(name)) \
         ? (void)(ours_##name = (name))                               \
         : (void)0)

static __attribute__((constructor)) void find_replaced(void)
{
    NOTE_STUB(_Znwm), NOTE_STUB(_Znam);
    NOTE_STUB(_ZnwmSt11align_val_t), NOTE_STUB(_ZnamSt11align_val_t);
    NOTE_STUB(_ZdlPv), NOTE_STUB(_ZdaPv);
    NOTE_STUB(_ZdlPvSt11align_val_t), NOTE_STUB(_ZdaPvSt11align_val_t);
    const bool is_replaced[2] = {ONE_IS_REPLACED(_Znam, _Znwm),
                                 ONE_IS_REPLACED(_ZnamSt11align_val_t, _ZnwmSt11align_val_t)};
    for (int i = 0; i < 4; i++) {
        void **next = &next_nothrow[i / 2][i % 2];
        if (is_replaced[i % 2] && !(*next = dlsym(RTLD_NEXT, nothrow_names[i / 2][i % 2])))
            dlerror(); /* the program is not told of it */
    }
}
#endif
