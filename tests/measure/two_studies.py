# SPDX-License-Identifier: MIT
"""Two full studies (zorn, or barriers) held against each other: whether what does not depend on
time is the same, and how many of the intervals of the differences between their times contain 0.

    python3 tests/measure/two_studies.py FIRST SECOND

Each is the folder of a study. Where the folder of one is gone, both are the file that was kept of
it, DIR/measurements.json or docs/results/DATE-study.json; it has less of what was counted.

Ends with status 1 when fewer than 90% contain 0. 95% would by chance, if figures did not depend on
each other.

Both studies vary the layout by round, in the same way, and a round is compared with that of the
same layout in the other study: the difference of the logarithms of a figure in both, round by
round, of which the mean has an interval. Rounds of different layouts are no pair and are left out,
and counted; so is a figure whose run, or whose baseline's, failed in one of them.

    zorn        a round's layout is the length of its environment. A figure is the CPU time of a
                program under an allocator to that under SunOS's in the same round.
    barriers    it is a link order. Figures are phases and totals of each barrier to the oracle's,
                stores in a loop to plain ones, and what allotrope-vm measures.

What it shows: that the machine's state and load, and the places that the system chooses for heap,
stack and libc, make no more difference between studies than the rounds of each let expect. What it
cannot show: that other layouts would give the same. Both studies have the same ones, so what these
do is in neither's differences; the intervals of one study, over its 30 layouts, contain that.
Nor can it show that a figure is right: an error of measurement that both make is in both.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from two_runs import EXACT

Interval = tuple[float, float, float]  # low, middle, high

BASELINE = "optimised cartesian:classic"
BARRIERS_BASELINE, LOOP_BASELINE = "oracle", "pages"
WANTED = 0.9  # of the intervals
LEAST_PAIRS = 3
LISTED = 5  # figures of a step that differ, of which the values are printed
TIMED = ("ns", "load")  # of a run of barriers; the rest is counted


# What a file of measurements calls steps otherwise than their folder.
KINDS_IN_FILES = {"rounds": "round", "accounts": "account"}


def steps(study: Path, kind: str) -> dict[str, Any]:
    """Results by the step's name: "PROGRAM FORM ALLOCATOR", of rounds "PROGRAM ROUND"."""
    if study.is_file():
        return dict(kept_steps(study, kind))
    return {
        file.stem: json.loads(file.read_text(encoding="utf-8"))["result"]
        for file in sorted((study / "steps" / kind).glob("*.json"))
    }


def kept_steps(measurements: Path, kind: str) -> Iterator[tuple[str, Any]]:
    """The same from a file of measurements, which has the rounds of a program in their order."""
    rounds: Counter[str] = Counter()
    for step in json.loads(measurements.read_text(encoding="utf-8"))["steps"]:
        if KINDS_IN_FILES.get(step["kind"], step["kind"]) != kind:
            continue
        subject = step.get("program", step.get("name"))
        rounds[subject] += 1
        yield f"{subject} {step.get('configuration', rounds[subject])}", step["result"]


def figures(found: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What is at the ends of a result, by its path; lists count as one figure."""
    if isinstance(found, dict):
        for key, value in found.items():
            yield from figures(value, f"{name}.{key}" if name else key)
    else:
        yield name, found


def exact(kind: str, result: dict[str, Any]) -> dict[str, Any]:
    if kind == "account":
        heap, collector = result.get("heap") or {}, result.get("gc") or {}
        counts = {name: heap.get(name) for name in EXACT}
        return dict(figures(counts | {"collections": collector.get("collections")}))
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


def is_of_barriers(study: Path) -> bool:
    if study.is_file():
        return any(kept_steps(study, "instructions"))
    return (study / "steps" / "instructions").exists()


def exact_kinds(study: Path) -> tuple[str, ...]:
    """The kinds of steps that have figures that do not depend on time."""
    of_barriers, of_zorn = ("instructions", "round"), ("account", "events", "locality", "factors")
    return of_barriers if is_of_barriers(study) else of_zorn


def compare_exact(first: Path, second: Path) -> int:
    """Prints what differs; returns how many figures do."""
    different = 0
    for kind in exact_kinds(first):
        one, two = steps(first, kind), steps(second, kind)
        same, by_step = 0, {}
        for name in sorted(one.keys() & two.keys()):
            left, right = exact(kind, one[name]), exact(kind, two[name])
            known = sorted(left.keys() | right.keys())
            by_step[name] = [
                f"{figure} {told(left.get(figure))} and {told(right.get(figure))}"
                for figure in known
                if left.get(figure) != right.get(figure)
            ]
            same += len(known) - len(by_step[name])
        count = sum(map(len, by_step.values()))
        different += count
        print(
            f"{kind}: {same} figures are identical, {count} are not; "
            f"{len(one.keys() ^ two.keys())} steps are in one study only"
        )
        for name, lines in by_step.items():
            if lines:
                more = f"; {len(lines) - LISTED} more" if len(lines) > LISTED else ""
                print(f"    {name}: {len(lines)} differ: {'; '.join(lines[:LISTED])}{more}")
    return different


def told(value: Any) -> str:
    """A list (a curve) is too long to be printed."""
    return f"{len(value)} values" if isinstance(value, list) else str(value)


def cpu_ratios(result: dict[str, Any]) -> dict[str, float]:
    """Of a round of zorn: the logarithm of each CPU time to the baseline's."""
    base = result.get(BASELINE, {}).get("cpu")
    return {
        one: float(np.log(run["cpu"] / base))
        for one, run in result.items()
        if base and run.get("cpu") and one != BASELINE
    }


def padding(result: dict[str, Any]) -> int | None:
    """Of a round of zorn, whose runs all have the same; None where all of them failed."""
    return next((run["padding"] for run in result.values() if "padding" in run), None)


def zorn_differences(first: Path, second: Path) -> dict[str, Interval]:
    pairs = Pairs()
    one, two = steps(first, "round"), steps(second, "round")
    for name in sorted(one.keys() & two.keys()):
        left, right = one[name], two[name]
        if pairs.are(padding(left), padding(right)):
            pairs.add(name.rsplit(" ", 1)[0], cpu_ratios(left), cpu_ratios(right))
    return pairs.intervals()


def log_times(kind: str, result: dict[str, Any]) -> dict[str, float]:
    """What was timed in a step of barriers: logarithms, of ratios where there is a baseline."""
    if kind == "vm":
        return logs(result, {})
    if kind == "loop":
        base = result[LOOP_BASELINE]
        runs = {one: run for one, run in result.items() if one != LOOP_BASELINE}
    else:
        runs = {one: with_total(run) for one, run in result["barriers"].items()}
        base = runs.pop(BARRIERS_BASELINE)
        if not base:
            return {}  # the oracle failed: there is nothing to hold the others against
    return {
        f"{one} {name}": log for one, run in runs.items() for name, log in logs(run, base).items()
    }


def with_total(run: dict[str, Any]) -> dict[str, float]:
    times = run.get("ns", {})
    return {**times, "total": sum(times.values())} if times else {}


def logs(figures_of_one: dict[str, Any], base: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(np.log(value / base.get(name, 1)))
        for name, value in figures_of_one.items()
        if isinstance(value, (int, float)) and value > 0 and base.get(name, 1) > 0
        if not base or name in base
    }


def paired(differences: list[float]) -> Interval:
    """Their mean with its 95% interval."""
    from scipy import stats

    middle = float(np.mean(differences))
    error = float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    reach = float(stats.t.ppf(0.975, len(differences) - 1)) * error
    return middle - reach, middle, middle + reach


class Pairs:
    """Differences between two studies, by figure, a number for each round."""

    def __init__(self) -> None:
        self.differences: dict[str, list[float]] = {}
        self.apart = 0  # rounds

    def are(self, layout: Any, other: Any) -> bool:
        """Whether two rounds have one layout."""
        if layout != other:
            self.apart += 1
        return bool(layout == other)

    def add(self, subject: str, left: dict[str, float], right: dict[str, float]) -> None:
        for figure in left.keys() & right.keys():
            difference = right[figure] - left[figure]
            self.differences.setdefault(f"{subject} {figure}", []).append(difference)

    def intervals(self) -> dict[str, Interval]:
        if self.apart:
            print(f"{self.apart} rounds have another layout in the other study, and are left out")
        return {
            key: paired(each)
            for key, each in sorted(self.differences.items())
            if len(each) >= LEAST_PAIRS
        }


def barriers_differences(first: Path, second: Path) -> dict[str, Interval]:
    pairs = Pairs()
    for kind in ("round", "loop", "vm"):
        one, two = steps(first, kind), steps(second, kind)
        for name in sorted(one.keys() & two.keys()):
            left, right = one[name], two[name]
            if pairs.are(left.get("order"), right.get("order")):
                subject = name.rsplit(" ", 1)[0] if kind == "round" else kind
                pairs.add(subject, log_times(kind, left), log_times(kind, right))
    return pairs.intervals()


def differences(first: Path, second: Path) -> dict[str, Interval]:
    compare = barriers_differences if is_of_barriers(first) else zorn_differences
    return compare(first, second)


def compare_times(first: Path, second: Path) -> bool:
    """Whether enough intervals contain 0."""
    intervals = differences(first, second)
    outside = {key: at for key, at in intervals.items() if not at[0] <= 0 <= at[2]}
    share = 1 - len(outside) / max(len(intervals), 1)
    print(
        f"times: {len(intervals) - len(outside)} of {len(intervals)} intervals contain 0 "
        f"({share:.1%}; at least {WANTED:.0%} are wanted); median difference "
        f"{np.median([abs(at[1]) for at in intervals.values()] or [0]):.1%}"
    )
    for what, (low, middle, high) in outside.items():
        print(f"    {what}: {middle:+.1%} [{low:+.1%}, {high:+.1%}]")
    return bool(intervals) and share >= WANTED


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    FIRST, SECOND = map(Path, sys.argv[1:])
    if FIRST.is_file() != SECOND.is_file():
        sys.exit(f"{FIRST} and {SECOND}: give two folders, or two files of measurements")
    compare_exact(FIRST, SECOND)
    sys.exit(0 if compare_times(FIRST, SECOND) else 1)
