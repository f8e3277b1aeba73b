/* SPDX-License-Identifier: MIT
 *
 * report.c: see report.h.
 */
#include "alloc/checked/report.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "vm/message.h"
#include "vm/syscall.h"

static bool goes_on;
static uint64_t most_reports;
static _Atomic uint64_t reports;

void report_init(bool on_error_report, uint64_t most)
{
    goes_on = on_error_report;
    most_reports = most;
}

/* Which file an address lies in, by /proc/self/maps: a line at a time, each
 *
 *     START-END PERMISSIONS OFFSET DEVICE INODE       PATH
 */

enum { LINE_BYTES = 512, CHUNK_BYTES = 1024 };

struct file_of_address {
    uintptr_t address, start; /* where the file's first mapping begins */
    bool found;
    char path[LINE_BYTES]; /* of the last lines */
};

static uintptr_t hexadecimal(const char **text)
{
    uintptr_t number = 0;
    for (;; ++*text) {
        unsigned char c = (unsigned char)**text;
        if (c >= '0' && c <= '9')
            number = number << 4 | (c - '0');
        else if (c >= 'a' && c <= 'f')
            number = number << 4 | (c - 'a' + 10);
        else
            return number;
    }
}

/* True: the address lies there. */
static bool look_at_line(struct file_of_address *file, const char *line)
{
    const char *rest = line;
    uintptr_t start = hexadecimal(&rest);
    if (*rest == '-')
        rest++;
    uintptr_t end = hexadecimal(&rest);
    const char *path = strchr(rest, '/');
    if (!path)
        path = "";
    if (strcmp(path, file->path) != 0) {
        file->start = start;
        strcpy(file->path, path);
    }
    file->found = file->address >= start && file->address < end && *path;
    return file->found;
}

/* Adds what was read to the line; true as soon as the address is found. */
static bool look_at_chunk(struct file_of_address *file, const char *chunk, size_t length,
                          char *line, size_t *used)
{
    for (size_t i = 0; i < length; i++) {
        if (chunk[i] != '\n') {
            if (*used < LINE_BYTES - 1)
                line[(*used)++] = chunk[i];
            continue;
        }
        line[*used] = '\0';
        *used = 0;
        if (look_at_line(file, line))
            return true;
    }
    return false;
}

static void find_file(struct file_of_address *file)
{
    char chunk[CHUNK_BYTES], line[LINE_BYTES];
    size_t used = 0;
    long maps = SYSCALL_4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    if (syscall_failed(maps))
        return;
    for (;;) {
        long length = SYSCALL_3(SYS_read, maps, chunk, sizeof chunk);
        if (length <= 0 || look_at_chunk(file, chunk, (size_t)length, line, &used))
            break;
    }
    SYSCALL_1(SYS_close, maps);
}

static void add_site(struct message *message, const char *what, const void *site)
{
    struct file_of_address file = {.address = (uintptr_t)site};
    if (!site)
        return;
    message_text(message, what);
    find_file(&file);
    if (!file.found) {
        message_pointer(message, site);
        return;
    }
    const char *name = strrchr(file.path, '/') + 1;
    message_bytes(message, name, strlen(name));
    message_text(message, "+");
    message_pointer(message, (const void *)(file.address - file.start));
}

static void add_site_line(struct message *message, const char *what, const void *site,
                          const char *by)
{
    if (!site)
        return;
    message_text(message, "\n  ");
    add_site(message, what, site);
    if (by) {
        message_text(message, " (");
        message_text(message, by);
        message_text(message, ")");
    }
}

/* "16 bytes into", "1 byte before", "8 bytes behind". */
static void add_place(struct message *message, const struct block_facts *facts)
{
    if (facts->offset == 0)
        return;
    ptrdiff_t behind = facts->offset - (ptrdiff_t)facts->bytes;
    ptrdiff_t distance = facts->offset < 0 ? -facts->offset : behind >= 0 ? behind : facts->offset;
    message_decimal(message, (uint64_t)distance);
    message_text(message, distance == 1 ? " byte " : " bytes ");
    message_text(message, facts->offset < 0 ? "before" : behind >= 0 ? "behind" : "into");
    message_text(message, " a ");
}

static void add_block(struct message *message, const struct block_facts *facts)
{
    message_text(message, ": ");
    add_place(message, facts);
    message_text(message, "block of ");
    message_decimal(message, facts->bytes);
    message_text(message, facts->bytes == 1 ? " byte at " : " bytes at ");
    message_pointer(message, facts->block);
}

static void send(const char *function, const void *address, const char *fault,
                 const struct block_facts *facts, const void *site)
{
    struct message message;
    message_begin(&message);
    message_text(&message, function);
    message_text(&message, "(");
    message_pointer(&message, address);
    message_text(&message, "): ");
    message_text(&message, fault);
    if (facts && facts->block)
        add_block(&message, facts);
    add_site(&message, ", called at ", site);
    if (facts && facts->block) {
        add_site_line(&message, "allocated at ", facts->allocated_at, facts->by);
        add_site_line(&message, "freed at ", facts->freed_at, NULL);
    }
    message_send(&message);
}

static void say_no_more(void)
{
    struct message message;
    message_begin(&message);
    message_text(&message, "further misuses of the heap are only counted (reports=)");
    message_send(&message);
}

void report_misuse(enum report_severity severity, const char *function, const void *address,
                   const char *fault, const struct block_facts *facts, const void *site)
{
    bool ends = severity == REPORT_FATAL && !goes_on;
    uint64_t earlier = atomic_fetch_add_explicit(&reports, 1, memory_order_relaxed);
    if (earlier < most_reports || ends)
        send(function, address, fault, facts, site);
    else if (earlier == most_reports)
        say_no_more();
    if (ends)
        abort();
}
