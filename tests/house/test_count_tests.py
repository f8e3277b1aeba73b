# SPDX-License-Identifier: MIT
"""The count of all tests, from logs of every kind."""

import subprocess
import sys
from pathlib import Path

import pytest

from count_tests import Count, count_log, count_tests

CMOCKA = """[==========] Running 5 test(s).
[ RUN      ] test_a
[  FAILED  ] test_a
[==========] 5 test(s) run.
[  PASSED  ] 3 test(s).
[  SKIPPED ] 1 test(s), listed below:
[  SKIPPED ] test_b
[  FAILED  ] 1 test(s), listed below:
[  FAILED  ] test_a
"""
CMOCKA_PASSED = "[==========] 4 test(s) run.\n[  PASSED  ] 4 test(s).\n"
CMOCKA_CRASHED = "[==========] Running 5 test(s).\n[ RUN      ] test_a\n"


@pytest.mark.parametrize(
    ("result", "log", "expected"),
    [
        ("FAIL", CMOCKA, Count(3, 1, 1)),
        ("PASS", CMOCKA_PASSED, Count(4, 0, 0)),
        ("PASS", CMOCKA_PASSED + CMOCKA_PASSED, Count(8, 0, 0)),
        ("FAIL", CMOCKA_CRASHED, Count(0, 1, 0)),
        ("FAIL", CMOCKA_PASSED, Count(4, 1, 0)),
        ("PASS", "...\n2 passed in 0.1s\n2 passed, 0 failed, 7 skipped\n", Count(2, 0, 7)),
        ("FAIL", "2 passed, 1 failed, 0 skipped\n", Count(2, 1, 0)),
        ("FAIL", "ImportError\n", Count(0, 1, 0)),
        ("ERROR", "", Count(0, 1, 0)),
        ("SKIP", "pytest is missing\n", Count(0, 0, 1)),
        ("SKIP", "0 passed, 0 failed, 3 skipped\n", Count(0, 0, 3)),
        ("PASS", "says what it likes\n", Count(1, 0, 0)),
    ],
)
def test_a_log_counts_what_its_runner_says(result: str, log: str, expected: Count) -> None:
    assert count_log(result, log) == expected


def write(build: Path, name: str, result: str, log: str) -> None:
    path = build / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".trs").write_text(
        f":test-result: {result}\n:global-test-result: {result}\n:recheck: no\n"
    )
    path.with_suffix(".log").write_text(log)


def run(build: Path) -> tuple[int, str]:
    script = Path(__file__).with_name("count_tests.py")
    done = subprocess.run(
        [sys.executable, script, build], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_counts_of_a_builds_logs_are_added_up(tmp_path: Path) -> None:
    write(tmp_path, "tests/test_a", "PASS", CMOCKA_PASSED)
    write(tmp_path, "test_b", "PASS", "7 passed, 0 failed, 0 skipped\n")
    assert run(tmp_path) == (0, "11 passed, 0 failed\n")
    write(tmp_path, "sanitize/address/tests/test_a", "FAIL", "")
    assert count_tests(tmp_path) == Count(11, 0, 0)
    write(tmp_path, "tests/test_c", "FAIL", CMOCKA)
    assert run(tmp_path) == (1, "1 skipped; the logs say why\n14 passed, 1 failed\n")


def test_a_build_without_logs_has_failed(tmp_path: Path) -> None:
    assert run(tmp_path) == (1, "0 passed, 0 failed\n")
