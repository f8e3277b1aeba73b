/* SPDX-License-Identifier: MIT */
/* mapping.c: for the recorder's tests: maps many pages that differ from their neighbours, and forks
 * a child that writes to each page that it may. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 6000, PAGE = 4096 };

int main(void)
{
    int status = 0;
    char *pages = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < PAGES; i += 2)
        if (pages == MAP_FAILED || mprotect(pages + (size_t)i * PAGE, PAGE, PROT_READ) != 0)
            return 1;
    if (fork() == 0) {
        for (int i = 1; i < PAGES; i += 2)
            pages[(size_t)i * PAGE] = 1;
        _exit(0);
    }
    wait(&status);
    return status;
}
