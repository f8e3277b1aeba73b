#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs pytest on the files named, for `make check`: automake's log driver calls it with one file at
# a time. Its last line counts the tests. PYTEST_FLAGS adds options, e.g. PYTEST_FLAGS='-m "not slow"'.
: "${PYTHON:=/usr/bin/python3}"
: "${ALLOTROPE_BUILD_DIR:=$PWD}"
export ALLOTROPE_BUILD_DIR PYTHON
"$PYTHON" -c 'import pytest' 2>/dev/null || {
    echo "pytest is missing; install the Debian package python3-pytest"
    exit 77
}
eval "\"\$PYTHON\" -m pytest $PYTEST_FLAGS \"\$@\""
status=$?
# Nothing selected is nothing failed: automake's word for it is 77, skipped.
[ $status -ne 5 ] || status=77
exit $status
