# SPDX-License-Identifier: MIT
"""The options of --cluster where programs are measured, as one choice."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import click

from ..features.cluster.machines import ANY_NOISE
from ..features.cluster.shipment import files_below
from ..statistics.replicates import LEAST_MACHINES
from ..system.errors import UserError
from .words import Function, Percent


@dataclass(frozen=True)
class ClusterChoice:
    """Where programs are measured, how much noise is borne there, on how many machines. ship: what
    is shipped to them beside what the words name; None: nothing is."""

    address: str
    noise: float
    replicate: int
    ship: Sequence[Path] | None


class Noise(Percent):
    """A share of 1, or `any`."""

    name = "noise"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        return ANY_NOISE if value == "any" else super().convert(value, param, ctx)


NOISE = 0.05
Option = tuple[str, dict[str, Any]]
OPTIONS: tuple[Option, ...] = (
    (
        "--cluster",
        {
            "metavar": "ADDRESS|local:N",
            "help": "measure the programs on the workers of this Dask scheduler, or of N "
            "processes here",
        },
    ),
    (
        "--noise",
        {
            "type": Noise(),
            "metavar": "PERCENT|any",
            "help": "a machine of the cluster measures only if a program compared with itself "
            f"there is the same within this (default: {NOISE:.0%}); any: that is not asked",
        },
    ),
    (
        "--ship",
        {
            "is_flag": True,
            "help": "bring this allotrope, and the files that the commands name, to workers that "
            "lack them, at the same paths",
        },
    ),
    (
        "--ship-with",
        {
            "type": click.Path(exists=True, path_type=Path),
            "multiple": True,
            "metavar": "PATH",
            "help": "the same with this file, or all files below this folder; repeatable",
        },
    ),
    (
        "--replicate",
        {
            "type": click.IntRange(min=LEAST_MACHINES),
            "metavar": "M",
            "help": "measure each program on M machines of the cluster and pool their ratios; at "
            f"least {LEAST_MACHINES}",
        },
    ),
)


def cluster_options(function: Function) -> Function:
    """Gives the word `cluster`, a ClusterChoice or None, in place of the single options."""
    return _with_choice(function, OPTIONS)


def cluster_options_but_replicate(function: Function) -> Function:
    """The same for what is measured on one machine each."""
    return _with_choice(function, OPTIONS[:-1])


def _with_choice(function: Function, options: Sequence[Option]) -> Function:
    @functools.wraps(function)
    def with_choice(
        *arguments: Any,
        cluster: str | None,
        noise: float | None,
        ship: bool,
        ship_with: Sequence[Path],
        replicate: int | None = None,
        **others: Any,
    ) -> Any:
        choice = _choice(cluster, noise, ship, ship_with, replicate)
        return function(*arguments, cluster=choice, **others)

    for option, settings in reversed(options):
        with_choice = click.option(option, **settings)(with_choice)
    return with_choice


def _choice(
    address: str | None,
    noise: float | None,
    ship: bool,
    ship_with: Sequence[Path],
    replicate: int | None,
) -> ClusterChoice | None:
    if address is not None:
        borne = NOISE if noise is None else noise
        more = [file for path in ship_with for file in files_below(path)]
        shipped = more if ship or ship_with else None
        return ClusterChoice(address, borne, replicate or 1, shipped)
    given = {
        "--noise": noise is not None,
        "--ship": ship,
        "--ship-with": bool(ship_with),
        "--replicate": replicate is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise UserError(f"{option} needs --cluster")
    return None
