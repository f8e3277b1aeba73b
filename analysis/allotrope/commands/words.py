# SPDX-License-Identifier: MIT
"""What the words of the command have in common: how they are read, and the options that several
of them have."""

import difflib
import functools
import importlib
import inspect
import math
import re
from typing import Any, Callable, Mapping

import click

from ..system.errors import UserError

Function = Callable[..., Any]
MOST_FRAMES = 64  # as the library keeps at most: of shim/observers/stack_trace.h
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


SENTENCE_END = re.compile(r"(?<=[a-z0-9)`'])\.(?=\s)")


def summary(command: click.Command) -> str:
    """The first sentence of a word's help, whole: click cuts it where the line ends, and takes an
    initial for an end."""
    first = " ".join(inspect.cleandoc(command.help or "").split("\n\n", 1)[0].split())
    return SENTENCE_END.split(first, maxsplit=1)[0].rstrip(".") + "."


# What is looked for under another name, and the words that have it.
ELSEWHERE = {
    "attach": "sites --pid PID and stats PID look into a running process",
    "bench": "compare measures a command under several allocators",
    "cat": "trace dump prints a trace as text",
    "diff": "sites diff A B, and compare --from NEW --against OLD",
    "heap": "sites tells where the memory was allocated, stats PID how the heap is",
    "latency": "run --latency and compare --latency time the calls",
    "print": "trace dump prints a trace as text",
    "profile": "sites -- CMD tells where the memory was allocated",
    "show": "trace info shows what a trace holds, and trace dump each reference",
    "server": "compare --server measures a server under a load",
    "suite": "compare --suite FILE measures many programs",
}


def unknown_word(group: click.Group, ctx: click.Context, word: str) -> UserError:
    """With the nearest word that there is."""
    if word in ELSEWHERE:
        return UserError(f"there is no word '{word}'; {ELSEWHERE[word]}")
    near = difflib.get_close_matches(word, group.list_commands(ctx), n=1)
    hint = f"did you mean {near[0]}?" if near else f"see {ctx.command_path} --help"
    return UserError(f"there is no word '{word}'; {hint}")


def resolve(
    group: click.Group, ctx: click.Context, args: list[str]
) -> tuple[str | None, click.Command | None, list[str]]:
    """As click.Group.resolve_command, but for what is said of an unknown word."""
    if args and not args[0].startswith("-") and group.get_command(ctx, args[0]) is None:
        raise unknown_word(group, ctx, args[0])
    return click.Group.resolve_command(group, ctx, args)


def write_whole_summaries(
    group: click.Group, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    words = [(name, group.get_command(ctx, name)) for name in group.list_commands(ctx)]
    rows = [(name, summary(command)) for name, command in words if command and not command.hidden]
    with formatter.section("Commands"):
        formatter.write_dl(rows)


class Group(click.Group):
    """A word that has words of its own."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return resolve(self, ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_whole_summaries(self, ctx, formatter)


class Words(Group):
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
        module = importlib.import_module("." + cmd_name.replace("-", "_"), __package__)
        command: click.Command = getattr(module, self.where[cmd_name])
        return command


class Seconds(click.FloatRange):
    """A time. click takes "nan" and "inf" for numbers, and finds nan in every range."""

    name = "number of seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"'{value}' is no number of seconds", param, ctx)
        return seconds


class Percent(click.ParamType):
    """A share of 1, written with a percent sign: 2% is 0.02."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            share = float(str(value).removesuffix("%")) / 100
        except ValueError:
            share = math.nan
        if not str(value).endswith("%") and not math.isnan(share):
            self.fail(f"'{value}': write it with %, such as 2%", param, ctx)
        if not 0 < share < 1:
            self.fail(f"'{value}' is no share between 0% and 100%, such as 2%", param, ctx)
        return share


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


def need_readable(option: str, file: str | None) -> None:
    """Nothing was asked for where there is no file."""
    if file is None:
        return
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise UserError(f"{option}: cannot read {file}: {error.strerror}") from None


def takes_command(
    name: str, usage: str | None = None, cls: type[Word] = Word
) -> Callable[[Function], click.Command]:
    """A word with a command behind its own options, which it needs unless `usage` is None."""

    def decorate(function: Function) -> click.Command:
        @functools.wraps(function)
        def checked(*arguments: Any, command: tuple[str, ...], **options: Any) -> Any:
            if usage is not None:
                need_command(command, f"{name} {usage}")
            return function(*arguments, command=command, **options)

        with_command = click.argument("command", nargs=-1)(checked)
        return click.command(name, cls=cls, context_settings=TAKES_COMMAND)(with_command)

    return decorate


def allocator_option(text: str, **settings: Any) -> Callable[[Function], Function]:
    """-a of a word that runs under one allocator, as `spec`. text: its help."""
    names = ("-a", "--allocator", "spec")
    return click.option(*names, metavar="ALLOCATOR", help=text, **settings)


def allocators_option(text: str) -> Callable[[Function], Function]:
    """-a of a word that runs under several, as `specs`."""
    names = ("-a", "--allocator", "specs")
    return click.option(*names, multiple=True, metavar="ALLOCATOR", help=text)


def rounds_option(default: int, text: str) -> Callable[[Function], Function]:
    count = click.IntRange(min=1)
    return click.option("--rounds", type=count, default=default, show_default=True, help=text)


def level_option(least: int, text: str) -> Callable[[Function], Function]:
    """How hard zstd tries."""
    levels = click.IntRange(least, 19)
    return click.option("--level", type=levels, default=1, show_default=True, help=text)


def frames_option(default: int, text: str, **settings: Any) -> Callable[[Function], Function]:
    frames = click.IntRange(1, MOST_FRAMES)
    settings |= {"default": default, "show_default": True, "help": text}
    return click.option("--frames", type=frames, **settings)


RESULTS = {
    "--json": "every result, as JSON",
    "--csv": "every result, as CSV",
    "--html": "a page with pictures",
}


def output_options(
    texts: Mapping[str, str], metavar: str = "FILE|-"
) -> Callable[[Function], Function]:
    """An option for each file that may be written; the word gets all of them as `files`, by option.
    texts: the help of each."""
    names = {option: f"{option.strip('-').replace('-', '_')}_file" for option in texts}

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def with_files(*arguments: Any, **options: Any) -> Any:
            files = {option: options.pop(name) for option, name in names.items()}
            return function(*arguments, files=files, **options)

        for option, text in reversed(texts.items()):
            with_files = click.option(option, names[option], metavar=metavar, help=text)(with_files)
        return with_files

    return decorate
