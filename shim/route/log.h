/* SPDX-License-Identifier: MIT
 *
 * log.h: the file that the library's lines about a program go to, instead of standard error.
 *
 * A server redirects its standard error, or closes it, and then nobody reads what the library says
 * there. ALLOTROPE_LOG=FILE names a file for it. "%p" in the name is the process id. "" or "-" is
 * the standard error of the start, kept in a second descriptor.
 *
 *   start             the file is opened, and kept under a high number: it survives a chroot, a
 *                     change of user and a fork
 *   exec              closes it; the new program opens it again
 *   the program has   the name is opened for each line, and closed after it. What the program has
 *   closed it         put under the number is never written to
 *   a child, %p       the same, under its own number; where that fails, its parent's file
 *   a sandbox         nothing is opened any more; what is kept is used
 *   nothing of these  standard error, as without a log
 *
 * A line is appended by one write, so processes may share a file. Nothing is changed after the
 * start: threads, signal handlers and children of vfork need no lock.
 */
#ifndef ALLOTROPE_SHIM_ROUTE_LOG_H
#define ALLOTROPE_SHIM_ROUTE_LOG_H

/* Opens the log that the environment names, if it names one. Once, before there is a second
 * thread. A file that cannot be opened is told in one line on standard error, and lines go there
 * then. A name that is too long ends the process. */
void log_start(void);

#endif
