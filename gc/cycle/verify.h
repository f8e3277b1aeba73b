/* SPDX-License-Identifier: MIT
 *
 * verify.h: the verifier of minor collections and of cycles, for tests. (`allotrope verify-gc` is
 * another thing: analysis/allotrope/features/hidden.)
 *
 * After a minor collection or a cycle has marked, and before it sweeps, a full one marks the same
 * stopped world. A block that only the full marking reaches is a loss: the other would have freed
 * it. One line reports it, and the process aborts.
 *
 * For a cycle a block is no loss if only blocks that were born during the cycle name it, by words
 * on pages that were not written since: the owners of these blocks did not write the words. Any
 * other block is a loss. For minor collections:
 *
 *     a page that is clean, by the kernel,     has the contents that it had when it was cleaned:
 *     and has old blocks                       a sum over them is kept         [clean is proven]
 *     a block that only the full marking       is a loss, unless all that names it are words on
 *     has reached                              such pages: the program has not written them since
 *                                              before the block was born       (generations.h)
 *
 * Everything here belongs to the thread that has stopped the world. Without
 * verify_init() the calls about clean pages do nothing, and the others must not be made.
 */
#ifndef ALLOTROPE_GC_CYCLE_VERIFY_H
#define ALLOTROPE_GC_CYCLE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

void verify_init(void);
bool verify_is_on(void);

/* The pages have been cleaned. */
void verify_cleaned(uintptr_t start, uintptr_t end);

/* In a minor collection, after the roots: checks that no clean page has changed. */
void verify_clean_pages(void);

/* The minor marking is done, or that of a cycle: its marks are kept, and may be cleared. */
void verify_keep_marks(bool minor);

/* The full marking is done. The marks are those of the minor one again. */
void verify_marks(void);

/* The marks of a cycle that marks in a snapshot have been taken over. Checks that no mark is
 * missing which a full marking of the same stopped world has made. The marks of that marking were
 * kept. */
void verify_snapshot_marks(void);

/* collections, cycles: the minor collections and cycles that were found to be right. stale: those
 * of them that freed a block which only stale words named, written before the block, or the owner
 * of the word, was born. */
struct verify_counts {
    uint64_t collections, cycles, stale;
};
struct verify_counts verify_counts(void);

#endif
