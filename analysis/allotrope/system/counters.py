# SPDX-License-Identifier: MIT
"""The counters that our library publishes in a process (trace/protocol/counters.h), found from
outside. The process is not stopped and does nothing for it."""

import os
import struct
from dataclasses import dataclass
from typing import Iterator, Sequence

MAGIC = b"allotrope-live/1"
NAME_BYTES, MOST_COUNTERS = 24, 32
HEAD = struct.Struct(f"<16s{NAME_BYTES}s{NAME_BYTES}sQ")
COUNTER = struct.Struct(f"<{NAME_BYTES}sQ")
WORD = struct.Struct("<Q")
UNIT_BYTES = 16  # of window_units


@dataclass(frozen=True)
class Published:
    allocator: str
    preset: str
    counters: dict[str, int]  # addresses

    def read(self, pid: int) -> dict[str, int]:
        """The counters' values. Raises OSError or struct.error where the memory is gone."""
        values = {}
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for name, address in self.counters.items():
                memory.seek(address)
                values[name] = WORD.unpack(memory.read(WORD.size))[0]
        return values


def heap_range(values: dict[str, int]) -> range:
    """The addresses of the window in which all heaps lie (vm/window.h)."""
    first = values["window_start"]
    return range(first, first + values["window_units"] * UNIT_BYTES)


def mapped_memory(pid: int, field: str) -> Iterator[tuple[range, str, int]]:
    """The addresses of each mapping, its name (empty without one) and a field of /proc/PID/smaps
    ("Rss") in bytes. Raises OSError when the process is gone."""
    addresses, name = range(0), ""
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(None, 5)
            if "-" in words[0]:
                addresses = range(*(int(word, 16) for word in words[0].split("-")))
                name = words[5].strip() if len(words) == 6 else ""
            elif words[0] == f"{field}:":
                yield addresses, name, int(words[1]) * 1024


def why_unreadable(pid: int) -> str:
    """Why the process may not be read, and what may mend it."""
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"process {pid} has ended"
    if owner != os.geteuid():
        return f"process {pid} belongs to user {owner}; run this as that user or as root"
    if os.geteuid() == 0:
        return (
            f"process {pid} may not be read, even by this root: in a container it takes "
            "CAP_SYS_PTRACE, and nobody reads a process of another user namespace"
        )
    return (
        f"process {pid} may not be read (kernel.yama.ptrace_scope, or it is not dumpable); run "
        "this as root"
    )


def find_published(pid: int, maps: Sequence[str]) -> Published | None:
    """maps: the lines of /proc/PID/maps. None where our library is not, or not yet ready. Raises
    OSError or struct.error for a process that may not be read or is gone."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end in _data_of_library(maps, program_of(pid)):
            memory.seek(start)
            found = _parse(memory.read(end - start))
            if found is not None:
                return found
    return None


def program_of(pid: int) -> str:
    """The file that the process runs; empty for a kernel thread, or when it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _data_of_library(maps: Sequence[str], program: str) -> list[tuple[int, int]]:
    """The writable mappings of our library, or of a static program that may hold it, and what
    lies behind each without a name (.bss)."""
    ranges: list[tuple[int, int]] = []
    ours_end = -1  # .bss begins there; what lies farther on may be the heap
    for line in maps:
        words = line.split(None, 5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        path = words[5].removesuffix(" (deleted)") if len(words) == 6 else ""
        is_named = os.path.basename(path).startswith("liballotrope") or path == program
        if path and is_named or (start == ours_end and not path):
            if words[1].startswith("rw"):
                # The counters may lie across the end of .data, where .bss begins.
                touches = bool(ranges) and ranges[-1][1] == start
                ranges.append((ranges.pop()[0] if touches else start, end))
            ours_end = end
    return ranges


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


def _parse(data: bytes) -> Published | None:
    place = data.find(MAGIC)
    if place < 0:
        return None
    _, allocator, preset, count = HEAD.unpack_from(data, place)
    counters = {}
    for number in range(min(count, MOST_COUNTERS)):
        name, address = COUNTER.unpack_from(data, place + HEAD.size + number * COUNTER.size)
        counters[_text(name)] = address
    return Published(_text(allocator), _text(preset), counters)
