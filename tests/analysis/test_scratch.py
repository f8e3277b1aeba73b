# SPDX-License-Identifier: MIT
"""What a killed command leaves: no program, and folders that go with the next command."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from allotrope.system.scratch import MARK, PREFIX, remove_ownerless, scratch_folder
from conftest import Command
from under import PYTHON, SOURCE, await_that, processes_that_name

OWNER = """
import sys, time
from allotrope.system.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "figures").write_text("1")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    remove_ownerless.cache_clear()
    return tmp_path


def start_owner() -> tuple["subprocess.Popen[str]", Path]:
    line = [PYTHON, "-c", OWNER]
    owner = subprocess.Popen(line, cwd=SOURCE / "analysis", stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


def test_a_folder_goes_with_its_with(place: Path) -> None:
    with scratch_folder() as folder:
        (folder / "figures").write_text("1")
        assert folder.parent == place
    assert not list(place.iterdir())


def test_a_killed_owners_folder_goes_with_the_next_and_a_living_ones_stays(place: Path) -> None:
    dead, left = start_owner()
    living, used = start_owner()
    dead.kill()
    dead.wait()
    assert (left / "figures").exists()
    try:
        with scratch_folder():
            assert not left.exists() and (used / "figures").exists()
    finally:
        living.kill()
        living.wait()


def test_a_folder_whose_owner_is_killed_as_it_removes_it_goes_with_the_next(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its mark, which goes last."""
    unlink = os.unlink

    def killed_behind_the_mark(path: Any, **given: Any) -> None:
        unlink(path, **given)
        if os.path.basename(path) == MARK:
            raise SystemExit

    monkeypatch.setattr(os, "unlink", killed_behind_the_mark)
    with pytest.raises(SystemExit), scratch_folder() as folder:
        for number in range(20):
            (folder / str(number)).touch()
            (folder / f"in-{number}").mkdir()
    assert not list(folder.iterdir())


def test_folders_that_only_look_like_ours_stay(place: Path) -> None:
    (place / f"{PREFIX}of-the-user").mkdir()
    with scratch_folder():
        pass
    assert (place / f"{PREFIX}of-the-user").exists()


def test_a_killed_comparison_leaves_nothing_to_the_next(real: Command, place: Path) -> None:
    line = ["compare", "--rounds=1", "-a", "glibc", "--"]
    with real.start(*line, "sh", "-c", f"touch {place}/mark; sleep 600; true") as process:
        await_that((place / "mark").exists)
        process.kill()
    await_that(lambda: not processes_that_name(place))
    assert not processes_that_name(place)
    assert list(place.glob(f"{PREFIX}*"))
    assert real.run(*line, "true").returncode == 0
    assert [left.name for left in place.iterdir()] == ["mark"]


@pytest.mark.parametrize(
    "words",
    ["compare --rounds=1 -a glibc", "sites", "events -o a.ale", "verify-gc", "record -o a.alt"]
    + ["locality --json a.json"],
    ids=lambda words: str(words.split()[0]),
)
def test_a_killed_command_leaves_no_program(real: Command, place: Path, words: str) -> None:
    mark, never = place / "mark", place / "never"
    os.mkfifo(never)
    script = f"echo >{mark}; read line <{never}; exit 0"
    with real.start(*words.split(), "--", "/bin/sh", "-c", script, cwd=place) as process:
        await_that(mark.exists)
        process.kill()
    await_that(lambda: not processes_that_name(place))
    left = processes_that_name(place)
    for one in left:
        os.kill(int(one), signal.SIGKILL)
    assert not left
