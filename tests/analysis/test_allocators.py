# SPDX-License-Identifier: MIT
"""-a: any library, variables behind a choice, and the options of allocators that are not ours."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from allotrope.system.allocators import PEERS, UNWINDER, choose, split_spec, with_unwinder
from allotrope.system.errors import UserError
from allotrope.system.executables import find_program, libraries_of
from conftest import Command
from under import BUILD, SOURCE


def environment_under(command: Command, spec: str) -> dict[str, str]:
    done = command.run("run", "-a", spec, "--", "env", "-0")
    assert done.returncode == 0, done.stderr
    return dict(line.partition("=")[::2] for line in done.stdout.split("\0") if line)


def need_peer(name: str) -> None:
    peer = next(one for one in PEERS if one.name == name)
    if peer.path() is None:
        pytest.skip(f"{peer.package} is not installed")


def require_refusal(spec: str, said: str) -> None:
    """Of a peer's options; said: a pattern of the complaint."""
    name = spec.partition(":")[0]
    if name != "glibc":
        need_peer(name)
    with pytest.raises(UserError, match=said):
        choose(spec)


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An allocator of somebody's: hands calls on and says so at exit."""
    folder = tmp_path_factory.mktemp("mine")
    source = folder / "mine.c"
    source.write_text(
        "#include <stddef.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "void *__libc_malloc(size_t);\nvoid __libc_free(void *);\n"
        "void *malloc(size_t size) { return __libc_malloc(size); }\n"
        "void free(void *block) { __libc_free(block); }\n"
        "__attribute__((destructor)) static void told(void)\n"
        '{ if (getenv("MINE_SAYS")) (void)!write(2, "mine\\n", 5); }\n'
    )
    library = folder / "libmine.so"
    compiler = os.environ.get("CC", "cc").split()
    line = [*compiler, "-shared", "-fPIC", "-fno-builtin", "-o", str(library), str(source)]
    subprocess.run(line, check=True)
    return library


class TestUnwinder:
    """It is preloaded by the path at which the program's own loader finds it."""

    def preloaded(self, program: str) -> str:
        environment = with_unwinder({"LD_PRELOAD": "/ours.so", "A": "b"}, program)
        assert environment["A"] == "b"
        ours, _, unwinder = environment["LD_PRELOAD"].partition(":")
        assert ours == "/ours.so"
        return unwinder

    def test_it_is_the_systems_for_a_program_of_the_systems(self) -> None:
        usual = libraries_of(find_program("ls"), UNWINDER)[UNWINDER]
        assert usual.is_absolute() and UNWINDER not in libraries_of(find_program("ls"))
        for program in ("ls", "/bin/ls", "no-such-program"):
            assert self.preloaded(program) == str(usual)

    def test_it_is_the_programs_where_that_brings_one(self, tmp_path: Path) -> None:
        usual = libraries_of(find_program("ls"), UNWINDER)[UNWINDER]
        for folder, is_taken in (("own", True), ("of its own", False)):
            libraries = tmp_path / folder
            libraries.mkdir()
            shutil.copy(usual, libraries / UNWINDER)
            (tmp_path / "main.c").write_text("int main(void) { return 0; }")
            program = str(tmp_path / "program")
            line = [*os.environ.get("CC", "cc").split(), f"-Wl,-rpath,{libraries}"]
            subprocess.run([*line, "-o", program, str(tmp_path / "main.c")], check=True)
            # LD_PRELOAD has no way to write a blank.
            expected = libraries / UNWINDER if is_taken else usual
            assert self.preloaded(program) == str(expected)


class TestAnyLibrary:
    def test_runs_with_its_variables(self, real: Command, mine: Path) -> None:
        done = real.run("run", "-a", "./libmine.so,MINE_SAYS=1", "--", "true", cwd=mine.parent)
        assert done.returncode == 0 and done.stderr == "mine\n"

    def test_is_compared_under_the_name_that_was_given(self, real: Command, mine: Path) -> None:
        specs = (f"{mine}", f"{mine},MINE_SAYS=1,OTHER=a,b")
        options = [word for spec in specs for word in ("-a", spec)]
        done = real.run(
            "compare", *options, "--rounds=1", "--warmup=0", "--json=-", "--", "ls", str(SOURCE)
        )
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)["results"]
        assert [one["spec"] for one in results] == ["glibc", *specs]
        assert results[2]["allocator"] == "libmine.so"
        assert results[2]["options"] == {"MINE_SAYS": "1", "OTHER": "a,b"}

    def test_is_called_the_same_by_every_word(self, real: Command, mine: Path) -> None:
        """By its file's name, as in a comparison."""
        words = ("run", "-a", "./libmine.so", "--latency=told.json", "--", "true")
        assert real.run(*words, cwd=mine.parent).returncode == 0
        assert json.loads((mine.parent / "told.json").read_text())["allocator"] == "libmine.so"

    @pytest.mark.parametrize(
        "spec, said",
        [
            ("./libnone.so", "there is no such file"),
            (str(SOURCE / "README.md"), "no valid ELF file"),
            ("/bin/true", "defines no malloc and no free"),
        ],
    )
    def test_refused(self, spec: str, said: str) -> None:
        with pytest.raises(UserError, match=said):
            choose(spec)

    def test_our_own_library_is_refused_by_its_file(self, tmp_path: Path) -> None:
        link = tmp_path / "libours.so"
        link.symlink_to(BUILD / ".libs" / "liballotrope.so")
        with pytest.raises(UserError, match="own library; name one of its allocators"):
            choose(str(link))
        copy = tmp_path / "libcopy.so"
        shutil.copy(link, copy)
        assert choose(str(copy)).library == copy

    def test_path_that_the_loader_cannot_be_told(self, mine: Path, tmp_path: Path) -> None:
        folder = tmp_path / "with space"
        folder.mkdir()
        copy = folder / "libmine.so"
        copy.write_bytes(mine.read_bytes())
        with pytest.raises(UserError, match="no way to write"):
            choose(str(copy))


class TestVariables:
    def test_begin_where_capitals_and_an_equals_sign_follow_a_comma(self) -> None:
        assert split_spec("a:b=1,c=2,D=3:4,e=5,F_2=") == ("a:b=1,c=2", {"D": "3:4,e=5", "F_2": ""})

    def test_of_ours_stay_out_of_its_own_choice(self, real: Command) -> None:
        found = environment_under(real, "blocks,WITH=1")
        assert found["ALLOTROPE"] == "blocks" and found["WITH"] == "1"

    @pytest.mark.parametrize("spec", ["glibc,LD_PRELOAD=x", "blocks,ALLOTROPE=x", "glibc,A=1,A=2"])
    def test_refused(self, spec: str) -> None:
        with pytest.raises(UserError, match="given twice|set by allotrope itself"):
            choose(spec)

    def test_two_choices_with_other_variables_are_two(self) -> None:
        assert not choose("glibc,A=1").same_choice(choose("glibc"))
        assert choose("glibc,A=1").same_choice(choose("glibc,A=1"))


class TestOptionsOfPeers:
    @pytest.mark.parametrize(
        "spec, variable, value",
        [
            ("jemalloc:narenas=1,dirty_decay_ms=0", "MALLOC_CONF", "narenas:1,dirty_decay_ms:0"),
            ("mimalloc:eager_commit=0", "MIMALLOC_EAGER_COMMIT", "0"),
            ("tcmalloc:release_rate=10", "TCMALLOC_RELEASE_RATE", "10"),
            (
                "glibc:arena_max=1,tcache_count=0",
                "GLIBC_TUNABLES",
                "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0",
            ),
        ],
    )
    def test_reach_it_as_it_reads_them(
        self, real: Command, spec: str, variable: str, value: str
    ) -> None:
        name = spec.partition(":")[0]
        if name != "glibc":
            need_peer(name)
        assert environment_under(real, spec)[variable] == value

    @pytest.mark.parametrize(
        "spec, said",
        [
            ("jemalloc:narena=1", "jemalloc says: Invalid conf pair: narena:1"),
            ("jemalloc:narenas=x", "jemalloc says: Invalid conf value: narenas:x"),
            ("mimalloc:eager_comit=1", "mimalloc has no option 'eager_comit'.*eager_commit"),
            ("tcmalloc:release_rat=1", "tcmalloc has no option 'release_rat'.*release_rate"),
            ("glibc:arena=1", "glibc has no option 'arena'.*arena_max"),
            ("glibc:arena_max", "'arena_max' is not of the form key=value"),
            ("glibc:arena_max=1,arena_max=2", "arena_max is given twice"),
            ("glibc:arena_max=1,GLIBC_TUNABLES=x", "give one of both"),
        ],
    )
    def test_unknown_ones_are_refused(self, spec: str, said: str) -> None:
        require_refusal(spec, said)

    @pytest.mark.parametrize(
        "spec, said",
        [
            ("glibc:arena_max=x", "'x' is no value of arena_max; valid is a whole number from 1 "),
            ("glibc:arena_max=0", "'0' is no value of arena_max"),
            ("glibc:arena_max=1x", "'1x' is no value of arena_max"),
            ("glibc:perturb=256", "'256' is no value of perturb; .* from 0 to 255"),
            ("glibc:mmap_threshold=64k", "'64k' is no value of mmap_threshold"),
            ("jemalloc:narenas=-1", "jemalloc says: Reducing narenas to limit"),
            ("mimalloc:eager_commit=maybe", "'maybe' is no value of eager_commit; valid is 0 or 1"),
            ("mimalloc:reserve_os_memory=3q", "'3q' is no value of reserve_os_memory"),
            ("tcmalloc:release_rate=fast", "'fast' is no value of release_rate; valid is a number"),
            ("tcmalloc:heap_limit_mb=1.5", "'1.5' is no value of heap_limit_mb"),
            ("tcmalloc:aggressive_decommit=2", "'2' is no value of aggressive_decommit"),
        ],
    )
    def test_values_of_another_kind_are_refused(self, spec: str, said: str) -> None:
        require_refusal(spec, said)

    @pytest.mark.parametrize(
        "spec",
        [
            "glibc:arena_max=0x10,mmap_threshold=0200000,perturb=255",
            "mimalloc:reserve_os_memory=1MiB,eager_commit=true,reserve_huge_os_pages_at=-1",
            "tcmalloc:release_rate=0.5,aggressive_decommit=1,heap_limit_mb=100",
        ],
    )
    def test_values_as_each_writes_them_are_taken(self, spec: str) -> None:
        name = spec.partition(":")[0]
        if name != "glibc":
            need_peer(name)
        assert choose(spec).name == name

    def test_what_nobody_can_check_is_told_the_environments_form(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("allotrope.system.peer_options.LOADER", "/nowhere/ld.so")
        with pytest.raises(UserError, match="cannot be checked; write glibc,VARIABLE=1"):
            choose("glibc:arena_max=1")
        assert choose("glibc,GLIBC_TUNABLES=glibc.malloc.arena_max=1").name == "glibc"
