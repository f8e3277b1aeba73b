# SPDX-License-Identifier: MIT
"""Folders for what is needed only while we run, which not even a KILL leaves behind for long.

Whoever makes a folder holds a lock on its mark, a file in it, and the kernel drops the lock when
the owner ends, however it does. The first folder that a later command makes removes those whose
mark is free. The mark gets its name when it is locked already, so that no folder is taken away
from an owner who is about to lock it.
"""

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from pathlib import Path
from typing import Iterator

PREFIX = "allotrope-scratch-"
MARK = ".owner"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new, empty folder of ours, which is removed behind the `with`."""
    remove_ownerless()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        with open(folder / f"{MARK}.new", "wb") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            os.rename(folder / f"{MARK}.new", folder / MARK)
            yield folder
    finally:
        _remove(folder)


@functools.cache
def remove_ownerless() -> None:
    """Once in a process. What is another user's stays."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            mark = os.open(folder / MARK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if os.fstat(mark).st_uid == os.geteuid():
                    fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(folder)
            finally:
                os.close(mark)


def _remove(folder: Path) -> None:
    """The mark last: who is killed meanwhile leaves what the next finds."""
    with contextlib.suppress(OSError):
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            elif one.name != MARK:
                one.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
