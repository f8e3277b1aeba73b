# SPDX-License-Identifier: MIT
"""What the words of the command have in common."""

import importlib
from typing import Any, Mapping

import click

from ..system.errors import UserError

# A command's own options are not ours: parsing ends where the command begins.
TAKES_COMMAND = {"allow_interspersed_args": False, "ignore_unknown_options": False}


class Word(click.Command):
    """Refuses an option that is given twice where it can only mean one thing."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        seen: set[str] = set()
        for parameter in given:
            if not isinstance(parameter, click.Option) or parameter.multiple or parameter.is_flag:
                continue
            if str(parameter.name) in seen:
                raise UserError(f"{parameter.opts[0]} is given twice; only one can be meant")
            seen.add(str(parameter.name))
        return super().parse_args(ctx, args)


class Words(click.Group):
    """A group whose words are modules, read when they are used: nobody waits for what only others
    need. `where` has for each word, which is also a module of this package, the name in it."""

    def __init__(self, *, where: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.where = where

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.where)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.where:
            return None
        module = importlib.import_module(f".{cmd_name}", __package__)
        command: click.Command = getattr(module, self.where[cmd_name])
        return command


def given_options(context: click.Context) -> dict[str, str]:
    """What stands on the command line: of each parameter its name in Python, and how it is written
    there."""
    given = {}
    for one in context.command.params:
        name = one.name or ""
        source = context.get_parameter_source(name)
        if source is click.core.ParameterSource.COMMANDLINE and context.params[name] != ():
            given[name] = one.opts[0] if isinstance(one, click.Option) else "the command"
    return given


def only_draws(context: click.Context, output: str, written: str) -> None:
    """--from measures nothing: refuses all beside it but `output`, which it needs."""
    given = given_options(context)
    for name in given:
        if name not in ("source", output):
            raise UserError(f"--from draws what was measured before; leave out {given[name]}")
    if output not in given:
        raise UserError(f"--from needs {written}, where the page is to go")


def need_command(command: tuple[str, ...], usage: str) -> None:
    if not command:
        raise UserError(f"no command given; usage: allotrope {usage} -- CMD...")
