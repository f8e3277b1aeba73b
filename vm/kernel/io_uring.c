/* SPDX-License-Identifier: MIT
 *
 * io_uring.c: see io_uring.h.
 *
 * The kernel lists them in fdinfo of the ring's descriptor, in lines behind one with their number:
 *
 *     UserBufs:	2
 *         0: 0x5624461042b0/8192
 *         1: 0x562446106000/4096
 */
#include "vm/kernel/io_uring.h"

#include <string.h>

#include "vm/kernel/process.h"
#include "vm/number.h"
#include "vm/syscall.h"

struct reading {
    char *memory;
    size_t bytes;
    void (*visit)(uintptr_t address);
    bool in_buffers, any_list;
};

static void read_address(struct reading *reading, const char *digits)
{
    uint64_t address;
    read_hexadecimal(&digits, &address);
    reading->visit(address);
}

static void read_line(struct reading *reading, const char *line)
{
    static const char HEADING[] = "UserBufs:", BEFORE_ADDRESS[] = ": 0x";
    const char *found = strstr(line, BEFORE_ADDRESS);
    if (line[0] != ' ')
        reading->in_buffers = strncmp(line, HEADING, sizeof HEADING - 1) == 0;
    else if (reading->in_buffers && found)
        read_address(reading, found + sizeof BEFORE_ADDRESS - 1);
    reading->any_list |= reading->in_buffers;
}

/* Lines of which all is there; returns how many bytes they are. */
static size_t read_lines(struct reading *reading, size_t length)
{
    size_t done = 0;
    for (char *end; (end = memchr(reading->memory + done, '\n', length - done));) {
        *end = '\0';
        read_line(reading, reading->memory + done);
        done = (size_t)(end + 1 - reading->memory);
    }
    return done;
}

static bool read_ring(struct reading *reading, const char *path)
{
    int file = process_open_file(path);
    if (file < 0)
        return false;
    long bytes;
    size_t length = 0;
    while ((bytes = SYSCALL_3(SYS_read, file, reading->memory + length, reading->bytes - length)) >
           0) {
        length += (size_t)bytes;
        size_t done = read_lines(reading, length);
        length -= done;
        memmove(reading->memory, reading->memory + done, length);
    }
    process_close(file);
    return bytes == 0 && length == 0; /* no line was cut off, or too long */
}

static bool visit_ring(void *argument, const char *path)
{
    struct reading *reading = argument;
    reading->any_list = reading->in_buffers = false;
    return read_ring(reading, path) && reading->any_list; /* a ring that is busy lists nothing */
}

bool io_uring_each_buffer(char *memory, // NOLINT(readability-non-const-parameter)
                          size_t bytes, void (*visit)(uintptr_t address))
{
    struct reading reading = {.memory = memory, .bytes = bytes, .visit = visit};
    return process_each_descriptor("anon_inode:[io_uring]", visit_ring, &reading);
}
