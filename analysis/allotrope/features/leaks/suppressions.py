# SPDX-License-Identifier: MIT
"""Leaks that are known and not to be told again: a file with a pattern in each line.

A pattern is one of shells (`*`, `?`, `[a-z]`). It is held against each caller of the allocation:
its function, its object's file, its source's file, and that with the line. A line that begins with
`#` is a remark.
"""

import dataclasses
import fnmatch
import os
from pathlib import Path

from ...system.errors import UserError
from ...system.symbols import Place
from ..sites.measure import Tally
from .measure import Leak, Leaks


def read_rules(file: str) -> list[str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file} is no text in UTF-8") from None
    rules = (line.strip() for line in lines)
    return [rule for rule in rules if rule and not rule.startswith("#")]


def names_of(place: Place) -> set[str]:
    names = {place.name, place.function or "", os.path.basename(place.object)}
    if place.file:
        source = os.path.basename(place.file)
        names |= {source, f"{source}:{place.line}"}
    return names - {""}


def suppressing(rules: list[str], leak: Leak) -> str | None:
    """The first rule that holds of the leak."""
    names = {name for place in leak.site.places() for name in names_of(place)}
    return next((rule for rule in rules if fnmatch.filter(names, rule)), None)


def suppress(found: Leaks, rules: list[str]) -> Leaks:
    by = [suppressing(rules, leak) for leak in found.leaks]
    gone = (leak.both for leak, rule in zip(found.leaks, by) if rule is not None)
    return dataclasses.replace(
        found,
        leaks=[leak for leak, rule in zip(found.leaks, by) if rule is None],
        suppressed=sum(gone, Tally()),
        unused_rules=tuple(rule for rule in rules if rule not in by),
    )
