/* SPDX-License-Identifier: MIT
 *
 * output.c: see output.h.
 */
#include "shim/reports/output.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "shim/configuration/environment.h"
#include "vm/number.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/syscall.h"

char output_passed_to[OUTPUT_PASSED_TO_BYTES];

/* False when the name grows too long. */
static bool expand_name(const char *pattern, char *name)
{
    size_t length = 0;
    while (*pattern && length + 1 < OUTPUT_NAME_BYTES) {
        if (pattern[0] != '%' || pattern[1] != 'p') {
            name[length++] = *pattern++;
            continue;
        }
        char digits[DECIMAL_BYTES];
        size_t count = write_decimal(digits, (uint64_t)SYSCALL_0(SYS_getpid));
        for (size_t i = 0; i < count && length + 1 < OUTPUT_NAME_BYTES; i++)
            name[length++] = digits[i];
        pattern += 2;
    }
    name[length] = '\0';
    return *pattern == '\0';
}

static bool ends_in_json(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcmp(name + length - 5, ".json") == 0;
}

/* opened: it could be created, and then took no more. */
static void report_unwritable(const char *name, const char *variable, bool opened)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "cannot write to ");
    message_quoted(&message, name, strlen(name));
    message_text(&message, opened ? ": the disk is full, or the file may not grow; " : "; ");
    message_text(&message, variable);
    message_text(&message,
                 opened ? " names a file with room for it" : " names a file that can be created");
    if (opened && pages_are_in_sandbox())
        message_text(&message, "; half a report is left there");
    message_send(&message);
}

/* Half a report misleads its reader. Only a regular file can be cut to nothing; devices and pipes
 * stay. A sandbox that lets files be written may still end the process for either call. */
static void remove_half(long file, const char *name)
{
    if (!syscall_failed(file) && !pages_are_in_sandbox() &&
        !syscall_failed(SYSCALL_2(SYS_ftruncate, file, 0)))
        SYSCALL_1(SYS_unlink, name);
}

bool output_is_standard_error(const char *pattern)
{
    return !*pattern || strcmp(pattern, "-") == 0;
}

void output_write(const char *pattern, const char *variable, bool write(int file, bool json))
{
    if (output_is_standard_error(pattern)) {
        int standard_error = standard_error_descriptor();
        if (standard_error >= 0)
            write(standard_error, false);
        return;
    }
    char name[OUTPUT_NAME_BYTES];
    long file = -1;
    if (expand_name(pattern, name))
        file =
            SYSCALL_4(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (syscall_failed(file) || !write((int)file, ends_in_json(name))) {
        report_unwritable(name, variable, !syscall_failed(file));
        remove_half(file, name);
    }
    if (!syscall_failed(file))
        SYSCALL_1(SYS_close, file);
}

void output_begin(struct emitter *emitter, int file, bool json, const char *schema,
                  const struct configuration *configuration)
{
    emitter_begin(emitter, file, json);
    emit_begin_object(emitter, NULL);
    emit_string(emitter, "schema", schema);
    emit_number(emitter, "pid", (uint64_t)SYSCALL_0(SYS_getpid));
    emit_string(emitter, "command", environment_program());
    emit_string(emitter, "allocator",
                *output_passed_to ? output_passed_to : configuration->allocator->name);
    emit_string(emitter, "preset", configuration->allocator->preset);
}

bool output_end(struct emitter *emitter)
{
    emit_end_object(emitter);
    return emitter_end(emitter);
}
