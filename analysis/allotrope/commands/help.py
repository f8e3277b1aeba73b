# SPDX-License-Identifier: MIT
"""`allotrope help`: what --help says, of a word or of all."""

import click

from .words import unknown_word


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
                raise click.UsageError(f"{above.command_path} has no words of its own")
            raise unknown_word(group, above, word)
        above = click.Context(found, info_name=word, parent=above)
    click.echo(above.get_help())
