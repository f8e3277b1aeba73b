# SPDX-License-Identifier: MIT
"""What a command really starts, and why preloading an allocator into it cannot work.

The loader preloads silently or not at all, so whoever asks for an allocator must be told
beforehand. A script is judged by its interpreter, `env` by the program that it finds.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any, BinaryIO, Sequence

from .counters import carries_ours
from .elf_files import defines_malloc
from .errors import UserError

STATUS_CANNOT_EXECUTE = 126
STATUS_NOT_FOUND = 127

# e_machine of the machine that our library is built for: EM_X86_64.
OUR_MACHINE = "EM_X86_64"
LOADER = "/lib64/ld-linux-x86-64.so.2"
SERVES_ITSELF = (
    "is linked statically with allotrope's library, so only allotrope's own allocators can serve "
    "it and be watched"
)
NO_LOADER = "is statically linked, so there is no loader to preload anything"
GAINS_RIGHTS = "is setuid or setgid, and the loader ignores LD_PRELOAD for it"
SANITIZER_LIBRARIES = ("libasan.so", "libtsan.so", "libhwasan.so", "libclang_rt.asan")


def find_program(name: str) -> Path:
    """The file that execvp would start. Raises UserError with a shell's exit status for it."""
    if not name:
        raise UserError("the command's name is empty", STATUS_NOT_FOUND)
    found = shutil.which(name)
    if found is not None:
        missing = missing_interpreter(Path(found))
        if missing is not None:
            reason = f"its first line names {missing}, which is not there"
            raise UserError(f"{name}: cannot execute: {reason}", STATUS_CANNOT_EXECUTE)
        return Path(found)
    if "/" not in name or not Path(name).exists():
        raise UserError(f"{name}: command not found", STATUS_NOT_FOUND)
    kind = "is a directory" if Path(name).is_dir() else "permission denied"
    raise UserError(f"{name}: cannot execute: {kind}", STATUS_CANNOT_EXECUTE)


def missing_interpreter(program: Path) -> str | None:
    """What a script's first line names, where that is missing; a carriage return behind it, which
    the kernel takes for a part of the name, is shown."""
    try:
        with program.open("rb") as file:
            words = _interpreter_words(file.read(4096))
    except OSError:
        return None
    if not words or Path(words[0]).exists():
        return None
    return repr(words[0]) if "\r" in words[0] else words[0]


def _interpreter_words(start: bytes) -> list[str]:
    """The words behind #!; none for what is no script."""
    if not start.startswith(b"#!"):
        return []
    line = start[2:].split(b"\n", 1)[0].replace(b"\t", b" ")
    return [word for word in os.fsdecode(line).split(" ") if word]


def preload_obstacle(program: Path, ours: bool = False, depth: int = 4) -> str | None:
    """Why an allocator cannot be preloaded into `program`, as the end of the sentence "this
    program ..."; None when nothing speaks against it. ours: whether it is one of our library,
    which a static program may have in itself: that needs no loader."""
    if program.resolve().name in ("snap", "flatpak"):
        return "runs in a sandbox of its own, which sees neither LD_PRELOAD nor our library"
    try:
        with program.open("rb") as file:
            start = file.read(4096)
            if start.startswith(b"#!"):
                return _obstacle_of_interpreter(start, ours, depth)
            if not start.startswith(b"\x7fELF"):
                return None  # it goes to /bin/sh
            return _obstacle_of_privilege(program) or _obstacle_of_elf(file, ours)
    except PermissionError:
        return "cannot be read, and a program that may be run but not read is not preloaded into"


def need_preloadable(name: str, ours: bool = False) -> Path:
    """The program that a command's first word starts; raises UserError where an allocator cannot be
    preloaded into it. ours: as of preload_obstacle()."""
    program = find_program(name)
    obstacle = preload_obstacle(program, ours)
    if obstacle is not None:
        raise refusal(name, obstacle, ours)
    return program


def refusal(name: str, obstacle: str, ours: bool) -> UserError:
    """Of a command whose first word is `name`, with what its user can do. ours: as of
    preload_obstacle()."""
    remedy = ""
    if obstacle == NO_LOADER and ours:
        remedy = "; where it can be linked anew, link it with liballotrope.a"
    elif obstacle == GAINS_RIGHTS:
        remedy = "; a copy of it without that bit can be served"
    return UserError(f"{name}: this program {obstacle}{remedy}", STATUS_CANNOT_EXECUTE)


def libraries_of(program: Path, preloaded: str = "", depth: int = 4) -> dict[str, Path]:
    """The libraries that the loader maps for a program, by their names; none where it cannot tell.
    Of a script, those of its interpreter. preloaded: one to have beside them, by its name."""
    try:
        with program.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return {}
    if start.startswith(b"#!"):
        interpreter = _interpreter(start) if depth > 0 else None
        return libraries_of(interpreter, preloaded, depth - 1) if interpreter else {}
    if not start.startswith(b"\x7fELF"):
        return {}
    # Without a slash the loader would seek it among the libraries.
    answer = subprocess.run(
        [LOADER, "--list", str(program.absolute())],
        env=os.environ | {"LD_PRELOAD": preloaded},
        capture_output=True,
        text=True,
        errors="surrogateescape",  # as in names of files
        check=False,
    )
    found = {}
    for line in answer.stdout.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        if arrow and rest.startswith("/"):
            found[name] = Path(rest.rpartition(" (")[0])
    return found


def _interpreter(start: bytes) -> Path | None:
    """The program that runs a script; `env` by what it finds."""
    words = _interpreter_words(start)
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    found = shutil.which(words[0]) if words else None
    return Path(found) if found else None


def _obstacle_of_interpreter(start: bytes, ours: bool, depth: int) -> str | None:
    interpreter = _interpreter(start) if depth > 0 else None
    return preload_obstacle(interpreter, ours, depth - 1) if interpreter else None


def _obstacle_of_privilege(program: Path) -> str | None:
    """The loader ignores LD_PRELOAD where a program gains rights by being started."""
    status = program.stat()
    gains_user = status.st_mode & stat.S_ISUID and status.st_uid != os.getuid()
    gains_group = status.st_mode & stat.S_ISGID and status.st_gid != os.getgid()
    if gains_user or gains_group:
        return GAINS_RIGHTS
    try:
        os.getxattr(program, "security.capability")
    except OSError:
        return None
    return None if os.getuid() == 0 else "has file capabilities, so the loader ignores LD_PRELOAD"


def _obstacle_of_elf(file: BinaryIO, ours: bool) -> str | None:
    # Imported here: commands that start nothing need not wait for it.
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(file)
        if elf.elfclass != 64 or elf["e_machine"] != OUR_MACHINE:
            machine = str(elf["e_machine"]).removeprefix("EM_")
            return f"is for another machine ({elf.elfclass}-bit {machine}) than our library"
        interpreters = [
            segment.get_interp_name()
            for segment in elf.iter_segments()
            if segment["p_type"] == "PT_INTERP"
        ]
        if not interpreters and carries_ours(file.name):
            return None if ours else SERVES_ITSELF
        if not interpreters:
            return NO_LOADER
        if "musl" in interpreters[0]:
            return "is linked with musl, and our library needs glibc"
        if _has_sanitizer(elf):
            return "is built with a sanitizer, which brings an allocator of its own"
    except ELFError:
        return "is no valid ELF file"
    return None


def library_obstacle(library: Path) -> str | None:
    """Why a file is no allocator that can be preloaded; None when nothing speaks against it."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    if not library.exists():
        return "there is no such file"
    try:
        with library.open("rb") as file:
            elf = ELFFile(file)
            if elf.elfclass != 64 or elf["e_machine"] != OUR_MACHINE or elf["e_type"] != "ET_DYN":
                machine = str(elf["e_machine"]).removeprefix("EM_")
                return f"is no shared library for this machine ({elf.elfclass}-bit {machine})"
            symbols = elf.get_section_by_name(".dynsym")
            missing = [
                name
                for name in ("malloc", "free")
                if symbols is None or not _defines(symbols.get_symbol_by_name(name))
            ]
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except ELFError:
        return "is no shared library: it is no valid ELF file"
    if missing:
        return f"defines no {' and no '.join(missing)}, so preloading it would change nothing"
    return None


def _defines(symbols: Sequence[Any] | None) -> bool:
    return any(symbol["st_shndx"] != "SHN_UNDEF" for symbol in symbols or ())


def _has_sanitizer(elf: "ELFFile") -> bool:  # type: ignore[name-defined]  # noqa: F821
    """gcc links the sanitizer's library, clang links it in and exports its symbols. Linked in by
    gcc (-static-libasan) it has a malloc, and asks for the program's own symbolizer."""
    dynamic = elf.get_section_by_name(".dynamic")
    if dynamic is not None:
        for tag in dynamic.iter_tags("DT_NEEDED"):
            if tag.needed.startswith(SANITIZER_LIBRARIES):
                return True
    symbols = elf.get_section_by_name(".dynsym")
    if symbols is None:
        return False
    if symbols.get_symbol_by_name("__sanitizer_symbolize_code") and defines_malloc(elf):
        return True
    return any(symbols.get_symbol_by_name(name) for name in ("__asan_init", "__tsan_init"))
