/* SPDX-License-Identifier: MIT
 *
 * output.c: see output.h.
 */
#include "shim/output.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "vm/message.h"
#include "vm/syscall.h"

/* False when the name grows too long. */
static bool expand_name(const char *pattern, char *name)
{
    size_t length = 0;
    while (*pattern && length + 1 < OUTPUT_NAME_BYTES) {
        if (pattern[0] != '%' || pattern[1] != 'p') {
            name[length++] = *pattern++;
            continue;
        }
        char digits[20];
        size_t count = 0;
        for (unsigned long pid = (unsigned long)SYSCALL_0(SYS_getpid); pid > 0; pid /= 10)
            digits[count++] = (char)('0' + pid % 10);
        while (count > 0 && length + 1 < OUTPUT_NAME_BYTES)
            name[length++] = digits[--count];
        pattern += 2;
    }
    name[length] = '\0';
    return *pattern == '\0';
}

int output_open(const char *pattern, char name[OUTPUT_NAME_BYTES])
{
    if (!expand_name(pattern, name))
        return -1;
    long file =
        SYSCALL_4(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return syscall_failed(file) ? -1 : (int)file;
}

bool output_is_json(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcmp(name + length - 5, ".json") == 0;
}

void output_close(int file, const char *name, bool written, const char *variable)
{
    if (file >= 0)
        SYSCALL_1(SYS_close, file);
    if (written)
        return;
    struct message message;
    message_begin(&message);
    message_text(&message, "cannot write to \"");
    message_text(&message, name);
    message_text(&message, "\"; ");
    message_text(&message, variable);
    message_text(&message, " names a file that can be created");
    message_send(&message);
}
