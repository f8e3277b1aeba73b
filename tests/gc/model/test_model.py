# SPDX-License-Identifier: MIT
"""The models of the cycle that marks while the program runs, of the one that marks in a snapshot,
and of the bits of ignored frees: they hold as they are, and each invariant that is taken away makes
them fail."""

import shutil
import subprocess
from pathlib import Path

import pytest

MODEL = Path(__file__).parent / "cycle.pml"
RETIRED = Path(__file__).parent / "retired.pml"
SNAPSHOT_CYCLE = Path(__file__).parent / "snapshot_cycle.pml"

LOST, TWICE = "reached", "listed"  # the assertion that fails
# Blocks, collections; they are the least with which the model fails.
WITHOUT = {
    "LAST_ROOTS": (2, 1, LOST),
    "LAST_HARVEST": (2, 1, LOST),
    "BITS_AFTER": (2, 1, LOST),
    "LISTED_MARKED": (2, 1, TWICE),
    "EVERY_BITMAP": (2, 2, LOST),
    "SWEPT_BEFORE_USE": (2, 2, TWICE),
    "WHOLE_MARKS": (2, 2, LOST),
    "BORN_DIRTY": (3, 1, LOST),
    "PROMOTION": (2, 3, LOST),
}

WITHOUT_IN_RETIRED = {
    "LOCKED_SET": "(word&2)",  # handed-out-clean
    "LOCKED_CLEAR": "(word&1)",  # free-is-noted
    "STOP": "(word&1)",
}

NOTHING_IS_LOST, FREE_IS_MARKED = "(b==one)", "].live"
WITHOUT_IN_FORKED = {
    "COPY": NOTHING_IS_LOST,
    "BORN_MARKED": NOTHING_IS_LOST,
    "MARK_NEWER": NOTHING_IS_LOST,
    "NOTE": NOTHING_IS_LOST,
    "NOTE_FIRST": NOTHING_IS_LOST,
    "SAYING_SO": NOTHING_IS_LOST,
    "REGISTER": NOTHING_IS_LOST,
    "OWN_PLACE": NOTHING_IS_LOST,
    "FREE_MARKED": FREE_IS_MARKED,
}

pytestmark = pytest.mark.skipif(
    not (shutil.which("spin") and shutil.which("gcc")), reason="needs spin and gcc"
)


def verdict(folder: Path, *macros: str, model: Path = MODEL) -> str:
    """What spin's search of every interleaving says."""

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout

    run("spin", "-a", *(f"-D{macro}" for macro in macros), str(model))
    # -O1 compiles for longer than it saves in the search.
    run("gcc", "-O0", "-DSAFETY", "-DNOFAIR", "-DCOLLAPSE", "-o", "pan", "pan.c")
    return run("./pan", "-m100000", "-n")


def test_model_holds_in_every_interleaving(tmp_path: Path) -> None:
    told = verdict(tmp_path, "BLOCKS=2", "COLLECTIONS=2")
    assert "errors: 0" in told and "max search depth too small" not in told, told


@pytest.mark.parametrize("invariant", WITHOUT)
def test_model_fails_without(invariant: str, tmp_path: Path) -> None:
    blocks, collections, property_ = WITHOUT[invariant]
    told = verdict(
        tmp_path, f"BLOCKS={blocks}", f"COLLECTIONS={collections}", f"WITHOUT_{invariant}"
    )
    assert "errors: 1" in told and "assertion violated" in told and property_ in told, told


def test_bits_of_ignored_frees_hold_in_every_interleaving(tmp_path: Path) -> None:
    told = verdict(tmp_path, model=RETIRED)
    assert "errors: 0" in told and "max search depth too small" not in told, told


@pytest.mark.parametrize("invariant", WITHOUT_IN_RETIRED)
def test_bits_of_ignored_frees_fail_without(invariant: str, tmp_path: Path) -> None:
    told = verdict(tmp_path, f"WITHOUT_{invariant}", model=RETIRED)
    assert "errors: 1" in told and "assertion violated" in told, told
    assert WITHOUT_IN_RETIRED[invariant] in told, told


def test_marks_of_a_snapshot_hold_in_every_interleaving(tmp_path: Path) -> None:
    told = verdict(tmp_path, model=SNAPSHOT_CYCLE)
    assert "errors: 0" in told and "max search depth too small" not in told, told


@pytest.mark.parametrize("invariant", WITHOUT_IN_FORKED)
def test_marks_of_a_snapshot_fail_without(invariant: str, tmp_path: Path) -> None:
    property_ = WITHOUT_IN_FORKED[invariant]
    alone = ("NOTHING_IS_LOST_ALONE",) if property_ == NOTHING_IS_LOST else ()
    told = verdict(tmp_path, f"WITHOUT_{invariant}", *alone, model=SNAPSHOT_CYCLE)
    assert "errors: 1" in told and "assertion violated" in told and property_ in told, told


@pytest.mark.parametrize(
    "model, tested",
    [(MODEL, WITHOUT), (RETIRED, WITHOUT_IN_RETIRED), (SNAPSHOT_CYCLE, WITHOUT_IN_FORKED)],
)
def test_each_invariant_of_the_model_is_tested(model: Path, tested: dict[str, object]) -> None:
    named = set()
    for line in model.read_text().splitlines():
        words = line.replace("#ifndef", "#ifdef").split()
        if words[:1] == ["#ifdef"] and words[1].startswith("WITHOUT_"):
            named.add(words[1].removeprefix("WITHOUT_"))
    assert named == set(tested)
