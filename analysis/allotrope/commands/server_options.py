# SPDX-License-Identifier: MIT
"""The options of `allotrope compare --server`, as one plan."""

import functools
from typing import Any

import click

from ..features.server.metrics import metrics
from ..features.server.plan import ServerPlan
from ..system.errors import UserError
from .words import Function, Seconds, given_options

SECONDS = Seconds(min=0, min_open=True)
OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--server",
        {
            "metavar": "CMD",
            "help": "compare a server under a load instead of a command: start CMD under each "
            "allocator; in all commands {port} is a free port and {dir} a new folder",
        },
    ),
    (
        "--ready",
        {
            "metavar": "CMD",
            "help": "a shell command that succeeds once the server is ready (default: a "
            "connection to {port})",
        },
    ),
    (
        "--load",
        {
            "metavar": "CMD",
            "help": "a shell command that loads the server; what the server uses meanwhile is "
            "measured; allotrope-load sends requests at a given rate",
        },
    ),
    (
        "--metric",
        {
            "metavar": "[NAME[:less]=]REGEX",
            "multiple": True,
            "help": "a figure that the load prints, more of it being better, or less; "
            "repeatable; 'requests' gives CPU per request (default: those of allotrope-load, "
            "redis-benchmark, pgbench, wrk and ab)",
        },
    ),
    ("--setup", {"metavar": "CMD", "help": "a shell command before each start of the server"}),
    ("--cleanup", {"metavar": "CMD", "help": "a shell command after each stop of the server"}),
    (
        "--ready-timeout",
        {
            "type": SECONDS,
            "default": 30.0,
            "show_default": True,
            "metavar": "SECONDS",
            "help": "how long the server may take to be ready",
        },
    ),
    (
        "--stop-timeout",
        {
            "type": SECONDS,
            "default": 10.0,
            "show_default": True,
            "metavar": "SECONDS",
            "help": "how long it may take to end after TERM, before it is killed",
        },
    ),
)
NAMES = tuple(option.strip("-").replace("-", "_") for option, _ in OPTIONS)
# Options of compare that have no meaning for a server, and what serves instead.
WITH_SERVER = {
    "command": "the server's command is --server's",
    "shell": "the server's command is --server's",
    "prepare": "use --setup",
    "input": "a server reads none",
    "duet": "a server and its load have the machine to themselves",
    "check": "the status of --load judges",
    "ignore_failure": "a server that fails has no figures",
    "witness": "hyperfine and perf know no servers",
    "suite_file": "a suite is made of commands",
    "hyperfine_json_file": "hyperfine knows no servers",
}


def server_options(function: Function) -> Function:
    """Gives the word `server`, a ServerPlan or None, in place of the single options."""

    @functools.wraps(function)
    def with_plan(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in NAMES}
        return function(*arguments, server=_plan(given), **options)

    for option, settings in reversed(OPTIONS):
        with_plan = click.option(option, **settings)(with_plan)
    return with_plan


def _plan(given: dict[str, Any]) -> ServerPlan | None:
    if given["server"] is None:
        written = given_options(click.get_current_context())
        for name in NAMES:
            if name in written:
                raise UserError(
                    f"{written[name]} needs --server, the command that starts the server"
                )
        return None
    if given["load"] is None:
        raise UserError("--server needs --load, a shell command that gives the server work")
    found = metrics(given.pop("metric"))
    return ServerPlan(metrics=found, **given)


def refuse_what_is_for_commands(given: dict[str, str]) -> None:
    """given: the parameters on the command line, by name, as they are written."""
    for name, written in given.items():
        if name in WITH_SERVER:
            raise UserError(f"{written} does not go with --server; {WITH_SERVER[name]}")
