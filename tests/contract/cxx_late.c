/* SPDX-License-Identifier: MIT
 *
 * cxx_late.c: a program in C opens a library in C++, as python3 does for an extension.
 *
 * The C++ runtime comes with it, behind no name that the program can see. A library whose operator
 * new looks for bad_alloc when it is loaded itself finds none, and can only abort.
 *
 *     cxx_late PATH OF cxx_plugin.so
 */
#include <dlfcn.h>

#include "tests/contract/contract.h"

int main(int count, char **arguments)
{
    require(count == 2);
    void *plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    require(plugin);
    bool (*fails_as_it_should)(void) = (bool (*)(void))dlsym(plugin, "fails_as_it_should");
    require(fails_as_it_should && fails_as_it_should());
    exercise();
    return 0;
}
