# SPDX-License-Identifier: MIT
"""The files that `--ship` brings to a worker that lacks them, at the paths that they have here.

    new worker <── lacking(states) ── which files are missing, or of an earlier shipment?
               <── receive(files) ─── these, in messages of some MB
               <── who are you? ───── as without --ship

So commands, environment and fingerprints are the same everywhere and nothing is translated. Python,
what Debian's packages bring, and traces are not shipped. What a worker has and was not shipped
there stays: if it is another file, the worker is refused.
"""

import os
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from ...output.sentences import counted
from ...output.units import format_bytes
from ...system.errors import UserError
from ...system.places import PLACES
from . import delivery
from .connection import ask_new

MESSAGE_BYTES = 16 << 20  # no more in one message, but for one file that is larger
MOST_BYTES = 256 << 20  # of a file
# In a command or script, also in quotes.
PATH = re.compile(r"\"(/[^\"]+)\"|'(/[^']+)'|(/[^\s\"'`;|&<>(){}=,:]+)")


class Shipment:
    """files: of which some may be the same. folders: which hold nothing of an earlier shipment.
    needed: folders that must be there. Raises UserError where a file cannot be shipped."""

    def __init__(
        self,
        files: Iterable[Path],
        folders: Sequence[Path] = (),
        needed: Sequence[Path | str] = (),
    ) -> None:
        given = list(files)
        paths = {str(os.path.abspath(file)) for file in given}
        self.listing = {path: _state(path) for path in sorted(paths)}
        self.folders = [str(folder) for folder in folders]
        # A path with .. leads through folders in which nothing else may be.
        through = {os.path.dirname(path) for path in given if ".." in Path(path).parts}
        self.needed = sorted({str(folder) for folder in (*needed, *through)})

    def paths(self) -> list[str]:
        """Of what has contents, which every task compares."""
        return [path for path, state in self.listing.items() if not state.startswith("link ")]

    def deliver(
        self, client: Any, workers: Sequence[str], announce: Callable[[str], None] | None = None
    ) -> None:
        """One worker after the other: the second of a host lacks nothing. Raises UserError where
        one has another file, or cannot write it."""
        for worker in workers:
            asked = ask_new(
                client, [worker], delivery.lacking, self.listing, self.folders, self.needed
            )
            for answer in asked.values():
                size = self._send(client, worker, answer)
                if announce and size is not None:
                    sent = f"{counted(len(answer['wanted']), 'file')}, {format_bytes(size)}"
                    announce(f"shipped to worker {worker} on {answer['host']}: {sent}")

    def _send(self, client: Any, worker: str, answer: Mapping[str, Any]) -> int | None:
        """Returns how many bytes; None where nothing was sent, or the worker has ended."""
        outdated, missing = answer["outdated"], answer["missing"]
        if not answer["wanted"] and not outdated and not missing:
            return None
        size = 0
        for files in self._messages(answer["wanted"]):
            if not ask_new(client, [worker], delivery.receive, files, outdated, missing):
                return None
            size += sum(len(content) for *_, content in files.values())
            outdated, missing = {}, []
        return size

    def _messages(self, wanted: Mapping[str, str | None]) -> Iterator[dict[str, delivery.Put]]:
        """At least one."""
        files: dict[str, delivery.Put] = {}
        size = 0
        for path, before in wanted.items():
            state, content = self.listing[path], b""
            if not state.startswith("link "):
                content = _contents(path)
                if delivery.digest(content) != state.partition(" ")[2]:
                    raise UserError(f"--ship: {path} has changed since the command began")
            if files and size + len(content) > MESSAGE_BYTES:
                yield files
                files, size = {}, 0
            files[path] = (state, before, content)
            size += len(content)
        yield files


def own_shipment(more: Iterable[Path]) -> Shipment:
    """The command and the native parts, and more; and the folders that the client's commands and
    environment name."""
    needed = [os.getcwd(), *filter(None, [os.environ.get("TMPDIR")])]
    return Shipment([*own_files(), *more], [package()], needed)


def package() -> Path:
    """Where the command's modules are."""
    return Path(sys.modules["allotrope"].__file__ or "").parent


def own_files() -> Iterator[Path]:
    """Where a package of the system has brought them, there are none."""
    return (path for path in _installed() if not delivery.is_of_system(str(path)))


def _installed() -> Iterator[Path]:
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
    """The file itself, or all files below a folder; no links that lead nowhere. Raises UserError
    for what is neither file nor folder, and for links to folders."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path, onerror=_complain):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        for name in folders:
            if Path(folder, name).is_symlink():
                raise UserError(f"--ship: {folder}/{name} is a link to a folder; name that one")
        yield from (file for name in names if (file := Path(folder, name)).exists())


def _complain(error: OSError) -> None:
    raise UserError(f"--ship: cannot read {error.filename}: {error.strerror}") from None


def named_paths(texts: Iterable[str]) -> Iterator[Path]:
    """The files and folders that words of commands, or scripts, name by absolute paths, but for the
    system's and folders that every system has."""
    for text in texts:
        whole = [text] if os.path.isabs(text) and os.path.exists(text) else []
        for path in whole or ["".join(found) for found in PATH.findall(text)]:
            is_shared = os.path.isdir(path) and len(Path(path).parts) < 3
            if os.path.exists(path) and not delivery.is_of_system(path) and not is_shared:
                yield Path(path)


def _contents(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UserError(f"--ship: cannot read {path}: {error.strerror}") from None


def _state(path: str) -> str:
    try:
        if os.stat(path).st_size > MOST_BYTES:
            most = format_bytes(MOST_BYTES)
            raise UserError(
                f"--ship: {path} has more than {most}; bring it to the workers yourself"
            )
        known = delivery.state_of(path)
    except OSError as error:
        raise UserError(f"--ship: cannot read {path}: {error.strerror}") from None
    assert known is not None  # stat() has found it
    return known
