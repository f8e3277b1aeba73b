# SPDX-License-Identifier: MIT
"""The options of --cluster where programs are measured, as one choice."""

import functools
from dataclasses import dataclass
from typing import Any, Sequence

import click

from ..features.cluster.machines import ANY_NOISE
from ..statistics.replicates import LEAST_MACHINES
from ..system.errors import UserError
from .words import Function, Percent


@dataclass(frozen=True)
class ClusterChoice:
    """Where programs are measured, how much noise is borne there, on how many machines."""

    address: str
    noise: float
    replicate: int


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
    return _with_choice(function, OPTIONS[:2])


def _with_choice(function: Function, options: Sequence[Option]) -> Function:
    @functools.wraps(function)
    def with_choice(
        *arguments: Any,
        cluster: str | None,
        noise: float | None,
        replicate: int | None = None,
        **others: Any,
    ) -> Any:
        choice = _choice(cluster, noise, replicate)
        return function(*arguments, cluster=choice, **others)

    for option, settings in reversed(options):
        with_choice = click.option(option, **settings)(with_choice)
    return with_choice


def _choice(
    address: str | None, noise: float | None, replicate: int | None
) -> ClusterChoice | None:
    if address is not None:
        return ClusterChoice(address, NOISE if noise is None else noise, replicate or 1)
    for option, given in (("--noise", noise), ("--replicate", replicate)):
        if given is not None:
            raise UserError(f"{option} needs --cluster")
    return None
