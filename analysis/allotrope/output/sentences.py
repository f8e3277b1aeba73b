# SPDX-License-Identifier: MIT
"""Sentences about figures, and from which size on a figure is worth one."""

from dataclasses import dataclass
from typing import Any, Sequence

from ..statistics.verdicts import NOTICEABLE_BYTES
from .units import format_bytes

LITTLE = format_bytes(NOTICEABLE_BYTES)  # memory below that does not count in a choice
LEAK_SHARE = 0.10  # of the most that was asked for, still held at exit


@dataclass(frozen=True)
class Sentence:
    """One thing to be said. kind: "choice", "undecided", "price", "refused", "finding" or "note";
    the first sentence of a recommendation is a choice or says why there is none."""

    kind: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.title}: {self.text}"


# Of a recording or a trace whose `whole` is false.
CUT_SHORT = Sentence(
    "note", "Incomplete", "the file is damaged or cut short; the figures are of what came before."
)


def of_lost_events(document: dict[str, Any]) -> list[Sentence]:
    """Of a recording, if it has lost any."""
    lost = (document.get("end") or {}).get("lost_events", 0)
    text = f"without {counted(lost, 'event')} of threads that found no buffer."
    return [Sentence("note", "Incomplete", text)] if lost else []


def of_whole_rounds(why: str) -> Sentence:
    """Of a measurement that ended before its last round. why: a clause."""
    return Sentence("note", "Incomplete", f"{why}; the figures are of the rounds before that.")


def enumerate_names(names: Sequence[str]) -> str:
    """a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def counted(count: int, noun: str) -> str:
    """1 round, 2,000 rounds."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def too_few_rounds(count: int) -> str:
    """That they have no interval."""
    does = "does" if count == 1 else "do"
    return f"{counted(count, 'round')} {does} not tell chance from difference"
