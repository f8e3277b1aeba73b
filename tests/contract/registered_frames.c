/* SPDX-License-Identifier: MIT
 *
 * registered_frames.c: libgcc allocates while it holds a lock of its own.
 *
 * A just-in-time compiler tells libgcc of its code's frames (__register_frame). The first search
 * for a frame sorts them, in memory from malloc, under a lock that each search takes. An allocator
 * that looks for its callers by libgcc waits for itself there.
 */
#include <sys/mman.h>
#include <unwind.h>

#include "tests/contract/contract.h"

void __register_frame(void *frames);

/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char instructions[] = {0x55, 0x48, 0x89, 0xE5, 0xFF, 0xD7, 0x5D, 0xC3};

struct frames {
    uint32_t cie_length, cie_id;
    unsigned char cie[16];
    uint32_t fde_length, cie_distance;
    uint64_t start, bytes;
    unsigned char fde[8];
    uint32_t end;
} __attribute__((packed));

static struct frames frames = {
    .cie_length = 20,
    /* version 1, no augmentation, factors 1 and -8, return address in 16; def_cfa rsp + 8, the
     * return address at cfa - 8 */
    .cie = {1, 0, 1, 0x78, 16, 0x0C, 7, 8, 0x90, 1},
    .fde_length = 28,
    .cie_distance = offsetof(struct frames, cie_distance),
    .bytes = sizeof instructions,
    /* from byte 1 on cfa is rsp + 16, and rbp at cfa - 16; from byte 4 on cfa is rbp + 16 */
    .fde = {0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, 6},
};

int main(void);

static void *outermost;

static _Unwind_Reason_Code note_outermost(struct _Unwind_Context *context, void *argument)
{
    void *start = _Unwind_FindEnclosingFunction((void *)_Unwind_GetIP(context));
    if (start == argument)
        outermost = start;
    return _URC_NO_REASON;
}

static void called(void)
{
    _Unwind_Backtrace(note_outermost, main);
}

int main(void)
{
    char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(code != MAP_FAILED);
    memcpy(code, instructions, sizeof instructions);
    require(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
    frames.start = (uintptr_t)code;
    __register_frame(&frames);
    void (*run)(void (*)(void));
    memcpy(&run, &code, sizeof run);
    run(called);
    require(outermost != NULL);
    return 0;
}
