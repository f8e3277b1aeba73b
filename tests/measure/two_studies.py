# SPDX-License-Identifier: MIT
"""Two full studies (zorn, or barriers) held against each other: whether what does not depend on
time is the same, and how many of the intervals of the differences between their times contain 0.

    python3 tests/measure/two_studies.py FIRST_DIR SECOND_DIR
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from two_runs import EXACT, welch

BASELINE = "optimised cartesian:classic"
BARRIERS_BASELINE = "oracle"
TIMED = ("ns", "load")  # of a run of barriers; the rest is counted


def steps(study: Path, kind: str) -> dict[str, Any]:
    """Results by the step's name: "PROGRAM FORM ALLOCATOR", of rounds "PROGRAM ROUND"."""
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))["result"]
        for file in sorted((study / "steps" / kind).glob("*.json"))
    }


def figures(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What is at the ends of a result, by its path; lists count as one figure."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from figures(value, f"{name}.{key}" if name else key)
    else:
        yield name, found


def exact(kind: str, result: dict[str, Any]) -> dict[str, Any]:
    if kind == "account":
        heap = result.get("heap") or {}
        return dict(figures({name: heap.get(name) for name in EXACT}))
    if kind == "factors":
        counts = ("heap_bytes", "collections", "failure")
        heaps = {f"{each['factor']:g}": each for each in result.get("heaps", ())}
        return {
            f"{factor} {name}": each.get(name) for factor, each in heaps.items() for name in counts
        }
    if kind == "round":
        return dict(figures({name: counted(run) for name, run in result["barriers"].items()}))
    return dict(figures(result))


def counted(run: dict[str, Any]) -> dict[str, Any]:
    return {name: count for name, count in run.items() if name not in TIMED}


def compare_exact(first: Path, second: Path) -> None:
    is_barriers = (first / "steps" / "instructions").exists()
    of_barriers, of_zorn = ("instructions", "round"), ("account", "events", "locality", "factors")
    for kind in of_barriers if is_barriers else of_zorn:
        one, two = steps(first, kind), steps(second, kind)
        same = 0
        by_step: Counter[str] = Counter()
        for name in sorted(one.keys() & two.keys()):
            left, right = exact(kind, one[name]), exact(kind, two[name])
            for figure in sorted(left.keys() | right.keys()):
                if left.get(figure) == right.get(figure):
                    same += 1
                else:
                    by_step[name] += 1
        print(
            f"{kind}: {same} figures are identical, {by_step.total()} are not; "
            f"{len(one.keys() ^ two.keys())} steps are in one study only"
        )
        for name, count in sorted(by_step.items()):
            print(f"    {name}: {count} differ")


def log_ratios(study: Path) -> dict[tuple[str, str], Any]:
    """By program and form with allocator: of each round's CPU time to the baseline's. Of barriers
    by program and barrier with phase, of the elapsed time."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, result in steps(study, "round").items():
        program = name.rsplit(" ", 1)[0]
        for one, seconds, base in timed(result):
            if base and seconds:
                found.setdefault((program, one), []).append(float(np.log(seconds / base)))
    return found


def timed(result: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """What was timed in a round, how long it took, and how long its baseline."""
    if "barriers" not in result:
        base = result.get(BASELINE, {}).get("cpu")
        yield from ((one, run.get("cpu"), base) for one, run in result.items() if one != BASELINE)
        return
    bases = result["barriers"][BARRIERS_BASELINE].get("ns", {})
    for barrier, run in result["barriers"].items():
        for phase, ns in run.get("ns", {}).items():
            if barrier != BARRIERS_BASELINE:
                yield f"{barrier} {phase}", ns, bases.get(phase)


def compare_times(first: Path, second: Path) -> None:
    one, two = log_ratios(first), log_ratios(second)
    both = [key for key in sorted(one.keys() & two.keys()) if min(len(one[key]), len(two[key])) > 2]
    intervals = {key: welch(one[key], two[key]) for key in both}
    outside = {key: at for key, at in intervals.items() if not at[0] <= 0 <= at[2]}
    print(
        f"times: {len(both) - len(outside)} of {len(both)} intervals contain 0 "
        f"({1 - len(outside) / max(len(both), 1):.1%}); median difference "
        f"{np.median([abs(at[1]) for at in intervals.values()]):.1%}"
    )
    for (program, what), (low, middle, high) in outside.items():
        print(f"    {program} {what}: {middle:+.1%} [{low:+.1%}, {high:+.1%}]")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    compare_exact(Path(sys.argv[1]), Path(sys.argv[2]))
    compare_times(Path(sys.argv[1]), Path(sys.argv[2]))
