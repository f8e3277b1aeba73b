#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds Tables 1 to 3 in study/barriers/paper.py against the paper's text.

    PYTHONPATH=analysis tests/analysis/check_barriers_paper.py hosking-moss-1993.txt

It shares nothing with paper.py but the order of the tables: their lines are those with the names of
rows below that hold so many numbers. It prints the first difference, or the digest that
tests/analysis/test_barriers.py has.
"""

import hashlib
import re
import sys
from pathlib import Path
from typing import Iterator, Sequence

NUMBER = re.compile(r"\d+")
COUNTS = re.compile(r"(Store checks|Page traps) \(\W*\w\W*\)\s+(\d+)\s+(\d+)$")
POINTS = re.compile(r"(\d+)\s+(\d+)\s+(\d+)$")
PHASE = re.compile(r"(Running|Roots|Promoted|Other|Total)((?:\s+\d+%){7})$")


def numbers_in(text: str) -> Iterator[int]:
    """Of Table 1 the counts and points, then Tables 2 and 3 row by row."""
    lines = [line.strip() for line in text.splitlines()]
    counts = [match for line in lines if (match := COUNTS.match(line))]
    points = [match for line in lines if (match := POINTS.match(line))]
    phases = [match for line in lines if (match := PHASE.match(line))]
    for match in counts:
        yield from (int(match[2]), int(match[3]))
    for match in points:
        yield from (int(one) for one in match.groups())
    for match in phases:
        yield from (int(one) for one in NUMBER.findall(match[2]))


def ours() -> Iterator[int]:
    from allotrope.study.barriers import paper

    yield from paper.CHECKS.values()
    yield from paper.TRAPS.values()
    for cycles, row in paper.TABLE_1.items():
        yield from (cycles, *row)
    for table in paper.TABLES.values():
        for cells in table.values():
            yield from cells


def digest(numbers: Sequence[int]) -> str:
    said = " ".join(map(str, numbers))
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


def main() -> int:
    found = list(numbers_in(Path(sys.argv[1]).read_text(encoding="utf-8")))
    known = list(ours())
    if len(found) != len(known):
        print(f"{len(found)} numbers in the text, {len(known)} in paper.py")
        return 1
    for place, (one, other) in enumerate(zip(found, known)):
        if one != other:
            print(f"number {place}: {one} in the text, {other} in paper.py")
            return 1
    print(f"{len(found)} numbers agree: {digest(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
