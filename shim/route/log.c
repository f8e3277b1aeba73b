/* SPDX-License-Identifier: MIT
 *
 * log.c: see log.h.
 */
#include "shim/route/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/configuration/environment.h"
#include "shim/reports/output.h"
#include "shim/route/observer.h"
#include "vm/kernel/kept.h"
#include "vm/message.h"
#include "vm/pages.h"
#include "vm/syscall.h"
#include "vm/write.h"

static const char variable[] = "ALLOTROPE_LOG";

/* Written at the start only. */
static struct {
    struct output_pattern pattern;
    long opener; /* the process that has opened `file`; 0: the name has no "%p" */
    struct kept file;
} target;

/* A pipe that nobody reads is refused, not waited for. The lines have addresses, which help an
 * attacker: the file is its user's alone. */
static long open_name(const char *name)
{
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    return SYSCALL_4(SYS_openat, AT_FDCWD, name, flags, 0600);
}

/* The name is put together in a mapping: the stack may be a signal handler's small one. */
static long open_log(void)
{
    if (target.opener == 0)
        return open_name(target.pattern.text);
    long memory = SYSCALL_6(SYS_mmap, 0, OUTPUT_NAME_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (syscall_failed(memory))
        return memory;
    char *name = (char *)memory;
    long opened = output_expand(target.pattern, name) ? open_name(name) : -ENAMETOOLONG;
    SYSCALL_2(SYS_munmap, memory, OUTPUT_NAME_BYTES);
    return opened;
}

/* A child of the opener has a file of its own, if the name has a "%p". */
static bool is_kept_file_ours(void)
{
    return target.opener == 0 || SYSCALL_0(SYS_getpid) == target.opener;
}

/* False: the text could not be written. */
static bool append(const char *text, size_t length)
{
    enum { PATIENCE_MS = 1000 };
    bool is_sandbox = pages_are_in_sandbox(), is_kept = kept_is_open(&target.file);
    struct kept opened = {.descriptor = -1};
    if (!is_sandbox && !(is_kept && is_kept_file_ours()))
        kept_take(&opened, open_log());
    int descriptor = opened.descriptor;
    if (descriptor < 0 && is_kept)
        descriptor = target.file.descriptor;
    bool written = descriptor >= 0 && write_whole(descriptor, text, length, PATIENCE_MS);
    kept_drop(&opened);
    return written;
}

static bool has_process_id(struct output_pattern pattern)
{
    return strstr(pattern.text + pattern.folder_bytes, "%p") != NULL;
}

void log_start(void)
{
    const char *value = environment_get(variable);
    if (!value)
        return;
    if (output_is_standard_error(value)) {
        message_keep_stderr();
        return;
    }
    target.pattern = observer_destination(value, variable);
    target.opener = has_process_id(target.pattern) ? SYSCALL_0(SYS_getpid) : 0;
    long opened = open_log();
    if (kept_take(&target.file, opened))
        message_log = append;
    else
        output_tell_unwritable(target.pattern.text, variable, opened);
}
