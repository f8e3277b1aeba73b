# SPDX-License-Identifier: MIT
"""The runtime of docs/barriers.md: every write barrier does the same work, finds the same heap
sound, and is the only difference between the programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import pytest
from under import BUILD, HANG, SOURCE

RUNTIME = BUILD / "bench_programs" / "runtime"
SOURCES = SOURCE / "bench_programs" / "runtime"
CARDS = (16, 64, 256, 512, 1024, 4096)
BARRIERS = [
    "remsets",
    *(f"cards-{size}" for size in CARDS),
    *(f"scan-{size}" for size in CARDS),
    "pages",
    "oracle",
    "kernel",
]
NO_KERNEL = "the kernel|userfault|Linux"  # it refuses to tell dirty pages: nothing to test

# A small Destroy, which stores by each instruction and primitive that can.
SMALL = """
class Tree Object left right
def left
    ^left
def left: tree
    left := tree
class Main Object tree all
def run: scale
    | system |
    system := System new.
    tree := self build: 11.
    system beginMeasuring.
    all := Table new.
    all init.
    scale timesRepeat: [
        1 to: 60 do: [:i |
            self replace: (system random: 1024).
            Kept := tree.
            all at: i printString put: tree left]].
    ^all size + (self count: tree)
def build: height
    | t |
    t := Tree new.
    height > 0 ifTrue: [
        t left: (self build: height - 1).
        t fieldAt: 2 put: (self build: height - 1)].
    ^t
def replace: number
    | t path |
    t := tree.
    path := number.
    1 to: 6 do: [:i |
        t := t fieldAt: path \\\\ 2 + 1.
        path := path // 2].
    t left: (self build: 4).
    t fieldAt: 2 put: (self build: 3)
def count: t
    ^t isNil ifTrue: [0] ifFalse: [(self count: t left) + (self count: (t fieldAt: 2)) + 1]
class Kept Object
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("runtime") / "small.st"
    file.write_text(SMALL)
    return file


def words_of(program: Path, source: Path, *options: str) -> list[str]:
    return [str(program), str(SOURCES / "kernel.st"), str(source), *options]


def run(command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
    if not Path(command[0]).exists():
        pytest.skip(f"{command[0]} is not built: run make")
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=HANG, check=False, **settings
    )
    if "kernel" in command[0] and done.returncode == 4 and re.search(NO_KERNEL, done.stderr):
        pytest.skip(done.stderr.strip())
    return done


def result_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def barrier_options(barrier: str, source: Path, folder: Path, *options: str) -> list[str]:
    """The oracle needs a record, which a run with page traps writes."""
    if barrier != "oracle":
        return list(options)
    record = f"file={folder / 'dirty-pages'}"
    result_of(run(words_of(RUNTIME / "run-pages", source, *options, record)))
    return [*options, record]


def run_barrier(barrier: str, source: Path, folder: Path, *options: str) -> dict[str, Any]:
    options = tuple(barrier_options(barrier, source, folder, *options))
    return result_of(run(words_of(RUNTIME / f"run-{barrier}", source, *options)))


def run_interactive(barrier: str, *options: str) -> dict[str, Any]:
    names = ("kernel", "compiler", "interactive")
    files = [str(SOURCES / f"{name}.st") for name in names]
    return result_of(run([str(RUNTIME / f"run-{barrier}"), *files, *options]))


SAME = ("result", "scavenges", "store_checks", "survived_bytes", "promoted_bytes", "old_bytes")


@pytest.mark.parametrize("barrier", BARRIERS)
def test_every_barrier_finds_the_same_and_a_sound_heap(
    small: Path, tmp_path: Path, barrier: str
) -> None:
    options = ("scale=4", "young=32000", "verify=1")
    expected = run_barrier("remsets", small, tmp_path, *options)
    found = run_barrier(barrier, small, tmp_path, *options)
    assert found["scavenges"] > 20
    assert {name: found[name] for name in SAME} == {name: expected[name] for name in SAME}
    assert (found["traps"] > 0) == (barrier == "pages")
    assert (found["dirty"] > 0) == (barrier != "remsets")
    assert (found["remembered"] > 0) == (not barrier.startswith("scan-"))


PROGRAMS = {
    "interactive": ("compiler.st", "interactive.st", "young=520000"),
    "json": ("json.st", "young=520000"),
}


def run_larger(barrier: str, program: str, folder: Path) -> dict[str, Any]:
    first, *others = PROGRAMS[program]
    more = [str(SOURCES / one) if one.endswith(".st") else one for one in others]
    found = run_barrier(barrier, SOURCES / first, folder, *more, "old=16", "verify=1")
    return {name: found[name] for name in SAME}


@pytest.fixture(scope="module", params=PROGRAMS)
def larger(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Any]]:
    """A program, and what remsets find."""
    return request.param, run_larger("remsets", request.param, tmp_path_factory.mktemp("larger"))


@pytest.mark.parametrize("barrier", BARRIERS)
def test_every_barrier_runs_the_larger_programs_with_a_sound_heap(
    tmp_path: Path, larger: tuple[str, dict[str, Any]], barrier: str
) -> None:
    program, expected = larger
    assert expected["scavenges"] > 20
    assert run_larger(barrier, program, tmp_path) == expected


def test_destroy_is_of_the_papers_size(tmp_path: Path) -> None:
    """Hosking & Moss 1993, table 1: 59,646 checks, 864 traps; 3.2.2: 160 collections."""
    found = run_barrier("pages", SOURCES / "destroy.st", tmp_path)
    assert found["result"] == 65535
    assert found["store_checks"] == 59661
    assert found["scavenges"] == 160
    assert 0.9 * 864 < found["traps"] < 1.1 * 864


def test_interactive_is_of_the_papers_size(tmp_path: Path) -> None:
    """137 collections, within a factor of 2 of 4,775 store checks in each."""
    found = run_interactive("pages", "young=520000")
    assert found["scavenges"] == 137
    assert 4775 / 2 < found["store_checks"] / 137 < 4775 * 2


# Compiles all methods anew and answers how many there are, a million for each that differs.
COMPILE_ALL = """
class Main Object
def run: scale
    | compiler sum |
    compiler := Compiler new.
    compiler init.
    sum := 0.
    Classes do: [:class |
        class isNil ifFalse: [
            1 to: class methodCount do: [:i |
                sum := sum + 1.
                (class methodAt: i) = (compiler compile: (class methodAt: i) source in: class)
                    ifFalse: [sum := sum + 1000000]]]].
    ^sum
"""


@pytest.mark.parametrize("broken", [False, True])
def test_the_compiler_in_the_language_emits_what_the_bootstrap_compiler_does(
    tmp_path: Path, broken: bool
) -> None:
    """For each method that there is, its own included."""
    texts = [(SOURCES / f"{name}.st").read_text() for name in ("kernel", "compiler", "interactive")]
    texts[1] = texts[1].replace("code addByte: first", "code addByte: 0", int(broken))
    texts[2] = texts[2].replace("class Main", "class Interactive")
    texts.append(COMPILE_ALL)
    files = [tmp_path / f"{number}.st" for number in range(len(texts))]
    for file, text in zip(files, texts):
        file.write_text(text)
    found = result_of(run([str(RUNTIME / "run-remsets"), *map(str, files), "verify=1"]))
    assert found["result"] % 1000000 == sum(text.count("\ndef ") for text in texts)
    assert (found["result"] > 1000000) == broken


def test_json_is_transformed_as_python_does_it(tmp_path: Path) -> None:
    source = (SOURCES / "json.st").read_text()
    shown = "self show: text. self show: (self transformed: text). random endMeasuring"
    (tmp_path / "json.st").write_text(source.replace("random endMeasuring", shown))
    kernel = SOURCES / "kernel.st"
    done = run([str(RUNTIME / "run-cards-512"), str(kernel), str(tmp_path / "json.st"), "verify=1"])
    assert done.returncode == 0, done.stderr
    text, found, _ = done.stdout.splitlines()
    expected: dict[str, list[Any]] = {}
    for order in json.loads(text):
        for item in order["items"]:
            item["sum"] = item["count"] * item["price"]
        order["total"] = sum(item["sum"] for item in order["items"])
        expected.setdefault(order["customer"], []).append(order)
    for orders in expected.values():
        total = sum(order["total"] for order in orders)
        orders.append({"orders": len(orders), "total": total})
    assert len(expected) > 30
    assert json.loads(found) == expected


def test_an_oracle_without_its_whole_record_says_so(small: Path, tmp_path: Path) -> None:
    options = barrier_options("oracle", small, tmp_path, "young=32000")
    record = tmp_path / "dirty-pages"
    record.write_bytes(record.read_bytes()[:-8])
    done = run(words_of(RUNTIME / "run-oracle", small, *options))
    assert done.returncode == 4
    assert done.stderr == "runtime: the record of dirty pages is short, or cannot be written\n"


@pytest.mark.parametrize("argument", ["scale=0", "young=", "speed=1", "old=1x"])
def test_bad_argument_is_named_in_one_line(small: Path, argument: str) -> None:
    done = run(words_of(RUNTIME / "run-remsets", small, argument))
    assert done.returncode == 2
    assert f"bad argument '{argument}'; give " in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


DECLARED = "class Main Object\n"
NO_END = "does not end in its method; close it with"
DAMAGED = [
    (f'{DECLARED}def run: scale\n    "not closed\n    ^1\n', f'3: a comment {NO_END} "'),
    (f"{DECLARED}def run: scale\n    ^'not closed", f"3: a string {NO_END} '"),
    (f"{DECLARED}def run: scale\n    ^'not ''closed''\n", f"3: a string {NO_END} '"),
    (f"{DECLARED}def a\n    ^'b\ndef run: scale\n    ^'c'\n", f"3: a string {NO_END} '"),
    (f'{DECLARED}def a\n    "b\ndef run: scale\n    "c" ^1\n', f'3: a comment {NO_END} "'),
    (f"{DECLARED}def run: scale\n    ^", "3: an expression is missing at the end of the method"),
    (f"{DECLARED}def run: scale\n    ^(1\n", "3: ) is missing at the end of the method"),
    (f"{DECLARED}def run: scale\n    ^a\n", "3: an unknown variable: a"),
    ("rubbish\n", "1: no line begins with class, bytes or def; give a source file"),
    ("", "1: no line begins with class, bytes or def; give a source file"),
    (f"{DECLARED}\0def run: scale", "2: a zero byte; give a source file, which is text"),
    ("def run: scale\n    ^1\n", "1: a method before the first class; put the class before it"),
    ("\nclass Main\n", "2: give a name and a superclass"),
    (
        "class Other Object\ndef run: scale\n    ^1\n",
        " no class Main with a method run:; give the program's file last",
    ),
    (
        f"{DECLARED}def walk: scale\n    ^1\n",
        " no class Main with a method run:; give the program's file last",
    ),
]


@pytest.mark.parametrize("text, said", DAMAGED)
def test_what_is_wrong_with_a_source_file_is_said_in_one_line(
    tmp_path: Path, text: str, said: str
) -> None:
    source = tmp_path / "program.st"
    source.write_text(text)
    files = [str(source)] if text.startswith("def ") else [str(SOURCES / "kernel.st"), str(source)]
    done = run([str(RUNTIME / "run-remsets"), *files])
    assert done.returncode == 2
    assert done.stderr == f"runtime: {source}:{said}\n" and not done.stdout


def test_what_is_no_file_is_named_in_one_line(tmp_path: Path) -> None:
    for source in (tmp_path, tmp_path / "missing.st"):
        done = run(words_of(RUNTIME / "run-remsets", source))
        assert done.returncode == 2
        assert done.stderr == f"runtime: {source} cannot be read; give a source file\n"
    done = run([str(RUNTIME / "run-remsets"), "scale=1"])
    assert done.returncode == 2 and done.stderr.startswith("run-remsets: no source file; give ")


KINDS = ["integer_into_old", "old_into_old", "young_into_old", "young_into_young"]


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_the_loop_of_stores_measures_each_kind_or_one(kind: str | None) -> None:
    found = result_of(run([str(RUNTIME / "loop-cards-512"), "1", *([kind] if kind else [])]))
    assert list(found) == ["barrier", *(f"{one}_ns" for one in ([kind] if kind else KINDS))]
    assert all(isinstance(found[f"{one}_ns"], float) for one in KINDS if kind in (None, one))


@pytest.mark.parametrize(
    "words, bad",
    [
        (["0"], "0"),
        (["x"], "x"),
        (["-1"], "-1"),
        (["1x"], "1x"),
        (["1000001"], "1000001"),
        (["1", "integer"], "integer"),
        (["1", KINDS[0], KINDS[1]], KINDS[1]),
    ],
)
def test_a_bad_argument_of_the_loop_is_named_in_one_line(words: list[str], bad: str) -> None:
    done = run([str(RUNTIME / "loop-cards-512"), *words])
    assert done.returncode == 2
    start = f"loop-cards-512: bad argument '{bad}'; give [MILLIONS=1..1000000 [KIND]], KIND one of "
    assert done.stderr == start + " ".join(KINDS) + "\n"
    assert not done.stdout


# Barriers are the only difference.

MUTATOR = ("interpret.c", "image.c", "compile.c", "heap.c")
# Of these files what the collector and the barriers ask, and the start, which reads the arguments.
APART = {"visit_slots", "object_at", "take_old", "starts_object", "heap_reserve", "image_load"}


def store_ranges(program: Path) -> list[tuple[int, int]]:
    """Where the instructions of stores are, as barrier.h notes it."""
    command = ["objcopy", "-O", "binary", "--only-section=stores", str(program), "/dev/stdout"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return list(zip(words[::2], words[1::2]))


NOP = re.compile(r"\bnop[lw]?\b|\bxchg +%ax,%ax")


def nops(program: Path) -> set[int]:
    """What fills the room before a place that the compiler aligns: how much depends on what lies
    before it, and a program may run through it."""
    text = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(program)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = re.findall(r"^ *([0-9a-f]+):\t(.*)$", text, re.MULTILINE)
    return {int(address, 16) for address, what in lines if NOP.search(what)}


def costs(profile: Path) -> Iterator[tuple[str, str, int, int]]:
    """File and name of a function, an instruction's address, how often it was executed."""
    file = name = ""
    is_call = False
    for line in profile.read_text().splitlines():
        if line.startswith("fl="):
            file = line[3:].rsplit("/", 1)[-1]
        elif line.startswith("fn="):
            name = line[3:]
        elif line.startswith("calls="):
            is_call = True
        elif line.startswith("0x"):
            address, _, count = line.split()
            if not is_call:
                yield file, name, int(address, 16), int(count)
            is_call = False


def instructions(
    program: Path, source: Path, folder: Path, *options: str
) -> tuple[Counter[str], int, int]:
    """By function of the mutator, what was executed outside stores; what was executed in stores;
    how many stores there were."""
    valgrind = shutil.which("valgrind")
    if not valgrind or not shutil.which("objcopy") or not shutil.which("objdump"):
        pytest.skip("valgrind, objcopy or objdump is missing")
    profile = folder / "callgrind.out"
    settings = ["--tool=callgrind", "--dump-instr=yes", "--compress-strings=no"]
    settings += ["--compress-pos=no", f"--callgrind-out-file={profile}"]
    environment = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    run_words = [valgrind, *settings, *words_of(program, source, *options)]
    result_of(run(run_words, env=environment))
    ranges = store_ranges(program)
    padding = nops(program)
    outside: Counter[str] = Counter()
    inside = stores = 0
    for file, name, address, count in costs(profile):
        if any(start <= address < end for start, end in ranges):
            inside += count
            stores += count * any(start == address for start, _ in ranges)
        elif file in MUTATOR and name not in APART and address not in padding:
            outside[name] += count
    return outside, inside, stores


@pytest.fixture(scope="module")
def without_barrier(
    small: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Counter[str], int, int]:
    folder = tmp_path_factory.mktemp("callgrind")
    options = barrier_options("oracle", small, folder, "young=32000")
    return instructions(RUNTIME / "run-oracle", small, folder, *options)


# Instructions of one store, where that is the same for all: the store itself, and the barrier's.
PER_STORE = {"cards": 5, "scan": 5, "oracle": 1}


# Callgrind does not go on precisely behind a trap, and Valgrind does not know PAGEMAP_SCAN.
UNSEEN = ("pages", "kernel")


@pytest.mark.parametrize("barrier", UNSEEN)
def test_barriers_of_the_system_have_the_code_of_the_oracle(barrier: str, tmp_path: Path) -> None:
    """So what is shown for the oracle holds for them."""
    code = []
    for name in (barrier, "oracle"):
        program = RUNTIME / "objects" / f"{name}-interpret.o"
        if not program.exists() or not shutil.which("objcopy"):
            pytest.skip(f"{program} is not built, or objcopy is missing")
        text = tmp_path / name
        command = ["objcopy", "-O", "binary", "--only-section=.text*", str(program), str(text)]
        subprocess.run(command, check=True)
        code.append(text.read_bytes())
    assert len(code[0]) > 1000
    assert code[0] == code[1]


@pytest.mark.parametrize("barrier", [name for name in BARRIERS if name not in UNSEEN])
def test_instructions_outside_stores_are_equal_to_the_last_one(
    small: Path,
    tmp_path: Path,
    without_barrier: tuple[Counter[str], int, int],
    barrier: str,
) -> None:
    expected, _, stores_expected = without_barrier
    options = barrier_options(barrier, small, tmp_path, "young=32000")
    outside, inside, stores = instructions(RUNTIME / f"run-{barrier}", small, tmp_path, *options)
    assert stores == stores_expected > 3000
    assert outside["interpret"] > 100000
    assert outside == expected
    kind = barrier.split("-")[0]
    if kind in PER_STORE:
        assert inside == PER_STORE[kind] * stores
    else:  # a store of an integer ends at the first filter, one to be remembered at the call
        assert 3 * stores < inside < 10 * stores


# Link orders.

COMMON = ("heap", "scavenge", "verify", "remembered_set", "policy")
INTERPRETER = ("image", "compile", "main")
OBJECTS = RUNTIME / "objects"
COMMON_OBJECTS = [OBJECTS / f"{name}.o" for name in (*COMMON, *INTERPRETER)]
ORDERS = range(1, 31)
LINKED = (1, 2)  # of which the programs are looked at


def symbols(file: Path) -> set[tuple[str, int]]:
    """Names with addresses of what is defined there; not what a policy may replace."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is missing")
    done = run([nm, "--defined-only", str(file)])
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {(name, int(address, 16)) for address, kind, name in lines if kind in "bBdDrRtT"}


def names(*files: Path) -> set[str]:
    return {name for file in files for name, _ in symbols(file)}


def ordered(barrier: str, number: int) -> Path:
    """A program in a link order; `make` builds the first only, so others are linked now."""
    program = RUNTIME / f"run-{barrier}{f'-order{number}' if number > 1 else ''}"
    if not program.exists() and (BUILD / "Makefile").exists() and shutil.which("make"):
        environment = {name: text for name, text in os.environ.items() if "MAKE" not in name}
        command = ["make", "-s", str(program.relative_to(BUILD))]
        subprocess.run(command, cwd=BUILD, env=environment, check=True, timeout=HANG)
    return program


def common_addresses(barrier: str, number: int) -> set[tuple[str, int]]:
    """Of the mutator and all that is not of the policy."""
    program = ordered(barrier, number)
    if not program.exists():
        pytest.skip(f"{program} is not built: run make")
    common = names(*COMMON_OBJECTS, OBJECTS / f"{barrier}-interpret.o")
    common -= names(OBJECTS / f"{barrier}-policy.o")
    return {(name, address) for name, address in symbols(program) if name in common}


@pytest.mark.parametrize("number", LINKED)
@pytest.mark.parametrize("barrier", UNSEEN)
def test_mutators_that_are_the_same_code_lie_at_the_same_addresses(
    barrier: str, number: int
) -> None:
    """So that pages less oracle is what traps cost, and not where code and data lie."""
    expected = common_addresses("oracle", number)
    assert {"interpret", "scavenge", "heap", "image", "main"} <= {name for name, _ in expected}
    assert len(expected) > 60
    assert expected - common_addresses(barrier, number) == set()


def test_a_link_order_moves_code_and_data() -> None:
    """Within a page, most of what there is: an object may come to lie where it was by chance."""
    first, other = (dict(common_addresses("oracle", number)) for number in LINKED)
    moved = [name for name in first if first[name] % 4096 != other[name] % 4096]
    assert len(moved) > 0.8 * len(first)


def layout(awk: str, number: int, objects: list[str]) -> list[list[str]]:
    """Each object, its gaps before it."""
    command = [awk, "-v", f"order={number}", "-v", "pads=P", "-f", str(SOURCES / "layout.awk")]
    done = run([*command, *objects])
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def gap(words: list[str], kind: str) -> int:
    found = [re.fullmatch(rf"P/pad-{kind}-(\d+)\.o", word) for word in words]
    return sum(int(one[1]) for one in found if one)


def test_link_orders_are_thirty_and_the_same_in_every_awk() -> None:
    awks = [
        found for name in ("awk", "mawk", "gawk", "original-awk") if (found := shutil.which(name))
    ]
    objects = [f"{letter}.o" for letter in "abcdefghi"]
    orders = []
    for number in ORDERS:
        found = [layout(awk, number, objects) for awk in awks]
        assert all(one == found[0] for one in found)
        orders.append(found[0])
        assert sorted(words[-1] for words in found[0]) == objects
    assert len({tuple(words[-1] for words in order) for order in orders}) == len(ORDERS)
    for kind in ("code", "data"):
        gaps = [gap(words, kind) for order in orders for words in order]
        assert all(size % 16 == 0 and 0 <= size < 4096 for size in gaps)
        assert len(set(gaps)) > 100  # of 256 sizes, drawn 270 times: about 167
        assert 1700 < sum(gaps) / len(gaps) < 2400


# Random mutators against a model, and all of the runtime under sanitizers.

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=gnu11", "-O1", "-g", "-fno-pie", "-mno-red-zone", "-D_GNU_SOURCE", f"-I{SOURCE}"]
# What the kernel's dirty pages need of the native wing.
NATIVE = [
    *(f"vm/kernel/{name}.c" for name in ("dirty", "kept", "maps", "process")),
    *(f"vm/{name}.c" for name in ("pages", "metadata", "private_memory", "lock", "message")),
    *(f"vm/{name}.c" for name in ("write", "granule_map", "window", "freeze", "fork_chain")),
    "vm/deferred.c",
]


def store_flags(barrier: str) -> list[str]:
    """As runtime.am gives them."""
    kind, _, size = barrier.partition("-")
    flags = {
        "remsets": ["-DBARRIER=BARRIER_REMSETS"],
        "cards": ["-DBARRIER=BARRIER_CARDS", f"-DCARD_BYTES={size}"],
        "scan": ["-DBARRIER=BARRIER_CARDS", f"-DCARD_BYTES={size}", "-DPURE_SCAN"],
        "oracle": ["-DORACLE"],
    }
    return flags.get(kind, [])


def policy_file(barrier: str) -> str:
    kind = barrier.split("-")[0]
    return f"policy_{dict(scan='cards', oracle='pages').get(kind, kind)}.c"


class Workshop:
    """Builds programs of the runtime with other flags; what is common is compiled once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def compiled(self, source: Path, name: str, flags: list[str]) -> str:
        made = self.folder / f"{name}.o"
        if not made.exists():
            compiler = os.environ.get("CC", "gcc").split()
            command = [*compiler, *FLAGS, *SANITIZERS, *flags, "-c", "-o", str(made), str(source)]
            subprocess.run(command, check=True, timeout=HANG)
        return str(made)

    def program(self, barrier: str, mutator: Path, common: tuple[str, ...], *more: str) -> Path:
        made = self.folder / f"{mutator.stem}-{barrier}{''.join(more)}"
        flags = [*store_flags(barrier), *more]
        objects = [self.compiled(SOURCES / f"{name}.c", name, []) for name in common]
        for source in (mutator, SOURCES / policy_file(barrier)):
            objects.append(self.compiled(source, f"{made.name}-{source.stem}", flags))
        if barrier == "kernel":
            native = [SOURCE / name for name in NATIVE]
            objects += [self.compiled(file, f"vm-{file.stem}", []) for file in native]
        command = [*os.environ.get("CC", "gcc").split(), "-no-pie", *SANITIZERS]
        subprocess.run([*command, "-o", str(made), *objects, "-lpthread"], check=True, timeout=HANG)
        return made

    def random_mutator(self, barrier: str, *more: str) -> Path:
        mutator = SOURCE / "tests" / "bench_programs" / "random_mutator.c"
        return self.program(barrier, mutator, COMMON, *more)

    def runner(self, barrier: str, *more: str) -> Path:
        return self.program(barrier, SOURCES / "interpret.c", COMMON + INTERPRETER, *more)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("sanitized"))


def mutate(
    workshop: Workshop, barrier: str, seed: int, folder: Path, *more: str
) -> subprocess.CompletedProcess[str]:
    words = [str(seed), "30000"]
    if barrier == "oracle":
        words.append(str(folder / "record"))
        recorder = str(workshop.random_mutator("pages"))
        result_of(run([recorder, *words]))
        if more:  # an oracle that does not know everything: it says that no page is dirty
            scavenges = len((folder / "record").read_bytes()) // 4
            (folder / "record").write_bytes(bytes(4 * scavenges))
    program = workshop.random_mutator(barrier, *(() if barrier == "oracle" else more))
    return run([str(program), *words])


@pytest.mark.parametrize("barrier", BARRIERS)
def test_random_changes_leave_the_heap_as_the_model(
    workshop: Workshop, tmp_path: Path, barrier: str
) -> None:
    found = [result_of(mutate(workshop, barrier, seed, tmp_path)) for seed in (1, 2)]
    assert found == [result_of(mutate(workshop, "remsets", seed, tmp_path)) for seed in (1, 2)]
    assert found[0] != found[1]
    assert all(each["scavenges"] > 30 for each in found)


BROKEN = ["remsets", "cards-512", "scan-64", "pages", "oracle", "kernel"]


@pytest.mark.parametrize("barrier", BROKEN)
def test_a_broken_barrier_is_found(workshop: Workshop, tmp_path: Path, barrier: str) -> None:
    done = mutate(workshop, barrier, 1, tmp_path, "-DBARRIER_BROKEN")
    assert done.returncode == 3
    assert re.search("a slot holds no object|the barrier does not know", done.stderr)


@pytest.mark.parametrize("barrier", [*BROKEN, "cards-16", "cards-4096"])
def test_a_program_runs_under_sanitizers(
    workshop: Workshop, small: Path, tmp_path: Path, barrier: str
) -> None:
    options = barrier_options(barrier, small, tmp_path, "young=32000", "verify=1")
    found = result_of(run(words_of(workshop.runner(barrier), small, *options)))
    assert found["scavenges"] > 5
