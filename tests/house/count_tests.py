# SPDX-License-Identifier: MIT
"""Counts the tests of a `make check` from the logs that it leaves.

    python3 tests/house/count_tests.py [BUILD]

A log of cmocka or pytest counts what it counts itself, any other program as one test. A program
that failed without naming a failed test (it crashed, or never got so far) counts as one that
failed. The last line is "N passed, N failed"; exit status 1 if a test failed or none was run.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

PYTEST = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.MULTILINE)
CMOCKA = {
    "passed": re.compile(r"^\[  PASSED  \] (\d+) test\(s\)", re.MULTILINE),
    "failed": re.compile(r"^\[  FAILED  \] (\d+) test\(s\)", re.MULTILINE),
    "skipped": re.compile(r"^\[  SKIPPED \] (\d+) test\(s\)", re.MULTILINE),
}
RESULT = re.compile(r"^:global-test-result: (\w+)", re.MULTILINE)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other: "Count") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def count_log(result: str, log: str) -> Count:
    """result: automake's word for the whole program."""
    count = Count()
    pytest = PYTEST.findall(log)
    if pytest:
        count = Count(*map(int, pytest[-1]))
    else:
        for kind, pattern in CMOCKA.items():
            setattr(count, kind, sum(map(int, pattern.findall(log))))
    if result in ("FAIL", "ERROR", "XPASS"):
        count.failed = max(count.failed, 1)
    elif result == "SKIP":
        count.skipped = max(count.skipped, 1)
    elif count == Count():
        count.passed = 1
    return count


def count_tests(build: Path) -> Count:
    total = Count()
    for trs in build.rglob("*.trs"):
        if "sanitize" in trs.relative_to(build).parts:
            continue
        result = RESULT.search(trs.read_text())
        log = trs.with_suffix(".log")
        text = log.read_text(errors="replace") if log.exists() else ""
        total.add(count_log(result[1] if result else "ERROR", text))
    return total


def main() -> int:
    total = count_tests(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    if total.skipped:
        print(f"{total.skipped} skipped; the logs say why")
    print(f"{total.passed} passed, {total.failed} failed")
    return 0 if total.passed > 0 and total.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
