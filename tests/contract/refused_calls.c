/* SPDX-License-Identifier: MIT
 *
 * refused_calls.c: a kernel that says no.
 *
 * With overcommit forbidden (or a small cgroup) large mappings are refused, also such as are
 * only reserved; munmap fails with ENOMEM when it would split a mapping and the process has
 * max_map_count of them; madvise may be refused. Nothing of that is fatal, and errno survives
 * free. The refusals are made by a seccomp filter. The argument is "large" (mappings above 8 MB
 * are refused from the start on), "munmap", "madvise", "mremap", "mprotect" or "mmap".
 * Seen: jemalloc 193, 1328; hardened_malloc 324.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/contract/contract.h"

enum { LARGEST = 8 << 20 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)

static void refuse_call(unsigned number, unsigned larger_than)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 1, 0),
        ANSWER(SECCOMP_RET_ALLOW),
        LOAD(args[1]), /* the length, its lower half first */
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, larger_than, 2, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        ANSWER(SECCOMP_RET_ERRNO | ENOMEM),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

enum { BLOCKS = 300 };
static char *blocks[BLOCKS];
static size_t sizes[BLOCKS];

static void replace(int i, size_t size, bool may_fail)
{
    if (blocks[i])
        require(is_filled(blocks[i], sizes[i]));
    errno = 4711;
    free(blocks[i]);
    require(errno == 4711);
    blocks[i] = malloc(size);
    sizes[i] = size;
    require(blocks[i] || may_fail);
    if (blocks[i])
        fill(blocks[i], size);
    else
        require(errno == ENOMEM);
}

/* Blocks that come and go, grow and shrink, small and mapped, up to 2 MB. */
static void churn(bool may_fail)
{
    uint64_t random = 3;
    for (int round = 0; round < 3000; round++) {
        int i = (int)(random_next(&random) % BLOCKS);
        size_t size = random_next(&random) % ((size_t)1 << random_next(&random) % 21);
        if (blocks[i] && round % 3 == 0) {
            int pattern = sizes[i] > 0 ? blocks[i][0] : 0;
            size_t common = sizes[i] < size ? sizes[i] : size;
            char *moved = realloc(blocks[i], size + 1);
            require(moved || may_fail);
            if (!moved)
                continue;
            require(is_all(moved, pattern, common));
            blocks[i] = moved;
            sizes[i] = size;
            fill(moved, size);
        } else {
            replace(i, size, may_fail);
        }
    }
    malloc_trim(0);
    for (int i = 0; i < BLOCKS; i++)
        replace(i, 10, may_fail);
}

int main(int count, char **arguments)
{
    require(count >= 2);
    const char *mode = arguments[1];
    if (strcmp(mode, "large") == 0) {
        if (count == 2) {
            refuse_call(SYS_mmap, LARGEST);
            execl("/proc/self/exe", arguments[0], mode, "refused", NULL);
            require(!"execl");
        }
        churn(false);
        void *too_large = malloc(2 * LARGEST); /* glibc has brk left for it */
        require(too_large || errno == ENOMEM);
        free(too_large);
        churn(false);
        return 0;
    }
    churn(false);
    if (strcmp(mode, "munmap") == 0)
        refuse_call(SYS_munmap, 0);
    else if (strcmp(mode, "madvise") == 0)
        refuse_call(SYS_madvise, 0);
    else if (strcmp(mode, "mremap") == 0)
        refuse_call(SYS_mremap, 0);
    else if (strcmp(mode, "mprotect") == 0)
        refuse_call(SYS_mprotect, 0);
    else if (strcmp(mode, "mmap") == 0)
        refuse_call(SYS_mmap, 0);
    else
        require(!"a known mode");
    bool may_fail = strcmp(mode, "mprotect") == 0 || strcmp(mode, "mmap") == 0;
    churn(may_fail);
    churn(may_fail);
    return 0;
}
