# SPDX-License-Identifier: MIT
"""What `allotrope stats PID` prints."""

from typing import Any

from ...output.sentences import counted
from ...output.text import one_line
from ...output.units import format_bytes, format_count, format_nanoseconds
from .process import GIVEN_UP


def as_lines(found: dict[str, Any]) -> list[str]:
    """For people."""
    allocator = found["allocator"]
    if found["preset"] != "default":
        allocator += f":{found['preset']}"
    calls = ", ".join(f"{count} {name}" for name, count in found["system_calls"].items() if count)
    most = format_bytes(found["mapped_peak_bytes"])
    rows = [
        ("process", f"{found['command']}, pid {found['pid']}, under {allocator}"),
        ("heap", f"{format_bytes(found['mapped_bytes'])}, at most {most}"),
        ("of it resident", format_bytes(found["heap_resident_bytes"])),
        ("of it metadata", format_bytes(found["metadata_bytes"])),
        ("process resident", format_bytes(found["process_resident_bytes"])),
        ("system calls", calls or "none"),
    ]
    held = found["live"]
    if held is None:
        rows.append(("program holds", "not counted; start it with `run --stats` to know"))
    else:
        over = held["heap_over_requested"]
        ratio = f"; the heap is {over:.2f} times as large" if over else ""
        made = sum(held["calls"].values()) - held["calls"]["free"]
        size = format_bytes(held["requested_bytes"])
        rows += [
            ("program holds", f"{size} in {counted(held['blocks'], 'block')}{ratio}"),
            ("program held at most", format_bytes(held["most_requested_bytes"])),
            ("calls so far", f"{made:,} allocations, {held['calls']['free']:,} frees"),
        ]
    rows += _collection_rows(found["collections"])
    return [one_line(f"{name:<22}{text}") for name, text in rows]


def _collection_rows(made: dict[str, Any] | None) -> list[tuple[str, str]]:
    """None: there is no collector."""
    if made is None:
        return []
    minor = f", {made['minor']:,} of them minor" if made.get("minor") else ""
    pauses = format_nanoseconds(made["pause_ns"])
    longest = format_nanoseconds(made["longest_pause_ns"])
    rows = [("collections", f"{made['count']:,}{minor}")]
    if made["count"]:
        rows.append(("the program stood", f"{pauses} in all, {longest} at most"))
        if "freed_bytes" in made:
            rows.append(("they freed", format_bytes(made["freed_bytes"])))
        rows.append(("live after the last", format_bytes(made["live_bytes"])))
    lost = [f"{count:,}: {GIVEN_UP[name]}" for name, count in made["given_up"].items() if count]
    return rows + ([("given up", "; ".join(lost))] if lost else [])


def watch_header(has_collector: bool) -> str:
    names = ["heap", "resident", "process", "program"]
    header = f"{'time':>8} " + " ".join(f"{name:>10}" for name in names) + f" {'blocks':>9}"
    return header + (
        f" {'collections':>11} {'given up':>8} {'longest':>8}" if has_collector else ""
    )


def watch_line(found: dict[str, Any], seconds: float) -> str:
    held = found["live"]
    holds = format_bytes(held["requested_bytes"]) if held else "-"
    blocks = format_count(held["blocks"]) if held else "-"
    sizes = (found["mapped_bytes"], found["heap_resident_bytes"], found["process_resident_bytes"])
    columns = " ".join(f"{format_bytes(size):>10}" for size in sizes)
    line = f"{seconds:7.1f}s {columns} {holds:>10} {blocks:>9}"
    made = found["collections"]
    if made is None:
        return line
    longest = format_nanoseconds(made["longest_pause_ns"]) if made["count"] else "-"
    lost = sum(made["given_up"].values())
    return f"{line} {made['count']:>11,} {lost:>8,} {longest:>8}"
