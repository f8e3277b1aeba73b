/* SPDX-License-Identifier: MIT
 *
 * print_main.c: says that it was reached, and uses the heap. Bad options must stop a program
 * before this, privileged ones must ignore all options.
 */
#include "tests/contract/contract.h"

int main(void)
{
    exercise();
    char *text = strdup("main was reached");
    require(text && puts(text) >= 0);
    free(text);
    return 0;
}
