# SPDX-License-Identifier: MIT
"""How often a verdict is wrong, and how often a difference is missed.

    python3 tests/measure/verdicts.py simulate             noise from a model; a minute
    python3 tests/measure/verdicts.py suites               memory of made-up suites; a minute
    python3 tests/measure/verdicts.py same --file F        glibc with itself, under loads 0 to 8
    python3 tests/measure/verdicts.py slower --file F      a planted 5% slow-down
    python3 tests/measure/verdicts.py both --file F        slower, then same: F.slower and F.same

Every second one asks with --until; with --duet all are duets. `same` and `slower` measure with the
command's own code. F has a line of JSON for each comparison; one that is there is not measured
again, so an interrupted measurement goes on. What is asked for of each: ASKED. A load of n is n
processes that compute for random stretches of 20 to 500 ms, with pauses in between that are a
fifth as long.

A comparison of glibc with itself is wrong when any of its eight quantities is called better or
worse. The model of `simulate`: two contenders take turns, each quantity's noise has heavy tails
(Student's t with 2 or 3 degrees of freedom), shares a load that is autocorrelated from run to run,
and suffers bursts.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

import numpy

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "analysis"))
os.environ.setdefault("ALLOTROPE_BUILD_DIR", str(ROOT))

from allotrope.features.compare.comparison import MOST_ROUNDS, QUANTITIES, Plan  # noqa: E402
from allotrope.features.compare.measure import compare  # noqa: E402
from allotrope.features.compare.output import as_document  # noqa: E402
from allotrope.statistics.intervals import (  # noqa: E402
    JUDGED_CONFIDENCE,
    JUDGED_ROUNDS,
    Estimate,
    confidence_of_each,
    estimate_ratio,
    interval_rank,
    look_rounds,
)
from allotrope.statistics.resampling import geometric_mean  # noqa: E402
from allotrope.statistics.verdicts import (  # noqa: E402
    NOTICEABLE_BYTES,
    THRESHOLD,
    Outcome,
    judge,
    noticeable_share,
    that_count,
)
from allotrope.system.allocators import Allocator, glibc  # noqa: E402

WRONG = (Outcome.BETTER, Outcome.WORSE)
SLOW_DOWN = 1.05
UNTIL = 0.02
LOADS = (0, 1, 2, 4, 8)
# Comparisons, and of so many of them: at most that may be wrong, at least that must be found.
ASKED = {"same": (200, 4), "slower": (100, 96)}


# The model


def noise(chance: numpy.random.Generator, trials: int, rounds: int, kind: str) -> Any:
    """Logarithms of the ratios, [quantity][trial][round]: user, system, both together, wall."""
    runs = 2 * rounds
    shape = trials, runs
    own = chance.standard_t(3, shape)
    if kind == "quiet":
        bursts = (chance.random(shape) < 0.03) * numpy.abs(chance.standard_normal(shape)) * 0.06
        cpu = 0.005 * own + bursts
        user, wall = cpu + 0.002 * chance.standard_normal(shape), cpu + 0.005 * own
        system = cpu + 0.03 * chance.standard_normal(shape)
    else:
        load = numpy.zeros(shape)
        for run in range(1, runs):
            load[:, run] = 0.9 * load[:, run - 1] + 0.15 * chance.standard_normal(trials)
        bursts = (chance.random(shape) < 0.1) * chance.exponential(0.5, shape)
        cpu = 0.03 * own + 0.2 * load + 0.2 * bursts
        user = cpu + 0.02 * chance.standard_t(2, shape)
        system = 2 * cpu + 0.1 * chance.standard_t(2, shape)
        wall = 2 * load + bursts + 0.1 * chance.standard_t(2, shape)
    # Who comes first changes from round to round.
    sign = numpy.where(numpy.arange(rounds) % 2 == 0, 1, -1)
    return numpy.stack([(one[:, ::2] - one[:, 1::2]) * sign for one in (user, system, cpu, wall)])


def interval(ratios: Any, confidence: float) -> tuple[Any, Any]:
    """The ends of each trial's interval, of logarithms."""
    ordered = numpy.sort(ratios, axis=-1)
    rank = interval_rank(ratios.shape[-1], confidence).rank
    return ordered[..., rank - 1], ordered[..., -rank]


def outcomes(low: Any, high: Any) -> tuple[Any, Any]:
    """Where each interval is called better, and worse; as judge() does, for many at once."""
    step = numpy.log(1 + THRESHOLD)
    return high < -step, low > step


def simulate_fixed(chance: numpy.random.Generator, trials: int) -> None:
    print(f"{JUDGED_ROUNDS} rounds, {JUDGED_CONFIDENCE:.1%}, threshold {THRESHOLD:.0%}")
    for kind in ("quiet", "loaded"):
        ratios = noise(chance, trials, JUDGED_ROUNDS, kind)
        better, worse = outcomes(*interval(ratios, JUDGED_CONFIDENCE))
        wrong = better | worse
        each = ", ".join(f"{100 * one.mean():.2f}%" for one in wrong)
        print(f"  {kind:7} wrong: {each}; any of these: {100 * wrong.any(axis=0).mean():.2f}%")
    ratios = noise(chance, trials, JUDGED_ROUNDS, "quiet") + numpy.log(SLOW_DOWN)
    found = outcomes(*interval(ratios, JUDGED_CONFIDENCE))[1]
    print(f"  quiet, 5% slower: found in CPU: {100 * found[2].mean():.2f}%")


def simulate_until(chance: numpy.random.Generator, trials: int, scale: float) -> None:
    """Stops as the command does. scale: of the loaded noise, so that intervals do get narrow."""
    looks = look_rounds(JUDGED_ROUNDS, MOST_ROUNDS)
    ratios = noise(chance, trials, MOST_ROUNDS, "loaded")[2] * scale
    for name, confidence in (
        ("shared", confidence_of_each(len(looks), JUDGED_CONFIDENCE)),
        ("naive", JUDGED_CONFIDENCE),
        ("naive 95%", 0.95),
    ):
        running = numpy.ones(trials, dtype=bool)
        missed = wrong = rounds_used = 0
        for rounds in looks:
            low, high = interval(ratios[:, :rounds], confidence)
            middle = numpy.median(ratios[:, :rounds], axis=1)
            width = numpy.maximum(numpy.exp(high - middle) - 1, 1 - numpy.exp(low - middle))
            stops = running & ((width <= UNTIL) | (rounds == MOST_ROUNDS))
            missed += int((stops & ((low > 0) | (high < 0))).sum())
            better, worse = outcomes(low, high)
            wrong += int((stops & (better | worse)).sum())
            rounds_used += rounds * int(stops.sum())
            running &= ~stops
        print(
            f"  noise x {scale:<5} {name:10} coverage {100 * (1 - missed / trials):.2f}%, "
            f"better or worse {100 * wrong / trials:.2f}%, rounds {rounds_used / trials:.0f}"
        )


def simulate(trials: int) -> None:
    chance = numpy.random.default_rng(1992)
    simulate_fixed(chance, trials)
    print(f"until {UNTIL:.0%}, at most {MOST_ROUNDS} rounds, of CPU; the truth is 1")
    for scale in (0.05, 0.1, 0.2, 0.5, 1.0):
        simulate_until(chance, trials // 4, scale)


# Suites

SIZES = (2, 3, 5, 20, 100, 400)  # MiB, of the programs
SUITES = {
    "an allocator with itself": lambda size: 1.0,
    "half a MiB more in each": lambda size: 1 + 0.5 / size,
    "half a MiB less in each, the largest 10% more": lambda size: 1.1
    if size == max(SIZES)
    else 1 - 0.5 / size,
}


def simulate_suites(trials: int) -> None:
    """How often memory is called better or worse by the mean over all programs, and by the mean
    over those that count."""
    chance = numpy.random.default_rng(1992)
    sizes = numpy.array(SIZES)[:, None] * float(NOTICEABLE_BYTES)
    print(f"memory over programs of {', '.join(map(str, SIZES))} MiB, {JUDGED_ROUNDS} rounds")
    for name, factor in SUITES.items():
        factors = numpy.array([factor(size) for size in SIZES])[:, None]
        for spread in (0.002, 0.01, 0.05):
            found: dict[str, Counter[str]] = {"all": Counter(), "counted": Counter()}
            for _ in range(trials):
                shape = len(SIZES), JUDGED_ROUNDS
                base, mine = sizes * numpy.exp(spread * chance.standard_t(3, (2, *shape)))
                mine = mine * factors
                found["all"][outcome_of([mean_of(mine / base)])] += 1
                found["counted"][outcome_that_counts(mine, base)] += 1
            print(
                f"  {name}, {spread:.1%} a run: "
                + "; ".join(f"{which}: {dict(words)}" for which, words in found.items())
            )


NOTHING = Estimate(1, 1, 1)  # where no program counts


def outcome_that_counts(mine: Any, base: Any) -> str:
    """As features/suite/means.py decides it."""
    differences = {}
    for at, (own, others) in enumerate(zip(mine, base)):
        ratio = estimate_ratio(list(own), list(others), JUDGED_CONFIDENCE)
        assert ratio is not None
        differences[str(at)] = (ratio, noticeable_share(float(numpy.median(others))))
    lists = that_count(differences)
    if lists == [[]]:
        return "does not count"
    return outcome_of(
        [mean_of((mine / base)[list(map(int, one))]) if one else NOTHING for one in lists]
    )


def mean_of(ratios: Any) -> Estimate:
    mean = geometric_mean(ratios)
    assert mean is not None
    return Estimate(mean.ratio, mean.low, mean.high)


def outcome_of(cases: list[Estimate]) -> str:
    """Of an interval that covers those of all cases."""
    low, high = min(one.low for one in cases), max(one.high for one in cases)
    return str(judge(Estimate(cases[0].median, low, high)))


# Real runs

BURNER = """
import random, sys, time
chance = random.Random(int(sys.argv[1]))
while True:
    stretch = chance.uniform(0.02, 0.5)
    end = time.monotonic() + stretch
    while time.monotonic() < end:
        pass
    time.sleep(stretch / 5)
"""


@contextlib.contextmanager
def load(count: int) -> Iterator[None]:
    burners = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", BURNER, str(number)])
        for number in range(count)
    ]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


@dataclasses.dataclass(frozen=True)
class Planted(Allocator):
    """glibc, and what its environment says of the work."""

    work: int = 1000

    def environment(self) -> dict[str, str]:
        return super().environment() | {"PLANTED_WORK": str(self.work)}

    def watched_environment(self) -> dict[str, str]:
        return super().watched_environment() | {"PLANTED_WORK": str(self.work)}


def planted(spec: str, work: int) -> Planted:
    return Planted(**(vars(glibc()) | {"spec": spec}), work=work)


def measure(program: Path, work: int, **settings: Any) -> dict[str, Any]:
    """The verdicts on the second contender, by quantity."""
    contenders = [planted("glibc", 1000), planted("again", work)]
    began = time.monotonic()
    comparison = compare(Plan([str(program)], contenders, **settings))
    document = as_document(comparison, machine={"cpus": os.cpu_count()})
    result = document["results"][1]
    cpu = result["cpu_seconds"]
    return {
        "seconds": round(time.monotonic() - began, 1),
        "rounds": document["rounds"],
        "others_cpus": document["others_cpus"],
        "verdicts": {name: result[name] and result[name]["verdict"] for name in QUANTITIES},
        "cpu": [cpu["ratio"], cpu["ratio_low"], cpu["ratio_high"]],
    }


def questions(kind: str, pairs: int) -> list[dict[str, Any]]:
    """What to measure, in an order that every part of is a fair sample of the whole."""
    loads = (0,) if kind == "slower" else LOADS
    settings = [(count, until) for count in loads for until in (None, UNTIL)]
    return [
        {"number": number, "load": settings[number % len(settings)][0]}
        | {"until": settings[number % len(settings)][1]}
        for number in range(pairs)
    ]


def measure_all(kind: str, pairs: int, file: Path, settings: dict[str, Any]) -> None:
    asked = questions(kind, pairs)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {one["number"] for one in known}
    work = 1000 if kind == "same" else round(1000 * SLOW_DOWN)
    with tempfile.TemporaryDirectory(prefix="allotrope-verdicts-") as folder:
        program = Path(folder, "planted_work")
        source = Path(__file__).with_name("planted_work.c")
        compiler = os.environ.get("CC", "cc").split()
        subprocess.run([*compiler, "-O1", str(source), "-o", str(program)], check=True)
        for one in asked:
            if one["number"] in done:
                continue
            with load(one["load"]):
                how = settings | {"until": one["until"], "check": "none"}
                known.append(one | measure(program, work, **how))
            with file.open("a") as lines:
                lines.write(json.dumps(known[-1]) + "\n")
    report(kind, known)


def report(kind: str, known: list[dict[str, Any]]) -> None:
    told = [one for one in known if any(word in WRONG for word in one["verdicts"].values())]
    figures = sum(word is not None for one in known for word in one["verdicts"].values())
    seconds = sum(one["seconds"] for one in known)
    print(f"{len(known)} comparisons, {figures} verdicts, {seconds / 60:.0f} minutes")
    if kind == "same":
        print(f"better or worse: {len(told)} comparisons")
        for one in told:
            words = {name: word for name, word in one["verdicts"].items() if word in WRONG}
            print(f"  load {one['load']}, until {one['until']}: {words}")
    found = 0
    if kind == "slower":
        found = sum(one["verdicts"]["cpu_seconds"] == Outcome.WORSE for one in known)
        print(f"worse in CPU: {found}")
    pairs, limit = ASKED[kind]
    if len(known) >= pairs:
        kept = len(told) <= limit if kind == "same" else found >= limit
        bound = f"at most {limit}" if kind == "same" else f"at least {limit}"
        print(f"asked for: {bound} of {pairs}: {'kept' if kept else 'NOT kept'}")
    for count, until in sorted({(one["load"], one["until"] or 0) for one in known}):
        those = [one for one in known if (one["load"], one["until"] or 0) == (count, until)]
        how = f"until {until:.0%}" if until else "as chosen"
        words = dict(Counter(str(one["verdicts"]["cpu_seconds"]) for one in those))
        print(f"  load {count}, {how}: CPU {words}; medians: {middles(those)}")


def middles(those: list[dict[str, Any]]) -> str:
    """Medians over comparisons of the same setting, in words."""
    ends = [one["cpu"] for one in those]
    widths = [100 * (max(high / ratio, ratio / low) - 1) for ratio, low, high in ends]
    return (
        f"{numpy.median([one['rounds'] for one in those]):.0f} rounds, "
        f"{numpy.median([one['seconds'] for one in those]):.0f} s, "
        f"{numpy.median(widths):.1f}% on a side, "
        f"{numpy.median([one['others_cpus'] for one in those]):.1f} processors used by others"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["simulate", "suites", "same", "slower", "both"])
    parser.add_argument("--pairs", type=int, help="comparisons; default 200 and 100")
    parser.add_argument("--trials", type=int, help="default 40,000; of suites 200")
    parser.add_argument("--most-rounds", type=int, default=MOST_ROUNDS, help="with --until")
    parser.add_argument("--rounds", type=int, help="default: as compare chooses")
    parser.add_argument("--duet", action="store_true", help="both at the same time")
    parser.add_argument("--file", type=Path)
    options = parser.parse_args()
    assert judge(Estimate(1.05, 1.03, 1.07)) is Outcome.WORSE
    if options.what == "simulate":
        simulate(options.trials or 40_000)
        return
    if options.what == "suites":
        simulate_suites(options.trials or 200)
        return
    if options.file is None:
        parser.error(f"{options.what} needs --file")
    settings = {"most_rounds": options.most_rounds, "rounds": options.rounds}
    settings |= {"duet": options.duet}
    both = options.what == "both"
    for kind in ("slower", "same") if both else (options.what,):
        file = Path(f"{options.file}.{kind}") if both else options.file
        print(f"{kind}:", flush=True)
        measure_all(kind, options.pairs or ASKED[kind][0], file, settings)


if __name__ == "__main__":
    main()
