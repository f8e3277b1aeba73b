/* SPDX-License-Identifier: MIT
 *
 * message.c: see message.h.
 */
#include "vm/message.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vm/syscall.h"

enum { REPORTED_FAULTS = 16 };
static _Atomic uint64_t faults;

static struct {
    dev_t device;
    ino_t inode;
    bool known;
} standard_error;

void message_bytes(struct message *message, const char *text, size_t length)
{
    size_t room = MESSAGE_BYTES - 1 - message->length; /* one byte is kept for the newline */
    if (length > room)
        length = room;
    memcpy(message->text + message->length, text, length);
    message->length += length;
}

void message_quoted(struct message *message, const char *text, size_t length)
{
    static const char hex[] = "0123456789abcdef";
    message_bytes(message, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        char escape[] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};
        if (byte < 0x20 || byte >= 0x7F)
            message_bytes(message, escape, sizeof escape);
        else
            message_bytes(message, text + i, 1);
    }
    message_bytes(message, "\"", 1);
}

void message_text(struct message *message, const char *text)
{
    message_bytes(message, text, strlen(text));
}

void message_begin(struct message *message)
{
    message->length = 0;
    message_text(message, "allotrope: ");
}

static void message_number(struct message *message, uint64_t number, unsigned base)
{
    char digits[20];
    size_t length = 0;
    do {
        digits[sizeof digits - ++length] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    message_bytes(message, digits + sizeof digits - length, length);
}

void message_decimal(struct message *message, uint64_t number)
{
    message_number(message, number, 10);
}

void message_pointer(struct message *message, const void *pointer)
{
    message_text(message, "0x");
    message_number(message, (uintptr_t)pointer, 16);
}

static bool stat_standard_error(struct stat *status)
{
    return !syscall_failed(SYSCALL_2(SYS_fstat, 2, status));
}

void message_remember_stderr(void)
{
    struct stat status;
    standard_error.known = stat_standard_error(&status);
    if (standard_error.known) {
        standard_error.device = status.st_dev;
        standard_error.inode = status.st_ino;
    }
}

bool standard_error_is_ours(void)
{
    struct stat status;
    return standard_error.known && stat_standard_error(&status) &&
           status.st_dev == standard_error.device && status.st_ino == standard_error.inode;
}

void message_send(struct message *message)
{
    message->text[message->length++] = '\n';
    if (standard_error_is_ours())
        SYSCALL_3(SYS_write, 2, message->text, message->length);
}

static void send_pointer_fault(const char *function, const void *pointer, const char *fault)
{
    struct message message;
    message_begin(&message);
    message_text(&message, function);
    message_text(&message, "(");
    message_pointer(&message, pointer);
    message_text(&message, "): ");
    message_text(&message, fault);
    message_send(&message);
}

void report_pointer_fault(const char *function, const void *pointer, const char *fault)
{
    uint64_t earlier = atomic_fetch_add_explicit(&faults, 1, memory_order_relaxed);
    if (earlier < REPORTED_FAULTS)
        send_pointer_fault(function, pointer, fault);
    else if (earlier == REPORTED_FAULTS)
        send_pointer_fault(function, pointer, "and so on; from here such faults are only counted");
}

uint64_t pointer_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_relaxed);
}

void abort_on_pointer_fault(const char *function, const void *pointer, const char *fault)
{
    send_pointer_fault(function, pointer, fault);
    abort();
}

void check_failed(const char *condition, const char *file, int line)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "heap is corrupt: check failed: ");
    message_text(&message, condition);
    message_text(&message, " (");
    message_text(&message, file);
    message_text(&message, ":");
    message_decimal(&message, (uint64_t)line);
    message_text(&message, ")");
    message_send(&message);
    abort();
}
