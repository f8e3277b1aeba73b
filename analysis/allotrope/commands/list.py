# SPDX-License-Identifier: MIT
"""`allotrope list`: the allocators, their presets and options."""

import json
from typing import Any, Iterator, Mapping

import click

from ..output.text import width_of, wrap
from ..system import allocators
from .words import Word


@click.command("list", cls=Word)
@click.option("--json", "as_json", is_flag=True, help="write JSON (allotrope.list/1)")
def list_allocators(as_json: bool) -> None:
    """Show the allocators, their presets and options.

    \b
    allotrope list
    allotrope list --json | jq -r '.allocators[].name'
    """
    catalogue = allocators.own_catalogue()
    if as_json:
        click.echo(json.dumps(_listing(catalogue), indent=2))
        return
    width = width_of(1)
    missing = allocators.own_missing()
    if missing:
        _show(missing, width, 0)
    listed = catalogue["allocators"] if catalogue else []
    if listed:
        _show(
            "ALLOCATOR[:OPTION[,OPTION]...], an option a preset or KEY=VALUE; "
            "in brackets: the default",
            width,
            0,
        )
    for place, own in enumerate(listed):
        usual = " [the default]" if place == 0 else ""
        _show(f"{own['name']:<12}{own['title']}{usual}", width, 12)
        for line, indent in _presets_and_options(own):
            _show(line, width, indent)
    _show(f"{'glibc':<12}{allocators.libc_version()}, the C library's own", width, 12)
    for peer in allocators.PEERS:
        version = f"{peer.version()}, " if peer.path() else ""
        state = "" if peer.path() else f" (not installed: Debian package {peer.package})"
        _show(f"{peer.name:<12}{version}{peer.title}{state}", width, 12)
    names = ", ".join(["glibc", *(peer.name for peer in allocators.PEERS)])
    own = "jemalloc:narenas=1, glibc:arena_max=1"
    _show(f"{names} take their own options: {own}", width, 2)
    _show("any other: -a ./libmine.so", width, 2)
    _show(
        "with variables: -a ./libmine.so,NAME=VALUE,NAME=VALUE; any allocator takes them", width, 2
    )


def _show(line: str, width: int, indent: int) -> None:
    """The line, folded; what follows is indented, by no more than leaves room for words."""
    for part in wrap(line, width, " " * min(indent, width // 2)):
        click.echo(part)


def _presets_and_options(own: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Each preset as it is written, and below it its options; what all presets have alike comes
    once. Lines with the indent of their continuation."""
    names = [preset["name"] for preset in own["presets"]]
    specs = {name: own["name"] if name == "default" else f"{own['name']}:{name}" for name in names}
    texts = {
        name: [_option(one) for one in own["options"] if name in one.get("presets", specs)]
        for name in specs
    }
    shared = [
        text for text in next(iter(texts.values())) if all(text in one for one in texts.values())
    ]
    width = 2 + max(len(option) for text in texts.values() for option, _ in text)
    for preset in own["presets"]:
        name = preset["name"]
        yield f"  {specs[name]:<18}{preset['title']}", 20
        if len(specs) > 1 and shared == texts[name]:
            continue
        for option, title in texts[name]:
            if len(specs) == 1 or (option, title) not in shared:
                yield f"    {option:<{width}}{title}", 4 + width
    if len(specs) > 1 and shared:
        yield f"  with {'either' if len(specs) == 2 else 'any'} preset", 2
        for option, title in shared:
            yield f"    {option:<{width}}{title}", 4 + width


def _option(option: Mapping[str, Any]) -> tuple[str, str]:
    """How it is written, and what it does, with its default."""
    default = _number(option["default"])
    return f"{option['key']}={_values(option)}", f"{option['title']} [{default}]"


def _values(option: Mapping[str, Any]) -> str:
    """The values that an option takes."""
    if option.get("keywords"):
        return "|".join(option["keywords"])
    return f"{_number(option['minimum'])}..{_number(option['maximum'])}"


def _number(value: int | str) -> str:
    """As it may be written, with K, M or G where that is exact."""
    for suffix, unit in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if isinstance(value, int) and value and value % unit == 0:
            return f"{value // unit}{suffix}"
    return str(value)


def _listing(catalogue: dict[str, Any] | None) -> dict[str, Any]:
    glibc = {
        "name": "glibc",
        "title": "the C library's own",
        "package": "libc6",
        "installed": True,
        "version": allocators.libc_version(),
        "path": None,
    }
    peers = [
        {
            "name": peer.name,
            "title": peer.title,
            "package": peer.package,
            "installed": peer.path() is not None,
            "version": peer.version() if peer.path() else None,
            "path": str(peer.path()) if peer.path() else None,
        }
        for peer in allocators.PEERS
    ]
    return {
        "schema": "allotrope.list/1",
        "version": catalogue and catalogue["version"],
        "allocators": catalogue["allocators"] if catalogue else [],
        "peers": [glibc, *peers],
    }
