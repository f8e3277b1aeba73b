#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the GLib load.      glib.sh DIRECTORY    leaves DIRECTORY/glib_slices
set -eu
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
[ ! -x "$1/glib_slices" ] || exit 0
pkg-config --exists glib-2.0 || { echo "$0: GLib is missing; install libglib2.0-dev and pkg-config" >&2; exit 1; }
# shellcheck disable=SC2046
gcc -O2 -g -o "$1/glib_slices" "$here/../today/glib_slices.c" $(pkg-config --cflags --libs glib-2.0)
