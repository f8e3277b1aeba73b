/* SPDX-License-Identifier: MIT
 *
 * process.h: what the kernel tells of this process: its threads, its mappings, its pages.
 *
 * Everything is read anew each time, through a descriptor of /proc that was opened before main (a
 * program may change its root, or have a seccomp filter that allows no more opening). Two files
 * stay open once they are, since the kernel refuses them to a process that has changed its user. A
 * process of the superuser opens them before main and after fork, because a server gives up its
 * rights later. The descriptors have high numbers and are checked before each use: the program may
 * have closed every descriptor, and opened its own there since. A thread with a table of
 * descriptors of its own (unshare, CLONE_FILES) has its own files.
 */
#ifndef ALLOTROPE_VM_KERNEL_PROCESS_H
#define ALLOTROPE_VM_KERNEL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "vm/kernel/maps.h"

/* Opens /proc. False where there is none, or it is of another namespace of processes and so names
 * the threads by other numbers than the process does. */
bool process_open(void);
/* In a forked child. False as before. */
bool process_forked(void);

/* In a child that shares its parent's table of descriptors (CLONE_FILES) and nothing else, before
 * anything else here: it gets a table of its own, without what the parent has open, and /proc in
 * it. Files are opened anew, for an inherited one is the parent's memory. False as before. */
bool process_enter_copy(void);
/* Whether a child would be of the caller's own namespace of processes. Another namespace ends with
 * the first child that is made in it. */
bool process_children_stay(void);

/* Whether the process has begun with a filter of system calls (seccomp) that may kill it for an
 * unexpected one. A container's filter, which process 1 has too, does not count. Called before
 * anything else: it makes no calls but those that loading the program made. */
bool process_is_in_sandbox(void);

/* Opens a file of /proc/thread-self, given relative to it, for reading. Negative: cannot. */
int process_open_file(const char *path);
void process_close(int descriptor);

enum process_file { PROCESS_PAGEMAP, PROCESS_MEMORY, PROCESS_FILES };
/* A file that stays open. Negative: cannot. */
int process_file(enum process_file file);
/* Opens them all, before the kernel may refuse it. */
void process_keep_files(void);

/* Calls `each` for every thread that the kernel lists, the caller's own included. False when the
 * list cannot be read, or `each` returned false. */
bool process_each_thread(bool (*each)(void *argument, pid_t thread), void *argument);

/* State ('R' runs, or could) and flags (PF_*) of a thread from its stat file. False: it is gone. */
bool process_thread_state(pid_t thread, char *state, unsigned long *flags);
/* The same of another process. */
bool process_state(pid_t process, char *state, unsigned long *flags);

/* The process that a thread has made last, of those that are still there. 0: none, or the kernel
 * does not tell. */
pid_t process_newest_child(pid_t thread);

/* Whether a thread blocks a signal now. False also when it is gone. */
bool process_thread_blocks(pid_t thread, int signal);
/* Whether a signal was sent to the thread, which blocks it. False also when it is gone. */
bool process_thread_holds_back(pid_t thread, int signal);

/* Kilobytes of pages that devices may write, and that a fork therefore copies at once (VmPin: RDMA,
 * io_uring's buffers). UINT64_MAX: the kernel does not tell. */
uint64_t process_pinned_kilobytes(void);

/* For every open descriptor that is a link to `target`, calls `each` with the path of its
 * description ("fdinfo/3", for process_open_file). False when they cannot be listed, or `each`
 * returned false. */
bool process_each_descriptor(const char *target, bool (*each)(void *argument, const char *path),
                             void *argument);

/* How many of the processors that the process may use have nothing to run. */
unsigned process_idle_processors(void);

/* All mappings, in order of address, in the collector's own memory until the next call. False:
 * they cannot be read. The world is stopped, so they stay true. */
bool process_read_mappings(const struct mapping **mappings, size_t *count);

/* Notes which of the mappings that were read last have no page, neither in memory nor in swap. To
 * find out costs as much as the process has pages, and nothing for a reservation. What cannot be
 * read is not noted. buffer: MAPS_LINE_BYTES at least. */
void process_note_empty(char *buffer, size_t bytes);

/* The mappings that were read last. */
const struct mapping *process_last_mappings(size_t *count);

/* The first of those mappings that ends above `address`. There must be one. */
const struct mapping *process_mapping_at(uintptr_t address);

/* Whether the heap's memory is still there as the heap has made it: readable, and neither a file's,
 * which may be cut short, nor shared. */
bool process_may_be_touched(const struct mapping *mapping);
#endif
