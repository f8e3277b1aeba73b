/* SPDX-License-Identifier: MIT
 *
 * usable_memory.c: how much memory malloc gives under a limit of the address space: the megabytes
 * requested in blocks of one size until it gives no more. Arguments: the limit in megabytes and
 * the size; the limit is set, then the program is executed anew.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    if (count < 3)
        return 2;
    if (count == 3) {
        size_t limit = strtoul(arguments[1], NULL, 10) << 20;
        if (setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0)
            execl("/proc/self/exe", arguments[0], arguments[1], arguments[2], "limited", NULL);
        return 1;
    }
    size_t size = strtoul(arguments[2], NULL, 10), blocks = 0;
    for (char *block; (block = malloc(size)); blocks++)
        block[size - 1] = 1;
    printf("%.1f\n", (double)(blocks * size) / (1 << 20));
    return 0;
}
