/* SPDX-License-Identifier: MIT
 *
 * message.h: one clear line to the user, from inside an allocator.
 *
 * Built on the stack and written with a single system call, so it needs no heap, no lock and no
 * stdio. Lines begin with "allotrope: ". They go to the log, where there is one (shim/route/log.h).
 * Standard error is written to only while it is still the file that it was at the start: a daemon
 * may have reused the descriptor for its own data.
 */
#ifndef ALLOTROPE_VM_MESSAGE_H
#define ALLOTROPE_VM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MESSAGE_BYTES = 512 };

struct message {
    size_t length;
    char text[MESSAGE_BYTES];
};

/* Begins a line. Text beyond MESSAGE_BYTES is cut. */
void message_begin(struct message *message);
void message_text(struct message *message, const char *text);
void message_bytes(struct message *message, const char *text, size_t length);
/* In quotes, for what comes from outside: bytes that a terminal may obey become \xNN. */
void message_quoted(struct message *message, const char *text, size_t length);
void message_decimal(struct message *message, uint64_t number);
void message_pointer(struct message *message, const void *pointer);
/* Ends the line and writes it to the log or, without one, to standard error, if that is still
 * ours. */
void message_send(struct message *message);

/* Writes lines of any length, as message_send does. */
void message_write(const char *text, size_t length);

/* The log: takes lines in place of standard error. NULL, as at first: there is none. False: the
 * lines could not be written, and go to standard error. Called by any thread and by signal
 * handlers: it neither allocates nor waits for a lock. Set before there is a second thread. */
extern bool (*message_log)(const char *text, size_t length);

/* Remembers which file standard error is. Called once, at start. */
void message_remember_stderr(void);

/* Duplicates standard error, for lines that come after the program has closed its own descriptor,
 * as ls does. Called at start, and only if such lines may come. */
void message_keep_stderr(void);

/* Descriptor 2, if it is still the file that it was at the start. Otherwise its duplicate, if that
 * is. Otherwise -1. */
int standard_error_descriptor(void);

/* Writes "allotrope: FUNCTION(POINTER): FAULT". After some such lines the rest are only counted,
 * and a last line says so. */
void report_pointer_fault(const char *function, const void *pointer, const char *fault);
/* How many faults were reported or counted. */
uint64_t pointer_faults(void);

/* Writes the line that report_pointer_fault() writes, but always and without counting it. Then
 * calls abort(): memory is already corrupt. */
_Noreturn void abort_on_pointer_fault(const char *function, const void *pointer, const char *fault);

/* A constant-cost check on what comes from outside or what corruption would reach; always on. */
#define check(condition) ((condition) ? (void)0 : check_failed(#condition, __FILE_NAME__, __LINE__))
_Noreturn void check_failed(const char *condition, const char *file, int line);

#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif

#endif
