# SPDX-License-Identifier: MIT
"""`allotrope sites`: planted allocations are found where they were planted."""

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Iterator, Sequence

import click
import pytest
from allotrope.commands import sites as sites_command
from allotrope.features.reach.served import NotSeen
from allotrope.features.sites import page as sites_page
from allotrope.features.sites import timeline as sites_timeline
from allotrope.features.sites.measure import OF_ONE, Frame, Site, Sites, Tally
from allotrope.features.sites.output import as_document
from allotrope.features.sites.snapshot import BLOCK, HEAD, PUBLISHED, SiteTable, Unreadable
from allotrope.features.sites.timeline import Timeline, places_over_time, sizes_over_time
from allotrope.system import symbols
from allotrope.system.allocators import PEERS
from allotrope.system.counters import Published
from allotrope.system.errors import UserError
from browser import DESKTOP, PHONE, Browser, browser  # noqa: F401
from conftest import Command
from scipy import stats
from under import BUILD, HANG, PYTHON, await_looks, await_that, static_that_lingers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_term_reaches_the_program(real: Command, tmp_path: Path, number: signal.Signals) -> None:
    """Its status is then that of the program, which the report says."""
    ready = tmp_path / "ready"
    script = f"import time; open({str(ready)!r}, 'w'); time.sleep({HANG})"
    command = real.start("sites", "--", PYTHON, "-c", script, stderr=subprocess.PIPE)
    while not ready.exists():
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(number)
    _, said = command.communicate(timeout=HANG)
    assert command.returncode == 128 + number and number.name in said


LEAK = str(BUILD / "bench_programs" / "planted_leak")
SPECS = (
    *("bsd", "bsd:classic", "knuth", "knuth:classic", "cartesian", "gnu", "gnu:classic"),
    *("blocks", "gc:free=honour,leaks=keep"),
)
FOREIGN = ("glibc", *(peer.name for peer in PEERS if peer.path() is not None))
LEAKED = 25600 * 4096

THREADS = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) void *shared(size_t n) { return memset(malloc(n), 1, n); }
static __attribute__((noinline)) void *grown(void)
{
    char *p = NULL;
    for (size_t n = 1000; n <= 1000000; n += 1000) p = realloc(p, n);
    return p;
}
static void *work(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2000; i++) { free(shared(5000)); if (i % 4 == 0) (void)!shared(1000); }
    return NULL;
}
static void *volatile kept;
int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    kept = grown();
    if (fork() == 0) exit(0);
    wait(NULL);
    return 7;
}
"""


def by_function(document: dict[str, Any], moment: str) -> dict[str, tuple[int, int]]:
    """Blocks and bytes by the function that called malloc."""
    sums: dict[str, tuple[int, int]] = {}
    for site in document["sites"]:
        name = site["frames"][0]["places"][0]["function"]
        blocks, size = sums.get(name, (0, 0))
        sums[name] = blocks + site[moment]["blocks"], size + site[moment]["bytes"]
    return sums


TEMPORARIES = r"""
#include <stdlib.h>
static void *volatile kept;
static __attribute__((noinline)) void *temporary(void) { return malloc(40); }
static __attribute__((noinline)) void *other(void) { return malloc(24); }
int main(void)
{
    for (int i = 0; i < 1000; i++) { kept = temporary(); free(kept); }
    for (int i = 0; i < 1000; i++) {
        void *volatile first = other(), *volatile second = other();
        free(first);
        free(second);
    }
    for (int i = 0; i < 6000; i++) kept = other();
    return 0;
}
"""


def test_temporaries_ages_and_a_mostly_leaking_program(real: Command, tmp_path: Path) -> None:
    (tmp_path / "source.c").write_text(TEMPORARIES)
    program = str(tmp_path / "program")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, str(tmp_path / "source.c")], check=True)
    file = tmp_path / "sites.json"
    done = real.run("sites", "-a", "bsd", "--rate=1", f"--json={file}", "--", program)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert by_function(document, "temporary") == {"temporary": (1000, 40000), "other": (0, 0)}
    assert sum(row["blocks"] for row in document["lifetimes"]) == 3000
    said = " ".join(done.stderr.split())
    assert "Temporary: 1,000 of 9,000 allocations (11%)" in said
    assert "Lived: of all allocations" in said and "67% to the end" in said
    assert "Never freed: 141 KiB in 6,000 blocks: 62% of all" in said


def test_files_are_written_though_nobody_reads_the_report(real: Command, tmp_path: Path) -> None:
    file = tmp_path / "sites.json"
    line = real.line("sites", "-a", "bsd", "--json", str(file), "--", "/bin/ls", "/")
    with subprocess.Popen(
        line, env=real.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as started:
        assert started.stderr is not None
        started.stderr.close()
    assert json.loads(file.read_text())["command"] == "ls"


@pytest.mark.parametrize("spec", (*SPECS, *FOREIGN))
def test_a_planted_leak_is_named_exactly(real: Command, tmp_path: Path, spec: str) -> None:
    file = tmp_path / "sites.json"
    done = real.run("sites", "-a", spec, "--rate", "1", "--json", str(file), "--", LEAK)
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["allocator"] == spec.partition(":")[0]
    assert by_function(document, "exit")["grow"] == (25600, LEAKED)
    assert by_function(document, "peak")["grow"] == (25600, LEAKED)
    assert by_function(document, "total")["use_and_free"][0] == 25600
    words = " ".join(done.stderr.split())
    assert "Never freed: 100 MiB in 25,600 blocks, allocated at grow" in words
    assert "are never freed: 100% of the peak. Called by main." in words


def test_a_program_may_lie_in_a_folder_of_any_name(real: Command, tmp_path: Path) -> None:
    program, file = tmp_path / "Größe 漢", tmp_path / "sites.json"
    shutil.copy(LEAK, program)
    done = real.run("sites", "-a", "bsd", "--rate", "1", "--json", str(file), "--", str(program))
    assert done.returncode == 0, done.stderr
    document = json.loads(file.read_text())
    assert document["command"] == program.name
    assert by_function(document, "exit")["grow"] == (25600, LEAKED)


@pytest.mark.parametrize("spec", ("bsd", "knuth:classic", "blocks", "glibc"))
def test_a_sample_comes_close(real: Command, tmp_path: Path, spec: str) -> None:
    file = tmp_path / "sites.json"
    done = real.run("sites", "-a", spec, "--json", str(file), "--", LEAK)
    assert done.returncode == 0, done.stderr
    _, size = by_function(json.loads(file.read_text()), "peak")["grow"]
    assert 0.8 * LEAKED < size < 1.2 * LEAKED  # six standard errors


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("threads")
    (folder / "threads.c").write_text(THREADS)
    line = ["cc", "-g", "-O1", "-pthread", "-o", str(folder / "threads"), "threads.c"]
    subprocess.run(line, check=True, cwd=folder)
    return folder / "threads"


@pytest.mark.parametrize("spec", ("bsd", *FOREIGN))
def test_threads_realloc_and_fork(real: Command, tmp_path: Path, threads: Path, spec: str) -> None:
    file = tmp_path / "sites.json"
    done = real.run("sites", "-a", spec, "--rate", "1", "--json", str(file), "--", str(threads))
    assert done.returncode == 7, done.stderr
    document = json.loads(file.read_text())
    assert document["processes"] == 2
    assert by_function(document, "exit")["shared"] == (2000, 2000 * 1000)
    assert by_function(document, "exit")["grown"] == (1, 1000000)
    assert by_function(document, "total")["grown"] == (1000, 1000 * 500500)
    assert "threads.c" in done.stderr and "2 processes" in done.stderr


def test_output_and_status_are_the_commands(real: Command) -> None:
    done = real.run("sites", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")


@pytest.mark.parametrize(
    "words, said",
    [
        ((), "no command given"),
        (("--rate", "0", "true"), "--rate: bad value '0'; bytes from 1 to 1G"),
        (("--rate", "many", "true"), "bad value 'many'"),
        (("--frames", "65", "true"), "65"),
        (("-a", "nonsense", "true"), "unknown allocator"),
        (("--json", "/nowhere/x", "true"), "there is no folder /nowhere"),
        (("--json", "-", "true"), "name a file"),
        (("--json", "x", "--pprof", "x", "true"), "already written by --"),
        (("diff",), "sites diff takes two files that --json wrote"),
        (("diff", "a.json"), "sites diff takes two files that --json wrote; one is given"),
        (("diff", "a", "b.json", "c"), "sites diff takes two files that --json wrote; 3 are given"),
        (("diff", "a", "b.json"), "cannot read a"),
    ],
)
def test_bad_input_is_told_in_a_line(
    real: Command, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    done = real.run("sites", *words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr and done.stderr.count("\n") == 1


def test_a_bad_rate_stops_the_library(real: Command) -> None:
    environment = real.environment() | {
        "LD_PRELOAD": str(BUILD / ".libs" / "liballotrope.so"),
        "ALLOTROPE_SITES": "x",
        "ALLOTROPE_SITES_RATE": "fast",
    }
    done = subprocess.run(["true"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'bad value "fast" for ALLOTROPE_SITES_RATE; valid are: 1 to' in done.stderr


# Ends in a signal handler, which may have interrupted malloc; the handler itself does not allocate.
ENDS_IN_HANDLER = """
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
static void end(int number) { (void)number; exit(3); }
int main(void)
{
    struct itimerval soon = {.it_value = {0, 20000}};
    signal(SIGALRM, end);
    free(malloc(10)); /* however late the loop begins, there is a sample */
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;) {
        void *volatile block = malloc(100);
        free(block);
    }
}
"""


def test_a_program_that_ends_in_a_handler_reports(real: Command, tmp_path: Path) -> None:
    program, report = tmp_path / "ends", tmp_path / "report.json"
    build = ["cc", "-x", "c", "-o", str(program), "-"]
    subprocess.run(build, input=ENDS_IN_HANDLER, text=True, check=True)
    environment = real.environment() | {
        "LD_PRELOAD": str(BUILD / ".libs" / "liballotrope.so"),
        "ALLOTROPE_SITES": str(report),
        "ALLOTROPE_SITES_RATE": "1",
    }
    for _ in range(10):
        done = subprocess.run([program], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (3, "")
        assert json.loads(report.read_text())["samples"] > 0
        report.unlink()


# A program with a malloc of its own, which hands out the same block for ever.
OWN_MALLOC = """
#include <stdlib.h>
static char block[4096];
void *malloc(size_t size) { (void)size; return block; }
void free(void *old) { (void)old; }
int main(void) { return malloc(100) != block; }
"""


def test_a_malloc_of_the_programs_own_is_no_small_program(real: Command, tmp_path: Path) -> None:
    (tmp_path / "source.c").write_text(OWN_MALLOC)
    program = str(tmp_path / "program")
    build = ["gcc", "-fno-builtin", "-rdynamic", "-o", program, str(tmp_path / "source.c")]
    subprocess.run(build, check=True)
    done = real.run("sites", "--", program)
    assert done.returncode == 0
    said = " ".join(done.stderr.split())
    assert "program has a malloc of its own: blocks serves only what that passes on" in said
    assert "or it is served by a malloc of its own" in said
    timed = real.run("run", "-a", "glibc", "--latency", "--", program)
    assert "a malloc of its own: this library sees only what that passes on" in timed.stderr
    assert "next" not in timed.stderr  # what ours calls itself where it passes calls on


# Its parent has ended before it is looked at.
ORPHAN = "({} ready go &); while ! [ -e go ]; do sleep 0.01; done; exec ls"


def sites_of(
    real: Command, script: str, folder: Path, before: Sequence[str] = ()
) -> tuple[int, str]:
    """Of a shell whose static program lingers until it was looked at: the status and what was said.
    before: stands before the command."""
    with subprocess.Popen(
        [*before, *real.line("sites", "--json=sites.json", "--", "sh", "-c", script)],
        env=real.environment(),
        cwd=folder,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as command:
        await_that(lambda: (folder / "ready").exists() or command.poll() is not None)
        if command.poll() is None:
            await_looks(command.pid)
        (folder / "go").touch()
        _, said = command.communicate(timeout=HANG)
    for file in ("ready", "go"):
        (folder / file).unlink(missing_ok=True)
    return command.returncode, said


# The shell ends when cat has copied a line, and cat waits for another.
RUNS_ON = "cat held 2>/dev/null >copied & read line <copied; exec ls"


@pytest.mark.parametrize("word", ["sites", "leaks"])
def test_what_runs_on_when_the_command_has_ended_is_named(
    real: Command, tmp_path: Path, word: str
) -> None:
    for name in ("held", "copied"):
        os.mkfifo(tmp_path / name)
    held = os.open(tmp_path / "held", os.O_RDWR)
    try:
        os.write(held, b"line\n")
        done = real.run(word, "--json=report.json", "--", "sh", "-c", RUNS_ON, cwd=tmp_path)
    finally:
        os.close(held)
    words = " ".join(done.stderr.split())
    assert done.returncode == 0, done.stderr
    assert "Not seen: cat still ran when the command had ended, and will report to nobody" in words
    (row,) = json.loads((tmp_path / "report.json").read_text())["not_seen"]
    assert (row["command"], row["processes"], row["unseen"]) == ("cat", 1, "outlives")


@pytest.mark.parametrize("word", ["sites", "leaks"])
def test_an_emptied_environment_is_a_reason_for_no_report(real: Command, word: str) -> None:
    done = real.run(word, "--", "env", "-i", "/bin/sh", "-c", "exit 0")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "was started with an emptied environment" in done.stderr


def test_what_our_library_does_not_serve_is_named(real: Command, tmp_path: Path) -> None:
    static = static_that_lingers(tmp_path)
    for script in (ORPHAN.format(static), f"exec {static} ready go"):
        status, said = sites_of(real, script, tmp_path)
        words = " ".join(said.split())
        assert "our library did not serve static (it is linked statically)" in words
        if "ls" in script:
            assert status == 0
            assert "; what was allocated there is not known." in words
        else:  # nobody wrote a report
            assert status == 1 and said.count("\n") == 1
    document = json.loads((tmp_path / "sites.json").read_text())
    (row,) = document["not_seen"]
    known = {"command": "static", "processes": 1, "allocator": "static", "unseen": None}
    assert row == known | {"object": os.path.realpath(static)}
    assert "Not seen: our library did not serve static" in " ".join(document["words"])
    assert document["longest_gap_seconds"] > 0


def test_an_orphan_of_whom_nothing_is_known_is_named(real: Command, tmp_path: Path) -> None:
    """As perhaps the command's, unless a look came before its parent's end."""
    line = f"setsid -f env -i {static_that_lingers(tmp_path)}"
    status, said = sites_of(real, ORPHAN.format(line), tmp_path)
    assert status == 0
    document = json.loads((tmp_path / "sites.json").read_text())
    seen = [row["command"] for row in document["not_seen"]]
    assert seen == ["static"] or "static" in document["perhaps"]  # beside other tests' orphans
    if not seen:
        words = r"whether .*\bstatic\b.* orphaned while the command ran and"
        assert re.search(words, " ".join(said.split()))


def test_what_nobody_may_look_at_is_named(real: Command, tmp_path: Path) -> None:
    """A program that only may be executed is not dumpable. Root may read it, unless it gives up
    that right."""
    rights = "-sys_ptrace,-dac_override,-dac_read_search"
    before = ["setpriv", "--bounding-set", rights] if os.geteuid() == 0 else []
    static = static_that_lingers(tmp_path)
    static.chmod(0o111)
    status, said = sites_of(real, ORPHAN.format(static), tmp_path, before)
    if status != 0 and "ermission denied" in said:
        pytest.skip("without its rights root may not read this tree")
    assert "whether our library served static (it may not be read: " in " ".join(said.split())
    (row,) = json.loads((tmp_path / "sites.json").read_text())["not_seen"]
    known = {"command": "static", "processes": 1, "allocator": "unknown", "object": None}
    assert row == known | {"unseen": "private"}


def test_how_long_nobody_looked_is_in_every_report() -> None:
    raw = {"peak_bytes": 0, "exit_bytes": 0, "rate_bytes": 1, "samples": 0, "frames": 1}
    raw |= {"command": "x", "pid": 1, "allocator": "gc", "preset": "default", "lost_samples": 0}
    found = Sites(raw | {"maps": ["x"]}, [], 1, symbols.Symbols([]), NotSeen([], 2.0))
    told = "Not seen: 2.0 s passed between two looks"
    assert any(word.startswith(told) for word in as_document(found)["words"])
    advice = sites_page.sites_page(found, "x", "today").advice
    assert any(str(sentence).startswith(told) for sentence in advice)


def test_one_block_is_not_many(real: Command, tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text(
        "#include <stdlib.h>\nvoid *volatile kept;\nint main(void) { kept = malloc(2 << 20); }"
    )
    subprocess.run(["cc", "-o", str(tmp_path / "one"), str(source)], check=True)
    said = " ".join(real.run("sites", "--rate=1", "--", str(tmp_path / "one")).stderr.split())
    assert "Never freed: 2.0 MiB in 1 block, allocated at main" in said
    assert "is never freed: 100% of the peak" in said


SECURE = """
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
int main(void)
{
    void *volatile block = malloc(100);
    return printf("%lu\\n", getauxval(AT_SECURE)) != 2 || !block;
}
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="making a setuid program of root's needs root")
@pytest.mark.parametrize("word", ["sites", "leaks"])
def test_of_a_setuid_child_the_loader_does_not_complain(real: Command, word: str) -> None:
    """It wrote to the program's standard error that libgcc_s.so.1 cannot be preloaded."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "secure.c").write_text(SECURE)
        subprocess.run(["cc", "-o", "secure", "secure.c"], check=True, cwd=folder)
        (folder / "secure").chmod(0o4755)
        done = subprocess.run(
            real.line(word, "--", "sh", "-c", "./secure; exec ls /"),
            env=real.environment(),
            cwd=folder,
            user="nobody",
            group="nogroup",
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=HANG,
        )
    if done.returncode != 0 and "ermission denied" in done.stderr:
        pytest.skip("another user may not read this tree")
    assert done.returncode == 0, done.stderr
    if done.stdout.startswith("0\n"):
        pytest.skip("a setuid program gains no rights here")
    assert done.stdout.startswith("1\n")
    assert "ld.so" not in done.stderr and "preload" not in done.stderr


CHURN = """
#include <stdlib.h>
int main(void)
{
    static void *volatile held[1000];
    for (int i = 0; i < 300000; i++) {
        free(held[i % 1000]);
        held[i % 1000] = malloc(i * 7919 % 500 + 16);
    }
    return 0;
}
"""


def test_a_peak_for_which_few_samples_stand_has_its_bounds(real: Command, tmp_path: Path) -> None:
    """The largest of many estimates was told without a word: 755 KiB of a heap of 274."""
    (tmp_path / "churn.c").write_text(CHURN)
    program = str(tmp_path / "churn")
    subprocess.run(["gcc", "-O1", "-o", program, str(tmp_path / "churn.c")], check=True)
    rates = {"1": True, "4K": False, "64K": False, "256K": False}
    for rate, exact in rates.items():
        said = " ".join(real.run("sites", "--rate", rate, "--", program).stderr.split())
        assert ("few samples stand for it" in said) is not exact, said
    sampled = Sites({"peak_bytes": 3 << 18, "rate_bytes": 1 << 18}, [], 1, symbols.Symbols([]))
    assert sampled.peak_range() == (3 << 18, 3 << 18)  # nothing of it is drawn
    one = Site((), Tally(3000, 3 << 18), Tally(), Tally())
    low, high = replace(sampled, sites=[one]).peak_range()
    assert low < 274 << 10 and high > 3 << 18
    for count in (1, 3, 10, 100):
        raw = {"peak_bytes": count << 18, "rate_bytes": 1 << 18}
        sites = [Site((), Tally(3000, count << 18), Tally(), Tally())]
        _, high = replace(sampled, raw=raw, sites=sites).peak_range()
        # Above that lies the mean of 2.3% of the Poisson counts that are so small.
        exact = stats.chi2.ppf(stats.norm.cdf(OF_ONE), 2 * (count + 1)) / 2
        assert high / (1 << 18) == pytest.approx(exact, rel=0.01)
    large = Site((), Tally(3, 3 << 18), Tally(), Tally())
    assert replace(sampled, sites=[large]).peak_range() == (3 << 18, 3 << 18)


def test_few_samples_do_not_tell_how_long_blocks_live(real: Command) -> None:
    said = " ".join(real.run("sites", "--rate", "64K", "--", "ls", "/").stderr.split())
    assert "cannot tell how long blocks live; --rate 1 sees all" in said
    assert "Lived:" not in said and "Temporary:" not in said


def test_who_ends_without_exit_is_told(real: Command) -> None:
    done = real.run("sites", "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 137
    assert "was killed by SIGKILL" in done.stderr


# the words of a comparison


def compared(real: Command, program: str, folder: Path) -> tuple[str, str]:
    """What is said on the terminal, and the page."""
    page = folder / "page.html"
    words = "compare --rounds 1 --warmup 0 -a glibc -a bsd -a blocks --html".split()
    done = real.run(*words, str(page), "--", str(BUILD / "bench_programs" / program))
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split()), " ".join(page.read_text().split())


def test_a_comparison_names_a_planted_leak(real: Command, tmp_path: Path) -> None:
    for text in compared(real, "planted_leak", tmp_path):
        assert "100 MiB were never freed: 25,60" in text
        assert "100% are allocated at grow (planted_leak.c:" in text
        assert "called by main" in text


def test_a_comparison_names_planted_fragmentation(real: Command, tmp_path: Path) -> None:
    for text in compared(real, "planted_holes", tmp_path):
        assert "the program asked for 19.5 MiB at most, but the heap held" in text
        assert "under bsd" in text and "What was freed could not serve" in text


# the pprof file


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """A Protocol Buffers message: numbers and, by their kind, integers or bytes."""
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            assert key & 7 == 2
            length = varint()
            yield key >> 3, message[place : place + length]
            place += length


def test_profile_holds_what_the_report_says(real: Command, tmp_path: Path) -> None:
    file = tmp_path / "profile.pb.gz"
    done = real.run("sites", "-a", "bsd", "--rate", "1", "--pprof", str(file), "--", LEAK)
    assert done.returncode == 0, done.stderr
    parts = list(fields(gzip.decompress(file.read_bytes())))
    texts = [value.decode() for number, value in parts if number == 6]
    kinds = [texts[dict(fields(value))[1]] for number, value in parts if number == 1]
    assert texts[0] == "" and kinds[:2] == ["peak_objects", "peak_space"]
    assert "grow" in texts and any(text.endswith("planted_leak.c") for text in texts)
    largest = 0
    for number, value in parts:
        if number == 2:
            packed = dict(fields(value))[2]
            padded = b"".join(b"\x08" + one for one in varints(packed))
            largest = max(largest, [one for _, one in fields(padded)][1])
    assert largest == LEAKED


def varints(packed: bytes) -> Iterator[bytes]:
    start = 0
    for place, byte in enumerate(packed):
        if byte < 0x80:
            yield packed[start : place + 1]
            start = place + 1


@pytest.mark.skipif(shutil.which("go") is None, reason="needs go (Debian package golang-go)")
def test_pprof_itself_reads_the_profile(real: Command, tmp_path: Path) -> None:
    file = tmp_path / "profile.pb.gz"
    done = real.run("sites", "-a", "bsd", "--rate", "1", "--pprof", str(file), "--", LEAK)
    assert done.returncode == 0, done.stderr
    line = ["go", "tool", "pprof", "-top", "-sample_index=exit_space", str(file)]
    top = subprocess.run(line, capture_output=True, text=True, check=False)
    assert top.returncode == 0, top.stderr
    assert "grow" in top.stdout and "100MB" in top.stdout


# the page


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sites") / "sites.html"
    done = Command(BUILD).run("sites", "--html", str(file), "--", LEAK)
    assert done.returncode == 0, done.stderr
    return file


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_flame_graph_is_drawn_and_named(
    browser: Browser, written: Path, size: Any  # noqa: F811
) -> None:
    browser.open(written, size, "light")
    drawn = (
        "return [...document.querySelectorAll('#flames-peak .slicetext')].map(t => t.textContent)"
    )
    assert {"main", "grow"} <= set(browser.run(drawn))
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    assert browser.errors() == []
    assert browser.requests() == [written.resolve().as_uri()]
    assert "are never freed" in written.read_text()


def test_tree_adds_up() -> None:
    place = [symbols.Place(name, None, None, "", 0) for name in ("inner", "middle", "main")]
    frames = tuple(Frame(number, [one]) for number, one in enumerate(place))
    tally = Tally(1, 100)
    root = sites_page.tree([Site(frames, tally, tally, tally)] * 3, "peak")
    assert root.size == 300
    node = root
    for name in ("main", "middle", "inner"):
        node = node.children[name]
        assert node.size == 300


def test_templates_are_no_markup_in_a_flame_graph() -> None:
    tally = Tally(1, 100)
    frames = (Frame(1, [symbols.Place("f<int>::g", None, None, "", 0)]),)
    found = Sites({}, [Site(frames, tally, tally, tally)], 1, symbols.Symbols([]))
    figure = sites_page.flame_graph(found, "peak")
    assert figure is not None
    assert figure.data[0]["labels"] == ["all", "f&lt;…>::g"]
    assert [one[0] for one in figure.data[0]["customdata"]] == ["all", "f&lt;…>::g"]


@pytest.mark.parametrize(
    "function, brief",
    [
        ("grow", "grow"),
        (
            "std::vector<int, std::allocator<int> >::push_back(int const&)",
            "std::vector<…>::push_back",
        ),
        ("unsigned int f<char>(int)", "f<…>"),
        ("A::operator()(int) const", "A::operator()"),
        ("(anonymous namespace)::run(int)", "(anonymous)::run"),
        ("operator new(unsigned long)", "operator new"),
    ],
)
def test_brief_leaves_out_parameters_and_template_arguments(function: str, brief: str) -> None:
    assert symbols.brief(function) == brief


GROWING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *kept[1000];
static int count;
static __attribute__((noinline)) void first(void) { kept[count++] = memset(malloc(3000), 1, 3000); }
static __attribute__((noinline)) void second(void) { kept[count++] = memset(malloc(50), 1, 50); }
int main(void)
{
    for (int line; (line = getchar()) != EOF;)
        for (int i = 0; i < 10 && line != '\n'; i++)
            if (line == '1') first();
            else if (line == '2') second();
            else if (line == 'f') free(kept[--count]);
    return 0;
}
"""


class TestLooks:
    """At a process that does what it is told, and waits in between."""

    @pytest.fixture
    def growing(self, real: Command, tmp_path: Path) -> Iterator[Any]:
        (tmp_path / "source.c").write_text(GROWING)
        program = tmp_path / "growing"
        subprocess.run(["gcc", "-O1", "-g", "-o", program, tmp_path / "source.c"], check=True)
        line = real.line("sites", "-a", "bsd", "--rate=1", "--", str(program))
        started = subprocess.Popen(
            line,
            env=real.environment(),
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        yield started, str(program)
        started.communicate()

    def pid_of(self, program: str) -> int:
        for exe in Path("/proc").glob("[0-9]*/exe"):
            try:
                if os.readlink(exe) == program:
                    return int(exe.parent.name)
            except OSError:
                continue
        return 0

    def await_pid_of(self, program: str) -> int:
        await_that(lambda: self.pid_of(program))
        return self.pid_of(program)

    def look(self, real: Command, pid: int, file: Path, until: int) -> dict[str, Any]:
        """Looks until it holds so many blocks, and the buffer of standard input: a pipe tells
        nobody when it was read."""
        for _ in range(200):
            done = real.run("sites", "--pid", str(pid), "--json", str(file))
            if done.returncode == 0:
                document: dict[str, Any] = json.loads(file.read_text())
                held = sum(site["exit"]["blocks"] for site in document["sites"])
                if held > until:
                    return document
            time.sleep(0.05)
        raise AssertionError(done.stderr)

    @pytest.mark.parametrize("is_there, said", [(True, "it grows"), (False, "has ended")])
    def test_a_table_that_cannot_be_read_is_no_end(
        self, monkeypatch: pytest.MonkeyPatch, is_there: bool, said: str
    ) -> None:
        def report() -> dict[str, Any]:
            raise Unreadable("it grows")

        table = SimpleNamespace(report=report, is_there=lambda: is_there)
        monkeypatch.setattr(sites_command, "need_table", lambda _: table)
        with pytest.raises(UserError, match=f"process 1.*{said}"):
            sites_command.look_at(click.Context(click.Command("sites")), 1, None, None)

    def test_two_looks_and_their_difference(
        self, real: Command, tmp_path: Path, growing: Any
    ) -> None:
        started, program = growing
        started.stdin.write(b"1\n")
        pid = self.await_pid_of(program)
        files = [tmp_path / "before.json", tmp_path / "after.json"]
        before = self.look(real, pid, files[0], 10)
        assert by_function(before, "exit")["first"] == (10, 30000)
        by_parent = self.look(real, started.pid, files[0], 10)  # a shell's $!
        assert by_parent["pid"] == pid
        assert before["running"] and before["schema"] == "allotrope.site-report/1"
        started.stdin.write(b"22\n")
        after = self.look(real, pid, files[1], 30)
        assert by_function(after, "exit")["second"] == (20, 1000)
        done = real.run("sites", "diff", *map(str, files))
        assert done.returncode == 0, done.stderr
        held = done.stdout[done.stdout.index("Held at the end") :]
        assert "+1.0 KiB     +20  1.0 KiB  second (source.c:8)  main" in held
        assert "first" not in held  # it did not change
        back = real.run("sites", "diff", *map(str, reversed(files))).stdout
        assert "−1.0 KiB     −20" in back[back.index("Held at the end") :]

    def test_looks_end_with_the_process(self, real: Command, tmp_path: Path, growing: Any) -> None:
        started, program = growing
        started.stdin.write(b"1\n")
        pid = self.await_pid_of(program)
        self.look(real, pid, tmp_path / "first.json", 10)
        pattern = str(tmp_path / "look-%n.json")
        line = ["sites", "--pid", str(pid), "--every", "50ms", "--json", pattern]
        with real.start(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as looking:
            await_that((tmp_path / "look-0001.json").exists)
            started.stdin.close()
            _, errors = looking.communicate(timeout=HANG)
        assert looking.returncode == 0, errors

    @pytest.mark.parametrize(
        "words, said",
        [
            (["--pid", "999999999"], "there is no process"),
            (["--pid", str(os.getpid())], "does not keep its sites; start it with"),
            (["--pid", "1", "--", "ls"], "leave out the command"),
            (["--every", "10s", "--", "ls"], "--every needs --pid"),
            (["--pid", str(os.getpid()), "--every", "soon"], "'soon' is no time"),
            (["diff", "/no/a.json", "/no/b.json"], "cannot read /no/a.json"),
        ],
    )
    def test_refused(self, real: Command, words: list[str], said: str) -> None:
        done = real.run("sites", *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr

    def test_timeline_is_thinned_evenly_and_names_the_largest(self) -> None:
        timeline = Timeline([0.0, 1.0, 2.0], [[1.0], [2.0, 5.0], [3.0, 5.0]], [[0.0, 1.0]] * 3)
        site = Site((), Tally(), Tally(), Tally())
        place = symbols.Place("f", None, None, "", 0)
        sites = [replace(site, frames=(Frame(1, [place]),)) for _ in range(2)]
        found = Sites({}, sites, 1, symbols.Symbols([]))
        (part,) = places_over_time(found, timeline)
        assert part.name == "f" and list(part.values) == [1.0, 7.0, 8.0]
        assert [part.name for part in sizes_over_time(timeline)] == ["up to 2 B"]
        timeline.thin()
        assert timeline.seconds == [0.0, 2.0] and timeline.by_site == [[1.0], [3.0, 5.0]]

    def test_another_program_of_a_process_has_a_timeline_of_its_own(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its sites are others. A table that is in motion remains that of the same program."""

        class Table:
            """What each look finds: bytes, or None in motion; then the program is gone."""

            def __init__(self, *looks: float | None) -> None:
                self.looks = list(looks)
                self.closed = False

            def live_bytes(self) -> tuple[list[float], list[float]]:
                assert not self.closed
                found = self.looks.pop(0) if self.looks else None
                if found is None:
                    raise Unreadable("its table keeps growing, or it has ended")
                return [found], [found]

            def is_there(self) -> bool:
                return bool(self.looks)

            def close(self) -> None:
                self.closed = True

        programs = [Table(1.0, 2.0), Table(), Table(4.0, None, 6.0)]
        coming = iter(programs)
        monkeypatch.setattr(sites_timeline, "find_table", lambda pid: next(coming, None))
        seen = []
        with sites_timeline.Timelines(wanted=False) as timelines:
            for second in range(9):
                timelines.look([1], float(second))
                found = timelines.of(1)
                seen.append(None if found is None else [*found.seconds])
            assert not timelines.tables and all(table.closed for table in programs)
        assert seen[:4] == [[0.0], [0.0, 1.0], [0.0, 1.0], None]
        assert seen[4:] == [[4.0], [4.0], *[[4.0, 6.0]] * 3]
        assert found is not None and found.by_site == [[4.0], [6.0]]

    def test_a_table_is_gone_when_its_process_is_another_program(self) -> None:
        words = ["sh", "-c", "read line; exec cat"]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
            assert started.stdin is not None and started.stdout is not None
            for line in Path(f"/proc/{started.pid}/maps").read_text().splitlines():
                if "[stack]" in line:
                    address = int(line.split("-")[0], 16)
            table = SiteTable(started.pid, Published("", "", {PUBLISHED: address}))
            started.stdin.write(b"go on\n")
            assert table.is_there()
            started.stdin.write(b"cat is there\n")
            started.stdin.flush()
            assert started.stdout.readline() == b"cat is there\n"
            assert not table.is_there()
            table.close()
            started.stdin.close()

    @pytest.mark.parametrize(
        "looks, title, columns",
        [(2, "At each look", 2), (5, "At each look", 5), (40, "At tenths of the looks", 11)],
    )
    def test_table_of_the_timeline_has_a_look_once(
        self, looks: int, title: str, columns: int
    ) -> None:
        timeline = Timeline([float(n) for n in range(looks)], [[1.0]] * looks, [[1.0]] * looks)
        found = Sites({}, [], 1, symbols.Symbols([]))
        (section,) = sites_page.timeline_sections(found, timeline)
        (table,) = section.tables
        assert table.caption == title and len(table.header) == len(set(table.header)) == 1 + columns

    def test_a_table_that_grows_is_looked_at_again(self) -> None:
        """It is published empty, and filled then."""
        rows = [BLOCK.pack(2**64 - 32 * n, n % 2, 0, 24, 1.0, 0) for n in range(1, 101)]
        whole = b"".join(rows)

        class Growing(SiteTable):
            """What each look at its 200 slots finds; empty ones behind the last."""

            def __init__(self, *looks: bytes) -> None:
                self.address, self.looks = 0, iter(looks)

            def read(self, address: int, size: int) -> bytes:
                if address == 0:
                    return HEAD.pack(1, 2, 2, 0, 4096, 200, 100, 2400.0, 2400.0, 0, 0)
                return next(self.looks, b"").ljust(size, b"\0")

        for looks in ([whole], [b"", whole[: 60 * BLOCK.size], whole]):
            by_site, by_size = Growing(*looks).live_bytes()
            assert by_site == [1200.0, 1200.0]
            assert by_size[5] == sum(by_size) == 2400.0  # up to 32 bytes
        by_site, _ = Growing(whole[BLOCK.size :]).live_bytes()  # one was freed meanwhile
        assert by_site == [1200.0, 1176.0]
        with pytest.raises(Unreadable, match="keeps growing"):
            Growing().live_bytes()

    def test_page_has_what_was_held_over_time(
        self, real: Command, tmp_path: Path, browser: Browser  # noqa: F811
    ) -> None:
        program, page = tmp_path / "slow", tmp_path / "page.html"
        source = GROWING.replace("line = getchar()) != EOF", "line = turn()) != EOF").replace(
            "int main",
            "static int turn(void) { static int n = 60; struct timespec t = {0, 20000000};"
            ' nanosleep(&t, NULL); return n-- > 0 ? "12"[n % 2] : EOF; }\nint main',
        )
        (tmp_path / "source.c").write_text("#include <time.h>\n" + source)
        subprocess.run(["gcc", "-O1", "-g", "-o", program, tmp_path / "source.c"], check=True)
        done = real.run("sites", "-a", "bsd", "--rate=1", f"--html={page}", "--", str(program))
        assert done.returncode == 0, done.stderr
        for size in (PHONE, DESKTOP):
            browser.open(page, size)
            assert not browser.errors()
            text = browser.run("return document.getElementById('held-by-place').textContent")
            assert "first" in text and "second" in text
            assert browser.run("return document.querySelectorAll('.rangeslider-slidebox').length")
        self.zoom_in_and_out(browser)

    def zoom_in_and_out(self, browser: Browser) -> None:  # noqa: F811
        """As a reader would: by dragging over a stretch of time, and by a double click."""
        ask = "return document.getElementById('held-by-place')._fullLayout.xaxis.range"
        place = (
            "const area = document.querySelector('#held-by-place .nsewdrag');"
            "area.scrollIntoView({block: 'center'}); const box = area.getBoundingClientRect();"
            "return [box.x, box.y + box.height / 2, box.width]"
        )
        first, last = browser.run(ask)
        x, y, width = browser.run(place)
        browser.drag((x + 0.25 * width, y), (x + 0.5 * width, y))
        browser.wait_until(lambda: browser.run(ask) != [first, last])
        start, end = browser.run(ask)
        span = last - first
        assert abs(start - first - 0.25 * span) < 0.05 * span
        assert abs(end - first - 0.5 * span) < 0.05 * span
        browser.wait_until(
            lambda: browser.double_click("#held-by-place .nsewdrag")
            or browser.run(ask) == [first, last]
        )


def test_what_is_inlined_of_the_cxx_library_is_not_the_place() -> None:
    """Debugging information may name it without its namespace."""
    headers = "/usr/include/c++/12/bits"
    machinery = [
        symbols.Place("allocate", f"{headers}/new_allocator.h", 137, "/program", 1),
        symbols.Place("basic_string", f"{headers}/basic_string.h", 600, "/program", 1),
    ]
    own = symbols.Place("fill", "/src/program.cc", 7, "/program", 1)
    nothing = Tally()
    site = Site((Frame(1, machinery), Frame(2, [own])), nothing, nothing, nothing)
    assert site.allocates_at() is own
    alone = Site((Frame(1, machinery),), nothing, nothing, nothing)
    assert alone.allocates_at() is machinery[0]
