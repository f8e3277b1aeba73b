# SPDX-License-Identifier: MIT
"""`allotrope stats PID`: the heap of a process that runs under one of our allocators, read from
outside. The process is not stopped and does nothing for it; shim/live.h says how."""

import json
import os
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..output.units import format_bytes, format_count
from ..system.errors import UserError

SCHEMA = "allotrope.live/1"
MAGIC = b"allotrope-live/1"
NAME_BYTES, MOST_COUNTERS = 24, 32
HEAD = struct.Struct(f"<16s{NAME_BYTES}s{NAME_BYTES}sQ")
COUNTER = struct.Struct(f"<{NAME_BYTES}sQ")
WORD = struct.Struct("<Q")
UNIT_BYTES = 16  # of window_units
SYSTEM_CALLS = ("mmap", "munmap", "mremap", "madvise")
CALLS = ("malloc", "calloc", "realloc", "aligned", "free")


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode(errors="replace")


@dataclass
class Process:
    """A process that was found to run under our library, and where its counters are."""

    pid: int
    started: str  # tells it from a later process of the same number
    allocator: str
    preset: str
    counters: dict[str, int]  # addresses

    def read(self) -> dict[str, int]:
        """The counters' values. Raises UserError when the process has ended."""
        try:
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
                values = {}
                for name, address in self.counters.items():
                    memory.seek(address)
                    values[name] = WORD.unpack(memory.read(WORD.size))[0]
        except (OSError, struct.error):
            raise _ended(self.pid) from None
        if _started(self.pid) != self.started:
            raise _ended(self.pid)
        return values

    def snapshot(self) -> dict[str, Any]:
        """allotrope.live/1: what is known of the heap at this moment."""
        values = self.read()
        resident, heap_resident = _resident(self.pid, values)
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "pid": self.pid,
            "command": _command(self.pid),
            "allocator": self.allocator,
            "preset": self.preset,
            "mapped_bytes": values["mapped_bytes"],
            "mapped_peak_bytes": values["mapped_peak_bytes"],
            "metadata_bytes": values["metadata_bytes"],
            "heap_resident_bytes": heap_resident,
            "process_resident_bytes": resident,
            "system_calls": {name: values[name] for name in SYSTEM_CALLS},
            "live": None,
        }
        if "live_blocks" in values:
            requested = values["live_requested_bytes"]
            document["live"] = {
                "blocks": values["live_blocks"],
                "requested_bytes": requested,
                "most_requested_bytes": values["most_requested_bytes"],
                "total_blocks": values["total_blocks"],
                "total_requested_bytes": values["total_requested_bytes"],
                "heap_over_requested": values["mapped_bytes"] / requested if requested else None,
                "calls": {name: values[f"{name}_calls"] for name in CALLS},
            }
        return document


def _ended(pid: int) -> UserError:
    return UserError(f"process {pid} has ended", 1)


def _started(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        raise _ended(pid) from None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        raise _ended(pid) from None


def find(pid: int) -> Process:
    """Raises UserError for what speaks against it: no such process, somebody else's, or one that
    does not run under our library."""
    if not Path(f"/proc/{pid}").is_dir():
        raise UserError(f"there is no process {pid}")
    started = _started(pid)
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for start, end in _data_of_library(maps, _program(pid)):
                memory.seek(start)
                found = _parse(memory.read(end - start))
                if found is not None:
                    return Process(pid, started, *found)
    except PermissionError:
        raise UserError(_forbidden(pid)) from None
    except (OSError, struct.error):
        raise _ended(pid) from None
    if not maps:
        raise UserError(f"process {pid} has no memory: it is a kernel thread or has just ended")
    raise UserError(
        f"process {pid} ({_command(pid)}) does not run under allotrope; start it with `allotrope "
        "run -a ALLOCATOR -- CMD`"
    )


def _forbidden(pid: int) -> str:
    try:
        owner = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"process {pid} has ended"
    if owner != os.geteuid():
        return f"process {pid} belongs to user {owner}; run this as that user or as root"
    return (
        f"process {pid} may not be read (kernel.yama.ptrace_scope, or it is not dumpable); run "
        "this as root"
    )


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""  # a kernel thread


def _data_of_library(maps: list[str], program: str) -> list[tuple[int, int]]:
    """The writable mappings of our library, or of a static program that may hold it, and what
    lies behind each without a name (.bss)."""
    ranges, was_ours = [], False
    for line in maps:
        words = line.split(None, 5)
        path = words[5].removesuffix(" (deleted)") if len(words) == 6 else ""
        is_named = os.path.basename(path).startswith("liballotrope") or path == program
        if path and is_named or (was_ours and not path):
            if words[1].startswith("rw"):
                start, end = (int(word, 16) for word in words[0].split("-"))
                ranges.append((start, end))
            was_ours = True
        else:
            was_ours = False
    return ranges


def _parse(data: bytes) -> tuple[str, str, dict[str, int]] | None:
    place = data.find(MAGIC)
    if place < 0:
        return None
    _, allocator, preset, count = HEAD.unpack_from(data, place)
    counters = {}
    for number in range(min(count, MOST_COUNTERS)):
        name, address = COUNTER.unpack_from(data, place + HEAD.size + number * COUNTER.size)
        counters[_text(name)] = address
    return _text(allocator), _text(preset), counters


def _resident(pid: int, values: dict[str, int]) -> tuple[int, int]:
    """Resident bytes of the process, and of it the heap's: the mappings in the window."""
    first = values["window_start"]
    last = first + values["window_units"] * UNIT_BYTES
    whole = heap = 0
    inside = False
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("Rss:"):
                    size = int(line.split()[1]) * 1024
                    whole += size
                    heap += size if inside else 0
                elif "-" in line.split(" ", 1)[0]:
                    start = int(line.partition("-")[0], 16)
                    inside = first <= start < last
    except OSError:
        raise _ended(pid) from None
    return whole, heap


def as_lines(found: dict[str, Any]) -> list[str]:
    """For people."""
    allocator = found["allocator"]
    if found["preset"] != "default":
        allocator += f":{found['preset']}"
    calls = ", ".join(f"{count} {name}" for name, count in found["system_calls"].items() if count)
    rows = [
        ("process", f"{found['command']}, pid {found['pid']}, under {allocator}"),
        ("heap", f"{format_bytes(found['mapped_bytes'])}, at most "
                 f"{format_bytes(found['mapped_peak_bytes'])}"),
        ("of it resident", format_bytes(found["heap_resident_bytes"])),
        ("of it metadata", format_bytes(found["metadata_bytes"])),
        ("process resident", format_bytes(found["process_resident_bytes"])),
        ("system calls", calls or "none"),
    ]  # fmt: skip
    live = found["live"]
    if live is None:
        rows.append(("program holds", "not counted; start it with `run --stats` to know"))
    else:
        over = live["heap_over_requested"]
        ratio = f"; the heap is {over:.2f} times as large" if over else ""
        made = sum(live["calls"].values()) - live["calls"]["free"]
        rows += [
            ("program holds", f"{format_bytes(live['requested_bytes'])} in {live['blocks']:,} "
                              f"blocks{ratio}"),
            ("program held at most", format_bytes(live["most_requested_bytes"])),
            ("calls so far", f"{made:,} allocations, {live['calls']['free']:,} frees"),
        ]  # fmt: skip
    return [f"{name:<22}{text}" for name, text in rows]


WATCH_HEADER = (
    f"{'time':>8} {'heap':>10} {'resident':>10} {'process':>10} {'program':>10} {'blocks':>9}"
)


def watch_line(found: dict[str, Any], seconds: float) -> str:
    live = found["live"]
    holds = format_bytes(live["requested_bytes"]) if live else "-"
    blocks = format_count(live["blocks"]) if live else "-"
    sizes = (found["mapped_bytes"], found["heap_resident_bytes"], found["process_resident_bytes"])
    columns = " ".join(f"{format_bytes(size):>10}" for size in sizes)
    return f"{seconds:7.1f}s {columns} {holds:>10} {blocks:>9}"


@click.command("stats")
@click.argument("pid", type=click.IntRange(min=1))
@click.option("--json", "as_json", is_flag=True, help=f"write JSON ({SCHEMA})")
@click.option("--watch", is_flag=True, help="a line every --interval until it ends or Ctrl-C")
@click.option("--interval", type=click.FloatRange(min=0.01), default=1.0, show_default=True,
              metavar="SECONDS", help="with --watch")  # fmt: skip
@click.pass_context
def stats(context: click.Context, pid: int, as_json: bool, watch: bool, interval: float) -> int:
    """Show the heap of the running process PID, which is under one of allotrope's allocators."""
    source = context.get_parameter_source("interval")
    if not watch and source == click.core.ParameterSource.COMMANDLINE:
        raise UserError("--interval needs --watch")
    process = find(pid)
    if not watch:
        found = process.snapshot()
        click.echo(json.dumps(found, indent=2) if as_json else "\n".join(as_lines(found)))
        return 0
    began = time.monotonic()
    if not as_json:
        click.echo(WATCH_HEADER)
    while True:
        try:
            found = process.snapshot()
        except UserError as error:
            click.echo(error.message, err=True)
            return 0
        seconds = time.monotonic() - began
        line = json.dumps({"seconds": seconds} | found) if as_json else watch_line(found, seconds)
        click.echo(line)
        time.sleep(interval)
