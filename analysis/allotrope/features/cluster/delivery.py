# SPDX-License-Identifier: MIT
"""What runs on a worker to which files are shipped (shipment.py): each is put where the client has
it.

    lacking()   which files are not there, or are there from an earlier shipment
    receive()   puts them there, each whole or not at all

A file is replaced or removed only if it is what was shipped to that path before, to the byte. The
record of that is RECORD: a line for each file, {"path", "state"}, written before the file is. As in
worker.py, the client sends these functions by value, so they use the standard library alone.
"""

import errno
import hashlib
import json
import os
import platform
import stat
from pathlib import Path
from typing import IO, Any, Mapping, Sequence

# One for each user of a host; it outlives the worker, as the files do.
RECORD = "/var/tmp/allotrope-shipped-{}"
# Where packages have their files, and the kernel and daemons theirs. None is shipped.
SYSTEM = (
    *("/bin/", "/dev/", "/etc/", "/lib/", "/lib32/", "/lib64/", "/libx32/", "/proc/", "/run/"),
    *("/sbin/", "/sys/", "/usr/", "/var/cache/", "/var/lib/"),
)
LOCAL = "/usr/local/"
SAID = 3  # files of which it is told why they stay
Put = tuple[str, str | None, bytes]  # state_of() to be, state_of() until now, contents


def is_of_system(path: str) -> bool:
    whole = os.path.normpath(path)
    return whole.startswith(SYSTEM) and not whole.startswith(LOCAL)


def is_link(path: str) -> bool:
    """Whether it is shipped as a link. One to another place counts as the file there."""
    return os.path.islink(path) and is_of_system(os.readlink(path))


def state_of(path: str) -> str | None:
    """What a file is: "file" or "program" (which may be executed) and BLAKE2 of it, or "link" and
    where it leads. None where there is nothing. Raises OSError."""
    try:
        if is_link(path):
            return f"link {os.readlink(path)}"
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file")
        kind = "program" if mode & stat.S_IXUSR else "file"
        return f"{kind} {digest(Path(path).read_bytes())}"
    except (FileNotFoundError, NotADirectoryError):
        return None


def digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def lacking(
    listing: Mapping[str, str], folders: Sequence[str], needed: Sequence[str]
) -> dict[str, Any]:
    """listing: state_of() by path. folders: they must hold nothing of an earlier shipment that is
    not in the listing. needed: folders that must be there. Returns the `host`; by path what there
    is of those that are `wanted` and of those that are `outdated`; the folders that are `missing`;
    and what is `unlike` the client and not ours to replace."""
    shipped = _shipped()
    wanted: dict[str, str | None] = {}
    stay = []
    for path, state in listing.items():
        found, why = _found(path)
        if found == state or found == state.replace("file ", "program ", 1):
            continue
        if why is None and (found is None or found in shipped.get(path, ())):
            wanted[path] = found
        elif why is None:
            since = "was changed since it was shipped" if path in shipped else "is another one"
            stay.append(f"{path} {since}; remove it there, or have the same here")
        else:
            stay.append(f"{path} cannot be read: {why}")
    below = tuple(f"{folder}/" for folder in folders)
    outdated = {
        path: found
        for path, states in shipped.items()
        if path.startswith(below) and path not in listing and (found := _found(path)[0]) in states
    }
    more = [f"and {len(stay) - SAID} more"] if len(stay) > SAID else []
    return {
        "host": platform.node(),
        "wanted": wanted,
        "outdated": outdated,
        "missing": [folder for folder in needed if not os.path.isdir(folder)],
        "unlike": stay[:SAID] + more,
    }


def receive(
    files: Mapping[str, Put], outdated: Mapping[str, str], missing: Sequence[str]
) -> dict[str, Any]:
    """Makes the folders that are missing, puts the files there and removes those that are outdated.
    Returns the `host`, and as `unlike` why it could not."""
    path = RECORD.format(os.getuid())
    try:
        with _open_record("ab") as record:
            for path in missing:
                _make_folder(Path(path))
            for path, (state, before, content) in files.items():
                _make_folder(Path(path).parent)
                if state_of(path) != before:
                    raise OSError(errno.EBUSY, "it was changed meanwhile")
                record.write(json.dumps({"path": path, "state": state}).encode() + b"\n")
                record.flush()
                _put(Path(path), state, content)
        for path, before in outdated.items():
            if state_of(path) == before:
                os.unlink(path)
    except OSError as error:
        why = f"{path} cannot be put there: {error.strerror}"
        return {"host": platform.node(), "unlike": [why]}
    return {"host": platform.node(), "unlike": []}


def _found(path: str) -> tuple[str | None, str | None]:
    """state_of(), or why that is not known."""
    try:
        return state_of(path), None
    except OSError as error:
        return None, error.strerror


def _open_record(mode: str) -> IO[bytes]:
    """Raises OSError, also where it is a link or another user's: who may write to it could have us
    replace files."""
    how = os.O_RDONLY if mode == "rb" else os.O_RDWR | os.O_APPEND | os.O_CREAT
    path = RECORD.format(os.getuid())
    record = os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    status = os.fstat(record)
    if status.st_uid != os.getuid() or not stat.S_ISREG(status.st_mode):
        os.close(record)
        raise OSError(errno.EPERM, f"{path} is another user's")
    opened = os.fdopen(record, mode)
    if mode == "ab" and status.st_size > 0 and os.pread(record, 1, status.st_size - 1) != b"\n":
        opened.write(b"\n")  # a line that was cut short is not to spoil the next
    return opened


def _shipped() -> dict[str, set[str]]:
    """By path, the states of what was ever shipped there. A line that was cut short, or is none of
    ours, counts for nothing."""
    shipped: dict[str, set[str]] = {}
    try:
        with _open_record("rb") as record:
            lines = record.read().splitlines()
    except OSError:
        return shipped
    for line in lines:
        try:
            one = json.loads(line)
            path, state = one["path"], one["state"]
        except (ValueError, TypeError, LookupError):
            continue
        if isinstance(path, str) and isinstance(state, str):
            shipped.setdefault(path, set()).add(state)
    return shipped


def _make_folder(folder: Path) -> None:
    """Raises OSError where another user could put another file into its place: what is put there is
    executed."""
    for path in (folder, Path(os.path.realpath(folder))):
        for one in (path, *path.parents):
            if os.path.lexists(one) and not _is_safe(os.lstat(one)):
                raise OSError(errno.EPERM, f"other users may write to {one}")
    folder.mkdir(parents=True, exist_ok=True)


def _is_safe(status: os.stat_result) -> bool:
    """Whether only root and we may replace what is in a folder or where a link leads. In a sticky
    folder others may add files, and replace their own only."""
    if status.st_uid not in (0, os.getuid()):
        return False
    if stat.S_ISLNK(status.st_mode) or status.st_mode & stat.S_ISVTX:
        return True
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getgid())
    return not by_group and not status.st_mode & stat.S_IWOTH


def _put(path: Path, state: str, content: bytes) -> None:
    beside = path.with_name(f".{os.urandom(8).hex()}")
    kind, _, target = state.partition(" ")
    try:
        if kind == "link":
            beside.symlink_to(target)
        else:
            with open(beside, "xb") as file:
                file.write(content)
            beside.chmod(0o755 if kind == "program" else 0o644)
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)
