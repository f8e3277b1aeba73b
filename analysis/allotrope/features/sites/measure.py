# SPDX-License-Identifier: MIT
"""Where a program allocates what it holds: what the library's sample of one run says, with names.

A *site* is a stack of callers of malloc. Of each: what it held when the program held most
("peak"), what it still held at the end ("exit"), all that it ever allocated ("total"), and what of
that was *temporary*: freed at once, with no other call of its thread between.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from ...output.pprof import Frame
from ...system.allocators import Allocator
from ...system.native import read_reports
from ...system.serving import Onlooker
from ...system.symbols import Place, Symbols
from ..reach import served

MOMENTS = ("peak", "exit", "total")
# The C++ library's own machinery between the program and malloc says little about where.
LIBRARY_NAMES = ("operator new", "_Znwm", "_Znam", "std::", "__gnu_cxx::", "void std::")
# Where its headers lie: what is inlined from there is named without `std::`, `allocate` say.
LIBRARY_HEADERS = "/include/c++/"
# Standard deviations: of the largest of thousands of estimates, and of one.
OF_MANY, OF_ONE = 3.7, 2.0
# Who calls main is of no interest.
START_NAMES = ("__libc_start_", "_start")


@dataclass(frozen=True)
class Tally:
    blocks: int = 0
    bytes: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.blocks + other.blocks, self.bytes + other.bytes)


@dataclass(frozen=True)
class Site:
    frames: tuple[Frame, ...]  # innermost first
    peak: Tally
    exit: Tally
    total: Tally
    temporary: Tally = Tally()  # of the total, freed at once

    def at(self, moment: str) -> Tally:
        """One of MOMENTS, or "temporary"."""
        tally: Tally = getattr(self, moment)
        return tally

    def places(self) -> list[Place]:
        """All callers, innermost first, those that were inlined among them."""
        return [place for frame in self.frames for place in frame.places]

    def shown_places(self) -> list[Place]:
        """Without what starts every program."""
        shown = [place for place in self.places() if not place.name.startswith(START_NAMES)]
        return shown or self.places()

    def allocates_at(self) -> Place:
        """The innermost place that is the program's rather than the C++ library's."""
        places = self.places()
        return next((place for place in places if not _is_of_library(place)), places[0])


def _poisson_bound(count: float, deviations: float) -> float:
    root = 1 - 1 / (9 * count) + deviations / (3 * math.sqrt(count))
    return float(count * max(0.0, root) ** 3)


def _is_of_library(place: Place) -> bool:
    return place.name.startswith(LIBRARY_NAMES) or LIBRARY_HEADERS in (place.file or "")


@dataclass(frozen=True)
class Sites:
    """One process."""

    raw: Mapping[str, Any]  # allotrope.sites/1
    sites: Sequence[Site]
    processes: int  # that wrote what they saw; this is the one that held most
    symbols: Symbols = field(repr=False, compare=False)
    not_seen: served.NotSeen | None = None  # None: nobody meant to look

    @property
    def is_exact(self) -> bool:
        return bool(self.raw["rate_bytes"] == 1)

    def sum(self, moment: str) -> Tally:
        return sum((site.at(moment) for site in self.sites), Tally())

    def peak_range(self) -> tuple[float, float]:
        """Bytes between which the true peak lies. What the samples say is the largest of very many
        estimates, so it is more likely too high than too low: hence the unlike deviations. A block
        larger than the rate is always a sample and counts as it is. Wilson and Hilferty's
        approximation of a Poisson mean's bounds (1931)."""
        peak, rate = float(self.raw["peak_bytes"]), float(self.raw["rate_bytes"])
        if self.is_exact:
            return peak, peak
        small = [site.peak for site in self.sites if site.peak.bytes < rate * site.peak.blocks]
        drawn = min(peak, float(sum(tally.bytes for tally in small)))
        if not drawn:
            return peak, peak
        count = drawn / rate  # samples that it is estimated from
        # Above the mean's upper bound lies what one sample more would make of it.
        bounds = _poisson_bound(count, -OF_MANY), _poisson_bound(count + 1, OF_ONE)
        return peak - drawn + rate * bounds[0], peak - drawn + rate * bounds[1]

    def by_place(self, moment: str) -> list[tuple[str, Tally, Site]]:
        """Sums over sites that allocate at the same line, largest first, with the largest site
        of each."""
        groups: dict[str, list[Site]] = {}
        for site in self.sites:
            groups.setdefault(str(site.allocates_at()), []).append(site)

        def size(site: Site) -> int:
            return site.at(moment).bytes

        sums = [
            (name, sum((one.at(moment) for one in members), Tally()), max(members, key=size))
            for name, members in groups.items()
        ]
        return sorted((one for one in sums if one[1].bytes), key=lambda one: -one[1].bytes)


def read_sites(
    folder: Path, allocator: Allocator, onlooker: Onlooker | None = None
) -> Sites | None:
    """From the files that a command's processes wrote; None when there are none. The library does
    not know whose allocator it was that it passed the calls to. onlooker: who looked at them while
    they ran."""
    documents = read_reports(folder)
    if not documents:
        return None
    raw = max(documents, key=lambda document: int(document["peak_bytes"]))
    raw |= {"allocator": allocator.name, "preset": allocator.preset}
    found = with_names(raw, len(documents))
    if onlooker is None:
        return found
    heard_of = {document["pid"] for document in documents if document["samples"]}
    return replace(found, not_seen=served.seen_by(onlooker, allocator, heard_of))


def with_names(raw: dict[str, Any], processes: int) -> Sites:
    """What the library, or a look at a running process, says of one process."""
    symbols = Symbols(raw["maps"])
    places = symbols.find(address for site in raw["sites"] for address in site["frames"])
    sites = [
        Site(
            tuple(Frame(address, places[address]) for address in site["frames"]),
            *(Tally(**site[moment]) for moment in (*MOMENTS, "temporary")),
        )
        for site in raw["sites"]
    ]
    return Sites(raw, sites, processes, symbols)
