# SPDX-License-Identifier: MIT
"""A kernel that says no: each system call that our code makes fails once, and from some moment on
for ever, while threads allocate, free, resize, die and fork (see stress.c and inject.c).
What is held must stay whole, what is refused must be NULL with ENOMEM, and nobody may crash.

`make check` tries one errno a call; ALLOTROPE_FAULTS=all tries each that the call's manual names.
ALLOTROPE_TEST_ALLOCATORS="bsd gnu:classic" chooses allocators, -k chooses calls.
"""

import errno
import functools
import os
import re
import subprocess

import pytest
from under import BUILD, HANG, allocators_under_test

INJECT = BUILD / "tests" / "stress" / "inject"
STRESS = BUILD / "tests" / "stress" / "stress"
ALL = os.environ.get("ALLOTROPE_FAULTS") == "all"
SECONDS = "0.3" if ALL else "0.08"

# Number on x86-64, and the errors of the manual; the likeliest first.
CALLS = {
    "mmap": (9, "ENOMEM EACCES EAGAIN EEXIST EINVAL ENFILE ENODEV EOVERFLOW EPERM"),
    "munmap": (11, "ENOMEM EINVAL"),
    "mremap": (25, "ENOMEM EAGAIN EFAULT EINVAL"),
    "madvise": (28, "EINVAL EACCES EAGAIN EBADF EIO ENOMEM EPERM"),
    "mprotect": (10, "EACCES EINVAL ENOMEM"),
    "mincore": (27, "ENOMEM EAGAIN EFAULT EINVAL"),
    "futex": (202, "EINTR EACCES EAGAIN EFAULT EINVAL ENFILE ENOSYS EPERM ETIMEDOUT"),
    "sched_getaffinity": (204, "EINVAL EFAULT ESRCH"),
    "readlinkat": (267, "EACCES EINVAL EIO ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR"),
    "fstat": (5, "EBADF EACCES EFAULT ENOMEM EOVERFLOW"),
}
# Of the collector alone. Not ESRCH of a signal: it says that the thread is gone, and its roots with
# it; of one that lives no kernel says so.
COLLECTOR_CALLS = {
    "openat": (257, "EACCES EMFILE ENFILE ENOENT ENOMEM EINTR EPERM"),
    "close": (3, "EIO EBADF EINTR"),
    "read": (0, "EIO EAGAIN EBADF EFAULT EINTR EINVAL"),
    "pread64": (17, "EIO EAGAIN EBADF EFAULT EINTR EINVAL EOVERFLOW"),
    "getdents64": (217, "ENOENT EBADF EFAULT EINVAL ENOTDIR"),
    "fcntl": (72, "EMFILE EAGAIN EBADF EINVAL"),
    "ioctl": (16, "ENOTTY EBADF EFAULT EINVAL ENOMEM"),
    "clone": (56, "EAGAIN EINVAL ENOMEM EPERM"),
    "rt_sigaction": (13, "EINVAL EFAULT"),
    "rt_sigprocmask": (14, "EINVAL EFAULT"),
    "sigaltstack": (131, "EFAULT EINVAL ENOMEM EPERM"),
    "rt_tgsigqueueinfo": (297, "EAGAIN EINVAL EPERM"),
    "nanosleep": (35, "EINTR EFAULT EINVAL"),
    "clock_gettime": (228, "EINVAL EFAULT"),
}


def spec_under_test(name: str) -> str:
    """With options that bring out the calls: many large blocks, many collections."""
    if name in ("knuth", "cartesian", "bsd", "gnu"):
        return f"{name}:large=65536,cache=65536"
    return {"gc": "gc:every=3000", "gc:classic": "gc:classic,pointers=interior"}.get(name, name)


SPECS = [spec_under_test(str(under)) for under in allocators_under_test() if under.is_ours]


def calls_of(spec: str) -> dict[str, tuple[int, str]]:
    return CALLS | COLLECTOR_CALLS if spec.startswith("gc") else CALLS


CASES = [
    (spec, call, error)
    for spec in SPECS
    for call, (_, errors) in calls_of(spec).items()
    for error in (errors.split() if ALL else errors.split()[:1])
]


def inject(
    spec: str, call: str, error: str, first: int, count: int
) -> subprocess.CompletedProcess[str]:
    number = calls_of(spec)[call][0]
    words = [number, getattr(errno, error), first, count]
    examined = [] if count == 0 and first > 0 and call in ("mmap", "mremap") else None
    return subprocess.run(
        [str(INJECT), str(STRESS), *map(str, words)]
        + [str(STRESS), SECONDS, "3"]
        + ([] if examined is None else ["unexamined"]),
        env=os.environ | {"ALLOTROPE": spec},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )


@functools.cache
def usual_count(spec: str, call: str) -> int:
    result = inject(spec, call, "EINVAL", 0, 0)
    assert result.returncode == 0, result.stderr
    return counts(result.stderr)[0]


def counts(text: str) -> tuple[int, int]:
    found = re.search(r"inject: (\d+) calls, (\d+) failed", text)
    assert found, text
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("spec, call, error", CASES)
def test_refused_call_is_survived(spec: str, call: str, error: str) -> None:
    usual = usual_count(spec, call)
    if usual == 0:
        pytest.skip(f"{spec} makes no such call")
    for first, count in {(1, 1), (usual // 2, 1), (usual // 2, 0), (1, 0)}:
        if first == 0:
            continue
        result = inject(spec, call, error, first, count)
        said = [line for line in result.stderr.splitlines() if not line.startswith("inject: ")]
        what = f"{call} {error} from {first}, {count or 'all'}: {result.returncode} {result.stderr}"
        if result.returncode == 2 and call == "mmap":
            assert len(said) == 1 and "the kernel gives no memory for a heap" in said[0], what
        else:
            unable = re.compile(r"allotrope: gc(:classic)?: no collections here")
            said = [line for line in said if not unable.match(line)]
            assert (result.returncode, said) == (0, []), what
