#!/bin/sh
# SPDX-License-Identifier: MIT
# What configure does all the time: short processes, some thousand of them, with little output.
set -eu
directory=$(mktemp -d)
trap 'rm -r "$directory"' EXIT
cd "$directory"
i=0
while [ $i -lt 120 ]; do
    i=$((i + 1))
    echo "int main(void) { return $i; }" > conftest.c
    sed 's/main/other/;s/return/exit/' conftest.c > conftest.er1
    grep -v '^ *+' conftest.er1 > conftest.err || :
    expr "X$i" : 'X\(.*\)' > /dev/null
    cat conftest.err > conftest.out
    /bin/true
    version=$(echo "$i.2.3" | sed 's/\..*//')
    (cat conftest.out; echo "$version") | sort -r | tr a-z A-Z > conftest.sum
    cmp -s conftest.c conftest.out || :
    test "$(uname -s)" = Linux
    awk '{ n += NF } END { print n }' conftest.sum > /dev/null
    rm -f conftest.*
done
