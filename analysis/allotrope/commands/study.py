# SPDX-License-Identifier: MIT
"""`allotrope study`: old papers' questions, measured again."""

import click

from .words import Words

# The studies that there are, and the name of each in its module, which is called as the study.
STUDIES = {"zorn": "zorn", "barriers": "barriers", "vm": "vm"}


@click.group("study", cls=Words, where=STUDIES)
def study() -> None:
    """Measure an old paper's question again. zorn and vm are words of their own too.

    \b
    allotrope study zorn --quick
    allotrope study barriers --quick
    allotrope study vm table
    """
