#!/bin/sh
# SPDX-License-Identifier: MIT
# redis's load: the server becomes this process, so it is the server that is measured; a client
# without the allocator drives it over a socket in DIRECTORY and shuts it down.
#     redis.sh DIRECTORY REQUESTS
set -eu
[ $# -eq 2 ] || { echo "usage: $0 DIRECTORY REQUESTS" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
socket=$1/redis.$$.sock
env -u LD_PRELOAD -u ALLOTROPE /usr/bin/python3 "$here/redis_load.py" "$socket" "$2" &
exec redis-server --port 0 --unixsocket "$socket" --save '' --appendonly no \
    --loglevel warning --logfile /dev/null
