# SPDX-License-Identifier: MIT
"""Servers under a load: what is measured, what goes wrong, and that nothing is left running."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterator

import pytest
from allotrope.features.server.metrics import Metric, metric, metrics, read_metrics
from allotrope.features.server.plan import Place, ServerPlan, check_server_plan
from allotrope.system import launch, process_tree
from allotrope.system.errors import UserError
from allotrope.system.process_tree import descendants, tree_usage
from conftest import Command
from under import BUILD, HANG, PYTHON, await_that, processes_that_name

LOAD = BUILD / "allotrope-load"

# A line server that allocates; its second argument names how it goes wrong.
SERVER = """
import os, signal, socket, sys, time
port, fault = int(sys.argv[1]), (sys.argv[2:] or ["none"])[0]
if fault == "dies":
    sys.exit("no licence")
if fault == "background":
    starter = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == starter:
        time.sleep(0.001)  # who listens is measured; the end of its parent would be in it
if fault == "exits":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if fault == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if fault == "family" and os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
listener = socket.create_server(("127.0.0.1", port), backlog=64)
kept = []
while True:
    connection, _ = listener.accept()
    lines = connection.makefile("rwb", buffering=0)
    for line in lines:
        if fault == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if line.strip() == b"burn":
            end = time.process_time() + 0.2
            while time.process_time() < end:
                kept.append(b"x" * 10000)
        if line.strip() == b"wait":
            time.sleep(0.1)
        lines.write(b"ok\\n")
"""
# Asks the server of a port the word so many times; each is a request.
CLIENT = """
import socket, sys
port, word, count = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
lines = socket.create_connection(("127.0.0.1", port)).makefile("rwb", buffering=0)
for _ in range(count):
    lines.write(word + b"\\n")
    assert lines.readline() == b"ok\\n"
print(count, "requests done, lag 1,234.5 ms")
"""


@pytest.fixture
def programs(tmp_path: Path) -> tuple[str, str]:
    """The command lines of server and client."""
    for name, text in (("server.py", SERVER), ("client.py", CLIENT)):
        (tmp_path / name).write_text(text)
    return (
        f"{PYTHON} -I {tmp_path}/server.py {{port}}",
        f"{PYTHON} -I {tmp_path}/client.py {{port}}",
    )


@pytest.fixture
def nothing_left(tmp_path: Path) -> Iterator[None]:
    """No process that names this test's folder outlives it."""
    yield
    assert not processes_that_name(tmp_path)


def compare(command: Command, tmp_path: Path, *options: str, **settings: Any) -> Any:
    """What it ended with, and the document."""
    file = tmp_path / "result.json"
    done = command.run(
        "compare", "--rounds=1", "--warmup=0", f"--json={file}", *options, **settings
    )
    return done, json.loads(file.read_text()) if file.exists() else None


@dataclass(frozen=True)
class Trial:
    """A server of ours, a client that loads it, and who compares."""

    command: Command
    folder: Path
    server: str
    client: str

    def compare(self, load: str, *options: str, fault: str = "") -> Any:
        """Under glibc. CLIENT in the load stands for ours; fault: how the server goes wrong."""
        words = ["-a", "glibc", "--server", f"{self.server} {fault}".strip()]
        words += ["--load", load.replace("CLIENT", self.client)]
        return compare(self.command, self.folder, *words, *options)


@pytest.fixture
def trial(real: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None) -> Trial:
    return Trial(real, tmp_path, *programs)


class TestWhatIsMeasured:
    def test_cpu_of_the_server_under_the_load_alone(
        self, real: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None
    ) -> None:
        server, client = programs
        done, document = compare(
            real,
            tmp_path,
            *("-a", "glibc", "-a", "blocks", "--server", server),
            *("--load", f"{client} burn 2 && {PYTHON} -c 'for i in range(10**7): pass'"),
            *("--metric", "requests=([0-9]+) requests", "--metric", "lag:less=lag ([0-9.,]+) ms"),
            *("--markdown", str(tmp_path / "result.md")),
            environment={"COLUMNS": "200"},
        )
        assert done.returncode == 0, done.stderr
        row = "| lag | blocks | 1,234 | 1.000 [1.000, 1.000] | not decided |"
        assert row in (tmp_path / "result.md").read_text().splitlines()
        assert [one["name"] for one in document["server"]["metrics"]] == ["requests", "lag"]
        for result in document["results"]:
            # Twice 0.2 s; neither its start is in it nor what the load itself takes.
            assert 0.39 < result["cpu_seconds"]["median"] < 0.9
            per_request = result["cpu_per_request_seconds"]["median"]
            assert per_request == pytest.approx(result["cpu_seconds"]["median"] / 2)
            assert result["metric:lag"]["median"] == 1234.5
            assert result["memory_timeline"]["bytes"] and result["memory_end_bytes"]["median"] > 0
        assert "CPU µs/request" in done.stdout
        # The server is ended by a signal and writes no statistics: neither column nor legend.
        assert "heap peak" not in done.stdout
        said = done.stdout[done.stdout.index("What the load said") :].splitlines()
        assert said[1].split() == ["figure", "allocator", "median", "ratio", "verdict"]
        assert said[2].split() == ["lag", "glibc", "1,234", "baseline", "–"]
        assert said[3].split() == "lag blocks 1,234 1.000 [1.000, 1.000] not decided".split()

    def test_a_server_that_exits_tells_of_its_heap(
        self, real: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None
    ) -> None:
        server, client = programs
        done, document = compare(
            real,
            tmp_path,
            *("-a", "glibc", "-a", "blocks", "--server", f"{server} exits"),
            *("--load", f"{client} hello 1"),
            environment={"COLUMNS": "200"},
        )
        assert done.returncode == 0, done.stderr
        assert document["results"][1]["heap"]["mapped_peak_bytes"] > 0
        said = " ".join(done.stdout.split())
        assert "heap peak: the most addresses that the heap had from the system" in said
        header = next(line for line in done.stdout.splitlines() if "served by" in line)
        assert "heap peak" in header

    def test_setup_and_cleanup_surround_each_start(self, trial: Trial, tmp_path: Path) -> None:
        log = tmp_path / "log"
        done, _ = trial.compare(
            "CLIENT hello 1; cat {dir}/made",
            *("--setup", f"ls {{dir}} >>{log}; echo setup >>{log}; touch {{dir}}/made"),
            *("--cleanup", f"echo cleanup >>{log}"),
        )
        assert done.returncode == 0, done.stderr
        # Two of the reference, one that sees who serves it, one round.
        assert log.read_text() == "setup\ncleanup\n" * 4

    def test_a_launcher_without_a_report_costs_no_interruption(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(launch, "built", lambda _: Path("/bin/true"))
        places: dict[str, Any] = {"folder": tmp_path, "stderr": tmp_path / "stderr"}
        with pytest.raises(KeyboardInterrupt):
            with launch.Running(
                ["server"], **places, environment={}, unset=(), processors=(), grace=1
            ) as server:
                raise KeyboardInterrupt
        with pytest.raises(UserError, match="gave no report"):
            server.account()

    def test_usage_of_a_tree_counts_children_that_ended(self) -> None:
        before = tree_usage(os.getpid())
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        subprocess.run([PYTHON, "-c", burn], check=True)
        used = tree_usage(os.getpid()).since(before)
        assert 0.25 < used.user_seconds + used.system_seconds < 1
        with subprocess.Popen(["sleep", "60"]) as child:
            assert child.pid in descendants(os.getpid())
            child.kill()

    def test_usage_of_a_tree_counts_a_child_that_ends_as_it_is_read(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its parent's account was read before it had it."""
        burn = (
            "import time\nwhile time.process_time() < 0.3: pass\nprint('burnt', flush=1); input()"
        )
        script = '"$0" -c "$1"; echo reaped; read word'
        real_clock, before = process_tree.cpu_clock, tree_usage(os.getpid())
        ended: list[str] = []
        with subprocess.Popen(
            ["/bin/sh", "-c", script, PYTHON, burn],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        ) as parent:
            assert parent.stdin and parent.stdout and parent.stdout.readline() == "burnt\n"

            def clock(pid: int) -> float | None:
                if pid == parent.pid and not ended:
                    parent.stdin.write("\n")
                    ended.append(parent.stdout.readline())
                return real_clock(pid)

            monkeypatch.setattr(process_tree, "cpu_clock", clock)
            used = tree_usage(os.getpid()).since(before)
            parent.communicate("\n")
        assert ended == ["reaped\n"] and 0.25 < used.user_seconds + used.system_seconds

    def test_page_shows_memory_over_time(self, trial: Trial, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        done, _ = trial.compare("CLIENT burn 1", "--html", str(page))
        assert done.returncode == 0, done.stderr
        assert "server-memory" in page.read_text()
        assert "The load printed no figures that are known here" in page.read_text()

    def test_a_load_that_tells_no_requests_is_told_so(self, trial: Trial) -> None:
        done, _ = trial.compare("CLIENT x 1; echo SET: 5.0 requests per second")
        assert done.returncode == 0, done.stderr
        said = "The load does not print how many requests there were; --metric 'requests=REGEX'"
        assert said in " ".join(done.stdout.split())
        assert "throughput/s" in done.stdout.splitlines()[0]


class TestFaults:
    @pytest.mark.parametrize(
        "fault, said",
        [
            ("dies", ["the server ended before it was ready: exit status 1", "no licence"]),
            ("crashes", ["the server ended under the load: killed by SIGSEGV"]),
        ],
    )
    def test_server_that_ends(self, trial: Trial, fault: str, said: list[str]) -> None:
        done, document = trial.compare("CLIENT x 1", fault=fault)
        assert done.returncode == 2 and document is None
        assert all(part in done.stderr for part in said), done.stderr
        assert done.stderr.count("\n") == 1

    def test_probe_that_never_succeeds(self, trial: Trial) -> None:
        probe = "echo not yet >&2; false"
        done, _ = trial.compare("CLIENT x 1", "--ready", probe, "--ready-timeout", "0.5")
        assert done.returncode == 2
        assert (
            "not ready within 0.5 s: 'echo not yet >&2; false' ended with status 1" in done.stderr
        )
        assert "(not yet)" in done.stderr and "--ready-timeout" in done.stderr

    def test_probe_that_somebody_else_answers(self, trial: Trial) -> None:
        done, _ = trial.compare("x", "--ready", "true")
        assert done.returncode == 2
        assert "succeeds before the server is started" in done.stderr and "{port}" in done.stderr

    def test_load_that_fails(self, trial: Trial) -> None:
        done, _ = trial.compare("echo why >&2; exit 3")
        assert done.returncode == 2
        assert "--load: 'echo why >&2; exit 3' ended with status 3 (why)" in done.stderr

    def test_load_that_takes_too_long(self, trial: Trial) -> None:
        line = f"sleep 100 & : {trial.folder}; sleep 100"
        done, _ = trial.compare(line, "--timeout=0.5")
        assert done.returncode == 2
        assert "the load takes longer than 0.5 s; raise --timeout" in done.stderr

    def test_metric_that_is_not_there(self, trial: Trial) -> None:
        done, _ = trial.compare("echo 5 apples", "--metric", "throughput=([0-9]+) pears")
        assert done.returncode == 2
        said = (
            "--metric: '([0-9]+) pears' matches nothing; what the load printed ends with '5 apples'"
        )
        assert said in done.stderr

    def test_metric_that_is_no_number(self, trial: Trial) -> None:
        done, _ = trial.compare("echo 5 apples", "--metric", "(a)(p)+les")
        assert done.returncode == 2
        said = (
            "'(a)(p)+les' finds 'a' in its first group, which is no number; what the load printed"
        )
        assert said in done.stderr

    def test_probe_that_takes_too_long(self, trial: Trial) -> None:
        done, _ = trial.compare("x", "--ready", "sleep 100", "--ready-timeout", "0.3")
        assert done.returncode == 2
        assert "not ready within 0.3 s: 'sleep 100' takes longer than 0.3 s; mend" in done.stderr

    def test_server_that_ignores_term(self, trial: Trial) -> None:
        done, document = trial.compare("CLIENT x 1", "--stop-timeout", "0.3", fault="deaf")
        assert done.returncode == 0, done.stderr
        assert document["server"]["killed"]
        assert "does not end within 0.3 s of TERM" in " ".join(done.stdout.split())

    def test_child_in_a_session_of_its_own_ends_too(self, trial: Trial) -> None:
        done, _ = trial.compare("CLIENT x 1", "--stop-timeout", "0.3", fault="family")
        assert done.returncode == 0, done.stderr

    def test_server_in_the_background_is_measured_and_stopped(self, trial: Trial) -> None:
        load = "CLIENT burn 1 && sleep 1 && CLIENT burn 1"  # longer than a command may linger
        done, document = trial.compare(load, fault="background")
        assert done.returncode == 0, done.stderr
        result = document["results"][0]
        assert result["cpu_seconds"]["median"] > 0.3  # of twice 0.2, not of the first alone
        # Its memory, too, is looked at to the end, although what we started ended at once.
        assert max(result["memory_timeline"]["seconds"]) > 1
        assert result["memory_end_bytes"]["median"] > 2 << 20
        assert result["tree_peak_bytes"]["median"] >= result["memory_end_bytes"]["median"]

    def test_what_starts_the_server_does_not_stand_in_its_place(
        self, trial: Trial, tmp_path: Path
    ) -> None:
        """The shell uses more CPU in all, but serves nobody."""
        starter = tmp_path / "start"
        busy = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
        starter.write_text(f"#!/bin/sh\n{busy}\n{trial.server} & wait\n".replace("{port}", "$1"))
        starter.chmod(0o755)
        started = replace(trial, server=f"{starter} {{port}}")
        done, document = started.compare("CLIENT burn 1")
        assert done.returncode == 0, done.stderr
        rows = document["results"][0]["served"]["rows"]
        assert rows[0]["command"].startswith("python") and rows[0]["cpu_seconds"] > 0.19
        shell = next(one for one in rows if not one["command"].startswith("python"))
        assert shell["cpu_seconds"] < 0.1

    def test_server_ends_with_a_killed_comparison(
        self, real: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None
    ) -> None:
        """And its load, whatever the load has started."""
        mark = tmp_path / "loading"
        line = ["compare", "-a", "glibc", "--server", programs[0]]
        load = f'{PYTHON} -c \'import time; open("{mark}", "w"); time.sleep(600)\'; true'
        with real.start(*line, "--load", load, stderr=subprocess.PIPE) as process:
            await_that(mark.exists)
            process.kill()
        await_that(lambda: not processes_that_name(tmp_path))

    def test_failing_setup_and_cleanup(self, trial: Trial) -> None:
        for option in ("--setup", "--cleanup"):
            done, _ = trial.compare("CLIENT x 1", option, "echo oh >&2; exit 7")
            assert done.returncode == 2
            assert f"{option}: 'echo oh >&2; exit 7' ended with status 7 (oh)" in done.stderr

    def test_allocator_under_which_the_server_dies_fails_alone(
        self, mock: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None
    ) -> None:
        server, client = programs
        done, document = compare(
            mock,
            tmp_path,
            *("-a", "glibc", "-a", "mock:crash", "--server", server, "--load", f"{client} x 1"),
        )
        assert done.returncode == 1, done.stderr
        assert [one["status"] for one in document["results"]] == ["ok", "failed"]
        assert "before it was ready" in document["results"][1]["failure"]["ending"]

    def test_interruption_ends_the_server(
        self, real: Command, tmp_path: Path, programs: tuple[str, str], nothing_left: None
    ) -> None:
        mark = tmp_path / "loading"
        line = ["compare", "-a", "glibc", "--server", programs[0]]
        line += ["--load", f"touch {mark}; sleep 60"]
        with real.start(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            await_that(mark.exists)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=HANG)
        assert process.returncode == 130


class TestQuestions:
    @pytest.mark.parametrize(
        "options, said",
        [
            (["--server", "x {port}"], "--server needs --load"),
            (["--load", "x"], "--load needs --server"),
            (["--stop-timeout", "5", "--", "ls"], "--stop-timeout needs --server"),
            (
                ["--server", "x {port}", "--load", "y", "--suite", "z.toml"],
                "--suite does not go with --server; a suite is made of commands",
            ),
            (["--server", "x", "--load", "y"], "--ready is missing"),
            (["--server", "", "--load", "y"], "--server is empty"),
            (["--server", "x '", "--load", "y"], "is no command"),
            (
                ["--server", "x {port}", "--load", "y", "--check", "none"],
                "--check does not go with",
            ),
            (["--server", "x", "--load", "y", "--shell", "z"], "--shell does not go with --server"),
            (["--server", "x", "--load", "y {n}", "--vary", "n=1,2"], "--ready is missing"),
            (["--server", "x", "--load", "y", "--ready-timeout", "nan"], "no number of seconds"),
            (["--server", "x {port}", "--load", "y", "--", "ls"], "the command does not go with"),
            (["--server", "x {port}", "--load", "y {ports}"], "'{ports}' means nothing"),
            (
                ["--server", "x {port}", "--load", "y", "--metric", "a(b"],
                "is no regular expression",
            ),
            (["--server", "x {port}", "--load", "y", "--metric", "ab"], "has no group"),
        ],
    )
    def test_refused(self, real: Command, options: list[str], said: str) -> None:
        done = real.run("compare", *options)
        assert done.returncode == 2 and said in done.stderr, done.stderr

    def test_metric_has_name_and_direction(self) -> None:
        assert metric("([0-9]+) ops") == Metric("metric", "([0-9]+) ops", True)
        assert metric("p99:less=p99=([0-9]+)") == Metric("p99", "p99=([0-9]+)", False)
        with pytest.raises(UserError, match="two are called 'a'"):
            metrics(["a=(b)", "a=(c)"])

    @pytest.mark.parametrize("figure", ["nan", "-inf", "1e999"])
    def test_metric_is_finite(self, figure: str) -> None:
        """Nothing else has a place among others, or in JSON."""
        with pytest.raises(LookupError, match="which is no number"):
            read_metrics(f"rate {figure}", [metric("rate (.*)")])

    def test_place_is_filled_in_and_other_braces_stay(self) -> None:
        text = Place(80, Path("/x")).fill("awk '{print}' {dir}/f:{port}")
        assert text == "awk '{print}' /x/f:80"
        check_server_plan(ServerPlan("s {port}", None, "awk '{print}' ${HOME}"))


class TestToolsThatAreKnown:
    @pytest.mark.parametrize(
        "output, figures",
        [
            (
                "number of transactions actually processed: 1234\nlatency average = 1.61 ms\n"
                "tps = 620.123 (without initial connection time)\n",
                {"requests": 1234, "throughput": 620.123, "latency_ms": 1.61},
            ),
            ("  20 requests in 1.00s, 4MB read\nRequests/sec:  19.9\n", {"throughput": 19.9}),
            (
                "Time taken for tests:   0.05 seconds\nComplete requests:      500\n"
                "Requests per second:    9901.19 [#/sec] (mean)\n  99%      3\n",
                {"requests": 500, "throughput": 9901.19, "p99_ms": 3},
            ),
            (
                "  100000 requests completed in 1.25 seconds\n"
                "throughput summary: 80000.00 requests per second\n",
                {"requests": 100000, "throughput": 80000},
            ),
            (  # of two tests the requests are those of both
                "  100000 requests completed in 1.25 seconds\n"
                "  50000 requests completed in 1.00 seconds\n"
                "throughput summary: 50000.00 requests per second\n",
                {"requests": 150000, "throughput": 50000},
            ),
            (  # and the throughput is that of both, one after the other
                "SET: 20000.00 requests per second, p50=0.2 msec\n"
                "GET: 60000.00 requests per second, p50=0.1 msec\n",
                {"throughput": 30000},
            ),
            ("SET: 99,009.90 requests per second, p50=0.2 msec\n", {"throughput": 99009.9}),
            ("nothing of that kind", {}),
        ],
    )
    def test_figures(self, output: str, figures: dict[str, float]) -> None:
        found, known = read_metrics(output, [])
        assert found | figures == found
        assert list(found) == [one.name for one in known]


@pytest.fixture
def line_server(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "server.py").write_text(SERVER)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([PYTHON, "-I", str(tmp_path / "server.py"), str(port)])
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.02)
    yield port
    server.kill()
    server.wait()


def load(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(LOAD), *words], capture_output=True, text=True, timeout=HANG)


class TestOpenLoop:
    def test_waiting_for_a_connection_counts(self, line_server: int) -> None:
        """Each answer takes 0.1 s and 10 requests are due within half a second: a closed loop
        would say 0.1 s of each; the last one has waited for the others."""
        done = load(
            f"--port={line_server}", "--rate=20", "--seconds=0.5", "--connections=1", "wait\\n"
        )
        report = json.loads(done.stdout)
        assert report["requests"] >= 5
        assert report["latency_us"]["max"] > 100_000 * report["requests"] - 500_000

    def test_same_seed_same_requests(self, line_server: int) -> None:
        words = [f"--port={line_server}", "--connections=1", "--rate=500", "--seconds=0.4"]
        counts = [json.loads(load(*words, "x{key}\\n").stdout)["requests"] for _ in range(2)]
        assert counts[0] == counts[1] > 100

    def test_server_that_cannot_keep_up(self, line_server: int) -> None:
        done = load(
            f"--port={line_server}", "--connections=1", "--rate=200", "--seconds=1", "wait\\n"
        )
        assert done.returncode == 1 and not done.stdout
        assert "cannot keep up" in done.stderr and "--rate 200" in done.stderr

    @pytest.mark.parametrize(
        "words, said",
        [
            (["x"], "--port is missing"),
            (["--port=1"], "no request given"),
            (["--port=1", "x"], "no connection to 127.0.0.1 port 1"),
            (["--port=1", "--rate=fast", "x"], "--rate: 'fast'"),
            (["--port=1", "--rate=0.01", "--seconds=1", "x"], "--rate 0.01: no request is due"),
            (["--port=1", "--protocol=smtp", "x"], "'smtp' is unknown; valid are line, http"),
            (["--port=http", "x"], "--port: 'http' is not a whole number from 1 to 65535"),
            (["--port=0", "x"], "--port: '0'"),
            (["--port=65536", "x"], "--port: '65536'"),
            (["--port=1", "--sizes=9-1", "x"], "--sizes: '9-1' is not a range"),
            (["--port=1", "--sizes=16-", "x"], "--sizes: '16-'"),
            (["--port=1", "--sizes=1--2", "x"], "--sizes: '1--2'"),
            (["--port=1", "--sizes=-1", "x"], "--sizes: '-1'"),
            (["--port=1", "--sizes=1-2-3", "x"], "--sizes: '1-2-3'"),
            (["--port=1", "--seed=x", "x"], "--seed: 'x' is not a whole number from 0"),
            (["--port=1", "--seed=-1", "x"], "--seed: '-1'"),
            (["--port=1", "--seed=18446744073709551616", "x"], "--seed: '1844674407370955"),
            (["--port=1", "--connections=1.5", "x"], "--connections: '1.5' is not a whole"),
            (["--port=1", "--keys= 7", "x"], "--keys: ' 7' is not a whole number from 1"),
        ],
    )
    def test_bad_questions(self, words: list[str], said: str) -> None:
        done = load(*words)
        assert done.returncode == 2 and said in done.stderr

    def test_word_shows_its_help(self, real: Command) -> None:
        done = real.run("load", "--help")
        assert done.returncode == 0 and "allotrope-load" in done.stdout


def installed(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


REDIS_LOAD = (
    "allotrope-load --port {port} --rate 2000 --seconds 0.5 --protocol redis --sizes 16-512 "
    r"'SET k:{key} {data}\r\n' 'GET k:{key}\r\n'"
)
NGINX = (
    "error_log stderr; pid {dir}/pid; worker_processes 2; events {} http { access_log off; "
    "client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir}; "
    "uwsgi_temp_path {dir}; scgi_temp_path {dir}; "
    "server { listen 127.0.0.1:{port}; root {dir}/www; } }"
)
GET = r"'GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n'"


def linked_with(program: str) -> str:
    """Debian's redis brings jemalloc."""
    done = subprocess.run(["ldd", shutil.which(program) or ""], capture_output=True, text=True)
    return "jemalloc" if "libjemalloc" in done.stdout else "glibc"


class TestRealServers:
    """The examples of docs/servers.md."""

    def check(self, real: Command, tmp_path: Path, *options: str, base: str = "glibc") -> Any:
        """base: whose malloc the server is linked with."""
        done, document = compare(real, tmp_path, "--baseline", base, "-a", "blocks", *options)
        assert done.returncode == 0, done.stderr + done.stdout
        for result in document["results"]:
            assert result["cpu_per_request_seconds"]["median"] > 0
            assert result["metric:throughput"]["median"] > 0
            assert result["tree_peak_bytes"]["median"] > 0
        return document

    def test_redis(self, real: Command, tmp_path: Path) -> None:
        installed("redis-server", "redis-cli")
        document = self.check(
            real,
            tmp_path,
            *("--server", "redis-server --port {port} --dir {dir} --save ''"),
            *("--ready", "redis-cli -p {port} ping", "--load", REDIS_LOAD),
            base=linked_with("redis-server"),
        )
        assert document["results"][0]["metric:p99_us"]["median"] > 0
        assert document["results"][1]["heap"]["mapped_peak_bytes"] > 0

    def test_redis_under_its_own_benchmark(self, real: Command, tmp_path: Path) -> None:
        installed("redis-server", "redis-benchmark")
        line = "redis-benchmark -p {port} -n 5000 -t set -r 1000 -d 100"
        self.check(
            real,
            tmp_path,
            *("--server", "redis-server --port {port} --dir {dir} --save ''", "--load", line),
            base=linked_with("redis-server"),
        )

    def test_memcached(self, real: Command, tmp_path: Path) -> None:
        installed("memcached")
        texts = r"'get k{key}\r\n' 'set k{key} 0 0 {size}\r\n{data}\r\n'"
        self.check(
            real,
            tmp_path,
            *("--server", "memcached -u nobody -l 127.0.0.1 -p {port}"),
            *(
                "--load",
                "allotrope-load --port {port} --rate 2000 --seconds 0.5 --protocol memcached "
                f"--sizes 16-512 {texts}",
            ),
        )

    def test_nginx(self, real: Command, tmp_path: Path) -> None:
        installed("nginx")
        document = self.check(
            real,
            tmp_path,
            *(
                "--setup",
                "mkdir {dir}/www && echo hello >{dir}/www/index.html && "
                f"chmod 777 {{dir}} && echo '{NGINX}' >{{dir}}/conf",
            ),
            *("--server", "nginx -e stderr -c {dir}/conf -g 'daemon off;'"),
            *(
                "--load",
                f"allotrope-load --port {{port}} --rate 1000 --seconds 0.5 --protocol http "
                f"{GET}",
            ),
        )
        assert document["results"][0]["tree_peak_method"] == "pss-sampled"

    def test_python(self, real: Command, tmp_path: Path) -> None:
        self.check(
            real,
            tmp_path,
            *("--setup", "echo hello >{dir}/index.html"),
            *("--server", f"{PYTHON} -m http.server {{port}} --bind 127.0.0.1 --directory {{dir}}"),
            *(
                "--load",
                f"allotrope-load --port {{port}} --rate 10 --connections 4 "
                f"--seconds 1 --protocol http {GET}",
            ),
        )

    def test_postgres(self, real: Command, tmp_path: Path) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not found:
            pytest.skip("postgres is not installed")
        installed("pgbench", "setpriv")
        programs = found[-1].parent
        # The server refuses to run as root.
        become = "setpriv --reuid=postgres --regid=postgres --clear-groups " * (os.geteuid() == 0)
        hand_over = "chown postgres {dir} && " * (os.geteuid() == 0)
        connect = "-h 127.0.0.1 -p {port} -U postgres"
        self.check(
            real,
            tmp_path,
            *(
                "--setup",
                f"{hand_over}{become}{programs}/initdb -A trust -U postgres -N -D {{dir}}/data",
            ),
            *(
                "--server",
                f"{become}{programs}/postgres -D {{dir}}/data -p {{port}} -h 127.0.0.1 "
                "-k {dir} -c shared_buffers=16MB -c fsync=off",
            ),
            *("--ready", f"{programs}/pg_isready {connect}"),
            *(
                "--load",
                f"pgbench {connect} -i -q postgres && "
                f"pgbench {connect} -n -c 4 -T 1 -R 200 postgres",
            ),
        )
