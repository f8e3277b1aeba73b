/* SPDX-License-Identifier: MIT
 *
 * said_lines.h: what the library says, kept for a test instead of written (vm/message.h).
 */
#ifndef ALLOTROPE_TESTS_UNIT_SAID_LINES_H
#define ALLOTROPE_TESTS_UNIT_SAID_LINES_H

#include <string.h>

#include "tests/unit/unit.h"
#include "vm/message.h"

enum { MOST_SAID = 128 };

static struct {
    size_t count; /* messages; also those that there is no room for */
    char lines[MOST_SAID][MESSAGE_BYTES + 1];
} said;

static bool keep_what_is_said(const char *text, size_t length)
{
    if (said.count < MOST_SAID) {
        memcpy(said.lines[said.count], text, length);
        said.lines[said.count][length] = '\0';
    }
    said.count++;
    return true;
}

/* From here on. What was kept before is forgotten. */
static inline void hear_lines(void)
{
    said.count = 0;
    message_log = keep_what_is_said;
}

#endif
