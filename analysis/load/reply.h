/* SPDX-License-Identifier: MIT
 *
 * reply.h: where a server's reply ends, for the protocols that the load speaks.
 */
#ifndef ALLOTROPE_ANALYSIS_LOAD_REPLY_H
#define ALLOTROPE_ANALYSIS_LOAD_REPLY_H

#include <stdbool.h>
#include <stddef.h>

enum protocol { LINE, HTTP, REDIS, MEMCACHED };

enum reply_state {
    UNFINISHED, /* more is to come */
    COMPLETE,
    COMPLETE_CLOSES, /* and the server closes the connection */
    UNTIL_CLOSED,    /* the reply ends with the connection */
    REFUSED,         /* complete, and an error */
};

/* The protocol of that name; false where there is none. */
bool protocol_named(const char *name, enum protocol *protocol);

/* What has come of one reply. `text` need not end in a zero; nothing of the next reply is in it,
 * for a connection has one request at a time. */
enum reply_state reply_state(enum protocol protocol, const char *text, size_t length);

#endif
