/* SPDX-License-Identifier: MIT
 *
 * output_file.c: see output_file.h.
 */
#include "trace/base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_PARTS = 10000 };

/* A new file beside `place`: PLACE.part, PLACE.part.2 and so on, since an earlier part may be of
 * use, and another recording may be under way. Its mode is that of the file in the place. */
static int open_part(struct output_file *file, mode_t mode)
{
    for (int i = 1; i < MOST_PARTS; i++) {
        char number[16] = "";
        if (i > 1)
            snprintf(number, sizeof number, ".%d", i);
        if (asprintf(&file->part, "%s.part%s", file->place, number) < 0) {
            file->part = NULL;
            return -1;
        }
        int fd = open(file->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 && fchmod(fd, mode & 07777) < 0)
            errno = 0; /* a file system without modes */
        if (fd >= 0)
            return fd;
        int error = errno;
        free(file->part);
        file->part = NULL;
        errno = error;
        if (error != EEXIST)
            return -1;
    }
    return -1;
}

static bool no_other_file_may_be_made(int error)
{
    return error == EACCES || error == EPERM || error == ENAMETOOLONG;
}

int output_file_open(struct output_file *file, const char *name)
{
    struct stat old;
    *file = (struct output_file){.fd = -1, .name = name};
    if (stat(name, &old) == 0 && S_ISREG(old.st_mode) && old.st_size > 0) {
        if (access(name, W_OK) < 0)
            return -1;
        file->place = realpath(name, NULL);
        file->fd = file->place ? open_part(file, old.st_mode) : -1;
        if (file->fd >= 0)
            return 0;
        int error = errno;
        free(file->place);
        file->place = NULL;
        errno = error;
        if (!no_other_file_may_be_made(error))
            return -1;
    }
    file->fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    return file->fd < 0 ? -1 : 0;
}

/* A recording whose disk was full from the beginning leaves no file. Devices, pipes and links
 * stay. */
static void remove_worthless(const char *path, enum output_worth worth)
{
    struct stat status;
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
        (worth == OUTPUT_NOTHING || status.st_size == 0))
        unlink(path);
}

static void keep_part(const struct output_file *file)
{
    remove_worthless(file->part, file->worth);
    if (access(file->part, F_OK) == 0)
        fprintf(stderr, "allotrope: %s is as it was; the recording, as far as it goes, is in %s\n",
                file->name, file->part);
}

int output_file_close(struct output_file *file)
{
    int status = file->fd >= 0 ? close(file->fd) : 0;
    if (status == 0 && file->part && file->worth == OUTPUT_WHOLE)
        status = rename(file->part, file->place);
    int error = errno;
    if (file->part && (status < 0 || file->worth != OUTPUT_WHOLE))
        keep_part(file);
    else if (file->name && file->fd >= 0 && file->worth != OUTPUT_WHOLE)
        remove_worthless(file->name, file->worth);
    free(file->place);
    free(file->part);
    *file = (struct output_file){.fd = -1};
    errno = error;
    return status;
}
