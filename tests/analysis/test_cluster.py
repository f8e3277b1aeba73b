# SPDX-License-Identifier: MIT
"""Suites and simulations on a cluster: the same figures, nothing lost or doubled, and what is told
when workers, the scheduler or Dask itself are not there."""

import contextlib
import csv
import fcntl
import json
import os
import platform
import pty
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Iterator, NamedTuple, Sequence

import jsonschema
import pytest
from allotrope.features.cluster import connection, submission, worker
from allotrope.features.cluster.simulate import Submission, answer_of
from allotrope.features.server.plan import free_port
from allotrope.features.suite.output import recommend_suite
from allotrope.features.suite.tables import name_of
from allotrope.system.errors import UserError
from conftest import Command
from test_suite import SCHEMA
from under import BUILD, HANG, PYTHON, SOURCE

try:
    import distributed  # noqa: F401

    DASK = True
except ImportError:
    DASK = False
needs_dask = pytest.mark.skipif(not DASK, reason="needs the Debian package python3-distributed")

TWO = """
title = "two"
[[program]]
name = "sorted"
setup = "seq 3000 > input"
input = "input"
command = ["sort", "-r"]
[[program]]
name = "awk"
command = '''
sleep 0.1
grep -q "SigIgn.*[2367abef]$" /proc/self/status && exit 3  # a worker's ignored INT is its own
exec awk "BEGIN { for (i = 0; i < 3000; i++) a[i] = i; print a[7] }"
'''
"""
# Dask looks 100 times a second at what its threads do, and 50 times at whether it is late.
QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
}
ROUNDS = 2
CHOICE = ("-a", "glibc", "-a", "blocks")


def deterministic(document: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on time: the heap's account, and how often what was called."""
    return {
        entry["name"]: [
            {
                "spec": result["spec"],
                "status": result["status"],
                "rounds": len(result["cpu_seconds"]["rounds"]),
                "allocations": result["served"]["allocations"],
                "heap": result["heap"]
                and {
                    key: result["heap"][key]
                    for key in ("calls", "mapped_peak_bytes", "requested_peak_bytes", "sizes")
                },
            }
            for result in entry["comparison"]["results"]
        ]
        for entry in document["programs"]
    }


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all: programs see where it is, and allocate for it."""
    file = tmp_path_factory.mktemp("suite") / "suite.toml"
    file.write_text(TWO)
    return file


def words(suite: Path, folder: Path, *more: str) -> list[str]:
    given = ["compare", "--suite", str(suite), "--rounds", str(ROUNDS), *CHOICE]
    return [*given, "--json", str(folder / "json"), "--state", str(folder / "state"), *more]


def on(address: str) -> list[str]:
    """A cluster whose machines need not be quiet: tests run where it is not."""
    return ["--cluster", address, "--noise", "any"]


def read(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "json").read_text())
    jsonschema.validate(document, SCHEMA)
    return document


@pytest.fixture(scope="module")
def one_machine(
    real: Command, suite_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """Deterministic figures of the suite without a cluster."""
    folder = tmp_path_factory.mktemp("one")
    done = real.run(*words(suite_file, folder))
    assert done.returncode == 0, done.stderr
    return deterministic(read(folder))


class Cluster:
    """A scheduler and workers, each a process of its own that a test may kill. tls: what they are
    told on the command line where they speak nothing else."""

    def __init__(self, folder: Path, tls: Sequence[str] = ()) -> None:
        self.folder = folder
        self.tls = tls
        self.port = free_port()
        self.scheme = "tls://" if tls else ""
        self.address = f"{self.scheme}127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start_scheduler()
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / "dask.log", "ab")
        with log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, env=os.environ | QUIET
            )
        self.processes.append(process)
        return process

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        own = ["--host", "0.0.0.0", "--port", str(self.port), "--no-dashboard", *self.tls]
        own += ["--protocol", "tls"] if self.tls else []
        return self.start(PYTHON, shutil.which("dask-scheduler") or "dask-scheduler", *own)

    def start_worker(self, *before: str, scheduler: str = "127.0.0.1") -> None:
        """before: a command that runs it elsewhere, where the scheduler has another address."""
        own = ["--no-nanny", "--no-dashboard", "--nthreads", "1", "--memory-limit", "0"]
        own += ["--local-directory", str(self.folder), *self.tls]
        program = shutil.which("dask-worker") or "dask-worker"
        address = f"{self.scheme}{scheduler}:{self.port}"
        self.workers.append(self.start(*before, PYTHON, program, address, *own))

    def start_elsewhere(self, hidden: Path, instead: Path) -> None:
        """A worker on which one file is another."""
        script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        before = ["unshare", "--mount", "sh", "-c", script, "sh", str(instead), str(hidden)]
        self.start_worker(*before)

    def start_machine(self, host: str) -> None:
        """A worker on a host of that name, as far as it can tell."""
        script = 'hostname "$1" && shift && exec "$@"'
        self.start_worker("unshare", "--uts", "sh", "-c", script, "sh", host)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def begin(
    command: Command,
    suite: Path,
    folder: Path,
    cluster: Cluster,
    *more: str,
    noise: str = "any",
) -> subprocess.Popen[str]:
    given = words(suite, folder, "--cluster", cluster.address, "--noise", noise, *more)
    return command.start(*given, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def kept_in(folder: Path) -> dict[str, Any]:
    """The entries in the state file, which is there when the first program is submitted."""
    state = folder / "state"
    if not state.exists():
        return {}
    entries: dict[str, Any] = json.loads(state.read_text())["programs"].get("entries", {})
    return {name: entry for name, by_host in entries.items() for entry in by_host.values()}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.end()


class Case(NamedTuple):
    """A suite, its figures without a cluster, and a cluster."""

    real: Command
    suite_file: Path
    one_machine: dict[str, Any]
    cluster: Cluster
    folder: Path


@pytest.fixture
def case(
    real: Command,
    suite_file: Path,
    one_machine: dict[str, Any],
    cluster: Cluster,
    tmp_path: Path,
) -> Case:
    return Case(real, suite_file, one_machine, cluster, tmp_path)


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + HANG
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def children_of(process: int) -> list[int]:
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{process}/task").iterdir()
        found = [(task / "children").read_text().split() for task in tasks]
        return [int(child) for some in found for child in some]
    return []


def measuring(one: subprocess.Popen[bytes], word: str = "--only") -> list[int]:
    """The processes by which a worker measures now, and which end with it. word: it is in their
    command line."""
    commands = {child: command_of(child) for child in children_of(one.pid)}
    return [
        child
        for child, command in commands.items()
        if word in command and not command.startswith(("setpriv", "env"))  # it has yet to say so
    ]


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


@pytest.fixture
def two_networks() -> Iterator[list[tuple[str, str]]]:
    """Two network namespaces, each with a link to ours: its name, and our address at the link."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and the Debian package iproute2")
    made: list[tuple[str, str]] = []
    try:
        for place in (1, 2):
            # By the process's number: two of these tests may run on one machine.
            net = f"10.{64 + os.getpid() // 60 % 128}.{os.getpid() % 60 * 4 + place}"
            name, ours = f"alt-{os.getpid()}-{place}", f"{net}.1"
            inside = ["ip", "-n", name]
            for command in (
                ["ip", "netns", "add", name],
                ["ip", "link", "add", f"a{os.getpid()}-{place}", "type", "veth"]
                + ["peer", "name", "outside", "netns", name],
                ["ip", "address", "add", f"{ours}/30", "dev", f"a{os.getpid()}-{place}"],
                ["ip", "link", "set", f"a{os.getpid()}-{place}", "up"],
                [*inside, "address", "add", f"{net}.2/30", "dev", "outside"],
                [*inside, "link", "set", "outside", "up"],
                [*inside, "link", "set", "lo", "up"],
            ):
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
                if command[1] == "netns":
                    made.append((name, ours))
        yield made
    finally:
        for name, _ in made:  # the link goes with it
            subprocess.run(["ip", "netns", "delete", name], check=False)


@needs_dask
class TestFigures:
    def test_local_workers_find_what_one_machine_finds(
        self, real: Command, suite_file: Path, one_machine: dict[str, Any], tmp_path: Path
    ) -> None:
        table = tmp_path / "csv"
        done = real.run(*words(suite_file, tmp_path, *on("local:2"), "--csv", str(table)))
        assert done.returncode == 0, done.stderr
        document = read(tmp_path)
        rows = list(csv.DictReader(table.open()))
        assert {row["host"] for row in rows if row["program"]} == {socket.gethostname()}
        assert deterministic(document) == one_machine
        assert {entry["host"] for entry in document["programs"]} == {socket.gethostname()}
        assert f"awk ({socket.gethostname()})" in done.stdout
        assert not (tmp_path / "state").exists()
        assert done.stderr.count("worker tcp://") == 2

    def test_a_killed_worker_loses_and_doubles_nothing(self, case: Case) -> None:
        """Its program is measured anew by the other worker. What the killed one has begun ends with
        it, even where it hangs, as a stopped process does: it would keep the host's slot."""
        real, suite_file, one_machine, cluster, tmp_path = case
        cluster.start_worker()
        started = begin(real, suite_file, tmp_path, cluster)
        victim = cluster.workers[0]
        wait_until(lambda: bool(measuring(victim)), started)
        cluster.start_worker()
        (orphan,) = measuring(victim)
        os.kill(orphan, signal.SIGSTOP)
        victim.send_signal(signal.SIGKILL)
        wait_until(lambda: "--only" not in command_of(orphan), started)
        _, errors = started.communicate(timeout=HANG)
        assert started.returncode == 0, errors
        assert deterministic(read(tmp_path)) == one_machine
        assert errors.count(" was measured on ") == 2

    def test_workers_in_networks_of_their_own(
        self,
        real: Command,
        suite_file: Path,
        one_machine: dict[str, Any],
        two_networks: list[tuple[str, str]],
        cluster: Cluster,
        tmp_path: Path,
    ) -> None:
        """They share a host, so they take turns."""
        for name, scheduler in two_networks:
            cluster.start_worker("ip", "netns", "exec", name, scheduler=scheduler)
        done = real.run(*words(suite_file, tmp_path, *on(cluster.address)))
        assert done.returncode == 0, done.stderr
        assert deterministic(read(tmp_path)) == one_machine
        assert any(f"tcp://{ours.removesuffix('1')}" in done.stderr for _, ours in two_networks)

    def test_a_lost_scheduler_costs_what_was_under_way(self, case: Case) -> None:
        real, suite_file, one_machine, cluster, tmp_path = case
        cluster.start_worker()
        started = begin(real, suite_file, tmp_path, cluster)
        wait_until(lambda: bool(kept_in(tmp_path)), started)
        kept = kept_in(tmp_path)
        assert list(kept) == ["sorted"]
        wait_until(lambda: bool(measuring(cluster.workers[0])), started)
        cluster.scheduler.kill()
        cluster.scheduler.wait()
        cluster.start_scheduler()
        cluster.start_worker()
        _, errors = started.communicate(timeout=HANG)
        assert started.returncode == 0, errors
        assert "the scheduler was lost; to be submitted anew: awk" in errors
        assert "Traceback" not in errors
        document = read(tmp_path)
        assert deterministic(document) == one_machine
        assert document["programs"][0] == kept["sorted"]


@needs_dask
class TestMachines:
    def test_a_machine_is_compared_with_itself_first(
        self, real: Command, suite_file: Path, cluster: Cluster, tmp_path: Path
    ) -> None:
        """Once, though it has two workers. So much noise is borne that load makes no difference."""
        for _ in range(2):
            cluster.start_worker()
        started = begin(real, suite_file, tmp_path, cluster, noise="99%")
        _, errors = started.communicate(timeout=HANG)
        assert started.returncode == 0, errors
        lines = [line for line in errors.splitlines() if "worker " not in line]
        assert [("compared with itself" in line) for line in lines] == [True] + [False] * (
            len(lines) - 1
        )
        (machine,) = read(tmp_path)["machines"]
        assert machine["host"] == socket.gethostname() and machine["quiet"] is True
        assert machine["noise"] == 0.99 and 0.01 < machine["itself"]["ratio"] < 100

    def test_a_machine_that_is_not_quiet_measures_nothing(
        self, real: Command, suite_file: Path, tmp_path: Path
    ) -> None:
        """No machine is as quiet as that. The store is kept."""
        given = ["--cluster", "local:1", "--noise", "0.0001%"]
        done = real.run(*words(suite_file, tmp_path, *given))
        assert done.returncode == 2 and "not quiet, so it measures nothing" in done.stderr
        assert "no machine is quiet" in done.stderr and "not measured: sorted, awk" in done.stderr
        assert "was measured on" not in done.stderr and kept_in(tmp_path) == {}
        assert not (tmp_path / "json").exists()

    def test_every_program_on_three_machines(self, case: Case) -> None:
        """A worker is killed meanwhile, and another starts on its machine."""
        real, suite_file, one_machine, cluster, tmp_path = case
        need_hostnames()
        hosts = ["alpha", "beta", "gamma"]
        for host in hosts:
            cluster.start_machine(host)
        started = begin(real, suite_file, tmp_path, cluster, "--replicate", "3")
        wait_until(lambda: any(measuring(one) for one in cluster.workers), started)
        place = next(place for place in range(3) if measuring(cluster.workers[place]))
        cluster.workers[place].kill()
        cluster.start_machine(hosts[place])
        _, errors = started.communicate(timeout=HANG)
        assert started.returncode == 0, errors
        document = read(tmp_path)
        where = [(entry["name"], entry["host"]) for entry in document["programs"]]
        assert sorted(where) == [(name, host) for name in ("awk", "sorted") for host in hosts]
        for host in hosts:
            own = [entry for entry in document["programs"] if entry["host"] == host]
            assert deterministic({"programs": own}) == one_machine
        for mean in (document["means"], *document["pooled"].values()):
            assert mean["blocks"]["minor_faults"]["machines"] == 3

    def test_too_few_machines_for_replicates(
        self, real: Command, suite_file: Path, tmp_path: Path
    ) -> None:
        done = real.run(*words(suite_file, tmp_path, *on("local:1"), "--replicate", "3"))
        assert done.returncode == 2
        assert "--replicate 3 needs so many quiet machines of one kind; there are" in done.stderr


def need_hostnames() -> None:
    """Skips where a process cannot have a host name of its own."""
    if shutil.which("unshare") is None or shutil.which("hostname") is None:
        pytest.skip("needs unshare and hostname")
    trial = ["unshare", "--uts", "hostname", "elsewhere"]
    if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to a UTS namespace")


@needs_dask
class TestTls:
    """As docs/cluster.md shows it: one authority, a certificate for everybody."""

    def test_who_has_a_certificate_measures(
        self,
        real: Command,
        suite_file: Path,
        one_machine: dict[str, Any],
        tmp_path: Path,
    ) -> None:
        authority, certificate, key = certificates(tmp_path)
        told = ["--tls-ca-file", authority, "--tls-cert", certificate, "--tls-key", key]
        cluster = Cluster(tmp_path, told)
        client = "DASK_DISTRIBUTED__COMM__TLS__CLIENT__"
        known = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": authority}
        try:
            cluster.start_worker()
            given = words(suite_file, tmp_path, *on(cluster.address))
            stranger = real.run(*given)
            assert stranger.returncode == 2 and "asks for a certificate" in stranger.stderr
            known |= {f"{client}CERT": str(tmp_path / "none"), f"{client}KEY": key}
            mistaken = real.run(*given, environment=known)
            assert mistaken.returncode == 2 and "the certificate for tls://" in mistaken.stderr
            known |= {f"{client}CERT": certificate, f"{client}KEY": key}
            done = real.run(*given, environment=known)
        finally:
            cluster.end()
        assert done.returncode == 0, done.stderr
        assert "worker tls://" in done.stderr
        assert deterministic(read(tmp_path)) == one_machine


def certificates(folder: Path) -> tuple[str, str, str]:
    """The files of an authority, and of a certificate that it gave, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the Debian package openssl")
    authority, key = str(folder / "ca.pem"), str(folder / "ca.key")
    common = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    own = ["-keyout", str(folder / "own.key"), "-out", str(folder / "own.pem")]
    for command in (
        [*common, "-subj", "/CN=authority", "-keyout", key, "-out", authority],
        [*common, "-subj", "/CN=own", *own, "-CA", authority, "-CAkey", key],
    ):
        subprocess.run(command, check=True, capture_output=True)
    return authority, str(folder / "own.pem"), str(folder / "own.key")


def simulate_words(word: str, trace: Path, *more: str) -> list[str]:
    return ["simulate", word, "--json", "-", *more, str(trace)]


@pytest.fixture
def slow(tmp_path: Path) -> tuple[Command, Path]:
    """The command over a simulator that begins a part when there is a file, which is the other."""
    go, simulator = tmp_path / "go", tmp_path / "build" / "allotrope-simulate"
    simulator.parent.mkdir()
    waits = f'case "$*" in *--part*) while ! [ -e "{go}" ]; do sleep 0.02; done;; esac'
    simulator.write_text(f'#!/bin/sh\n{waits}\nexec "{BUILD}/allotrope-simulate" "$@"\n')
    simulator.chmod(0o755)
    return Command(simulator.parent), go


def read_screen(terminal: int) -> str:
    """What is written to a terminal until nobody has it any more."""
    shown = b""
    with contextlib.suppress(OSError):  # EIO
        while some := os.read(terminal, 4096):
            shown += some
    os.close(terminal)
    return shown.decode()


@needs_dask
class TestSimulations:
    """Same bytes, same messages, same status as here."""

    def test_local_workers_find_what_one_thread_finds(
        self, real: Command, threaded_trace: Path, tmp_path: Path
    ) -> None:
        """On a terminal it is shown how far they are."""
        page = ["simulate", "pages", "--html", "page.html", str(threaded_trace)]
        (tmp_path / "one").mkdir()
        one = real.run(*page, cwd=tmp_path / "one")
        screen, stderr = pty.openpty()
        with (tmp_path / "stdout").open("w") as stdout:
            line = real.line(*page, "--cluster", "local:2")
            streams = {"stdout": stdout, "stderr": stderr}
            wide = real.environment() | {"TERM": "xterm", "COLUMNS": "100"}
            started = subprocess.Popen(line, cwd=tmp_path, env=wide, **streams)
        os.close(stderr)
        shown = read_screen(screen)
        assert started.wait(timeout=HANG) == 0, shown
        assert (tmp_path / "stdout").read_text() == one.stdout
        pages = [folder / "page.html" for folder in (tmp_path, tmp_path / "one")]
        assert pages[0].read_bytes() == pages[1].read_bytes()
        assert "parts left: 2; workers: 2" in shown

    def test_workers_find_what_one_thread_finds(
        self, real: Command, threaded_trace: Path, cluster: Cluster, tmp_path: Path
    ) -> None:
        """Also where nothing is left to simulate, or what there is, is damaged."""
        for _ in range(2):
            cluster.start_worker()
        harmed, whole = tmp_path / "harmed.alt", threaded_trace.read_bytes()
        harmed.write_bytes(whole[: len(whole) * 2 // 3])
        for words in (
            simulate_words("pages", threaded_trace, "--class", "allocator", "--jobs", "3"),
            simulate_words("pages", harmed),
            simulate_words("pages", threaded_trace, "--references", "99999999:"),
            simulate_words(
                "caches", threaded_trace, "--block", "64:4", "--shape", "64:64:2", "--lines"
            ),
            simulate_words("tlb", threaded_trace, "--jobs", "3", "--thread", "2"),
        ):
            here, there = real.run(*words), real.run(*words, "--cluster", cluster.address)
            assert (here.returncode, here.stderr) == (there.returncode, there.stderr), words
            same = here.stdout == there.stdout  # pytest takes minutes to tell long texts apart
            assert same, words

    def test_a_killed_workers_part_begins_anew(
        self, slow: tuple[Command, Path], real: Command, threaded_trace: Path, cluster: Cluster
    ) -> None:
        command, go = slow
        words = simulate_words("pages", threaded_trace, "--jobs", "3")
        cluster.start_worker()
        started = command.start(
            *words, "--cluster", cluster.address, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        victim = cluster.workers[0]
        wait_until(lambda: bool(measuring(victim, "--part")), started)
        (orphan,) = measuring(victim, "--part")
        victim.send_signal(signal.SIGKILL)
        wait_until(lambda: "--part" not in command_of(orphan), started)
        cluster.start_worker()
        go.touch()
        output, errors = started.communicate(timeout=HANG)
        assert (started.returncode, errors) == (0, "")
        assert output == real.run(*words).stdout

    def test_a_lost_scheduler_leaves_nothing_half_written(
        self, slow: tuple[Command, Path], threaded_trace: Path, cluster: Cluster, tmp_path: Path
    ) -> None:
        command, _ = slow
        result = tmp_path / "json"
        result.write_text("of yesterday")
        cluster.start_worker()
        words = ["simulate", "tlb", "--json", str(result), str(threaded_trace)]
        started = command.start(
            *words, "--cluster", cluster.address, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        wait_until(lambda: bool(measuring(cluster.workers[0], "--part")), started)
        cluster.scheduler.kill()
        output, errors = started.communicate(timeout=HANG)
        assert (started.returncode, output) == (2, "")
        lost = f"--cluster: the scheduler at {cluster.address} was lost; no result"
        assert errors == f"allotrope: {lost}\n"
        assert result.read_text() == "of yesterday"

    @pytest.mark.parametrize("hidden", ["trace", "simulator"])
    def test_a_worker_that_sees_another_file_is_named(
        self, hidden: str, real: Command, threaded_trace: Path, cluster: Cluster, tmp_path: Path
    ) -> None:
        trial = ["unshare", "--mount", "true"]
        if subprocess.run(trial, capture_output=True, check=False).returncode != 0:
            pytest.skip("needs the right to a mount namespace")
        (tmp_path / "instead").write_bytes(b"short")
        path = threaded_trace if hidden == "trace" else BUILD / "allotrope-simulate"
        cluster.start_elsewhere(path, tmp_path / "instead")
        done = real.run(*simulate_words("caches", threaded_trace, "--cluster", cluster.address))
        assert (done.returncode, done.stdout) == (2, "")
        size = threaded_trace.stat().st_size
        what = f"has 5 bytes, not {size:,}" if hidden == "trace" else "is another one"
        assert f" on {socket.gethostname()}: {path} {what}" in done.stderr

    @pytest.mark.parametrize(
        ("more", "told"),
        [
            (["--sample"], "a sample is not shared out"),
            (["--threads", "2"], "leave out --threads"),
            (["--page-size", "7"], '--page-size: "7" is not'),
            (["--jobs", "257"], '"257" is not a number from 1 to 256'),
            (["--jobs", "0"], '"0" is not a number from 1 to 256'),
        ],
    )
    def test_mistakes_are_told_before_workers_are_looked_for(
        self, real: Command, threaded_trace: Path, more: list[str], told: str
    ) -> None:
        done = real.run(*simulate_words("pages", threaded_trace, *more, "--cluster", "nowhere:1"))
        assert done.returncode == 2 and told in done.stderr

    def test_workers_read_files(self, real: Command, tmp_path: Path) -> None:
        fifo, gone = tmp_path / "fifo", tmp_path / "gone"
        os.mkfifo(fifo)
        for path in (fifo, Path("-")):
            done = real.run("simulate", "pages", "--cluster", "nowhere:1", str(path))
            assert done.returncode == 2 and "no standard input or pipe" in done.stderr
        here = real.run("simulate", "pages", str(gone))
        there = real.run("simulate", "pages", "--cluster", "nowhere:1", str(gone))
        assert here.stderr == there.stderr and there.returncode == here.returncode == 2

    def test_no_worker_is_left(self) -> None:
        client = SimpleNamespace(status="running", scheduler_info=lambda: {"workers": {}})
        left: list[tuple[int, int]] = []
        one = Submission(client, {}, 4, lambda *now: left.append(now), grace=60)
        one.meet()
        assert left == [(4, 0)]
        one.staffed -= 61
        with pytest.raises(UserError, match="no worker is left; 4 of 4 parts are not simulated"):
            one.meet()
        client.status = "closed"
        with pytest.raises(connection.SchedulerLost):
            one.meet()

    def test_a_part_under_which_workers_end_is_named(self) -> None:
        class KilledWorker(Exception):
            """Dask's has this name too."""

        def fail(timeout: float) -> None:
            raise KilledWorker

        client = SimpleNamespace(status="running", scheduler_info=lambda: {"workers": {}})
        one = Submission(client, {}, 4, lambda left, workers: None, grace=60)
        with pytest.raises(UserError, match="part 2 of 4: every worker that simulated it was lost"):
            one.take(SimpleNamespace(result=fail), 2)

    def test_a_killed_simulator_is_named(self) -> None:
        ended = answer_of({"host": "h", "status": -signal.SIGKILL, "output": b"", "errors": b""})
        assert ended.message == "allotrope-simulate was killed by SIGKILL on h"
        assert (ended.output, ended.status) == (b"", 137)

    def test_another_trace_is_named(self, tmp_path: Path) -> None:
        path = tmp_path / "run.alt"
        content = bytes(3 * worker.END_BYTES)
        path.write_bytes(content)
        asked = {"expected": {}, "path": str(path), "trace_ends": worker.trace_ends(str(path))}
        assert worker.see(asked) == {"host": platform.node(), "unlike": []}
        for place in (0, len(content) - 1):
            path.write_bytes(content[:place] + b"x" + content[place + 1 :])
            assert worker.see(asked)["unlike"] == [f"{path} is another trace"]
        path.write_bytes(content + b"x")
        assert worker.see(asked)["unlike"] == [f"{path} has 196,609 bytes, not 196,608"]
        path.unlink()
        told = [f"{path} cannot be read: No such file or directory"]
        assert worker.simulate(asked)["unlike"] == told


class TestWhatIsTold:
    def test_dask_is_optional_and_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(UserError, match="install the Debian package python3-distributed"):
            connection.dask()

    @pytest.mark.parametrize(("module", "told"), [("distributed.utils", False), ("here", True)])
    def test_what_dasks_coroutines_raise_at_the_end_is_not_told(
        self, module: str, told: bool
    ) -> None:
        program = f"""
            from allotrope.features.cluster import connection
            for _ in range(1000): connection.dask()
            import distributed.utils, sys, types
            here = types.SimpleNamespace(log_errors=lambda function: function)
            class Forever:
                def __await__(self): yield
            @{module}.log_errors
            async def hang():
                try:
                    await Forever()
                finally:
                    if {told}: raise ValueError("ours")
            left = hang()
            left.send(None)
        """
        done = subprocess.run(
            [PYTHON, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": str(SOURCE / "analysis")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ("ValueError: ours" in done.stderr) == told
        assert told or done.stderr == ""

    @needs_dask
    @pytest.mark.parametrize("early", [False, True])
    def test_an_interruption_is_the_clients(self, early: bool) -> None:
        """Also one that comes while the workers are started, and none of a worker that was started
        again."""
        program = """
            import os, signal, threading, time
            from allotrope.features.cluster import connection

            class Early(connection.dask().LocalCluster):
                def __init__(self, *given, **named):
                    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                    super().__init__(*given, **named)

            def deaf():
                text = open("/proc/self/status").read()
                lines = dict(line.split(":") for line in text.splitlines())
                held = [int(lines[name], 16) for name in ("SigBlk", "SigIgn")]
                assert os.environ["OMP_NUM_THREADS"] == "1"  # Dask's own
                return [one >> signal.SIGINT - 1 & 1 for one in held]

            def ask(client):
                return list(client.run(deaf).items())[0]

            if __name__ == "__main__":
                if EARLY:
                    connection.dask().LocalCluster = Early
                try:
                    with connection.scheduler_address("local:1") as at:
                        with connection.connected(at) as client:
                            first, said = ask(client)
                            pid = client.run(os.getpid)[first]
                            os.kill(pid, signal.SIGKILL)
                            second = first
                            while second == first:
                                time.sleep(0.1)
                                client.wait_for_workers(1)
                                second = list(client.scheduler_info()["workers"] or [first])[0]
                            print(said, ask(client)[1])
                            os.kill(os.getpid(), signal.SIGINT)
                            time.sleep(60)
                except KeyboardInterrupt:
                    print("interrupted")
        """
        done = subprocess.run(
            [PYTHON, "-c", textwrap.dedent(program).replace("EARLY", str(early))],
            env=os.environ | {"PYTHONPATH": str(SOURCE / "analysis")},
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert done.stdout == ("" if early else "[0, 1] [0, 1]\n") + "interrupted\n", done.stderr
        assert done.stderr == ""

    def test_without_a_cluster_dask_is_not_imported(self) -> None:
        program = "import sys, allotrope.commands.cli; print('distributed' in sys.modules)"
        environment = {"PYTHONPATH": str(SOURCE / "analysis")}
        done = subprocess.run(
            [PYTHON, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "False\n"

    @pytest.mark.parametrize(
        "address", ["local", "local:0", "local:-1", "host", "a b:1", "udp://h:1"]
    )
    def test_bad_addresses_are_named(self, address: str) -> None:
        with pytest.raises(UserError, match=f"'{address}' is neither local:N nor an address"):
            connection.local_workers(address)

    @pytest.mark.parametrize("address", ["host:1", "10.0.0.1:8786", "tls://host:8786", "tcp://h:1"])
    def test_addresses(self, address: str) -> None:
        assert connection.local_workers(address) is None
        assert connection.local_workers("local:2") == 2

    @pytest.mark.parametrize("option", [("--noise", "2%"), ("--replicate", "3")])
    def test_machines_are_a_clusters(
        self, real: Command, suite_file: Path, tmp_path: Path, option: tuple[str, str]
    ) -> None:
        done = real.run(*words(suite_file, tmp_path, *option))
        assert done.returncode == 2 and f"{option[0]} needs --cluster" in done.stderr

    def test_a_cluster_is_for_suites(self, real: Command) -> None:
        done = real.run("compare", "--cluster", "local:2", "--", "true")
        assert done.returncode == 2 and "--cluster needs --suite" in done.stderr

    @needs_dask
    def test_no_scheduler(self) -> None:
        with pytest.raises(UserError, match="no scheduler answers at 127.0.0.1:"):
            with connection.connected(f"127.0.0.1:{free_port()}", patience=0.5):
                pass

    def test_another_library_is_named(self, tmp_path: Path) -> None:
        library, gone = tmp_path / "lib.so", tmp_path / "gone.so"
        library.write_bytes(b"one")
        gone.write_bytes(b"two")
        package = tmp_path / "package"
        package.mkdir()
        (package / "a.py").write_text("1")
        expected = worker.fingerprints([str(library), str(gone), str(package)])
        assert worker.unlike(expected) == []
        library.write_bytes(b"another")
        gone.unlink()
        (package / "a.py").write_text("2")
        assert worker.unlike(expected) == [
            f"{library} is another one",
            f"{gone} is missing",
            f"{package} is another one",
        ]
        question = {"expected": expected}
        assert worker.measure(question)["unlike"] == worker.unlike(expected)

    @needs_dask
    def test_a_worker_that_has_ended_is_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The scheduler cannot reach it. What goes wrong on one that is there is named."""
        asked = {"tcp://gone:1": OSError("Timed out"), "tcp://w:1": {"host": "w", "unlike": []}}
        client = SimpleNamespace(
            run=lambda *_, **__: asked, scheduler_info=lambda: {"workers": {"tcp://w:1": {}}}
        )
        monkeypatch.setattr(connection, "other_versions", lambda _: [])
        answers = connection.ask_new(client, list(asked), worker.see, {})
        assert list(answers) == ["tcp://w:1"]
        asked["tcp://w:1"] = OSError("no such program")
        with pytest.raises(UserError, match=r"worker tcp://w:1: OSError\('no such program'\)"):
            connection.ask_new(client, list(asked), worker.see, {})

    def test_another_version_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Client:
            def get_versions(self) -> dict[str, Any]:
                own = f"{platform.python_version()}.final.0"
                there = {"packages": {"python": own, "distributed": "1.0"}}
                old = {"packages": {"python": "3.1.4.final.0", "distributed": "1.0"}}
                return {"scheduler": there, "workers": {"tcp://w:1": old}}

        monkeypatch.setattr(connection, "dask", lambda: SimpleNamespace(__version__="1.0"))
        (line,) = connection.other_versions(Client())
        assert line.startswith("worker tcp://w:1 has python 3.1.4.final.0, not 3.")


class Future:
    """Of Dask's: a result whose worker ended is lost, or never comes."""

    def __init__(self, status: str) -> None:
        self.status = status

    def result(self, timeout: float | None = None) -> Any:
        assert self.status == "finished" and timeout
        raise TimeoutError


class TestResults:
    @pytest.mark.parametrize("status", ["lost", "finished"])
    def test_a_result_that_ended_with_its_worker_is_measured_anew(
        self, status: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = SimpleNamespace(wait=lambda *_, **__: None, CancelledError=KeyError)
        monkeypatch.setattr(submission, "dask", lambda: known)
        said = list[str]()
        tasks: Any = SimpleNamespace(machines=None)
        client = SimpleNamespace(status="running")
        one = submission.Submission(client, tasks, said.append, 60, 60)
        machine: Any = SimpleNamespace(host="h")
        one.under_way = {Future(status): submission.Task("tcp://w:1", machine, "prog")}
        one.collect()
        assert not one.under_way and said == ["worker tcp://w:1 was lost; begun anew: prog"]

    def test_status_1_is_no_document(self) -> None:
        """Python ends with it, too, where memory is short."""
        ended = {"status": 1, "output": "", "errors": "Traceback …\nMemoryError\n"}
        why = submission.without_document(ended)
        assert why == "the command ended with status 1 (MemoryError)"
        assert submission.without_document(ended | {"output": "{}"}) is None


class TestTimingSlot:
    def test_other_users_may_use_it_whatever_the_umask(self, tmp_path: Path) -> None:
        path = tmp_path / "slot"
        before = os.umask(0o077)
        try:
            with worker.timing_slot(str(path), lambda: False):
                pass
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == 0o644

    def test_one_at_a_time(self, tmp_path: Path) -> None:
        path = str(tmp_path / "slot")
        waiting = iter([False, False, True])
        with worker.timing_slot(path, lambda: False):
            with pytest.raises(InterruptedError):
                with worker.timing_slot(path, lambda: next(waiting)):
                    pytest.fail("two have the slot")
        with worker.timing_slot(path, lambda: True):
            pass

    def test_who_is_not_timed_shares_it_with_its_like(self, tmp_path: Path) -> None:
        path = str(tmp_path / "slot")
        with worker.timing_slot(path, lambda: True, fcntl.LOCK_SH):
            with worker.timing_slot(path, lambda: True, fcntl.LOCK_SH):
                with pytest.raises(InterruptedError):
                    with worker.timing_slot(path, lambda: True):
                        pytest.fail("it is measured beside a simulation")
        with worker.timing_slot(path, lambda: True):
            with pytest.raises(InterruptedError):
                with worker.timing_slot(path, lambda: True, fcntl.LOCK_SH):
                    pytest.fail("it is simulated beside a measurement")

    def test_whoever_has_inherited_it_holds_it(self, tmp_path: Path) -> None:
        """A measurement that outlives its worker for a moment is not disturbed."""
        path = str(tmp_path / "slot")
        with worker.timing_slot(path, lambda: False) as slot:
            heir = subprocess.Popen(["sleep", "60"], pass_fds=[slot])
        with pytest.raises(InterruptedError):
            with worker.timing_slot(path, lambda: True):
                pytest.fail("two have the slot")
        heir.kill()
        heir.wait()
        with worker.timing_slot(path, lambda: True):
            pass

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "slot").symlink_to(tmp_path / "elsewhere")
        with pytest.raises(OSError):
            with worker.timing_slot(str(tmp_path / "slot"), lambda: False):
                pass
        assert not (tmp_path / "elsewhere").exists()


class TestWords:
    def test_a_row_names_its_machine(self) -> None:
        assert name_of({"name": "p", "host": "h"}) == "p (h)"
        assert name_of({"name": "p", "host": None}) == name_of({"name": "p"}) == "p"

    def test_unlike_machines_are_told(self) -> None:
        def entry(name: str, kernel: str) -> dict[str, Any]:
            machine = {"cpu": "Z80", "kernel": kernel}
            comparison = {"machine": machine, "results": [], "incomplete": None}
            return {
                "name": name,
                "status": "measured",
                "comparison": comparison | {"deterministic": True},
                "reason": None,
            }

        document: dict[str, Any] = {"means": {}, "baseline": "glibc", "interrupted": False}
        document["programs"] = [entry("p", "6.1"), entry("q", "6.1")]
        assert [one.title for one in recommend_suite(document)] == ["Not decided"]
        document["programs"].append(entry("r", "6.2"))
        told = recommend_suite(document)[-1]
        assert told.title == "Unlike machines" and "Z80, 6.1: p, q; Z80, 6.2: r" in told.text
