# SPDX-License-Identifier: MIT
"""How long a program's objects live, how large they are, and who asks for them.

    lives = read_lives("run.ale")                    # or a trace, run.alt
    curve = survival(lives, "bytes", weight="objects")
    curve.share_at(100_000)                          # share that outlives 100,000 allocated bytes

Ages are told in two clocks: `bytes` that the whole program allocated meanwhile, the object's own
first ones left out, and the file's own, `instructions` in a trace and `nanoseconds` in a recording.
A resize continues a life. What is never freed survives every age.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...system.errors import UserError
from ...system.native import ask
from ...system.places import PLACES
from ...system.recordings import need_recording
from ...system.symbols import Symbols

NEVER = np.iinfo(np.uint64).max

# struct life and struct resize of trace/events/lives.c.
LIFE = np.dtype(
    [
        *((name, "<u8") for name in ("born_clock", "died_clock", "born_bytes", "died_bytes")),
        *((name, "<u8") for name in ("first_size", "size", "last_size", "stack")),
        *((name, "<u4") for name in ("born_thread", "died_thread")),
    ]
)
RESIZE = np.dtype([(name, "<u8") for name in ("clock", "before", "after")])

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Lives:
    """Every object of a run, in the order of allocation."""

    facts: dict[str, Any]  # totals; keys of docs/events-format.md, `info`
    objects: NDArray[np.void]  # of dtype LIFE
    resizes: NDArray[np.void]  # of dtype RESIZE, in order
    stacks: list[tuple[int, ...]]  # return addresses, innermost first; objects tell which
    warning: str | None  # the file is damaged or cut; what came before is here

    @property
    def clock(self) -> str:
        """`instructions` or `nanoseconds`."""
        return str(self.facts["clock"])

    @property
    def length(self) -> int:
        """The clock's value at the end of the run."""
        return int(self.facts["length"])

    @cached_property
    def freed(self) -> NDArray[np.bool_]:
        """Whether each object was freed."""
        freed: NDArray[np.bool_] = self.objects["died_clock"] != NEVER
        return freed

    def ages(self, clock: str) -> Numbers:
        """What each object lived to see; infinity when it was never freed. clock: `bytes`, or
        `clock` for the file's own."""
        field = "bytes" if clock == "bytes" else "clock"
        born, died = self.objects[f"born_{field}"], self.objects[f"died_{field}"]
        return np.where(self.freed, (died - born).astype(np.float64), np.inf)

    @cached_property
    def symbols(self) -> Symbols:
        """A trace does not tell at which offset a file is mapped."""
        return Symbols(str(self.facts["maps"]).splitlines(), self.clock != "instructions")


def read_lives(path: str | Path) -> Lives:
    """Reads a recording (run.ale) or a trace (run.alt). Raises UserError when it is neither."""
    need_recording(path)
    answer = ask(PLACES.events, "lives", path)
    line, _, rest = answer.output.partition(b"\n")
    if not line:
        why = answer.message or f"{path}: cannot be read (status {answer.status})"
        raise UserError(why, max(answer.status, 1))
    facts = json.loads(line)
    objects = np.frombuffer(rest, LIFE, count=facts["objects"])
    resizes = np.frombuffer(rest, RESIZE, count=facts["resizes"], offset=objects.nbytes)
    words = np.frombuffer(rest, "<u8", offset=objects.nbytes + resizes.nbytes)
    return Lives(facts, objects, resizes, _stacks(words.tolist()), answer.message or None)


def _stacks(words: list[int]) -> list[tuple[int, ...]]:
    """Each is a number of addresses and these."""
    stacks, at = [], 0
    while at < len(words):
        end = at + 1 + words[at]
        stacks.append(tuple(words[at + 1 : end]))
        at = end
    return stacks


# Survival


@dataclass(frozen=True)
class Survival:
    """A share of objects, or of their bytes, for each age: those that lived longer."""

    ages: Numbers
    shares: Numbers
    never_freed: float  # the share that survives everything

    def share_at(self, age: float) -> float:
        """The share that lives longer than an age."""
        place = int(np.searchsorted(self.ages, age, side="right")) - 1
        return float(self.shares[place]) if place >= 0 else 1.0


def survival(
    lives: Lives,
    clock: str = "bytes",
    weight: str = "objects",
    chosen: NDArray[np.bool_] | None = None,
) -> Survival:
    """The survival function, exact at every age at which something dies.

    clock: `bytes` or `clock`. weight: `objects` or `bytes`. chosen: of these objects alone."""
    ages = lives.ages(clock)
    weights = (lives.objects["size"] if weight == "bytes" else np.ones(len(ages))).astype(float)
    if chosen is not None:
        ages, weights = ages[chosen], weights[chosen]
    whole = weights.sum()
    if not whole:
        return Survival(np.zeros(0), np.zeros(0), 0.0)
    finite = np.isfinite(ages)
    order = np.argsort(ages[finite], kind="stable")
    sorted_ages = ages[finite][order]
    dead = np.cumsum(weights[finite][order])
    last = np.flatnonzero(np.append(sorted_ages[1:] != sorted_ages[:-1], True))
    if not len(sorted_ages):
        last = np.zeros(0, dtype=np.intp)
    return Survival(
        sorted_ages[last], 1 - dead[last] / whole, float(weights[~finite].sum() / whole)
    )


def resolution(lives: Lives) -> float:
    """How far the time stamps of births and deaths lie apart, half of all births and deaths seeing
    less: shorter lives are not told from each other. Infinite when there is one stamp or none."""
    clocks = np.concatenate([lives.objects["born_clock"], lives.objects["died_clock"][lives.freed]])
    stamps, events = np.unique(clocks, return_counts=True)
    if len(stamps) < 2:
        return float("inf")
    gaps, weights = np.diff(stamps), events[1:]
    order = np.argsort(gaps)
    half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
    return float(gaps[order][half])


def age_steps(clock: str, longest: float, least: float = 0) -> list[int]:
    """Powers of ten up to the longest age, from one on which something can be seen and which is not
    below `least`."""
    first = {"bytes": 100, "instructions": 1000, "nanoseconds": 1000}[clock]
    while first < least <= longest:
        first *= 10
    if first < least:
        return []
    steps = [first]
    while steps[-1] * 10 <= longest:
        steps.append(steps[-1] * 10)
    return steps


# The document


def sizes(lives: Lives) -> list[dict[str, Any]]:
    """Objects by size, in powers of two: `to` is the largest size of a row."""
    of_size = lives.objects["size"]
    ages = lives.ages("bytes")
    power = np.ceil(np.log2(np.maximum(of_size, 1).astype(float))).astype(int)
    rows = []
    for exponent in np.unique(power):
        chosen = power == exponent
        rows.append({"to": 1 << int(exponent)} | _group(lives, chosen, ages))
    return rows


def _group(lives: Lives, chosen: NDArray[Any], ages: Numbers) -> dict[str, Any]:
    of_size = lives.objects["size"][chosen]
    age = ages[chosen]
    median = float(np.quantile(age, 0.5, method="lower")) if len(age) else 0.0
    never = ~lives.freed[chosen]
    return {
        "objects": len(of_size),
        "bytes": int(of_size.sum()),
        "median_age_bytes": int(median) if np.isfinite(median) else None,
        "never_freed": int(never.sum()),
        "never_freed_bytes": int(lives.objects["last_size"][chosen][never].sum()),
    }


def sites(lives: Lives) -> list[dict[str, Any]]:
    """By where the program asked, most bytes first."""
    of_object = lives.objects["stack"]
    order = np.argsort(of_object, kind="stable")
    bounds = np.searchsorted(of_object[order], np.arange(len(lives.stacks) + 1))
    ages = lives.ages("bytes")
    names = lives.symbols.names(address for stack in lives.stacks for address in stack)
    rows = []
    for number, stack in enumerate(lives.stacks):
        chosen = order[bounds[number] : bounds[number + 1]]
        name, *callers = [name for address in stack for name in names[address]]
        row = {"site": stack[0], "name": name, "callers": callers}
        rows.append(row | _group(lives, chosen, ages))
    return sorted(rows, key=itemgetter("bytes"), reverse=True)


def _counts(clocks: NDArray[Any], edges: Numbers, weights: Numbers | None = None) -> NDArray[Any]:
    """What falls between each two edges."""
    return np.histogram(clocks, edges, weights=weights)[0]


def rates(lives: Lives, parts: int = 100) -> list[dict[str, Any]]:
    """The run in equal parts of its clock: what was allocated and freed in each, and what was
    live at its end. A resize allocates what the object has from then on."""
    edges = np.linspace(0, max(lives.length, 1), parts + 1)
    objects, resizes, ended = lives.objects, lives.resizes, lives.objects[lives.freed]
    allocated = _counts(objects["born_clock"], edges)
    freed = _counts(ended["died_clock"], edges)
    allocated_bytes = _counts(objects["born_clock"], edges, objects["first_size"].astype(float))
    allocated_bytes += _counts(resizes["clock"], edges, resizes["after"].astype(float))
    given_back = _counts(ended["died_clock"], edges, ended["last_size"].astype(float))
    given_back += _counts(resizes["clock"], edges, resizes["before"].astype(float))
    live = np.cumsum(allocated - freed)
    live_bytes = np.cumsum(allocated_bytes - given_back)
    return [
        {
            "until": int(edges[part + 1]),
            "allocated": int(allocated[part]),
            "allocated_bytes": int(allocated_bytes[part]),
            "freed": int(freed[part]),
            "live": int(live[part]),
            "live_bytes": int(live_bytes[part]),
        }
        for part in range(parts)
    ]


def curve_points(curve: Survival, points: int = 400) -> list[dict[str, float]]:
    """A survival function thinned to so many points, evenly by the logarithm of age."""
    if not len(curve.ages):
        return []
    low, high = max(curve.ages[0], 1.0), max(curve.ages[-1], 2.0)
    wanted = np.unique(np.geomspace(low, high, points).round())
    place = np.searchsorted(curve.ages, wanted, side="right") - 1
    kept = np.unique(place[place >= 0])
    return [{"age": float(curve.ages[i]), "share": float(curve.shares[i])} for i in kept]


def document(lives: Lives, path: str) -> dict[str, Any]:
    """Everything, as docs/events-format.md describes it."""
    facts = {key: value for key, value in lives.facts.items() if key not in ("schema", "maps")}
    handed = lives.freed & (lives.objects["born_thread"] != lives.objects["died_thread"])
    curves = []
    for clock, name in (("bytes", "bytes"), ("clock", lives.clock)):
        least = resolution(lives) if name == "nanoseconds" else 0
        for weight in ("objects", "bytes"):
            curve = survival(lives, clock, weight)
            longest = float(curve.ages[-1]) if len(curve.ages) else 0.0
            steps = age_steps(name, longest, least)
            curves.append(
                {
                    "clock": name,
                    "weight": weight,
                    "never_freed": curve.never_freed,
                    "at": [{"age": age, "share": curve.share_at(age)} for age in steps],
                    "points": curve_points(curve),
                }
            )
    return {
        "schema": "allotrope.lifetimes/1",
        "file": path,
        **facts,
        "freed_by_another_thread": int(handed.sum()),
        "survival": curves,
        "sizes": sizes(lives),
        "sites": sites(lives),
        "rates": rates(lives),
    }
