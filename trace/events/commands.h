/* SPDX-License-Identifier: MIT
 *
 * commands.h: the words of allotrope-events that read a recording or a trace.
 *
 * Each returns the status to exit with, having said what is wrong.
 */
#ifndef ALLOTROPE_TRACE_EVENTS_COMMANDS_H
#define ALLOTROPE_TRACE_EVENTS_COMMANDS_H

#include <stddef.h>

#include "trace/events/allocations.h"

enum { EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

/* JSON, a struct for each object and for each resize, the objects' stacks. */
int command_lives(const char *path);
/* For the replay's player (operations.h). */
int command_operations(const char *path, const char *output);

/* Ends the program with one line about what is wrong. */
void refuse(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));

struct allocations *open_file(const char *path);
/* Says so if the file is damaged, and returns the status to exit with. */
int close_file(struct allocations *all, const char *path);
/* An array with room for `count` elements; ends the program when memory is short. */
void *grown(void *array, size_t count, size_t size);

/* One line of JSON: what the file holds. After the last allocation has been read. */
void print_facts(struct allocations *all);

#endif
