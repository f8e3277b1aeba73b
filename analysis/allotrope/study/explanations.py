# SPDX-License-Identifier: MIT
"""Why a claim does not hold, where someone has found it out of a run: a file beside the run's.

NAME.explanations.toml belongs to NAME.json. A table for each claim:

    [2a]
    programs = ["gawk"]      # of which it is true; of all that are outside when left out
    text = "the heap begins with 256 KiB and hardly grows ..."
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from ..system.errors import UserError


@dataclass(frozen=True)
class Explanation:
    """It stands only where one of its programs is outside the paper's range."""

    text: str
    programs: Sequence[str] = ()  # all when empty


def file_beside(measurements: Path) -> Path:
    return measurements.with_suffix(".explanations.toml")


def read_explanations(
    file: Path, claims: Sequence[str], programs: Sequence[str]
) -> dict[str, Explanation]:
    """By the claim's number; none where there is no file. `claims` and `programs`: those that there
    are. Raises UserError, which names the faulty key."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no TOML: {error}") from None
    for number in table:
        if number not in claims:
            raise UserError(f"{file}: there is no claim '{number}'; valid are {', '.join(claims)}")
    return {number: _read(f"{file}: {number}", entry, programs) for number, entry in table.items()}


def _read(where: str, entry: Any, programs: Sequence[str]) -> Explanation:
    if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
        raise UserError(f"{where} has no text")
    if unknown := set(entry) - {"text", "programs"}:
        raise UserError(f"{where}: unknown key '{min(unknown)}'; valid are programs, text")
    named = entry.get("programs", [])
    if not isinstance(named, list):
        raise UserError(f"{where}: programs must be a list of names")
    for name in named:
        if name not in programs:
            raise UserError(f"{where}: no program '{name}'; valid are {', '.join(programs)}")
    return Explanation(entry["text"], tuple(named))
