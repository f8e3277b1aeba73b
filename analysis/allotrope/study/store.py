# SPDX-License-Identifier: MIT
"""Where a study keeps what it has measured: one file for each step, written whole or not at all.

    DIR/study.json            the machine and the question; refuses to be continued by another
    DIR/steps/KIND/NAME.json  {"fingerprint", "seconds", "cpu_seconds", "result"}

A step's fingerprint names all that its result depends on: command, allocator, the files of both.
A result with another fingerprint is not used; that step is measured anew.

The folder itself is locked (held()), not a file in it: study.json is replaced by another file when
something else is asked, and a lock on the old one would hold nobody back.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping

from ..output.files import replace_file
from ..system.errors import UserError

ASKED = ("rounds", "only", "programs", "given")  # what may be asked otherwise on resuming


def _said(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or ("all" if key == "only" else "none")
    return str(value or "the study's")


def _as_text(study: Mapping[str, Any]) -> str:
    return json.dumps(study, indent=1) + "\n"


@functools.cache
def file_digest(path: str) -> str | None:
    """Of a file that a result depends on; None where there is none."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "blake2b").hexdigest()[:32]
    except OSError:
        return None


def digest(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Step:
    """One thing to be measured. `depends`: all that the result depends on."""

    kind: str
    name: str
    depends: Mapping[str, Any]
    seconds: float  # estimated

    def fingerprint(self) -> str:
        return digest(dict(self.depends))


def read_step(text: str) -> dict[str, Any] | None:
    """What is in a step's file; None where it holds no result."""
    try:
        saved = json.loads(text)
    except ValueError:
        return None
    whole = isinstance(saved, dict) and {"fingerprint", "result"} <= saved.keys()
    return saved if whole else None


class Store:
    """`schema`: of the study, so that none is taken for another."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema
        self._file = folder / "study.json"
        self._begun = False  # here, now
        self._before: str | None = None  # what begin() replaced

    @contextlib.contextmanager
    def held(self, resume: bool) -> Iterator[None]:
        """Keeps a second study out of the folder. Makes the folder, unless it is to be resumed, and
        removes it again where nothing was put into it."""
        made = not resume and not self.folder.exists()
        if resume and not self._file.exists():
            raise UserError(f"--resume: {self.folder} holds no study; leave out --resume")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        except (FileExistsError, NotADirectoryError):
            raise UserError(f"--out: {self.folder} holds something else; name another") from None
        except OSError as error:
            raise UserError(f"--out: cannot write {self.folder}: {error.strerror}") from None
        try:
            self._lock(lock)
            yield
        finally:
            if made:
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
            os.close(lock)

    def _lock(self, folder: int) -> None:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(folder), os.stat(self.folder)):
                return  # nobody has removed it meanwhile
        except (BlockingIOError, FileNotFoundError):
            pass
        raise UserError(f"another study is at work in {self.folder}; wait for its end")

    def begun(self) -> dict[str, Any]:
        """The study in the folder, empty when there is none."""
        return self.study() if self._file.exists() else {}

    def begin(self, question: Mapping[str, Any], resume: bool) -> list[str]:
        """Writes down what is asked, which take_back() undoes; returns what is asked otherwise than
        when the study was begun."""
        if not self._file.exists():
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise UserError(f"--out: {self.folder} holds something else; name another")
            self._begun = True
            self._ask({"schema": self.schema, **question})
            return []
        if not resume:
            raise UserError(
                f"{self.folder} holds a study; continue it with --resume, or name "
                "another folder with --out"
            )
        was = self.study()
        if was.get("quick") != question["quick"]:
            begun = "with" if was.get("quick") else "without"
            raise UserError(
                f"--resume: the study in {self.folder} was begun {begun} --quick; "
                f"continue it {begun} --quick, or name another --out"
            )
        if was.get("machine") != question["machine"]:
            here = question["machine"]
            other = [
                f"{key} {value}, here {here.get(key)}"
                for key, value in (was.get("machine") or {}).items()
                if here.get(key) != value
            ]
            raise UserError(
                f"--resume: the study in {self.folder} is another machine's "
                f"({'; '.join(other)}); begin anew with another --out"
            )
        changed = [key for key in ASKED if key in question and was.get(key) != question[key]]
        if changed:
            self._before = self._file.read_text()
            self._ask(was | {key: question[key] for key in changed})
        return [
            f"{key}: begun with {_said(key, was[key])}, now {_said(key, question[key])}"
            for key in changed
            if key in was
        ]

    def take_back(self) -> None:
        """What was asked has failed: the study is what it was before begin()."""
        if self._before is not None:
            replace_file(self._file, self._before)
        elif self._begun and not (self.folder / "steps").exists():
            self._file.unlink(missing_ok=True)

    def note(self, **found: Any) -> None:
        """Enters into study.json what has been found about the study itself. It stays when what was
        asked is taken back."""
        if self._before is not None:
            self._before = _as_text(json.loads(self._before) | found)
        self._ask(self.study() | found)

    def _ask(self, study: Mapping[str, Any]) -> None:
        replace_file(self._file, _as_text(study))

    def study(self) -> dict[str, Any]:
        file = self._file
        try:
            was = json.loads(file.read_text())
        except (OSError, ValueError):
            was = None
        if not isinstance(was, dict):
            raise UserError(f"{file} is damaged; begin anew with another --out")
        if was.get("schema") != self.schema:
            raise UserError(f"{file} is no study of this version; begin anew with another --out")
        return was

    def path(self, step: Step) -> Path:
        safe = step.name.replace("/", "_").replace(":", "-").replace(",", "+")
        return self.folder / "steps" / step.kind / f"{safe}.json"

    def get(self, step: Step, as_it_is: bool = False) -> Any | None:
        """The step's result, None when it has not been measured, or in other circumstances; of
        whatever circumstances with `as_it_is`."""
        saved = self._saved(step)
        if saved is None:
            return None
        return saved["result"] if as_it_is or saved["fingerprint"] == step.fingerprint() else None

    def damaged(self, step: Step) -> Path | None:
        """The step's file where there is one that holds no result: the step is measured again."""
        path = self.path(step)
        return path if path.exists() and self._saved(step) is None else None

    def take(self, step: Step, text: str) -> None:
        """A step's file as another store has it."""
        replace_file(self.path(step), text)

    def _saved(self, step: Step) -> dict[str, Any] | None:
        try:
            return read_step(self.path(step).read_text())
        except (OSError, ValueError):  # no text, perhaps
            return None

    def put(self, step: Step, result: Any, seconds: float, cpu_seconds: float = 0.0) -> None:
        saved = {
            "fingerprint": step.fingerprint(),
            "seconds": round(seconds, 3),
            "cpu_seconds": round(cpu_seconds, 3),
            "result": result,
        }
        replace_file(self.path(step), json.dumps(saved) + "\n")
