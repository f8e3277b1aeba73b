/* SPDX-License-Identifier: MIT
 *
 * aligned.c: the aligned family, with glibc's answers.
 *
 * posix_memalign refuses what is not a power of two times the size of a pointer and leaves its
 * target alone; aligned_alloc and memalign of glibc 2.36 take any alignment (the next power of
 * two), and any size. From 2.38 on aligned_alloc refuses what is no power of two. Aligned blocks
 * are freed, resized and zeroed like others.
 *
 * An argument is the version that a replacement is to take glibc for.
 */
#include "tests/contract/contract.h"

static bool is_aligned_to(const void *block, size_t alignment)
{
    return block && (uintptr_t)block % alignment == 0;
}

static char version[20];

/* In place of glibc's. */
const char *gnu_get_libc_version(void)
{
    return version;
}

static bool is_to_refuse(size_t alignment)
{
    bool is_power = alignment > 0 && (alignment & (alignment - 1)) == 0;
    return !is_power && strverscmp(version, "2.38") >= 0;
}

static void require_family_aligns(size_t alignment, size_t size)
{
    void *a = aligned_alloc(alignment, size), *b = memalign(alignment, size), *c = NULL;
    require(posix_memalign(&c, alignment, size) == 0);
    void *all[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        require(is_aligned_to(all[i], alignment));
        require(malloc_usable_size(all[i]) >= size);
        fill(all[i], size);
    }
    for (int i = 0; i < 3; i++)
        require(is_filled(all[i], size));
    free(a);
    int pattern = size > 0 ? *(unsigned char *)b : 0;
    unsigned char *grown = realloc(b, size * 2 + 100);
    require(grown != NULL);
    require(is_all(grown, pattern, size));
    free(grown);
    unsigned char *shrunk = realloc(c, size / 2 + 1);
    require(shrunk != NULL);
    free(shrunk);
}

int main(int count, char **arguments)
{
    require(confstr(_CS_GNU_LIBC_VERSION, version, sizeof version) > 0);
    memmove(version, version + strlen("glibc "), strlen(version + strlen("glibc ")) + 1);
    if (count == 2)
        snprintf(version, sizeof version, "%s", arguments[1]);
    for (size_t alignment = 8; alignment <= (size_t)1 << 23; alignment *= 2)
        for (size_t size = 0; size < 3000000; size = size * 4 + 1)
            require_family_aligns(alignment, size);
    require_family_aligns((size_t)1 << 28, 100);
    require_family_aligns((size_t)1 << 29, 100);

    static const size_t invalid[] = {0, 1, 2, 4, 7, 12, 24, 48, 100, 4095, 4097, SIZE_MAX};
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        void *target = &errno;
        errno = 0;
        require(posix_memalign(&target, invalid[i], 100) == EINVAL);
        require(target == &errno && errno == 0);
    }
    static const size_t rounded[][2] = {{0, 16},  {1, 16},    {3, 16},     {24, 32},
                                        {48, 64}, {100, 128}, {4097, 8192}};
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++) {
        void *a = memalign(rounded[i][0], 100), *b = aligned_alloc(rounded[i][0], 100);
        require(is_aligned_to(a, rounded[i][1]));
        require(is_to_refuse(rounded[i][0]) ? !b && errno == EINVAL
                                            : is_aligned_to(b, rounded[i][1]));
        free(a);
        free(b);
    }
    static const size_t page = 4096;
    void *a = valloc(100), *b = pvalloc(100), *c = pvalloc(page + 1), *d = pvalloc(0);
    require(is_aligned_to(a, page) && is_aligned_to(b, page) && is_aligned_to(c, page));
    require(is_aligned_to(d, page));
    require(malloc_usable_size(b) >= page && malloc_usable_size(c) >= 2 * page);
    free(a);
    free(b);
    free(c);
    free(d);

    /* Many at once: alignment must not come from luck. */
    enum { BLOCKS = 3000 };
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = memalign(256, 40);
        require(is_aligned_to(blocks[i], 256));
        fill(blocks[i], 40);
    }
    for (int i = 0; i < BLOCKS; i++) {
        require(is_filled(blocks[i], 40));
        free(blocks[i]);
    }
    return 0;
}
