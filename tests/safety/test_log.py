# SPDX-License-Identifier: MIT
"""ALLOTROPE_LOG and `run --log`: what the library says of a program reaches its log, whatever the
program does to its descriptors (tests/safety/logged.c)."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import Command
from under import BUILD, HANG, LIBRARY, Under

LOGGED = str(BUILD / "tests" / "safety" / "logged")
CHECKED = "blocks:checked,on-error=report"


def run(
    name: str, log: Path | str, *words: str, spec: str = CHECKED
) -> subprocess.CompletedProcess[str]:
    under = Under(spec, LIBRARY, spec)
    return under.run([LOGGED, name, *words], {"ALLOTROPE_LOG": str(log)}, timeout=HANG)


def said_twice(file: Path) -> int:
    """How many double frees a log has."""
    text = file.read_text()
    assert all(line.startswith(("allotrope: ", "  ")) for line in text.splitlines()), text
    return text.count("freed twice")


@pytest.mark.parametrize(
    "spec", ["blocks:checked", "blocks:guard=1,slots=64", "gc:free=quarantine"]
)
def test_a_redirected_standard_error_loses_nothing(spec: str, tmp_path: Path) -> None:
    result = run("redirected", tmp_path / "log", spec=spec)
    assert (result.returncode, result.stderr) == (-signal.SIGABRT, "")
    assert said_twice(tmp_path / "log") == 1


def test_lines_go_to_the_log_and_not_to_standard_error(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("allotrope: of an earlier process\n")
    result = run("plain", tmp_path / "log")
    assert (result.returncode, result.stderr) == (0, "")
    assert said_twice(tmp_path / "log") == 1
    assert (tmp_path / "log").read_text().startswith("allotrope: of an earlier process\n")


@pytest.mark.parametrize("name", ["forked", "vforked", "executed"])
def test_processes_share_a_log(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path / "log").returncode == 0
    assert said_twice(tmp_path / "log") == 2


@pytest.mark.parametrize("name", ["forked", "vforked"])
def test_a_process_id_in_the_name_is_that_of_who_speaks(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path / "%p.log").returncode == 0
    logs = list(tmp_path.iterdir())
    assert len(logs) == 2 and all(log.stem.isdigit() for log in logs)
    assert [said_twice(log) for log in logs] == [1, 1]


@pytest.mark.parametrize("name", ["log", "%p.log"])
def test_a_program_may_close_every_descriptor(name: str, tmp_path: Path) -> None:
    assert run("closed", tmp_path / name).returncode == 0
    (log,) = tmp_path.iterdir()
    assert said_twice(log) == 2


@pytest.mark.parametrize("name", ["log", "%p.log"])
@pytest.mark.parametrize("kind, lines", [("reused", 1), ("crowded", 0)])
def test_what_took_the_logs_number_is_left_alone(
    kind: str, lines: int, name: str, tmp_path: Path
) -> None:
    """Where no descriptor is free (crowded) the line is lost."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    logs.mkdir()
    assert run(kind, logs / name, str(data)).returncode == 0
    assert data.read_text() == "data"
    (log,) = logs.iterdir()
    assert said_twice(log) == lines


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("name", ["log", "%p.log"])
@pytest.mark.parametrize("who", ["jailed", "jailed-child"])
def test_a_jail_and_another_user_do_not_end_the_log(who: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "jail").mkdir()
    (tmp_path / "logs").mkdir()
    result = run(who, tmp_path / "logs" / name, str(tmp_path / "jail"))
    assert result.returncode == 0, result
    (log,) = (tmp_path / "logs").iterdir()
    assert said_twice(log) == 1
    assert not list((tmp_path / "jail").iterdir())


@pytest.mark.parametrize("name", ["log", "%p.log"])
def test_a_sandbox_is_written_from_without_opening_a_file(name: str, tmp_path: Path) -> None:
    assert run("sandboxed", tmp_path / name).returncode == 0
    (log,) = tmp_path.iterdir()
    assert said_twice(log) == 1


def test_a_log_that_cannot_be_opened_is_named_and_lines_go_to_standard_error(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for log in (tmp_path / "missing" / "log", tmp_path, tmp_path / "pipe"):
        result = run("plain", log)
        first, second = result.stderr.splitlines()[:2]
        assert result.returncode == 0
        assert first == (
            f'allotrope: cannot write to "{log}"; ALLOTROPE_LOG names a file that can be created'
        )
        assert "freed twice" in second


def test_a_full_log_sends_lines_to_standard_error() -> None:
    result = run("plain", "/dev/full")
    assert result.returncode == 0 and "freed twice" in result.stderr


@pytest.mark.parametrize("log", ["", "-"])
def test_standard_error_of_the_start_is_kept(log: str) -> None:
    result = run("redirected", log)
    assert result.returncode == 0 and "freed twice" in result.stderr


def test_a_log_is_its_users_alone(tmp_path: Path) -> None:
    assert run("plain", tmp_path / "log").returncode == 0
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


def test_what_ends_the_start_is_said_on_standard_error(tmp_path: Path) -> None:
    result = run("plain", tmp_path / "log", spec="blocks:nonsense")
    assert result.returncode == 2 and "nonsense" in result.stderr
    assert (tmp_path / "log").read_text() == ""


class TestCommand:
    def test_the_log_is_named_from_here(self, real: Command, tmp_path: Path) -> None:
        script = f"cd /; {LOGGED} redirected"
        for option in (["--log=one"], ["--log", "two", "--stats=/dev/null"]):
            words = ["run", "-a", CHECKED, *option, "--", "sh", "-c", script]
            done = real.run(*words, cwd=tmp_path)
            assert (done.returncode, done.stderr) == (0, "")
        assert said_twice(tmp_path / "one") == said_twice(tmp_path / "two") == 1

    def test_a_bare_report_may_stand_behind_it(self, real: Command, tmp_path: Path) -> None:
        log = str(tmp_path / "log")
        done = real.run("run", "-a", CHECKED, "--log", log, "--stats", LOGGED, "plain")
        assert done.returncode == 0 and "peak" in done.stderr
        assert said_twice(tmp_path / "log") == 1

    @pytest.mark.parametrize(
        "words, said",
        [
            (["-a", "glibc", "--log=x"], "--log: glibc says nothing there"),
            (["-a", "bsd", "--log=/no/such/log"], "--log: cannot write /no/such/log"),
            (["-a", "bsd", "--log=x", "--stats=x"], "--log: x is already written by --stats"),
        ],
    )
    def test_a_log_that_makes_no_sense_is_refused(
        self, real: Command, words: list[str], said: str, tmp_path: Path
    ) -> None:
        done = real.run("run", *words, "--", "true", cwd=tmp_path)
        assert done.returncode == 2 and said in done.stderr, done.stderr
