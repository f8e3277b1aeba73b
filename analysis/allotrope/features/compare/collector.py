# SPDX-License-Identifier: MIT
"""What a collector did, in words, from a heap's account (docs/compare-format.md)."""

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from ...output.units import format_nanoseconds


@dataclass(frozen=True)
class Kind:
    """Stops of one kind; or slices of cycles, in which only the allocating thread stands."""

    name: str
    plural: str
    count: int
    time_ns: int
    longest_ns: int
    phases_ns: Mapping[str, int]  # stopping, roots, marking, sweeping; empty for slices


def kinds(collector: Mapping[str, Any]) -> list[Kind]:
    """The kinds of pauses that occurred. Empty without generations: all pauses are full ones."""
    found = []
    for key, name, plural in (
        ("minor", "minor", "minor"),
        ("full", "full", "full"),
        ("first_stop", "first stop of a cycle", "first stops of cycles"),
    ):
        if counted := collector.get(key):
            phases = {phase: counted[f"{phase}_ns"] for phase in ("stop", "root", "mark", "sweep")}
            times = (counted["collections"], counted["pause_ns"], counted["longest_pause_ns"])
            found.append(Kind(name, plural, *times, phases))
    if counted := collector.get("cycles"):
        times = (counted["slices"], counted["slice_ns"], counted["longest_slice_ns"])
        found.append(Kind("slice of a cycle", "slices of cycles", *times, {}))
    return [kind for kind in found if kind.count]


def collections_line(collector: Mapping[str, Any]) -> str:
    """How many collections there were, why, and how long the program stood for them."""
    count = collector["collections"]
    if not count:
        line = "no collection came due"
    else:
        causes = causes_in_words(collector["causes"])
        why = "" if causes == "–" else f" ({causes})"
        line = (
            f"{count:,} {'collection' if count == 1 else 'collections'}{why}, paused "
            f"{format_nanoseconds(collector['pause_ns'])} in all, "
            f"{format_nanoseconds(collector['longest_pause_ns'])} at most"
        )
    for kind in kinds(collector):
        name = kind.name if kind.count == 1 else kind.plural
        line += f"; {kind.count:,} {name}, {format_nanoseconds(kind.longest_ns)} at most"
    if count and (running := least_running(collector)):
        line += f"; of any 1, 10, 100 ms it ran at least {running}"
    given_up = given_up_in_words(collector)
    return line if given_up == "–" else f"{line}; given up: {given_up}"


def causes_in_words(causes: Mapping[str, int]) -> str:
    """Why collections came, or were given up, the most frequent first."""
    found = sorted(((count, cause) for cause, count in causes.items() if count), reverse=True)
    if len(found) == 1:
        return found[0][1].replace("_", " ")
    return ", ".join(f"{cause.replace('_', ' ')} {count:,}" for count, cause in found) or "–"


def given_up_in_words(collector: Mapping[str, Any]) -> str:
    """Why, and for how long the program stood for it; its pauses are those that reclaimed."""
    reasons = causes_in_words(collector["given_up"])
    stood = collector.get("given_up_ns", 0)
    return f"{reasons} ({format_nanoseconds(stood)})" if stood else reasons


def least_running(collector: Mapping[str, Any]) -> str:
    """The minimum mutator utilisation: the least share of any so many milliseconds in a row in
    which the world was not stopped. Empty where it was not kept."""
    stopped = collector.get("stopped") or {}
    shares = []
    for milliseconds in (1, 10, 100):
        longest = stopped.get(f"longest_in_{milliseconds}_ms_ns")
        if longest is None:
            return ""
        shares.append(f"{max(0.0, 1 - longest / (milliseconds * 1e6)):.0%}")
    return ", ".join(shares)


@dataclass(frozen=True)
class Collected:
    """Collections that ended between two points of a timeline."""

    place: int  # index of the second point
    full: int
    minor: int
    stopped_ns: int  # since the collections before, first stops of cycles included

    def in_words(self) -> str:
        counts = ((self.full, "full"), (self.minor, "minor"))
        numbers = ", ".join(f"{count:,} {kind}" for count, kind in counts if count)
        noun = "collection" if self.full + self.minor == 1 else "collections"
        return f"{numbers} {noun}, stopped for {format_nanoseconds(self.stopped_ns)}"


def collected(timeline: Mapping[str, Sequence[int]]) -> list[Collected]:
    """Between which points collections ended. Empty without a collector.

    The counts of a timeline are from the start on.
    """
    if "collections" not in timeline:
        return []
    found, before = [], (0, 0, 0)
    counts = zip(timeline["collections"], timeline["minor_collections"], timeline["pause_ns"])
    for place, now in enumerate(counts):
        every, minor, stopped_ns = (new - old for new, old in zip(now, before))
        if every > 0:
            found.append(Collected(place, every - minor, minor, stopped_ns))
            before = now
    return found
