# SPDX-License-Identifier: MIT
"""The counters that our library publishes in a process (trace/protocol/counters.h), found from
outside. The process is not stopped and does nothing for it."""

import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Iterator, Sequence

from .elf_files import ask

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

MAGIC = b"allotrope-live/1"
SECTION = "allotrope_live"
NAME_BYTES, MOST_COUNTERS = 24, 48
HEAD = struct.Struct(f"<16s{NAME_BYTES}s{NAME_BYTES}sQ")
COUNTER = struct.Struct(f"<{NAME_BYTES}sQ")
RECORD_BYTES = HEAD.size + MOST_COUNTERS * COUNTER.size
WORD = struct.Struct("<Q")
UNIT_BYTES = 16  # of window_units
DELETED = " (deleted)"  # behind the name of a file that is gone or was replaced


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
        for place in _places(pid, maps):
            memory.seek(place.start)
            found = _parse(memory.read(len(place)))
            if found is not None:
                return found
    return None


def _places(pid: int, maps: Sequence[str]) -> Iterator[range]:
    """The addresses where the counters may lie. A program that was linked with our library may have
    any amount of data: its file tells the very place. Of the library itself all that it has in its
    file and may write is a few pages; its file may have been replaced since."""
    program = program_of(pid).removesuffix(DELETED)
    for line in maps:
        words = line.split(None, 5)
        if len(words) < 6 or not words[1].startswith("rw"):
            continue
        addresses = range(*(int(word, 16) for word in words[0].split("-")))
        path = words[5].removesuffix(DELETED)
        if path == program:
            offset = _offset_in_file(f"/proc/{pid}/exe")
            start = addresses.start + offset - int(words[2], 16) if offset is not None else 0
            if start in addresses:
                yield range(start, start + RECORD_BYTES)
        elif os.path.basename(path).startswith("liballotrope"):
            yield addresses


def carries_ours(program: str) -> bool:
    """Whether a program was linked with liballotrope.a."""
    return _offset_in_file(program) is not None


def _offset_in_file(program: str) -> int | None:
    """None where our library is not in it."""
    try:
        return ask(program, _offset)
    except (OSError, ValueError):
        return None


def _offset(elf: "ELFFile") -> int | None:
    section = elf.get_section_by_name(SECTION)
    return None if section is None else int(section["sh_offset"])


def program_of(pid: int) -> str:
    """The file that the process runs; empty for a kernel thread, or when it is gone."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


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
