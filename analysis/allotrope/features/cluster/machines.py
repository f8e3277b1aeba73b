# SPDX-License-Identifier: MIT
"""The machines behind a cluster's workers, and which of them measure.

    a worker that is new ──introduce()──> its host, its kind, what it lacks
    a host that is new   ──A/A command──> is it quiet? decided once, before it sees a contender
    --replicate M        ──choose()─────> M quiet machines of one kind, which measure every program

**The A/A comparison**: the same program under the same allocator, as two builds. A machine is
quiet when the whole 99.5% interval of the ratio of CPU times lies within --noise of 1. The number
of rounds is fixed, and nobody looks twice: asking until it is quiet would choose lucky machines.
"""

import math
import sys
from dataclasses import dataclass, field
from typing import Any, Mapping, Sequence

from ...statistics.intervals import Estimate
from ...statistics.verdicts import Outcome, judge

# Intervals are 7 to 14% wide then with four jobs to a processor (docs/measurements/comparison.md).
ROUNDS = 48
# Python allocates 60,000 lists: 50 ms. Every worker has this very Python, or it is refused.
WORK = "print(len([[i] * 20 for i in range(60000)]))"
ANY_NOISE = math.inf  # --noise any: nothing is compared with itself


def itself_command() -> list[str]:
    """Compares Python with Python under glibc; the document goes to standard output."""
    command = [sys.executable, "-I", sys.argv[0], "compare", "--json", "-", "-a", "glibc"]
    command += ["--build", f"one={sys.executable}", "--build", f"other={sys.executable}"]
    command += ["--rounds", str(ROUNDS), "--", "{build}", "-I", "-S", "-c", WORK]
    return command


@dataclass
class Machine:
    """A host. `quiet` is None until it has been compared with itself."""

    host: str
    kind: str
    lacks: Sequence[str]
    quiet: bool | None = None
    itself: Estimate | None = None  # the ratio of CPU times
    noise: float | None = None  # by which `quiet` was decided; None: it was not asked

    def decide(self, document: Mapping[str, Any] | None, noise: float) -> None:
        """document: what itself_command() wrote; None where it failed."""
        self.noise = noise
        other = document["results"][1] if document else {"status": "failed"}
        cpu = other.get("cpu_seconds")
        if other["status"] == "ok" and cpu and cpu["ratio"] is not None:
            self.itself = Estimate(cpu["ratio"], cpu["ratio_low"], cpu["ratio_high"])
        self.quiet = self.itself is not None and judge(self.itself, noise) is Outcome.SAME

    def found(self) -> str:
        """The A/A comparison's result in words."""
        verdict = "quiet enough" if self.quiet else "not quiet, so it measures nothing"
        if self.itself is None:
            return f"compared with itself: no figures; {verdict}"
        low, high = self.itself.interval
        return (
            f"compared with itself: CPU {low:.3f} to {high:.3f}; {verdict} "
            f"(--noise {100 * (self.noise or 0):.3g}%)"
        )

    def facts(self) -> dict[str, Any]:
        """For the suite's document."""
        ratio = self.itself and {
            "ratio": self.itself.median,
            "low": self.itself.low,
            "high": self.itself.high,
        }
        return {
            "host": self.host,
            "kind": self.kind,
            "noise": self.noise,
            "quiet": None if self.noise is None else self.quiet,
            "itself": ratio,
        }


@dataclass
class Machines:
    """All that have been met. A verdict holds for as long as the client runs: also behind another
    scheduler, and for a worker that comes back."""

    noise: float
    replicate: int
    hosts: dict[str, Machine] = field(default_factory=dict)
    of_worker: dict[str, Machine] = field(default_factory=dict)  # by the worker's address
    chosen: Sequence[str] = ()  # hosts of --replicate

    def meet(self, address: str, answer: Mapping[str, Any]) -> Machine:
        """answer: what worker.introduce() said."""
        quiet = True if self.noise == ANY_NOISE else None
        new = Machine(answer["host"], answer["kind"], answer["lacks"], quiet)
        machine = self.hosts.setdefault(new.host, new)
        self.of_worker[address] = machine
        return machine

    def may_measure(self, machine: Machine) -> bool:
        if self.replicate > 1:
            return machine.host in self.chosen
        return bool(machine.quiet)

    def choose(self, present: Sequence[str], measured: Mapping[str, int]) -> None:
        """Chooses the machines of --replicate, when all that are present are decided upon.
        present: hosts. measured: by host, how many programs are in the store; these come first."""
        machines = [self.hosts[host] for host in present]
        if self.chosen or any(machine.quiet is None for machine in machines):
            return
        kinds: dict[str, list[str]] = {}
        for machine in machines:
            if machine.quiet:
                kinds.setdefault(machine.kind, []).append(machine.host)
        groups = [
            sorted(group, key=lambda host: -measured.get(host, 0))[: self.replicate]
            for group in kinds.values()
            if len(group) >= self.replicate
        ]
        if groups:
            self.chosen = max(groups, key=lambda group: sum(measured.get(h, 0) for h in group))

    def hindrance(self, present: Sequence[str]) -> str:
        """Why nothing is being measured although something is due. present: hosts."""
        if gone := [host for host in self.chosen if host not in present]:
            return f"no worker is left on {', '.join(gone)}, which --replicate has chosen"
        if not present:
            return "no worker is left"
        kinds: dict[str, list[str]] = {}
        for host in present:
            if self.hosts[host].quiet:
                kinds.setdefault(self.hosts[host].kind, []).append(host)
        if not kinds:
            return "no machine is quiet; --noise PERCENT says how much is borne"
        groups = "; ".join(f"{kind}: {', '.join(hosts)}" for kind, hosts in kinds.items())
        return (
            f"--replicate {self.replicate} needs so many quiet machines of one kind; there are "
            f"{groups}"
        )
