# SPDX-License-Identifier: MIT
"""What runs on a worker to which files are shipped (shipment.py): each is put where the client has
it.

    lacking()   which files are not there, or are there from an earlier shipment
    receive()   puts them there, each whole or not at all

A file is replaced or removed only if it is byte by byte what was shipped to that path before. The
record of that is RECORD: a line for each file, {"path", "digest"}, appended before the file is
written. As in worker.py, the client sends these functions by value.
"""

import hashlib
import json
import os
import platform
import stat
from pathlib import Path
from typing import Any, Mapping, Sequence

# One for each user of a host; it outlives the worker, as the files do.
RECORD = "/var/tmp/allotrope-shipped-{}"
Shipped = Mapping[str, set[str]]  # by path, the digests of what was shipped there


def is_link(path: str) -> bool:
    """Whether it is shipped as a link. One that leads to its own tree counts as the file there."""
    return os.path.islink(path) and os.path.isabs(os.readlink(path))


def digest(path: str) -> str | None:
    """Of a file, or where a link leads; None where there is nothing. Raises OSError."""
    try:
        if is_link(path):
            return f"link to {os.readlink(path)}"
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()
    except (FileNotFoundError, NotADirectoryError):
        return None


def lacking(listing: Mapping[str, str], folders: Sequence[str]) -> dict[str, Any]:
    """listing: digests by path. folders: they must hold nothing of an earlier shipment that is not
    in the listing. Returns the `host`, the paths that are `wanted`, those that are `outdated`, and
    what is `unlike` the client and not ours to replace, a line each."""
    shipped = _shipped()
    found = {path: _found(path) for path in listing}
    other = [path for path in listing if found[path] not in (None, listing[path])]
    below = tuple(f"{folder}/" for folder in folders)
    outdated = [path for path in shipped if path.startswith(below) and path not in listing]
    return {
        "host": platform.node(),
        "wanted": [
            path
            for path in listing
            if found[path] is None or path in other and found[path] in shipped.get(path, ())
        ],
        "outdated": [path for path in outdated if _found(path) in shipped[path]],
        "unlike": [
            f"{path} is another one, and was not shipped there"
            for path in other
            if found[path] not in shipped.get(path, ())
        ],
    }


def receive(files: Mapping[str, tuple[int, bytes]], outdated: Sequence[str]) -> dict[str, Any]:
    """Puts files there, and removes those that are outdated. files: by path the mode and the bytes;
    a link has mode 0. Returns the `host`, and as `unlike` why it could not."""
    path = RECORD.format(os.getuid())
    try:
        record = _open_record(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            for path, (mode, content) in files.items():
                _note(record, path, mode, content)
                _put(Path(path), mode, content)
        finally:
            os.close(record)
        for path in outdated:
            os.unlink(path)
    except OSError as error:
        why = f"{path} cannot be put there: {error.strerror}"
        return {"host": platform.node(), "unlike": [why]}
    return {"host": platform.node(), "unlike": []}


def _found(path: str) -> str | None:
    """As digest(); what cannot be read is another one."""
    try:
        return digest(path)
    except OSError as error:
        return f"unreadable: {error.strerror}"


def _open_record(how: int) -> int:
    """Raises OSError, also where the file is a link or another user's: who may write to it could
    have us replace any file of the same contents."""
    path = RECORD.format(os.getuid())
    record = os.open(path, how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    status = os.fstat(record)
    if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode):
        os.close(record)
        raise PermissionError(1, "is another user's", path)
    return record


def _shipped() -> Shipped:
    """A line that was not written to its end counts for nothing."""
    shipped: dict[str, set[str]] = {}
    try:
        record = _open_record(os.O_RDONLY)
    except OSError:
        return shipped
    with open(record, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            try:
                one = json.loads(line)
            except ValueError:
                continue
            shipped.setdefault(one["path"], set()).add(one["digest"])
    return shipped


def _note(record: int, path: str, mode: int, content: bytes) -> None:
    known = hashlib.blake2b(content).hexdigest() if mode else f"link to {os.fsdecode(content)}"
    os.write(record, (json.dumps({"path": path, "digest": known}) + "\n").encode())


def _put(path: Path, mode: int, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        if mode:
            with open(beside, "xb") as file:
                file.write(content)
            beside.chmod(mode)
        else:
            beside.symlink_to(os.fsdecode(content))
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
