/* SPDX-License-Identifier: MIT
 *
 * write.h: writes to a descriptor that the program may share, without a signal to the program.
 *
 * A pipe that nobody reads raises SIGPIPE, and a file that may not grow SIGXFSZ. Either ends the
 * process. A program that does not write there itself has done nothing to deserve it, so neither
 * signal is delivered: the result alone tells of the failure.
 */
#ifndef ALLOTROPE_VM_WRITE_H
#define ALLOTROPE_VM_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* How long to wait for room in a pipe or terminal that is in non-blocking mode. Other programs that
 * share it may have set that mode. */
enum { WRITE_WAITS_FOR_EVER = -1 }; /* milliseconds otherwise */

/* Writes all of it, by as many calls as that takes. False: not all could be written. Any thread,
 * signal handlers too; no allocation, no lock; errno stays. In a sandbox (pages_enter_sandbox) it
 * makes no call but write, so the signals are delivered there and it does not wait. */
bool write_whole(int descriptor, const char *text, size_t bytes, int wait_ms);

#endif
