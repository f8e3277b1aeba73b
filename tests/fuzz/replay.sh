#!/bin/sh
# SPDX-License-Identifier: MIT
# Replays the fuzzer's kept inputs, and random ones, against every heap.
source=$(dirname "$0")
exec "${ALLOTROPE_BUILD_DIR:-.}"/tests/fuzz/fuzz_heap_replay "$source"/corpus/* 300
