#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Holds the numbers of Tables 2 to 6 in paper.py against the paper's text.

    pdftotext -layout zorn-1992.pdf zorn-1992.txt
    PYTHONPATH=analysis tests/analysis/check_paper.py zorn-1992.txt

It shares nothing with paper.py but the order of the tables: a table's lines are those before its
caption that begin with a row's name and hold as many numbers as the table has columns. It prints
the first difference, or the digest that tests/analysis/test_paper.py has.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Sequence

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
PROGRAMS = ("cfrac", "espresso", "gawk", "ghostscript", "perl", "yacr")
ALGORITHMS = ("Sun OS", "GNU", "Knuth", "BSD")
DOMAIN_ROWS = tuple(
    f"{name}, {form}" for name in ALGORITHMS for form in ("optimized", "unoptimized")
)
# By the table: the names of its rows, and how many numbers each has.
TABLES = {
    2: (PROGRAMS, 6),
    3: (PROGRAMS, 10),
    4: (PROGRAMS, 10),
    5: (DOMAIN_ROWS, 4),
    6: (DOMAIN_ROWS, 4),
}


def table(text: str, number: int) -> list[str]:
    """The numbers of a table as they are printed, row by row."""
    names, count = TABLES[number]
    caption = re.search(rf"^\s*Table {number}:", text, re.MULTILINE)
    if caption is None:
        raise SystemExit(f"there is no Table {number} in the text")
    rows: dict[str, list[str]] = {}
    for line in text[: caption.start()].splitlines():
        for name in names:
            words = line.strip()
            if words.startswith(name) and not words[len(name) :].lstrip().startswith("un"):
                numbers = NUMBER.findall(words[len(name) :])
                if len(numbers) == count:
                    rows[name] = numbers  # the last before the caption
    if list(rows) and set(rows) != set(names):
        raise SystemExit(f"Table {number}: no line for {sorted(set(names) - set(rows))}")
    return [one for name in names for one in rows[name]]


def numbers_in(text: str) -> list[float]:
    return [float(one.replace(",", "")) for number in TABLES for one in table(text, number)]


def digest(numbers: Sequence[float]) -> str:
    said = " ".join(f"{number:g}" for number in numbers)
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


def main() -> int:
    from allotrope.study.zorn import paper

    found = numbers_in(Path(sys.argv[1]).read_text(encoding="utf-8"))
    return compare(found, paper.numbers())


def compare(found: Sequence[float], ours: Sequence[float]) -> int:
    """The exit status; says the first difference."""
    if len(found) != len(ours):
        print(f"{len(found)} numbers in the text, {len(ours)} in paper.py")
        return 1
    for place, (one, other) in enumerate(zip(found, ours)):
        if one != other:
            print(f"number {place}: {one:g} in the text, {other:g} in paper.py")
            return 1
    print(f"{len(found)} numbers agree: {digest(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
