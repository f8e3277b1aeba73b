/* SPDX-License-Identifier: MIT
 *
 * frees.cc: blocks that are freed twice, pointers that are no blocks, operators that do not match.
 */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/safety/misuse.h"

extern "C" void free_sized(void *block, size_t size) __attribute__((weak));

/* Double frees. */

static const char *const TWICE = "double-free";

template <size_t bytes> static bool twice()
{
    char *block = block_of(bytes);
    free(opaque(block));
    free(opaque(block));
    return hands_out_twice(bytes);
}

template <size_t bytes> static bool twice_another_between()
{
    char *block = block_of(bytes), *other = block_of(bytes);
    free(opaque(block));
    free(opaque(other));
    free(opaque(block));
    return hands_out_twice(bytes);
}

/* What a thread keeps of one size is full by then. */
template <size_t bytes> static bool twice_many_between()
{
    char *block = block_of(bytes);
    std::vector<char *> others(100);
    for (char *&other : others)
        other = block_of(bytes);
    free(opaque(block));
    for (char *other : others)
        free(opaque(other));
    free(opaque(block));
    return hands_out_twice(bytes);
}

static bool twice_after_realloc()
{
    char *block = block_of(100);
    char *moved = static_cast<char *>(realloc(opaque(block), 30000));
    if (moved == block)
        return false;
    free(opaque(block));
    return hands_out_twice(100);
}

static bool twice_after_realloc_to_zero()
{
    char *block = block_of(200);
    void *nothing = realloc(opaque(block), 0);
    free(opaque(nothing));
    free(opaque(block));
    return hands_out_twice(200);
}

static bool twice_aligned()
{
    void *block = memalign(256, 300);
    free(opaque(block));
    free(opaque(block));
    return hands_out_twice(300);
}

static bool twice_zeroed()
{
    void *block = calloc(10, 40);
    free(opaque(block));
    free(opaque(block));
    return hands_out_twice(400);
}

static bool twice_delete()
{
    int *block = opaque(new int(1));
    delete block;
    delete opaque(block);
    return hands_out_twice(sizeof(int));
}

static bool twice_delete_array()
{
    long *block = opaque(new long[20]);
    delete[] block;
    delete[] opaque(block);
    return hands_out_twice(20 * sizeof(long));
}

static bool twice_free_then_realloc()
{
    char *block = block_of(48);
    free(opaque(block));
    void *moved = realloc(opaque(block), 500);
    return moved && hands_out_twice(48);
}

static bool twice_freed_by_thread()
{
    char *block = block_of(64);
    std::thread([block] { free(opaque(block)); }).join();
    free(opaque(block));
    return hands_out_twice(64);
}

static bool twice_both_by_threads()
{
    char *block = block_of(64);
    std::thread([block] { free(opaque(block)); }).join();
    std::thread([block] { free(opaque(block)); }).join();
    return hands_out_twice(64);
}

static bool twice_in_thread_of_ours()
{
    char *block = block_of(5000);
    free(opaque(block));
    std::thread([block] { free(opaque(block)); }).join();
    return hands_out_twice(5000);
}

/* The program has a block of the size again: is it the one that the second free takes away? */
static bool twice_after_new_use()
{
    char *block = block_of(80);
    free(opaque(block));
    char *current = block_of(80);
    free(opaque(block));
    return hands_out_twice(80, current, 80);
}

/* As a fastbin attack: the fault is at the second of two blocks, the first comes back twice. */
static bool twice_in_turn()
{
    char *first = block_of(32), *second = block_of(32);
    for (int i = 0; i < 3; i++) {
        free(opaque(first));
        free(opaque(second));
    }
    return hands_out_twice(32);
}

/* The second free in a child: its parent's heap is its own. */
static bool twice_in_child()
{
    char *block = block_of(72);
    free(opaque(block));
    pid_t child = fork();
    if (child == 0) {
        free(opaque(block));
        _exit(hands_out_twice(72));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        abort();
    return status != 0;
}

/* Pointers that are no blocks. */

static const char *const INVALID = "invalid-free";

/* A live block, so that the pointer may lie in it; it must stay the program's. */
template <size_t bytes, ptrdiff_t offset> static bool inside()
{
    char *block = block_of(bytes);
    free(opaque(block + offset));
    return hands_out_twice(bytes, block, bytes) || hands_out_twice(bytes / 2, block, bytes);
}

static bool on_stack()
{
    alignas(64) char local[256];
    memset(local, 0, sizeof local);
    free(opaque(local + 64));
    return hands_out_twice(100, local, sizeof local);
}

/* House of spirit: what lies before the pointer says that a block of 64 bytes follows. */
template <bool on_heap> static bool forged_header()
{
    alignas(64) static size_t local[64];
    size_t *forged = on_heap ? static_cast<size_t *>(opaque(calloc(64, sizeof(size_t)))) : local;
    for (int i = 1; i < 60; i += 8)
        forged[i] = 0x41;
    free(opaque(forged + 2));
    return hands_out_twice(48, forged, 64 * sizeof(size_t));
}

static char global[4096];

static bool in_globals()
{
    free(opaque(global + 1024));
    return hands_out_twice(1000, global, sizeof global);
}

static bool in_text()
{
    free(opaque(reinterpret_cast<char *>(&in_globals)));
    return hands_out_twice(100);
}

static bool in_constants()
{
    free(opaque(const_cast<char *>("a constant of the program")));
    return hands_out_twice(24);
}

static bool in_own_mapping()
{
    size_t bytes = 1 << 20;
    char *mapping = static_cast<char *>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    free(opaque(mapping + 4096));
    return hands_out_twice(4000, mapping, bytes);
}

template <uintptr_t address> static bool at_number()
{
    free(opaque(reinterpret_cast<char *>(address)));
    return hands_out_twice(100);
}

static bool behind_the_end()
{
    char *block = block_of(1000);
    free(opaque(block + malloc_usable_size(block)));
    return hands_out_twice(1000, block, 1000);
}

/* Never handed out: far behind what the program has of the heap. */
static bool in_free_memory()
{
    char *block = block_of(112);
    free(opaque(block + 112 * 100));
    return hands_out_twice(112, block, 112);
}

static bool start_of_page()
{
    char *block = block_of(112), *other = block_of(112);
    if ((uintptr_t)block % 4096 == 0)
        block = other;
    free(opaque(reinterpret_cast<char *>((uintptr_t)block & ~(uintptr_t)4095)));
    return hands_out_twice(112, block, 112);
}

static bool before_aligned()
{
    char *block = static_cast<char *>(memalign(4096, 100));
    free(opaque(block - 2032));
    return hands_out_twice(100, block, 100);
}

static bool array_cookie()
{
    struct counted {
        long value;
        ~counted()
        {
            value = 0;
        }
    };
    counted *array = opaque(new counted[10]);
    free(opaque(reinterpret_cast<void *>(array))); /* 8 bytes behind the block's start */
    return hands_out_twice(sizeof(counted) * 10, array, sizeof(counted) * 10);
}

static bool realloc_inside()
{
    char *block = block_of(500);
    char *moved = static_cast<char *>(realloc(opaque(block + 32), 1000));
    return moved && hands_out_twice(500, block, 500);
}

static bool realloc_of_stack()
{
    alignas(16) char local[128] = "";
    char *moved = static_cast<char *>(realloc(opaque(local), 1000));
    return moved && hands_out_twice(128, local, sizeof local);
}

/* Operators that do not match. Nothing but a report tells. */

static const char *const MISMATCH = "mismatch";

static bool unnoticed(size_t bytes)
{
    hands_out_twice(bytes);
    return true;
}

static bool malloc_delete()
{
    operator delete(opaque(malloc(40)));
    return unnoticed(40);
}

static bool malloc_delete_array()
{
    operator delete[](opaque(malloc(40)));
    return unnoticed(40);
}

static bool calloc_delete()
{
    operator delete(opaque(calloc(3, 100)));
    return unnoticed(300);
}

static bool strdup_delete()
{
    operator delete(opaque(strdup("a text of libc's")));
    return unnoticed(17);
}

static bool new_free()
{
    free(opaque(operator new(40)));
    return unnoticed(40);
}

static bool new_array_free()
{
    free(opaque(operator new[](400)));
    return unnoticed(400);
}

static bool new_delete_array()
{
    operator delete[](opaque(operator new(56)));
    return unnoticed(56);
}

static bool new_array_delete()
{
    operator delete(opaque(operator new[](56)));
    return unnoticed(56);
}

static bool new_realloc()
{
    free(realloc(opaque(operator new(40)), 4000));
    return unnoticed(40);
}

static bool large_new_free()
{
    free(opaque(operator new(200000)));
    return unnoticed(200000);
}

static bool sized_too_small()
{
    operator delete(opaque(operator new(300)), (size_t)20);
    return unnoticed(300);
}

static bool sized_too_large()
{
    operator delete(opaque(operator new(20)), (size_t)3000);
    return unnoticed(20);
}

/* A derived object of 40 bytes by a base of 32 without a virtual destructor. */
static bool sized_a_little()
{
    operator delete(opaque(operator new(40)), (size_t)32);
    return unnoticed(40);
}

static bool sized_array()
{
    operator delete[](opaque(operator new[](800)), (size_t)80);
    return unnoticed(800);
}

static bool aligned_plain_delete()
{
    operator delete(opaque(operator new(100, std::align_val_t(256))));
    return unnoticed(100);
}

static bool plain_aligned_delete()
{
    operator delete(opaque(operator new(100)), std::align_val_t(256));
    return unnoticed(100);
}

static bool other_alignment()
{
    operator delete(opaque(operator new(100, std::align_val_t(64))), std::align_val_t(4096));
    return unnoticed(100);
}

static bool memalign_delete()
{
    operator delete(opaque(memalign(64, 100)));
    return unnoticed(100);
}

static bool free_sized_wrongly()
{
    void *block = opaque(malloc(100));
    if (free_sized)
        free_sized(block, 1000);
    else
        free(block);
    return unnoticed(100);
}

const misuse cases_of_free[] = {
    {TWICE, "24", twice<24>},
    {TWICE, "100", twice<100>},
    {TWICE, "1000", twice<1000>},
    {TWICE, "5000", twice<5000>},
    {TWICE, "40000", twice<40000>},
    {TWICE, "300000", twice<300000>},
    {TWICE, "3000000", twice<3000000>},
    {TWICE, "another-between-24", twice_another_between<24>},
    {TWICE, "another-between-5000", twice_another_between<5000>},
    {TWICE, "another-between-300000", twice_another_between<300000>},
    {TWICE, "many-between-24", twice_many_between<24>},
    {TWICE, "many-between-1000", twice_many_between<1000>},
    {TWICE, "after-realloc", twice_after_realloc},
    {TWICE, "after-realloc-to-zero", twice_after_realloc_to_zero},
    {TWICE, "aligned", twice_aligned},
    {TWICE, "calloc", twice_zeroed},
    {TWICE, "delete", twice_delete},
    {TWICE, "delete-array", twice_delete_array},
    {TWICE, "free-then-realloc", twice_free_then_realloc},
    {TWICE, "first-by-a-thread", twice_freed_by_thread},
    {TWICE, "both-by-threads", twice_both_by_threads},
    {TWICE, "second-by-a-thread", twice_in_thread_of_ours},
    {TWICE, "after-new-use", twice_after_new_use},
    {TWICE, "in-turn", twice_in_turn},
    {TWICE, "in-child", twice_in_child},
    {INVALID, "inside-1", inside<100, 1>},
    {INVALID, "inside-8", inside<100, 8>},
    {INVALID, "inside-16", inside<100, 16>},
    {INVALID, "inside-middle", inside<1000, 496>},
    {INVALID, "inside-last-byte", inside<1000, 999>},
    {INVALID, "inside-40000", inside<40000, 16384>},
    {INVALID, "inside-mapped", inside<300000, 4096>},
    {INVALID, "inside-mapped-16", inside<300000, 16>},
    {INVALID, "before-16", inside<100, -16>},
    {INVALID, "stack", on_stack},
    {INVALID, "stack-forged", forged_header<false>},
    {INVALID, "heap-forged", forged_header<true>},
    {INVALID, "global", in_globals},
    {INVALID, "text", in_text},
    {INVALID, "constant", in_constants},
    {INVALID, "own-mapping", in_own_mapping},
    {INVALID, "number-8", at_number<8>},
    {INVALID, "number-4096", at_number<4096>},
    {INVALID, "number-all-ones", at_number<UINTPTR_MAX>},
    {INVALID, "non-canonical", at_number<UINT64_C(0x4141414141414140)>},
    {INVALID, "behind-the-end", behind_the_end},
    {INVALID, "free-memory", in_free_memory},
    {INVALID, "start-of-page", start_of_page},
    {INVALID, "before-aligned", before_aligned},
    {INVALID, "array-cookie", array_cookie},
    {INVALID, "realloc-inside", realloc_inside},
    {INVALID, "realloc-stack", realloc_of_stack},
    {MISMATCH, "malloc-delete", malloc_delete},
    {MISMATCH, "malloc-delete-array", malloc_delete_array},
    {MISMATCH, "calloc-delete", calloc_delete},
    {MISMATCH, "strdup-delete", strdup_delete},
    {MISMATCH, "new-free", new_free},
    {MISMATCH, "new-array-free", new_array_free},
    {MISMATCH, "new-delete-array", new_delete_array},
    {MISMATCH, "new-array-delete", new_array_delete},
    {MISMATCH, "new-realloc", new_realloc},
    {MISMATCH, "large-new-free", large_new_free},
    {MISMATCH, "sized-too-small", sized_too_small},
    {MISMATCH, "sized-too-large", sized_too_large},
    {MISMATCH, "sized-a-little", sized_a_little},
    {MISMATCH, "sized-array", sized_array},
    {MISMATCH, "aligned-new-plain-delete", aligned_plain_delete},
    {MISMATCH, "plain-new-aligned-delete", plain_aligned_delete},
    {MISMATCH, "other-alignment", other_alignment},
    {MISMATCH, "memalign-delete", memalign_delete},
    {MISMATCH, "free-sized", free_sized_wrongly},
    {nullptr, nullptr, nullptr},
};
