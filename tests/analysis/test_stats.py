# SPDX-License-Identifier: MIT
"""`allotrope stats PID`: the heap of a process that runs, read from outside."""

import json
import os
import re
import shlex
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from allotrope.features.stats import process
from allotrope.system import counters
from allotrope.system.allocators import PEERS
from allotrope.system.counters import why_unreadable
from conftest import Command
from under import BUILD, HANG, LIBRARY, SOURCE

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_barrier_t is_deaf;
static void *hear_nothing(void *unused)
{
    unsigned long every = ~0UL;
    syscall(SYS_rt_sigprocmask, 0, &every, 0, sizeof every);
    pthread_barrier_wait(&is_deaf);
    for (;;) getppid();
    return unused;
}
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "deaf") == 0) {
        pthread_t thread;
        pthread_barrier_init(&is_deaf, 0, 2);
        pthread_create(&thread, 0, hear_nothing, 0);
        pthread_barrier_wait(&is_deaf);
    }
    static char *blocks[1000];
    for (int i = 0; i < 1000; i++) blocks[i] = memset(malloc(50000), 1, 50000);
    for (int i = 500; i < 1000; i++) free(blocks[i]);
    puts("ready");
    fflush(stdout);
    return getchar() == EOF;
}
"""
# Blocks of one size and nothing else.
ALIGNED_PROGRAM = r"""
#include <stdlib.h>
int main(void)
{
    for (int i = 0; i < 1000; i++) if (!aligned_alloc(4096, 4112)) return 1;
    return 0;
}
"""
SPECS = ("bsd", "knuth:classic", "cartesian", "gnu", "blocks")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    (folder / "program.c").write_text(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", "program", "program.c"], check=True, cwd=folder)
    return folder / "program"


def start(command: Command, spec: str | None, words: list[str], **more: str) -> Any:
    """The program, which has allocated and waits until its standard input closes."""
    environment = command.environment() | more
    if spec is not None:
        library = str(BUILD / ".libs" / "liballotrope.so")
        environment |= {"LD_PRELOAD": library, "ALLOTROPE": spec}
    child = subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


@pytest.fixture
def children() -> Iterator[list[Any]]:
    started: list[Any] = []
    yield started
    for child in started:
        child.communicate()


def test_a_process_may_have_any_name(
    real: Command, program: Path, children: list[Any], tmp_path: Path
) -> None:
    """The kernel cuts it off behind 15 bytes, here in the middle of a letter."""
    name = tmp_path / "zwölf-große-öde"
    name.write_bytes(program.read_bytes())
    name.chmod(0o755)
    more = {"ALLOTROPE_SITES": str(tmp_path / "%p.json")}
    children.append(start(real, "bsd", [str(name)], **more))
    pid = str(children[0].pid)
    for words in (("stats", pid, "--json"), ("sites", "--pid", pid, "--json", "-")):
        done = real.run(*words)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["command"] == "zwölf-große-\udcc3"


def test_a_terminal_obeys_no_name(
    real: Command, program: Path, children: list[Any], tmp_path: Path
) -> None:
    name = tmp_path / "ring\a"
    name.symlink_to(program)
    children.append(start(real, "bsd", [str(name)]))
    done = real.run("stats", str(children[0].pid))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^process +ring\\x07, pid ", done.stdout)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("account", [False, True])
def test_heap_of_a_running_process(
    real: Command, program: Path, children: list[Any], spec: str, account: bool
) -> None:
    more = {"ALLOTROPE_STATS": os.devnull} if account else {}
    child = start(real, spec, [str(program)], **more)
    children.append(child)
    done = real.run("stats", "--json", str(child.pid))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["pid"] == child.pid and found["command"] == "program"
    assert (found["allocator"], found["preset"]) == tuple((spec + ":default").split(":")[:2])
    assert 25_000_000 <= found["mapped_bytes"] <= found["mapped_peak_bytes"] < 200_000_000
    assert 25_000_000 <= found["heap_resident_bytes"] <= found["process_resident_bytes"]
    if account:
        assert 500 <= found["live"]["blocks"] < 600
        assert 25_000_000 <= found["live"]["requested_bytes"] < 25_100_000
        assert found["live"]["calls"]["free"] >= 500
    else:
        assert found["live"] is None


def test_blocks_that_live_take_their_waste_of_alignment(tmp_path: Path) -> None:
    (tmp_path / "aligned.c").write_text(ALIGNED_PROGRAM)
    subprocess.run(["cc", "-O0", "-o", "aligned", "aligned.c"], check=True, cwd=tmp_path)
    report = tmp_path / "report.json"
    environment = {"ALLOTROPE": "bsd", "ALLOTROPE_STATS": str(report), "LD_PRELOAD": str(LIBRARY)}
    subprocess.run([tmp_path / "aligned"], check=True, env=os.environ | environment, timeout=HANG)
    found = json.loads(report.read_text())
    live, peak = found["live"], found["peak"]
    assert peak["waste"]["alignment"] > 0
    assert live["allocated_bytes"] * peak["blocks"] == peak["allocated_bytes"] * live["blocks"]


@pytest.mark.parametrize("spec", ("gc:every=100", "gc:generations=2,every=100", "gc:classic"))
def test_collections_of_a_running_process(
    real: Command, program: Path, children: list[Any], spec: str
) -> None:
    child = start(real, spec, [str(program)])
    children.append(child)
    found = json.loads(real.run("stats", "--json", str(child.pid)).stdout)["collections"]
    assert found["count"] >= 5
    assert 0 < found["longest_pause_ns"] < found["pause_ns"]
    assert found["live_bytes"] >= 1_000_000
    assert ("freed_bytes" in found) == (spec != "gc:classic")
    assert ("minor" in found) == ("generations" in spec)
    assert set(found["given_up"]) >= {"thread_does_not_stop", "roots_unreadable"}
    rows = real.run("stats", str(child.pid)).stdout.splitlines()
    said = {line[:22].strip(): line[22:] for line in rows}
    assert said["collections"].split(",")[0] == str(found["count"])
    assert said["the program stood"].endswith(" at most")
    assert ("they freed" in said) == (spec != "gc:classic") and "live after the last" in said


def test_a_collector_that_has_not_collected(
    real: Command, program: Path, children: list[Any]
) -> None:
    child = start(real, "gc:initial=1G", [str(program)])
    children.append(child)
    said = real.run("stats", str(child.pid)).stdout
    assert "collections           0\n" in said and "the program stood" not in said


def test_what_was_given_up_is_told_with_its_reason(
    real: Command, program: Path, children: list[Any]
) -> None:
    """A thread that blocks every signal does not stop."""
    child = start(real, "gc:every=400", [str(program), "deaf"])
    children.append(child)
    found = json.loads(real.run("stats", "--json", str(child.pid)).stdout)["collections"]
    given_up = found["given_up"]["thread_does_not_stop"]
    assert given_up > 0
    said = real.run("stats", str(child.pid)).stdout
    assert f"given up              {given_up}: a thread does not stop\n" in said


def test_table_and_watch_to_the_end(real: Command, program: Path) -> None:
    child = start(real, "bsd", [str(program)])
    shown = real.run("stats", str(child.pid)).stdout
    assert f"program, pid {child.pid}, under bsd" in shown
    assert "start it with `run --stats` to know" in shown
    line = real.line("stats", "--watch", "--interval", "0.05", str(child.pid))
    with subprocess.Popen(
        line, env=real.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["time", "heap", "resident"]
        assert "MiB" in watch.stdout.readline()
        child.communicate()
        _, errors = watch.communicate(timeout=HANG)
    assert watch.returncode == 0
    assert f"process {child.pid} has ended" in errors


def test_watch_shows_collections(real: Command, program: Path, children: list[Any]) -> None:
    child = start(real, "gc:every=100", [str(program)])
    children.append(child)
    line = real.line("stats", "--watch", "--interval", "0.05", str(child.pid))
    with subprocess.Popen(line, env=real.environment(), stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[-4:] == ["collections", "given", "up", "longest"]
        count, given_up, _, unit = watch.stdout.readline().split()[-4:]
        watch.terminate()
    assert int(count) >= 5 and given_up.isdigit() and unit in ("µs", "ms", "s")


def test_latencies_of_every_call_are_counted(
    real: Command, program: Path, tmp_path: Path, children: list[Any]
) -> None:
    file = tmp_path / "latency.json"
    child = start(real, "bsd", [str(program)], ALLOTROPE_LATENCY=str(file))
    child.communicate()
    found = json.loads(file.read_text())
    assert found["schema"] == "allotrope.latency/1" and found["own_cost_ns_subtracted"] > 0
    for name, least in (("malloc", 1000), ("free", 500)):
        call = found[name]
        assert call["calls"] >= least
        assert sum(call["calls_below_ns"].values()) == call["calls"]
        quantiles = [call[key] for key in ("p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "longest_ns")]
        assert quantiles == sorted(quantiles)


@pytest.mark.parametrize("spec", ("blocks", "glibc", "jemalloc"))
def test_run_writes_latencies_as_json_or_as_text(real: Command, tmp_path: Path, spec: str) -> None:
    file = tmp_path / "latency.json"
    if spec == "jemalloc" and PEERS[0].path() is None:
        pytest.skip("libjemalloc2 is not installed")
    done = real.run("run", "-a", spec, f"--latency={file}", "--", "gawk", "BEGIN { x = 1 }")
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert found["allocator"] == spec
    text = real.run("run", "-a", spec, "--latency", "gawk", "BEGIN { x = 1 }").stderr
    counts = [line.split() for line in text.splitlines() if line.endswith("#")]
    assert len(counts) > 3
    for _, count, bar in counts:
        assert len(bar) == int(count).bit_length()


def test_one_that_was_just_started_is_waited_for(real: Command) -> None:
    """`allotrope run ... & allotrope stats $!`, as --help has it."""
    run = shlex.join(real.line("run", "-a", "blocks", "--", "sleep", "60"))
    stats = shlex.join(real.line("stats"))
    script = f"{run} & child=$!; {stats} $child; status=$?; kill $child; exit $status"
    child = subprocess.Popen(
        ["sh", "-c", script], env=real.environment(), stdout=subprocess.PIPE, text=True
    )
    said, _ = child.communicate(timeout=HANG)
    assert child.returncode == 0 and "blocks" in said


@pytest.mark.parametrize("failure", [ProcessLookupError(), struct.error(), None])
def test_one_that_execs_as_it_is_looked_at_is_looked_at_again(
    real: Command,
    program: Path,
    children: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    failure: Exception | None,
) -> None:
    """The kernel shows no memory of the image that was, or nothing at its addresses."""
    children.append(start(real, "blocks", [str(program)]))
    looks, find_published = [0], process.find_published

    def find(pid: int, maps: list[str]) -> Any:
        looks[0] += 1
        if looks[0] > 1:
            return find_published(pid, maps)
        if failure is not None:
            raise failure
        maps.clear()
        return None

    monkeypatch.setattr(process, "find_published", find)
    assert process.find(children[0].pid).published.allocator == "blocks" and looks == [2]


def test_who_is_only_observed_is_told(
    real: Command, program: Path, children: list[Any], tmp_path: Path
) -> None:
    child = start(real, "next", [str(program)], ALLOTROPE_LATENCY=str(tmp_path / "latency"))
    children.append(child)
    done = real.run("stats", str(child.pid))
    assert done.returncode == 2
    assert "(program) has an allocator that is not ours" in done.stderr
    assert done.stderr.count("\n") == 1


def test_who_is_not_ours_is_told(real: Command, program: Path, children: list[Any]) -> None:
    child = start(real, None, [str(program)])
    children.append(child)
    done = real.run("stats", str(child.pid))
    assert done.returncode == 2
    assert "(program) does not run under an allocator of ours; start it with" in done.stderr
    assert done.stderr.count("\n") == 1


def test_who_is_not_ours_is_told_where_uptime_is_the_containers(
    real: Command, program: Path, children: list[Any], tmp_path: Path
) -> None:
    """lxcfs shows the container's there. When a process was started counts from the machine's."""
    (tmp_path / "uptime").write_text("1.00 1.00\n")
    hide = 'mount --bind "$0" /proc/uptime && exec "$@"'
    inside = ["unshare", "-m", "sh", "-c", hide, str(tmp_path / "uptime")]
    if os.geteuid() != 0 or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace may be made here")
    children.append(start(real, None, [str(program)]))
    done = subprocess.run(
        [*inside, *real.line("stats", str(children[0].pid))],
        env=real.environment(),
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 2
    assert "(program) does not run under an allocator of ours" in done.stderr


def test_wait_ends_where_no_age_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(process, "age_seconds", lambda pid: -1e6)
    monkeypatch.setattr(process.time, "sleep", waited.append)
    monkeypatch.setattr(process.time, "monotonic", lambda: sum(waited))
    with pytest.raises(process.NotOurs):
        process.find(os.getpid())
    assert sum(waited) >= process.PATIENCE_SECONDS


@pytest.mark.parametrize(
    "words, said",
    [
        (("4194999",), "there is no process 4194999"),
        (("none",), "'none'"),
        (("0",), "0"),
        ((), "PID is missing"),
        (("--interval", "2", "1"), "--interval needs --watch"),
    ],
)
def test_bad_input_is_told_in_a_line(real: Command, words: tuple[str, ...], said: str) -> None:
    done = real.run("stats", *words)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_who_belongs_to_another_user_is_told(
    real: Command, program: Path, children: list[Any]
) -> None:
    child = start(real, "bsd", [str(program)])
    children.append(child)
    script = (
        f"import os, sys; sys.path.insert(0, {str(SOURCE / 'analysis')!r})\n"
        "from allotrope.features.stats import process\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"try: process.find({child.pid})\n"
        "except process.UserError as error: print(error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert f"process {child.pid} belongs to user 0; run this as that user or as root" in done.stdout


def test_a_program_goes_by_the_name_that_was_executed(real: Command, tmp_path: Path) -> None:
    """Not by the file behind a link: Debian's redis-server is a link to redis-check-rdb."""
    (tmp_path / "server").symlink_to("/bin/ls")
    file = tmp_path / "stats.json"
    real.run("run", "-a", "blocks", f"--stats={file}", "--", str(tmp_path / "server"))
    assert json.loads(file.read_text())["command"] == "server"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told what root cannot mend")
def test_root_is_not_sent_to_root() -> None:
    said = why_unreadable(1)
    assert "as root" not in said and "CAP_SYS_PTRACE" in said


@pytest.fixture
def without_proc(
    real: Command, tmp_path: Path
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a word of ours where /proc is empty."""
    hide = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if os.geteuid() != 0 or subprocess.run([*hide, "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace may be made here")

    def run(words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*hide, *real.line(*words.split())],
            env=real.environment(),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=HANG,
        )

    return run


@pytest.mark.parametrize(
    "words",
    [
        *("stats 1", "locality -a glibc -- true", "record -o x -- true", "events -o x -- true"),
        *("sites --pid 1", "verify-gc -- true", "compare --server x --ready true --load true"),
    ],
)
def test_without_proc_that_is_what_is_told(
    without_proc: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path, words: str
) -> None:
    done = without_proc(words)
    options = {"sites": "sites --pid", "compare": "compare --server"}
    needs = options.get(words.split()[0], words.split()[0])
    assert done.returncode == 2
    assert done.stderr == (
        f"allotrope: /proc is not mounted, and {needs} needs it " "(mount -t proc proc /proc)\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words, told",
    [
        ("sites -- true", "/proc was not mounted, so places are bare addresses."),
        (
            "sites -- true",
            "Not seen: /proc is not mounted, so nobody could see whom our library did not serve; "
            "what was allocated there is not known.",
        ),
        (
            "sites -- sh -c kill${IFS}-9${IFS}$$",
            "(it was killed by SIGKILL); /proc is not mounted, so nobody could see whom",
        ),
        (
            "compare --rounds 1 -a glibc -a blocks -- true",
            "blocks: who served it is not known, for /proc is not mounted.",
        ),
    ],
)
def test_what_works_without_proc_says_what_is_missing(
    without_proc: Callable[[str], subprocess.CompletedProcess[str]], words: str, told: str
) -> None:
    done = without_proc(words)
    assert done.returncode == (137 if "kill" in words else 0)
    assert told in " ".join((done.stdout + done.stderr).split())


def test_without_proc_nobody_is_said_to_have_served_a_static_program(
    without_proc: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """The shell writes an account, the program that used most CPU none."""
    source = tmp_path / "source.c"
    source.write_text(
        "#include <stdlib.h>\n#include <time.h>\nint main(void)\n{ void *volatile p = malloc(9);"
        " while (clock() < CLOCKS_PER_SEC / 100) p = p; return p == NULL; }"
    )
    compiler = os.environ.get("CC", "cc").split()
    for name, options in (("static", ["-static"]), ("dynamic", [])):
        line = [*compiler, *options, "-o", str(tmp_path / name), str(source)]
        subprocess.run(line, check=True)
    script = tmp_path / "script"
    script.write_text(f"{tmp_path}/static\n{tmp_path}/dynamic\n")
    options = "compare --rounds 9 -a glibc -a blocks --json a.json --fail-if blocks.memory>100 --"
    done = without_proc(f"{options} sh {script}")
    said = " ".join(done.stdout.split())
    assert done.returncode == 3, done.stderr + said
    assert "Not decided: who served the program under glibc and blocks is not known" in said
    assert "blocks is reach-unknown (for /proc is not mounted), so nobody knows" in said
    assert "Load unknown: how much other programs used the processors" in said
    results = json.loads((tmp_path / "a.json").read_text())["results"]
    assert [one["status"] for one in results] == ["reach-unknown"] * 2
    assert [one["cpu_seconds"]["verdict"] for one in results] == [None, None]
    # One process, and a report of it: that proves who served.
    done = without_proc(f"{options} {tmp_path}/dynamic")
    results = json.loads((tmp_path / "a.json").read_text())["results"]
    assert done.returncode == 0 and [one["status"] for one in results] == ["ok", "ok"]
    assert results[1]["served"]["in_reach"] and results[1]["served"]["allocations"] > 0


def test_counters_are_looked_for_in_a_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In what the library has in its file and may write, and at the one place of the program's that
    its file tells, if any. What lies behind may be large, and the heap, which a look would bring
    into memory."""
    maps = [
        "1000-2000 r--p 00000000 00:00 1 /bin/program",
        "2000-9000 rw-p 00001000 00:00 1 /bin/program",
        "9000-80000 rw-p 00000000 00:00 0 [heap]",
        "91000-92000 r--p 00000000 00:00 1 /lib/liballotrope.so.0",
        "92000-93000 rw-p 00001000 00:00 1 /lib/liballotrope.so.0 (deleted)",
        "93000-95000 rw-p 00000000 00:00 0 ",
        "98000-99000 rw-p 00000000 00:00 1 /lib/other.so",
    ]
    library = range(0x92000, 0x93000)
    record = range(0x2800, 0x2800 + counters.RECORD_BYTES)
    offsets = {0x1800: [record, library], 0x800: [library], None: [library]}
    for program in ("/bin/program", "/bin/program (deleted)"):
        monkeypatch.setattr(counters, "program_of", lambda pid, name=program: name)
        for offset, places in offsets.items():
            monkeypatch.setattr(counters, "_offset_in_file", lambda file, at=offset: at)
            assert list(counters._places(1, maps)) == places
