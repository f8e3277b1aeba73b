#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds espresso, Berkeley's logic minimiser (version 2.3, 1988), from the source package of pyeda
# on PyPI, which carries it whole; twice, without and with its own lists of free matrix elements
# (FAST_AND_LOOSE), and writes its input.
#     espresso.sh DIRECTORY   leaves DIRECTORY/espresso, espresso_malloc, adder_6.pla, adder_7_6.pla
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
directory=$(cd "$1" && pwd)
version=0.29.0
sha256=efd4d3e548079ca059f44f9babb9bd67b332ec1762897324fcceb8da1d0f5fed
archive=$directory/pyeda-$version.tar.gz
[ -e "$archive" ] ||
    /usr/bin/python3 -m pip --quiet download --no-deps --no-build-isolation --no-binary :all: \
        --dest "$directory" "pyeda==$version" ||
    { echo "$0: pip could not fetch pyeda $version; put $archive there by hand" >&2; exit 1; }
echo "$sha256  $archive" | sha256sum --quiet --check - ||
    { echo "$0: $archive is not the file that was checked; remove it and try again" >&2; exit 1; }
tar -xzf "$archive" -C "$directory" "pyeda-$version/thirdparty/espresso"

build() { # program flags
    # The source is C as of 1988; today's default dialect refuses it.
    # shellcheck disable=SC2086
    gcc -std=gnu89 -w -O2 -g $2 -o "$directory/$1" \
        "$directory/pyeda-$version"/thirdparty/espresso/src/*.c -lm
}
build espresso -DFAST_AND_LOOSE
build espresso_malloc ""
/usr/bin/python3 "$here/adder_pla.py" 6 >"$directory/adder_6.pla"
/usr/bin/python3 "$here/adder_pla.py" 7 6 >"$directory/adder_7_6.pla"
