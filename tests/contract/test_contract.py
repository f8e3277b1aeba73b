# SPDX-License-Identifier: MIT
"""The drop-in contract: small programs, each of which tries one thing that is known to break
allocators put under programs that do not know of them. What breaks, and where it was seen, stands
in the head of each program (tests/contract/).

Every program runs under glibc, where it must pass (it tests the allocator, not itself), and under
every allocator and preset that the build holds. To choose: ALLOTROPE_TEST_ALLOCATORS="bsd
bsd:classic", or pytest -k. To see what the programs say of another library, which is instructive:
ALLOTROPE_TEST_PRELOAD=/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.

Forks beside busy threads take most of the time, and what they try is above the policies: one lock
in the classic presets, arenas and thread caches in the default ones. `make check` has a diagonal of
these: each policy in one of its two presets, each preset under two policies, and every preset of
blocks and gc. ALLOTROPE_CORNERS=all, which `make stress` sets, has them all.
"""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

import pytest
from under import BUILD, GLIBC, HANG, LIBRARY, Under, allocators_under_test

ARCHIVE = BUILD / ".libs" / "liballotrope.a"
PROGRAMS = BUILD / "tests" / "contract"
PLUGIN = str(PROGRAMS / "plugin.so")
CXX_PLUGIN = str(PROGRAMS / "cxx_plugin.so")

OURS = [under for under in allocators_under_test() if under.is_ours]
ALL = [GLIBC, *allocators_under_test()]

# Off the diagonal.
CORNERS = {"bsd:classic", "knuth", "cartesian:classic", "gnu"}
if os.environ.get("ALLOTROPE_CORNERS") == "all" or os.environ.get("ALLOTROPE_TEST_ALLOCATORS"):
    CORNERS = set()

each_allocator = pytest.mark.parametrize("under", ALL, ids=str)
each_of_ours = pytest.mark.parametrize("under", OURS, ids=str)
each_on_the_diagonal = pytest.mark.parametrize(
    "under", [under for under in OURS if under.name not in CORNERS], ids=str
)


def run(under: Under, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return under.run([str(PROGRAMS / program), *arguments], timeout=HANG)


def our_lines(result: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("allotrope: ")]


def require_success(result: subprocess.CompletedProcess[str], status: int = 0) -> None:
    """The exit status of a passing program, and nothing said by the allocator."""
    assert (result.returncode, our_lines(result)) == (status, []), result.stderr


# Programs that must behave under any allocator, by the rows of the contract.
PLAIN = [
    # start
    "start_preinit",
    "start_interposed_calls",
    "start_many_atexit",
    f"start_loader {PLUGIN}",
    # threads
    "threads_destructors",
    "threads_main_leaves",
    "threads_many",
    "threads_raw_clone",
    "threads_remote_free",
    "threads_short",
    "in_handlers",
    # fork
    "fork_in_threads",
    "fork_handlers",
    "fork_handlers early",
    "fork_kinds",
    "fork_in_handler 1900",
    "fork_in_handler 100 ended",
    "fork_interrupted",
    "fork_list_lock",
    f"loader_lock {PLUGIN}",
    *(
        f"fork_stdio {threads}"
        for threads in ("fflush getline", "getpwnam popen", "fopen dlopen", "fork fork")
    ),
    # semantics
    "aligned",
    "constants_kept",
    "corners",
    f"cxx_late {CXX_PLUGIN}",
    "cxx_new",
    "cxx_replaced",
    "errno_kept",
    "gnu_family",
    "impossible_sizes",
    "information sums",
    "information full",
    "handler_calls",
    "judged_by_libc",
    "libc_results",
    "names_of_ones_own",
    "random_calls",
    "registered_frames",
    "refused_sizes too-large",
    "resizing",
    "signal_actions",
    "small_alignment",
    "too_large",
    "tuning answers",
    "usable_size",
    "zero_sizes",
    *(f"small_stacks {kind}" for kind in ("alternate", "handler", "full", "least")),
    "zeroed",
    # strangers
    f"namespaces dlmopen {PLUGIN}",
    # kernel
    "map_count",
    "wrapped_calls handler",
    "wrapped_calls fork",
    *(f"refused_calls {call}" for call in ("large", "munmap", "madvise", "mremap", "mmap")),
    *(f"address_limit {kind} {size}" for kind in ("as", "data") for size in (40, 1000, 30000)),
]


# What they try does not depend on the policy.
ABOVE_POLICIES = re.compile(
    "fork_(in_threads|handlers|interrupted|list_lock|stdio)|threads_(destructors|short)"
    "|wrapped_calls"
)


@pytest.mark.parametrize(
    "program, under",
    [
        pytest.param(program, under, id=f"{program.split('/')[0]}-{under}")
        for under in ALL
        for program in PLAIN
        if not (under.name in CORNERS and ABOVE_POLICIES.match(program))
    ],
)
def test_a_program_of_the_contract_passes(program: str, under: Under) -> None:
    if under.name == "bsd:classic" and program == "usable_size":
        program += " 9"  # as published, the smallest blocks always move
    if under.name == "blocks:checked" and program == "usable_size":
        program += " 1"  # of no bytes none is usable, and to resize to none is to free
    result = run(under, *program.split())
    if under.name == "blocks:checked" and program == "cxx_new":  # deletes with wrong sizes
        assert "freed with another size than it was allocated with" in result.stderr
        result.stderr = ""
    if under.name == "gc" and program == "refused_calls large":  # it runs behind a filter
        assert "a filter of system calls was there before" in result.stderr
        result.stderr = ""
    require_success(result)


@each_of_ours
def test_handler_that_interrupted_a_large_block_forks(under: Under) -> None:
    if under.name == "gc:classic":
        pytest.skip("it collects, and cannot be stepped through with all signals blocked")
    require_success(run(under, "fork_in_handler", "500000"))


@each_on_the_diagonal
def test_handler_allocates_in_a_fork_while_threads_are_in_the_heap(under: Under) -> None:
    require_success(run(under, "fork_interrupted", "threads"))


@each_on_the_diagonal
def test_handler_forks_while_threads_are_in_the_heap(under: Under) -> None:
    """glibc's own malloc waits for ever here."""
    require_success(run(under, "fork_in_handler", "1900", "threads"))


@each_on_the_diagonal
def test_handler_forks_while_threads_have_locks_of_libc(under: Under) -> None:
    """glibc's own malloc waits for ever here, too. The lock is that of stdio's list of files."""
    require_success(run(under, "fork_in_handler", "1900", "list"))


@each_of_ours
def test_child_of__fork_meets_no_lock_of_another_thread(under: Under) -> None:
    result = run(under, "held_lock")
    if result.returncode == 77:
        pytest.skip("the kernel hands no system calls to a listener")
    require_success(result)


@each_of_ours
@pytest.mark.parametrize("version", ["2.4", "2.37", "2.38", "2.100"])
def test_aligned_alloc_follows_the_version_of_glibc(under: Under, version: str) -> None:
    require_success(run(under, "aligned", version))


@each_of_ours
def test_perturbed_memory(under: Under) -> None:
    require_success(run(under, "tuning", "perturb"))


@each_allocator
def test_freed_memory_is_kept_where_the_program_asks_for_it(under: Under) -> None:
    if under.allocator == "gnu":
        pytest.skip("gnu gives back the free end of its memory, whatever the threshold")
    if under.name == "blocks:checked":
        pytest.skip("it takes the pages of a large block away at its free")
    require_success(run(under, "tuning", "keeps"))


@each_allocator
def test_information_is_well_formed(under: Under) -> None:
    """As XML to the stream that was asked for, and a table to standard error."""
    result = run(under, "information", "xml")
    require_success(result)
    documents = re.findall(r"<malloc version.*?</malloc>", result.stdout, re.DOTALL)
    assert len(documents) == 2
    for document in documents:
        root = ElementTree.fromstring(document)
        assert root.tag == "malloc" and root.get("version") == "1"
        totals = {total.get("type"): total for total in root.findall("total")}
        assert {"rest", "mmap"} <= set(totals)
        for total in totals.values():
            assert int(total.get("count", "")) >= 0 and int(total.get("size", "")) >= 0
        assert root.find("system[@type='current']") is not None
    result = run(under, "information", "stats")
    require_success(result)
    assert result.stdout == "" and len(result.stderr.splitlines()) > 5


@each_of_ours
def test_statistics_that_nobody_reads_hold_no_lock(under: Under) -> None:
    """glibc's own malloc hangs here."""
    require_success(run(under, "information", "blocked"))


@each_allocator
def test_trim_says_whether_memory_was_given_back(under: Under) -> None:
    if under.name not in ("glibc", "blocks", "gc"):
        pytest.skip("it never gives small blocks' memory back, or does so at once")
    require_success(run(under, "information", "trim"))


# The others map no block by itself, or any large one.
@pytest.mark.parametrize(
    "under",
    [under for under in ALL if under.allocator not in ("blocks", "gc")],
    ids=str,
)
def test_a_program_chooses_what_is_mapped(under: Under) -> None:
    if under.preset == "classic":
        pytest.skip("as published, there are no mappings of single blocks")
    require_success(run(under, "tuning", "maps"))


@each_allocator
def test_exit_handlers_and_threads_may_allocate(under: Under) -> None:
    require_success(run(under, "exit_handlers", PLUGIN), status=7)


@each_of_ours
@pytest.mark.parametrize("size", ["1000000", "5000000"])
def test_large_blocks_under_an_address_limit(size: str, under: Under) -> None:
    require_success(run(under, "address_limit", "as", size))


@each_of_ours
@pytest.mark.parametrize("kind", ["malloc", "calloc", "memalign"])
def test_one_thread_gets_what_another_has_freed(kind: str, under: Under) -> None:
    """glibc's threads do not: what is free in one arena does not serve another."""
    require_success(run(under, "address_limit_threads", kind))


@each_allocator
def test_threads_that_use_up_all_memory(under: Under) -> None:
    if under.name == "knuth:classic":
        pytest.skip("where memory is in a hundred thousand pieces its search takes minutes")
    if under.allocator == "cartesian":
        pytest.skip("blocks that wait for memory for a node may not be found at once")
    require_success(run(under, "threads_exhaust"))


@each_allocator
@pytest.mark.parametrize("kind", ["as", "data"])
@pytest.mark.parametrize("sizes", ["24 100 1000 4400 10000 100000", "100000 10000 1000 100 24"])
def test_all_memory_may_go_to_another_size(sizes: str, kind: str, under: Under) -> None:
    if under.allocator == "bsd":
        pytest.skip("it never merges, as published")
    if under.name == "knuth:classic":
        pytest.skip("it does not merge what it got at different times, as published")
    require_success(run(under, "address_limit_sizes", kind, *sizes.split()))


@pytest.mark.parametrize(
    "under",
    [
        under
        for under in ALL
        if under.preset == "default" and under.allocator in ("knuth", "cartesian", "gnu")
    ],
    ids=str,
)
def test_memory_of_small_blocks_may_go_to_large_ones(under: Under) -> None:
    require_success(run(under, "address_limit_sizes", "as", "24", "5000000", "1000", "5000000"))


@each_of_ours
def test_memory_given_back_leaves_the_resident_set(under: Under) -> None:
    # As published, the classic allocators keep what they have; they too give no advice.
    arguments = ["kept"] if under.preset == "classic" else []
    require_success(run(under, "memory_advice", *arguments))


def test_memory_given_back_leaves_the_resident_set_under_glibc() -> None:
    require_success(run(GLIBC, "memory_advice"))


@each_of_ours
def test_sandbox_that_kills(under: Under) -> None:
    require_success(run(under, "seccomp"))


@each_of_ours
def test_sandbox_that_kills_for_questions_of_the_account(under: Under, tmp_path: Path) -> None:
    """What is in memory, and the time: it does without from then on."""
    environment = {"ALLOTROPE_STATS": str(tmp_path / "statistics.json")}
    require_success(under.run([str(PROGRAMS / "seccomp")], environment, timeout=HANG))


@each_of_ours
@pytest.mark.parametrize("rate", ["1", None])
def test_sandbox_that_kills_for_questions_of_the_sites(
    under: Under, rate: str | None, tmp_path: Path
) -> None:
    """The time of a peak, and how long a batch of samples took: a rate that adapts stays."""
    environment = {"ALLOTROPE_SITES": str(tmp_path / "sites.json")}
    if rate:
        environment["ALLOTROPE_SITES_RATE"] = rate
    require_success(under.run([str(PROGRAMS / "seccomp")], environment, timeout=HANG))


def test_sandbox_that_kills_for_questions_of_the_leaks() -> None:
    require_success(run(Under("gc:leaks=report", LIBRARY, "gc:leaks=report"), "seccomp"))


@each_of_ours
@pytest.mark.parametrize("variable", ["ALLOTROPE_SITES", "ALLOTROPE_LATENCY"])
def test_sandbox_that_kills_for_questions_of_a_report(
    under: Under, variable: str, tmp_path: Path
) -> None:
    """How long a tick takes."""
    report = tmp_path / "report.json"
    environment = {variable: str(report)}
    done = under.run([str(PROGRAMS / "seccomp"), "reported"], environment, timeout=HANG)
    require_success(done)
    assert json.loads(report.read_text())


@each_of_ours
def test_signal_handler_never_hangs(under: Under) -> None:
    result = run(under, "signal_handler")
    if result.returncode == -signal.SIGABRT:
        assert len(our_lines(result)) == 1
        told = "signal handler" in our_lines(result)[0]
        # On malloc's fast path nothing tells of a handler: [one operation] (alloc/blocks/heap.h).
        # A slot that both were handed is found by its trailer, as a write would be.
        assert told or (under.name == "blocks:checked" and "written" in our_lines(result)[0])
    else:
        require_success(result)


@each_of_ours
def test_no_instruction_can_be_interrupted_into_a_hang(under: Under) -> None:
    result = run(under, "signal_steps")
    assert result.returncode == 0, result.stderr
    steps, told = map(int, result.stdout.split())
    assert 0 < told < steps
    assert [line for line in our_lines(result) if "signal handler" not in line] == []
    assert len(our_lines(result)) == told


@pytest.mark.parametrize("spec", ["blocks", "gc:leaks=report"])
def test_a_sample_within_libgcc_does_not_wait_for_libgcc(spec: str, tmp_path: Path) -> None:
    sites = tmp_path / "sites.json"
    environment = {"ALLOTROPE_SITES": str(sites), "ALLOTROPE_SITES_RATE": "1"}
    under = Under(spec, LIBRARY, spec)
    program = [str(PROGRAMS / "registered_frames")]
    require_success(under.run(program, environment, timeout=HANG))


# Strangers.


@each_of_ours
@pytest.mark.parametrize("where", ["data", "stack", "page", "unmapped", "wild", "realloc"])
def test_foreign_pointer_is_named_and_ignored(where: str, under: Under) -> None:
    result = run(under, "foreign_pointers", where)
    assert result.returncode == 0, result.stderr
    expected = {"data": 2, "wild": 3}.get(where, 1)
    lines = our_lines(result)
    assert len(lines) == expected
    for line in lines:
        assert re.fullmatch(r"allotrope: (free|realloc)\(0x[0-9a-f]+\): not a block .*", line)


@each_of_ours
def test_usable_size_of_a_foreign_pointer_is_zero(under: Under) -> None:
    assert run(under, "foreign_pointers", "usable").returncode == 0


@each_of_ours
def test_a_deepbound_library_has_the_malloc_of_the_program(under: Under) -> None:
    """And so it may free what the program has allocated, as php's extensions do."""
    result = run(under, "namespaces", "deepbind", PLUGIN)
    assert result.returncode == 0, result.stderr
    assert our_lines(result) == []


def test_deepbound_library_under_glibc() -> None:
    require_success(run(GLIBC, "namespaces", "deepbind", PLUGIN))


BAD_POINTERS = [
    "twice",
    "twice-later",
    "interior",
    "unaligned",
    "granule",
    "realloc-freed",
    "realloc-interior",
    "aligned-twice",
]


@each_of_ours
@pytest.mark.parametrize("size", [40, 5000, 200000, 1000000])
@pytest.mark.parametrize("fault", BAD_POINTERS)
def test_bad_pointer_is_named(fault: str, size: int, under: Under) -> None:
    """The heap may be corrupt, so abort; a block that was unmapped when it was freed is no longer
    the heap's, and a pointer to it is a stranger's."""
    if fault == "granule" and size == 1000000 and under.preset != "classic":
        pytest.skip("a mapped block begins at the granule")
    if fault == "granule" and under.allocator in ("blocks", "gc"):
        pytest.skip("a block begins at every granule")
    if under.name == "gnu:classic" and fault not in ("interior", "unaligned", "realloc-interior"):
        pytest.skip("the algorithm keeps nothing that would tell")
    if under.name == "knuth:classic" and fault == "aligned-twice":
        pytest.skip("the block has merged with the one below, and its tag is left as it was")
    result = run(under, "bad_pointers", fault, str(size))
    lines = our_lines(result)
    assert len(lines) == 1 and "0x" in lines[0], result.stderr
    if "ignored" not in lines[0] and "copied" not in lines[0]:
        assert result.returncode == -signal.SIGABRT
    elif size < 1000000 or "freed" not in fault and "twice" not in fault:
        pytest.fail(f"a pointer into the heap taken for a stranger's: {lines[0]}")


@pytest.mark.parametrize("size", [40, 5000, 50000])
def test_byte_past_the_end_is_found_where_a_tag_stands(size: int) -> None:
    unders = [under for under in OURS if under.name in ("knuth", "cartesian")]
    if not unders:
        pytest.skip("not among the allocators under test")
    for under in unders:
        result = run(under, "bad_pointers", "past-end", str(size))
        lines = our_lines(result)
        assert len(lines) == 1 and "the tag behind it was overwritten" in lines[0], result.stderr
        assert result.returncode == -signal.SIGABRT


@each_allocator
def test_program_with_its_own_malloc(under: Under) -> None:
    result = run(under, "second_malloc")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "the program's own malloc\n"


@each_allocator
def test_operators_of_a_program_with_its_own_malloc(under: Under) -> None:
    result = run(under, "cxx_second_malloc")
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="session", params=["-pie -fPIE", "-no-pie -fno-pie"])
def takes_addresses(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> str:
    program = tmp_path_factory.mktemp("addresses") / "cxx_addresses"
    compile_and_link("cxx_addresses", program, "-std=c++17", *request.param.split())
    return str(program)


@each_of_ours
def test_an_operator_whose_address_is_taken_is_not_replaced(
    under: Under, takes_addresses: str
) -> None:
    require_success(under.run([takes_addresses], timeout=HANG))


def test_operators_whose_addresses_are_taken_are_told_apart(takes_addresses: str) -> None:
    under = next(under for under in OURS if under.name == "blocks:checked")
    (line,) = our_lines(under.run([takes_addresses, "mismatch"], timeout=HANG))
    assert "freed by another kind of operator" in line


@each_of_ours
def test_own_malloc_of_a_program_is_not_called_before_main(under: Under) -> None:
    result = run(under, "second_malloc", "not-before-main")
    assert result.returncode == 0, result.stderr


@each_of_ours
def test_own_malloc_of_a_program_is_announced(under: Under) -> None:
    lines = our_lines(run(under, "second_malloc"))
    assert len(lines) == 1 and "malloc" in lines[0] and "second_malloc" in lines[0]


@each_allocator
def test_program_whose_malloc_is_built_on_libcs(under: Under) -> None:
    result = run(under, "built_on_libc")
    assert result.returncode == 0, result.stderr


SECOND_ALLOCATORS = {
    "jemalloc": ("libjemalloc.so.2", "mallocx"),
    "mimalloc": ("libmimalloc.so.[23]", "mi_malloc"),
    "tcmalloc": ("libtcmalloc_minimal.so.4", "tc_malloc"),
}


LINKS = {
    "calls": "",
    "pie": "-pie -fPIE -DBY_ADDRESS -Wl,--hash-style=sysv",
    "no-pie": "-no-pie -fno-pie -DBY_ADDRESS",
}


@pytest.fixture(
    scope="session", params=[f"{title} {link}" for title in SECOND_ALLOCATORS for link in LINKS]
)
def calls_second(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """second_allocator.c, linked with one of them and named after it."""
    title, link = str(request.param).split()
    name = SECOND_ALLOCATORS[title][0]
    library = next(Path("/usr/lib/x86_64-linux-gnu").glob(name), None)
    if library is None:
        pytest.skip(f"{name} is not installed")
    program = tmp_path_factory.mktemp("second") / title
    compile_and_link(
        "second_allocator", program, f"-D{title.upper()}", *LINKS[link].split(), str(library)
    )
    return program


@pytest.mark.parametrize("under", ALL, ids=str)
def test_blocks_of_a_second_allocator_go_back_to_it(under: Under, calls_second: Path) -> None:
    result = under.run([str(calls_second)], timeout=HANG)
    assert result.returncode == 0, result.stderr
    if under.is_ours:
        (line,) = our_lines(result)
        name = SECOND_ALLOCATORS[calls_second.name][1]
        assert f"calls {name}" in line and calls_second.name in line


@each_of_ours
def test_another_librarys_functions_are_called_behind_ours(under: Under, tmp_path: Path) -> None:
    program, library = tmp_path / "program", tmp_path / "counts.so"
    compile_and_link("counted_calls", program)
    compile_and_link("counted_calls", library, "-DLIBRARY", "-shared", "-fPIC")
    behind = {"LD_PRELOAD": f"{under.library}:{library}"}
    result = under.run([str(program)], behind, timeout=HANG)
    assert (result.returncode, result.stderr) == (0, "all were seen\n")


# Standard error.


@each_of_ours
def test_reused_standard_error_is_not_written(under: Under, tmp_path: Path) -> None:
    result = run(under, "reused_stderr", str(tmp_path / "database"))
    assert result.returncode == 0
    assert (tmp_path / "database").read_text() == "data"


@each_of_ours
def test_closed_standard_error(under: Under, tmp_path: Path) -> None:
    """Started without descriptor 2: the next file that is opened gets it."""
    script = f"exec {PROGRAMS}/reused_stderr {tmp_path}/database 2>&-"
    result = under.run(["/bin/sh", "-c", script], timeout=HANG)
    assert result.returncode == 0
    assert (tmp_path / "database").read_text() == "data"


@each_of_ours
@pytest.mark.parametrize("others", [[], ["every other descriptor too"]])
def test_statistics_on_a_reused_standard_error(
    under: Under, others: list[str], tmp_path: Path
) -> None:
    """They go to the first standard error while the library's own descriptor is left alone."""
    result = under.run(
        [str(PROGRAMS / "reused_stderr"), str(tmp_path / "database"), *others],
        environment={"ALLOTROPE_STATS": ""},
        timeout=HANG,
    )
    assert result.returncode == 0
    assert (tmp_path / "database").read_text() == "data"
    assert ("peak" in result.stderr) == (others == [])


@each_of_ours
def test_statistics_of_a_program_that_closes_standard_error(under: Under) -> None:
    result = under.run(["/bin/ls", "/"], environment={"ALLOTROPE_STATS": ""}, timeout=HANG)
    assert result.returncode == 0
    assert "peak" in result.stderr


@each_of_ours
def test_statistics_of_forked_children_go_to_files_of_their_own(
    under: Under, tmp_path: Path
) -> None:
    result = under.run(
        ["/bin/bash", "-c", "(exit 0) & wait; (exit 0); true"],
        environment={"ALLOTROPE_STATS": str(tmp_path / "%p.json")},
        timeout=HANG,
    )
    assert result.returncode == 0, result.stderr
    assert len(list(tmp_path.glob("*.json"))) >= 2


# Configuration.

BAD_OPTIONS = [
    "nonsense",
    "bsd:nonsense",
    "bsd:arenas=x",
    "bsd:arenas=-1",
    "bsd:arenas=99999999999999999999999",
    "bsd:arenas=",
    "bsd:=3",
    "bsd:,",
    "bsd:classic,classic=2",
    "BSD",
    ":classic",
]


@pytest.mark.parametrize("text", BAD_OPTIONS)
@pytest.mark.parametrize("program", ["print_main", "start_preinit"])
def test_bad_option_stops_before_main(program: str, text: str) -> None:
    result = Under("bad", LIBRARY, text).run([str(PROGRAMS / program)], timeout=HANG)
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("allotrope: ")


def test_unknown_allocator_lists_what_is_valid() -> None:
    result = Under("bad", LIBRARY, "nonsense").run([str(PROGRAMS / "print_main")], timeout=HANG)
    assert "nonsense" in result.stderr
    for under in OURS:
        assert under.allocator in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="making a setuid copy needs root")
@pytest.mark.parametrize("text", ["nonsense", "bsd:classic", "bsd:nonsense"])
def test_setuid_program_ignores_the_variables_silently(text: str) -> None:
    """ld.so does not preload into privileged programs; one that was linked with the library must
    not let its caller choose, nor write files for him."""
    directory = Path("/tmp") / f"allotrope-setuid-{os.getpid()}"
    directory.mkdir(mode=0o755)
    try:
        shutil.copy(LIBRARY, directory)
        (directory / "liballotrope.so.0").symlink_to("liballotrope.so")  # its soname
        program = directory / "privileged"
        compile_and_link(
            "print_main", program, f"-L{directory}", "-lallotrope", f"-Wl,-rpath,{directory}"
        )
        program.chmod(stat.S_ISUID | 0o755)
        world = directory / "world"
        world.mkdir()
        world.chmod(0o777)
        result = subprocess.run(
            [str(program)],
            user="nobody",
            group="nogroup",
            env={"ALLOTROPE": text, "ALLOTROPE_STATS": f"{world}/%p.json"},
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
        )
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == "main was reached\n"
        assert list(world.iterdir()) == []
    finally:
        shutil.rmtree(directory)


# The library as a file.

PUBLIC_NAMES = set(
    """
    malloc free calloc realloc aligned_alloc memalign posix_memalign valloc pvalloc cfree
    free_sized free_aligned_sized malloc_usable_size
    mallinfo mallinfo2 mallopt malloc_info malloc_stats malloc_trim
    __libc_malloc __libc_free __libc_calloc __libc_realloc __libc_memalign __libc_valloc
    __libc_pvalloc __libc_mallinfo __libc_mallopt __posix_memalign
    _Znwm _Znam _ZnwmSt11align_val_t _ZnamSt11align_val_t _ZnwmRKSt9nothrow_t
    _ZnamRKSt9nothrow_t _ZnwmSt11align_val_tRKSt9nothrow_t _ZnamSt11align_val_tRKSt9nothrow_t
    _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t
    _ZdlPvSt11align_val_t _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t
    _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t
    """.split()
)


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def libraries() -> Iterator[Path]:
    yield from sorted((BUILD / ".libs").glob("liballotrope*.so"))


def compile_and_link(program: str, target: Path, *arguments: str) -> None:
    source = next(Path(__file__).parent.glob(f"{program}.c*"))
    compiler = "g++" if source.suffix == ".cc" else "gcc"
    subprocess.run(
        [compiler, "-D_GNU_SOURCE", f"-I{source.parent.parent.parent}", "-O1", "-fno-builtin"]
        + ["-o", str(target), str(source), *arguments],
        check=True,
    )


def symbols(path: Path, kind: str) -> set[str]:
    lines = output_of("nm", "-D", f"--{kind}", str(path)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_memory_that_cannot_be_perturbed_is_refused_each_time(library: Path) -> None:
    if library.name == "liballotrope.so":
        pytest.skip("it has a route")
    command = [str(PROGRAMS / "tuning"), "refused"]
    result = subprocess.run(command, env={"LD_PRELOAD": str(library)}, timeout=HANG)
    assert result.returncode == 0


# libc's second names of functions that are interposed.
OTHER_NAMES = {"_IO_fwrite", "__nanosleep", "__poll", "__pwrite64", "__send", "__sigaction"}
OTHER_NAMES |= {"__select", "__sigsuspend", "__write"}


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_exports_the_contract_and_nothing_else(library: Path) -> None:
    # A collector must see what the kernel is given to keep, and must not end waits.
    kernel_names = {"epoll_ctl", "mq_notify", "prctl", "pthread_sigqueue", "sigqueue"}
    kernel_names |= {"timer_create", "write"}
    kernel_names |= {"poll", "__poll_chk", "epoll_wait", "epoll_pwait"}
    kernel_names |= {"nanosleep", "clock_nanosleep", "thrd_sleep", "usleep"}
    kernel_names |= {"bind", "setsockopt", "accept", "accept4"}
    kernel_names |= {"recv", "recvfrom", "recvmsg", "__recv_chk", "__recvfrom_chk"}
    kernel_names |= {"send", "sendto", "sendmsg"}
    kernel_names |= {"sendmmsg", "writev", "pwrite", "pwrite64", "vmsplice", "msgsnd", "mq_send"}
    kernel_names |= {"mq_timedsend", "eventfd_write", "fwrite", "fwrite_unlocked", "ioctl"}
    kernel_names |= {"aio_read", "aio_read64", "aio_write", "aio_write64", "aio_fsync"}
    kernel_names |= {"aio_fsync64", "lio_listio", "lio_listio64", "getaddrinfo_a"}
    kernel_names |= {"pwritev", "pwritev64", "pwritev2", "pwritev64v2", "recvmmsg"}
    kernel_names |= {"epoll_pwait2", "semtimedop", "sigtimedwait"}
    kernel_names |= {"ppoll", "__ppoll_chk", "pselect", "sigsuspend", "select", "pause", "sleep"}
    kernel_names |= {"sigwaitinfo", "semop", "msgrcv", "sem_timedwait", "sem_clockwait"}
    kernel_names |= {"aio_suspend", "aio_suspend64", "gai_suspend", "tcdrain"}
    kernel_names |= {"mmap", "mmap64", "mremap", "munmap", "shmat", "shmdt"}
    kernel_names |= {"madvise", "process_madvise", "mprotect", "pkey_mprotect"}
    kernel_names |= {"pidfd_send_signal"}
    kernel_names |= {"pthread_attr_setstack", "pthread_attr_setstackaddr"}
    kernel_names |= {"pthread_attr_setguardsize", "sigaltstack"}
    kernel_names |= {"execl", "execle", "execlp", "execv", "execve", "execveat", "execvp"}
    kernel_names |= {"execvpe", "fexecve"}
    kernel_names |= {"unshare", "setns", "setuid", "seteuid", "setreuid", "setresuid"}
    kernel_names |= {"setgid", "setegid", "setregid", "setresgid", "setgroups"}
    # An allocator may have a handler of faults in front of the program's, or hear of returns.
    kernel_names |= {"siginterrupt"}
    kernel_names |= OTHER_NAMES
    kernel_names |= {"sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal"}
    kernel_names |= {"__sysv_signal", "__sigaction", "sigset", "sigignore"}
    kernel_names |= {"fork", "__fork"}
    kernel_names |= {"dlopen"}  # a library must not find another malloc than the program's
    # What include/allotrope/gc.h promises, for whoever chooses the collector.
    asked = "collect malloc_pointer_free add_roots remove_roots pin unpin walk read_statistics"
    kernel_names |= {f"allotrope_gc_{name}" for name in asked.split()}
    expected = PUBLIC_NAMES | (kernel_names if library.name == "liballotrope.so" else set())
    assert symbols(library, "defined-only") == expected


def test_each_name_that_libc_has_for_an_interposed_function_is_interposed() -> None:
    """But for those that only libc's own libraries may link."""
    (libc,) = re.findall(r"=> (\S*/libc\.so\S*) ", output_of("ldd", str(LIBRARY)))
    names: dict[str, set[str]] = {}
    command = ["nm", "-D", "--defined-only", "--with-symbol-versions", libc]
    for line in output_of(*command).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "TW" and "GLIBC_PRIVATE" not in line:
            names.setdefault(fields[0], set()).add(fields[2].split("@")[0])
    ours = symbols(LIBRARY, "defined-only")
    for same in names.values():
        assert not same & ours or same <= ours
    assert OTHER_NAMES <= set.union(*names.values())


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_imports_nothing_that_allocates(library: Path) -> None:
    """Not the dynamic thread-local accessor, nor stdio but for malloc_info's fprintf, nor what
    starts by asking for memory or memorises the process."""
    imported = symbols(library, "undefined-only")
    assert "__tls_get_addr" not in imported
    forbidden = {"dlopen", "fopen", "open", "printf", "getenv", "sysconf", "atexit", "getpid"}
    forbidden |= {"prctl", "sbrk", "brk", "getrandom", "sigaction", "pthread_mutex_lock"}
    assert imported & forbidden == set()


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_has_no_indirect_functions(library: Path) -> None:
    """An IFUNC resolver runs before the program is relocated, and crashes it."""
    assert "IFUNC" not in output_of("readelf", "--wide", "--dyn-syms", str(library))


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_calls_no_function_of_its_own_by_its_public_name(library: Path) -> None:
    """But for those of which it matters who serves them: what C++ builds its operators on."""
    relocations = output_of("readelf", "--wide", "--relocs", str(library))
    called = re.findall(r"R_X86_64_(?:JUMP_SLOT|GLOB_DAT) +[0-9a-f]+ ([^@ ]+)", relocations)
    replaceable = {"malloc", "free", "aligned_alloc"}
    for operator in ("_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"):
        replaceable |= {operator, f"{operator}St11align_val_t"}
    assert set(called) & symbols(library, "defined-only") <= replaceable


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_has_no_instruction_that_a_processor_may_lack(library: Path) -> None:
    """Virtual machines of the models qemu64 and kvm64 have no rdtscp."""
    lines = output_of("objdump", "--disassemble", "--no-show-raw-insn", str(library)).splitlines()
    used = {fields[1] for line in lines if len(fields := line.split()) > 1}
    assert "rdtsc" in used and "rdtscp" not in used


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_thread_local_state_is_small_and_static(library: Path) -> None:
    headers = output_of("readelf", "--wide", "--program-headers", str(library)).splitlines()
    sizes = [int(line.split()[5], 16) for line in headers if line.split()[:1] == ["TLS"]]
    assert sum(sizes) <= 64
    if sizes:
        assert "STATIC_TLS" in output_of("readelf", "--dynamic", str(library))


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_is_never_unloaded(library: Path) -> None:
    assert "NODELETE" in output_of("readelf", "--dynamic", str(library))


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_needs_nothing_but_libc(library: Path) -> None:
    dynamic = output_of("readelf", "--dynamic", str(library))
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2"}


@pytest.mark.parametrize("library", libraries(), ids=lambda path: path.name)
def test_library_opened_late_and_closed(library: Path) -> None:
    """Too late to serve the program, which it says once; and of no harm."""
    result = run(GLIBC, "tls_late_open", str(library))
    assert (result.returncode, len(our_lines(result))) == (0, 1), result.stderr


def defined_in_members(archive: str) -> dict[str, set[str]]:
    """Global symbols that each member of an archive defines."""
    members: dict[str, set[str]] = {}
    member = ""
    for line in output_of("nm", "--defined-only", "--extern-only", archive).splitlines():
        if line.endswith(":"):
            member = line[:-1]
        elif line:
            members.setdefault(member, set()).add(line.split()[-1])
    return members


def test_archive_replaces_all_of_libc_malloc() -> None:
    """One member defines every public name of libc.a's malloc.o, so that no call of any of them
    pulls that in."""
    libc = output_of("gcc", "-print-file-name=libc.a").strip()
    theirs = {
        name
        for name in defined_in_members(libc)["malloc.o"]
        if not name.startswith("_") or name in PUBLIC_NAMES
    }
    assert "malloc_trim" in theirs
    best = max(defined_in_members(str(ARCHIVE)).values(), key=lambda names: len(names & theirs))
    assert theirs - best == set()


def test_the_archive_needs_no_dlsym() -> None:
    """Where nothing can be found it fails, allocates, and leaves its mark in dlerror()."""
    listed = subprocess.run(["nm", "-A", str(ARCHIVE)], capture_output=True, text=True, check=True)
    needed = [line for line in listed.stdout.splitlines() if line.endswith(" U dlsym")]
    assert needed == []


@pytest.fixture(scope="session")
def static_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("static") / "static_program"
    compile_and_link("static_program", program, "-static", "-pthread", str(ARCHIVE))
    return program


def run_static(program: Path, choice: str) -> "subprocess.CompletedProcess[str]":
    """With nothing else in its environment."""
    return subprocess.run(
        [str(program)],
        env={"ALLOTROPE": choice},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )


def test_a_static_program_told_to_pass_calls_on_serves_itself(static_program: Path) -> None:
    """A watched command's environment says so to all its programs."""
    result = run_static(static_program, "next")
    said = "allotrope: ALLOTROPE=next: static_program has no other malloc (it is linked statically)"
    assert (result.returncode, result.stderr) == (0, f"{said}, so blocks serves it\n")


def test_addresses_that_a_sanitizer_uses_are_no_lack_of_memory(tmp_path: Path) -> None:
    program = tmp_path / "sanitized"
    options = ["-fsanitize=address", "-static-libasan", "-x", "c", "-", "-o", str(program)]
    built = subprocess.run(["gcc", *options], input=b"int main(void) { return 0; }")
    if built.returncode != 0:
        pytest.skip("the static address sanitizer is not installed")
    result = Under("blocks", LIBRARY, "blocks").run([str(program)], timeout=HANG)
    assert result.returncode == 2
    assert our_lines(result) == [
        "allotrope: sanitized has the addresses of a heap in use, as what is built with a "
        "sanitizer does, and cannot be served"
    ]


def test_sites_of_a_static_program(static_program: Path, tmp_path: Path) -> None:
    sites = tmp_path / "sites.json"
    environment = {"ALLOTROPE_SITES": str(sites), "ALLOTROPE_SITES_RATE": "1"}
    result = subprocess.run(
        [str(static_program)], env=environment, capture_output=True, timeout=HANG
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert sites.stat().st_size > 0


@pytest.mark.parametrize("spec", ["", *(under.spec for under in OURS)])
def test_a_static_program_uses_the_archive(spec: str, static_program: Path) -> None:
    result = run_static(static_program, spec)
    assert (result.returncode, result.stdout) == (0, "a static program\n"), result.stderr
    assert result.stderr == ""


def test_a_static_program_replaces_some_operators(tmp_path: Path) -> None:
    program = tmp_path / "replaced"
    compile_and_link("cxx_replaced", program, "-std=c++17", "-static", str(ARCHIVE))
    assert run_static(program, "blocks").returncode == 0


def test_static_program_stops_at_a_bad_option(static_program: Path) -> None:
    result = run_static(static_program, "nonsense")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
