# SPDX-License-Identifier: MIT
"""`allotrope verify-gc`: who hides pointers is found out, who does not is not accused."""

import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from allotrope.features.hidden import verify
from allotrope.system.places import PLACES
from conftest import Command
from under import BUILD, HANG, PYTHON

TRAPS = BUILD / "tests" / "gc" / "traps"
pytestmark = pytest.mark.skipif(
    not (BUILD / "trace" / "allotrope-trace-record").exists(), reason="the recorder is not built"
)

# `make check` builds them; `make` alone does not.
TRAP_FILES = ("hiders", "places", "libunknown.so", "libfontconfig.so.1")
needs_traps = pytest.mark.skipif(
    not all((TRAPS / name).exists() for name in TRAP_FILES),
    reason="the programs of tests/gc/traps are not built; make check builds them",
)


def hider(library: str, case: str) -> list[str]:
    return [str(TRAPS / "hiders"), str(TRAPS / library), case]


@needs_traps
def test_a_load_of_a_dead_block_is_unsafe(real: Command) -> None:
    """This program never frees what was found dead."""
    done = real.run("verify-gc", "--", *hider("libunknown.so", "early"))
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "libunknown.so+0x" in line)
    assert line.startswith("unsafe: block 0x")
    assert "of 112 bytes, allocated at" in line and line.endswith(": load in pattern_is_whole")


@needs_traps
def test_a_terminal_obeys_no_name_of_an_object(real: Command, tmp_path: Path) -> None:
    library = tmp_path / "ring\a.so"
    shutil.copy(TRAPS / "libunknown.so", library)
    done = real.run("verify-gc", "--", str(TRAPS / "hiders"), str(library), "early")
    assert done.returncode == 1 and done.stdout.startswith("unsafe: ")
    assert "\a" not in done.stdout


@needs_traps
def test_what_known_hiders_hide_is_not_dead(real: Command) -> None:
    done = real.run("verify-gc", "--", *hider("libfontconfig.so.1", "early"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "nothing found in 4 collections")


@needs_traps
def test_leaks_are_not_accused(real: Command) -> None:
    """Of 50 blocks to which nothing points none is used."""
    done = real.run("verify-gc", "--json", "--", str(TRAPS / "places"), "data")
    judgement = json.loads(done.stdout)
    assert done.returncode == 0
    assert judgement["verdict"] == "nothing found" and judgement["uses"] == 0
    assert judgement["suspects"] > 1000 and judgement["collections"] >= 2


def test_json_is_alone_on_standard_output(real: Command) -> None:
    done = real.run("verify-gc", "--json", "--", "echo", "of the program")
    assert json.loads(done.stdout)["verdict"] == "not judged"
    assert "of the program" in done.stderr


@needs_traps
def test_a_free_of_a_dead_block_is_unsafe(real: Command) -> None:
    done = real.run("verify-gc", "--json", "--", *hider("libunknown.so", "frees"))
    judgement = json.loads(done.stdout)
    assert done.returncode == 1
    assert judgement["schema"] == "allotrope.verify-gc/1" and judgement["verdict"] == "unsafe"
    assert "free" in [use["use"] for use in judgement["found"]]
    assert judgement["uses"] >= 25


def test_vectors_that_reach_beyond_a_string_are_no_use(real: Command, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a few words, " * 3000)
    script = (
        "{ n = split($0, w, /,/); for (i = 1; i <= n; i++) s[i] = tolower(w[i]) } END { print n }"
    )
    done = real.run("verify-gc", "--every", "300", "--", "gawk", script, str(text))
    assert done.returncode == 0, done.stdout
    assert "nothing found in" in done.stdout.splitlines()[-1]


def test_nothing_is_said_of_a_program_without_collections(real: Command) -> None:
    done = real.run("verify-gc", "--", "/bin/true")
    assert (done.returncode, done.stdout[:37]) == (3, "not judged: there was no collection: ")


COUNT = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); a=$a$i; done; "


def test_a_program_that_is_killed_is_not_judged(real: Command) -> None:
    """Without the signal this shell is judged: nothing is found."""
    done = real.run("verify-gc", "--every", "100", "--", "/bin/sh", "-c", COUNT + "kill -ABRT $$")
    told = "not judged: CMD was killed by SIGABRT: only what it did until then was seen"
    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, told)


SERVER = """
import gc, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
print("up", flush=True)
while True:
    kept = [[number] for number in range(1000)]
"""


@pytest.mark.parametrize("from_terminal", [True, False])
def test_an_interruption_ends_the_program_and_not_the_judgement(
    real: Command, from_terminal: bool
) -> None:
    """Ctrl-C reaches all of the group; what is sent to us alone is passed on."""
    line = ["verify-gc", "--every", "100", "--", PYTHON, "-I", "-S", "-c", SERVER]
    terminal, its_end = pty.openpty()
    with real.start(
        *line,
        stdin=its_end,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        if from_terminal:
            os.write(terminal, b"\x03")
        else:
            process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=HANG)
    os.close(terminal)
    os.close(its_end)
    assert process.returncode == 0 and output.startswith("nothing found in "), output


def test_a_status_stands_beside_the_judgement(real: Command) -> None:
    done = real.run("verify-gc", "--every", "100", "--", "/bin/sh", "-c", COUNT + "exit 3")
    line = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and line.startswith("nothing found in ")
    assert line.endswith(" collections; CMD ended with status 3")


def test_what_cannot_be_run_is_said(real: Command) -> None:
    done = real.run("verify-gc", "--", "/nonexistent/program")
    assert done.returncode == 127 and "not found" in done.stderr


def test_a_recorder_that_opens_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end before the tracer has begun."""
    late = tmp_path / "tracer"
    late.write_text(f'#!/bin/sh\nsleep 0.5; exec {BUILD / "trace" / PLACES.tracer.name} "$@"\n')
    late.chmod(0o755)
    monkeypatch.setattr(verify, "built", lambda _: late)
    monkeypatch.setattr(verify, "recorder_line", lambda *_: ["/bin/false"])
    judgement = verify.verify(["program"], 100)
    assert judgement.verdict == "not judged" and judgement.status == 1
    assert judgement.obstacle.startswith("the program could not be recorded: ")


def test_a_tracer_that_is_killed_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder writes more than a pipe holds."""
    short = tmp_path / "tracer"
    short.write_text("#!/bin/sh\nhead -c 1000 >/dev/null; kill -9 $$\n")
    short.chmod(0o755)
    monkeypatch.setattr(verify, "built", lambda _: short)
    script = 'head -c 1000000 /dev/zero >"$0"'
    monkeypatch.setattr(verify, "recorder_line", lambda pipe, *_: ["/bin/sh", "-c", script, pipe])
    judgement = verify.verify(["program"], 100)
    assert judgement.status == 0 and "was killed by SIGKILL" in judgement.obstacle


def test_an_exec_is_told_with_a_remedy_that_helps_here(real: Command) -> None:
    """The trace is a pipe, whose name nobody gives."""
    done = real.run("verify-gc", "--", "env", "true")
    assert "env became another program (exec)" in done.stderr
    assert "run that program itself" in done.stderr and "%p" not in done.stderr
