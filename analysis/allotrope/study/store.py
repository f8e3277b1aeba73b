# SPDX-License-Identifier: MIT
"""Where a study keeps what it has measured: one file for each step, written whole or not at all.

    DIR/study.json            the machine and the question; refuses to be continued by another
    DIR/steps/KIND/NAME.json  {"fingerprint", "seconds", "result"}

A step's fingerprint names all that its result depends on: command, allocator, the files of both.
A result with another fingerprint is not used; that step is measured anew.
"""

import fcntl
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Mapping

from ..output.files import replace_file
from ..system.errors import UserError

ASKED = ("rounds", "only", "programs", "given")  # what may be asked otherwise on resuming


def _said(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or ("all" if key == "only" else "none")
    return str(value or "the study's")


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


class Store:
    """`schema`: of the study, so that none is taken for another."""

    def __init__(self, folder: Path, schema: str) -> None:
        self.folder, self.schema = folder, schema

    def begun(self) -> dict[str, Any]:
        """The study in the folder, empty when there is none."""
        return self.study() if (self.folder / "study.json").exists() else {}

    def begin(self, question: Mapping[str, Any], resume: bool) -> list[str]:
        """Takes possession of the folder, or goes on in it; returns what is asked otherwise than
        when the study was begun."""
        file = self.folder / "study.json"
        if not file.exists():
            if resume:
                raise UserError(f"--resume: {self.folder} holds no study; leave out --resume")
            if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
                raise UserError(f"--out: {self.folder} holds something else; name another")
            replace_file(file, json.dumps({"schema": self.schema, **question}, indent=1) + "\n")
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
            now = was | {key: question[key] for key in changed}
            replace_file(file, json.dumps(now, indent=1) + "\n")
        return [
            f"{key}: begun with {_said(key, was[key])}, now {_said(key, question[key])}"
            for key in changed
            if key in was
        ]

    def study(self) -> dict[str, Any]:
        file = self.folder / "study.json"
        try:
            was: dict[str, Any] = json.loads(file.read_text())
        except (OSError, ValueError):
            raise UserError(f"{file} is damaged; begin anew with another --out") from None
        if was.get("schema") != self.schema:
            raise UserError(f"{file} is no study of this version; begin anew with another --out")
        return was

    def path(self, step: Step) -> Path:
        safe = step.name.replace("/", "_").replace(":", "-").replace(",", "+")
        return self.folder / "steps" / step.kind / f"{safe}.json"

    def lock(self) -> IO[str]:
        """Keeps a second study out of the folder until what is returned is closed."""
        file = (self.folder / "study.json").open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"another study is at work in {self.folder}; wait for its end"
            ) from None
        return file

    def get(self, step: Step, as_it_is: bool = False) -> Any | None:
        """The step's result, None when it has not been measured, or in other circumstances; of
        whatever circumstances with `as_it_is`."""
        try:
            saved = json.loads(self.path(step).read_text())
        except (OSError, ValueError):
            return None
        same = saved.get("fingerprint") == step.fingerprint()
        return saved["result"] if same or as_it_is else None

    def put(self, step: Step, result: Any, seconds: float) -> None:
        saved = {"fingerprint": step.fingerprint(), "seconds": round(seconds, 3), "result": result}
        replace_file(self.path(step), json.dumps(saved) + "\n")
