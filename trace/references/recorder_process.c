/* SPDX-License-Identifier: MIT
 *
 * recorder_process.c: how a process becomes the recorder.
 *
 * Valgrind's launcher is not used, since it is a program like others that a preloaded library would
 * load into.
 */
#include "trace/references/recorder_process.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The recorder's command line; the caller frees the array, not its strings. Without ring_option
 * the options say where the recorder finds its consumer. */
static char **recorder_arguments(char *tool, char *ring_option, char *socket_option,
                                 char *const *options, char *const *command)
{
    size_t count = 8;
    for (char *const *p = options; p && *p; p++)
        count++;
    for (char *const *p = command; *p; p++)
        count++;
    char **arguments = calloc(count, sizeof *arguments);
    if (!arguments)
        return NULL;
    size_t i = 0;
    arguments[i++] = tool;
    arguments[i++] = (char *)"--tool=allotrope";
    arguments[i++] = (char *)"-q";
    if (ring_option) {
        arguments[i++] = ring_option;
        arguments[i++] = socket_option;
    }
    for (char *const *p = options; p && *p; p++)
        arguments[i++] = *p;
    for (char *const *p = command; *p; p++)
        arguments[i++] = *p;
    return arguments;
}

_Noreturn void become_recorder(const char *tool_directory, int ring_fd, int socket_fd, pid_t parent,
                               char *const *environment, char *const *options, char *const *command)
{
    char tool[PATH_MAX], ring_option[32], socket_option[32];
    snprintf(tool, sizeof tool, "%s/allotrope-amd64-linux", tool_directory);
    snprintf(ring_option, sizeof ring_option, "--ring-fd=%d", ring_fd);
    snprintf(socket_option, sizeof socket_option, "--socket-fd=%d", socket_fd);
    char **arguments =
        recorder_arguments(tool, ring_fd < 0 ? NULL : ring_option, socket_option, options, command);
    if (!arguments)
        _exit(127);
    setenv("VALGRIND_LIB", tool_directory, 1);
    setenv("VALGRIND_LAUNCHER", "/usr/bin/valgrind", 1);
    setenv("ALLOTROPE_DOORBELLS", "1", 1); /* asks our library to ring, if it is there */
    for (char *const *entry = environment; entry && *entry; entry++)
        putenv(*entry);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        execv(tool, arguments);
    fprintf(stderr, "allotrope: the recorder %s cannot be run: %s\n", tool, strerror(errno));
    _exit(127);
}
