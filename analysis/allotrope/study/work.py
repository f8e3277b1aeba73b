# SPDX-License-Identifier: MIT
"""Carries a study out, step by step.

A study says what its steps are, how one is measured and where its result is kept (Work's abstract
methods). What is here is the same for all: results are kept as they come, what is there already is
not measured again, and what is left is announced in minutes, corrected by experience.
"""

import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Generic, Protocol, Sequence, TypeVar

from ..features.suite.measure import duration
from ..system.errors import UserError
from ..system.scratch import scratch_folder
from .store import Step, Store

# What a result of another shape raises.
DAMAGE = (AttributeError, LookupError, TypeError, ValueError)
Announce = Callable[[str], None]


class Steppable(Protocol):
    @property
    def step(self) -> Step:
        ...


Planned = TypeVar("Planned", bound=Steppable)  # a step with what it needs to be carried out


@dataclass(frozen=True)
class Share(Generic[Planned]):
    """What one machine must measure alone, since it is compared with each other: programs with all
    their steps. `missing`: why these cannot be had here. `more`: what there is of no program, in
    words. `needs`: words in which the files and folders are named that they need."""

    programs: Sequence[str]
    planned: Sequence[Planned]
    missing: str | None = None
    more: Sequence[str] = ()
    needs: Sequence[str] = ()

    @property
    def name(self) -> str:
        return " and ".join(self.programs)


def _used_seconds() -> float:
    """CPU time of this process and of those that it has awaited."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Work(ABC, Generic[Planned]):
    def __init__(self, store: Store, announce: Announce) -> None:
        self.store, self.announce = store, announce
        # Measured over estimated seconds, by kind: what is left is corrected by it.
        self._pace: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    # What a study says

    @abstractmethod
    def known_steps(self) -> list[Planned]:
        """All steps, as far as they are known without running anything."""

    @abstractmethod
    def shares(self) -> list[Share[Planned]]:
        """All steps, in shares for as many machines."""

    @abstractmethod
    def prepare(self, folder: Path) -> list[Planned]:
        """Does what must be done before the first step; returns the steps that this machine can
        carry out. `folder`: for scratch, until the end."""

    @abstractmethod
    def measure(self, planned: Planned, folder: Path) -> Any:
        ...

    @abstractmethod
    def keep(self, planned: Planned, found: Any) -> None:
        """Enters a step's result, of now or of an earlier run."""

    @abstractmethod
    def nothing(self) -> str | None:
        """Why there is nothing to be shown; None where there is something."""

    @abstractmethod
    def measurements(self) -> str:
        """The file that the page is drawn from (documents.py)."""

    def is_whole(self, planned: Planned, found: Any) -> bool:
        """Whether a step's result is all that is wanted of it. What is not is shown as it is, and
        measured again when the study is resumed."""
        return True

    def subjects(self) -> str:
        """What is measured, for the first line: "6 programs"."""
        return ""

    # What is the same for all

    def gather(self, as_it_is: bool = True) -> None:
        """What was measured, whatever has changed since, or else what is still as it was measured;
        measures nothing."""
        known = self.known_steps()
        for planned in known:
            found = self.store.get(planned.step, as_it_is)
            if found is not None:
                self._keep_stored(planned, found)
        self._tell_damaged(known, "it is left out; without --report-only it is measured again")
        if as_it_is and (outdated := self._outdated(known)):
            self.announce(
                f"{outdated} results are of other programs, allocators or simulators "
                "than are here now; the page shows them as they are"
            )

    def run(self) -> None:
        """Measures what is not measured yet."""
        with scratch_folder() as folder:
            folder.chmod(0o755)  # some servers give up root
            todo = self.prepare(folder)
            if not todo:
                return
            waiting = [one for one in todo if self._is_wanted(one, self.store.get(one.step))]
            self.announce(
                f"{self.subjects()}{len(todo)} steps"
                + (f", {len(todo) - len(waiting)} done before" if len(waiting) < len(todo) else "")
                + f"; about {duration(self._left(waiting))}"
            )
            self._tell_damaged(waiting, "it is measured again")
            if outdated := self._outdated(waiting):
                self.announce(
                    f"{outdated} were measured with other programs, allocators or "
                    "simulators than are here now: measured anew"
                )
            for planned in todo:
                self._settle(planned, waiting, folder)

    def once(self, planned: Planned, do: Callable[[], Any]) -> Any:
        """The step's result, measured if it is not there yet."""
        found = self.store.get(planned.step)
        if self._is_wanted(planned, found):
            begun, used = time.monotonic(), _used_seconds()
            found = do()
            seconds = time.monotonic() - begun
            self.store.put(planned.step, found, seconds, _used_seconds() - used)
            pace = self._pace[planned.step.kind]
            pace[0] += seconds
            pace[1] += planned.step.seconds
        return found

    def _is_wanted(self, planned: Planned, found: Any | None) -> bool:
        if found is None:
            return True
        try:
            return not self.is_whole(planned, found)
        except DAMAGE:
            return False  # _keep_stored() names the file

    def _outdated(self, known: Sequence[Planned]) -> int:
        """How many steps were measured in other circumstances."""
        return sum(
            self.store.get(one.step) is None and self.store.get(one.step, as_it_is=True) is not None
            for one in known
        )

    def _tell_damaged(self, known: Sequence[Planned], becomes: str) -> None:
        for one in known:
            if file := self.store.damaged(one.step):
                self.announce(f"{file} is damaged: {becomes}")

    def _keep_stored(self, planned: Planned, found: Any) -> None:
        """A file may have been changed by others."""
        try:
            self.keep(planned, found)
        except DAMAGE as error:
            raise UserError(
                f"{self.store.path(planned.step)} is damaged: {type(error).__name__} {error}; "
                "remove it: --resume measures it again"
            ) from None

    def _left(self, waiting: Sequence[Planned]) -> float:
        seconds = 0.0
        for one in waiting:
            took, meant = self._pace[one.step.kind]
            # As estimated at first; as experienced once there is experience of some seconds.
            seconds += one.step.seconds * (took / meant if meant > 5 else 1.0)
        return seconds

    def _settle(self, planned: Planned, waiting: list[Planned], folder: Path) -> None:
        if planned in waiting:
            left = duration(self._left(waiting))
            self.announce(f"{planned.step.kind} · {planned.step.name}; about {left} left")
            waiting.remove(planned)
            self.keep(planned, self.once(planned, lambda: self.measure(planned, folder)))
        else:
            self._keep_stored(planned, self.store.get(planned.step))
