/* SPDX-License-Identifier: MIT
 *
 * recorder_process.h: how a process becomes the recorder.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_RECORDER_PROCESS_H
#define ALLOTROPE_TRACE_REFERENCES_RECORDER_PROCESS_H

#include <sys/types.h>

/* For the child of a fork. The recorder is killed with `parent`.
 * ring_fd, socket_fd: what the recorder is to write to; ring_fd is -1 where it makes a ring and
 * starts a consumer itself, as `options` say. The rest: as of trace_stream_start(). */
_Noreturn void become_recorder(const char *tool_directory, int ring_fd, int socket_fd, pid_t parent,
                               char *const *environment, char *const *options,
                               char *const *command);

#endif
