# SPDX-License-Identifier: MIT
"""A suite and a study on three machines that are one, and on local:2, against one machine: whether
what does not depend on time is the same, and whether times are those of one machine.

    /usr/bin/python3 tests/measure/cluster_machines.py [--kinds suite,study] [--suite FILE]
        [--program NAME]... [--study zorn|barriers] [--rounds N] [--workers 3] [--noise PERCENT]
        [--keep DIR] [--json FILE]

Needs root. Each of the workers has a network namespace behind one bridge, a cgroup and a host name
of its own; the scheduler and the command are outside. All of it is taken down in the end, and
nothing that this has not made. The workers share a processor and the timing slot, so they take
turns: what is shown is that nothing depends on the network, the host's name or the order, and not
that machines measure at once.

There are four runs: here, here again, apart (on the workers of their own networks), local:2. A
figure that is the same in both runs here does not depend on time. It must be the same on each
cluster. Of the differences between the logarithms of ratios, here and on the cluster, at least 90%
of the 95% intervals must contain 0; the same share for here and here again says how quiet the
machine was. Ends with status 1 when either is missed.

--keep keeps the documents in DIR; --json writes the seconds, for cluster_overhead.py --cases.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in (".", "analysis")]
os.environ.setdefault("ALLOTROPE_BUILD_DIR", os.getcwd())

import two_runs  # noqa: E402
import two_studies  # noqa: E402
from conftest import Command  # noqa: E402
from test_cluster import Cluster  # noqa: E402
from under import BUILD, HANG, SOURCE  # noqa: E402

NET = "10.214.0"  # of the bridge; its own address is the first
ALLOCATORS = ("-a", "glibc", "-a", "blocks", "-a", "bsd")
WAYS = HERE, AGAIN, APART, LOCAL = ("here", "here again", "apart", "local:2")
LISTED = 8  # figures that differ, by name
Figures = Mapping[str, Any]  # by name


@dataclass(frozen=True)
class Place:
    """Where a worker runs as if on a machine of its own."""

    name: str
    cgroup: Path | None

    def before(self) -> list[str]:
        """The words before a command that is to run here. The cgroup is entered first: it is not
        seen from a network of its own where that has a /sys of its own."""
        entered = 'echo $$ > "$2" && ' if self.cgroup else ""
        script = f'hostname "$1" && {entered}shift 2 && exec "$@"'
        procs = str(self.cgroup / "cgroup.procs") if self.cgroup else ""
        net = ["nsenter", f"--net=/run/netns/{self.name}"]
        return ["unshare", "--uts", "sh", "-c", script, "sh", self.name, procs, *net]


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"ip {' '.join(words)}: {done.stderr.strip()}")


def cgroup_mount() -> Path | None:
    """Where cgroup v2 is."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(folder)
    return None


def remove_cgroup(cgroup: Path) -> None:
    """With the processes that are still in it: they were started in it."""
    deadline = time.monotonic() + HANG
    while inside := (cgroup / "cgroup.procs").read_text().split():
        for process in inside:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SystemExit(f"{cgroup}: still has processes {', '.join(inside)}")
        time.sleep(0.05)
    cgroup.rmdir()


@contextlib.contextmanager
def places(count: int) -> Iterator[list[Place]]:
    """So many networks behind one bridge, and cgroups."""
    mount, own = cgroup_mount(), os.getpid()
    with contextlib.ExitStack() as made:
        bridge = f"a{own}"
        ip("link", "add", bridge, "type", "bridge")
        made.callback(ip, "link", "delete", bridge)
        ip("address", "add", f"{NET}.1/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        found = []
        for number in range(1, count + 1):
            name, outside = f"alt-{own}-{number}", f"a{own}-{number}"
            ip("netns", "add", name)
            made.callback(ip, "netns", "delete", name)  # the link goes with it
            ip("link", "add", outside, "type", "veth", "peer", "name", "outside", "netns", name)
            ip("link", "set", outside, "master", bridge, "up")
            ip("-n", name, "address", "add", f"{NET}.{number + 1}/24", "dev", "outside")
            ip("-n", name, "link", "set", "outside", "up")
            ip("-n", name, "link", "set", "lo", "up")
            cgroup = mount / name if mount else None
            if cgroup:
                cgroup.mkdir()
                made.callback(remove_cgroup, cgroup)
            found.append(Place(name, cgroup))
        print(said_of(mount, found), flush=True)
        yield found


def said_of(mount: Path | None, found: Sequence[Place]) -> str:
    if mount is None or found[0].cgroup is None:
        return "no cgroup v2 here: the workers are in one cgroup"
    controllers = (found[0].cgroup / "cgroup.controllers").read_text().split()
    counts = ", ".join(controllers) or "no controller: it accounts for nothing"
    return f"{len(found)} cgroups in {mount} (v2), with {counts}"


@contextlib.contextmanager
def apart(count: int, folder: Path) -> Iterator[str]:
    """The address of a cluster whose workers are in places of their own."""
    from distributed import Client

    with places(count) as found:
        cluster = Cluster(folder)
        try:
            for place in found:
                cluster.start_worker(*place.before(), scheduler=f"{NET}.1")
            with Client(cluster.address, timeout=HANG) as client:
                client.wait_for_workers(count, timeout=HANG)
            yield cluster.address
        finally:
            cluster.end()


class Runs:
    """What was run, where its documents are, and how long it took."""

    def __init__(self, folder: Path, asked: argparse.Namespace) -> None:
        self.folder, self.asked = folder, asked
        self.seconds: dict[tuple[str, str], float] = {}
        self.hosts: dict[tuple[str, str], list[str]] = {}  # of each task
        self.addresses = {HERE: "", AGAIN: "", LOCAL: LOCAL}

    def out(self, kind: str, way: str) -> Path:
        return self.folder / f"{kind} {way}".replace(" ", "-").replace(":", "-")

    def words(self, kind: str, way: str) -> list[str]:
        out, address = str(self.out(kind, way)), self.addresses[way]
        cluster = ["--cluster", address, "--noise", self.asked.noise] if address else []
        rounds = ["--rounds", str(self.asked.rounds)]
        if kind == "study":
            return ["study", self.asked.study, "--quick", *rounds, "--out", out, *cluster]
        only = [word for name in self.asked.program for word in ("--only", name)]
        suite = ["compare", "--suite", str(self.asked.suite), *only, *ALLOCATORS, *rounds]
        return [*suite, "--json", out, "--state", f"{out}.state", *cluster]

    def run(self, kind: str, way: str) -> None:
        begun = time.monotonic()
        done = Command(BUILD).run(*self.words(kind, way), timeout=None)
        self.seconds[kind, way] = time.monotonic() - begun
        self.hosts[kind, way] = hosts = re.findall(r" was measured on ([^;]+);", done.stderr)
        where = ", ".join(f"{host} had {hosts.count(host)}" for host in sorted(set(hosts)))
        shared = f"; of {len(hosts)} tasks {where}" if hosts else ""
        print(f"{kind}, {way}: {self.seconds[kind, way]:.1f} s{shared}", flush=True)
        # A claim that fails is no failure of the command; a program that was not measured is.
        if done.returncode != 0:
            raise SystemExit(f"{kind}, {way}: status {done.returncode}: {done.stderr}")

    def suite(self, way: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out("suite", way).read_text())
        return found

    def document(self) -> str:
        """For cluster_overhead.py. One host has one timing slot, so one program runs at once.
        local:2 is no case, for the command starts its workers."""
        cases = [
            {
                "name": f"{kind}, {way}",
                "kind": "suite",
                "workers": self.asked.workers,
                "tasks": len(self.hosts[kind, way]),
                "at_once": 1,
                "one_machine": self.seconds[kind, HERE],
                "seconds": seconds,
            }
            for (kind, way), seconds in self.seconds.items()
            if way == APART
        ]
        return json.dumps({"cases": cases}, indent=1) + "\n"


def figures_of_suite(document: Mapping[str, Any]) -> Figures:
    """Of each program and allocator: whether it ran, what it allocated, and the heap's account."""
    found: dict[str, Any] = {}
    for (program, spec), one in two_runs.results(dict(document)).items():
        heap, served = one.get("heap") or {}, one.get("served") or {}
        figures = {name: heap.get(name) for name in two_runs.EXACT}
        figures |= {"status": one["status"], "allocations": served.get("allocations")}
        rounds = (one["cpu_seconds"] or {}).get("rounds") or ()
        figures["rounds"] = len(rounds)
        found |= {f"{program} under {spec}: {name}": value for name, value in figures.items()}
    return found


def figures_of_study(study: Path) -> Figures:
    return {
        f"{kind} {step}: {name}": value
        for kind in two_studies.exact_kinds(study)
        for step, result in two_studies.steps(study, kind).items()
        for name, value in two_studies.exact(kind, result).items()
    }


def compare_exact(kind: str, here: Figures, again: Figures, there: Figures) -> bool:
    """Whether what is the same in both runs here is the same there; a figure that is missing is
    another one."""
    known = here.keys() | again.keys() | there.keys()
    none = object()
    fixed = [name for name in known if here.get(name, none) == again.get(name, none)]
    other = sorted(name for name in fixed if there.get(name, none) != here.get(name, none))
    print(
        f"    {kind}: of {len(known)} figures {len(fixed)} do not depend on time; {len(other)} of "
        "these differ"
    )
    for name in other[:LISTED]:
        print(f"        {name}: {here.get(name)}, there {there.get(name)}")
    return not other


def intervals(runs: Runs, kind: str, way: str) -> dict[str, two_studies.Interval]:
    """Of the differences between times here and those of the way, by figure."""
    if kind == "study":
        return two_studies.differences(runs.out(kind, HERE), runs.out(kind, way))
    first, second = runs.suite(HERE), runs.suite(way)
    return {
        f"{program} under {spec}: {quantity}": (low, middle, high)
        for quantity in two_runs.QUANTITIES
        for program, spec, low, middle, high in two_runs.differences(first, second, quantity)
    }


def figures(runs: Runs, kind: str, way: str) -> Figures:
    if kind == "study":
        return figures_of_study(runs.out(kind, way))
    return figures_of_suite(runs.suite(way))


def judge(runs: Runs, kinds: Sequence[str]) -> bool:
    """Prints how the clusters' figures are to those here; returns whether all is as it must be.
    Intervals of all kinds count together: a quick study alone has too few for a share of them."""
    good = True
    for way in WAYS[1:]:
        print(f"here and {way}")
        inside = total = 0
        for kind in kinds:
            if way != AGAIN:
                three = (figures(runs, kind, one) for one in (HERE, AGAIN, way))
                good &= compare_exact(kind, *three)
            found = intervals(runs, kind, way)
            outside = {name: at for name, at in found.items() if not at[0] <= 0 <= at[2]}
            print(f"    {kind}: {len(found) - len(outside)} of {len(found)} intervals contain 0")
            for name, (low, middle, high) in outside.items():
                print(f"        {name}: {middle:+.1%} [{low:+.1%}, {high:+.1%}]")
            inside, total = inside + len(found) - len(outside), total + len(found)
        share = inside / max(total, 1)
        print(f"    all: {inside} of {total} ({share:.1%}; {two_studies.WANTED:.0%} are wanted)")
        good &= way == AGAIN or share >= two_studies.WANTED
    return good


def measure(runs: Runs, kinds: Sequence[str]) -> None:
    for kind in kinds:
        for way in (HERE, AGAIN, LOCAL):
            runs.run(kind, way)
    count = runs.asked.workers
    with tempfile.TemporaryDirectory() as folder, apart(count, Path(folder)) as address:
        runs.addresses[APART] = address
        for kind in kinds:
            runs.run(kind, APART)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", default="suite,study")
    parser.add_argument("--suite", type=Path, default=SOURCE / "bench_programs" / "micro.toml")
    parser.add_argument("--program", action="append", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--study", choices=("zorn", "barriers"), default="zorn")
    parser.add_argument("--noise", default="any", help="of the clusters' machines: PERCENT or any")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    needed = ("ip", "nsenter", "unshare", "hostname")
    if os.geteuid() != 0 or not all(map(shutil.which, needed)):
        raise SystemExit(f"needs root, and {', '.join(needed)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # takes all down
    with tempfile.TemporaryDirectory() as name:
        folder = Path(asked.keep or name)
        folder.mkdir(parents=True, exist_ok=True)
        runs = Runs(folder, asked)
        kinds = asked.kinds.split(",")
        measure(runs, kinds)
        good = judge(runs, kinds)
        if asked.json:
            asked.json.write_text(runs.document())
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
