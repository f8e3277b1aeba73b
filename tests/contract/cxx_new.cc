/* SPDX-License-Identifier: MIT
 *
 * cxx_new.cc: every form of operator new and delete.
 *
 * A library that defines only some of them leaves the others to libstdc++, whose malloc calls
 * happen to come to us, or, aligned, to an aligned_alloc of another heap. A failing new throws
 * bad_alloc after the new_handler has given up. A delete with a wrong size is not an abort.
 */
#include <initializer_list>
#include <new>

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/contract/contract.h"

static const size_t IMPOSSIBLE = (size_t)PTRDIFF_MAX - 100;
static int handler_calls;

template <typename allocation> static bool throws_bad_alloc(allocation allocate)
{
    try {
        opaque(allocate());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void give_up_after_three()
{
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

static void throw_at_once()
{
    handler_calls++;
    throw std::bad_alloc();
}

static void require_plain_forms(size_t size)
{
    void *block = operator new(size);
    fill(block, size);
    require(is_filled(block, size));
    operator delete(block);
    operator delete(operator new(size), size);
    operator delete[](operator new[](size));
    operator delete[](operator new[](size), size);
    operator delete(operator new(size, std::nothrow), std::nothrow);
    operator delete[](operator new[](size, std::nothrow), std::nothrow);
    free(operator new(size));
    operator delete(malloc(size));
}

static void require_aligned_forms(size_t size, size_t alignment)
{
    std::align_val_t align{alignment};
    void *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = i == 0   ? operator new(size, align)
                    : i == 1 ? operator new[](size, align)
                    : i == 2 ? operator new(size, align, std::nothrow)
                    : i == 3 ? operator new[](size, align, std::nothrow)
                    : i == 4 ? operator new(size, align)
                             :
                             operator new[](size, align);
        require(blocks[i] && reinterpret_cast<uintptr_t>(blocks[i]) % alignment == 0);
        fill(blocks[i], size);
    }
    for (int i = 0; i < 6; i++)
        require(is_filled(blocks[i], size));
    operator delete(blocks[0], align);
    operator delete[](blocks[1], align);
    operator delete(blocks[2], align, std::nothrow);
    operator delete[](blocks[3], align, std::nothrow);
    operator delete(blocks[4], size, align);
    operator delete[](blocks[5], size, align);
}

static void require_failures_throw()
{
    std::align_val_t page{4096};
    require(throws_bad_alloc([] { return operator new(IMPOSSIBLE); }));
    require(throws_bad_alloc([] { return operator new[](IMPOSSIBLE); }));
    require(throws_bad_alloc([=] { return operator new(IMPOSSIBLE, page); }));
    require(throws_bad_alloc([=] { return operator new[](IMPOSSIBLE, page); }));
    require(operator new(IMPOSSIBLE, std::nothrow) == nullptr);
    require(operator new[](IMPOSSIBLE, std::nothrow) == nullptr);
    require(operator new(IMPOSSIBLE, page, std::nothrow) == nullptr);
    require(operator new[](IMPOSSIBLE, page, std::nothrow) == nullptr);
    std::align_val_t no_power_of_two{24};
    require(throws_bad_alloc([=] { return operator new(100, no_power_of_two); }));
    require(operator new[](100, no_power_of_two, std::nothrow) == nullptr);
}

static void require_handler_called()
{
    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    require(throws_bad_alloc([] { return operator new(IMPOSSIBLE); }));
    require(handler_calls == 3);

    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    require(operator new(IMPOSSIBLE, std::nothrow) == nullptr);
    require(handler_calls == 3);

    handler_calls = 0;
    std::set_new_handler(give_up_after_three);
    require(throws_bad_alloc([] { return operator new (IMPOSSIBLE, std::align_val_t{64}); }));
    require(handler_calls == 3);

    handler_calls = 0;
    std::set_new_handler(throw_at_once);
    require(throws_bad_alloc([] { return operator new(IMPOSSIBLE); }));
    require(operator new(IMPOSSIBLE, std::nothrow) == nullptr); /* its exception is swallowed */
    require(operator new[](IMPOSSIBLE, std::align_val_t{64}, std::nothrow) == nullptr);
    require(handler_calls == 3);
    std::set_new_handler(nullptr);
}

/* A handler that frees a reserve lets the allocation succeed. */
static void *reserve[64];

static void free_reserve()
{
    handler_calls++;
    for (void *&block : reserve) {
        free(block);
        block = nullptr;
    }
    std::set_new_handler(nullptr);
}

static void require_wrong_size_survives()
{
    for (size_t size : {1UL, 40UL, 5000UL, 400000UL}) {
        operator delete(operator new(size), size * 2 + 50);
        operator delete[](operator new[](size), static_cast<size_t>(1));
        operator delete (operator new (size, std::align_val_t{64}), size + 1, std::align_val_t{64});
    }
    exercise();
}

struct thread_local_object {
    int *value = new int(5);
    ~thread_local_object()
    {
        delete value;
        exercise();
    }
};
static thread_local thread_local_object object;
static thread_local_object global_object; /* destroyed when exit is far gone */

int main()
{
    for (size_t size = 0; size < 3000000; size = size * 3 + 1) {
        require_plain_forms(size);
        for (size_t alignment = 16; alignment <= 65536; alignment *= 4)
            require_aligned_forms(size, alignment);
    }
    operator delete(nullptr);
    operator delete[](nullptr, std::align_val_t{64});
    require_failures_throw();
    require_handler_called();
    handler_calls = 0;
    for (void *&block : reserve)
        block = malloc(1000);
    std::set_new_handler(free_reserve);
    require(operator new(IMPOSSIBLE, std::nothrow) == nullptr &&handler_calls == 1);
    require_wrong_size_survives();
    require(*object.value == 5);
    return 0;
}
