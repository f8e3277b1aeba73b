/* SPDX-License-Identifier: MIT
 *
 * message.c: see message.h.
 */
#include "vm/message.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vm/number.h"
#include "vm/syscall.h"
#include "vm/write.h"
#include "vm/written.h"

enum { REPORTED_FAULTS = 16 };
static _Atomic uint64_t faults;

static struct {
    dev_t device;
    ino_t inode;
    bool known;
    int duplicate; /* 0: none */
} standard_error WRITTEN_AT_START;

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
    char digits[DECIMAL_BYTES];
    size_t length = write_number(digits, number, base, 1);
    message_bytes(message, digits, length);
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

void message_remember_stderr(void)
{
    struct stat status;
    standard_error.known = !syscall_failed(SYSCALL_2(SYS_fstat, 2, &status));
    if (standard_error.known) {
        standard_error.device = status.st_dev;
        standard_error.inode = status.st_ino;
    }
}

static bool is_standard_error(int descriptor)
{
    struct stat status;
    return standard_error.known && !syscall_failed(SYSCALL_2(SYS_fstat, descriptor, &status)) &&
           status.st_dev == standard_error.device && status.st_ino == standard_error.inode;
}

/* The duplicate gets a number of 1000 or above, or as high a one as the limit allows, far from the
 * program's own. */
void message_keep_stderr(void)
{
    for (int lowest = 1000; standard_error.duplicate == 0 && lowest > 2; lowest /= 2) {
        long duplicate = SYSCALL_3(SYS_fcntl, 2, F_DUPFD_CLOEXEC, lowest);
        if (!syscall_failed(duplicate))
            standard_error.duplicate = (int)duplicate;
    }
}

int standard_error_descriptor(void)
{
    if (is_standard_error(2))
        return 2;
    int duplicate = standard_error.duplicate;
    return duplicate > 0 && is_standard_error(duplicate) ? duplicate : -1;
}

bool (*message_log)(const char *text, size_t length);

/* A line may come from inside malloc. So where the descriptor does not block, a reader that does
 * not read is waited for a second at a time, not for ever. */
void message_write(const char *text, size_t length)
{
    enum { PATIENCE_MS = 1000 };
    if (message_log && message_log(text, length))
        return;
    int descriptor = standard_error_descriptor();
    if (descriptor >= 0)
        write_whole(descriptor, text, length, PATIENCE_MS);
}

void message_send(struct message *message)
{
    message->text[message->length++] = '\n';
    message_write(message->text, message->length);
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
