#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's gawk twice, alike but for one thing: gawk as it is keeps lists of free blocks for
# its nodes; with MEMDEBUG, its own switch for tools like Valgrind, each node is a malloc.
#     gawk.sh DIRECTORY       leaves DIRECTORY/gawk and DIRECTORY/gawk_malloc
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
[ ! -x "$directory/gawk" ] || [ ! -x "$directory/gawk_malloc" ] || exit 0
"$here/debian_source.sh" gawk "$directory/gawk-source"

build() { # program flags
    work=$directory/gawk-source/$1
    mkdir -p "$work"
    cd "$work"
    if ! {
        ../source/configure --quiet --disable-extensions --disable-nls --disable-mpfr \
            --without-readline CFLAGS="-O2 -g $2" && make -s -C support && make -s gawk
    } >build.log 2>&1; then
        echo "$0: the build failed; see $work/build.log" >&2
        exit 1
    fi
    cp gawk "$directory/$1"
}
build gawk ""
build gawk_malloc -DMEMDEBUG
