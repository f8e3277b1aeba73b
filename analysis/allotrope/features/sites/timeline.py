# SPDX-License-Identifier: MIT
"""What a program held over time, by place of allocation and by size of block, from looks at its
table of sites while it runs (snapshot.py).

Every process of the command that keeps its sites is looked at: every 20 ms at first; at MOST_LOOKS
every second one is dropped, and twice the time passes between looks from then on.
"""

from dataclasses import dataclass, field
from typing import Sequence

from ...output.units import format_whole_bytes
from ...system.following import Follower
from .measure import Sites
from .snapshot import SiteTable, Unreadable, find_table

MOST_LOOKS = 400
SHOWN = 7  # places, and sizes, with a colour of their own; the rest has one together


@dataclass
class Timeline:
    """Of one process."""

    seconds: list[float] = field(default_factory=list)
    by_site: list[list[float]] = field(default_factory=list)  # of each look, bytes by site
    by_size: list[list[float]] = field(default_factory=list)  # likewise, by power of two

    def thin(self) -> None:
        del self.seconds[1::2], self.by_site[1::2], self.by_size[1::2]


@dataclass(frozen=True)
class Part:
    """One of the areas that are stacked."""

    name: str
    values: Sequence[float]


class Timelines(Follower):
    """The timelines of all processes of a command. Nothing happens unless wanted."""

    def __init__(self, wanted: bool, mark: str = "") -> None:
        super().__init__(mark)
        self.wanted = wanted
        self.found: dict[int, Timeline] = {}
        self.tables: dict[int, SiteTable] = {}

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for table in self.tables.values():
            table.close()

    def follow(self, pid: int) -> None:
        if self.wanted:
            super().follow(pid)

    def of(self, pid: int) -> Timeline | None:
        return self.found.get(pid)

    def prepare(self) -> None:
        import numpy  # noqa: F401

    def look(self, pids: Sequence[int], seconds: float) -> None:
        for pid in pids:
            self._look(pid, seconds)
        if any(len(one.seconds) >= MOST_LOOKS for one in self.found.values()):
            self.period *= 2
            for one in self.found.values():
                one.thin()

    def _look(self, pid: int, now: float) -> None:
        try:
            table = self.tables.get(pid) or find_table(pid)
        except OSError:
            return
        if table is None:
            return
        if pid not in self.tables:
            # Its first, or that of another program which it has become: the sites are others.
            self.tables[pid] = table
            self.found.pop(pid, None)
        try:
            sites, sizes = table.live_bytes()
        except Unreadable:
            if not table.is_there():
                del self.tables[pid]
                table.close()
            return
        timeline = self.found.setdefault(pid, Timeline())
        timeline.seconds.append(round(now, 3))
        timeline.by_site.append(sites)
        timeline.by_size.append(sizes)


def places_over_time(found: Sites, over_time: Timeline) -> list[Part]:
    """The largest places, and all others together. Sites have the same order in the report."""
    names = [str(site.allocates_at()) for site in found.sites]
    sums: dict[str, list[float]] = {}
    for look, sites in enumerate(over_time.by_site):
        for name, size in zip(names, sites):
            series = sums.setdefault(name, [0.0] * len(over_time.seconds))
            series[look] += max(size, 0.0)
    return _largest(sums, "all other places")


def sizes_over_time(over_time: Timeline) -> list[Part]:
    sums = {}
    for power in range(len(over_time.by_size[0])):
        series = [max(look[power], 0.0) for look in over_time.by_size]
        if any(series):
            sums[f"up to {format_whole_bytes(1 << power)}"] = series
    return _largest(sums, "all other sizes")


def _largest(sums: dict[str, list[float]], others: str) -> list[Part]:
    """In the order of what they held at most."""
    ordered = sorted(sums.items(), key=lambda one: -max(one[1]))
    parts = [Part(name, values) for name, values in ordered[:SHOWN]]
    rest = [values for _, values in ordered[SHOWN:]]
    if rest:
        parts.append(Part(others, [sum(column) for column in zip(*rest)]))
    return parts
