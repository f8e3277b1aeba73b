# SPDX-License-Identifier: MIT
"""What the doctor says of a machine; absent is absent."""

import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest
from allotrope.system import capabilities
from allotrope.system.allocators import PEERS, Peer
from conftest import Command
from under import HANG


def rows(command: Command) -> dict[str, dict[str, Any]]:
    document = json.loads(command.run("doctor", "--json").stdout)
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


@pytest.mark.parametrize(
    "release, available", [("6.1.0-18-amd64", False), ("6.7.0", True), ("7.0", True), ("?", False)]
)
def test_dirty_bits_depend_on_the_kernel(
    monkeypatch: pytest.MonkeyPatch, release: str, available: bool
) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    found = {row.name: row for row in capabilities.examine()}
    assert found["dirty bits without signals"].available is available


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
