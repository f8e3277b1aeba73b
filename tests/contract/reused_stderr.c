/* SPDX-License-Identifier: MIT
 *
 * reused_stderr.c: a daemon closed standard error, and descriptor 2 is now its database.
 *
 * A diagnostic written to descriptor 2 would destroy the user's data. The argument names a file
 * that the program opens as descriptor 2; it must hold nothing but what the program wrote. With a
 * second argument it takes the place of every other descriptor too.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/contract/contract.h"

static char not_a_block[64];

int main(int count, char **arguments)
{
    require(count >= 2);
    close(2);
    int database = open(arguments[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (database != 2 || write(2, "data", 4) != 4)
        _exit(97);
    for (int descriptor = 3; count > 2 && descriptor < sysconf(_SC_OPEN_MAX); descriptor++)
        dup2(database, descriptor);
    free(opaque(not_a_block));
    exercise();
    struct stat status;
    return fstat(2, &status) == 0 && status.st_size == 4 ? 0 : 96;
}
