#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the allocators on the 1992 study's own job: gawk fills the words of a dictionary into
# paragraphs, twelve passes, some 5 million allocations. Words after the script's name are
# options of `allotrope compare`, e.g. -a glibc -a bsd -a bsd:classic.
set -eu
cd "$(dirname "$0")/.."
words=/usr/share/dict/words
[ -r "$words" ] || {
    echo "demo: $words is missing; install the Debian package wamerican" >&2
    exit 1
}
# gawk allocates differently in other locales, see fill.awk.
LC_ALL=C
export LC_ALL
set -- compare "$@" -- gawk -v passes=12 -f bench_programs/gawk_fill/fill.awk "$words"
printf '$ LC_ALL=C ./allotrope'
printf ' %s' "$@"
printf '\n\n'
exec ./allotrope "$@"
