/* SPDX-License-Identifier: MIT
 *
 * asked_roots.h: what the program has asked a collector to take for roots, by allotrope/gc.h.
 *
 * Two kinds: ranges of memory, in which each word may be a pointer; and pins, single addresses that
 * the program may keep nowhere else. Both are counted: what was added twice is to be taken back
 * twice. They are kept whatever the allocator is, so a program meets the same answers everywhere.
 *
 * Who writes: any thread, under the lock. While a process forks, a change waits for the end of the
 * fork, but its caller does not (vm/freeze.h). Every function returns 0 then, since nobody has
 * looked, or ENOMEM: there is no memory to note the change, and it is not made. A collector takes
 * the lock before it stops the world, so no stopped thread is in the middle of a change.
 *
 * The functions return 0 or a number of errno.
 */
#ifndef ALLOTROPE_VM_ASKED_ROOTS_H
#define ALLOTROPE_VM_ASKED_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Once, before there is a second thread. */
void asked_roots_init(void);

/* ENOMEM. The range need not be readable, nor stay so. */
int asked_roots_add(uintptr_t start, size_t bytes);
/* ENOENT, but not during a fork: it was not added, or not with so many bytes. */
int asked_roots_remove(uintptr_t start, size_t bytes);

/* address: not 0. ENOMEM. */
int asked_roots_pin(uintptr_t address);
/* ENOENT, but not during a fork: it is not pinned. */
int asked_roots_unpin(uintptr_t address);

/* For a collector: before the world is stopped, and when it runs again. */
void asked_roots_lock(void);
bool asked_roots_try(void); /* False: another thread holds it. */
void asked_roots_unlock(void);

/* Called between asked_roots_lock and asked_roots_unlock. words: is called with memory that holds
 * the pins, and between them numbers that are no addresses. range: is called for each range as it
 * was added. False: something that was asked for is missing. It was asked for during a fork, whose
 * end found no memory for it, though its caller had been told that it is done. */
bool asked_roots_each(void (*words)(const void *start, const void *end),
                      void (*range)(uintptr_t start, uintptr_t end));

#endif
