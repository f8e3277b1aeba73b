#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian's perl twice, alike but for one thing: perl as it is carves its values out of arenas
# of its own; with PURIFY, its own switch for tools of that kind, each value is a malloc.
#     perl.sh DIRECTORY       leaves DIRECTORY/perl and DIRECTORY/perl_malloc
# They are perl's own "miniperl": the whole interpreter, without modules that are linked to it.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
[ ! -x "$directory/perl" ] || [ ! -x "$directory/perl_malloc" ] || exit 0
"$here/debian_source.sh" perl/bookworm "$directory/perl-source"

build() { # program flags
    work=$directory/perl-source/$1
    [ -d "$work" ] || cp -a "$directory/perl-source/source" "$work"
    cd "$work"
    if ! {
        ./Configure -des -Dusedevel -Uusemymalloc -Uversiononly -Doptimize="-O2 -g" \
            "-Accflags=$2" && make miniperl
    } >build.log 2>&1; then
        echo "$0: the build failed; see $work/build.log" >&2
        exit 1
    fi
    cp miniperl "$directory/$1"
}
build perl ""
build perl_malloc -DPURIFY
