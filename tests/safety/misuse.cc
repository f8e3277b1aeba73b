/* SPDX-License-Identifier: MIT
 *
 * misuse.cc: runs one program of the corpus (misuse.h), or lists them.
 *
 *     misuse                        a line for each: CATEGORY NAME
 *     misuse CATEGORY NAME
 */
#include <cstdio>
#include <signal.h>
#include <unistd.h>

#include "tests/safety/misuse.h"

enum { EXIT_FAULT_AT_ACCESS = 77, EXIT_FAULT_ELSEWHERE = 78 };

static const volatile char *volatile expected_start;
static volatile size_t expected_bytes;

void expect_fault(const volatile void *start, size_t bytes)
{
    expected_start = static_cast<const volatile char *>(start);
    expected_bytes = bytes;
}

static void on_fault(int, siginfo_t *info, void *)
{
    size_t offset = (size_t)(static_cast<const char *>(info->si_addr) - expected_start);
    _exit(offset < expected_bytes ? EXIT_FAULT_AT_ACCESS : EXIT_FAULT_ELSEWHERE);
}

static void watch_faults()
{
    static char stack[64 * 1024];
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}

/* So that the case meets a heap that has been used. */
static void exercise()
{
    std::vector<std::unique_ptr<char[]>> blocks;
    for (size_t round = 0; round < 4; round++) {
        for (size_t bytes = 8; bytes < 8000; bytes += bytes / 4 + 8)
            blocks.emplace_back(new char[bytes]);
        for (size_t i = 0; i < blocks.size(); i += 2)
            blocks[i].reset();
    }
}

int main(int count, char **arguments)
{
    for (const misuse *table : {cases_of_free, cases_of_writes, cases_of_contents, cases_of_sizes})
        for (const misuse *each = table; each->name; each++) {
            if (count < 3) {
                printf("%s %s\n", each->category, each->name);
            } else if (strcmp(each->category, arguments[1]) == 0 &&
                       strcmp(each->name, arguments[2]) == 0) {
                exercise();
                watch_faults();
                return each->is_harmed() ? 1 : 0;
            }
        }
    return count < 3 ? 0 : 98;
}
