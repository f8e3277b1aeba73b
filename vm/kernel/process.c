/* SPDX-License-Identifier: MIT
 *
 * process.c: see process.h.
 */
#include "vm/kernel/process.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>

#include "vm/kernel/kept.h"
#include "vm/private_memory.h"
#include "vm/number.h"
#include "vm/syscall.h"

#ifndef SYS_close_range /* Linux 5.9 */
#define SYS_close_range 436
#endif
enum { CLOSE_UNSHARED = 1 << 1 }; /* CLOSE_RANGE_UNSHARE */

static struct kept proc = {.descriptor = -1};

/* Threads may have tables of descriptors of their own (unshare, CLONE_FILES), and the collecting
 * thread is now one, now another. Each table has its own place, as long as there are places. */
enum { TABLES = 16 };
static struct kept_file {
    struct kept places[TABLES];
    size_t count, next;
} files[PROCESS_FILES];

/* A process, a thread or a descriptor. Negative: the text is no such number. */
static int number_in(const char *text)
{
    uint64_t number;
    return read_decimal(&text, NULL, &number) && *text == '\0' && number <= INT_MAX ? (int)number
                                                                                    : -1;
}

/* Whether /proc, which may be another namespace's, counts processes as the process itself does. */
static bool proc_counts_as_we_do(void)
{
    char number[24];
    long bytes = SYSCALL_4(SYS_readlinkat, proc.descriptor, "self", number, sizeof number - 1);
    if (syscall_failed(bytes))
        return false;
    number[bytes] = '\0';
    return number_in(number) == SYSCALL_0(SYS_getpid);
}

static bool open_proc(void)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    if (!kept_take(&proc, SYSCALL_4(SYS_openat, AT_FDCWD, "/proc", flags, 0)))
        return false;
    if (proc_counts_as_we_do())
        return true;
    kept_drop(&proc);
    return false;
}

static size_t append(char *path, size_t length, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(path + length, text, bytes + 1);
    return length + bytes;
}

static int open_below(const char *path, int flags)
{
    if (!kept_is_open(&proc) && !open_proc())
        return -1;
    long opened = SYSCALL_4(SYS_openat, proc.descriptor, path, flags | O_CLOEXEC, 0);
    return syscall_failed(opened) ? -1 : (int)opened;
}

/* By way of the calling thread: when the first has ended, /proc/self has no memory any more. */
int process_open_file(const char *path)
{
    char relative[64];
    append(relative, append(relative, 0, "thread-self/"), path);
    return open_below(relative, O_RDONLY);
}

void process_close(int descriptor)
{
    SYSCALL_1(SYS_close, descriptor);
}

static int keep(struct kept_file *file, long opened)
{
    struct kept *place = &file->places[file->next];
    if (!kept_take(place, opened))
        return -1;
    if (file->count < TABLES)
        file->count++;
    file->next = (file->next + 1) % TABLES;
    return place->descriptor;
}

int process_file(enum process_file file)
{
    static const char *const names[PROCESS_FILES] = {"pagemap", "mem"};
    for (size_t i = 0; i < files[file].count; i++)
        if (kept_is_open(&files[file].places[i]))
            return files[file].places[i].descriptor;
    return keep(&files[file], process_open_file(names[file]));
}

void process_keep_files(void)
{
    for (int file = 0; file < PROCESS_FILES; file++)
        process_file((enum process_file)file);
}

/* A process with the rights of the superuser may be about to give them up. */
static void keep_files_of_superuser(void)
{
    if (SYSCALL_0(SYS_geteuid) == 0)
        process_keep_files();
}

/* Threads. */

struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

static bool each_entry(const char *buffer, long bytes, bool (*each)(void *argument, int number),
                       void *argument)
{
    for (long at = 0; at < bytes;) {
        const struct directory_entry *entry = (const struct directory_entry *)(buffer + at);
        int number = number_in(entry->name);
        if (number >= 0 && !each(argument, number))
            return false;
        at += entry->bytes;
    }
    return true;
}

bool process_open(void)
{
    if (!open_proc())
        return false;
    keep_files_of_superuser();
    return true;
}

static void drop_all(struct kept_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        kept_drop(&file->places[i]);
    file->count = file->next = 0;
}

bool process_forked(void)
{
    for (int file = 0; file < PROCESS_FILES; file++)
        drop_all(&files[file]);
    if (kept_is_open(&proc) && !proc_counts_as_we_do())
        return false;
    keep_files_of_superuser();
    return true;
}

/* Gets an empty table of descriptors. The parent's is not copied, not for a moment: a file that the
 * parent closes would stay open here, and a reader that waits for its end would go on waiting. So
 * the working directory carries /proc over. */
bool process_enter_copy(void)
{
    bool has_proc = kept_is_open(&proc) && !syscall_failed(SYSCALL_1(SYS_fchdir, proc.descriptor));
    if (syscall_failed(SYSCALL_3(SYS_close_range, 0, ~0U, CLOSE_UNSHARED)))
        return false;
    for (int file = 0; file < PROCESS_FILES; file++)
        files[file].count = files[file].next = 0;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    return has_proc && kept_take(&proc, SYSCALL_4(SYS_openat, AT_FDCWD, ".", flags, 0)) &&
           proc_counts_as_we_do();
}

/* Both links name a namespace: "pid:[4026531836]". There is none for children where the first has
 * not been made yet. */
bool process_children_stay(void)
{
    char own[64], childrens[64];
    long own_bytes =
        SYSCALL_4(SYS_readlinkat, proc.descriptor, "thread-self/ns/pid", own, sizeof own);
    long bytes = SYSCALL_4(SYS_readlinkat, proc.descriptor, "thread-self/ns/pid_for_children",
                           childrens, sizeof childrens);
    return kept_is_open(&proc) && !syscall_failed(own_bytes) && own_bytes == bytes &&
           memcmp(own, childrens, (size_t)bytes) == 0;
}

/* Every entry of a directory whose name is a number. */
static bool each_number(const char *path, bool (*each)(void *argument, int number), void *argument)
{
    _Alignas(8) char buffer[1024]; /* stacks may be small: gc/world/call_on_stack.h */
    int directory = open_below(path, O_RDONLY | O_DIRECTORY);
    if (directory < 0)
        return false;
    long bytes;
    bool whole = true;
    do {
        bytes = SYSCALL_3(SYS_getdents64, directory, buffer, sizeof buffer);
        whole = !syscall_failed(bytes) && each_entry(buffer, bytes, each, argument);
    } while (whole && bytes > 0);
    process_close(directory);
    return whole;
}

bool process_each_thread(bool (*each)(void *argument, pid_t thread), void *argument)
{
    return each_number("self/task", each, argument);
}

static size_t append_number(char *path, size_t length, unsigned long number)
{
    length += write_decimal(path + length, number);
    path[length] = '\0';
    return length;
}

struct descriptors {
    const char *target;
    bool (*each)(void *argument, const char *path);
    void *argument;
};

static bool visit_descriptor(void *argument, int number)
{
    const struct descriptors *descriptors = argument;
    char path[48], target[64];
    append_number(path, append(path, 0, "thread-self/fd/"), (unsigned long)number);
    long bytes = SYSCALL_4(SYS_readlinkat, proc.descriptor, path, target, sizeof target);
    if (bytes != (long)strlen(descriptors->target) ||
        memcmp(target, descriptors->target, (size_t)bytes) != 0)
        return true;
    append_number(path, append(path, 0, "fdinfo/"), (unsigned long)number);
    return descriptors->each(descriptors->argument, path);
}

bool process_each_descriptor(const char *target, bool (*each)(void *argument, const char *path),
                             void *argument)
{
    struct descriptors descriptors = {target, each, argument};
    return each_number("thread-self/fd", visit_descriptor, &descriptors);
}

static void path_of_thread(char path[48], pid_t thread, const char *file)
{
    size_t length = append(path, 0, "self/task/");
    append(path, append_number(path, length, (unsigned long)thread), file);
}

/* From a stat file. */
static bool state_in(const char *path, char *state, unsigned long *flags)
{
    char text[256];
    int file = open_below(path, O_RDONLY);
    if (file < 0)
        return false;
    long bytes = SYSCALL_3(SYS_read, file, text, sizeof text - 1);
    process_close(file);
    if (syscall_failed(bytes) || bytes == 0)
        return false;
    text[bytes] = '\0';
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (!at || at[1] != ' ')
        return false;
    *state = at[2];
    at += 3;
    for (int field = 0; field < 5; field++) /* ppid, pgrp, session, tty and tpgid, then flags */
        at += 1 + strcspn(at + 1, " ");
    at++;
    return read_decimal(&at, NULL, flags);
}

bool process_thread_state(pid_t thread, char *state, unsigned long *flags)
{
    char path[48];
    path_of_thread(path, thread, "/stat");
    return state_in(path, state, flags);
}

bool process_state(pid_t process, char *state, unsigned long *flags)
{
    char path[48];
    append(path, append_number(path, 0, (unsigned long)process), "/stat");
    return state_in(path, state, flags);
}

/* The file has a line of numbers, the newest last. */
pid_t process_newest_child(pid_t thread)
{
    char path[48], text[256];
    pid_t number = 0, newest = 0;
    path_of_thread(path, thread, "/children");
    int file = open_below(path, O_RDONLY);
    if (file < 0)
        return 0;
    for (size_t got; (got = maps_read(file, text, sizeof text)) > 0;)
        for (size_t i = 0; i < got; i++) {
            newest = text[i] == ' ' ? number : newest;
            number = text[i] == ' ' ? 0 : number * 10 + (text[i] - '0');
        }
    process_close(file);
    return newest;
}

/* What a status file says. What it does not say, or cannot be read, is as in status_of(). */
struct status {
    uint64_t blocked, pending; /* signals */
    uint64_t pinned_kilobytes;
    uint64_t filters; /* of system calls */
};

/* What stands behind the name of a field; NULL: the line has another. */
static const char *value_of(const char *line, const char *name)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 ? line + length + strspn(line + length, "\t ") : NULL;
}

static bool read_field(void *argument, const char *line)
{
    struct status *status = argument;
    const char *value;
    if ((value = value_of(line, "SigBlk:")))
        read_hexadecimal(&value, &status->blocked);
    else if ((value = value_of(line, "SigPnd:")))
        read_hexadecimal(&value, &status->pending);
    else if ((value = value_of(line, "VmPin:")))
        read_decimal(&value, NULL, &status->pinned_kilobytes);
    else if ((value = value_of(line, "Seccomp:"))) /* before Linux 5.9 it says no more */
        status->filters = *value == '2';
    else if ((value = value_of(line, "Seccomp_filters:")))
        read_decimal(&value, NULL, &status->filters);
    return true;
}

/* Closes the file, which may be none. Its longest lines, lists of groups and of processors, may be
 * longer than the buffer: the rest of one is passed over. */
static struct status status_of(long file)
{
    struct status status = {.pinned_kilobytes = UINT64_MAX};
    char text[1024];
    maps_each_text_line(file, text, sizeof text, read_field, &status);
    maps_close(file);
    return status;
}

static struct status status_of_thread(pid_t thread)
{
    char path[48];
    path_of_thread(path, thread, "/status");
    return status_of(open_below(path, O_RDONLY));
}

static bool set_has(uint64_t set, int signal)
{
    return set >> (signal - 1) & 1;
}

bool process_thread_blocks(pid_t thread, int signal)
{
    return set_has(status_of_thread(thread).blocked, signal);
}

bool process_thread_holds_back(pid_t thread, int signal)
{
    struct status status = status_of_thread(thread);
    return set_has(status.blocked & status.pending, signal);
}

uint64_t process_pinned_kilobytes(void)
{
    return status_of_thread((pid_t)SYSCALL_0(SYS_gettid)).pinned_kilobytes;
}

/* Sandboxes. */

/* How many filters a process has. 0 also when it cannot be read. */
static uint64_t filters_of(const char *status_file)
{
    return status_of(SYSCALL_4(SYS_openat, AT_FDCWD, status_file, O_RDONLY | O_CLOEXEC, 0)).filters;
}

bool process_is_in_sandbox(void)
{
    uint64_t filters = filters_of("/proc/self/status");
    return filters > 0 && filters > filters_of("/proc/1/status");
}

/* Processors. */

static unsigned allowed_processors(void)
{
    uint64_t mask[16];
    long bytes = SYSCALL_3(SYS_sched_getaffinity, 0, sizeof mask, mask);
    unsigned count = 0;
    for (long i = 0; i < bytes / (long)sizeof mask[0]; i++)
        count += (unsigned)__builtin_popcountl(mask[i]);
    return count;
}

/* "0.20 0.18 0.12 2/80 11206": two threads of 80 can run, the caller among them. */
unsigned process_idle_processors(void)
{
    char text[64];
    int file = open_below("loadavg", O_RDONLY);
    if (file < 0)
        return 0;
    long bytes = SYSCALL_3(SYS_read, file, text, sizeof text - 1);
    process_close(file);
    if (syscall_failed(bytes))
        return 0;
    text[bytes] = '\0';
    const char *at = text;
    for (int field = 0; field < 3; field++)
        at += strcspn(at, " ") + 1;
    uint64_t running;
    read_decimal(&at, NULL, &running);
    unsigned allowed = allowed_processors();
    return running < allowed ? allowed - (unsigned)running : 0;
}

/* Mappings. */

static struct {
    char *text;
    size_t text_bytes;
    struct mapping *mappings;
    size_t capacity, count;
} maps;

/* Reads the whole file; -1: cannot, -2: the buffer is too small. */
static long read_text(void)
{
    int file = process_open_file("maps");
    if (file < 0)
        return -1;
    size_t length = 0;
    long bytes;
    while ((bytes = SYSCALL_3(SYS_read, file, maps.text + length, maps.text_bytes - length)) > 0) {
        length += (size_t)bytes;
        if (length == maps.text_bytes)
            break;
    }
    process_close(file);
    if (syscall_failed(bytes))
        return -1;
    return length == maps.text_bytes ? -2 : (long)length;
}

/* Addresses have eight digits at least, the rest one. */
static const char SHORTEST_LINE[] = "00010000-00020000 rw-p 00000000 00:00 0 \n";

static bool grow_buffers(size_t text_bytes)
{
    if (maps.text)
        private_memory_unmap(maps.text, maps.text_bytes);
    if (maps.mappings)
        private_memory_unmap(maps.mappings, maps.capacity * sizeof *maps.mappings);
    maps.text_bytes = text_bytes;
    maps.capacity = text_bytes / (sizeof SHORTEST_LINE - 1);
    maps.text = private_memory_map(text_bytes);
    maps.mappings = private_memory_map(maps.capacity * sizeof *maps.mappings);
    return maps.text && maps.mappings;
}

bool process_read_mappings(const struct mapping **mappings, size_t *count)
{
    enum { FIRST_BYTES = 256 << 10 };
    if (!(maps.text && maps.mappings) && !grow_buffers(FIRST_BYTES))
        return false;
    long length;
    while ((length = read_text()) == -2)
        if (!grow_buffers(4 * maps.text_bytes))
            return false;
    if (length < 0)
        return false;
    maps.count = 0;
    for (const char *at = maps.text, *end = at + length; at < end;)
        at = mapping_parse(at, end, &maps.mappings[maps.count++]);
    *mappings = maps.mappings;
    *count = maps.count;
    return maps.count > 0;
}

/* A walk through /proc/self/smaps: for each mapping the line of maps, then one for each count. */
struct holdings {
    size_t next;        /* of the mappings, the first that does not end before this one */
    bool is_known;      /* this one is that */
    uint64_t kilobytes; /* of its counts so far */
};

static void begin_holding(struct holdings *holdings, const char *line)
{
    struct mapping found;
    mapping_parse(line, line + strlen(line), &found);
    while (holdings->next < maps.count && maps.mappings[holdings->next].end < found.end)
        holdings->next++;
    const struct mapping *known = &maps.mappings[holdings->next];
    holdings->is_known =
        holdings->next < maps.count && known->start == found.start && known->end == found.end;
    holdings->kilobytes = 0;
}

/* What of a mapping's pages is counted, each once. Huge pages of hugetlbfs are not among the
 * resident ones. */
static bool note_holding(void *argument, const char *line)
{
    static const char *const COUNTS[] = {"Rss:", "Shared_Hugetlb:", "Private_Hugetlb:", "Swap:"};
    struct holdings *holdings = argument;
    if (*line < 'A' || *line > 'Z')
        begin_holding(holdings, line);
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++) {
        uint64_t kilobytes;
        const char *value = value_of(line, COUNTS[i]);
        if (value && read_decimal(&value, NULL, &kilobytes))
            holdings->kilobytes += kilobytes;
    }
    if (value_of(line, "VmFlags:") && holdings->is_known) /* the last line of a mapping */
        maps.mappings[holdings->next].is_empty = holdings->kilobytes == 0;
    return true;
}

void process_note_empty(char *buffer, size_t bytes)
{
    struct holdings holdings = {0};
    int file = process_open_file("smaps");
    if (file < 0)
        return;
    maps_each_text_line(file, buffer, bytes, note_holding, &holdings);
    process_close(file);
}

const struct mapping *process_last_mappings(size_t *count)
{
    *count = maps.count;
    return maps.mappings;
}

const struct mapping *process_mapping_at(uintptr_t address)
{
    size_t low = 0, high = maps.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (maps.mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return &maps.mappings[low];
}

bool process_may_be_touched(const struct mapping *mapping)
{
    return mapping->readable && !mapping->shared && !mapping_name_begins(mapping, "/");
}
