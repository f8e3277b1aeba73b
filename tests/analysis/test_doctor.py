# SPDX-License-Identifier: MIT
"""What the doctor says of a machine; absent is absent."""

import errno
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any, Sequence

import pytest
from allotrope.system import capabilities
from allotrope.system.allocators import PEERS, Peer
from allotrope.system.native import Answer
from conftest import Command
from under import HANG, PYTHON, SOURCE, refusing

PERF_EVENT_OPEN, USERFAULTFD = 298, 323  # system calls


def rows(command: Command, prefix: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """prefix: words before the command."""
    line = [*prefix, *command.line("doctor", "--json")]
    document = json.loads(subprocess.check_output(line, env=command.environment(), timeout=HANG))
    assert document["schema"] == "allotrope.doctor/1"
    return {row["name"]: row for row in document["rows"]}


def test_every_row_says_what_follows(mock: Command) -> None:
    for row in rows(mock).values():
        assert set(row) == {"name", "state", "available", "consequence"}
        assert row["state"] and row["consequence"]


def test_facts_are_those_of_the_machine(mock: Command) -> None:
    found = rows(mock)
    assert found["kernel"]["state"] == platform.release()
    assert "built, 9.9" in found["allotrope's library"]["state"]
    for peer in PEERS:
        assert found[peer.name]["available"] == (peer.path() is not None)


def test_missing_parts_are_named_with_what_to_do(tmp_path: Path) -> None:
    found = rows(Command(tmp_path))
    assert found["launcher"]["available"] is False
    assert "run make" in found["launcher"]["consequence"]
    assert found["allotrope's library"]["available"] is False
    assert found["cgroup memory.peak"]["available"] is None


def test_missing_peer_and_tool_name_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "path", lambda peer: None)
    monkeypatch.setattr(capabilities.shutil, "which", lambda name: None)
    found = {row.name: row for row in capabilities.examine()}
    assert found["jemalloc"].state == "missing"
    assert "libjemalloc2" in found["jemalloc"].consequence
    assert found["valgrind"].state == "missing" and "valgrind" in found["valgrind"].consequence


def row_of(name: str) -> capabilities.Row:
    (row,) = [row for row in capabilities.examine() if row.name == name]
    return row


@pytest.mark.parametrize("release", ["6.1.0-18-amd64", "7.0", "?"])
@pytest.mark.parametrize("ns, state", [(9000, "available"), (None, "refused")])
def test_dirty_bits_are_what_a_trial_says(
    monkeypatch: pytest.MonkeyPatch, release: str, ns: int | None, state: str
) -> None:
    """Whatever the kernel's version."""
    figure = {"what": "open", "by": "async", "count": None, "ns": ns, "why": "no WP_ASYNC"}
    tried = Answer(json.dumps({"figures": [figure]}).encode(), "", 0)
    monkeypatch.setattr(platform, "release", lambda: release)
    monkeypatch.setattr(capabilities, "ask", lambda program, word: tried)
    found = row_of("dirty bits without signals")
    assert (found.state, found.available) == (state, state == "available")
    assert ("no WP_ASYNC" in found.consequence) is (state == "refused")


def test_dirty_bits_that_are_refused_are_told(real: Command) -> None:
    found = rows(real, refusing(USERFAULTFD))["dirty bits without signals"]
    assert (found["state"], found["available"]) == ("refused", False)
    said = "the kernel refuses userfaultfd; generations=2 and concurrent=on do nothing"
    assert found["consequence"] == said


@pytest.mark.parametrize("ended", [Answer(b"", "it was killed", 137), Answer(b"", "", 1)])
def test_dirty_bits_are_unknown_where_nothing_could_be_tried(
    monkeypatch: pytest.MonkeyPatch, ended: Answer
) -> None:
    monkeypatch.setattr(capabilities, "ask", lambda program, word: ended)
    found = row_of("dirty bits without signals")
    assert (found.state, found.available) == ("unknown", None)
    assert found.consequence


@pytest.mark.parametrize(
    "error, devices, level, user, state, said",
    [
        (0, "cpu_core cpu_atom", 2, 1000, "available", "can count"),
        (0, "", 2, 1000, "available", "can count"),
        (errno.ENOENT, "software", 2, 0, "absent", "simulated"),
        (errno.EACCES, "software", 4, 1000, "absent", "simulated"),
        (errno.EACCES, "cpu_core cpu_atom", 4, 1000, "forbidden", "is 4, need 2"),
        (errno.EPERM, "cpu", 2, 1000, "forbidden", "perf_event_open fails: Operation not perm"),
        (errno.EPERM, "cpu", 4, 0, "forbidden", "perf_event_open fails: Operation not permitted"),
    ],
)
def test_counters_are_what_a_trial_says(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: int,
    devices: str,
    level: int,
    user: int,
    state: str,
    said: str,
) -> None:
    for name in devices.split():
        (tmp_path / name).mkdir()
    monkeypatch.setattr(capabilities, "PMU_DEVICES", tmp_path)
    monkeypatch.setattr(capabilities, "counter_error", lambda: error)
    monkeypatch.setattr(capabilities, "read_line", lambda path: str(level))
    monkeypatch.setattr(capabilities.os, "geteuid", lambda: user)
    found = row_of("hardware counters")
    assert (found.state, found.available) == (state, state == "available")
    assert said in found.consequence


def test_refused_counter_is_an_error() -> None:
    ask = "from allotrope.system.capabilities import counter_error; print(counter_error())"
    command = [*refusing(PERF_EVENT_OPEN), PYTHON, "-c", ask]
    environment = dict(os.environ, PYTHONPATH=str(SOURCE / "analysis"))
    assert subprocess.check_output(command, env=environment, text=True) == f"{errno.EPERM}\n"


def test_unreadable_settings_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capabilities, "read_line", lambda path: None)
    found = {row.name: row for row in capabilities.examine()}
    assert found["overcommit"].state == "unknown"
    assert found["transparent huge pages"].state == "absent"


def test_a_missing_proc_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "/proc" not in {row.name for row in capabilities.examine()}
    monkeypatch.setattr(capabilities, "proc_is_mounted", lambda: False)
    (row,) = [row for row in capabilities.examine() if row.name == "/proc"]
    assert (row.state, row.available) == ("not mounted", False)
    assert row.consequence.endswith("; mount -t proc proc /proc")


@pytest.mark.parametrize("width", [80, 100])
def test_no_path_is_broken(real: Command, width: int) -> None:
    rows = json.loads(real.run("doctor", "--json").stdout)["rows"]
    words = [word for row in rows for word in row["consequence"].split()]
    environment = {"COLUMNS": str(width)}
    shown = real.run("doctor", environment=environment).stdout.split()
    assert {word for word in words if word.startswith("/")} <= set(shown)


def test_table_is_no_wider_than_100_columns(mock: Command) -> None:
    shown = mock.run("doctor")
    assert shown.returncode == 0
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "allotrope's library" in shown.stdout


def test_tree_memory_is_what_the_launcher_does(real: Command) -> None:
    script = ["sh", "-c", "sleep 0.1; true"]
    launcher = str(real.build / "allotrope-launch")
    done = subprocess.run([launcher, *script], capture_output=True, text=True, timeout=HANG)
    method = json.loads(done.stderr)["tree_peak"]["method"]
    assert rows(real)["cgroup memory.peak"]["available"] is (method == "memory.peak")
