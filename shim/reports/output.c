/* SPDX-License-Identifier: MIT
 *
 * output.c: see output.h.
 */
#include "shim/reports/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/configuration/environment.h"
#include "vm/number.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/syscall.h"

char output_passed_to[OUTPUT_PASSED_TO_BYTES];

/* Puts the folder of the process and a '/' there. Returns their length; 0: it is not known. */
static size_t own_folder(char *text)
{
    long bytes = SYSCALL_2(SYS_getcwd, text, OUTPUT_NAME_BYTES - 1);
    if (syscall_failed(bytes) || text[0] != '/') /* one outside the root is "(unreachable)/..." */
        return 0;
    size_t length = (size_t)bytes - 1;
    if (text[length - 1] != '/')
        text[length++] = '/';
    return length;
}

struct output_pattern output_keep(const char *pattern)
{
    size_t length = strlen(pattern) + 1;
    long memory = SYSCALL_6(SYS_mmap, 0, OUTPUT_NAME_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct output_pattern kept = {.text = NULL};
    if (syscall_failed(memory))
        return kept;
    char *text = (char *)memory;
    if (pattern[0] != '/' && !output_is_standard_error(pattern))
        kept.folder_bytes = own_folder(text);
    if (length > OUTPUT_NAME_BYTES - kept.folder_bytes)
        return kept;
    memcpy(text + kept.folder_bytes, pattern, length);
    kept.text = text;
    return kept;
}

bool output_expand(struct output_pattern pattern, char *name)
{
    const char *next = pattern.text, *variable = pattern.text + pattern.folder_bytes;
    size_t length = 0;
    while (*next && length + 1 < OUTPUT_NAME_BYTES) {
        if (next < variable || next[0] != '%' || next[1] != 'p') {
            name[length++] = *next++;
            continue;
        }
        char digits[DECIMAL_BYTES];
        size_t count = write_decimal(digits, (uint64_t)SYSCALL_0(SYS_getpid));
        for (size_t i = 0; i < count && length + 1 < OUTPUT_NAME_BYTES; i++)
            name[length++] = digits[i];
        next += 2;
    }
    name[length] = '\0';
    return *next == '\0';
}

static bool ends_in_json(const char *name)
{
    size_t length = strlen(name);
    return length >= 5 && strcmp(name + length - 5, ".json") == 0;
}

/* Whether the open file is a pipe. A pipe that takes no more has lost its reader. */
static bool is_pipe(long file)
{
    struct stat status;
    return !pages_are_in_sandbox() && !syscall_failed(SYSCALL_2(SYS_fstat, file, &status)) &&
           S_ISFIFO(status.st_mode);
}

/* Adds a name in quotes. A name that would fill the line is cut: only its end is shown. */
static void quote_name(struct message *message, const char *name)
{
    enum { NAME_SHOWN = 240 };
    size_t length = strlen(name), cut = length > NAME_SHOWN ? length - NAME_SHOWN : 0;
    message_text(message, cut > 0 ? "..." : "");
    message_quoted(message, name + cut, length - cut);
}

void output_tell_unwritable(const char *name, const char *variable, long file)
{
    bool opened = !syscall_failed(file), nobody_reads = opened && is_pipe(file);
    struct message message;
    message_begin(&message);
    message_text(&message, "cannot write to ");
    quote_name(&message, name);
    message_text(&message, nobody_reads ? ": nobody reads it any more; "
                           : opened     ? ": the disk is full, or the file may not grow; "
                                        : "; ");
    message_text(&message, variable);
    message_text(&message, nobody_reads ? " names a file, or a pipe that is read to its end"
                           : opened     ? " names a file with room for it"
                                        : " names a file that can be created");
    if (opened && pages_are_in_sandbox())
        message_text(&message, "; half a report is left there");
    message_send(&message);
}

/* Half a report misleads its reader. Only a regular file can be cut to nothing; devices and pipes
 * stay, and so does a link to a file. A sandbox that lets files be written may still end the
 * process for one of these calls. */
static void remove_half(long file, const char *name)
{
    struct stat status;
    if (!syscall_failed(file) && !pages_are_in_sandbox() &&
        !syscall_failed(SYSCALL_2(SYS_ftruncate, file, 0)) &&
        !syscall_failed(SYSCALL_2(SYS_lstat, name, &status)) && S_ISREG(status.st_mode))
        SYSCALL_1(SYS_unlink, name);
}

/* ".NAME.PID.new" in the folder of `name`, which tells processes apart that write to one name.
 * False when it grows too long. */
static bool name_beside(const char *name, char *beside)
{
    static const char end[] = ".new";
    char digits[DECIMAL_BYTES];
    size_t count = write_decimal(digits, (uint64_t)SYSCALL_0(SYS_getpid));
    size_t length = strlen(name), base = length;
    if (length + count + sizeof end + 2 > OUTPUT_NAME_BYTES)
        return false;
    while (base > 0 && name[base - 1] != '/')
        base--;
    memcpy(beside, name, base);
    beside[base] = '.';
    memcpy(beside + base + 1, name + base, length - base);
    beside[length + 1] = '.';
    memcpy(beside + length + 2, digits, count);
    memcpy(beside + length + 2 + count, end, sizeof end);
    return true;
}

/* Whether an older report stands there, which a new one must not spoil. An empty file is none:
 * somebody may have it open and wait for the report. A link stays a link. */
static bool has_older_report(const char *name, struct stat *older)
{
    return !pages_are_in_sandbox() && !syscall_failed(SYSCALL_2(SYS_lstat, name, older)) &&
           S_ISREG(older->st_mode) && older->st_size > 0;
}

/* Replaces the older report in one step. False when it must be written in place: the folder takes
 * no other file, or does not let this one be replaced. */
static bool replace_older(const char *name, mode_t mode, const char *variable,
                          bool write(int file, bool json))
{
    static char beside[OUTPUT_NAME_BYTES]; /* threads that end a process may have small stacks */
    if (!name_beside(name, beside))
        return false;
    long file = SYSCALL_4(SYS_openat, AT_FDCWD, beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                          mode & 0777);
    if (syscall_failed(file))
        return false;
    SYSCALL_2(SYS_fchmod, file, mode & 07777); /* the umask does not hold for what stood there */
    bool written = write((int)file, ends_in_json(name));
    if (!written)
        output_tell_unwritable(name, variable, file);
    SYSCALL_1(SYS_close, file);
    bool renamed = written && !syscall_failed(SYSCALL_2(SYS_rename, beside, name));
    if (!renamed)
        SYSCALL_1(SYS_unlink, beside);
    return renamed || !written;
}

static void write_in_place(const char *name, const char *variable, bool write(int file, bool json))
{
    long file =
        SYSCALL_4(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (syscall_failed(file) || !write((int)file, ends_in_json(name))) {
        output_tell_unwritable(name, variable, file);
        remove_half(file, name);
    }
    if (!syscall_failed(file))
        SYSCALL_1(SYS_close, file);
}

bool output_is_standard_error(const char *pattern)
{
    return !*pattern || strcmp(pattern, "-") == 0;
}

void output_write(struct output_pattern pattern, const char *variable,
                  bool write(int file, bool json))
{
    if (output_is_standard_error(pattern.text)) {
        int standard_error = standard_error_descriptor();
        if (standard_error >= 0)
            write(standard_error, false);
        return;
    }
    static char name[OUTPUT_NAME_BYTES];
    struct stat older;
    if (!output_expand(pattern, name))
        output_tell_unwritable(name, variable, -ENAMETOOLONG);
    else if (!has_older_report(name, &older) ||
             !replace_older(name, older.st_mode, variable, write))
        write_in_place(name, variable, write);
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

struct group {
    struct emitter *emitter;
    const char *name; /* NULL before the first */
};

static void emit_in_group(void *argument, const char *name, const char *key, uint64_t number)
{
    struct group *group = argument;
    if (!group->name || strcmp(group->name, name) != 0) {
        if (group->name)
            emit_end_object(group->emitter);
        emit_begin_object(group->emitter, name);
        group->name = name;
    }
    emit_number(group->emitter, key, number);
}

void output_more_statistics(struct emitter *emitter, const struct allocator *allocator)
{
    struct group group = {.emitter = emitter};
    if (allocator->more_statistics)
        allocator->more_statistics(emit_in_group, &group);
    if (group.name)
        emit_end_object(emitter);
}

bool output_end(struct emitter *emitter)
{
    emit_end_object(emitter);
    return emitter_end(emitter);
}
