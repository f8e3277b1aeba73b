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
#include <sys/types.h>

#include "trace/format/format.h"

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

/* The next stretch of the raw stream, waiting for it. Returns 1, or 0 when the recorder has
 * ended and everything has been taken. The words are valid until the next call. */
int trace_stream_next(struct trace_stream *live, const uint64_t **words, size_t *count);

/* The recorder's process id. */
pid_t trace_stream_pid(const struct trace_stream *live);

/* Whether the recorder said goodbye; if not, it was killed and the stream ends where it does. */
int trace_stream_finished(const struct trace_stream *live);

/* Whether it did so because the program became another one by exec, which runs unrecorded. */
int trace_stream_replaced(const struct trace_stream *live);

/* Waits for the program; returns its status as waitpid() gives it. */
int trace_stream_status(struct trace_stream *live);

/* Ends everything: kills the recorder if it still runs. */
void trace_stream_close(struct trace_stream *live);

/* References, live. */

struct trace_stream_reader;

/* As a trace_reader, but of a program that is running. NULL when memory is short. */
struct trace_stream_reader *trace_stream_reader_open(struct trace_stream *live);

enum { TRACE_STREAM_LEAST_ROOM = 2048 };

/* As trace_reader_next(), but the references are the caller's: room for `room` of them, of which
 * there must be TRACE_STREAM_LEAST_ROOM. A batch holds references of any threads; batch->thread is
 * the first's, events tell the others. */
int trace_stream_reader_next(struct trace_stream_reader *reader, struct trace_reference *references,
                             size_t room, struct trace_batch *batch);

/* Whether references of more than one thread have come. */
bool trace_stream_reader_threaded(const struct trace_stream_reader *reader);
const char *trace_stream_reader_function(const struct trace_stream_reader *reader, uint32_t id,
                                         const char **object);
const char *trace_stream_reader_error(const struct trace_stream_reader *reader);
void trace_stream_reader_close(struct trace_stream_reader *reader);

#endif
