/* SPDX-License-Identifier: MIT
 *
 * record_options.h: what allotrope-trace-record is told.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_RECORD_OPTIONS_H
#define ALLOTROPE_TRACE_REFERENCES_RECORD_OPTIONS_H

#include <stdbool.h>

enum { EXIT_FAILED = 125, MOST_SETTINGS = 256 };

struct record_options {
    const char *output;
    const char *tools;
    const char *description;
    int level;
    bool progress;
    int ring_fd, socket_fd; /* of a recorder that follows; -1: none */
    const char *pid;        /* of its process */
    char *environment[MOST_SETTINGS + 1];
    char *valgrind[MOST_SETTINGS + 1];
    char **command;
};

/* Ends the program, having said why, where they make no sense. */
struct record_options record_options_parse(int argc, char **argv);

#endif
