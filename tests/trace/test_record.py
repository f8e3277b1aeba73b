# SPDX-License-Identifier: MIT
"""The recorder on whole programs, and the words record and trace of the command."""

import contextlib
import json
import mmap
import os
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Command
from under import BUILD, HANG, SOURCE, await_that

import numpy as np

from allotrope.features.trace import reader as trace_reader

RECORDER = BUILD / "trace" / "allotrope-trace-record"
TRACER = BUILD / "trace" / "allotrope-trace"
SIMULATOR = BUILD / "allotrope-simulate"
TOOLS = BUILD / "trace" / "recorder"
PROGRAMS = BUILD / "tests" / "trace"
LIBRARY = BUILD / ".libs" / "liballotrope.so"

GROWING = "BEGIN { for (j = 0; j < 4; j++) { for (i = 0; i < 10000; i++) x[i] = i j; delete x } }"

READER_ENDED = (
    "allotrope: the reader of the recording ended; the recording stops there, and the program "
    "with it\n"
)

pytestmark = pytest.mark.skipif(not RECORDER.exists(), reason="the recorder is not built")


def record(output: Path, *command: str | Path, options: tuple[str, ...] = ()) -> int:
    done = subprocess.run(
        [RECORDER, "-o", output, "-t", TOOLS, *options, "--", *command],
        stdout=subprocess.DEVNULL,
        timeout=HANG,
    )
    return done.returncode


def dump(trace: Path, form: str) -> list[str]:
    done = subprocess.run([TRACER, "dump", form, trace], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def events(trace: Path) -> list[list[str]]:
    done = subprocess.run([TRACER, "events", trace], capture_output=True, text=True, check=True)
    return [line.split(",") for line in done.stdout.splitlines()[1:]]


# ---------------------------------------------------------------- against lackey


SURROUNDINGS = {
    "PATH": "/usr/bin",
    "ALLOTROPE_DOORBELLS": "1",
    "VALGRIND_LIB": str(TOOLS),
    "VALGRIND_LAUNCHER": "/usr/bin/valgrind",
}


def lackeys_references(log: Path, *command: str | Path) -> list[str]:
    lackey = [TOOLS / "lackey-amd64-linux", "--tool=lackey", "--trace-mem=yes", "-q"]
    subprocess.run(
        ["setarch", "-R", *lackey, f"--log-file={log}", *command],
        env=SURROUNDINGS,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=HANG,
    )
    references = []
    for line in log.read_text().splitlines():
        if line.startswith(" M "):  # a modification is a load and a store
            references += [" L " + line[3:], " S " + line[3:]]
        elif line.startswith((" L ", " S ")):
            references.append(line)
    return references


@pytest.mark.parametrize("program", ["sorting", "copying", "jumping"])
def test_references_equal_lackeys(program: str, tmp_path: Path) -> None:
    """Address, size and kind of every reference, in order. Both tools see one environment, since
    it lies on the stack, and one address space layout."""
    expected = lackeys_references(tmp_path / "lackey.txt", PROGRAMS / program)
    recorder = [RECORDER, "-o", tmp_path / "run.alt", "-t", TOOLS, "-V", "--native-layout=no"]
    subprocess.run(
        ["setarch", "-R", *recorder, "--", PROGRAMS / program],
        env=SURROUNDINGS,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=HANG,
    )
    got = dump(tmp_path / "run.alt", "lackey")
    assert len(got) == len(expected) > 50000
    assert got == expected


# ---------------------------------------------------------------- handled faults


def in_closed_pages(lines: list[str]) -> list[str]:
    """What faulting.c refers to in the pages that it closes, but for the one that stays closed."""
    pages = range(0x10000000 - 8, 0x10010000)
    return [line for line in lines if int(line[3:].partition(",")[0], 16) in pages]


@pytest.mark.parametrize(
    ("kind", "faults"),
    [
        ("store_loop", 16),
        ("short_loops", 48),
        ("endless_loop", 17),
        ("strings", 26),
        ("flags", 16),
        ("locked", 90),
        ("straddles", 28),
        ("vectors", 80),
        ("helpers", 7),
        ("divisions", 95),
        ("ways_out", 16),
        ("nested", 2),
        ("closed_code", 3),
        ("closed_stack", 3),
    ],
)
def test_faults_that_the_program_handles_change_no_reference(
    kind: str, faults: int, tmp_path: Path
) -> None:
    """Recorded to the end, and reference by reference what lackey says of a run in which nothing
    faults: an instruction that faulted has referred to nothing, and begins again."""
    trace = tmp_path / "run.alt"
    line = [RECORDER, "-o", trace, "-t", TOOLS, "--", PROGRAMS / "faulting", kind]
    done = subprocess.run(line, capture_output=True, text=True, timeout=HANG)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{faults} faults\n"
    assert references_of(trace)[1] is None
    expected = lackeys_references(tmp_path / "log", PROGRAMS / "faulting", kind, "calm")
    got = in_closed_pages(dump(trace, "lackey"))
    assert got == in_closed_pages(expected)
    assert len(got) > (0 if kind == "nested" else 2)


# ---------------------------------------------------------------- doorbells


@pytest.fixture(scope="module")
def ringing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trace = tmp_path_factory.mktemp("ringing") / "run.alt"
    assert record(trace, PROGRAMS / "ringing") == 0
    return trace


def symbols(program: Path) -> dict[str, int]:
    """Addresses by name; the program is linked statically, at fixed ones."""
    done = subprocess.run(["nm", program], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


def touched_words(trace: Path, program: str) -> list[tuple[int, str]]:
    """The thread and the class of each 16-byte store to a word that has the name of a class, whose
    reference it is."""
    words = {
        address: name.removesuffix("_word")
        for name, address in symbols(PROGRAMS / program).items()
        if name.endswith("_word") and name.removesuffix("_word") in trace_reader.CLASSES
    }
    touches = []
    for line in dump(trace, "csv")[1:]:
        thread, kind, address, size, name, _ = line.split(",", 5)
        if int(address, 16) in words:
            assert (kind, size, name) == ("store", "16", words[int(address, 16)])
            touches.append((int(thread), name))
    return touches


def test_references_belong_to_the_class_that_rang(ringing: Path) -> None:
    """The order in which ringing.c touches its words, each of which has its own class; signals,
    longjmp and a fault among them."""
    expected = """program allocator mark sweep mark allocator program
        allocator program
        program allocator program sweep program
        allocator program program""".split()
    assert [name for _, name in touched_words(ringing, "ringing")] == expected


def test_a_signal_is_of_the_thread_that_handles_it(tmp_path: Path) -> None:
    """Also where another thread, the sender, has run last: both keep their classes."""
    trace = tmp_path / "run.alt"
    assert record(trace, PROGRAMS / "signalling") == 0
    touches = touched_words(trace, "signalling")
    assert [name for thread, name in touches if thread == 1] == 60 * ["sweep"]
    assert [name for thread, name in touches if thread == 2] == 20 * ["program", "allocator"]
    threads = [row[3] for row in events(trace) if row[4] in ("signal", "signal_return")]
    assert threads == 40 * ["2"]


def test_events_carry_what_was_rung(ringing: Path) -> None:
    rung = [
        (row[4], *(int(value, 16) for value in row[5:9]))
        for row in events(ringing)
        if row[4] not in ("map", "unmap", "class", "thread", "thread_start", "thread_end")
    ]
    assert rung == [
        ("malloc", 0x1000, 24, 0x77, 0),
        ("realloc", 0x2000, 48, 0x78, 0x1000),
        ("free", 0x2000, 0x79, 0, 0),
        ("collection_begin", 5, 0, 0, 0),
        ("collection_end", 4096, 0, 0, 0),
        ("malloc", 0, 2**64 - 1, 0x7A, 0),
        ("mark", 2**64 - 1, 0, 0, 0),
        ("signal", signal.SIGUSR1, 0, 0, 0),
        ("signal_return", 0, 0, 0, 0),
        ("signal", signal.SIGSEGV, 0, 0, 0),
    ]
    allocated = [int(row[2]) for row in events(ringing) if row[4] in ("malloc", "realloc", "free")]
    assert allocated == [0, 24, 72, 72]


def test_doorbells_are_no_references(ringing: Path) -> None:
    """Only the registration itself, which comes before the recorder knows, touches them."""
    doorbells = symbols(PROGRAMS / "ringing")["allotrope_doorbells"]
    touched = [int(line.split(",")[2], 16) for line in dump(ringing, "csv")[1:]]
    assert sum(doorbells <= address < doorbells + 192 for address in touched) <= 1


def compiled(output: Path, name: str, *options: str) -> Path:
    source = SOURCE / "tests" / "trace" / name
    subprocess.run(["cc", "-O2", "-I", SOURCE, *options, "-o", output, source], check=True)
    return output


def test_a_pass_through_attributes_a_foreign_allocator(tmp_path: Path) -> None:
    """What glibc's own malloc and free refer to is the allocator's; nobody else's is."""
    library = compiled(tmp_path / "next.so", "next.c", "-shared", "-fPIC")
    trace = tmp_path / "run.alt"
    assert (
        record(trace, PROGRAMS / "churning", "100000", options=("-e", f"LD_PRELOAD={library}")) == 0
    )
    batches = list(trace_reader.read(trace))
    inside = sum(int((batch.references["class"] == 1).sum()) for batch in batches)
    rung = np.concatenate([batch.events["type"] for batch in batches])
    assert (rung == trace_reader.EVENTS.index("malloc")).sum() >= 100000
    assert 0.5 < inside / sum(len(batch.references) for batch in batches) < 0.95


def record_under(trace: Path, allocator: str, *command: str | Path, ring: bool = True) -> Any:
    """What `trace info` says of a run under our library."""
    settings = {"LD_PRELOAD": LIBRARY, "ALLOTROPE": allocator, "ALLOTROPE_DOORBELLS": int(ring)}
    options = [word for item in settings.items() for word in ("-e", "{}={}".format(*item))]
    assert record(trace, *command, options=tuple(options)) == 0
    done = subprocess.run([TRACER, "info", trace], capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("allocator", ["bsd", "bsd:classic", "knuth", "gc", "next"])
def test_ringing_changes_no_reference(allocator: str, tmp_path: Path) -> None:
    """With bells and without, a program makes the same references, but for the registration; and
    each of its calls is told."""
    program = PROGRAMS / "churning"
    heard = record_under(tmp_path / "run.alt", allocator, program, "50000")
    mute = record_under(tmp_path / "run.alt", allocator, program, "50000", ring=False)
    assert abs(heard["totals"]["references"] - mute["totals"]["references"]) < 500
    assert abs(heard["totals"]["instructions"] - mute["totals"]["instructions"]) < 2000
    assert mute["totals"]["by_class"]["allocator"] == 0
    assert heard["totals"]["by_class"]["allocator"] > 200000
    program_alone = heard["totals"]["by_class"]["program"]
    assert program_alone + heard["totals"]["by_class"]["allocator"] == heard["totals"]["references"]
    assert 50000 <= heard["events"]["malloc"] < 51000
    heap = [row for row in heard["regions"] if row["kind"] == "heap"]
    assert sum(sum(row["references"].values()) for row in heap) >= 50000


def own_allocators() -> list[str]:
    describe = BUILD / "allotrope-describe"
    if not describe.exists():
        return []
    catalogue = json.loads(subprocess.run([describe], capture_output=True, check=True).stdout)
    return [
        f"{own['name']}:{preset['name']}"
        for own in catalogue["allocators"]
        for preset in own["presets"]
    ]


def under(allocator: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs natively; what the collector counted comes with the output."""
    settings = {"LD_PRELOAD": str(LIBRARY), "ALLOTROPE": allocator}
    return subprocess.run(
        command, env=os.environ | settings, capture_output=True, text=True, check=True, timeout=HANG
    )


def under_the_recorder(allocator: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    settings = {"LD_PRELOAD": LIBRARY, "ALLOTROPE": allocator}
    words = [word for item in settings.items() for word in ("-e", "{}={}".format(*item))]
    line = [RECORDER, "-o", "/dev/null", "-t", TOOLS, *words, "--", *command]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=HANG)


@pytest.mark.parametrize("allocator", [*own_allocators(), "next"])
def test_heaps_are_laid_out_as_natively(allocator: str) -> None:
    """Every block's place relative to the first, and no more gaps: Valgrind's address space, with
    its 8 MB of break, does not shape a heap. What a collection finds depends on stale words, and
    blocks:checked places blocks at random, so of these only the gaps are compared. blocks:guard is
    to sample none, which would lie elsewhere."""
    allocator = allocator.replace(":guard", ":guard=1000000000")
    native = under(allocator, PROGRAMS / "laying").stdout
    traced = under_the_recorder(allocator, PROGRAMS / "laying").stdout
    if allocator in ("gc:classic", "blocks:checked"):
        native, traced = native.partition(",")[0], traced.partition(",")[0]
    assert traced == native


COLLECTED = "gc:free=ignore,policy=boehm"


@pytest.mark.parametrize(
    "allocator, command",
    [
        (COLLECTED, (str(BUILD / "bench_programs" / "gcbench"), "depth=13")),
        (COLLECTED, ("gawk", GROWING)),
        ("gc:free=ignore,policy=boehm,every=5000", ("gawk", GROWING)),
        ("gc:classic,pointers=interior", ("gawk", GROWING)),
    ],
)
def test_collections_are_as_natively(
    allocator: str, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the recorder as many collections find as much, within 2%: its own memory is no root."""
    counts = []
    for number, run in enumerate((under, under_the_recorder)):
        report = tmp_path / f"{number}.json"
        monkeypatch.setenv("ALLOTROPE_STATS", str(report))
        run(allocator, *command)
        facts = json.loads(report.read_text())
        counts.append(
            {
                key: value
                for group, rows in facts.items()
                if group.startswith("gc")
                for key, value in rows.items()
            }
            | {"peak": facts["mapped_peak_bytes"]}
        )
    native, traced = counts
    assert native["collections"] == traced["collections"] > 5
    for key in ("marked_bytes", "live_bytes", "peak"):
        if key in native:
            assert abs(traced[key] - native[key]) <= 0.02 * native[key], key


def test_minor_collections_are_as_natively(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nearly: which of the first are full ones is told by their time. Valgrind 3.19 does not
    know userfaultfd; the recorder makes the call. Each is held against a full collection."""
    minor = []
    for number, run in enumerate((under, under_the_recorder)):
        report = tmp_path / f"{number}.json"
        monkeypatch.setenv("ALLOTROPE_STATS", str(report))
        done = run("gc:free=ignore,generations=2,every=5000,verify=on", "gawk", GROWING)
        assert "unhandled" not in done.stderr  # Valgrind's word for a call that it does not know
        minor.append(json.loads(report.read_text())["gc_minor"])
    native, traced = (one["collections"] for one in minor)
    assert native > 5 and abs(traced - native) <= native / 4


def test_a_collectors_phases_are_told_apart(tmp_path: Path) -> None:
    facts = record_under(tmp_path / "run.alt", COLLECTED, "gawk", GROWING)
    counts = facts["totals"]["by_class"]
    assert all(counts[phase] > 1000 for phase in ("collector", "roots", "mark", "sweep"))
    assert counts["mark"] > counts["roots"] / 4 and counts["program"] > counts["mark"]
    assert facts["events"]["collection_begin"] == facts["events"]["collection_end"] > 5
    # The first reference after the outermost class was left is the program's again.
    assert facts["totals"]["references"] == sum(counts.values())


def test_events_of_every_name_of_malloc_carry_the_callers_site(tmp_path: Path) -> None:
    """calloc, memalign and operator new go through functions of ours; the site is the program's."""
    program = compiled(tmp_path / "names", "names.c", "-no-pie")
    trace = tmp_path / "run.alt"
    record_under(trace, "bsd", program)
    at = symbols(program)
    code = range(at["main"], at["main"] + 4096)
    rung = [
        (row[4], int(row[6], 16), int(row[8], 16) != 0)
        for row in events(trace)
        if (row[4] in ("malloc", "realloc") and int(row[7], 16) in code)
        or (row[4] == "free" and int(row[6], 16) in code)
    ]
    sizes = [(kind, size, old) for kind, size, old in rung if kind != "free"]
    assert sizes == [
        ("malloc", 101, False),
        ("malloc", 3 * 34, False),
        ("malloc", 103, False),
        ("malloc", 104, False),
        ("malloc", 105, False),
        ("realloc", 206, True),
    ]
    assert len(rung) - len(sizes) == 5


def test_the_recorder_names_its_own_ranges(tmp_path: Path) -> None:
    program = compiled(tmp_path / "ranges", "ranges.c")
    assert subprocess.run([program]).returncode == 1  # natively there are none
    assert record(tmp_path / "run.alt", program) == 0


# ---------------------------------------------------------------- threads, ends, damage


def test_threads_and_the_exit_status(tmp_path: Path) -> None:
    trace = tmp_path / "run.alt"
    assert record(trace, PROGRAMS / "waiting") == 3
    facts = json.loads(
        subprocess.run([TRACER, "info", trace], capture_output=True, check=True).stdout
    )
    counts = {row["thread"]: row["references"] for row in facts["threads"]}
    assert set(counts) == {1, 2, 3, 4}
    for thread, rounds in ((2, 100000), (3, 200000), (4, 300000)):
        assert 2 * rounds <= counts[thread] <= 2 * rounds + 20000  # a load and a store each
    assert counts[1] < 5000000  # the forked child is not in it
    assert facts["error"] is None
    assert sum(counts.values()) == facts["totals"]["references"]


def started(trace: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [RECORDER, "-o", trace, "-t", TOOLS, "--", PROGRAMS / "waiting", "forever"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def references_of(trace: Path) -> tuple[int, str | None]:
    done = subprocess.run([TRACER, "info", trace], capture_output=True)
    facts = json.loads(done.stdout)
    return facts["totals"]["references"], facts["error"]


def test_an_interrupt_leaves_a_shorter_trace_that_is_sound(tmp_path: Path) -> None:
    trace = tmp_path / "run.alt"
    process = started(trace)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(HANG) == 128 + signal.SIGINT
    references, error = references_of(trace)
    assert references > 1000000 and error is None


@pytest.mark.parametrize(("program", "status"), [("false", 1), ("nowhere", 127)])
def test_an_exec_ends_the_trace_and_is_told_with_the_remedy(
    program: str, status: int, tmp_path: Path
) -> None:
    """An exec that fails, as those of a search through PATH do, ends nothing."""
    trace = tmp_path / "run.alt"
    line = [RECORDER, "-o", trace, "-t", TOOLS, "--", "/usr/bin/env", program]
    settings = {"PATH": "/nowhere:/usr/bin"}
    done = subprocess.run(line, capture_output=True, text=True, timeout=HANG, env=settings)
    assert done.returncode == status
    assert ("env became another program (exec)" in done.stderr) == (status == 1)
    assert ("%p" in done.stderr) == (status == 1) and "killed" not in done.stderr
    references, error = references_of(trace)
    assert references > 10000 and error is None


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (":", None),
        ("/bin/true; :", "sh started 1 process, which is not in the trace"),
        ("/bin/true; /bin/true; :", "sh started 2 processes, which are not in the trace"),
    ],
)
def test_who_is_not_recorded_is_told_with_the_remedy(
    script: str, told: str | None, tmp_path: Path
) -> None:
    words = ("-t", TOOLS, "--", "/bin/sh", "-c", script)
    for output in (tmp_path / "run.alt", tmp_path / "run-%p.alt"):
        line = [RECORDER, "-o", output, *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=HANG)
        assert done.returncode == 0
        if told and "%p" not in str(output):
            assert told in done.stderr and "%p" in done.stderr and done.stderr.count("\n") == 1
        else:
            assert done.stderr == ""


def recorders_of(process: subprocess.Popen[Any]) -> list[int]:
    done = subprocess.run(["pgrep", "-s", str(process.pid)], capture_output=True, text=True)
    return [int(word) for word in done.stdout.split() if int(word) != process.pid]


@pytest.fixture
def broken_recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recorder in it that breaks its word; see broken_recorder.py."""
    tools = tmp_path / "tools"
    tools.mkdir()
    recorder = tools / "allotrope-amd64-linux"
    recorder.write_text((SOURCE / "tests" / "trace" / "broken_recorder.py").read_text())
    recorder.chmod(0o755)
    return tools


@pytest.mark.parametrize(
    ("way", "status", "said"),
    [("damaged", 125, "the recorder's stream is damaged"), ("killed", 137, "was killed")],
)
def test_a_trace_that_is_not_whole_does_not_say_that_it_is(
    way: str, status: int, said: str, broken_recorder: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "run.alt"
    line = [RECORDER, "-o", trace, "-t", broken_recorder, "-e", f"BROKEN_RECORDER={way}"]
    done = subprocess.run([*line, "--", "true"], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == status
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    told = subprocess.run([TRACER, "info", trace], capture_output=True, text=True)
    assert told.returncode == 1 and "it was cut short" in told.stderr


def test_a_trace_that_is_not_whole_does_not_replace_an_older_one(
    broken_recorder: Path, tmp_path: Path
) -> None:
    trace, part = tmp_path / "run.alt", tmp_path / "run.alt.part"
    assert record(trace, "/bin/true") == 0
    older = trace.read_bytes()
    line = [RECORDER, "-o", trace, "-t", broken_recorder, "-e", "BROKEN_RECORDER=killed"]
    done = subprocess.run([*line, "--", "true"], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 137 and trace.read_bytes() == older
    assert f"{trace} is as it was; the recording, as far as it goes, is in {part}" in done.stderr
    told = subprocess.run([TRACER, "info", part], capture_output=True, text=True)
    assert told.returncode == 1 and "it was cut short" in told.stderr
    part.unlink()
    assert record(trace, "/bin/echo") == 0
    assert trace.read_bytes() != older and references_of(trace)[1] is None
    assert not part.exists()


@pytest.mark.parametrize(
    ("way", "said"), [("damaged", "stream is damaged"), ("killed", "the recorder was killed")]
)
def test_a_simulation_of_a_stream_that_breaks_ends_with_a_line(
    way: str, said: str, broken_recorder: Path, tmp_path: Path
) -> None:
    settings = os.environ | {"BROKEN_RECORDER": way}
    line = [SIMULATOR, "locality", f"--tools={broken_recorder}", f"--output={tmp_path / 'out'}"]
    done = subprocess.run(
        [*line, "--", "true"], capture_output=True, text=True, timeout=HANG, env=settings
    )
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert '"whole": true' not in (tmp_path / "out").read_text()


def test_a_killed_program_leaves_what_it_had_recorded(tmp_path: Path) -> None:
    trace = tmp_path / "run.alt"
    process = started(trace)
    (program,) = recorders_of(process)
    os.kill(program, signal.SIGKILL)
    assert process.wait(HANG) == 128 + signal.SIGKILL
    assert process.stderr is not None and "was killed" in process.stderr.read()
    references, error = references_of(trace)
    assert references > 1000000 and error is not None and "cut short" in error


def test_the_ring_tells_no_cursor_of_an_earlier_round(tmp_path: Path) -> None:
    """A recorder that is killed while it waits for room has filled each buffer several times since
    its program last left client code. What was complete then stands in none of them any more."""
    state, buffers, buffer = 4096, 8, 32 << 20
    base, cursor, published, released = 24, 64, 128, 192  # in struct reference_ring
    memory = os.memfd_create("ring")
    os.ftruncate(memory, state + buffers * buffer)
    ours, recorders = socket.socketpair()
    with ours, recorders, mmap.mmap(memory, state + buffers * buffer) as ring:
        struct.pack_into("<QQ", ring, 0, 0x676E69726F6C6C61, 3)
        descriptors = [f"--ring-fd={memory}", f"--socket-fd={recorders.fileno()}"]
        process = subprocess.Popen(
            [TOOLS / "allotrope-amd64-linux", "--tool=allotrope", "-q", *descriptors]
            + [PROGRAMS / "chasing"],
            env=SURROUNDINGS,
            pass_fds=(memory, recorders.fileno()),
        )
        try:
            for taken in range(21):
                struct.pack_into("<I", ring, released, taken)
                await_that(
                    lambda full=taken + buffers: struct.unpack_from("<I", ring, published)[0]
                    == full
                )
        finally:
            process.kill()
            process.wait(HANG)
        count = struct.unpack_from("<I", ring, published)[0]
        place = struct.unpack_from("<Q", ring, cursor)[0] - struct.unpack_from("<Q", ring, base)[0]
    os.close(memory)
    assert count == 20 + buffers
    assert (place - state) // buffer == (count - 1) % buffers


def test_a_killed_consumer_leaves_no_orphan_and_a_readable_part(tmp_path: Path) -> None:
    trace = tmp_path / "run.alt"
    process = started(trace)
    await_that(lambda: trace.exists() and trace.stat().st_size > 10000)
    process.kill()
    process.wait(HANG)
    await_that(lambda: not recorders_of(process))
    assert recorders_of(process) == []
    _, error = references_of(trace)
    assert error is not None and "at byte" in error


def consumers_of(process: subprocess.Popen[bytes]) -> list[int]:
    """Of a process that may be one itself, those that are there now."""
    name = "^[^ ]*allotrope-(trace-record|simulate)"
    pattern = ["pgrep", "-s", str(process.pid), "-f", "--", name]
    done = subprocess.run(pattern, capture_output=True, text=True)
    found = [int(word) for word in done.stdout.split()]
    return [pid for pid in found if pid != process.pid] or found


def test_consumers_killed_at_random_times(tmp_path: Path) -> None:
    """Whenever it is: everything ends, and what says that it is whole is. ALLOTROPE_KILLS times."""
    whole = tmp_path / "whole.alt"
    command = [PROGRAMS / "churning", "50000"]
    took, references = 0.0, 0
    ways: list[list[str | Path]] = [
        [RECORDER, "-o", tmp_path / "run.alt", "-t", TOOLS],
        [RECORDER, "-o", tmp_path / "run-%p.alt", "-t", TOOLS],
        [SIMULATOR, "locality", f"--tools={TOOLS}", f"--output={tmp_path / 'run.json'}"],
    ]
    for number in range(int(os.environ.get("ALLOTROPE_KILLS", "9"))):
        if number % 100 == 0:  # how long a recording takes changes with the machine's load
            start = time.monotonic()
            assert record(whole, *command) == 0
            took, references = time.monotonic() - start, references_of(whole)[0]
        line = [*ways[number % len(ways)], "--", *command]
        process = subprocess.Popen(
            line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(random.uniform(0, 1.2 * took))
        for consumer in consumers_of(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(consumer, signal.SIGKILL)
        status = process.wait(HANG)
        latest = time.monotonic() + HANG
        while recorders_of(process) and time.monotonic() < latest:
            time.sleep(0.01)
        assert recorders_of(process) == []
        for trace in tmp_path.glob("run*.alt"):
            told = subprocess.run([TRACER, "info", trace], capture_output=True)
            if told.returncode == 0:
                count = json.loads(told.stdout)["totals"]["references"]
                assert abs(count - references) < 1000, (number, status)
            trace.unlink()
        result = tmp_path / "run.json"
        with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
            pages = json.loads(result.read_text())["pages"]
            assert not pages["whole"] or abs(pages["references"] - references) < 1000, number
        result.unlink(missing_ok=True)


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:  # it is gone
        return []


def test_a_recorder_killed_while_it_starts_its_consumer_leaves_nobody(tmp_path: Path) -> None:
    """One that hung in such a moment was one of several hundred killed at random times."""
    line = [RECORDER, "-o", tmp_path / "run-%p.alt", "-t", TOOLS, "--", "true"]
    killed = 0
    for _ in range(12):
        process = subprocess.Popen(line, stderr=subprocess.DEVNULL, start_new_session=True)
        recorders: list[int] = []
        while not recorders and process.poll() is None:
            recorders = [child for child in children_of(process.pid) if children_of(child)]
        for recorder in recorders:
            with contextlib.suppress(ProcessLookupError):
                os.kill(recorder, signal.SIGKILL)
                killed += 1
        process.wait(HANG)
        await_that(lambda: recorders_of(process) == [])
        left = recorders_of(process)
        for hung in left:
            os.kill(hung, signal.SIGKILL)
        assert left == []
    if killed == 0:
        pytest.skip("no recorder was seen in that moment")


@pytest.mark.parametrize("program", [["sleep", "600"], [PROGRAMS / "waiting", "forever"]])
def test_the_death_of_a_follower_ends_the_program_with_a_line(
    program: list[str | Path], tmp_path: Path
) -> None:
    """Of a program that waits, and of one that fills the ring; the trace says it was cut short."""
    line = [RECORDER, "-o", tmp_path / "run-%p.alt", "-t", TOOLS, "--", *program]
    process = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        await_that(lambda: any(file.stat().st_size > 0 for file in tmp_path.iterdir()))
        # The oldest: the program may have forked since, and its child has a follower of its own.
        pattern = ["pgrep", "-o", "-s", str(process.pid), "-f", "--", "--consume="]
        done = subprocess.run(pattern, capture_output=True, text=True, check=True)
        follower = int(done.stdout)
        followed = re.search(r"--pid=(\d+)", Path(f"/proc/{follower}/cmdline").read_text())
        assert followed
        os.kill(follower, signal.SIGKILL)
        _, said = process.communicate(timeout=HANG)
        assert process.returncode == 125
        assert "what takes a process's trace was killed" in said
        assert recorders_of(process) == []
        assert references_of(tmp_path / f"run-{followed[1]}.alt")[1] is not None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def test_forks_and_execs_are_followed_into_traces_of_their_own(tmp_path: Path) -> None:
    """A shell, its subshell, and the two programs that subshells become; the second trace of a
    process id is that of its exec. All are sound, and attributed."""
    settings = {"LD_PRELOAD": LIBRARY, "ALLOTROPE": "bsd"}
    words = tuple(word for item in settings.items() for word in ("-e", "{}={}".format(*item)))
    script = "(echo one; /bin/echo two | /bin/cat >/dev/null; :); exit 5"
    assert record(tmp_path / "run-%p.alt", "/bin/sh", "-c", script, options=words) == 5
    traces = sorted(tmp_path.iterdir())
    assert len(traces) == 6 and len([name for name in traces if ".2.alt" in name.name]) == 2
    for trace in traces:
        done = subprocess.run([TRACER, "info", trace], capture_output=True, check=True)
        facts = json.loads(done.stdout)
        assert facts["error"] is None and facts["totals"]["references"] > 500
        assert facts["totals"]["by_class"]["allocator"] > 10 and len(facts["threads"]) == 1
        unmapped = facts["regions"][0]["references"]
        assert sum(unmapped.values()) < 0.01 * facts["totals"]["references"]


def test_what_could_not_be_written_once_is_an_error(tmp_path: Path) -> None:
    """Standard output that does not block fails a write, and takes the next."""
    strace = ["strace", "-o", "/dev/null", "-e", "trace=write"]
    if not shutil.which("strace") or subprocess.run([*strace, "true"]).returncode != 0:
        pytest.skip("strace is missing or may not trace")
    trace = tmp_path / "run.alt"
    record_under(trace, "bsd", PROGRAMS / "churning", "1000")
    events_reader = TRACER.with_name("allotrope-events")
    for line in (
        [TRACER, "events", trace],
        [events_reader, "dump", trace],
        [SIMULATOR, "caches", trace],
    ):
        failing = [*strace, "-e", "inject=write:error=EAGAIN:when=1", *line]
        done = subprocess.run(failing, capture_output=True)
        assert done.returncode == 1 and b"Input/output error" in done.stderr, line


def test_a_process_sees_no_signal_of_the_recorders_own(tmp_path: Path) -> None:
    """The recorder makes a consumer for each process, by a process that ends at once."""
    script = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
child = os.fork()
if child == 0:
    os._exit(10 + len(signal.sigpending()))
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    program = ["/usr/bin/python3", "-S", "-c", script]
    assert record(tmp_path / "run-%p.alt", *program) == subprocess.run(program).returncode == 10
    assert len(list(tmp_path.iterdir())) == 2


def test_a_consumer_holds_none_of_its_programs_descriptors(tmp_path: Path) -> None:
    """Where both processes have closed the pipe's end, the reader sees that, whatever number the
    end had."""
    script = """
import os, select
out, high = os.pipe(), 5000
os.dup2(out[1], high)
os.close(out[1])
go = os.pipe()
if os.fork() == 0:
    os.close(high)
    os.read(go[0], 1)
    os._exit(0)
os.close(high)
seen = select.select([out[0]], [], [], 60)[0]
os.write(go[1], b"x")
os.wait()
os._exit(not seen)
"""
    program = ["/usr/bin/python3", "-S", "-c", script]
    line = ["prlimit", "--nofile=8192:8192", RECORDER, "-o", tmp_path / "run-%p.alt", "-t", TOOLS]
    assert subprocess.run([*line, "--", *program], timeout=HANG).returncode == 0


def test_a_followed_trace_has_its_whole_description(tmp_path: Path) -> None:
    """However long it is."""
    described = {"x": 100_000 * "x", "y": 1}
    options = ("-d", json.dumps(described))
    assert record(tmp_path / "run-%p.alt", "/bin/true", options=options) == 0
    [trace] = tmp_path.iterdir()
    done = subprocess.run([TRACER, "info", trace], capture_output=True, check=True)
    assert json.loads(done.stdout)["description"] == described | {"command": ["/bin/true"]}


def test_a_fork_is_told_all_of_its_mappings(tmp_path: Path) -> None:
    """More than 6000 of them: what the child refers to lies in one of them."""
    program = compiled(tmp_path / "mapping", "mapping.c")
    assert record(tmp_path / "run-%p.alt", program) == 0
    traces = sorted(tmp_path.glob("*.alt"))
    assert len(traces) == 2
    for trace in traces:
        done = subprocess.run([TRACER, "info", trace], capture_output=True, check=True)
        facts = json.loads(done.stdout)
        assert facts["regions"][0]["kind"] == "unmapped"
        assert facts["totals"]["references"] > 3000
        assert sum(facts["regions"][0]["references"].values()) == 0


def test_each_image_of_a_process_is_described_by_its_own_command(tmp_path: Path) -> None:
    """A fork's is its parent's; what an exec brings has its own, its words as they were."""
    script = "/bin/echo 'a \"b' grün $(:) & wait; exec /bin/true last"
    line = ("/bin/sh", "-c", script)
    assert record(tmp_path / "run-%p.alt", *line, options=("-d", '{"x": 1}')) == 0
    commands = []
    for trace in sorted(tmp_path.iterdir()):
        done = subprocess.run([TRACER, "info", trace], capture_output=True, check=True)
        description = json.loads(done.stdout)["description"]
        assert description["x"] == 1
        commands.append(tuple(description["command"]))
    words = tuple(os.fsencode(word).decode("latin-1") for word in line)
    assert commands.count(words) >= 2
    assert ("/bin/true", "last") in commands
    assert ("/bin/echo", 'a "b', "grün".encode().decode("latin-1")) in commands
    assert len(set(commands)) == 3


def test_a_full_disk_stops_the_program_with_an_error() -> None:
    done = subprocess.run(
        [RECORDER, "-o", "/dev/full", "-t", TOOLS, "--", PROGRAMS / "sorting"],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 125
    assert done.stderr == "allotrope: /dev/full: No space left on device\n"


def test_a_trace_can_go_through_a_pipe(tmp_path: Path) -> None:
    with subprocess.Popen(
        [RECORDER, "-o", "-", "-t", TOOLS, "-e", "X=1", "--", "/bin/true"], stdout=subprocess.PIPE
    ) as recorder:
        done = subprocess.run([TRACER, "check", "-"], stdin=recorder.stdout, capture_output=True)
    assert done.returncode == 0 and int(done.stdout.split()[0]) > 10000


def test_what_the_program_says_does_not_end_up_in_the_pipe() -> None:
    line = [RECORDER, "-o", "-", "-t", TOOLS, "--", "/bin/echo", "heard"]
    done = subprocess.run(line, capture_output=True, timeout=HANG)
    assert done.stderr == b"heard\n" and b"heard" not in done.stdout
    assert subprocess.run([TRACER, "check", "-"], input=done.stdout).returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        ["record", "-o", "-", "--plain", "--", str(PROGRAMS / "sorting")],
        ["trace", "dump", "TRACE"],
        ["trace", "cut", "--count", "1000000", "-o", "-", "TRACE"],
    ],
)
def test_a_closed_pipe_ends_it(real: Command, ringing: Path, words: list[str]) -> None:
    """A recording that ends with its reader says so: its program ended too."""
    line = [str(ringing) if word == "TRACE" else word for word in words]
    with real.start(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = READER_ENDED if words[0] == "record" else ""
        assert process.stderr.read() == said
    assert process.returncode == 128 + signal.SIGPIPE or process.returncode == -signal.SIGPIPE


def test_a_fifo_whose_reader_ended_ends_the_recording_with_a_line(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    line = [RECORDER, "-o", fifo, "-t", TOOLS, "--", PROGRAMS / "sorting", "1000000"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as recorder:
        with fifo.open("rb") as reader:
            reader.read(100)
        assert recorder.stderr is not None and recorder.stderr.read().decode() == READER_ENDED
    assert recorder.returncode == 128 + signal.SIGPIPE and fifo.is_fifo()


@pytest.mark.parametrize("output", ["run.alt", "run-%p.alt"])
def test_a_limit_on_files_is_named(output: str, tmp_path: Path) -> None:
    """By the recorder itself, before it runs the program or replaces a trace."""
    (tmp_path / output).write_text("older")
    line = f"ulimit -f 20; exec {RECORDER} -o {output} -t {TOOLS} -- echo heard"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 125 and done.stdout == ""
    assert "files may have 20 KiB here (ulimit -f)" in done.stderr
    assert done.stderr.count("\n") == 1
    assert [file.read_text() for file in tmp_path.iterdir()] == ["older"]


@pytest.mark.parametrize("words", [["record", "-o", "run.alt"], ["events", "-o", "run-%p.ale"]])
def test_a_recorded_program_heeds_its_signals(
    real: Command, words: list[str], tmp_path: Path
) -> None:
    """What Python or a recorder ignores would stay ignored in the program."""
    shown = r"$(sed -n 's/^SigIgn:\t//p' /proc/self/status)"
    done = real.run(*words, "--", "sh", "-c", f"echo {shown}", cwd=tmp_path)
    assert done.returncode == 0
    assert int(done.stdout, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0


def test_more_behind_a_traces_end_is_told(ringing: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice.alt"
    twice.write_bytes(2 * ringing.read_bytes())
    done = subprocess.run([TRACER, "info", twice], capture_output=True, text=True)
    once = subprocess.run([TRACER, "info", ringing], capture_output=True, check=True)
    assert done.returncode == 1
    assert f"at byte {ringing.stat().st_size}: more follows the trace's end" in done.stderr
    assert json.loads(done.stdout)["totals"] == json.loads(once.stdout)["totals"]


def test_the_break_grows_beyond_valgrinds_eight_megabytes(tmp_path: Path) -> None:
    program = tmp_path / "break"
    source = """#include <unistd.h>
    int main(void) { char *p = sbrk(100 << 20); return p == (void *)-1 || !(p[99 << 20] = 1); }"""
    subprocess.run(["cc", "-x", "c", "-o", program, "-"], input=source, text=True, check=True)
    assert record(tmp_path / "run.alt", program) == 0
    rows = [row for row in events(tmp_path / "run.alt") if row[4] == "map" and row[7] == "0x2"]
    assert 100 << 20 <= sum(int(row[6], 16) for row in rows) < 101 << 20


# ---------------------------------------------------------------- the command


def test_a_terminal_obeys_nothing_of_a_trace(real: Command, tmp_path: Path) -> None:
    """Neither its file's name nor a word of the command nor an object's path."""
    program = tmp_path / "ring\a"
    program.symlink_to(PROGRAMS / "sorting")
    trace = tmp_path / "run\a.alt"
    assert real.run("record", "-o", str(trace), "--", str(program), "\n").returncode == 0
    done = real.run("trace", "info", str(trace))
    assert done.returncode == 0 and "\a" not in done.stdout
    assert done.stdout.startswith(f"{tmp_path}/run\\x07.alt: ")
    assert f"  command      {tmp_path}/ring\\x07 \\x0a\n" in done.stdout


def test_the_command_records_tells_and_cuts(real: Command, tmp_path: Path) -> None:
    trace, short = tmp_path / "run.alt", tmp_path / "short.alt"
    done = real.run("record", "-o", str(trace), "--", str(PROGRAMS / "sorting"))
    assert (done.returncode, done.stdout[-6:]) == (0, "words\n")
    facts = json.loads(real.run("trace", "info", "--json", str(trace)).stdout)
    assert facts["schema"] == "allotrope.trace.info/1"
    assert facts["description"]["command"] == [str(PROGRAMS / "sorting")]
    assert "by region" in real.run("trace", "info", str(trace)).stdout
    assert real.run("trace", "cut", "--count", "1000", "-o", str(short), str(trace)).returncode == 0
    lines = real.run("trace", "dump", str(short)).stdout.splitlines()
    assert lines[0].split(",")[:5] == ["thread", "kind", "address", "size", "class"]
    assert len(lines) == 1001
    assert lines == real.run("trace", "dump", str(trace)).stdout.splitlines()[:1001]
    whole = json.loads(real.run("trace", "info", "--json", str(short)).stdout)["run"]
    assert whole == facts["totals"]
    din = real.run("trace", "dump", "--format", "din", str(short)).stdout.splitlines()
    assert [line.split()[0] for line in din] == [
        "1" if line.split(",")[1] == "store" else "0" for line in lines[1:]
    ]
    xdin = real.run("trace", "dump", "--format", "xdin", str(short)).stdout.splitlines()
    rows = [line.split(",") for line in lines[1:]]
    assert xdin == [
        f"{'w' if kind == 'store' else 'r'} {int(address, 16):x} {int(size):x}"
        for _, kind, address, size, *_ in rows
    ]
    half = tmp_path / "half.alt"
    half.write_bytes(trace.read_bytes()[:3000])
    shown = real.run("trace", "info", str(half)).stdout
    assert "references                  0\n" in shown and "events " in shown
    assert not any(line.startswith(("by ", "class and")) for line in shown.splitlines())
    assert shown.splitlines()[-1] != "events"
    with trace.open() as source:  # once more, over the file that is there
        again = real.run("trace", "cut", "--count", "10", "-o", str(short), "-", stdin=source)
    assert again.returncode == 0, again.stderr
    with trace.open() as source:
        itself = real.run("trace", "cut", "--count", "10", "-o", str(trace), "-", stdin=source)
    assert itself.returncode == 2 and "is the trace itself" in itself.stderr


def test_a_pipe_has_no_size(real: Command, ringing: Path) -> None:
    for option, said in (("--json", '"bytes": null'), ("", "-\n")):
        line = " ".join(real.line("trace", "info", option, "-"))
        done = subprocess.run(
            f"cat {ringing} | {line}",
            shell=True,
            capture_output=True,
            text=True,
            env=real.environment(),
        )
        assert said in done.stdout, done.stderr


def test_settings_of_the_user_do_not_leak_in(real: Command, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    words = ["record", "-o", str(tmp_path / "r.alt"), "-a", "bsd", "--", "ls", "/"]
    done = real.run(*words, environment={"ALLOTROPE_STATS": str(stats)})
    assert done.returncode == 0, done.stderr
    assert not stats.exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["record", "-o", "x.alt"], "no command given"),
        (["record", "-o", "/nowhere/x-%p.alt", "--", "ls"], "/nowhere/x-"),
        (["record", "-o", "/nowhere/x.alt", "--", "ls"], "/nowhere/x.alt"),
        (["record", "-o", "x.alt", "--", "no-such-program"], "no-such-program"),
        (["record", "-o", "x.alt", "-a", "nonsense", "--", "ls"], "nonsense"),
        (["trace", "info", "no-such-file"], "no-such-file"),
        (["trace", "info", "/etc/passwd"], "at byte 0: this is no allotrope trace"),
        (["trace", "info", "/dev/null"], "/dev/null: at byte 0: the file is empty"),
        (["trace", "cut", "--count", "-1", "-o", "y", "/etc/passwd"], "-1"),
    ],
)
def test_bad_input_gets_one_line(
    real: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = real.run(*arguments, cwd=tmp_path)
    assert done.returncode not in (0, 1) or "at byte" in done.stderr
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "options, message",
    [
        (["-z", "5x"], '--level: "5x" is not a number from 1 to 19'),
        (["-z", "20"], '--level: "20" is not a number from 1 to 19'),
        ([word for i in range(257) for word in ("-e", f"A{i}=")], "--env: more than 256 settings"),
        (["-V", "-v"] * 257, "--valgrind: more than 256 settings"),
    ],
    ids=["no number", "too high", "settings", "valgrind"],
)
def test_the_recorder_refuses_what_it_cannot_take(
    tmp_path: Path, options: list[str], message: str
) -> None:
    file = tmp_path / "x.alt"
    line = [RECORDER, "-o", file, "-t", TOOLS, *options, "--", "true"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (125, f"allotrope: {message}\n")
    assert not file.exists()


# ---------------------------------------------------------------- numpy


def test_numpy_arrays_equal_the_dump(ringing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list(trace_reader.read(ringing))
    references = np.concatenate([batch.references for batch in batches])
    lines = [line.split(",", 5) for line in dump(ringing, "csv")[1:]]
    assert [int(line[2], 16) for line in lines] == references["address"].tolist()
    assert [int(line[3]) for line in lines] == references["size"].tolist()
    assert [trace_reader.CLASSES.index(line[4]) for line in lines] == references["class"].tolist()
    rung = [row[4] for row in events(ringing)]
    got = np.concatenate([batch.events for batch in batches])
    assert rung == [trace_reader.EVENTS[kind] for kind in got["type"]]


def test_numpy_reading_a_damaged_trace_raises_at_the_damage(ringing: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.alt"
    broken.write_bytes(ringing.read_bytes()[:-100])
    count = 0
    with pytest.raises(trace_reader.TraceError, match="at byte"):
        for batch in trace_reader.read(broken):
            count += len(batch.references)
    assert count == sum(len(batch.references) for batch in trace_reader.read(ringing))
