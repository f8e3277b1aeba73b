# SPDX-License-Identifier: MIT
"""allotrope/gc.h in programs: the examples and api_calls.c, built from what is installed.

An example runs without the library, with it preloaded, linked with it, and linked statically."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

import pytest
from under import BUILD, HANG, SOURCE, allocators_under_test, plain_environment

EXAMPLES = sorted((SOURCE / "examples").glob("*.c"))
CALLS = SOURCE / "tests" / "gc" / "api_calls.c"
CASES = (
    "arguments hidden pointer-free statistics walk walk-calls walk-ends walk-without-memory "
    "threads forks fork-handlers forks-beside-threads"
).split()
OURS = [under.spec for under in allocators_under_test() if under.spec]
COLLECTORS = [
    "gc:free=ignore",
    "gc:leaks=collect",
    "gc:free=quarantine",
    "gc:leaks=report",
    "gc:leaks=watch",
    "gc:free=ignore,leaks=keep",
    "gc:classic",
    "gc:free=ignore,leaks=collect,generations=2,verify=on,every=300",
    "gc:leaks=collect,generations=2,concurrent=on,verify=on,every=300",
]
SPECS = list(dict.fromkeys([*OURS, *COLLECTORS, "next"]))
# The heap itself needs memory to be walked, and is walked as far as there is some.
WALKS_WITH_MEMORY = {"bsd", "bsd:classic"}

# The last lines, where a collector is at work, and where none is.
TOLD = {
    "collect_now": ("collection: done\nreclaimed: most\n", "reclaimed: nothing\n"),
    "heap_walk": ("our blocks: all found\n",) * 2,
    "hidden_pointers": ("1000 nodes, sum 499500\n",) * 2,
    "pointer_free": ("500000 pixels, sum 63746416\n",) * 2,
    "roots": ("512 names\n",) * 2,
}
ABSENT = TOLD | {"heap_walk": ("no library\n",) * 2}


def make(target: str, folder: Path) -> None:
    environment = {
        name: value for name, value in plain_environment().items() if not name.startswith("MAKE")
    }
    line = ["make", "-s", "-C", str(BUILD), target, f"DESTDIR={folder}"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr


def one(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


@dataclass(frozen=True)
class Installed:
    root: Path

    @property
    def library(self) -> Path:
        return one(self.root, "liballotrope.so")

    @property
    def include(self) -> Path:
        return one(self.root, "allotrope/gc.h").parent.parent

    def flags(self, *options: str) -> list[str]:
        """What pkg-config says, of a library that lies below the root."""
        environment = plain_environment() | {
            "PKG_CONFIG_PATH": str(one(self.root, "allotrope.pc").parent),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root),
        }
        line = ["pkg-config", *options, "allotrope"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    make("install", folder)
    return Installed(folder)


def compiled(source: Path, target: Path, *flags: str) -> Path:
    line = ["gcc", "-O2", "-fno-builtin", "-Wno-alloc-size-larger-than", "-pthread"]
    subprocess.run([*line, "-o", str(target), str(source), *flags], check=True)
    return target


Programs = dict[str, Path]


@pytest.fixture(scope="module")
def alone(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Compiled with the header, not linked with the library."""
    folder = tmp_path_factory.mktemp("alone")
    include = f"-I{installed.include}"
    sources = [*EXAMPLES, CALLS]
    return {source.stem: compiled(source, folder / source.stem, include) for source in sources}


@pytest.fixture(scope="module")
def linked(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    folder = tmp_path_factory.mktemp("linked")
    # Some distributions' compilers leave out what a program seems not to need.
    flags = ["-Wl,--as-needed", *installed.flags("--cflags", "--libs")]
    return {source.stem: compiled(source, folder / source.stem, *flags) for source in EXAMPLES}


def run(line: Sequence[object], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in line],
        env=plain_environment() | environment,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )


def require(done: subprocess.CompletedProcess[str], last: str) -> None:
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(last), done.stdout
    assert done.stderr == ""


def test_every_example_is_tried() -> None:
    assert {source.stem for source in EXAMPLES} == set(TOLD)


@pytest.mark.parametrize("language", ["c99", "c11", "c17", "c++11", "c++17", "c++20"])
def test_the_header_is_for(language: str, installed: Installed, tmp_path: Path) -> None:
    is_cxx = language.startswith("c++")
    source = tmp_path / ("program.cc" if is_cxx else "program.c")
    source.write_text("#include <allotrope/gc.h>\nint main(void) { return 0; }\n")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    line = ["g++" if is_cxx else "gcc", f"-std={language}", *warnings, "-fsyntax-only"]
    subprocess.run([*line, f"-I{installed.include}", str(source)], check=True)


@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs_without_the_library(name: str, alone: Programs) -> None:
    require(run([alone[name]]), ABSENT[name][1])


@pytest.mark.parametrize("spec", ["gc", "gc:free=ignore", "gc:leaks=collect", "blocks", "knuth"])
@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs_preloaded(
    name: str, spec: str, alone: Programs, installed: Installed
) -> None:
    done = run([alone[name]], LD_PRELOAD=str(installed.library), ALLOTROPE=spec)
    require(done, TOLD[name][0 if spec.startswith("gc") else 1])


@pytest.mark.parametrize("spec", ["gc", "gc:free=ignore", "", "bsd"])
@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs_linked(
    name: str, spec: str, linked: Programs, installed: Installed
) -> None:
    done = run([linked[name]], LD_LIBRARY_PATH=str(installed.library.parent), ALLOTROPE=spec)
    require(done, TOLD[name][0 if spec.startswith("gc") else 1])


@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs_linked_statically(name: str, installed: Installed, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    flags = ["-static", *installed.flags("--static", "--cflags", "--libs")]
    program = compiled(SOURCE / "examples" / f"{name}.c", tmp_path / name, *flags)
    require(run([program], ALLOTROPE="gc"), TOLD[name][0])
    require(run([program], ALLOTROPE="bsd"), TOLD[name][1])


def changed(name: str, old: str, new: str, folder: Path, include: Path) -> Path:
    """An example without what it is an example of."""
    text = (SOURCE / "examples" / f"{name}.c").read_text()
    assert old in text
    source = folder / f"{name}.c"
    source.write_text(text.replace(old, new))
    return compiled(source, folder / name, f"-I{include}")


@pytest.mark.parametrize("spec", ["gc", "gc:free=ignore,leaks=collect", "gc:classic"])
@pytest.mark.parametrize(
    "name, old, new",
    [
        ("roots", "allotrope_gc_add_roots(names, TABLE_BYTES) != 0", "0"),
        ("hidden_pointers", "allotrope_gc_hide(node)", "~(uintptr_t)node"),
    ],
)
def test_an_example_needs_what_it_shows(
    name: str, old: str, new: str, spec: str, installed: Installed, tmp_path: Path
) -> None:
    program = changed(name, old, new, tmp_path, installed.include)
    done = run([program], LD_PRELOAD=str(installed.library), ALLOTROPE=spec)
    assert done.returncode != 0


CHOOSES = 'const char allotrope_default[] = "gc:free=ignore";\n'


def choosing(folder: Path, *flags: str) -> Path:
    source = folder / "choosing.c"
    source.write_text((SOURCE / "examples" / "collect_now.c").read_text() + CHOOSES)
    return compiled(source, folder / "choosing", *flags)


def test_a_linked_program_chooses_its_allocator(installed: Installed, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    program = choosing(tmp_path, *installed.flags("--cflags", "--libs"))
    path = {"LD_LIBRARY_PATH": str(installed.library.parent)}
    most, nothing = TOLD["collect_now"]
    require(run([program], **path), most)
    require(run([program], **path, ALLOTROPE=""), most)
    require(run([program], **path, ALLOTROPE="bsd"), nothing)
    flags = ["-static", *installed.flags("--static", "--cflags", "--libs")]
    require(run([choosing(tmp_path, *flags)]), most)


def test_a_preloaded_program_does_not(installed: Installed, tmp_path: Path) -> None:
    program = choosing(tmp_path, f"-I{installed.include}")
    require(run([program], LD_PRELOAD=str(installed.library)), TOLD["collect_now"][1])


def test_at_fixed_addresses_they_are_there_only_linked(
    installed: Installed, tmp_path: Path
) -> None:
    source, fixed = SOURCE / "examples" / "collect_now.c", ["-no-pie", "-fno-pie"]
    program = compiled(source, tmp_path / "alone", *fixed, f"-I{installed.include}")
    done = run([program], LD_PRELOAD=str(installed.library), ALLOTROPE="gc")
    assert done.stdout.startswith("collection: no library\n")
    if shutil.which("pkg-config") is None:
        return
    flags = installed.flags("--cflags", "--libs")
    program = compiled(source, tmp_path / "linked", *fixed, *flags)
    path = str(installed.library.parent)
    require(run([program], LD_LIBRARY_PATH=path, ALLOTROPE="gc"), TOLD["collect_now"][0])


def test_a_library_of_one_allocator_does_not_have_them(
    alone: Programs, installed: Installed
) -> None:
    library = one(installed.root, "liballotrope-bsd.so")
    done = run([alone["collect_now"]], LD_PRELOAD=str(library))
    assert done.stdout.startswith("collection: no library\n")


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("case", CASES)
def test_calls(case: str, spec: str, alone: Programs, installed: Installed) -> None:
    if spec == "next" and (case.startswith("walk") or case in {"threads", "fork-handlers"}):
        pytest.skip("the heap is another library's")
    if spec in WALKS_WITH_MEMORY and case == "walk-without-memory":
        pytest.skip("is walked as far as there is memory")
    done = run([alone["api_calls"], case], LD_PRELOAD=str(installed.library), ALLOTROPE=spec)
    assert done.returncode == 0, done.stderr


def test_the_next_allocators_heap_is_not_walked(alone: Programs, installed: Installed) -> None:
    done = run([alone["heap_walk"]], LD_PRELOAD=str(installed.library), ALLOTROPE="next")
    assert (done.returncode, done.stdout) == (1, "no walk: Operation not supported\n")


@pytest.mark.parametrize("variable", ["ALLOTROPE_STATS", "ALLOTROPE_SITES", "ALLOTROPE_LATENCY"])
def test_observers_see_memory_without_pointers(
    variable: str, alone: Programs, installed: Installed, tmp_path: Path
) -> None:
    told = {variable: str(tmp_path / "told")}
    line = [alone["api_calls"], "pointer-free"]
    done = run(line, LD_PRELOAD=str(installed.library), ALLOTROPE="gc:free=ignore", **told)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "told").stat().st_size > 0
