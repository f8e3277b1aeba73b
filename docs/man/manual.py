# SPDX-License-Identifier: MIT
"""Writes the manual pages: manual.py PAGE BUILD, to standard output.

What can change has one place: words and options are those of the command itself, allocators,
presets and their options those that allotrope-describe tells. The rest is in PAGE.in, where a
line `@COMMANDS@` or `@ALLOCATORS@` stands for them.
"""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "analysis"))

import click  # noqa: E402


def escaped(text: str) -> str:
    """Text as troff must have it, on lines of its own: each sentence begins one."""
    text = text.replace("\\", "\\e").replace("\b", "")
    text = re.sub(r"(?<=\w\w[.!?]) +(?=[A-Z])", "\n", text)
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def word(text: str) -> str:
    """An argument of a macro."""
    return '"' + escaped(text).replace('"', "\\(dq") + '"'


def paragraphs(text: str) -> Iterator[str]:
    for number, part in enumerate(re.split(r"\n\s*\n", text.strip(" \n"))):
        part = part.lstrip(" ")
        if part.startswith("\b"):
            yield f".Bd -literal -offset indent\n{escaped(inspect.cleandoc(part[1:]))}\n.Ed"
        else:
            yield (".Pp\n" if number else "") + escaped(" ".join(part.split()))


def parameter(option: click.Option, context: click.Context) -> str:
    names = " , ".join("Fl " + word(name[1:]) for name in option.opts + option.secondary_opts)
    takes = "" if option.is_flag or option.count else " Ar " + word(option.make_metavar())
    return f".It {names}{takes}\n{escaped(' '.join((option.help or '').split()))}"


def command_section(path: list[str], command: click.Command, above: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=path[-1], parent=above)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".Ss {' '.join(path)}"
    yield f".Nm Cm {' '.join(path)} Ar {word(usage)}\n.Pp"
    yield from paragraphs(command.help or "")
    options = [option for option in command.params if isinstance(option, click.Option)]
    shown = [option for option in options if not option.hidden]
    if shown:
        yield ".Bl -tag -width Ds"
        yield from (parameter(option, context) for option in shown)
        yield ".El"
    if isinstance(command, click.MultiCommand):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below and not below.hidden:
                yield from command_section([*path, name], below, context)


def commands() -> Iterator[str]:
    from allotrope.commands.cli import cli

    context = click.Context(cli, info_name="allotrope")
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        if command and not command.hidden:
            yield from command_section([name], command, context)


def values(option: dict[str, Any]) -> str:
    if option["kind"] == "keyword":
        return "|".join(option["keywords"])
    return f"{option['minimum']}..{option['maximum']}"


def allocators(build: Path) -> Iterator[str]:
    told = subprocess.run([build / "allotrope-describe"], capture_output=True, check=True).stdout
    for allocator in json.loads(told)["allocators"]:
        yield f".Ss {allocator['name']}\n{escaped(allocator['title'])}.\n.Pp"
        yield f"Source: {escaped(allocator['source'])}."
        for preset in allocator["presets"]:
            options = [o for o in allocator["options"] if preset["name"] in o["presets"]]
            spec = allocator["name"]
            if preset["name"] != "default":
                spec += ":" + preset["name"]
            yield f".Pp\n.Sy {word(spec)} :\n{escaped(preset['title'])}."
            if options:
                yield ".Bl -tag -width Ds"
            for option in options:
                yield f".It Cm {word(option['key'])} Ns = Ns Ar {word(values(option))}"
                yield f"{escaped(option['title'])} (default: {option['default']})"
            if options:
                yield ".El"


def main() -> None:
    page, build = sys.argv[1], Path(sys.argv[2]).resolve()
    for line in (HERE / f"{page}.in").read_text().splitlines():
        if line == "@COMMANDS@":
            print("\n".join(commands()))
        elif line == "@ALLOCATORS@":
            print("\n".join(allocators(build)))
        else:
            print(line)


if __name__ == "__main__":
    main()
