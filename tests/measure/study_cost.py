# SPDX-License-Identifier: MIT
"""What a study has cost, by kind of step and program, and what the same would cost with so many
rounds as it has by default.

    python3 tests/measure/study_cost.py DIR [ROUNDS]

Seconds of CPU time, of all processes, and elapsed. Of rounds the mean is taken, so that a study of
one round tells what thirty will cost. Elapsed seconds are of a quiet machine only if it was one.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "analysis"))

from allotrope.study.zorn.plan import MOST_ROUNDS  # noqa: E402
from allotrope.study.zorn.programs import read_programs  # noqa: E402

ROUNDS = 30
Cost = tuple[float, float]  # CPU seconds, elapsed


def costs(study: Path) -> dict[tuple[str, str], list[Cost]]:
    """Of each step, by kind and program."""
    found: dict[tuple[str, str], list[Cost]] = defaultdict(list)
    for file in sorted((study / "steps").glob("*/*.json")):
        saved = json.loads(file.read_text(encoding="utf-8"))
        key = file.parent.name, file.stem.split(" ")[0]
        found[key].append((saved["cpu_seconds"], saved["seconds"]))
    return found


def planned(kind: str, program: str, known: list[Cost], rounds: int, rows: dict[str, str]) -> Cost:
    """What these steps come to in a study of so many rounds."""
    total = sum(cpu for cpu, _ in known), sum(elapsed for _, elapsed in known)
    if kind != "round":
        return total
    times = min(rounds, MOST_ROUNDS.get(rows.get(program, ""), rounds)) / len(known)
    return total[0] * times, total[1] * times


def main(study: Path, rounds: int) -> None:
    rows = {one.name: one.row for one in read_programs(None)}
    by_kind: dict[str, Cost] = {}
    print(f"{'kind':10}{'program':20}{'steps':>6}{'cpu s':>9}{'elapsed':>9}{'planned cpu s':>15}")
    for (kind, program), known in sorted(costs(study).items()):
        cpu, elapsed = planned(kind, program, known, rounds, rows)
        sums = by_kind.get(kind, (0.0, 0.0))
        by_kind[kind] = sums[0] + cpu, sums[1] + elapsed
        measured = [sum(each) for each in zip(*known)]
        print(f"{kind:10}{program:20}{len(known):6}{measured[0]:9.1f}{measured[1]:9.1f}{cpu:15.1f}")
    for kind, (cpu, elapsed) in by_kind.items():
        print(f"{kind}: {cpu:.0f} s of CPU time, {elapsed:.0f} s elapsed as measured")
    total = [sum(each) / 60 for each in zip(*by_kind.values())]
    print(f"{rounds} rounds, all: {total[0]:.0f} min of CPU time, {total[1]:.0f} min elapsed")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else ROUNDS)
