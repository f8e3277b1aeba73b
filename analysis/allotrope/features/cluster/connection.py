# SPDX-License-Identifier: MIT
"""A client of a Dask cluster: one that exists, or one on this machine for as long as it is used.

Dask is optional. It is imported here, when a cluster is asked for, and nowhere else.
"""

import contextlib
import functools
import logging
import os
import pickle
import platform
import re
import signal
import sys
from multiprocessing import resource_tracker
from typing import Any, Callable, Iterator, Sequence

from ...system.children import repeat_lost_interruptions
from ...system.errors import UserError

PACKAGE = "python3-distributed"
# How long a scheduler or a first worker may take to appear, or to come back.
PATIENCE_SECONDS = 60
LOOK_SECONDS = 2.0  # how often it is seen whether there still are workers
# For a worker of local:N that is started again; no other joins.
LOCAL_GRACE_SECONDS = 20.0
LOCAL = re.compile(r"local:(\d+)")
# What a worker of local:N runs before it works: a terminal's Ctrl-C is the client's.
DEAF = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
"""


class SchedulerLost(Exception):
    """The client's tasks are gone with the scheduler."""


def dask() -> Any:
    """The module `distributed`. Raises UserError where it is not installed."""
    try:
        import distributed
    except ImportError:
        raise UserError(
            f"--cluster needs Dask, which is not there; install the Debian package {PACKAGE}"
        ) from None
    _prepare(os.path.dirname(distributed.__file__))
    return distributed


@functools.cache
def _prepare(folder: str) -> None:
    """Once: a hook around the last, at each look at the cluster, would be too deep in the end."""
    import cloudpickle

    from . import delivery, worker

    for module in (delivery, worker):
        cloudpickle.register_pickle_by_value(module)
    # What goes wrong is told by us, once. Dask's loggers have levels of their own, and not all of
    # them have its name.
    logging.disable(logging.ERROR)
    sys.unraisablehook = _of_others(folder, sys.unraisablehook)
    repeat_lost_interruptions()


Hook = Callable[["sys.UnraisableHookArgs"], Any]


class ByValue:
    """A function of worker.py as client.submit() is to have it. From 2024 on Dask pickles a whole
    graph at once, by reference where that can be done here."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        import cloudpickle

        return pickle.loads, (cloudpickle.dumps(self.function),)


def _of_others(folder: str, tell: Hook = sys.__unraisablehook__) -> Hook:
    """What Dask's own coroutines raise when they are dropped, perhaps as the interpreter ends, when
    this module's names are gone, is no one's to know."""

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        at = unraisable.exc_traceback
        while at is not None:
            if at.tb_frame.f_code.co_filename.startswith(folder):
                return
            at = at.tb_next
        tell(unraisable)

    return hook


def local_workers(address: str) -> int | None:
    """N of local:N, None for an address. Raises UserError where it is neither."""
    found = LOCAL.fullmatch(address)
    if found and int(found[1]) > 0:
        return int(found[1])
    if re.fullmatch(r"((tcp|tls)://)?[^/\s:]+(:\d+)", address) and not address.startswith("local:"):
        return None
    raise UserError(f"--cluster: '{address}' is neither local:N nor an address such as HOST:8786")


@contextlib.contextmanager
def scheduler_address(address: str) -> Iterator[str]:
    """Where the scheduler is; that of local:N lives behind the `with`."""
    workers = local_workers(address)
    if workers is None:
        yield address
        return
    import dask as settings

    distributed = dask()  # which brings its settings with it
    preload = settings.config.get("distributed.worker.preload")
    changed = {
        # Nothing of Dask's own is to be busy beside a measurement.
        "distributed.worker.profile.enabled": False,
        "distributed.admin.tick.interval": "1s",
        "distributed.worker.preload": [*([preload] if isinstance(preload, str) else preload), DEAF],
        # A worker would tell of that before it hears that it is to be silent.
        "distributed.nanny.pre-spawn-environ": {
            **settings.config.get("distributed.nanny.pre-spawn-environ", {}),
            "DASK_LOGGING__DISTRIBUTED": "critical",
        },
    }
    with settings.config.set(changed), contextlib.ExitStack() as stack:
        with _blocked_interrupts():
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    memory_limit=0,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
            )
        yield cluster.scheduler_address


@contextlib.contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """In Dask's thread, which is made meanwhile and starts the workers, so that each worker has
    them blocked until it is deaf. We are interrupted when the cluster is there, or at once where
    another thread, as of OpenBLAS, takes the signal."""
    resource_tracker.ensure_running()  # that would unblock it when the first worker is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _need_certificate(address: str) -> None:
    """Dask says less, and only when its patience is over."""
    if not address.startswith("tls://"):
        return
    try:
        known = dask().security.Security().get_connection_args("client")["ssl_context"]
    except OSError as error:  # SSLError is one
        raise UserError(f"--cluster: the certificate for {address}: {error}") from None
    if known is None:
        raise UserError(
            f"--cluster: {address} asks for a certificate; name it to Dask, as with "
            "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT, ..._CLIENT__KEY and TLS__CA_FILE"
        )


@contextlib.contextmanager
def connected(address: str, patience: float = PATIENCE_SECONDS) -> Iterator[Any]:
    """A client with at least one worker. Raises UserError where there is none in `patience`."""
    _need_certificate(address)
    try:
        client = dask().Client(address, timeout=patience, set_as_default=False)
    except (OSError, TimeoutError):
        refused = ", or it refuses our certificate" if address.startswith("tls://") else ""
        raise UserError(f"--cluster: no scheduler answers at {address}{refused}") from None
    try:
        try:
            client.wait_for_workers(1, timeout=patience)
        except TimeoutError:
            raise UserError(f"--cluster: the scheduler at {address} has no worker") from None
        with client.as_current():
            yield client
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=2)


def other_versions(client: Any) -> list[str]:
    """Where Python or distributed is another version than here, a line each. This asks before any
    function is sent: one that was sent by value needs the same Python."""
    own = {"python": platform.python_version(), "distributed": dask().__version__}
    answers = client.get_versions()
    there = {"the scheduler": answers["scheduler"]}
    there |= {f"worker {name}": answer for name, answer in answers["workers"].items()}
    lines = []
    for name, answer in there.items():
        for package, version in own.items():
            other = answer["packages"].get(package, "unknown") if answer else "unknown"
            # Python's has the release level behind it: 3.11.2.final.0
            if other != version and not other.startswith(f"{version}."):
                lines.append(f"{name} has {package} {other}, not {version}")
    return lines


def grace_of(address: str, patience: float) -> float:
    """How long a cluster may be without a worker that is of use: another may join one that exists,
    while those of local:N are started again, or not at all."""
    return patience if local_workers(address) is None else LOCAL_GRACE_SECONDS


def ask_new(
    client: Any, workers: Sequence[str], question: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """What workers that are new answer to a function of worker.py, which tells the `host` and what
    there is `unlike` the client. One that ends meanwhile does not answer. Raises UserError, which
    names them, where workers are not like the client."""
    lines = other_versions(client)
    answers: dict[str, Any] = {}
    if not lines:
        asked = client.run(question, *arguments, workers=list(workers), on_error="return")
        left = client.scheduler_info()["workers"]
        answers = {name: one for name, one in asked.items() if not _has_ended(one, name in left)}
        lines = [line for name, one in answers.items() for line in _faults(name, one)]
    if lines:
        raise UserError("--cluster: " + "; ".join(lines))
    return answers


def _has_ended(answer: Any, is_left: bool) -> bool:
    """Whether the worker has ended before or while it was asked. Before that, the scheduler has
    tried to reach it, which is an OSError; so may be what went wrong on a worker that is there."""
    if isinstance(answer, dask().comm.CommClosedError):
        return True
    return isinstance(answer, OSError) and not is_left


def _faults(address: str, answer: Any) -> list[str]:
    """Why this worker will not do."""
    if isinstance(answer, BaseException):
        return [f"worker {address}: {answer!r}"]
    return [f"worker {address} on {answer['host']}: {line}" for line in answer["unlike"]]
