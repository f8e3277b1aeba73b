/* SPDX-License-Identifier: MIT
 *
 * tcp.h: two ends of a connection by TCP, in one process.
 */
#ifndef ALLOTROPE_TESTS_GC_TRAPS_TCP_H
#define ALLOTROPE_TESTS_GC_TRAPS_TCP_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/gc/traps/trap.h"

static inline void connect_by_tcp(int *connecting, int *accepted)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof name;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    require(bind(listening, (struct sockaddr *)&name, bytes) == 0 && listen(listening, 1) == 0);
    require(getsockname(listening, (struct sockaddr *)&name, &bytes) == 0);
    *connecting = socket(AF_INET, SOCK_STREAM, 0);
    require(connect(*connecting, (struct sockaddr *)&name, bytes) == 0);
    *accepted = accept(listening, NULL, NULL);
    require(*accepted >= 0);
}

#endif
