/* SPDX-License-Identifier: MIT
 *
 * output_file.c: see output_file.h.
 */
#include "analysis/simulate/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/base/flush_all.h"

/* The folder of a path, as far as its last slash. */
static void folder_of(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path + 1) : 2, slash ? path : "./");
}

bool output_file_is_writable(const char *path)
{
    struct stat status;
    char folder[PATH_MAX];
    if (strcmp(path, "-") == 0)
        return true;
    if (stat(path, &status) == 0) {
        errno = EISDIR;
        return !S_ISDIR(status.st_mode) && access(path, W_OK) == 0;
    }
    folder_of(path, folder);
    return access(folder, W_OK) == 0;
}

/* Opens a file beside `path`. Null: it is to be written to as it is. */
static FILE *open_beside(struct output_file *file, const char *path)
{
    struct stat status;
    bool exists = false;
    if (!realpath(path, file->place)) {
        if (errno != ENOENT || lstat(path, &status) == 0)
            return NULL;
        snprintf(file->place, sizeof file->place, "%s", path);
    } else if (stat(file->place, &status) < 0 || !S_ISREG(status.st_mode)) {
        return NULL;
    } else {
        exists = true;
    }
    char folder[PATH_MAX];
    folder_of(file->place, folder);
    int length =
        snprintf(file->beside, sizeof file->beside, "%s.allotrope.%ld.new", folder, (long)getpid());
    if (length >= (int)sizeof file->beside)
        return NULL;
    int descriptor = open(file->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 && exists)
        fchmod(descriptor, status.st_mode & 07777);
    return descriptor < 0 ? NULL : fdopen(descriptor, "w");
}

bool output_file_open(struct output_file *file, const char *path)
{
    *file = (struct output_file){0};
    if (strcmp(path, "-") == 0) {
        file->stream = stdout;
        return true;
    }
    file->stream = open_beside(file, path);
    if (file->stream)
        return true;
    file->place[0] = '\0';
    file->stream = fopen(path, "we");
    return file->stream != NULL;
}

bool output_file_close(struct output_file *file)
{
    if (file->stream == stdout)
        return flush_all(stdout) == 0;
    bool written = flush_all(file->stream) == 0;
    if (file->place[0] != '\0')
        written = written && fsync(fileno(file->stream)) == 0;
    int error = errno;
    if (fclose(file->stream) != 0 && written) {
        written = false;
        error = errno;
    }
    if (file->place[0] == '\0') {
        errno = error;
        return written;
    }
    if (written && rename(file->beside, file->place) < 0) {
        written = false;
        error = errno;
    }
    if (!written)
        unlink(file->beside);
    errno = error;
    return written;
}
