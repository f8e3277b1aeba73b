#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's sqlite3 with lookaside, its allocator for small short-lived objects, which Debian
# leaves out.
#     sqlite3.sh DIRECTORY       leaves DIRECTORY/sqlite3_lookaside
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
[ ! -x "$directory/sqlite3_lookaside" ] || exit 0
"$here/debian_source.sh" sqlite3 "$directory/sqlite3-source"

work=$directory/sqlite3-source/build
mkdir -p "$work"
cd "$work"
if ! {
    ../source/configure --quiet --disable-tcl --disable-readline --disable-load-extension \
        --disable-shared CFLAGS="-O2 -g" && make -s sqlite3
} >build.log 2>&1; then
    echo "$0: the build failed; see $work/build.log" >&2
    exit 1
fi
cp sqlite3 "$directory/sqlite3_lookaside"
