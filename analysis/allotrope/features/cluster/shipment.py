# SPDX-License-Identifier: MIT
"""The files that `--ship` brings to a worker that lacks them, at the paths that they have here.

    new worker <── lacking(digests) ── which files are missing, or of an earlier shipment?
               <── receive(files) ──── these, in messages of some MB
               <── who are you? ────── as without --ship

So commands, environment and fingerprints are the same everywhere and nothing is translated. Python,
Debian's packages and traces are not shipped. What a worker has and was not shipped there stays: if
it is another file, the worker is refused.
"""

import os
import re
import stat
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Sequence

from ...output.sentences import counted
from ...output.units import format_bytes
from ...system.errors import UserError
from ...system.places import PLACES
from . import delivery
from .connection import ask_new

MESSAGE_BYTES = 16 << 20  # no more in one message, but for one file that is larger
# Where Debian's packages have their files.
SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/dev/", "/proc/", "/sys/")
LOCAL = "/usr/local/"
PATH = re.compile(r"(?<![\w.~$}-])/[^\s\"'`;|&<>()=,:]+")


class Shipment:
    """files: of which some may be the same. folders: which have nothing of an earlier shipment."""

    def __init__(self, files: Iterable[Path], folders: Sequence[Path] = ()) -> None:
        paths = sorted({os.path.abspath(file) for file in files})
        self.listing = {path: _digest(path) for path in paths}
        self.folders = [str(folder) for folder in folders]

    def deliver(
        self, client: Any, workers: Sequence[str], announce: Callable[[str], None] | None = None
    ) -> None:
        """One worker after the other: the second of a host lacks nothing. Raises UserError where
        one has another file, or cannot write it."""
        for worker in workers:
            asked = ask_new(client, [worker], delivery.lacking, self.listing, self.folders)
            for answer in asked.values():
                wanted, outdated = answer["wanted"], answer["outdated"]
                if not wanted and not outdated:
                    continue
                size = 0
                for files in _messages(wanted):
                    ask_new(client, [worker], delivery.receive, files, outdated)
                    outdated = []
                    size += sum(len(content) for _, content in files.values())
                if announce:
                    sent = f"{counted(len(wanted), 'file')}, {format_bytes(size)}"
                    announce(f"shipped to worker {worker} on {answer['host']}: {sent}")


def own_shipment(more: Iterable[Path]) -> Shipment:
    """The command and the native parts, and more."""
    return Shipment([*own_files(), *more], [package()])


def package() -> Path:
    """Where the command's modules are."""
    return Path(sys.modules["allotrope"].__file__ or "").parent


def own_files() -> Iterator[Path]:
    yield from files_below(package())
    script = Path(sys.argv[0])
    yield script / "__main__.py" if script.is_dir() else script
    for place in fields(PLACES):
        path: Path = getattr(PLACES, place.name)
        if path.is_dir():
            # A build tree has the tool's sources and objects beside it.
            yield from (one for one in path.iterdir() if one.is_symlink() or _is_program(one))
        elif path.exists():
            yield path


def _is_program(path: Path) -> bool:
    return path.is_file() and bool(path.stat().st_mode & 0o111)


def files_below(path: Path) -> Iterator[Path]:
    """The file itself, or all files below a folder."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        yield from (Path(folder, name) for name in names)


def named_files(texts: Iterable[str]) -> Iterator[Path]:
    """The files that words of commands or scripts name by absolute paths, but for those of the
    system's packages."""
    for text in texts:
        for path in [text] if os.path.isfile(text) else PATH.findall(text):
            is_system = path.startswith(SYSTEM) and not path.startswith(LOCAL)
            if not is_system and os.path.isfile(path):
                yield Path(path)


def _digest(path: str) -> str:
    try:
        known = delivery.digest(path)
    except OSError as error:
        raise UserError(f"--ship: cannot read {path}: {error.strerror}") from None
    if known is None:
        raise UserError(f"--ship: {path} is not there")
    return known


def _messages(paths: Sequence[str]) -> Iterator[dict[str, tuple[int, bytes]]]:
    files: dict[str, tuple[int, bytes]] = {}
    size = 0
    for path in paths:
        if delivery.is_link(path):
            mode, content = 0, os.fsencode(os.readlink(path))
        else:
            mode, content = stat.S_IMODE(os.stat(path).st_mode), Path(path).read_bytes()
        if files and size + len(content) > MESSAGE_BYTES:
            yield files
            files, size = {}, 0
        files[path] = (mode, content)
        size += len(content)
    yield files
