# SPDX-License-Identifier: MIT
"""A simulation on a cluster: a part of --jobs is one task, whose result is only the trace's.

    trace ──allotrope-simulate --plan──> N parts
    part  ──submit──> a worker: allotrope-simulate --part K ──> histograms and lists, or counts
    all N parts, in their order ──> joined here: the result of one thread

Dask chooses the workers, and gives what a lost one had to another. A part's result is kept by its
number, once. When the scheduler is lost there is no result.
"""

import os
import stat
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from ...system.children import was_killed
from ...system.errors import UserError
from ...system.native import Answer, ask, without_name
from ...system.places import PLACES, built
from ..locality.simulate import Document, result_of, run_simulator, simulate_words
from . import worker
from .connection import (
    LOOK_SECONDS,
    PATIENCE_SECONDS,
    ByValue,
    SchedulerLost,
    ask_new,
    connected,
    dask,
    grace_of,
    scheduler_address,
)
from .shipment import Shipment, own_files

MOST_PARTS = 256  # of the simulator's --jobs

# Told how many parts are left, and how many workers there are.
Show = Callable[[int, int], None]


def simulate_on_cluster(
    address: str,
    word: str,
    trace: str,
    options: Mapping[str, Any],
    show: Show,
    ship: bool = False,
    patience: float = PATIENCE_SECONDS,
) -> tuple[Document, str | None]:
    """As run_simulator(): the same result and warning. The `jobs` of the options are the parts; by
    default each processor of a worker has one. ship: the simulator to workers that lack it."""
    path = str(Path(trace).absolute())
    if trace == "-" or stat.S_ISFIFO(_mode_of(path)):
        raise UserError("--cluster: workers read a trace in a file, no standard input or pipe")
    wanted: int | None = options["jobs"]
    most = _plan(word, trace, {**options, "jobs": MOST_PARTS if wanted is None else wanted})
    dask()
    try:
        with scheduler_address(address) as scheduler, connected(scheduler, patience) as client:
            jobs = min(most, wanted or sum(client.nthreads().values()))
            words = simulate_words(word, trace, {**options, "jobs": jobs})
            asked = question(words, path)
            grace = grace_of(address, patience)
            files = [file for file in own_files() if file == PLACES.simulator]
            shipment = Shipment(files) if ship else None
            submission = Submission(client, asked, jobs, show, grace, shipment)
            answers = submission.simulate_all()
    except (SchedulerLost, dask().comm.CommClosedError):
        raise UserError(f"--cluster: the scheduler at {address} was lost; no result") from None
    return _joined(words, answers)


def _mode_of(path: str) -> int:
    """0 where there is nothing, as the simulator says."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0


def _plan(word: str, trace: str, options: Mapping[str, Any]) -> int:
    """How many parts are of use. Raises UserError, as the simulator does, where it would refuse."""
    answer = ask(PLACES.simulator, *simulate_words(word, trace, options), "--plan")
    if not answer.output:
        raise UserError(answer.message, answer.status)
    return int(answer.output)


def question(words: Sequence[str], path: str) -> dict[str, Any]:
    """What worker.simulate() is asked, but for the part."""
    simulator = str(built(PLACES.simulator))
    try:
        ends = worker.trace_ends(path)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return {
        "expected": worker.fingerprints([simulator]),
        "path": path,
        "trace_ends": ends,
        "command": [simulator, *words],
    }


class Submission:
    """The parts, and what one scheduler is asked."""

    def __init__(
        self,
        client: Any,
        asked: Mapping[str, Any],
        jobs: int,
        show: Show,
        grace: float,
        shipment: Shipment | None = None,
    ) -> None:
        self.client = client
        self.asked = asked  # question()
        self.jobs = jobs
        self.show = show
        self.grace = grace  # to a cluster without a worker
        self.shipment = shipment
        self.came_early: set[int] = set()  # parts that a worker had before it was shipped to
        self.under_way: dict[Any, int] = {}
        self.answers: dict[int, Answer] = {}
        self.met: set[str] = set()  # addresses of workers that are like the client
        self.staffed = time.monotonic()  # when there was a worker

    def simulate_all(self) -> list[Answer]:
        """What each part's process said, in their order. Raises SchedulerLost, and UserError where
        a part has no result, workers are not like the client, or none is left."""
        self.meet()
        try:
            for part in range(self.jobs):
                self.submit(part)
            while self.under_way:
                self.collect()
        finally:
            for future in self.under_way:
                future.release()
        return [self.answers[part] for part in range(self.jobs)]

    def meet(self) -> None:
        """Who is there. Who is not like the client ends it all. A worker that joins later may be
        given a part before it is met: therefore it looks for itself, too."""
        if self.client.status != "running":
            raise SchedulerLost
        workers = self.client.scheduler_info()["workers"]
        if new := [address for address in workers if address not in self.met]:
            if self.shipment:
                self.shipment.deliver(self.client, new)
            self.met |= ask_new(self.client, new, worker.see, self.asked).keys()
        left = self.jobs - len(self.answers)
        if workers:
            self.staffed = time.monotonic()
        elif time.monotonic() - self.staffed > self.grace:
            missing = f"{left} of {self.jobs} parts are not simulated"
            raise UserError(f"--cluster: no worker is left; {missing}")
        self.show(left, len(workers))

    def submit(self, part: int) -> None:
        future = self.client.submit(
            ByValue(worker.simulate),
            {**self.asked, "command": [*self.asked["command"], f"--part={part}"]},
            key=f"allotrope-part-{part}-{uuid.uuid4()}",
            pure=False,
        )
        self.under_way[future] = part

    def collect(self) -> None:
        """What has ended by now, or in LOOK_SECONDS."""
        try:
            dask().wait(list(self.under_way), timeout=LOOK_SECONDS, return_when="FIRST_COMPLETED")
        except (TimeoutError, dask().CancelledError):
            pass
        self.meet()
        # Others are pending, or lost with the worker that had the result, which is pending, too.
        for future in list(self.under_way):
            if future.status == "cancelled":
                raise SchedulerLost
            if future.status in ("finished", "error"):
                self.take(future, self.under_way[future])

    def take(self, future: Any, part: int) -> None:
        try:
            result = future.result(timeout=PATIENCE_SECONDS)
        except TimeoutError:
            return  # who had it was lost: it is simulated again
        except dask().CancelledError:
            raise SchedulerLost from None
        except Exception as error:  # whatever the worker raised
            self.meet()
            # Dask's own name for a task whose worker ended, again and again
            lost = type(error).__name__ == "KilledWorker"
            why = "every worker that simulated it was lost" if lost else f"{error!r}"
            raise UserError(f"--cluster: part {part} of {self.jobs}: {why}") from None
        if result["unlike"] and self.shipment and part not in self.came_early:
            self.came_early.add(part)
            del self.under_way[future]
            self.meet()
            self.submit(part)
            return
        if result["unlike"]:
            raise UserError(f"--cluster: a worker on {result['host']}: {result['unlike'][0]}")
        answer = answer_of(result)
        if not answer.output:
            result_of(answer)  # raises what it says
        del self.under_way[future]
        future.release()
        self.answers[part] = answer


def answer_of(result: Mapping[str, Any]) -> Answer:
    """What the process on a worker said, as ask() has it."""
    status, message = result["status"], without_name(result["errors"].decode(errors="replace"))
    if status < 0:
        killed = was_killed(PLACES.simulator, status)
        return Answer(b"", f"{killed} on {result['host']}", 128 - status)
    return Answer(result["output"], message.strip(), status)


def _joined(words: Sequence[str], answers: Sequence[Answer]) -> tuple[Document, str | None]:
    """Of pages the simulator joins the parts; else the parts are documents."""
    if words[0] != "pages":
        parts = [result_of(answer) for answer in answers]
        return join_documents([document for document, _ in parts]), parts[-1][1]
    # Memory, so that nothing stays behind.
    with open(os.memfd_create("allotrope-parts"), "w+b") as file:
        file.writelines(answer.output for answer in answers)
        file.flush()
        return run_simulator([*words, f"--join=/proc/{os.getpid()}/fd/{file.fileno()}"])


def join_documents(parts: Sequence[Document]) -> Document:
    """Of caches and TLBs: each part has the misses of its sets, and the LRU stacks of some sizes.
    The last one has the shapes, and becomes the whole."""
    whole = parts[-1]
    classes = [one["class"] for one in whole["classes"]]
    for place, result in enumerate(whole["results"]):
        _add(result, [part["results"][place] for part in parts], classes)
    for place, curve in enumerate(whole.get("fully_associative", [])):
        curves = (part["fully_associative"][place] for part in parts)
        curve.update(next(one for one in curves if one["curve"]))
    return whole


def _add(result: Document, of_parts: Sequence[Document], classes: Sequence[str]) -> None:
    """Makes of one part's cache that of all."""
    by_class: Counter[str] = Counter()
    for one in of_parts:
        by_class.update(one["misses_by_class"])
    # In the order of the classes' numbers.
    result["misses_by_class"] = {name: by_class[name] for name in classes if by_class[name]}
    for count in ("misses", "write_backs"):
        result[count] = sum(one[count] for one in of_parts)
    for one in of_parts:
        if one["cold"] is not None:
            result["cold"], result["capacity"] = one["cold"], one["capacity"]
            result["conflict"] = result["misses"] - one["cold"] - one["capacity"]
