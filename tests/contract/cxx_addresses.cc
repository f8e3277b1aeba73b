/* SPDX-License-Identifier: MIT
 *
 * cxx_addresses.cc: a program takes the addresses of malloc and of operators.
 *
 * Built without PIE it has a stub at each of these addresses, and every object sees the stub. That
 * is no replacement. A library that takes it for one hands new[]'s block to the operator delete
 * for one object, or no longer tells them apart. With an argument the program itself does so.
 */
#include <new>

#include "tests/contract/contract.h"

static void *(*volatile takes)(size_t) = operator new;
static void *(*volatile takes_array)(size_t) = operator new[];
static void (*volatile gives)(void *) = operator delete;
static void *(*volatile allocates)(size_t) = malloc;

int main(int count, char **)
{
    operator delete[](opaque(operator new[](40)));
    operator delete[](opaque(takes_array(40)));
    operator delete[](opaque(operator new[](40, std::nothrow)), static_cast<size_t>(40));
    operator delete(opaque(operator new(40, std::nothrow)), static_cast<size_t>(40));
    gives(opaque(takes(40)));
    free(opaque(allocates(40)));
    if (count == 2)
        operator delete(opaque(operator new[](40)));
    return 0;
}
