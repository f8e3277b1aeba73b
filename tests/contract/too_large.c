/* SPDX-License-Identifier: MIT
 *
 * too_large.c: every size that cannot be had, from SIZE_MAX down, at every entry.
 *
 * All 64-bit sizes by steps of 2^50 with odd lower bits, and each of the last ones before SIZE_MAX
 * and PTRDIFF_MAX; between them small blocks come and go, so that the heap is used while it refuses.
 * calloc and reallocarray get each size as products too. glibc and jemalloc test the same.
 */
#include "tests/contract/contract.h"

static uint64_t random_state = 11;

/* Results go through here so that errno is looked at before anything else happens. */
static bool is_refused(void *result)
{
    bool refused = result == NULL && errno == ENOMEM;
    errno = 0;
    return refused;
}

static void use_the_heap(void)
{
    size_t size = 1 + random_next(&random_state) % 600;
    void *block = malloc(size);
    require(block != NULL);
    fill(block, size);
    require(is_filled(block, size));
    free(block);
    errno = 0;
}

static void require_products_refused(size_t size)
{
    for (size_t count = 1; count <= 8 && size % count == 0; count *= 2) {
        use_the_heap();
        require(is_refused(calloc(count, size / count)));
        require(is_refused(calloc(size / count, count)));
        require(is_refused(reallocarray(NULL, count, size / count)));
        require(is_refused(reallocarray(NULL, size / count, count)));
    }
}

static void require_aligned_refused(size_t size)
{
    for (size_t alignment = 1; alignment <= 65536; alignment *= 4) {
        void *target = &errno;
        require(is_refused(memalign(alignment, size)));
        require(is_refused(aligned_alloc(alignment, size)));
        if (alignment >= sizeof(void *))
            require(posix_memalign(&target, alignment, size) == ENOMEM && target == &errno);
        errno = 0;
    }
    require(is_refused(valloc(size)));
    require(is_refused(pvalloc(size)));
}

static void require_refused(size_t size)
{
    use_the_heap();
    require(is_refused(malloc(size)));
    size_t kept_bytes = 1 + random_next(&random_state) % 9000;
    void *kept = malloc(kept_bytes);
    require(kept != NULL);
    fill(kept, kept_bytes);
    errno = 0;
    require(is_refused(realloc(kept, size)));
    require(is_refused(reallocarray(kept, size, 1)));
    require(is_filled(kept, kept_bytes));
    free(kept);
    require_products_refused(size);
    require_aligned_refused(size);
}

int main(void)
{
    for (size_t i = 0; i < 600; i++) {
        require_refused(SIZE_MAX - i);
        require_refused((size_t)PTRDIFF_MAX - i);
        require_refused((size_t)PTRDIFF_MAX + 1 + i);
    }
    for (size_t high = (1 << 14) - 1; high > 0; high -= high > 64 ? 61 : 1) {
        require_refused(high << 50);
        require_refused((high << 50) + random_next(&random_state));
        require_refused((high << 50) - 16 * (random_next(&random_state) % 65536));
    }
    return 0;
}
