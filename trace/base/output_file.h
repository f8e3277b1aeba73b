/* SPDX-License-Identifier: MIT
 *
 * output_file.h: the file that a recording is written to.
 *
 * While nothing stands at its name, a recording is written there. It can be read as far as it goes,
 * and it says itself when it was cut short. What stands there already is replaced by a whole
 * recording alone: until then the new one is beside it, in NAME.part, and stays there when it was
 * cut short.
 *
 * A device, a pipe, and a file in a folder where no other file may be made are written in place.
 */
#ifndef ALLOTROPE_TRACE_BASE_OUTPUT_FILE_H
#define ALLOTROPE_TRACE_BASE_OUTPUT_FILE_H

/* What has been written so far is worth. */
enum output_worth {
    OUTPUT_NOTHING, /* no more than a head: nothing has begun */
    OUTPUT_CUT,
    OUTPUT_WHOLE,
};

struct output_file {
    int fd;
    const char *name;        /* as it was given; NULL: it has none, or is another's to remove */
    char *place;             /* of what is to be replaced, symbolic links followed; or NULL */
    char *part;              /* what is written until then; NULL where there is no place */
    enum output_worth worth; /* the writer's to set; at first OUTPUT_NOTHING */
};

/* Opens the file. name: must live as long as the file. Returns 0, or -1 with errno. */
int output_file_open(struct output_file *file, const char *name);

/* Closes the file and puts it into its place, according to its worth. What was cut short beside an
 * older file is told in a line on standard error. Returns 0, or -1 with errno where the file could
 * not be closed or put into its place, in which case it stays beside it. */
int output_file_close(struct output_file *file);

#endif
