# SPDX-License-Identifier: MIT
"""The allocators that can be chosen with -a: our own, glibc's, Debian's packaged peers, and any
library.

One grammar chooses: `name[:option[,option...]]`, or a library's file, with a slash or `.so` in it;
behind either `,VARIABLE=VALUE` for the environment. Which names, presets and options of ours exist
is known to the native side alone: `allotrope-describe` lists them and judges a choice with the
very line that the library itself would print. Peers are found by file; their options are theirs
(peer_options.py).
"""

import contextlib
import ctypes
import dataclasses
import difflib
import json
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from . import elf_files
from .errors import UserError
from .executables import libraries_of, library_obstacle
from .native import without_name
from .peer_options import parse_options, peer_variables
from .places import PLACES

# The user's settings that would make an allocator something else than its name says.
OWN_VARIABLES = (
    "ALLOTROPE",
    "ALLOTROPE_STATS",
    "ALLOTROPE_SITES",
    "ALLOTROPE_SITES_RATE",
    "ALLOTROPE_SITES_FRAMES",
    "ALLOTROPE_LATENCY",
    "ALLOTROPE_LOG",
    "ALLOTROPE_PADDING",
)
UNWINDER = "libgcc_s.so.1"
# What programs are linked with to have another malloc.
MALLOC_LIBRARIES = (
    "liballotrope",
    "libjemalloc",
    "libmimalloc",
    "libtcmalloc",
    "libtbbmalloc",
    "libsnmalloc",
)
UNWRITABLE = re.compile(r"[\s:]")  # what a path in LD_PRELOAD may not have
# Where a choice ends and variables for the environment begin: our options have small letters.
VARIABLE = re.compile(r",(?=[A-Z_][A-Z0-9_]*=)")


def package_version(package: str) -> str | None:
    """The version of an installed Debian package, None where dpkg does not know it."""
    if shutil.which("dpkg-query") is None:
        return None
    query = ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package]
    answer = subprocess.run(query, capture_output=True, text=True, check=False)
    status, _, version = answer.stdout.strip().partition(" ")
    return version if status == "installed" else None


@dataclass(frozen=True)
class Peer:
    """An allocator of somebody else's, as Debian packages it."""

    name: str
    title: str
    packages: tuple[str, ...]  # a release of Debian has one of them
    files: tuple[str, ...]

    def path(self) -> Path | None:
        """Where its library is, None when it is not installed."""
        multiarch = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
        folders = (f"/usr/lib/{multiarch}", f"/lib/{multiarch}", "/usr/lib64", "/usr/lib")
        candidates = (Path(folder, file) for file in self.files for folder in folders)
        return next((one for one in candidates if one.exists()), None)

    @property
    def package(self) -> str:
        """The package that is installed; where none is, which there are."""
        installed = (package for package in self.packages if package_version(package))
        return next(installed, " or ".join(self.packages))

    def version(self) -> str | None:
        """The package's version, None where dpkg does not know it."""
        return next(filter(None, map(package_version, self.packages)), None)


PEERS = (
    Peer(
        "jemalloc",
        "arenas of size-class slabs, by J. Evans",
        ("libjemalloc2",),
        ("libjemalloc.so.2",),
    ),
    Peer(
        "mimalloc",
        "free lists per page, by D. Leijen",
        ("libmimalloc2.0", "libmimalloc3"),
        ("libmimalloc.so.2", "libmimalloc.so.3"),
    ),
    Peer(
        "tcmalloc",
        "thread caches over central lists (gperftools)",
        ("libtcmalloc-minimal4", "libtcmalloc-minimal4t64"),
        ("libtcmalloc_minimal.so.4",),
    ),
)


@dataclass(frozen=True)
class Allocator:
    """A choice: what to preload, and what to tell it."""

    spec: str  # as the user wrote it; what tables show
    name: str
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    version: str | None = None
    library: Path | None = None  # None: glibc's own, nothing is preloaded
    ours: bool = False
    variables: dict[str, str] = field(default_factory=dict)  # what its environment has beside
    choice: str = ""  # of ours: what it is told to be
    build: str | None = None  # which program runs under it, where several builds are compared
    kept: str = ""  # the library whose malloc the program keeps: for_program()

    def same_choice(self, other: "Allocator") -> bool:
        """Whether both mean the same allocator, however they were written."""
        mine = (self.name, self.preset, self.options, self.library, self.build)
        return mine == (other.name, other.preset, other.options, other.library, other.build)

    def with_build(self, name: str, program: str, alone: bool) -> "Allocator":
        """The same for one build of a program. alone: no other allocator is compared."""
        spec = name if alone else f"{name}/{self.spec}"
        return dataclasses.replace(self, spec=spec, build=program)

    def environment(self) -> dict[str, str]:
        """What a program needs in its environment to run under this allocator.

        An LD_PRELOAD that is there already is kept, behind ours."""
        if self.library is None:
            return dict(self.variables)
        choice = {"ALLOTROPE": self.choice} if self.ours else {}
        return _preload(self.library) | choice | self.variables

    def watched_environment(self) -> dict[str, str]:
        """The same for a run that our library watches (sites, latencies, doorbells): before an
        allocator of somebody else's it stands and passes every call on.

        Raises UserError where our library is not built."""
        if self.ours:
            return self.environment()
        if (missing := own_missing()) is not None:
            raise UserError(missing)
        behind = [self.library] if self.library is not None else []
        return _preload(PLACES.library, *behind) | {"ALLOTROPE": "next"} | self.variables


def with_unwinder(environment: dict[str, str], name: str) -> dict[str, str]:
    """An environment that preloads our library, for a run in which it notes callers: libgcc's
    unwinder is there from the start. Loaded later it would come from the program's malloc and be
    counted as the program's. name: the command's first word.

    It is preloaded by its path, as ours is. Of a setuid program the loader leaves out what is named
    by a path and says nothing; of what is named without one it says that it cannot preload it, on
    the program's standard error (ld.so(8)). The path is the one that this program's loader finds:
    a program that brings libraries of its own may need them newer than the system's."""
    found = shutil.which(name)
    for program in (*([Path(found)] if found else []), PLACES.describe):
        unwinder = libraries_of(program, UNWINDER).get(UNWINDER)
        if unwinder is not None and not UNWRITABLE.search(str(unwinder)):
            return environment | {"LD_PRELOAD": f"{environment['LD_PRELOAD']}:{unwinder}"}
    return environment


def _preload(*libraries: Path) -> dict[str, str]:
    others = os.environ.get("LD_PRELOAD", "")
    names = [*map(str, libraries), *([others] if others else [])]
    return {"LD_PRELOAD": ":".join(names)}


def libc_version() -> str:
    """glibc's version, asked of the C library itself."""
    ask = ctypes.CDLL(None).gnu_get_libc_version
    ask.restype = ctypes.c_char_p
    return str(ask().decode())


def own_missing() -> str | None:
    """Why our own allocators cannot be used, None when they can."""
    for file in (PLACES.describe, PLACES.library):
        if not file.exists():
            return f"allotrope's own allocators are not built: {file} is missing; run make"
    return None


def _ask_describe(*arguments: str) -> dict[str, Any]:
    answer = subprocess.run(
        [PLACES.describe, *arguments],
        capture_output=True,
        text=True,
        errors="surrogateescape",  # it may say the choice
        check=False,
    )
    if answer.returncode != 0:
        line = without_name(answer.stderr.strip())
        raise UserError(line or f"{PLACES.describe} failed with status {answer.returncode}")
    described: dict[str, Any] = json.loads(answer.stdout)
    return described


def own_catalogue() -> dict[str, Any] | None:
    """What is compiled into our library, as allotrope-describe tells; None when not built."""
    return None if own_missing() else _ask_describe()


def own_version() -> str | None:
    """The project's, which is the native side's; None when that is not built."""
    catalogue = own_catalogue()
    return str(catalogue["version"]) if catalogue else None


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """The choice, and what it puts into the environment."""
    choice, *settings = VARIABLE.split(spec)
    variables: dict[str, str] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name in variables or name in ("LD_PRELOAD", *OWN_VARIABLES):
            why = "is given twice" if name in variables else "is set by allotrope itself"
            raise UserError(f"'{spec}': {name} {why}")
        variables[name] = value
    return choice, variables


def with_option(spec: str, option: str) -> str:
    """The same allocator with an option more."""
    return f"{spec}{',' if ':' in spec else ':'}{option}"


def _choose_own(spec: str, version: str) -> Allocator:
    choice, variables = split_spec(spec)
    described = _ask_describe(choice)
    return Allocator(
        spec=spec,
        name=described["allocator"],
        preset=described["preset"],
        options=described["options"] | variables,
        version=version,
        library=PLACES.library,
        ours=True,
        variables=variables,
        choice=choice,
    )


def _choose_peer(peer: Peer) -> Allocator:
    path = peer.path()
    if path is None:
        raise UserError(f"{peer.name} is not installed; install the Debian package {peer.package}")
    return Allocator(spec=peer.name, name=peer.name, version=peer.version(), library=path)


def _with_options(plain: Allocator, spec: str) -> Allocator:
    """glibc or a peer, told what `spec` says behind its name."""
    choice, variables = split_spec(spec)
    _, colon, text = choice.partition(":")
    options = parse_options(spec, text) if colon else {}
    if options:
        told = peer_variables(spec, plain.name, plain.library, options)
        for name in set(told) & set(variables):
            raise UserError(f"'{spec}': {name} is what the options are told by; give one of both")
        variables = told | variables
    given = options | split_spec(spec)[1]
    return dataclasses.replace(plain, spec=spec, options=given, variables=variables)


def is_library(choice: str) -> bool:
    """Whether it means a file: it has a slash, or ends as libraries do."""
    return "/" in choice or bool(re.search(r"\.so(\.\d+)*$", choice))


def _choose_library(spec: str) -> Allocator:
    """Somebody's allocator, by its file."""
    choice, variables = split_spec(spec)
    path = Path(os.path.realpath(choice))
    obstacle = library_obstacle(path)
    if obstacle is not None:
        raise UserError(f"-a {choice}: {obstacle}")
    if PLACES.library.exists() and path.samefile(PLACES.library):
        # It would be preloaded twice, for its statistics as well, and the loader takes it once.
        raise UserError(
            f"-a {choice}: this is allotrope's own library; name one of its allocators, "
            "as -a blocks"
        )
    if UNWRITABLE.search(str(path)):
        raise UserError(f"-a {choice}: LD_PRELOAD has no way to write '{path}'; rename it")
    name = Path(choice).name
    return Allocator(
        spec=spec, name=name, options=dict(variables), library=path, variables=variables
    )


def glibc() -> Allocator:
    """The allocator that programs run under when nobody chooses."""
    return Allocator(spec="glibc", name="glibc", version=libc_version())


def for_program(chosen: Allocator, name: str) -> Allocator:
    """The choice as it is to be preloaded into the program that a command's first word starts:
    glibc's malloc comes first where that program is linked with another, which would else serve
    it under glibc's name. Where the program, or a library of it, also calls the other by its own
    names it stays as it is: glibc would be given blocks to free that it does not have."""
    found = shutil.which(name) if chosen.library is None else None
    libraries = libraries_of(Path(found)) if found else {}
    malloc = next((one for one in libraries if one.startswith(MALLOC_LIBRARIES)), None)
    if not found or not malloc:
        return chosen
    if _calls_by_own_names(found, libraries):
        return replace(chosen, kept=malloc)
    return replace(chosen, library=libraries.get("libc.so.6"))


def _calls_by_own_names(program: str, libraries: Mapping[str, Path]) -> bool:
    others = [
        str(file) for name, file in libraries.items() if not name.startswith(MALLOC_LIBRARIES)
    ]
    for file in (program, *others):
        with contextlib.suppress(OSError, ValueError):  # of a script nothing is known
            if elf_files.ask(file, elf_files.calls_another_malloc):
                return True
    return False


def choose(spec: str) -> Allocator:
    """The allocator that `spec` means. Raises UserError, which lists what is valid."""
    choice, variables = split_spec(spec)
    if is_library(choice):
        return _choose_library(spec)
    name, colon, _ = choice.partition(":")
    peers = {peer.name: peer for peer in PEERS}
    if name == "glibc" or name in peers:
        plain = glibc() if name == "glibc" else _choose_peer(peers[name])
        return _with_options(plain, spec) if colon or variables else plain
    catalogue = own_catalogue()
    names = [own["name"] for own in catalogue["allocators"]] if catalogue else []
    if catalogue is not None and name in names:
        return _choose_own(spec, catalogue["version"])
    known = [*names, "glibc", *peers]
    near = difflib.get_close_matches(name, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    hint = f" ({missing})" if (missing := own_missing()) else ""
    raise UserError(
        f"unknown allocator '{name}'; valid are: {', '.join(known)}, or a library's file, as "
        f"./libmine.so{hint}{meant}"
    )


def choose_each(specs: Sequence[str]) -> list[Allocator]:
    """As choose(); refuses two that mean the same allocator."""
    chosen = [choose(spec) for spec in specs]
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            if one.same_choice(other):
                raise UserError(f"-a {one.spec}: the same allocator as -a {other.spec}")
    return chosen


def default_choice() -> list[Allocator]:
    """glibc, the default preset of each allocator of ours, and the peers that are installed.

    Historic presets are chosen by name: they reproduce what was published, and few programs of
    today are served by them, so they would only lengthen everyone's comparison."""
    catalogue = own_catalogue() or {"allocators": [], "version": ""}
    own = [_choose_own(own["name"], catalogue["version"]) for own in catalogue["allocators"]]
    peers = [_choose_peer(peer) for peer in PEERS if peer.path() is not None]
    return [glibc(), *own, *peers]
