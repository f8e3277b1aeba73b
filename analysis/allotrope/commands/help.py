# SPDX-License-Identifier: MIT
"""`allotrope help`: what --help says, of a word or of all."""

import click

from ..system.errors import UserError
from .words import unknown_word


# Words that are no commands of their own: the help of the word before them has all of it.
WITHIN = {"sites": ("diff",)}


def check_word_within(context: click.Context, word: str) -> None:
    path = context.command_path
    within = WITHIN.get(str(context.info_name), ())
    if not within:
        raise UserError(f"{path} has no words of its own; see {path} --help")
    if word not in within:
        raise UserError(f"{path} has no word '{word}'; it has {', '.join(within)}")


@click.command("help")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.pass_context
def show_help(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a word; without one, of allotrope.

    \b
    allotrope help
    allotrope help compare
    allotrope help trace info
    """
    above = context.parent
    assert above is not None
    for word in words:
        group = above.command
        found = group.get_command(above, word) if isinstance(group, click.Group) else None
        if found is None:
            if not isinstance(group, click.Group):
                check_word_within(above, word)
                continue
            raise unknown_word(group, above, word)
        above = click.Context(found, info_name=word, parent=above)
    click.echo(above.get_help())
