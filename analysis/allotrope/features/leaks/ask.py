# SPDX-License-Identifier: MIT
"""Asks a process that runs under `leaks=report` for its leaks.

The report's address is published as that of the sites is (features/sites/snapshot.py). Its first
word is written from outside, through /proc/PID/mem; who next allocates or frees there sees that and
answers (shim/observers/leaks.h). A thread that waits in a system call is sent the signal of
the collector's stops with a code of its own, and answers from its handler; the wait goes on.
"""

import ctypes
import itertools
import os
import struct
import time
from typing import Any, Callable, Iterator

from ...system.errors import UserError
from ...system.process_tree import proc_text
from ..sites.snapshot import SiteTable, Unreadable, need_table

PUBLISHED = "leaks/1"
WORD = struct.Struct("<Q")
REPORT = struct.Struct("<QQQQQ4Q")  # as struct leak_report
TALLY = struct.Struct("<4Q")
ATTEMPTS = 5
# of gc/world/stop.c
STOP_SIGNAL, ASK_CODE = 33, -23118
SYS_RT_TGSIGQUEUEINFO = 297
SIGINFO = struct.Struct("<iii100x")
FIRST_NUDGE_SECONDS, NUDGE_SECONDS, PATIENCE_SECONDS = 0.02, 0.1, 5.0


def need_reporter(pid: int) -> SiteTable:
    """Raises UserError for what speaks against it."""
    table = need_table(pid, "leaks", "allotrope leaks -- CMD")
    if PUBLISHED not in table.published.counters:
        raise UserError(
            f"process {pid} does not look for leaks; start it with `allotrope leaks -- CMD`"
        )
    return table


def ask(table: SiteTable, say: Callable[[str], None]) -> dict[str, Any]:
    """The process's report as it writes it at exit. Raises Unreadable when it ends meanwhile."""
    address = table.published.counters[PUBLISHED]
    try:
        memory = os.open(f"/proc/{table.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(error.strerror) from None
    try:
        number = WORD.unpack(table.read(address, WORD.size))[0] + 1
        os.pwrite(memory, WORD.pack(number), address)
    except OSError as error:
        raise Unreadable(error.strerror) from None
    finally:
        os.close(memory)
    for seconds in waiting(table.pid):
        if REPORT.unpack(table.read(address, REPORT.size))[1] >= number:
            break
        if seconds >= PATIENCE_SECONDS:
            say(
                f"process {table.pid} computes: no thread of it has called malloc or free, nor "
                f"waited, for {seconds:.0f} s. It answers when one does; Ctrl-C gives up."
            )
    return read_report(table, address)


def waiting(pid: int) -> Iterator[float]:
    """While the process does not answer: seconds gone, and PATIENCE_SECONDS or more but once."""
    began = time.monotonic()
    nudged, told = began - NUDGE_SECONDS + FIRST_NUDGE_SECONDS, False
    turns = itertools.count()
    while True:
        gone = time.monotonic() - began
        yield gone if not told else 0.0
        told = told or gone >= PATIENCE_SECONDS
        if time.monotonic() - nudged >= NUDGE_SECONDS:
            nudge(pid, next(turns))
            nudged = time.monotonic()
        time.sleep(0.005)


def nudge(pid: int, turn: int) -> None:
    """Sends the signal to a thread that waits, each turn to the next: one that has too little stack
    does not answer."""
    try:
        tasks = sorted(int(one) for one in os.listdir(f"/proc/{pid}/task"))
        waiting = [task for task in tasks if may_answer(pid, task)]
    except (OSError, KeyError, ValueError):
        return  # a thread, or all of it, has ended
    if waiting:
        info = ctypes.create_string_buffer(SIGINFO.pack(STOP_SIGNAL, 0, ASK_CODE), 128)
        task = waiting[turn % len(waiting)]
        ctypes.CDLL(None).syscall(SYS_RT_TGSIGQUEUEINFO, pid, task, STOP_SIGNAL, info)


def may_answer(pid: int, task: int) -> bool:
    """Whether a thread waits, and has the handler."""
    lines = proc_text(pid, f"task/{task}/status").splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    catches = int(fields["SigCgt"], 16) & ~int(fields["SigBlk"], 16)
    return fields["State"].startswith("S") and bool(catches >> (STOP_SIGNAL - 1) & 1)


def read_report(table: SiteTable, address: int) -> dict[str, Any]:
    """The last answer, if nobody else asks meanwhile."""
    for _ in range(ATTEMPTS):
        head = REPORT.unpack(table.read(address, REPORT.size))
        _, answered, was_found, count, tallies, *unknown = head
        rows = list(TALLY.iter_unpack(table.read(tallies, TALLY.size * count)))
        document = table.report()
        after = REPORT.unpack(table.read(address, REPORT.size))
        if after[1:] == head[1:]:
            for site, row in zip(document["sites"], rows):
                site |= as_tallies(row)
            about = {"found": was_found, "unknown": as_tallies(unknown)}
            names = {"allocator": table.published.allocator, "preset": table.published.preset}
            return document | names | {"leaks": about}
    raise Unreadable("others keep asking it")


def as_tallies(words: Any) -> dict[str, dict[str, int]]:
    return {
        "direct": {"blocks": words[0], "bytes": words[1]},
        "indirect": {"blocks": words[2], "bytes": words[3]},
    }
