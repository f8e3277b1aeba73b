#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches a Debian source package and unpacks it with Debian's patches, as any user and without
# touching the system's own apt configuration:
#     debian_source.sh PACKAGE DIRECTORY      leaves the tree in DIRECTORY/source
set -eu
[ $# -eq 2 ] || { echo "usage: $0 PACKAGE DIRECTORY" >&2; exit 2; }
package=$1 directory=$2
for tool in apt-get dpkg-source; do
    command -v "$tool" >/dev/null || { echo "$0: $tool is missing; install apt and dpkg-dev" >&2; exit 1; }
done
[ ! -d "$directory/source" ] || exit 0
mkdir -p "$directory/apt/lists/partial" "$directory/download"
directory=$(cd "$directory" && pwd)
cat >"$directory/apt/sources.list" <<'END'
deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian bookworm main
END
with_own_lists() {
    apt-get -qq -o "Dir::Etc::sourcelist=$directory/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o "Dir::State::lists=$directory/apt/lists" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= "$@"
}
with_own_lists update
(cd "$directory/download" && with_own_lists source --download-only "$package")
dpkg-source --no-check -x "$directory"/download/*.dsc "$directory/unpacked" >/dev/null
mv "$directory/unpacked" "$directory/source"
