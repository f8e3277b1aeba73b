/* SPDX-License-Identifier: MIT
 *
 * impossible_sizes.c: sizes and alignments that overflow.
 *
 * Above PTRDIFF_MAX the answer is NULL and ENOMEM, at every entry, and the old block of a failed
 * realloc stays. A size that wraps around to a small one is a hole to write through.
 * Seen: mimalloc 121, snmalloc PR 752.
 */
#include "tests/contract/contract.h"

/* Results go through here so that errno is looked at before anything else happens. */
static bool is_refused(void *result)
{
    bool refused = result == NULL && errno == ENOMEM;
    errno = 0;
    return refused;
}

static void require_sizes_refused(size_t size)
{
    void *unchanged = &errno;
    errno = 0;
    require(is_refused(malloc(size)));
    require(is_refused(calloc(1, size)));
    require(is_refused(calloc(size, 1)));
    require(is_refused(realloc(NULL, size)));
    require(is_refused(memalign(64, size)));
    require(is_refused(memalign(1 << 20, size)));
    require(is_refused(aligned_alloc(16, size)));
    require(is_refused(aligned_alloc(4096, size)));
    require(is_refused(valloc(size)));
    require(is_refused(pvalloc(size)));
    void *target = unchanged;
    require(posix_memalign(&target, 4096, size) == ENOMEM && target == unchanged);
    require(posix_memalign(&target, 16, size) == ENOMEM && target == unchanged);
    errno = 0;

    static const size_t kept_sizes[] = {10, 3000, 70000, 5000000};
    for (size_t i = 0; i < sizeof kept_sizes / sizeof *kept_sizes; i++) {
        void *kept = malloc(kept_sizes[i]);
        require(kept != NULL);
        fill(kept, kept_sizes[i]);
        errno = 0;
        require(is_refused(realloc(kept, size)));
        require(is_refused(reallocarray(kept, size, 1)));
        require(is_filled(kept, kept_sizes[i]));
        free(kept);
    }
}

int main(void)
{
    const size_t limit = PTRDIFF_MAX;
    for (size_t step = 0; step < 70000; step = step * 2 + 1) {
        require_sizes_refused(SIZE_MAX - step);
        require_sizes_refused(limit + 1 + step);
        require_sizes_refused(limit - step); /* possible by itself, but not on this machine */
    }
    require_sizes_refused((size_t)1 << 62);
    require_sizes_refused((size_t)1 << 48);

    static const size_t factors[] = {(size_t)1 << 32, ((size_t)1 << 32) + 1, (size_t)1 << 63,
                                     SIZE_MAX / 2 + 2, SIZE_MAX / 3 + 1};
    require(is_refused(calloc(SIZE_MAX / 3 + 1, 3))); /* wraps around to 2 */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        errno = 0;
        require(is_refused(calloc(factors[i], factors[i])));
        require(is_refused(reallocarray(NULL, factors[i], factors[i])));
    }

    for (size_t alignment = (size_t)1 << 47; alignment != 0; alignment <<= 1) {
        errno = 0;
        require(is_refused(memalign(alignment, 1)) || errno == EINVAL);
        errno = 0;
        require(is_refused(aligned_alloc(alignment, 100)) || errno == EINVAL);
        void *target = &errno;
        int error = posix_memalign(&target, alignment, 1);
        require((error == ENOMEM || error == EINVAL) && target == &errno);
    }
    return 0;
}
