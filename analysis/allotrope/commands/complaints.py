# SPDX-License-Identifier: MIT
"""What click complains of, in the form of our own messages: what is wrong, and behind a semicolon
what would do. `Invalid value for '--rounds': 0 is not in the range x>=1.` becomes
`--rounds: '0' is no whole number from 1 on`.
"""

import re

import click

WRONG_NUMBER = re.compile(r"'?(.*?)'? is not (?:a valid (?:integer|float)|in the range).*")


def in_our_words(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption):
        near = error.possibilities
        hint = f"did you mean {near[0]}?" if near else f"see {_help_of(error)}"
        return f"there is no option {error.option_name}; {hint}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value; see {_help_of(error)}"
    if isinstance(error, click.MissingParameter):
        return f"{_name_of(error)} is missing; see {_help_of(error)}"
    if isinstance(error, click.BadParameter):
        return f"{_name_of(error)}: {_what_is_wrong(error)}"
    message = error.format_message()
    if extra := re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", message):
        return f"'{extra[1]}' is one word too many; see {_help_of(error)}"
    return message


def _help_of(error: click.ClickException) -> str:
    """The help of the word where it happened; of all, where click does not say which that is."""
    context = getattr(error, "ctx", None) or click.get_current_context(silent=True)
    return f"{context.command_path if context else 'allotrope'} --help"


def _name_of(error: click.BadParameter) -> str:
    """As it is written: the first of an option's names, an argument's in capitals."""
    if error.param is None:
        return str(error.param_hint or "a value")
    if isinstance(error.param, click.Option):
        return error.param.opts[0]
    return error.param.make_metavar().strip("[].")


def _what_is_wrong(error: click.BadParameter) -> str:
    kind = error.param.type if error.param is not None else None
    if number := WRONG_NUMBER.fullmatch(error.message):
        return f"'{number[1]}' is no {_number(kind)}"
    if isinstance(kind, click.Choice):
        value = error.message.split(" is not one of")[0]
        return f"{value} is unknown; valid are {', '.join(kind.choices)}"
    return error.message.rstrip(".")


def _number(kind: click.ParamType | None) -> str:
    """What a number has to be: "whole number from 1 to 64"."""
    name = "whole number" if isinstance(kind, click.types.IntParamType) else "number"
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is None:
        return name
    bound = f"above {least:g}" if getattr(kind, "min_open", False) else f"from {least:g}"
    if most is None:
        return f"{name} {bound}" + ("" if bound.startswith("above") else " on")
    return f"{name} {bound} to {most:g}"
