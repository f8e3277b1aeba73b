# SPDX-License-Identifier: MIT
"""Plain text that fits where it is shown."""

import os
import re
import textwrap
from typing import Collection, Sequence

WIDTH_WITHOUT_TERMINAL = 100
LEAST_WIDTH = 40


def width_of(descriptor: int) -> int:
    """The terminal's, or what COLUMNS says, or 100 where there is neither."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return max(int(wanted), LEAST_WIDTH)
    try:
        return max(os.get_terminal_size(descriptor).columns, LEAST_WIDTH)
    except OSError:
        return WIDTH_WITHOUT_TERMINAL


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width`, those behind the first indented. Only a word that is longer than
    a line is broken."""
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


def printable(text: str) -> str:
    """Bytes that a terminal may obey are shown as hexadecimal, but for the ends of lines."""
    return re.sub(r"[\x00-\t\v-\x1f\x7f-\x9f]", lambda byte: f"\\x{ord(byte[0]):02x}", text)


def one_line(text: str) -> str:
    """The same, and the ends of lines, too."""
    return printable(text).replace("\n", r"\x0a")


def markdown_code(text: str) -> str:
    """A span in GitHub's Markdown, on one line. Only a fence longer than each row of backticks
    inside ends it."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence, room = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{room}{text}{room}{fence}".replace("\n", " ")


def markdown_table(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Lines of a table in GitHub's Markdown, header first. left: the columns of words; figures are
    set at the right."""
    edge = ["---" if column in left else "---:" for column in range(len(rows[0]))]
    cells = ([cell.replace("|", r"\|").replace("\n", " ") or " " for cell in row] for row in rows)
    header, *others = (f"| {' | '.join(row)} |" for row in cells)
    return [header, f"|{'|'.join(edge)}|", *others]
