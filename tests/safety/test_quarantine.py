# SPDX-License-Identifier: MIT
"""gc:free=quarantine: shapes of exploits are stopped, and what is kept for how long.

stale.cc has the shapes, quarantined.c what becomes of freed blocks. Each runs too with collections
at every few allocations.
"""

import re
import signal
import subprocess
from pathlib import Path

import pytest
from under import BUILD, GLIBC, HANG, LIBRARY, Under

STALE = BUILD / "tests" / "safety" / "stale"
QUARANTINED = BUILD / "tests" / "safety" / "quarantined"
DEFAULT = Under("default", LIBRARY, "gc:free=quarantine")
UNDER = [DEFAULT, Under("every", LIBRARY, "gc:free=quarantine,every=40")]
BLOCKS = Under("blocks", LIBRARY, "blocks")
SHAPES = subprocess.run([str(STALE)], capture_output=True, text=True, check=True).stdout.split()
EXPLOITED, FAULTED = 1, 77
SITE = r"quarantined\+0x[0-9a-f]+"

# Glibc, and `blocks`, notice these, or nothing lies at the address any more.
NOTICED = {"resized-mapping", "poisoned-free-list", "freed-twice", "freed-twice-another-between"}

# One line says that there are none.
WITHOUT_COLLECTIONS = ("sandbox", "stop-fails", "forked-by-number", "no-memory")
KEPT_AND_RELEASED = (
    *("global", "stack", "inside", "heap", "thread-local", "register", "thread-stack"),
    *("freed-elsewhere", "released", "ring", "hidden", "resized", "fork", "fork-of-threads"),
    *("large", "pinned", "bounded", "after-exit", "neighbours"),
)
TWICE = {
    "freed-twice": "free",
    "freed-twice-elsewhere": "free",
    "freed-twice-large": "free",
    "freed-by-both": "free",
    "resized-after-free": "realloc",
}


def run(program: Path, name: str, under: Under = DEFAULT) -> subprocess.CompletedProcess[str]:
    return under.run([str(program), name], timeout=HANG)


def test_there_are_twenty_shapes() -> None:
    assert len(set(SHAPES)) == len(SHAPES) >= 20


@pytest.mark.parametrize("name", [shape for shape in SHAPES if shape not in NOTICED])
def test_shape_is_exploited_without_a_quarantine(name: str) -> None:
    assert EXPLOITED in (run(STALE, name, under).returncode for under in (GLIBC, BLOCKS))


@pytest.mark.parametrize("under", UNDER, ids=lambda under: under.name)
@pytest.mark.parametrize("name", SHAPES)
def test_shape_is_stopped(name: str, under: Under) -> None:
    status = run(STALE, name, under).returncode
    twice = name.startswith("freed-") and name != "freed-by-other-thread"
    assert status in ((-signal.SIGABRT,) if twice else (0, FAULTED))


@pytest.mark.parametrize("under", UNDER, ids=lambda under: under.name)
@pytest.mark.parametrize("name", KEPT_AND_RELEASED)
def test_freed_block_stays_while_something_points_to_it(name: str, under: Under) -> None:
    result = run(QUARANTINED, name, under)
    if result.returncode == 77:
        pytest.skip(result.stderr)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("under", UNDER, ids=lambda under: under.name)
@pytest.mark.parametrize("name", TWICE)
def test_second_free_ends_the_process_with_both_sites(name: str, under: Under) -> None:
    result = run(QUARANTINED, name, under)
    assert result.returncode == -signal.SIGABRT
    # Of two threads at once, the one that was first may not have noted its site yet.
    first_site = rf"(  freed at ({SITE})\n)" + "?" * (name == "freed-by-both")
    found = re.fullmatch(
        rf"allotrope: {TWICE[name]}\((0x[0-9a-f]+)\): freed twice: block of \d+ bytes at \1, "
        rf"called at ({SITE})\n{first_site}",
        result.stderr,
    )
    assert found, result.stderr
    assert name == "freed-by-both" or found[2] != found[4]


def test_sites_lead_to_the_lines() -> None:
    sites = re.findall(r"quarantined\+(0x[0-9a-f]+)", run(QUARANTINED, "freed-twice").stderr)
    lines = subprocess.run(
        ["addr2line", "-fe", str(QUARANTINED), *(hex(int(site, 16) - 1) for site in sites)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert lines[::2] == ["test_freed_twice", "free_first"]


@pytest.mark.parametrize("under", UNDER, ids=lambda under: under.name)
def test_write_after_a_free_is_told_when_the_block_is_released(under: Under) -> None:
    result = run(QUARANTINED, "written", under)
    assert result.returncode == 0
    told = re.findall(
        r"^allotrope: quarantine\(0x[0-9a-f]+\): written after its free: 33 bytes into a block of "
        rf"\d+ bytes at 0x[0-9a-f]+\n  freed at {SITE}$",
        result.stderr,
        re.MULTILINE,
    )
    assert 16 <= len(told) <= 50


@pytest.mark.parametrize("name", ("written-reused", "written-dropped"))
def test_write_after_a_free_is_told_before_the_memory_is_used_again(name: str) -> None:
    result = run(QUARANTINED, name)
    assert result.returncode == 0
    assert result.stderr.count("written after its free: 33 bytes into a block of ") > 10


@pytest.mark.parametrize("name", ("written", "written-16"))
def test_that_some_are_only_counted_is_said_if_some_are(name: str, tmp_path: Path) -> None:
    result, statistics = DEFAULT.run_counted([str(QUARANTINED), name], tmp_path)
    told = result.stderr.count("written after its free: ")
    counted = statistics["gc_quarantine"]["written_after_free"]
    assert 10 < told <= counted
    assert ("are only counted" in result.stderr) == (told < counted)


@pytest.mark.parametrize("name", WITHOUT_COLLECTIONS)
def test_without_collections_it_is_a_delay_and_says_so(name: str) -> None:
    result = run(QUARANTINED, name)
    assert result.returncode == 0, result.stderr
    assert re.fullmatch(
        r"allotrope: gc: no collections .*: what is freed is handed out again after a delay.*\n",
        result.stderr,
    )


def test_statistics_tell_what_is_held(tmp_path: Path) -> None:
    _, statistics = DEFAULT.run_counted([str(QUARANTINED), "bounded"], tmp_path)
    counts = statistics["gc_quarantine"]
    assert counts["retired_bytes"] > 900_000_000
    assert counts["released_by_age"] == counts["written_after_free"] == 0
    assert 0 <= counts["held_bytes"] < 10_000_000
    collections = statistics["gc"]["collections"]
    assert 10 <= collections < counts["retired_bytes"] / 1_000_000


@pytest.mark.parametrize("option", ["generations=2", "concurrent=on", "concurrent=fork"])
def test_what_has_no_quarantine_is_refused(option: str) -> None:
    result = Under("refused", LIBRARY, f"gc:free=quarantine,{option}").run(["/bin/true"])
    assert "free=quarantine has full collections in a stopped world only" in result.stderr
    assert result.stderr.count("\n") == 1


def test_no_report_of_a_sound_program() -> None:
    program = "import json; print(len(json.dumps([{'a': [str(i)] * 3} for i in range(20000)])))"
    for under in UNDER:
        result = under.run(["/usr/bin/python3", "-c", program], timeout=600)
        assert (result.returncode, result.stderr) == (0, ""), under.name
