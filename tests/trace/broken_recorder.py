#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""broken_recorder.py: stands in for the recorder, and breaks its word (reference_ring.h).

BROKEN_RECORDER says how: `damaged` publishes nonsense, and on and on, as a program does that is not
stopped; `killed` is killed before it has published what it wrote. It never ends by itself."""

import mmap
import os
import signal
import struct
import sys
import time

STATE_BYTES, BUFFERS, BUFFER_BYTES, FULL_BYTES = 4096, 8, 32 << 20, 1 << 19
# Places of struct reference_ring.
CLAIMED, BASE, CURSOR, PUBLISHED, USED, RELEASED = 16, 24, 64, 128, 136, 192


def main() -> None:
    (ring_fd,) = (int(word.partition("=")[2]) for word in sys.argv if "--ring-fd" in word)
    ring = mmap.mmap(ring_fd, STATE_BYTES + BUFFERS * BUFFER_BYTES)
    struct.pack_into("<IIQ", ring, CLAIMED, os.getpid(), 0, STATE_BYTES)
    words = [0x4000_0000_0002_0004, 1, 0]  # RAW_THREAD_START
    if os.environ["BROKEN_RECORDER"] == "damaged":
        words = [0x1234_5678_9ABC_DEF0] * 100
    used = struct.pack(f"<{len(words)}Q", *words)
    if os.environ["BROKEN_RECORDER"] == "killed":
        ring[STATE_BYTES : STATE_BYTES + len(used)] = used
        struct.pack_into("<Q", ring, CURSOR, STATE_BYTES + STATE_BYTES + len(used))
        os.kill(os.getpid(), signal.SIGKILL)
    published = 0
    while True:
        (released,) = struct.unpack_from("<I", ring, RELEASED)
        if published - released < BUFFERS:
            place = STATE_BYTES + published % BUFFERS * BUFFER_BYTES
            ring[place : place + len(used)] = used
            struct.pack_into("<I", ring, USED + 4 * (published % BUFFERS), len(used))
            published += 1
            struct.pack_into("<I", ring, PUBLISHED, published)
        else:
            time.sleep(0.01)


main()
