# SPDX-License-Identifier: MIT
"""Why an allocator cannot be preloaded into a program."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from allotrope.features.trace.record import allocator_environment
from allotrope.system.allocators import PEERS, choose, for_program, glibc
from allotrope.system.errors import UserError
from allotrope.system.executables import (
    SERVES_ITSELF,
    find_program,
    libraries_of,
    need_preloadable,
    preload_obstacle,
)
from conftest import Command
from under import BUILD

ARCHIVE = BUILD / ".libs" / "liballotrope.a"


def build(tmp_path: Path, *flags: str, compiler: str = "cc") -> Path:
    """A program of one line; the test is skipped where it cannot be built."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text("int main(void) { return 0; }\n")
    done = subprocess.run([compiler, source, "-o", program, *flags], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"{compiler} {' '.join(flags)} does not work here: {done.stderr[-200:]}")
    return program


def obstacle(program: Path) -> str:
    found = preload_obstacle(program)
    assert found is not None
    assert "\n" not in found
    return found


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-Wl,-z,now",), ("-s",)])
def test_nothing_speaks_against_an_ordinary_program(tmp_path: Path, flags: tuple[str]) -> None:
    assert preload_obstacle(build(tmp_path, *flags)) is None


def test_libraries_may_lie_in_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "\udcff"
    folder.mkdir()
    (tmp_path / "part.c").write_text("int part(void) { return 0; }")
    (tmp_path / "whole.c").write_text("int part(void); int main(void) { return part(); }")
    line = ["cc", "-shared", "-fPIC", "-o", str(folder / "libpart.so"), "part.c"]
    subprocess.run(line, check=True, cwd=tmp_path)
    line = ["cc", "whole.c", f"-L{folder}", "-lpart", "-Wl,-rpath,$ORIGIN", "-o"]
    subprocess.run([*line, str(folder / "whole")], check=True, cwd=tmp_path)
    assert libraries_of(folder / "whole")["libpart.so"] == folder / "libpart.so"


@pytest.mark.parametrize("name", ["sh", "gawk", "python3", "perl", "true"])
def test_nothing_speaks_against_installed_programs(name: str) -> None:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    assert preload_obstacle(Path(found)) is None


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_static_programs_have_no_loader(tmp_path: Path, flag: str) -> None:
    assert "statically linked" in obstacle(build(tmp_path, flag))


def test_musl_is_told_by_its_loader(tmp_path: Path) -> None:
    program = build(tmp_path, "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1")
    assert "musl" in obstacle(program)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_bring_their_own_allocator(
    tmp_path: Path, compiler: str, sanitizer: str
) -> None:
    program = build(tmp_path, f"-fsanitize={sanitizer}", compiler=compiler)
    assert "sanitizer" in obstacle(program)


@pytest.mark.parametrize("flags", [(), ("-s",)])
@pytest.mark.parametrize("sanitizer, library", [("address", "asan"), ("thread", "tsan")])
def test_sanitizers_are_found_where_gcc_has_linked_them_in(
    tmp_path: Path, sanitizer: str, library: str, flags: tuple[str]
) -> None:
    link = f"-static-lib{library}"
    program = build(tmp_path, f"-fsanitize={sanitizer}", link, *flags, compiler="gcc")
    assert "sanitizer" in obstacle(program)


def test_a_sanitizer_without_an_allocator_is_fine(tmp_path: Path) -> None:
    flags = ("-fsanitize=undefined", "-static-libubsan")
    assert preload_obstacle(build(tmp_path, *flags, compiler="gcc")) is None


def test_a_static_program_with_our_archive_needs_no_loader_for_ours(tmp_path: Path) -> None:
    # Nothing in the program itself calls malloc, which would bring it in.
    program = build(tmp_path, "-static", "-pthread", "-Wl,-u,malloc", str(ARCHIVE))
    assert obstacle(program) == SERVES_ITSELF
    assert preload_obstacle(program, ours=True) is None
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    assert preload_obstacle(script, ours=True) is None
    assert "statically linked" in (preload_obstacle(build(tmp_path, "-static"), ours=True) or "")


def test_a_program_that_merely_names_the_sanitizer_is_fine(tmp_path: Path) -> None:
    """As gcc's own cc1 does."""
    source, program = tmp_path / "name.c", tmp_path / "name"
    source.write_text('#include <stdio.h>\nint main(void) { puts("__asan_init"); }\n')
    subprocess.run(["cc", source, "-o", program], check=True)
    assert preload_obstacle(program) is None


def test_another_elf_class_is_named(tmp_path: Path) -> None:
    program = tmp_path / "old"
    header = struct.pack(
        "<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, 0, 0, 0, 0, 52, 32, 0, 40, 0, 0
    )
    program.write_bytes(header + bytes(64))
    assert "32-bit 386" in obstacle(program)


def test_damaged_elf_is_said_to_be(tmp_path: Path) -> None:
    program = tmp_path / "damaged"
    program.write_bytes(b"\x7fELF\x02\x01")
    assert "no valid ELF" in obstacle(program)


def test_who_is_refused_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only an allocator of ours can be linked in."""
    static = str(build(tmp_path, "-static"))
    for ours in (True, False):
        with pytest.raises(UserError, match="statically linked") as refused:
            need_preloadable(static, ours)
        assert ("link it with liballotrope.a" in str(refused.value)) == ours
    with pytest.raises(UserError, match="link it with liballotrope.a"):  # as of verify-gc
        allocator_environment(Path(static), "static", "gc", plain=False)
    setuid = build(tmp_path)
    setuid.chmod(0o4755)
    monkeypatch.setattr(os, "getuid", lambda: setuid.stat().st_uid + 1)
    with pytest.raises(UserError, match="a copy of it without that bit can be served"):
        need_preloadable(str(setuid))


def test_setuid_counts_only_when_it_gains_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build(tmp_path)
    program.chmod(0o4755)
    assert preload_obstacle(program) is None
    monkeypatch.setattr(os, "getuid", lambda: program.stat().st_uid + 1)
    assert "setuid" in obstacle(program)


def test_scripts_are_judged_by_their_interpreter(tmp_path: Path) -> None:
    static = build(tmp_path, "-static")
    script = tmp_path / "script"
    script.write_text(f"#!{static} -x\n")
    assert "statically linked" in obstacle(script)
    script.write_text("#!/bin/sh\n")
    assert preload_obstacle(script) is None


def test_env_is_judged_by_what_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static = build(tmp_path, "-static")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    script = tmp_path / "script"
    script.write_text(f"#!/usr/bin/env -S VARIABLE=1 {static.name}\n")
    assert "statically linked" in obstacle(script)


def test_a_script_that_interprets_itself_ends(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!{script}\n")
    script.chmod(0o755)
    assert preload_obstacle(script) is None


def test_sandboxes_are_named(tmp_path: Path) -> None:
    snap = tmp_path / "usr" / "snap"
    snap.parent.mkdir()
    shutil.copy("/bin/true", snap)
    (tmp_path / "editor").symlink_to(snap)
    assert "sandbox" in obstacle(tmp_path / "editor")


@pytest.mark.parametrize(
    "name, status, words",
    [
        ("no-such-program-anywhere", 127, "command not found"),
        ("./no/such/file", 127, "command not found"),
        ("", 127, "the command's name is empty"),
        ("/etc/passwd", 126, "permission denied"),
        ("/etc/", 126, "is a directory"),
    ],
)
def test_what_cannot_be_started_has_a_shells_status(name: str, status: int, words: str) -> None:
    with pytest.raises(UserError, match=words) as raised:
        find_program(name)
    assert raised.value.exit_code == status


WHO_SERVES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(void)
{
    Dl_info info;
    return !(free(malloc(1)), dladdr((void *)malloc, &info)) || puts(info.dli_fname) < 0;
}
"""


def linked_with(spec: str, tmp_path: Path) -> Path:
    library = choose(spec).library
    assert library is not None
    source, program = tmp_path / "who.c", tmp_path / "who"
    source.write_text(WHO_SERVES)
    command = ["cc", str(source), "-o", str(program), "-Wl,--no-as-needed", str(library)]
    subprocess.run([*command, f"-Wl,-rpath,{library.parent}"], check=True)
    return program


def built(tmp_path: Path, name: str, text: str, *words: str) -> Path:
    source, file = tmp_path / f"{name}.c", tmp_path / name
    source.write_text(text)
    subprocess.run(["cc", str(source), "-o", str(file), *words], check=True)
    return file


def peer_library(name: str) -> str:
    library = next(peer for peer in PEERS if peer.name == name).path()
    if library is None:
        pytest.skip(f"{name} is not installed")
    return str(library)


TAKES_A_BLOCK = "void *mallocx(unsigned long, int); int take(void) { return !mallocx(8, 0); }\n"


def test_a_program_that_calls_jemalloc_by_its_own_names_is_left_to_it(
    tmp_path: Path, real: Command
) -> None:
    """glibc's free would be given blocks of mallocx. `run` says so."""
    text = TAKES_A_BLOCK + "int main(void) { return take(); }"
    program = built(tmp_path, "own", text, peer_library("jemalloc"))
    assert for_program(choose("glibc"), str(program)).library is None
    result = real.run("run", "-a", "glibc", "--", str(program))
    assert result.returncode == 0
    assert "keeps the malloc of libjemalloc.so.2" in result.stderr


def test_a_library_that_calls_jemalloc_by_its_own_names_leaves_its_program_to_it(
    tmp_path: Path,
) -> None:
    library = built(
        tmp_path,
        "libown.so",
        TAKES_A_BLOCK,
        "-shared",
        "-fPIC",
        "-Wl,-soname,libown.so",
        peer_library("jemalloc"),
    )
    text = "int take(void); int main(void) { return take(); }"
    program = built(tmp_path, "own", text, str(library), f"-Wl,-rpath,{tmp_path}")
    assert for_program(choose("glibc"), str(program)).library is None


@pytest.mark.parametrize("peer, name", [("mimalloc", "mi_version"), ("tcmalloc", "tc_malloc_size")])
def test_a_name_that_gives_no_block_leaves_a_program_to_glibc(
    tmp_path: Path, peer: str, name: str
) -> None:
    text = f"int {name}(); int main(void) {{ return {name}(0) < 0; }}"
    program = built(tmp_path, "own", text, peer_library(peer))
    assert for_program(choose("glibc"), str(program)).library is not None


@pytest.mark.parametrize(
    "linked, its_malloc", [("jemalloc", "libjemalloc"), ("bsd", "liballotrope")]
)
@pytest.mark.parametrize("by_script", [False, True])
def test_glibc_comes_before_the_malloc_that_a_program_is_linked_with(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    by_script: bool,
    linked: str,
    its_malloc: str,
) -> None:
    try:
        program = linked_with(linked, tmp_path)
    except UserError as error:
        pytest.skip(str(error))
    if by_script:
        script = tmp_path / "script"
        script.write_text(f"#!{program}\n")
        script.chmod(0o755)
        program = script
    monkeypatch.chdir(tmp_path)
    for spec, served_by in (("glibc", "libc.so"), (linked, its_malloc)):
        chosen = for_program(choose(spec), str(program))
        assert for_program(choose(spec), f"./{program.name}") == chosen
        environment = os.environ | chosen.environment()
        done = subprocess.run(
            [program], env=environment, capture_output=True, text=True, check=True
        )
        assert Path(done.stdout.strip()).name.startswith(served_by)


def test_other_programs_are_left_alone_under_glibc() -> None:
    assert for_program(glibc(), "true") == glibc()
    assert for_program(glibc(), "no-such-program") == glibc()
    assert "libc.so.6" in libraries_of(find_program("true"))
