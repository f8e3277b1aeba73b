# SPDX-License-Identifier: MIT
"""A storm of forks under every allocator and preset (see fork_storm.c): a few in `make check`, as
many as are asked for with `make stress FORKS_EACH=5000`. Not under glibc, whose forks wait for each
other there."""

import os

import pytest
from under import BUILD, LIBRARY, Under, allocators_under_test

FORKS = int(os.environ.get("ALLOTROPE_STRESS_FORKS", "8"))
UNDER = [under for under in allocators_under_test() if under.is_ours]
SPECS = (
    "gc:free=ignore",
    "gc:classic,pointers=interior",
    "gc:free=ignore,generations=2,concurrent=on,verify=on",
    "gc:free=ignore,generations=2,concurrent=on,dirty=none",
    "gc:free=ignore,generations=2,concurrent=fork,verify=on",
    "gc:free=ignore,concurrent=fork,verify=on,every=1000",
    "gc:free=quarantine",
)
UNDER += [Under(spec, LIBRARY, spec) for spec in SPECS]


@pytest.mark.parametrize("under", UNDER, ids=str)
@pytest.mark.parametrize("kind", ["handlers", "libc"])
def test_a_storm_of_forks_ends(kind: str, under: Under) -> None:
    program = BUILD / "tests" / "stress" / "fork_storm"
    result = under.run([str(program), str(FORKS), kind])  # it ends itself when it hangs
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"{2 * FORKS} forks, ")
    print(under, result.stdout, end="")
