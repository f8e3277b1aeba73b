# SPDX-License-Identifier: MIT
"""The benchmarks of collection print the same line, whoever manages their memory."""

import functools
import subprocess
from pathlib import Path

import pytest

from under import BUILD, GLIBC, HANG, LIBRARY, Under

ARGUMENTS = {
    "binary_trees": ["depth=12"],
    "destroy": ["depth=13", "replace=3000"],
    "gcbench": ["depth=11"],
    "rewriter": ["rounds=40"],
    "session_cache": ["entries=5000", "requests=5000"],
    "thread_churn": ["tasks=8", "replace=20000"],
}
COLLECTORS = [
    Under("ignore", LIBRARY, "gc:free=ignore,initial=256K"),
    Under("honour", LIBRARY, "gc:initial=256K"),
    Under("boehm", LIBRARY, "gc:free=ignore,policy=boehm"),
    Under("every", LIBRARY, "gc:free=ignore,every=1000"),
    Under("small-stack", LIBRARY, "gc:free=ignore,initial=256K,stack=64K"),
    Under("markers", LIBRARY, "gc:free=ignore,initial=256K,markers=3,pause=1"),
    Under("minors", LIBRARY, "gc:free=ignore,generations=2,verify=on,initial=256K"),
    Under("minors-every", LIBRARY, "gc:free=ignore,generations=2,verify=on,every=1000"),
    Under("minors-honour", LIBRARY, "gc:generations=2,verify=on,every=1000"),
    Under("minors-none", LIBRARY, "gc:free=ignore,generations=2,verify=on,dirty=none,every=1000"),
    Under(
        "minors-markers",
        LIBRARY,
        "gc:free=ignore,generations=2,verify=on,every=1000,markers=3,pause=1",
    ),
    Under("cycles", LIBRARY, "gc:free=ignore,generations=2,concurrent=on,verify=on,initial=256K"),
    Under(
        "cycles-every", LIBRARY, "gc:free=ignore,generations=2,concurrent=on,verify=on,every=1000"
    ),
    Under(
        "cycles-forked",
        LIBRARY,
        "gc:free=ignore,generations=2,concurrent=fork,verify=on,every=1000",
    ),
    Under("forked", LIBRARY, "gc:free=ignore,concurrent=fork,verify=on,every=1000"),
    Under("cycles-honour", LIBRARY, "gc:generations=2,concurrent=on,verify=on,every=1000"),
    Under(
        "cycles-markers",
        LIBRARY,
        "gc:free=ignore,generations=2,concurrent=on,verify=on,every=1000,markers=3,stack=64K",
    ),
]


@functools.cache  # what glibc's run prints is compared with many times
def line(name: str, under: Under = GLIBC, variant: str = "") -> str:
    program = BUILD / "bench_programs" / (name + variant)
    if not program.exists():
        pytest.skip("libgc-dev is not installed")
    result = under.run([str(program), *ARGUMENTS[name]], timeout=HANG)
    assert result.returncode == 0, result.stderr
    assert name in result.stdout
    return result.stdout


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("variant", ["_forgets", "_libgc"])
def test_variants_print_the_same_line(name: str, variant: str) -> None:
    assert line(name, variant=variant) == line(name)


@pytest.mark.parametrize("under", COLLECTORS, ids=str)
@pytest.mark.parametrize("variant", ["", "_forgets"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_collected_program_computes_the_same(name: str, variant: str, under: Under) -> None:
    assert line(name, under, variant) == line(name)


def test_cycles_are_done_and_found_right(tmp_path: Path) -> None:
    command = [str(BUILD / "bench_programs" / "session_cache"), *ARGUMENTS["session_cache"]]
    cycles = next(under for under in COLLECTORS if under.name == "cycles-every")
    _, counted = cycles.run_counted(command, tmp_path)
    if "gc_cycles" not in counted:
        pytest.skip("the kernel does not tell which pages were written")
    assert counted["gc_cycles"]["begun"] == counted["gc_first_stop"]["collections"] > 0
    under_way = counted["gc_cycles"]["begun"] - counted["gc_cycles"]["verified"]
    assert under_way in (0, 1)  # at the program's end
    assert counted["gc_full"]["collections"] >= counted["gc_cycles"]["verified"] > 0
    assert counted["gc_cycles"]["slices"] > counted["gc_cycles"]["begun"]
    assert counted["gc_cycles"]["given_up"] == 0
    without = Under("cycles-none", LIBRARY, "gc:generations=2,concurrent=on,dirty=none,every=1000")
    _, counted = without.run_counted(command, tmp_path)
    assert "gc_cycles" not in counted and counted["gc"]["collections"] > 0


def test_cycles_in_a_child_are_found_right_without_dirty_bits(tmp_path: Path) -> None:
    command = [str(BUILD / "bench_programs" / "session_cache"), *ARGUMENTS["session_cache"]]
    forked = next(under for under in COLLECTORS if under.name == "cycles-forked")
    spec = f"{forked.spec},dirty=none"
    _, counted = Under("forked-none", LIBRARY, spec).run_counted(command, tmp_path)
    if not counted["gc_snapshots"]["done"]:
        pytest.skip("there can be no child here")
    assert counted["gc_cycles"]["verified"] > 0


def test_cycles_begin_when_a_collection_is_due_that_marks_for_long(tmp_path: Path) -> None:
    command = [str(BUILD / "bench_programs" / "destroy_forgets"), "depth=18", "replace=20000"]
    under = Under("gc", LIBRARY, "gc:free=ignore,markers=1,generations=2,concurrent=on,verify=on")
    result, counted = under.run_counted(command, tmp_path)
    assert "checksum" in result.stdout
    if "gc_cycles" not in counted:
        pytest.skip("the kernel does not tell which pages were written")
    assert counted["gc_cycles"]["verified"] > 0
    assert counted["gc_cycles"]["rounds"] > 0
    assert counted["gc_causes"]["every"] == counted["gc_cycles"]["given_up"] == 0


def test_minor_collections_are_done_and_found_right(tmp_path: Path) -> None:
    command = [str(BUILD / "bench_programs" / "session_cache"), *ARGUMENTS["session_cache"]]
    minors = next(under for under in COLLECTORS if under.name == "minors-every")
    _, counted = minors.run_counted(command, tmp_path)
    if "gc_minor" not in counted:
        pytest.skip("the kernel does not tell which pages were written")
    assert counted["gc_minor"]["collections"] > counted["gc_full"]["collections"] > 0
    assert counted["gc_generations"]["verified"] == counted["gc_minor"]["collections"]
    assert counted["gc_generations"]["promoted_bytes"] > 0
    without = next(under for under in COLLECTORS if under.name == "minors-none")
    _, counted = without.run_counted(command, tmp_path)
    assert "gc_minor" not in counted and counted["gc"]["collections"] > 0


def test_a_limit_is_kept_and_memory_comes_back() -> None:
    """4 MB live, some 400 MB allocated, at most 12 MB used; and far too little is refused."""
    program = [str(BUILD / "bench_programs" / "destroy_forgets"), "depth=16", "replace=50000"]
    enough = Under("gc", LIBRARY, "gc:free=ignore,limit=12M").run(program, timeout=HANG)
    assert enough.returncode == 0 and enough.stdout == GLIBC.run(program, timeout=HANG).stdout
    scarce = Under("gc", LIBRARY, "gc:free=ignore,limit=2M").run(program, timeout=HANG)
    assert scarce.returncode == 4 and "no memory for" in scarce.stderr


@pytest.mark.parametrize("program", ["destroy_forgets depth=16 replace=20000", "rewriter_forgets"])
def test_a_program_that_forgets_hides_nothing(program: str, tmp_path: Path) -> None:
    """The heap's table of its own segments was a root: to a block that had been found dead."""
    name, *arguments = program.split()
    command = [str(BUILD / "bench_programs" / name), *arguments]
    _, counted = Under("gc", LIBRARY, "gc:free=ignore").run_counted(command, tmp_path)
    assert counted["gc_hidden"]["suspected_blocks"] > 100000
    assert counted["gc_hidden"]["used_again"] == counted["gc_hidden"]["keeps_leaks"] == 0
    assert counted["gc"]["freed_blocks"] > 1000000


REFUSED_SIZES = str(BUILD / "tests" / "contract" / "refused_sizes")
OF_ANY_PROGRAM = ["gc", "gc:free=ignore", "gc:policy=boehm", "gc:classic,pointers=interior"]


@pytest.mark.parametrize("spec", OF_ANY_PROGRAM)
def test_no_collection_for_what_an_empty_heap_could_not_serve(spec: str, tmp_path: Path) -> None:
    under = Under("gc", LIBRARY, spec)
    result, counted = under.run_counted([REFUSED_SIZES, "too-large"], tmp_path)
    served = int(result.stdout)  # of 400 alignments, which may depend on a collection
    assert counted["gc"]["collections"] < 10 + served  # of some 5,000 requests that were refused


@pytest.mark.parametrize("spec", OF_ANY_PROGRAM)
def test_a_collection_for_what_an_emptier_heap_can_serve(spec: str, tmp_path: Path) -> None:
    under = Under("gc", LIBRARY, spec)
    _, counted = under.run_counted([REFUSED_SIZES, "garbage"], tmp_path)
    assert counted["gc"]["collections"] > 0


def test_bad_argument_is_named() -> None:
    program = str(BUILD / "bench_programs" / "destroy")
    result = subprocess.run([program, "depth=99"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "depth=99" in result.stderr


def test_the_first_cycle_too_leaves_little_to_its_last_stop(tmp_path: Path) -> None:
    """What lives is not known then; slices that took it for nothing left nearly all to the stop."""
    command = [str(BUILD / "bench_programs" / "destroy_forgets"), "depth=18", "replace=3000"]
    under = Under("gc", LIBRARY, "gc:free=ignore,markers=1,generations=2,concurrent=on")
    _, counted = under.run_counted(command, tmp_path)
    if "gc_cycles" not in counted:
        pytest.skip("the kernel does not tell which pages were written")
    assert counted["gc_cycles"]["begun"] > 0
    assert counted["gc_cycles"]["rescanned_bytes"] < counted["gc"]["marked_bytes"] / 20


@pytest.mark.parametrize(
    "options, said",
    [
        ("free=ignore,concurrent=on", "concurrent=on needs generations=2"),
        ("free=ignore,generations=2,policy=boehm,concurrent=on", "concurrent=on needs"),
        ("free=ignore,policy=boehm,concurrent=fork", "concurrent=fork needs policy=auto"),
        ("generations=2,concurrent=fork", "concurrent=fork needs free=ignore"),
    ],
)
def test_cycles_without_what_they_stand_on_are_refused(options: str, said: str) -> None:
    result = Under("refused", LIBRARY, f"gc:{options}").run(["/bin/true"])
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
