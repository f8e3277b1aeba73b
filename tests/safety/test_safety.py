# SPDX-License-Identifier: MIT
"""What becomes of heap misuse (tests/safety/misuse.h) under our allocators, and how it is told.

Each program of the corpus runs here a few times; misuse_table.py runs each twenty times, and
docs/measurements/safety.md has its table.
"""

import re
import subprocess
from collections import Counter

import pytest
from misuse_table import APART, MISUSE, Case, class_of, corpus, judge, run_once
from under import LIBRARY, Under, allocators_under_test

RUNS = 3
CHECKED = Under("blocks:checked", LIBRARY, "blocks:checked")

# What blocks:checked cannot see: a write that leaps over the canary. (Over-reads stand apart.)
UNSEEN = {("overflow", "skips-64")}

# What is no misuse any more: there is nothing to stop, and no harm either.
BY_DESIGN = {"address-reuse", "zeroing", "executable-or-huge"}

# Under the others: double frees and pointers that are no blocks. These presets keep nothing that
# would tell, as published; gc:classic ignores frees.
TOLD_BY_ALL = ("double-free", "invalid-free")
TELLS_LESS = {"knuth:classic", "cartesian:classic", "bsd:classic", "gnu:classic", "gc:classic"}

# What the others do not tell, or only by its consequences. after-new-use frees a block that has
# been handed out again; what was mapped is a stranger's after its free.
MAY_PASS: set[Case] = {
    ("double-free", "after-new-use"),
    ("invalid-free", "array-cookie"),
    ("invalid-free", "before-16"),
    ("invalid-free", "start-of-page"),
}

CASES = corpus()


def label(case: Case) -> str:
    return "-".join(case)


def test_corpus_has_every_category() -> None:
    count = Counter(category for category, _ in CASES)
    assert len(count) == 11 and min(count.values()) >= 10
    assert count.total() - count[APART] >= 150
    assert len(set(CASES)) == len(CASES)


def expected(case: Case) -> set[str]:
    told = {"caught", "reported"}
    if case[0] == APART:
        return {"caught", "reported", "harmless", "undetected"}
    if case in UNSEEN:
        return {"undetected", "harmless"}
    if case[0] in BY_DESIGN or case == ("zero-size", "unique-and-empty"):
        return told | {"harmless"}
    if case == ("invalid-free", "start-of-page"):
        return told | {"harmless"}  # a live block may begin there
    if case[0] == "underflow":
        return told | {"harmless"}  # the byte before may be the one that is written already
    return {"reported"} if case[0] == "mismatch" else told


@pytest.mark.parametrize("case", [case for case in CASES if case[0] != APART], ids=label)
def test_misuse_is_noticed_by_the_checked_heap(case: Case) -> None:
    found = judge(CHECKED, case, RUNS)
    assert found in expected(case)


@pytest.mark.parametrize("case", [case for case in CASES if case[0] in TOLD_BY_ALL], ids=label)
def test_wrong_frees_are_told_by_every_preset(case: Case) -> None:
    if case in MAY_PASS:
        pytest.skip("some hand out what it names, or it names what they have")
    for under in allocators_under_test():
        if under.name not in TELLS_LESS:
            assert judge(under, case, 1) in {"caught", "reported"}, under.name


def said_of(*case: str) -> str:
    status, said = run_once(CHECKED, (case[0], case[1]))
    assert class_of(status, said) in {"caught", "reported"}
    return said


SITE = r"misuse\+0x[0-9a-f]+"


def test_report_says_what_where_and_whence() -> None:
    said = said_of("double-free", "100")
    assert re.search(
        rf"^allotrope: free\(0x[0-9a-f]+\): freed twice: block of 100 bytes at 0x[0-9a-f]+, "
        rf"called at {SITE}\n  allocated at {SITE}.*\n  freed at {SITE}$",
        said,
        re.MULTILINE,
    ), said


@pytest.mark.parametrize(
    "case, words",
    [
        ("overflow 24-by-1", "written behind its end: block of 24 bytes at"),
        ("underflow 100-by-16", "written before its start, or behind the end of the block before"),
        ("underflow 300000-by-16", "written before its start"),
        (
            "write-after-free 100-middle-byte",
            "written after its free: 50 bytes into a block of 100",
        ),
        ("invalid-free inside-16", "not the start of a live block: 16 bytes into a block of 100"),
        ("invalid-free stack", "not a block of this heap; ignored"),
        ("mismatch new-free", "freed by another kind of operator than it was allocated by"),
        ("mismatch sized-a-little", "freed with another size than it was allocated with"),
        ("mismatch other-alignment", "allocated with another alignment"),
        ("zero-size twice-freed", "not a live block of no bytes"),
    ],
)
def test_report_names_the_fault(case: str, words: str) -> None:
    assert words in said_of(*case.split())


def test_sites_lead_to_the_line() -> None:
    """The return address behind the call, in the file: what addr2line takes."""
    said = said_of("double-free", "100")
    found = re.search(r"allocated at (\S*misuse)\+(0x[0-9a-f]+)", said)
    assert found
    line = subprocess.run(
        ["addr2line", "-e", str(MISUSE), hex(int(found[2], 16) - 1)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "misuse.h:" in line or "frees.cc:" in line


def test_reported_misuse_does_not_end_the_process() -> None:
    under = Under("report", LIBRARY, "blocks:checked,on-error=report")
    for case in (("double-free", "100"), ("overflow", "24-by-1"), ("invalid-free", "inside-16")):
        status, said = run_once(under, case)
        assert status >= 0 and said.startswith("allotrope: ")


def test_reports_are_limited() -> None:
    under = Under("few", LIBRARY, "blocks:checked,on-error=report,reports=1")
    status, said = run_once(under, ("double-free", "in-turn"))
    assert status >= 0
    assert said.count("freed twice") == 1
    assert "further misuses of the heap are only counted" in said


def test_no_report_of_a_sound_program() -> None:
    """C++ with every kind of operator, threads, and what Python does."""
    program = "import json; print(len(json.dumps([{'a': [str(i)] * 3} for i in range(20000)])))"
    result = CHECKED.run(["/usr/bin/python3", "-c", program], timeout=600)
    assert (result.returncode, result.stderr) == (0, "")


def test_sweep_finds_what_was_never_freed() -> None:
    under = Under("report", LIBRARY, "blocks:checked,on-error=report")
    _, said = run_once(under, ("overflow", "kept-24"))
    assert re.search(r"^allotrope: exit\(.*written behind its end", said, re.MULTILINE)
