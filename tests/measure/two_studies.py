# SPDX-License-Identifier: MIT
"""Two full studies (zorn, or barriers) held against each other: whether what does not depend on
time is the same, and how many of the intervals of the differences between their times contain 0.

    python3 tests/measure/two_studies.py FIRST_DIR SECOND_DIR

Ends with status 1 when fewer than 90% contain 0. 95% would by chance, if figures did not depend on
each other.

Of barriers, round n of both studies has link order n, and is compared with it: the difference of
the logarithms of a figure in both, round by round, of which the mean has an interval. Figures are
phases and totals of each barrier to the oracle's, stores in a loop to plain ones, and what
allotrope-vm measures. Rounds in different link orders are no pair and are left out, and counted.

What it shows: that the machine's state and load, and the places that the system chooses for heap,
stack and libc, make no more difference between studies than the rounds of each let expect. What it
cannot show: that other layouts would give the same. Both studies have the same ones, so what these
do is in neither's differences; the intervals of one study, over its 30 link orders, contain that.
Nor can it show that a figure is right: an error of measurement that both make is in both.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import numpy as np
from two_runs import EXACT, welch

Interval = tuple[float, float, float]  # low, middle, high

BASELINE = "optimised cartesian:classic"
BARRIERS_BASELINE, LOOP_BASELINE = "oracle", "pages"
WANTED = 0.9  # of the intervals
LEAST_PAIRS = 3
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


def is_of_barriers(study: Path) -> bool:
    return (study / "steps" / "instructions").exists()


def compare_exact(first: Path, second: Path) -> None:
    of_barriers, of_zorn = ("instructions", "round"), ("account", "events", "locality", "factors")
    for kind in of_barriers if is_of_barriers(first) else of_zorn:
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
    """By program and form with allocator: of each round's CPU time to the baseline's."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, result in steps(study, "round").items():
        base = result.get(BASELINE, {}).get("cpu")
        for one, run in result.items():
            if base and run.get("cpu") and one != BASELINE:
                ratio = float(np.log(run["cpu"] / base))
                found.setdefault((name.rsplit(" ", 1)[0], one), []).append(ratio)
    return found


def zorn_differences(first: Path, second: Path) -> dict[str, Interval]:
    one, two = log_ratios(first), log_ratios(second)
    return {
        " ".join(key): welch(one[key], two[key])
        for key in sorted(one.keys() & two.keys())
        if min(len(one[key]), len(two[key])) >= LEAST_PAIRS
    }


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


def barriers_differences(first: Path, second: Path) -> dict[str, Interval]:
    found: dict[str, list[float]] = {}
    unpaired = 0
    for kind in ("round", "loop", "vm"):
        one, two = steps(first, kind), steps(second, kind)
        for name in sorted(one.keys() & two.keys()):
            left, right = one[name], two[name]
            if left.get("order") != right.get("order"):
                unpaired += 1
                continue
            left, right = log_times(kind, left), log_times(kind, right)
            subject = name.rsplit(" ", 1)[0] if kind == "round" else kind
            for figure in left.keys() & right.keys():
                difference = right[figure] - left[figure]
                found.setdefault(f"{subject} {figure}", []).append(difference)
    if unpaired:
        print(f"{unpaired} rounds are in another link order in the other study, and left out")
    return {key: paired(each) for key, each in sorted(found.items()) if len(each) >= LEAST_PAIRS}


def compare_times(first: Path, second: Path) -> bool:
    """Whether enough intervals contain 0."""
    compare = barriers_differences if is_of_barriers(first) else zorn_differences
    intervals = compare(first, second)
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
    compare_exact(Path(sys.argv[1]), Path(sys.argv[2]))
    sys.exit(0 if compare_times(Path(sys.argv[1]), Path(sys.argv[2])) else 1)
