/* SPDX-License-Identifier: MIT
 *
 * corners.c: what the standards and glibc say of rare arguments.
 *
 * Products of zero, realloc and reallocarray of nothing and to nothing, alignments that are no
 * powers of two, the functions of C23 that old headers lack, and errno after success.
 */
#include <dlfcn.h>

#include "tests/contract/contract.h"

static void require_products_of_zero(void)
{
    static const size_t factors[][2] = {{0, 0}, {0, 1}, {1, 0}, {0, SIZE_MAX}, {SIZE_MAX, 0}};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        void *a = calloc(factors[i][0], factors[i][1]), *b = calloc(factors[i][0], factors[i][1]);
        require(a && b && a != b);
        free(a);
        free(b);
        a = reallocarray(NULL, factors[i][0], factors[i][1]);
        require(a != NULL);
        require(reallocarray(a, factors[i][0], factors[i][1]) == NULL); /* it is freed */
    }
}

static void require_reallocs(void)
{
    for (int i = 0; i < 100000; i++) {
        void *block = realloc(NULL, (size_t)i % 3000);
        require(block != NULL);
        require(realloc(block, 0) == NULL);
    }
    char *block = reallocarray(NULL, 10, 10);
    require(block != NULL);
    memset(block, 7, 100);
    errno = 0;
    require(reallocarray(block, SIZE_MAX / 2, 3) == NULL && errno == ENOMEM);
    block = reallocarray(block, 100, 100);
    require(block && block[0] == 7 && block[99] == 7);
    block = reallocarray(block, 5, 1);
    require(block && block[4] == 7);
    free(block);
}

/* Freed by their sizes; the names are C23's, and older than most libraries. */
static void require_sized_frees(void)
{
    void (*sized)(void *, size_t) = NULL;
    void (*aligned)(void *, size_t, size_t) = NULL;
    *(void **)&sized = dlsym(RTLD_DEFAULT, "free_sized");
    *(void **)&aligned = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    for (size_t size = 0; sized && aligned && size < 2000000; size = size * 3 + 1) {
        sized(malloc(size), size);
        sized(calloc(size, 1), size);
        aligned(aligned_alloc(64, size), 64, size);
        aligned(aligned_alloc(8192, size), 8192, size);
        sized(NULL, size);
        aligned(NULL, 64, size);
    }
}

/* Success leaves it, as far as the kernel was not asked in vain; free always does. What is refused
 * for want of memory sets it, by posix_memalign of glibc too. */
static void require_errno_kept(void)
{
    void *block = NULL;
    errno = 77;
    require(posix_memalign(&block, 64, 100) == 0 && errno == 77);
    require(posix_memalign(&block, 3, 100) == EINVAL && errno == 77);
    require(posix_memalign(&(void *){NULL}, 64, SIZE_MAX) == ENOMEM && errno == ENOMEM);
    errno = 77;
    free(block);
    require(errno == 77);
    free(malloc(3000000));
    require(errno == 77);
    free(NULL);
    require(malloc_usable_size(NULL) == 0 && errno == 77);
}

static void require_odd_alignments(void)
{
    static const size_t odd[] = {0, 1, 3, 5, 17, 100, 1000, 4097, 70000};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        void *block = memalign(odd[i], 1000);
        require(block && (uintptr_t)block % 16 == 0);
        fill(block, 1000);
        require(is_filled(block, 1000));
        block = realloc(block, 5000);
        require(block != NULL);
        free(block);
        void *target = &block;
        require(posix_memalign(&target, odd[i], 1000) == EINVAL && target == &block);
    }
    require(memalign(SIZE_MAX, 10) == NULL && errno == EINVAL);
    require(memalign(SIZE_MAX / 2 + 2, 10) == NULL && errno == EINVAL);
}

/* Alignments of up to 32 MiB, with several blocks at once. */
static void require_large_alignments(void)
{
    for (size_t alignment = 4096; alignment <= (size_t)32 << 20; alignment *= 2)
        for (size_t size = 1; size <= 2 * alignment; size = size * 7 + alignment / 3) {
            char *blocks[3];
            for (int i = 0; i < 3; i++) {
                blocks[i] = memalign(alignment, size);
                require(blocks[i] && (uintptr_t)blocks[i] % alignment == 0);
                blocks[i][0] = blocks[i][size - 1] = (char)i;
            }
            for (int i = 0; i < 3; i++) {
                require(blocks[i][0] == i && blocks[i][size - 1] == i);
                free(blocks[i]);
            }
        }
}

int main(void)
{
    require_products_of_zero();
    require_reallocs();
    require_sized_frees();
    require_errno_kept();
    require_odd_alignments();
    require_large_alignments();
    return 0;
}
