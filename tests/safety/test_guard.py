# SPDX-License-Identifier: MIT
"""blocks:guard, and the guards of blocks:checked: what they find, what they say, and that a program
behaves as without them."""

import json
import math
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from under import BUILD, HANG, LIBRARY, SOURCE, Under, described_specs

SAMPLED = BUILD / "tests" / "safety" / "sampled"
SERVER = BUILD / "tests" / "safety" / "planted_server"
NULLS = SOURCE / "tests" / "safety" / "Nulls.java"
TRAPS = SOURCE / "tests" / "safety" / "traps.js"
SITE = r"sampled\+0x[0-9a-f]+"
AT = r"0x[0-9a-f]+"
CHECKED = ("large-overflow", "large-underflow", "large-freed", "of-no-bytes")  # by blocks:checked


def guard(options: str = "guard=1,slots=1024") -> Under:
    return Under("blocks:guard", LIBRARY, f"blocks:{options}")


def run_checked(name: str) -> subprocess.CompletedProcess[str]:
    checked = Under("blocks:checked", LIBRARY, "blocks:checked")
    return checked.run([str(SAMPLED), name], timeout=HANG)


def run(name: str, options: str = "guard=1,slots=1024") -> subprocess.CompletedProcess[str]:
    return guard(options).run([str(SAMPLED), name], timeout=HANG)


@pytest.mark.parametrize(
    "name, words",
    [
        ("overflow", rf"write\({AT}\): outside a block: 1 byte behind a block of 48 bytes"),
        (
            "overflow-from-40",
            rf"write\({AT}\): outside a block: 10 bytes behind a block of 40 bytes",
        ),
        ("underflow", rf"write\({AT}\): outside a block: 1 byte before a block of 40 bytes"),
        ("write-freed", rf"write\({AT}\): after its free: 8 bytes into a block of 100 bytes"),
        ("read-freed", rf"read\({AT}\): after its free: block of 40 bytes"),
        ("run-freed", rf"execute\({AT}\): after its free: block of 40 bytes"),
        ("once", rf"write\({AT}\): after its free: block of 40 bytes"),
        ("ignored", rf"write\({AT}\): after its free: block of 40 bytes"),
        (
            "large-overflow",
            rf"write\({AT}\): outside a block: 1 byte behind a block of 100000 bytes",
        ),
        (
            "large-underflow",
            rf"write\({AT}\): outside a block: \d+ bytes before a block of 100000 bytes",
        ),
        ("large-freed", rf"read\({AT}\): after its free: 5 bytes into a block of 100000 bytes"),
        ("of-no-bytes", rf"write\({AT}\): outside a block: block of 0 bytes"),
    ],
)
def test_fault_is_told_and_ends_the_process(name: str, words: str) -> None:
    result = run_checked(name) if name in CHECKED else run(name)
    assert result.returncode == -signal.SIGSEGV
    assert re.search(rf"^allotrope: {words} at {AT}, at ", result.stderr, re.MULTILINE), result


@pytest.mark.parametrize(
    "name, words",
    [
        ("freed-twice", rf"free\({AT}\): freed twice: block of 40 bytes"),
        ("resized-after-free", rf"realloc\({AT}\): freed twice: block of 40 bytes"),
        (
            "freed-inside",
            rf"free\({AT}\): not the start of a live block: 16 bytes into a block of 40 bytes",
        ),
    ],
)
def test_wrong_free_ends_the_process(name: str, words: str) -> None:
    result = run(name)
    assert result.returncode == -signal.SIGABRT
    assert re.search(
        rf"^allotrope: {words} at {AT}, called at {SITE}$", result.stderr, re.M
    ), result


def test_report_has_the_stacks_of_allocation_free_and_access() -> None:
    said = run("write-freed").stderr
    assert re.fullmatch(
        rf"allotrope: write\({AT}\): [^\n]*, at {SITE}\n"
        rf"  allocated at {SITE}\n(    from [^\n]+\n)+"
        rf"  freed at {SITE}\n(    from [^\n]+\n)+"
        rf"allotrope: write\({AT}\): called\n(    from [^\n]+\n)+",
        said,
    ), said
    sites = re.findall(r"(?:at|from) sampled\+(0x[0-9a-f]+)", said)
    lines = subprocess.run(
        ["addr2line", "-fe", str(SAMPLED), *(hex(int(one, 16) - 1) for one in sites)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    functions = lines.splitlines()[::2]
    assert functions[0] in ("write_to", "write_freed")
    assert {"block_at", "freed_block", "write_freed", "main"} <= set(functions), functions


def test_what_is_written_beside_a_block_is_found_at_its_free() -> None:
    result = run("beside")
    assert result.returncode == 0
    assert re.findall(r"^allotrope: (free\(.*): .* at", result.stderr, re.M)
    for words in (
        "written behind its end: 1 byte behind a block of 40 bytes",
        "written behind its end: 101 bytes behind a block of 40 bytes",
        "written before its start: 1 byte before a block of 40 bytes",
    ):
        assert words in result.stderr


def test_what_is_written_beside_a_block_that_is_kept_is_found_at_exit() -> None:
    result = run("beside-kept")
    assert result.returncode == 0
    assert re.match(r"allotrope: exit\(.*\): written behind its end: 1 byte behind", result.stderr)


def test_programs_handlers_are_called_after_the_report() -> None:
    result = run("chained")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("after its free") == 3
    result = run("chained-signal")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("after its free") == 1
    result = run("old-names")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("after its free") == 2


@pytest.mark.parametrize(
    "command, needs, said",
    [
        (["java", "-Xmx200m", "-XX:TieredStopAtLevel=1", str(NULLS)], "javac", "2500 2500\n"),
        (["node", str(TRAPS)], "node", "500 500\n"),
    ],
    ids=["java", "node"],
)
def test_runtimes_own_faults_are_served_by_its_handler(
    command: list[str], needs: str, said: str
) -> None:
    """The runtime installs its handler of SIGSEGV long after ours, and lives by it."""
    if not shutil.which(needs):
        pytest.skip(f"{needs} is not installed")
    result = guard("guard=20").run(command, timeout=HANG)
    assert (result.returncode, result.stdout, result.stderr) == (0, said, "")


@pytest.mark.parametrize("name", ["own-faults", "told-back", "kernel", "threads", "many", "kinds"])
def test_sound_program_meets_nothing(name: str) -> None:
    for options in ("guard=1", "guard=1,slots=1024", "guard=3,slots=4"):
        result = run(name, options) if name != "kernel" else run(name)
        assert (result.returncode, result.stderr) == (0, ""), options


def test_handler_that_walks_the_stack_sees_the_fault() -> None:
    result = run("walked")
    assert result.returncode == 0, result.stderr


def test_signal_that_is_sent_is_no_fault() -> None:
    result = run("sent")
    assert (result.returncode, result.stderr) == (-signal.SIGSEGV, "")


def test_fault_ends_the_process_where_actions_are_refused() -> None:
    for result in (run("fault-without-actions"), run_checked("fault-without-actions")):
        assert (result.returncode, result.stderr) == (-signal.SIGSEGV, "")


def test_child_of_a_fork_reports_its_own_faults() -> None:
    result = run("child")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("after its free") == 1


def test_child_of__fork_waits_for_no_thread_in_sigaction() -> None:
    result = run("forked-by-number")
    if result.returncode == 77:
        pytest.skip("the kernel hands no system calls to a listener")
    assert (result.returncode, result.stderr) == (0, "")


def test_a_vfork_child_ends_no_guards_of_its_parent() -> None:
    result = run("sandboxed-child")
    assert result.returncode == -signal.SIGSEGV and "outside a block" in result.stderr, result
    result = run_checked("sandboxed-child-and-large")
    assert result.returncode == -signal.SIGSEGV and "outside a block" in result.stderr, result


def test_checked_heap_leaves_faults_to_the_programs_handler() -> None:
    result = run_checked("large-chained")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("outside a block: ") == 3
    for name in ("large-protected", "own-faults", "told-back", "forked-by-number"):
        result = run_checked(name)
        if result.returncode != 77:
            assert (result.returncode, result.stderr) == (0, ""), name
    result = run_checked("sent")
    assert (result.returncode, result.stderr) == (-signal.SIGSEGV, "")


def test_freed_block_waits_and_comes_back() -> None:
    assert run("quarantine", "guard=1,slots=64").returncode == 0


def test_live_blocks_are_bounded(tmp_path: Path) -> None:
    _, statistics = guard("guard=1").run_counted([str(SAMPLED), "many"], tmp_path)
    counts = statistics["guard"]
    assert counts["sampled_blocks"] == 192 and counts["passed_over"] >= 4800


def test_reports_are_limited() -> None:
    result = run("chained", "guard=1,slots=1024,reports=1")
    assert result.returncode == 0
    assert result.stderr.count("after its free") == 1
    assert "further misuses of the heap are only counted" in result.stderr


def test_option_of_the_presets_name_chooses_it() -> None:
    assert "blocks:guard" in described_specs()
    for spec, status in {
        "blocks:guard": 0,
        "blocks:guard=7": 0,
        "blocks:guard,guard=7": 0,
        "blocks:guard=7,slots=16": 0,
        "blocks:slots=16,guard=7": 0,
        "blocks:guard=0": 2,
        "blocks:guard=7,guard=7": 2,
        "blocks:guard=7,checked": 2,
        "blocks:slots=16": 2,
    }.items():
        result = Under(spec, LIBRARY, spec).run(["/bin/true"], timeout=HANG)
        assert (result.returncode, spec) == (status, spec)


def serve(requests: str, one_in: int, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "requests"
    path.write_text(requests)
    with path.open() as stdin:
        return guard(f"guard={one_in}").run([str(SERVER)], stdin=stdin, timeout=HANG)


@pytest.mark.parametrize("one_in", [1, 50])
def test_planted_fault_of_a_server_is_found(one_in: int, tmp_path: Path) -> None:
    """A sampled answer is found with certainty, and one answer in N is sampled: of `requests` all
    are missed with a chance of at most (1 - 1/N)^requests."""
    requests = 1 if one_in == 1 else math.ceil(math.log(1e-6) / math.log(1 - 1 / one_in))
    result = serve("get a word that is long\n" * requests, one_in, tmp_path)
    assert re.search(r"behind its end|outside a block", result.stderr), requests
    assert re.search(r"allocated at planted_server\+0x", result.stderr)


def test_server_without_the_fault_meets_nothing(tmp_path: Path) -> None:
    result = serve("get a word that is short\n" * 5000, 3, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert len(result.stdout.splitlines()) == 5000


def test_real_program_meets_nothing() -> None:
    program = "import json; print(len(json.dumps([{'a': [str(i)] * 3} for i in range(20000)])))"
    result = guard("guard=20").run(["/usr/bin/python3", "-c", program], timeout=HANG)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)
