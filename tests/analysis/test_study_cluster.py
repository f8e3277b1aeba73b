# SPDX-License-Identifier: MIT
"""Studies on a cluster: the figures of one machine, nothing lost, doubled or mixed, and what the
page says of the machines."""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from allotrope.statistics.verdicts import Verdict
from allotrope.study.barriers.plan import OF_NO_PROGRAM, ORDERS, Extent
from allotrope.study.barriers.report import limits as barriers_limits
from allotrope.study.barriers.study import BarriersWork
from allotrope.study.measured_by import LACKING, MACHINES
from allotrope.study.on_cluster import OnCluster, Shares
from allotrope.study.store import Store
from allotrope.study.zorn.answer import limits
from allotrope.study.zorn.results import Results
from allotrope.study.zorn.rules import all_claims
from conftest import Command
from made_up_study import whole_study
from test_barriers import AS_IN_1993, made_up
from test_cluster import (  # noqa: F401
    Cluster,
    children_of,
    cluster,
    command_of,
    measuring,
    needs_dask,
    wait_until,
)
from test_frame import NAMES, NothingWork
from under import HANG, PYTHON, SOURCE

TABLE = """
[[program]]
name = "cfrac"
row = "switch"
packages = []
setup = []
scale = { timed = "10000000000000061", traced = "1000003" }
[program.optimised]
command = ["{build}/bench_programs/cfrac/cfrac", "{scale}"]

[[program]]
name = "echo"
row = "switch"
packages = []
setup = []
[program.optimised]
command = ["/bin/echo", "hello"]
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A study of seconds, whose probes and accounts are deterministic."""
    table = tmp_path_factory.mktemp("table") / "two.toml"
    table.write_text(TABLE)
    words = ["study", "zorn", "--quick", "--rounds", "1", "--programs", str(table)]
    return [*words, "--only", "cfrac", "--only", "echo"]


def steps_of(folder: Path) -> dict[str, Any]:
    files = (folder / "steps").glob("*/*.json")
    return {str(one.relative_to(folder)): json.loads(one.read_text()) for one in files}


def deterministic(folder: Path) -> dict[str, Any]:
    """What does not depend on time, by the step's file."""
    found: dict[str, Any] = {}
    for name, step in steps_of(folder).items():
        result = step["result"]
        if "/account/" in name:
            heap = {key: result["heap"][key] for key in ("calls", "mapped_peak_bytes", "sizes")}
            found[name] = [heap, result["calls"], result["total"]]
        elif "/probe/" in name:
            found[name] = [result["timed_output"], result["traced_output"]]
        else:
            found[name] = [
                sorted(result),
                {one["padding"] for one in result.values()},
            ]
        found[name].append(step["fingerprint"])
    return found


@pytest.fixture(scope="module")
def measured_here(
    real: Command, asked: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("one") / "out"
    done = real.run(*asked, "--measure-only", "--out", str(folder), timeout=HANG)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def one_machine(measured_here: Path) -> dict[str, Any]:
    return deterministic(measured_here)


def test_what_is_only_measured_is_drawn_afterwards(real: Command, measured_here: Path) -> None:
    """Each worker of a cluster only measures."""
    page = measured_here / "study.html"
    assert not page.exists()
    again = ["study", "zorn", "--quick", "--resume", "--report-only", "--out", str(measured_here)]
    done = real.run(*again)
    assert done.returncode == 0, done.stderr
    assert page.exists()


def begin(real: Command, asked: list[str], folder: Path, address: str) -> subprocess.Popen[str]:
    words = [*asked, "--out", str(folder), "--cluster", address, "--noise", "any"]
    return real.start(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@needs_dask
def test_a_killed_worker_loses_and_doubles_nothing(
    real: Command,
    asked: list[str],
    one_machine: dict[str, Any],
    cluster: Cluster,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder = tmp_path / "out"
    cluster.start_worker()
    started = begin(real, asked, folder, cluster.address)
    victim = cluster.workers[0]
    wait_until(lambda: bool(measuring(victim)), started)
    (orphan,) = measuring(victim)
    assert "--measure-only" in command_of(orphan)  # a page there would be drawn in vain
    cluster.start_worker()
    victim.send_signal(signal.SIGKILL)
    wait_until(lambda: "--only" not in command_of(orphan), started)
    _, errors = started.communicate(timeout=HANG)
    assert started.returncode == 0, errors
    assert "was lost; begun anew: cfrac" in errors
    assert errors.count(" was measured on ") == 2
    assert deterministic(folder) == one_machine
    host = socket.gethostname()
    study = json.loads((folder / "measurements.json").read_text())["study"]
    assert sorted(study[MACHINES][host]["programs"]) == ["cfrac", "echo"]
    page = (folder / "study.html").read_text()
    assert f"{host} ({study[MACHINES][host]['kind']}): cfrac, echo." in page
    assert f"{host}: cpu: " in page


@needs_dask
def test_an_interrupted_study_goes_on(
    real: Command, asked: list[str], one_machine: dict[str, Any], tmp_path: Path
) -> None:
    """And what is done is not done again."""
    folder = tmp_path / "out"
    started = begin(real, asked, folder, "local:1")
    wait_until(lambda: (folder / "steps" / "round" / "cfrac 1.json").exists(), started)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=HANG)
    assert started.returncode == 130 and f"--resume --out {folder} continues" in errors
    kept = {path: path.read_bytes() for path in folder.glob("steps/*/*.json")}
    assert {path.name.split()[0].removesuffix(".json") for path in kept} == {"cfrac"}
    again = ["study", "zorn", "--quick", "--resume", "--out", str(folder)]
    refused = real.run(*again)
    assert refused.returncode == 2
    assert "begun with --cluster; continue it with it" in refused.stderr
    done = real.run(*again, "--cluster", "local:1", "--noise", "any", timeout=HANG)
    assert done.returncode == 0, done.stderr
    assert "2 tasks, 1 done before" in done.stderr
    assert done.stderr.count(" was measured on ") == 1
    assert {path: path.read_bytes() for path in kept} == kept
    assert deterministic(folder) == one_machine


@pytest.mark.parametrize(
    "run",
    [
        "system.launch import run_group; run_group(['sleep', '61'], 0, 1, 99)",
        "study.barriers.measure import run; run(['sleep', '61'], 99)",
    ],
)
def test_what_a_study_runs_ends_with_it(run: str) -> None:
    """A worker that is killed takes the study with it; nothing may disturb the next one."""
    study = subprocess.Popen(
        [PYTHON, "-c", f"from allotrope.{run}"],
        env=os.environ | {"PYTHONPATH": str(SOURCE / "analysis")},
        text=True,
    )
    wait_until(lambda: any("sleep" in command_of(one) for one in children_of(study.pid)), study)
    (child,) = children_of(study.pid)
    study.kill()
    study.wait()
    deadline = time.monotonic() + 20  # far below the 61 s that it would take
    while "sleep" in command_of(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def offered(store: Store, shares: Shares, name: str) -> dict[str, Any]:
    """What a worker returns that has measured the program."""
    (planned,) = shares.shares[name].planned
    path = str(store.path(planned.step).relative_to(store.folder))
    saved = {"fingerprint": planned.step.fingerprint(), "result": {"name": name}}
    files = {path: json.dumps(saved), "study.json": json.dumps({"machine": {"cpu": "Z80"}})}
    return {"host": "alpha", "status": 0, "output": "", "errors": "", "files": files}


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Store, Callable[[], Shares]]:
    """A study of two steps, each a share of its own."""
    store = Store(tmp_path / "out", "allotrope.nothing/1")
    store.begin({"quick": False, "machine": {}, MACHINES: {}}, resume=False)

    where = OnCluster("local:2", 0.05, None)

    def shares() -> Shares:
        made = Shares(NothingWork(store, lambda _: None, NAMES, lambda: None), [], where)
        for host in ("alpha", "beta"):
            made.machines.meet(f"tcp://{host}", {"host": host, "kind": "Z80", "lacks": []})
        return made

    return store, shares


def test_a_step_of_other_programs_is_refused_by_name(
    begun: tuple[Store, Callable[[], Shares]]
) -> None:
    """And so is one that is not there, with what the command said. Nothing of it is kept."""
    store, make = begun
    shares = make()
    result = offered(store, shares, "one")
    path = next(iter(result["files"]))
    files = result["files"] | {path: json.dumps({"fingerprint": "0", "result": {}})}
    why = shares.keep("one", result | {"files": files})
    assert why == "round · one is of other programs or allocators than are here"
    ended = {"files": {}, "status": 1, "errors": "one: fails under glibc\nallotrope: nothing\n"}
    why = shares.keep("one", result | ended)
    assert why == "round · one was not measured: fails under glibc"
    why = shares.keep("one", result | {"files": {}, "status": -9})
    assert why == (
        "round · one was not measured: the command ended with status -9 (without a word)"
    )
    assert not (store.folder / "steps").exists() and store.study()[MACHINES] == {}
    assert list(shares.missing()) == ["one", "two"]


def test_a_program_is_one_machines(begun: tuple[Store, Callable[[], Shares]]) -> None:
    """What was measured again elsewhere is not the first machine's any more; what was given up is
    named."""
    store, make = begun
    shares = make()
    assert shares.keep("one", offered(store, shares, "one")) is None
    assert list(make().missing()) == ["two"]
    (planned,) = shares.shares["one"].planned
    store.path(planned.step).unlink()
    shares = make()
    assert list(shares.missing()) == ["one", "two"]
    assert shares.keep("one", offered(store, shares, "one") | {"host": "beta"}) is None
    shares.failures["two"] = "every worker that measured it was lost"
    shares.note_lacking()
    study = store.study()
    assert {host: one["programs"] for host, one in study[MACHINES].items()} == {
        "alpha": [],
        "beta": ["one"],
    }
    assert list(make().missing()) == ["two"]
    store.note(**{MACHINES: {}})  # whose it is, is not known
    assert list(make().missing()) == ["one", "two"]
    assert study[MACHINES]["beta"]["facts"] == {"cpu": "Z80"}
    assert study[LACKING] == {"two": "every worker that measured it was lost"}


def on_machines(study: Any, **kinds: tuple[str, list[str]]) -> dict[str, Any]:
    """The study's head, had these hosts measured it."""
    machines = {
        host: {"kind": kind, "noise": None, "facts": {}, "programs": programs}
        for host, (kind, programs) in kinds.items()
    }
    return {**study, "only": [], MACHINES: machines}


@pytest.mark.parametrize("kind", ["Z80", "6502"])
def test_programs_on_unlike_machines_are_not_compared(kind: str) -> None:
    """Claim 3 alone holds times of one program against those of another."""
    here = whole_study()
    names = [one.name for one in here.programs]
    there = Results(**{**vars(here)})
    there.study = on_machines(here.study, alpha=("Z80", names[:2]), beta=(kind, names[2:]))
    claims = {claim.number: claim for claim in all_claims(there)}
    alike = {claim.number: claim for claim in all_claims(here)}
    differ = [number for number in claims if claims[number].parts != alike[number].parts]
    said = " ".join(limits(there))
    assert f"beta ({kind}): {', '.join(names[2:])}." in said
    if kind == "Z80":
        assert differ == [] and "different kinds" not in said
    else:
        assert differ == ["3"] and claims["3"].verdict is Verdict.NOT_DECIDED
        assert "different kinds" in claims["3"].figures() and "different kinds" in said


def test_loops_on_another_machine_decide_nothing_of_a_trap() -> None:
    here = made_up(AS_IN_1993)
    of_alpha = ["destroy", OF_NO_PROGRAM]
    together = on_machines(here.study, alpha=("Z80", [*of_alpha, "interactive"]))
    apart = on_machines(here.study, alpha=("Z80", of_alpha), beta=("Z80", ["interactive"]))
    interactive = here.workloads()[1]
    assert here.of(interactive).trap_undecided() == ""
    here.study = together
    assert here.of(interactive).trap_undecided() == ""
    here.study = {**apart, LACKING: {"json": "every worker that measured it was lost"}}
    assert here.of(interactive).trap_undecided() == "the loops ran on another machine"
    said = " ".join(barriers_limits(here, []))
    assert f"alpha (Z80): destroy, {OF_NO_PROGRAM}; beta (Z80): interactive." in said
    assert "Not measured: json (every worker that measured it was lost)." in said


def test_what_claims_compare_is_measured_together(tmp_path: Path) -> None:
    store = Store(tmp_path, "allotrope.barriers/1")
    store.begin({"quick": False, "machine": {}}, resume=False)
    work = BarriersWork(store, Extent(False, 2), ORDERS, lambda _: None)
    shares = work.shares()
    assert [share.name for share in shares] == [
        "destroy and interactive",
        "json",
        "destroy-100",
        "interactive-100",
    ]
    assert {planned.step.kind for planned in shares[0].planned} == {
        *("round", "loop", "vm", "instructions")
    }
    steps = [planned.step for share in shares for planned in share.planned]
    assert sorted(map(str, steps)) == sorted(str(one.step) for one in work.known_steps())


@pytest.mark.parametrize(
    "more, told",
    [
        (("--resume", "--report-only", "--cluster", "nowhere:1"), "leave out --cluster"),
        (("--measure-only", "--cluster", "nowhere:1"), "leave it out with --cluster"),
        (("--measure-only", "--resume", "--report-only"), "leave it out with --report-only"),
        (("--noise", "2%"), "--noise needs --cluster"),
        (("--cluster", "nowhere:1", "--replicate", "3"), "--replicate"),
        (("--from", "x", "--out", "y", "--cluster", "nowhere:1"), "leave out --cluster"),
    ],
)
def test_mistakes_are_told(real: Command, more: tuple[str, ...], told: str) -> None:
    done = real.run("study", "barriers", *more)
    assert done.returncode == 2 and told in done.stderr and done.stderr.count("\n") == 1
