/* SPDX-License-Identifier: MIT
 *
 * stream.h: runs a program under the recorder and hands out its raw stream while it runs.
 *
 * Owner of the ring and parent of the recorder. When the owner dies, however it dies, the
 * recorder is killed with it; when the recorder dies, what it had recorded can still be taken.
 */
#ifndef ALLOTROPE_TRACE_REFERENCES_STREAM_H
#define ALLOTROPE_TRACE_REFERENCES_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct trace_stream;

/* Starts a program under the recorder.
 * tool_directory: holds allotrope-amd64-linux and Valgrind's support files.
 * environment: NULL-terminated "NAME=VALUE" for the program alone; may be NULL.
 * options: NULL-terminated further options for Valgrind; may be NULL.
 * Returns NULL with errno. A command that cannot be run shows in trace_stream_status(). Call it
 * from the thread that will live longest: the recorder is killed when that thread ends. */
struct trace_stream *trace_stream_start(const char *tool_directory, char *const *environment,
                                        char *const *options, char *const *command);

/* Starts a program under a recorder that makes a ring and starts a consumer for every process that
 * the program becomes; `options` name the consumer (recorder.c: --follow). Returns the recorder's
 * process id, or -1 with errno. */
pid_t trace_stream_start_following(const char *tool_directory, char *const *environment,
                                   char *const *options, char *const *command);

/* Takes over a ring that a recorder has made, and the socket beside it. */
struct trace_stream *trace_stream_adopt(int ring_fd, int socket_fd);

/* The next stretch of the raw stream, waiting for it. Returns false when the recorder has
 * ended and everything has been taken. The words are valid until the next call. */
bool trace_stream_next(struct trace_stream *stream, const uint64_t **words, size_t *count);

/* The recorder's process id. */
pid_t trace_stream_pid(const struct trace_stream *stream);

/* Whether the recorder said goodbye; if not, it was killed and the stream ends where it does. */
bool trace_stream_finished(const struct trace_stream *stream);

/* Whether it did so because the program became another one by exec, which runs unrecorded. */
bool trace_stream_replaced(const struct trace_stream *stream);

/* Processes that the program has made so far, by itself: not those that these have made. */
uint32_t trace_stream_children(const struct trace_stream *stream);

/* Kills the recorder, and the program with it: nobody takes the rest. */
void trace_stream_stop(struct trace_stream *stream);

/* Waits for the program; returns its status as waitpid() gives it. The stream must have been taken
 * to its end, or stopped: else the program waits for room in the ring. */
int trace_stream_status(struct trace_stream *stream);

/* Ends everything: kills the recorder if it still runs. */
void trace_stream_close(struct trace_stream *stream);

#endif
