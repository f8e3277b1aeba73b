# SPDX-License-Identifier: MIT
"""How the file of a study's measurements is written and read, whichever study it is. All that its
page, tables and figures are drawn from is in this file; what that is, a study's measurements.py
says.

    DIR/measurements.json          "schema", "study" (the machine and the question), further heads,
                                   then lists whose entries stand in a line each, "digest"
    DIR/measurements.explanations.toml      what its reader found: explanations.py

The same measurements are the same bytes. The digest is that of all else, so that no damage passes
for a figure.
"""

import json
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from ..output.files import read_json
from ..system.errors import UserError
from .store import digest


def as_lines(head: Mapping[str, Any], lists: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    whole = {**head, **lists}
    parts = [f'"{key}": {json.dumps(value)}' for key, value in head.items()]
    parts += [f'"{key}": {_in_lines(entries)}' for key, entries in lists.items()]
    parts.append(f'"digest": "{digest(whole)}"')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _in_lines(entries: Iterable[Mapping[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in entries) + "\n]"


def read_lines(file: Path, schema: str, command: str) -> dict[str, Any]:
    """What a study wrote, without the digest. `command`: which writes it. Raises UserError for any
    other file."""
    document = read_json(str(file))
    if not isinstance(document, dict) or document.get("schema") != schema:
        raise UserError(
            f"{file} holds no measurements of a study; `allotrope {command}` writes them as "
            "DIR/measurements.json"
        )
    if document.pop("digest", None) != digest(document):
        raise UserError(f"{file} is damaged: it is not what the study wrote")
    return document
