#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the allocators on the 1992 study's own job: gawk fills the words of a dictionary into
# paragraphs, three passes, 1.26 million allocations. All of a round run at once (--duet), so that
# the figures hold on a machine with neighbours; ten allocators take two minutes. Words after the
# script's name are options of `allotrope compare`, e.g. -a glibc -a bsd -a bsd:classic.
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
case " $* " in
*" --rounds "*) ;;
*) set -- --rounds 20 "$@" ;;
esac
set -- compare --duet "$@" -- gawk -v passes=3 -f bench_programs/gawk_fill/fill.awk "$words"
printf '$ LC_ALL=C ./allotrope'
printf ' %s' "$@"
printf '\n\n'
exec ./allotrope "$@"
