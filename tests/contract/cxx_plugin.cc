/* SPDX-License-Identifier: MIT
 *
 * cxx_plugin.cc: what cxx_late.c opens, and with it the C++ runtime. Each function tells whether a
 * new that cannot be satisfied has done what the runtime's would.
 */
#include <new>

#include <stddef.h>
#include <stdint.h>

static const size_t IMPOSSIBLE = (size_t)PTRDIFF_MAX - 100;
static int handler_calls;

static void give_up()
{
    handler_calls++;
    std::set_new_handler(nullptr);
}

template <typename allocation> static bool throws_bad_alloc(allocation allocate)
{
    try {
        return allocate() == nullptr && false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

static bool calls_handler_and_throws()
{
    handler_calls = 0;
    std::set_new_handler(give_up);
    return throws_bad_alloc([] { return operator new(IMPOSSIBLE); }) && handler_calls == 1;
}

static bool calls_handler_and_returns()
{
    handler_calls = 0;
    std::set_new_handler(give_up);
    return operator new(IMPOSSIBLE, std::nothrow) == nullptr &&handler_calls == 1;
}

extern "C" bool fails_as_it_should()
{
    return throws_bad_alloc([] { return operator new(IMPOSSIBLE); }) &&
           throws_bad_alloc([] { return operator new[](IMPOSSIBLE, std::align_val_t{64}); }) &&
           calls_handler_and_throws() && calls_handler_and_returns();
}
