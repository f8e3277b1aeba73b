# SPDX-License-Identifier: MIT
"""Births and deaths of objects in a recorded trace, and the instructions that they cost."""

from pathlib import Path
from typing import Any, Iterator

from ...features.lifetimes.measure import Lives, read_lives, survival
from ...features.trace.reader import CLASSES, EVENTS, read

POINTS_PER_DECADE = 8
CLASS, MALLOC, REALLOC, FREE = map(EVENTS.index, ("class", "malloc", "realloc", "free"))
PROGRAM = CLASSES.index("program")
CALLS = {MALLOC: "malloc", REALLOC: "realloc", FREE: "free"}


def follow(trace: Path) -> dict[str, Any]:
    """What is kept of a trace: numbers of objects, survival by two clocks, instructions in malloc
    and free."""
    lives = read_lives(trace)
    return {
        "objects": len(lives.objects),
        "bytes": int(lives.objects["size"].sum()),
        "never_freed": int((~lives.freed).sum()),
        "instructions": instructions(trace, lives.length),
        "survival": {"instructions": _curve(lives, "clock"), "bytes": _curve(lives, "bytes")},
    }


def _curve(lives: Lives, clock: str) -> list[tuple[float, float]]:
    """Age and the share of objects that live longer."""
    curve = survival(lives, clock)
    longest = float(curve.ages[-1]) if len(curve.ages) else 1.0
    points, age = [], 10.0
    step = float(10 ** (1 / POINTS_PER_DECADE))
    number = 0
    while age <= max(longest * step, 1e6):
        points.append((age, curve.share_at(age)))
        number += 1
        age = 10.0 * step**number
        # Decades themselves are what the claims ask for: no rounding may miss them.
        if number % POINTS_PER_DECADE == 0:
            age = 10.0 ** (1 + number // POINTS_PER_DECADE)
    return points


def instructions(trace: Path, whole: int) -> dict[str, int]:
    """Instructions in all, and inside each kind of call of the allocator, collections included."""
    spent = dict.fromkeys(("malloc", "realloc", "free", "other"), 0)
    entered, kind = None, "other"
    for clock, event, value in _events(trace):
        if event == CLASS:
            inside = value != PROGRAM
            if inside and entered is None:
                entered, kind = clock, "other"
            elif not inside and entered is not None:
                spent[kind] += clock - entered
                entered = None
        elif event in CALLS and entered is not None:
            kind = CALLS[event]
    return {"all": whole, **spent}


def _events(trace: Path) -> Iterator[tuple[int, int, int]]:
    for batch in read(trace):
        found = batch.events
        columns = (found["instruction"], found["type"], found["value"][:, 0])
        yield from zip(*(column.tolist() for column in columns))
