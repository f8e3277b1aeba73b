# SPDX-License-Identifier: MIT
"""Two runs of the same suite held against each other: how many of the intervals of the differences
between them contain 0, and whether what does not depend on time is the same.

    python3 tests/measure/two_runs.py FIRST.json SECOND.json
"""

import json
import sys
from typing import Any, Iterator

import numpy as np

QUANTITIES = ("cpu_seconds", "wall_seconds", "peak_rss_bytes", "minor_faults")
# Of the heap's account: what a single-threaded program asks for is the same in every run.
EXACT = ("requested_peak_bytes", "mapped_peak_bytes", "waste", "calls", "sizes", "live")


def results(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """By program and allocator."""
    return {
        (entry["name"], one["spec"]): one
        for entry in document["programs"]
        if entry["comparison"]
        for one in entry["comparison"]["results"]
    }


def log_ratios(
    found: dict[tuple[str, str], Any], program: str, spec: str, baseline: str, quantity: str
) -> Any:
    """Of each round's figure to the baseline's in the same round; None where one is missing."""
    mine, base = found[program, spec][quantity], found[program, baseline][quantity]
    if mine is None or base is None:
        return None
    pairs = [(a, b) for a, b in zip(mine["rounds"], base["rounds"]) if a and b]
    return np.log([a / b for a, b in pairs]) if pairs else None


def welch(first: Any, second: Any) -> tuple[float, float, float]:
    """The difference of the means with its 95% interval: low, middle, high."""
    from scipy import stats

    difference = float(np.mean(second) - np.mean(first))
    parts = np.var(first, ddof=1) / len(first), np.var(second, ddof=1) / len(second)
    error = float(np.sqrt(sum(parts)))
    if error == 0:
        return difference, difference, difference
    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1)
    )
    reach = float(stats.t.ppf(0.975, freedom)) * error
    return difference - reach, difference, difference + reach


def differences(
    first: dict[str, Any], second: dict[str, Any], quantity: str
) -> Iterator[tuple[str, str, float, float, float]]:
    """The difference of the mean logarithms of the ratios, with its interval."""
    one, two, baseline = results(first), results(second), first["baseline"]
    for program, spec in one:
        if spec == baseline or (program, spec) not in two:
            continue
        a = log_ratios(one, program, spec, baseline, quantity)
        b = log_ratios(two, program, spec, baseline, quantity)
        if a is None or b is None or len(a) < 3 or len(b) < 3:
            continue
        yield program, spec, *welch(a, b)


def main() -> None:
    first, second = (json.load(open(name, encoding="utf-8")) for name in sys.argv[1:3])
    for quantity in QUANTITIES:
        found = list(differences(first, second, quantity))
        inside = [low <= 0 <= high for _, _, low, _, high in found]
        sizes = sorted(abs(middle) for _, _, _, middle, _ in found)
        print(
            f"{quantity}: {sum(inside)} of {len(found)} intervals contain 0 "
            f"({sum(inside) / max(len(found), 1):.1%}); median difference "
            f"{sizes[len(sizes) // 2]:.1%}"
        )
        for program, spec, low, middle, high in found:
            if not low <= 0 <= high:
                print(f"    {program} under {spec}: {middle:+.1%} [{low:+.1%}, {high:+.1%}]")
    one, two = results(first), results(second)
    same = different = 0
    for key, result in one.items():
        heaps = result.get("heap"), two.get(key, {}).get("heap")
        if not all(heaps):
            continue
        for name in EXACT:
            if heaps[0][name] == heaps[1][name]:
                same += 1
            else:
                different += 1
                print(f"    {key[0]} under {key[1]}: {name} differs")
    print(f"of the heaps' accounts {same} figures are identical, {different} are not")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main()
