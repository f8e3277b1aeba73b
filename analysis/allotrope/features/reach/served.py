# SPDX-License-Identifier: MIT
"""Who really served the processes of a contender's run ("served" of docs/compare-format.md), and
of which processes a report of our library's knows nothing.

A contender is *in reach* of a process when its allocator serves it. The processes of one command
that are served alike are one row. The main row is the one that used most CPU, of a server under the
load: what starts it (a script, pyenv's shell) is not what serves. Where the contender is not in the
main row's reach, the contender's figures are somebody else's, and carry no verdict.
"""

import os
from dataclasses import dataclass, replace
from typing import Any, Collection, Mapping, Sequence

from ...output.sentences import Sentence, enumerate_names
from ...system.allocators import Allocator
from ...system.machine import proc_is_mounted
from ...system.process_tree import Window
from ...system.serving import (
    KILLED,
    OUTLIVES,
    PRIVATE,
    Onlooker,
    Process,
    Serving,
    name_of_title,
)

MOST_ROWS = 20
MOST_NAMED = 4
MOST_COUNTED = 8
NO_ACCOUNT = "it did not serve the process that used most CPU"
# Seconds between two looks at a command's processes from which on a report tells of it. Usual are
# some hundredths, and a loaded machine stretches them.
NOTICEABLE_GAP = 0.5
# Looks miss what begins and ends between two of them.
AT_LEAST = "at least "
NO_PTRACE = "for the kernel allows no ptrace"
WORDS = {"own": "its own malloc", "static": "its own (static)", "unknown": "unknown"}
# Why nobody looked at a process, or at its end.
UNSEEN = {
    KILLED: "it was killed, and gone before it was looked at",
    OUTLIVES: "it still ran when the command had ended",
    PRIVATE: "it may not be read: it is another user's, setuid or not dumpable, or Yama forbids it",
}
# Of a row, what is known of processes that our library does not hear of.
NOT_SEEN = ("command", "processes", "allocator", "object", "unseen")


def is_served_by(serving: Serving, allocator: Allocator) -> bool:
    if allocator.ours:
        return serving.allocator.partition(":")[0] == allocator.name
    if allocator.library is None:
        return serving.allocator == "glibc"
    library = os.path.realpath(allocator.library)
    return serving.object is not None and os.path.realpath(serving.object) == library


def account(
    processes: Sequence[Process], allocator: Allocator, window: Window | None = None
) -> dict[str, Any] | None:
    """None when nothing was seen. window: CPU time counts within it alone."""
    rows: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for process in processes:
        serving = process.serving
        key = process.command, serving.allocator, serving.object, process.unseen
        row = rows.setdefault(
            key,
            {
                "command": process.command,
                "allocator": serving.allocator,
                "object": serving.object,
                "unseen": process.unseen,
                "in_reach": is_served_by(serving, allocator) if serving.is_known else None,
                "processes": 0,
                "cpu_seconds": 0.0,
                "allocations": None,
                "heap_bytes": None,
                "own_bytes": None,
                "malloc_share": None,
            },
        )
        row["processes"] += 1
        if process.anonymous_bytes:
            own = process.anonymous_bytes - process.heap_bytes
            row["heap_bytes"] = (row["heap_bytes"] or 0) + process.heap_bytes
            row["own_bytes"] = (row["own_bytes"] or 0) + own
        row["cpu_seconds"] += _cpu_seconds(process, window)
        if serving.allocations is not None:
            row["allocations"] = (row["allocations"] or 0) + serving.allocations
    if not rows:
        return None
    found = sorted(rows.values(), key=lambda row: -float(row["cpu_seconds"]))
    counts = [row["allocations"] for row in found if row["allocations"] is not None]
    whole = sum(row["cpu_seconds"] for row in found)
    reached = sum(row["cpu_seconds"] for row in found if row["in_reach"])
    return {
        "in_reach": found[0]["in_reach"],
        "cpu_share": reached / whole if whole else None,
        "allocations": sum(counts) if counts else None,
        "processes": sum(row["processes"] for row in found),
        "rows": found[:MOST_ROWS],
    }


def _cpu_seconds(process: Process, window: Window | None) -> float:
    if window is None:
        return process.cpu_seconds
    return window.cpu_seconds(process.pid, process.cpu_seconds, process.ended)


def account_by_reports(
    reports: Sequence[Mapping[str, Any]], allocator: Allocator, processes: int | None
) -> dict[str, Any] | None:
    """The same where nobody could look, from the reports that our library wrote at the end of each
    process, which know no CPU time. They prove who served when there is one of every process, each
    with allocations; None when they prove nothing. processes: how many there were, as far as that
    is known."""
    if processes is None or len({report["pid"] for report in reports}) < processes:
        return None
    rows = []
    for report in reports:
        serving = Serving(_reported(report), None, int(report["total"]["blocks"]))
        known = {allocator.name, os.path.realpath(allocator.library or "").rpartition("/")[2]}
        if serving.allocator.partition(":")[0] not in known or not serving.allocations:
            return None
        rows.append(Process(report["pid"], report["command"], 0.0, serving))
    found = account(rows, allocator)
    if found is not None:
        for row in found["rows"]:
            row |= {"in_reach": True, "cpu_seconds": None}
        found |= {"in_reach": True, "cpu_share": None}
    return found


def _reported(report: Mapping[str, Any]) -> str:
    preset = "" if report["preset"] == "default" else f":{report['preset']}"
    return f"{report['allocator']}{preset}"


def note_share(served: dict[str, Any] | None, heap: Mapping[str, Any] | None) -> None:
    """Of each row: how much of its processes' memory malloc was asked for ("malloc_share"). What
    the program maps itself is weighed at its end, what it asks of malloc is known at its most; of
    several processes the heaps are weighed as well."""
    accounted = None if heap is None else name_of_title(heap["command"])
    for row in served["rows"] if served is not None else ():
        asked, own = row["heap_bytes"], row["own_bytes"]
        if asked is None:
            continue
        if heap is not None and row["processes"] == 1 and row["command"] == accounted:
            asked = heap["requested_peak_bytes"]
        row["malloc_share"] = asked / (asked + own) if asked + own else None


def malloc_share(results: Sequence[Mapping[str, Any]], command: str) -> float | None:
    """By the most cautious account; None where nobody weighed it."""
    return max(_of_main_rows(results, command, "malloc_share"), default=None)


def own_bytes(results: Sequence[Mapping[str, Any]], command: str) -> float:
    """What the command maps itself, by the most cautious account."""
    return min(_of_main_rows(results, command, "own_bytes"), default=0)


def _of_main_rows(results: Sequence[Mapping[str, Any]], command: str, key: str) -> list[float]:
    rows = [row for one in results for row in (one.get("served") or {"rows": ()})["rows"][:1]]
    found = [row.get(key) for row in rows if row["command"] == command]
    return [value for value in found if value is not None]


def is_out_of_reach(served: Mapping[str, Any] | None) -> bool:
    """Known to be."""
    return served is not None and served["in_reach"] is False


def is_unknown(served: Mapping[str, Any] | None) -> bool:
    """Whether the process that used most CPU may have been anybody's."""
    return served is None or served["in_reach"] is None


def why_unknown(result: Mapping[str, Any]) -> str:
    """Why it is not known who served a result's program, and what to do where that is known."""
    missing = result.get("served_missing")
    if missing:
        return str(missing)
    row = result["served"]["rows"][0] if result.get("served") else None
    if row is None:
        return "for nobody looked"
    unseen = UNSEEN.get(row.get("unseen") or "", "its loader could not be followed")
    return f"for of {row['command']}, which used most CPU, {unseen}"


def who(row: Mapping[str, Any]) -> str:
    """Who serves a row, for a table."""
    if row.get("unseen") is not None:
        return f"unknown: {UNSEEN[row['unseen']]}"
    return WORDS.get(row["allocator"], str(row["allocator"]))


def stranger(result: Mapping[str, Any]) -> str:
    """The command whose processes used most CPU, and who served it, of a result that did not."""
    return _stranger(result["served"]["rows"][0])


def cell(served: Mapping[str, Any] | None) -> str:
    """For the column "served by": who serves the main command, and its allocations."""
    if served is None:
        return "–"
    main = served["rows"][0]
    count = main["allocations"]
    if main.get("unseen") is not None:
        return WORDS["unknown"]
    return who(main) if count is None else f"{who(main)} ({short_count(count)})"


def by_command(served: Mapping[str, Any] | None) -> str:
    """The allocations of each row, in words, where there are several rows."""
    rows = served["rows"] if served is not None else []
    if served is None or len(rows) < 2:
        return ""
    named = [_counted(row) for row in rows[:MOST_COUNTED]]
    if len(rows) > MOST_COUNTED:
        named.append(f"{len(rows) - MOST_COUNTED} more commands")
    return ", ".join(named)


def _counted(row: Mapping[str, Any]) -> str:
    count = row["allocations"]
    words = str(row["command"]) + (" not counted" if count is None else f" {short_count(count)}")
    if row["processes"] > 1:
        words += f" in {row['processes']} processes"
    whose = "static" if row["allocator"] == "static" else who(row).removeprefix("unknown: ")
    return words if row["in_reach"] else f"{words} ({whose})"


def short_count(count: int) -> str:
    if count < 10_000:
        return str(count)
    return f"{count / 1e3:.0f}k" if count < 10_000_000 else f"{count / 1e6:.0f}M"


def notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the reader of the contenders' rows must know: whom they did not serve. Those of whom the
    same is to be said share a line. results: each with `spec`, `served` and `served_missing`."""
    strangers: dict[str, list[Mapping[str, Any]]] = {}
    lines = []
    for one in results:
        if one["served"] is None:
            missing = one["served_missing"]
            lines += [f"{one['spec']}: who served it is not known, {missing}."] if missing else []
        elif named := strangers_of(one["served"]):
            strangers.setdefault(named, []).append(one)
    for named, those in strangers.items():
        if are_builds_alone(results):
            specs = enumerate_names([one["spec"] for one in those])
            whose = those[0]["allocator"]
            lines.append(
                f"In {specs} {whose} did not serve {named}; builds are compared as they are."
            )
            continue
        shares = [one["served"].get("cpu_share") for one in those]
        most = max((share for share in shares if share is not None), default=None)
        line = f"{enumerate_names([one['spec'] for one in those])} did not serve {named}"
        if most is not None:
            served = "it did serve" if len(those) == 1 else "they did serve"
            line += f"; what {served} used {100 * most:.0f}% of the CPU"
        lines.append(f"{line}.")
    return lines


def are_builds_alone(results: Sequence[Mapping[str, Any]]) -> bool:
    """Whether builds of a program are what differs, and not the allocator."""
    if not are_builds(results):
        return False
    choices = [[one[key] for key in ("allocator", "preset", "options")] for one in results]
    return all(choice == choices[0] for choice in choices)


def are_builds(results: Sequence[Mapping[str, Any]]) -> bool:
    """A document of before does not know its builds."""
    return all(one.get("build") is not None for one in results)


def strangers_of(served: Mapping[str, Any]) -> str:
    """Those commands that others served, and who; empty when there are none."""
    strangers = [row for row in served["rows"] if row["in_reach"] is False]
    return _name_all(strangers) if strangers else ""


def _name_all(strangers: Sequence[Mapping[str, Any]], least: str = "") -> str:
    return _some_names([_stranger(row, least) for row in strangers])


def _stranger(row: Mapping[str, Any], least: str = "") -> str:
    """least: stands before the number of processes, where there may be more."""
    count = "" if row["processes"] == 1 else f", {least}{row['processes']} processes"
    return f"{row['command']} ({_who_did(row)}{count})"


def _who_did(row: Mapping[str, Any]) -> str:
    if row.get("unseen") is not None:
        return UNSEEN[row["unseen"]]
    kind = row["allocator"]
    if kind == "own":
        return "it has a malloc of its own"
    if kind == "static":
        return "it is linked statically"
    return f"{os.path.basename(row['object'] or '') or kind} did"


def not_seen(
    processes: Sequence[Process], allocator: Allocator, heard_of: Collection[int]
) -> list[dict[str, Any]]:
    """Of the processes of a run, which an Onlooker saw, those whose calls do not come to our
    library, of which nobody may know it, or that run on, alike ones in a row, most CPU first.
    heard_of: the ids of those whose reports tell of calls: a malloc of the program's own may pass
    some on."""
    strangers = [
        one
        for one in processes
        if one.pid not in heard_of
        and (one.unseen is not None or one.serving.is_known and not one.serving.reaches_us)
    ]
    found = account(strangers, allocator)
    return [{key: row[key] for key in NOT_SEEN} for row in found["rows"]] if found else []


@dataclass(frozen=True)
class NotSeen:
    """What a report of our library's does not tell of, by looks from outside."""

    rows: Sequence[Mapping[str, Any]] | None  # of not_seen(); None: nobody could look
    longest_gap: float = 0.0  # seconds between two looks
    perhaps: Sequence[str] = ()  # orphaned processes' names, where nothing tells whose they are

    def as_document(self) -> dict[str, Any]:
        """docs/sites.md."""
        gap = None if self.rows is None else round(self.longest_gap, 3)
        perhaps = None if self.rows is None else list(self.perhaps)
        return {"not_seen": self.rows, "longest_gap_seconds": gap, "perhaps": perhaps}

    def without(self, named: Collection[str]) -> "NotSeen":
        """named: commands of which the report says the same, for they wrote one."""
        rows = self.rows and [row for row in self.rows if row["command"] not in named]
        return replace(self, rows=rows)

    def clauses(self) -> list[str]:
        if self.rows is None:
            return ["/proc is not mounted, so nobody could see whom our library did not serve"]
        found = []
        if known := self._rows(None):
            found.append(f"our library did not serve {_name_all(known, AT_LEAST)}")
        if unseen := self._rows(PRIVATE, KILLED):
            found.append(f"whether our library served {_name_all(unseen, AT_LEAST)} is not known")
        if running := self._rows(OUTLIVES):
            names = _some_names([row["command"] for row in running])
            found.append(
                f"{names} still ran when the command had ended, and will report to nobody; a "
                "process that runs can be asked by its id (see --help)"
            )
        if self.perhaps:
            found.append(
                f"whether {_some_names(self.perhaps)}, orphaned while the command ran and without "
                "an environment that may be read, came from it is not known"
            )
        if self.longest_gap >= NOTICEABLE_GAP:
            found.append(
                f"{self.longest_gap:.1f} s passed between two looks at the command's processes, so "
                "one that ran for less may have been missed"
            )
        return found

    def _rows(self, *unseen: str | None) -> list[Mapping[str, Any]]:
        """Those that were not looked at for one of these reasons; None: those that were."""
        return [row for row in self.rows or () if row["unseen"] in unseen]

    def sentences(self, what: str) -> list[Sentence]:
        """what: of what the report does not tell where our library did not serve."""
        clauses = self.clauses()
        if self.rows is None or self._rows(None):
            clauses[0] += f"; {what} is not known"
        return [Sentence("note", "Not seen", f"{clause}.") for clause in clauses]


def seen_by(onlooker: Onlooker, allocator: Allocator, heard_of: Collection[int]) -> NotSeen:
    """heard_of: as of not_seen()."""
    if not proc_is_mounted():
        return NotSeen(None)
    rows = not_seen(onlooker.processes, allocator, heard_of)
    perhaps = {name for pid, name in onlooker.perhaps.items() if pid not in heard_of}
    return NotSeen(rows, onlooker.longest_gap, sorted(perhaps))


def _some_names(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_NAMED} more commands"] if len(names) > MOST_NAMED else []
    return enumerate_names([*names[:MOST_NAMED], *more])
