/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * options.h: what the recorder is told on its command line.
 */
#ifndef ALLOTROPE_TRACE_RECORDER_OPTIONS_H
#define ALLOTROPE_TRACE_RECORDER_OPTIONS_H

#include "pub_tool_basics.h"

struct recorder_options {
    Int ring_fd;   /* -1: none */
    Int socket_fd; /* -1: none */
    Bool native_layout;
    const HChar *follow; /* the consumer's program; NULL: forks are not followed */
    const HChar *follow_output;
    const HChar *follow_description;
    Int follow_level;
};

extern struct recorder_options options;

void options_register(void);

#endif
