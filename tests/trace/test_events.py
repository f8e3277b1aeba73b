# SPDX-License-Identifier: MIT
"""`allotrope events`, `lifetimes` and `replay` on whole programs."""

import csv
import json
import os
import re
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from allotrope.commands import replay as replay_command
from allotrope.commands.cli import cli
from allotrope.features.lifetimes.measure import (
    LIFE,
    NEVER,
    RESIZE,
    Lives,
    age_steps,
    rates,
    resolution,
)
from allotrope.features.lifetimes.page import advice as lifetimes_advice
from allotrope.features.replay.advice import advice
from allotrope.features.replay.measure import Replayer, measure, summary
from allotrope.features.replay.output import print_results
from allotrope.output.terminal import terminal
from allotrope.system.allocators import Allocator, glibc
from conftest import Command
from under import BUILD, HANG, LIBRARY, Under

PROGRAM = str(BUILD / "tests" / "trace" / "allocating")
EVENTS = str(BUILD / "trace" / "allotrope-events")


@pytest.fixture
def command() -> Command:
    return Command(BUILD)


def record(command: Command, file: Path, *line: str, status: int = 0) -> Any:
    """Records, and returns what the file holds."""
    done = command.run("events", "-o", str(file), "--", *line)
    assert done.returncode == status, done.stderr
    return info(file)


def info(file: Path) -> Any:
    done = subprocess.run([EVENTS, "info", str(file)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def dump(file: Path) -> list[dict[str, str]]:
    done = subprocess.run([EVENTS, "dump", str(file)], capture_output=True, text=True, check=True)
    return list(csv.DictReader(done.stdout.splitlines()))


@pytest.mark.parametrize("level", ["0", "1"])
def test_every_call_is_an_event_even_when_the_program_leaves_by_exit(
    command: Command, tmp_path: Path, level: str
) -> None:
    file = tmp_path / "plain.ale"
    done = command.run("events", "-o", str(file), "--level", level, "--", PROGRAM, "plain")
    assert done.returncode == 3, done.stderr
    rows = dump(file)[-(100 + 50 + 1 + 2) :]
    new = [row for row in rows if row["event"] == "new"]
    assert [int(row["size"]) for row in new] == [*range(1, 101), 70000]
    assert [row["zeroed"] == "1" for row in new[:100]] == [i % 3 == 0 for i in range(1, 101)]
    assert new[100]["alignment"] == "256"
    freed = [row["object"] for row in rows if row["event"] == "free"]
    assert freed == [row["object"] for row in [*new[1:100:2], new[100]]]
    resized = [row for row in rows if row["event"] == "resize"]
    assert [(row["object"], row["size"]) for row in resized] == [(new[0]["object"], "5000")]
    facts = info(file)
    assert facts["end"]["status"] == 3
    assert facts["unknown_frees"] == facts["lost_frees"] == 0


def test_an_alignment_of_gigabytes_is_told(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "aligned.ale"
    script = "import ctypes; c = ctypes.CDLL(None); c.aligned_alloc.restype = ctypes.c_void_p; "
    script += "exit(not c.aligned_alloc(ctypes.c_size_t(1 << 32), ctypes.c_size_t(77777)))"
    done = command.run("events", "-o", str(file), "--", "/usr/bin/python3", "-c", script)
    if done.returncode == 1:
        pytest.skip("there is no room for so large an alignment")
    assert done.returncode == 0, done.stderr
    assert [row["size"] for row in dump(file) if row["alignment"] == str(1 << 32)] == ["77777"]


@pytest.mark.parametrize("frames", [1, 3, 64])
def test_callers_are_kept_on_request(command: Command, tmp_path: Path, frames: int) -> None:
    stack = ["innermost", *["outermost"] * 4, "main"]
    file = tmp_path / "n.ale"
    line = ["events", "-o", str(file), "--frames", str(frames), "--", PROGRAM, "nested"]
    assert command.run(*line).returncode == 0
    (row,) = (row for row in dump(file) if row["event"] == "new" and row["size"] == "43210")
    callers = row["callers"].split()
    assert len(callers) == frames - 1 if frames < 64 else len(callers) >= len(stack) - 1
    found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
    (site,) = (site for site in found["sites"] if site["bytes"] == 43210)
    names = [name.split(" ")[0] for name in (site["name"], *site["callers"])]
    assert names[: len(stack)] == stack[:frames]


def test_keeping_callers_allocates_nothing(command: Command, tmp_path: Path) -> None:
    counts = []
    for frames in ("1", "8"):
        file = tmp_path / f"{frames}.ale"
        command.run("events", "-o", str(file), "--frames", frames, "--", PROGRAM, "plain")
        counts.append(info(file)["objects"])
    assert counts[0] == counts[1] > 0


def test_threads_are_put_in_order(command: Command, tmp_path: Path) -> None:
    facts = record(command, tmp_path / "t.ale", PROGRAM, "threads")
    assert facts["threads"] == 9
    assert facts["objects"] >= 8 * 50000
    assert facts["unknown_frees"] == facts["lost_frees"] == 0


def test_threads_that_end_give_their_buffers_back(command: Command, tmp_path: Path) -> None:
    facts = record(command, tmp_path / "t.ale", PROGRAM, "threadlets")
    assert facts["objects"] >= 3000
    assert facts["unknown_frees"] == facts["lost_frees"] == 0


def test_events_of_more_threads_than_buffers_are_lost_and_counted(
    command: Command, tmp_path: Path
) -> None:
    """Nobody waits for a buffer that another thread is filling, and who got none may get one later.
    What the command tells, the file tells as well."""
    file = tmp_path / "c.ale"
    done = command.run("events", "-o", str(file), "--", PROGRAM, "crowd")
    assert done.returncode == 0, done.stderr
    sizes = [row["size"] for row in dump(file) if row["event"] == "new"]
    lost = info(file)["end"]["lost_events"]
    assert 2000 < sizes.count("777") < 2100
    assert lost >= 2100 - sizes.count("777")
    assert sizes.count("4321") == 1
    assert f"{lost} events are missing" in done.stderr
    found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
    assert [one.text for one in lifetimes_advice(found) if one.title == "Incomplete"] == [
        f"without {lost:,} events of threads that found no buffer."
    ]


@pytest.mark.parametrize("words", [[], ["silent"]])
def test_a_sandbox_that_kills_for_questions_ends_no_recording(
    command: Command, tmp_path: Path, words: list[str]
) -> None:
    """Neither of threads that were there, nor of one that is started in it."""
    program = str(BUILD / "tests" / "contract" / "seccomp")
    facts = record(command, tmp_path / "s.ale", program, *words)
    assert facts["threads"] == 2
    assert facts["objects"] > 2 * 120000
    assert facts["unknown_frees"] == facts["lost_frees"] == 0


def test_a_killed_process_leaves_all_it_did(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "killed.ale"
    facts = record(command, file, PROGRAM, "killed", status=128 + 9)
    assert facts["end"]["status"] == 128 + 9
    sizes = [int(row["size"]) for row in dump(file) if row["event"] == "new"]
    assert sizes[-1000:] == list(range(100, 1100))


def test_a_forked_child_is_not_mixed_in(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "fork.ale"
    facts = record(command, file, PROGRAM, "fork")
    assert facts["end"]["declined"] == 1
    sizes = [row["size"] for row in dump(file)]
    assert sizes.count("1234") == 2 and "4321" not in sizes


def test_with_p_in_the_name_each_process_has_a_file(command: Command, tmp_path: Path) -> None:
    done = command.run("events", "-o", str(tmp_path / "%p.ale"), "--", PROGRAM, "fork")
    assert done.returncode == 0, done.stderr
    facts = [info(file) for file in tmp_path.glob("*.ale")]
    assert len(facts) == 2
    child = next(one for one in facts if one["end"]["status"] is None)
    assert child["unknown_frees"] == 1  # of the block that its parent allocated
    assert child["bytes"] == 4321


def test_exec_begins_the_recording_anew(command: Command, tmp_path: Path) -> None:
    facts = record(command, tmp_path / "e.ale", "/bin/sh", "-c", f"exec {PROGRAM} fork")
    assert facts["description"]["program"] == PROGRAM
    assert len(facts["description"]["replaced"]) == 1


def test_a_program_that_never_allocates_is_recorded_too(command: Command, tmp_path: Path) -> None:
    program, file = tmp_path / "quiet", tmp_path / "q.ale"
    build = ["cc", "-x", "c", "-o", str(program), "-"]
    subprocess.run(build, input="int main(void) { return 3; }", text=True, check=True)
    facts = record(command, file, str(program), status=3)
    assert facts["objects"] == 0 and facts["end"]["status"] == 3


def run_told_to_join(pool: str) -> subprocess.CompletedProcess[str]:
    under = Under("blocks", LIBRARY, "blocks")
    return under.run(["true"], {"ALLOTROPE_EVENTS": pool}, timeout=HANG)


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_what_is_no_pool_of_events_is_told_in_a_line(tmp_path: Path, size: int) -> None:
    pool = tmp_path / "pool"
    pool.write_bytes(bytes(size))
    done = run_told_to_join(str(pool))
    assert done.returncode == 2
    assert f'"{pool}" is no recording that can be joined; start it with' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_who_is_started_after_the_recording_runs_all_the_same() -> None:
    """As by a daemon that the recorded program has left behind, with its environment."""
    recorder = subprocess.Popen(["true"])
    recorder.wait()
    done = run_told_to_join(f"/proc/{recorder.pid}/fd/3")
    assert (done.returncode, done.stderr) == (0, "")


def test_where_nothing_is_recorded_no_file_is_left(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "n.ale"
    script = tmp_path / "script"
    script.write_text("#!/nowhere/interpreter\n")
    script.chmod(0o755)
    assert command.run("events", "-o", str(file), "--", str(script)).returncode != 0
    assert not file.exists()


def test_the_size_told_is_the_files(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "s.ale"
    done = command.run("events", "-o", str(file), "--", PROGRAM, "plain")
    assert f", {file.stat().st_size} bytes" in done.stderr


def test_a_killed_writer_holds_nobody_up(command: Command, tmp_path: Path) -> None:
    """Not even while it waits to be waited for: its number is still taken then. The program ends
    with its writer; what the program has started runs on."""
    done = tmp_path / "done"
    loop = 'for (; i < 8e6; i++) a[i % 99] = i "x"'
    script = f'BEGIN {{ print "up"; fflush(); {loop}; print > "{done}" }}'
    shell = ["sh", "-c", 'gawk "$0"; true', script]
    words = ["events", "-o", str(tmp_path / "k-%p.ale"), "--", *shell]
    writer = command.start(*words, stdout=subprocess.PIPE)
    assert writer.stdout is not None and writer.stdout.readline() == "up\n"
    os.kill(writer.pid, signal.SIGKILL)
    writer.stdout.read()  # until gawk has ended, which the writer does not outlive
    assert done.exists()
    assert writer.wait(HANG) == -signal.SIGKILL


def test_a_cut_file_gives_what_came_before(command: Command, tmp_path: Path) -> None:
    file, cut = tmp_path / "t.ale", tmp_path / "cut.ale"
    whole = record(command, file, PROGRAM, "threads")
    content = file.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    done = command.run("lifetimes", str(cut), "--json", "-")
    assert done.returncode == 1
    assert "ends early, at byte" in done.stderr
    assert 0 < json.loads(done.stdout)["objects"] < whole["objects"]


@pytest.mark.parametrize("words", [["lifetimes"], ["replay", "-a", "bsd", "--rounds", "1"]])
def test_the_page_of_a_cut_file_says_so(command: Command, tmp_path: Path, words: list[str]) -> None:
    whole, cut, page = (tmp_path / name for name in ("t.ale", "cut.ale", "page.html"))
    record(command, whole, PROGRAM, "threads")
    content = whole.read_bytes()
    cut.write_bytes(content[: len(content) // 2])
    for file, status in ((whole, 0), (cut, 1)):
        done = command.run(*words, "--html", str(page), str(file))
        assert done.returncode == status, done.stderr
        assert ("damaged or cut short" in page.read_text()) is (file == cut)


def test_a_file_that_is_cut_before_its_events_has_no_tables(
    command: Command, tmp_path: Path
) -> None:
    file, cut = tmp_path / "t.ale", tmp_path / "cut.ale"
    record(command, file, PROGRAM, "plain", status=3)
    content = file.read_bytes()
    cut.write_bytes(content[: content.index(b"ACHK", content.index(b"ACHK") + 1) + 20])
    done = command.run("lifetimes", str(cut))
    assert done.returncode == 1 and "at byte" in done.stderr
    assert done.stdout == "No object was allocated in what there is of the recording.\n"


def test_a_full_disk_is_called_so(command: Command) -> None:
    done = command.run("events", "-o", "/dev/full", "--", PROGRAM, "plain")
    assert done.returncode == 1
    assert "/dev/full: cannot be written: No space left on device" in done.stderr


def test_damage_is_told_with_its_place(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "t.ale"
    record(command, file, PROGRAM, "threads")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    done = command.run("lifetimes", str(file))
    assert done.returncode == 1
    assert "damaged at byte" in done.stderr
    done = command.run("replay", "-a", "bsd", "--rounds", "1", "--json", "-", str(file))
    assert done.returncode == 1 and not json.loads(done.stdout)["whole"]
    assert "damaged at byte" in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["lifetimes", "/nowhere"], "/nowhere: no such file"),
        (["lifetimes", "/dev/null"], "/dev/null"),
        (["replay", "/etc/passwd"], "/etc/passwd"),
        (["events", "-o", "-", "--", "true"], "goes to a file"),
        (["events", "-o", "/nowhere/x.ale", "--", "true"], "cannot write /nowhere/x.ale"),
        (["events", "-o", "x.ale", "-a", "glibc", "--", "true"], "only allotrope's own"),
        (["events", "-o", "x.ale"], "no command given"),
    ],
)
def test_bad_input_is_one_line(
    command: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    done = command.run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_replay_needs_the_heap_of_the_run_itself(command: Command, tmp_path: Path) -> None:
    body = 'a[i % 9000] = a[i % 700] "x" i; if (i % 4999 == 0) delete a'
    script = f"BEGIN {{ for (i = 0; i < 40000; i++) {{ {body} }} }}"
    line = ["gawk", script]
    file, account = tmp_path / "g.ale", tmp_path / "stats.json"
    record(command, file, *line)
    specs = ["bsd", "bsd:classic", "knuth", "cartesian", "gnu", "blocks"]
    options = [word for spec in specs for word in ("-a", spec)]
    done = command.run("replay", str(file), *options, "--rounds", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    for spec, result in zip(specs, results):
        command.run("run", "-a", spec, f"--stats={account}", "--", *line)
        peak = json.loads(account.read_text())["mapped_peak_bytes"]
        assert abs(result["heap_peak_bytes"] / peak - 1) <= 0.02, spec


@pytest.mark.parametrize(
    "rounds, slower, said",
    [
        (5, 2.0, "Not decided: 5 rounds do not tell"),
        (9, 1.01, "Not decided: least processor time: a, 1 s; b is not told from it at 2%."),
        (9, 2.0, "Fastest: a, 1 s of processor time."),
    ],
)
def test_only_who_is_told_from_all_others_is_the_fastest(
    rounds: int, slower: float, said: str
) -> None:
    played = [
        {"allocator": name, "cpu_seconds": factor, "rss_growth_bytes": 1, "failure": None}
        | {"cpu_seconds_rounds": [factor] * rounds}
        for name, factor in (("a", 1.0), ("b", slower))
    ]
    document = {"most_live_bytes": 1, "whole": True, "interrupted": False, "results": played}
    sentence = advice(document)[0]
    assert str(sentence).startswith(said)


def test_an_interrupted_replay_keeps_its_whole_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fifth run is the first of the third round."""
    played: list[str] = []

    def play(_: Replayer, allocator: Allocator, settings: Any = None) -> dict[str, Any]:
        if len(played) == 4:
            raise KeyboardInterrupt
        played.append(allocator.spec)
        run = {"failure": None, "cpu_seconds": float(len(played)), "minor_faults": 1}
        return run | {"rss_peak_bytes": 8192, "rss_before_bytes": 4096}

    totals = {"most_live_bytes": 9, "most_live_objects": 1, "objects": 1, "threads": 1}
    totals |= {"unknown_frees": 0, "lost_frees": 0, "whole": True}
    monkeypatch.setattr(Replayer, "play", play)
    monkeypatch.setattr(Replayer, "heap", lambda _, allocator: None)
    monkeypatch.setattr(replay_command, "make_operations", lambda *_: (totals, None))
    file = tmp_path / "replay.json"
    words = ["replay", "-a", "glibc", "-a", "bsd", "--rounds=9", f"--json={file}", "run.ale"]
    assert cli.main(words, standalone_mode=False) == 128 + signal.SIGINT
    found = json.loads(file.read_text())
    assert played == ["glibc", "bsd", "bsd", "glibc"]
    assert (found["rounds"], found["interrupted"]) == (2, True)
    times = {one["allocator"]: one["cpu_seconds_rounds"] for one in found["results"]}
    assert times == {"glibc": [1, 4], "bsd": [2, 3]}
    said = capsys.readouterr()
    assert "Incomplete: interrupted; the figures are of the rounds before that." in said.out
    assert said.err == "allotrope: interrupted; whole rounds: 2\n"


def test_a_replay_that_is_interrupted_in_its_first_round_has_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(*_: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    replayer = Replayer(tmp_path / "operations", tmp_path)
    monkeypatch.setattr(replayer, "play", play)
    with pytest.raises(KeyboardInterrupt):
        measure(replayer, [glibc()], 9, 1)


def test_a_replay_of_blocks_without_a_byte_has_no_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    run = {"failure": None, "cpu_seconds": 1.0, "minor_faults": 2}
    run |= {"rss_peak_bytes": 8192, "rss_before_bytes": 4096}
    heap = {"mapped_peak_bytes": 65536, "peak": {"waste": {}}}
    document = {"objects": 3, "most_live_bytes": 0, "most_live_objects": 1, "threads": 1}
    document |= {"unknown_frees": 0, "lost_frees": 0, "whole": True, "interrupted": False}
    document["results"] = [summary(glibc(), heap, [run], 0)]
    print_results(document, terminal())
    assert re.search(r"glibc +64\.0 KiB +– +4\.0 KiB", capsys.readouterr().out)


def test_without_proc_a_replay_does_not_know_who_is_resident() -> None:
    runs = [
        {"failure": None, "cpu_seconds": 1.0, "minor_faults": 1}
        | {"rss_before_bytes": 0, "rss_peak_bytes": 0}
    ]
    one = summary(glibc(), None, runs, 1)
    assert one["rss_growth_bytes"] is None
    document = {"most_live_bytes": 1, "whole": True, "interrupted": False, "results": [one]}
    words = [str(sentence) for sentence in advice(document)]
    assert any("Resident memory: not known" in line for line in words)
    assert not any(line.startswith("Leanest") for line in words)


def test_events_before_the_writers_first_chunk_have_their_times(
    command: Command, tmp_path: Path
) -> None:
    """A short program has ended before the writer sees any of it."""
    (tmp_path / "slow.c").write_text(
        "#include <stdlib.h>\n#include <unistd.h>\nint main(void) {"
        "void *volatile one = malloc(77);"
        "for (int i = 0; i < 999; i++) free(malloc(9)); usleep(20000);"
        "for (int i = 0; i < 999; i++) free(malloc(9)); free(one); return 0; }"
    )
    compiler = os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-O0", "-o", "slow", "slow.c"], cwd=tmp_path, check=True)
    file = tmp_path / "slow.ale"
    record(command, file, str(tmp_path / "slow"))
    rows = dump(file)
    (number,) = [row["object"] for row in rows if row["size"] == "77" and row["event"] == "new"]
    born, died = [int(row["nanoseconds"]) for row in rows if row["object"] == number]
    assert died - born >= 10_000_000


def test_ages_that_stamps_cannot_tell_are_not_told() -> None:
    """Stamps 40 µs apart say nothing of one microsecond."""
    kinds = np.dtype([("born_clock", "<u8"), ("died_clock", "<u8")])
    objects = np.array([(40_000 * i, 40_000 * (i + 3)) for i in range(50)], kinds)
    lives = SimpleNamespace(objects=objects, freed=np.ones(50, bool))
    assert resolution(lives) == 40_000  # type: ignore[arg-type]
    assert age_steps("nanoseconds", 1e6, 40_000) == [100_000, 1_000_000]
    assert age_steps("nanoseconds", 1e6, 500) == [1000, 10_000, 100_000, 1_000_000]
    assert age_steps("nanoseconds", 0, float("inf")) == []


def test_lifetimes_of_known_objects(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "plain.ale"
    record(command, file, PROGRAM, "plain", status=3)
    done = command.run("lifetimes", str(file), "--json", "-", "--html", str(tmp_path / "p.html"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "allotrope.lifetimes/1"
    assert sum(row["objects"] for row in found["sizes"]) == found["objects"]
    assert sum(row["bytes"] for row in found["sites"]) == sum(
        row["bytes"] for row in found["sizes"]
    )
    names = {row["name"] for row in found["sites"]}
    assert any(name.startswith(("plain (", "main (")) for name in names), names
    assert found["live_objects"] == found["objects"] - found["frees"]
    assert found["rates"][-1]["live"] == found["live_objects"]
    assert "How long objects live" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize("word", ["events", "record"])
def test_a_resize_counts_from_when_it_was_made(command: Command, tmp_path: Path, word: str) -> None:
    """Against the reader's own account, which follows each block."""
    file = tmp_path / word
    done = command.run(word, "-o", str(file), "--", PROGRAM, "resized")
    assert done.returncode == 0, done.stderr
    found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
    totals = info(file)
    assert totals["resizes"] >= 3
    assert sum(row["allocated_bytes"] for row in found["rates"]) == totals["bytes"]
    assert found["rates"][-1]["live_bytes"] == totals["live_bytes"]
    for rows in (found["sizes"], found["sites"]):
        assert sum(row["never_freed_bytes"] for row in rows) == totals["live_bytes"]
    share = totals["live_bytes"] / sum(row["bytes"] for row in found["sizes"])
    (said,) = (one.text for one in lifetimes_advice(found) if one.title == "Never freed")
    assert said.endswith(f" were live at the end, {share:.2%} of all bytes.")


def test_a_block_that_grows_is_small_until_it_grows() -> None:
    """And what it shrinks by is live no more."""
    objects = np.zeros(2, LIFE)
    objects["born_clock"], objects["died_clock"] = (0, 10), (90, NEVER)
    objects["first_size"], objects["size"], objects["last_size"] = (1, 20), (1000, 20), (300, 20)
    resizes = np.array([(50, 1, 1000), (70, 1000, 300)], RESIZE)
    lives = Lives({"clock": "instructions", "length": 100}, objects, resizes, [], None)
    found = rates(lives, 10)
    assert [row["live_bytes"] for row in found] == [1, *[21] * 4, *[1020] * 2, *[320] * 2, 20]
    assert [row["allocated_bytes"] for row in found] == [1, 20, 0, 0, 0, 1000, 0, 300, 0, 0]
    assert [row["live"] for row in found] == [1, *[2] * 8, 1]


def test_an_age_in_bytes_begins_behind_the_objects_own(command: Command, tmp_path: Path) -> None:
    """The last that it does is free(aligned_alloc(256, 70000))."""
    file = tmp_path / "plain.ale"
    record(command, file, PROGRAM, "plain", status=3)
    found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
    (site,) = (site for site in found["sites"] if site["bytes"] == 70000)
    assert site["median_age_bytes"] == 0


def test_a_trace_and_a_recording_name_the_same_sites(command: Command, tmp_path: Path) -> None:
    """A trace does not tell at which offset a file is mapped."""
    names = {}
    for word in ("events", "record"):
        file = tmp_path / word
        command.run(word, "-o", str(file), "--", PROGRAM, "plain")
        found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
        names[word] = {row["name"] for row in found["sites"]}
    assert any(name.startswith(("plain (", "main (")) for name in names["record"])
    assert names["record"] == names["events"]


def test_an_inlined_site_tells_its_caller(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "server.ale"
    server = str(BUILD / "bench_programs" / "bleeding_server")
    record(command, file, server, "lanes=1", "operations=10", "threadlife=1")
    found = json.loads(command.run("lifetimes", str(file), "--json", "-").stdout)
    callers = [row["callers"] for row in found["sites"] if row["name"].startswith("allocate (")]
    assert callers and all(callers)


def test_lifetimes_on_a_narrow_terminal_cut_no_figure(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "plain.ale"
    record(command, file, PROGRAM, "plain", status=3)
    shown = {}
    for width in (40, 60, 200):
        done = command.run("lifetimes", str(file), environment={"COLUMNS": str(width)})
        assert done.returncode == 0, done.stderr
        assert "…" not in done.stdout
        shown[width] = set(re.findall(r"[\d.,]+%?", done.stdout))
        if width == 60:
            assert max(map(len, done.stdout.splitlines())) <= width
    assert shown[40] == shown[60] == shown[200]


def test_lifetimes_of_a_trace_are_in_instructions(command: Command, tmp_path: Path) -> None:
    from allotrope.features.lifetimes.measure import read_lives, survival

    program, trace = BUILD / "tests" / "trace" / "ringing", tmp_path / "r.alt"
    done = command.run("record", "-o", str(trace), "--", str(program))
    assert done.returncode == 0, done.stderr
    lives = read_lives(trace)
    assert lives.clock == "instructions"
    assert len(lives.objects) > 0
    curve = survival(lives, "clock")
    assert curve.share_at(0) <= 1 and curve.never_freed <= curve.share_at(1e12)


@pytest.mark.parametrize("word", ["lifetimes", "replay"])
@pytest.mark.parametrize(
    "name, wrong, remedy",
    [
        ("missing.ale", "missing.ale: no such file", "events -o missing.ale"),
        ("two words", "'two words': no such file", "events -o 'two words'"),
        ("", "'': no such file", "events -o run.ale"),
        ("text", "text: this is neither a recording of `allotrope events`", "events -o run.ale"),
        ("short", "short: this is neither a recording of `allotrope events`", "events -o run.ale"),
        ("empty", "empty: the file is empty", "events -o run.ale"),
        ("folder", "folder: this is a folder", "events -o run.ale"),
    ],
)
def test_a_bad_file_name_is_told_with_the_remedy(
    real: Command, tmp_path: Path, word: str, name: str, wrong: str, remedy: str
) -> None:
    (tmp_path / "text").write_text("what somebody wrote, and long enough for a header\n" * 9)
    (tmp_path / "short").write_text("hello\n")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    done = real.run(word, name, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"allotrope: {wrong}" in done.stderr
    assert f"`allotrope {remedy} -- CMD` makes a recording" in done.stderr
