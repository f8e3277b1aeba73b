# SPDX-License-Identifier: MIT
"""What sampling allocation sites costs, and how close its estimates are, on a suite's programs.

    python3 tests/measure/sites.py cost [ROUNDS] [ALLOCATOR] [PROGRAM...]    with and without
    python3 tests/measure/sites.py error [RUNS] [ALLOCATOR] [PROGRAM...]    estimates against the
                                                                            exact account
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "analysis"))
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(SOURCE))

from allotrope.features.suite import measure as suite, output as suite_output  # noqa: E402
from allotrope.system import allocators  # noqa: E402
from allotrope.system.allocators import Allocator  # noqa: E402

SUITE = SOURCE / "bench_programs" / "real.toml"
LEAST_SHARE = 0.10  # of the peak: smaller sites are not judged
LEAST_PEAK = 1 << 20


@dataclass(frozen=True)
class Sampled(Allocator):
    """An allocator of ours whose sites are sampled."""

    folder: str = ""

    def environment(self) -> dict[str, str]:
        return super().environment() | {
            "ALLOTROPE": self.spec.removesuffix("+sites"),
            "ALLOTROPE_SITES": f"{self.folder}/%p.json",
        }


def cost(rounds: int, spec: str, only: Sequence[str] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder:
        plain = allocators.choose(spec)
        fields = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
        sampled = Sampled(**fields | {"spec": f"{spec}+sites", "name": "sampled", "folder": folder})
        settings = suite.Settings(allocators=[plain, sampled], baseline=0, rounds=rounds, warmup=1)
        programs = suite.choose_programs(suite.read_suite(SUITE), only)
        run = suite.SuiteRun(programs, settings, Path(folder, "state"))
        suite.measure_suite(run, False, lambda line: None)
        document = suite_output.suite_document(run)
    for quantity, mean in document["means"][f"{spec}+sites"].items():
        if mean:
            print(
                f"{quantity}: {mean['ratio']:.4f} [{mean['low']:.4f}, {mean['high']:.4f}] "
                f"over {mean['programs']} programs, {mean['rounds']} rounds"
            )
    for entry in document["programs"]:
        if entry["comparison"]:
            summary = entry["comparison"]["results"][1]["cpu_seconds"]
            if summary:
                print(
                    f"  {entry['name']:<12} CPU {summary['ratio']:.3f} "
                    f"[{summary['ratio_low']:.3f}, {summary['ratio_high']:.3f}]"
                )


def peak_by_caller(
    command: list[str], environment: dict[str, str], folder: Path, plan: suite.Plan
) -> tuple[int, int, dict[str, int]]:
    """How many samples, the peak, and the bytes at the peak by call of malloc, which an address
    in its file names, of the process that held most."""
    for file in folder.glob("*.json"):
        file.unlink()
    stdin = open(Path(plan.directory or ".", plan.input)) if plan.input else subprocess.DEVNULL
    if plan.prepare:
        subprocess.run(plan.prepare, shell=True, check=True, cwd=plan.directory)
    subprocess.run(
        command,
        env=environment,
        cwd=plan.directory,
        stdin=stdin,
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    documents = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    if not documents:
        return 0, 0, {}
    raw = max(documents, key=lambda one: int(one["peak_bytes"]))
    maps = []
    for line in raw["maps"]:
        words = line.split(None, 5)
        start, end = (int(word, 16) for word in words[0].split("-"))
        maps.append((start, end, int(words[2], 16), words[-1]))
    sums: dict[str, int] = {}
    for site in raw["sites"]:
        address = site["frames"][0]
        name = next(
            (
                f"{os.path.basename(path)}+{address - start + offset:#x}"
                for start, end, offset, path in maps
                if start <= address < end
            ),
            "?",
        )
        sums[name] = sums.get(name, 0) + site["peak"]["bytes"]
    return raw["samples"], raw["peak_bytes"], sums


def error(runs: int, spec: str, only: Sequence[str] = ()) -> None:
    settings = suite.Settings(allocators=[allocators.choose(spec)], baseline=0, rounds=1, warmup=0)
    loaded = suite.choose_programs(suite.read_suite(SUITE), only)
    errors: list[float] = []
    with tempfile.TemporaryDirectory() as top:
        run = suite.SuiteRun(loaded, settings, Path(top, "state"))
        out = Path(top, "out")
        out.mkdir()
        for program in loaded.programs:
            folder = Path(top, program.name)
            folder.mkdir()
            plan = run.plan(program, folder)
            suite._set_up(program, plan)
            environment = {
                **os.environ,
                **plan.environment,
                **settings.allocators[0].environment(),
                "ALLOTROPE_SITES": f"{out}/%p.json",
            }
            command = list(plan.command)
            _, exact_peak, exact = peak_by_caller(
                command, environment | {"ALLOTROPE_SITES_RATE": "1"}, out, plan
            )
            if exact_peak < LEAST_PEAK:
                print(f"{program.name}: peak of {exact_peak} bytes, not judged")
                continue
            large = [name for name, size in exact.items() if size >= LEAST_SHARE * exact_peak]
            samples, ours = 0, []
            for _ in range(runs):
                samples, _, estimate = peak_by_caller(command, environment, out, plan)
                ours += [estimate.get(name, 0) / exact[name] - 1 for name in large]
            errors += ours
            print(
                f"{program.name}: peak {exact_peak / 2**20:.1f} MiB, {samples} samples, "
                f"{len(large)} sites: " + ", ".join(f"{one:+.1%}" for one in ours)
            )
    within = sum(abs(one) <= 0.10 for one in errors)
    print(
        f"{within} of {len(errors)} estimates of sites that hold a tenth of the peak are within "
        f"10%; mean error {statistics.mean(errors):+.2%}, root mean square "
        f"{statistics.mean(one * one for one in errors) ** 0.5:.1%}"
    )


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what not in ("cost", "error"):
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else (11 if what == "cost" else 3)
    spec = sys.argv[3] if len(sys.argv) > 3 else "blocks"
    if what == "cost":
        cost(count, spec, sys.argv[4:])
    else:
        error(count, spec, sys.argv[4:])
