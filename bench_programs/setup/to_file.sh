#!/bin/sh
# SPDX-License-Identifier: MIT
# Keeps what a command prints in FILE, unless it is there: to_file.sh FILE COMMAND [ARGUMENT]...
set -eu
[ $# -ge 2 ] || { echo "usage: $0 FILE COMMAND [ARGUMENT]..." >&2; exit 2; }
file=$1
shift
[ ! -e "$file" ] || exit 0
mkdir -p "$(dirname "$file")"
"$@" >"$file.part"
mv "$file.part" "$file"
