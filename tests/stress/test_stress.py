# SPDX-License-Identifier: MIT
"""Every allocator and preset under stress (see stress.c): a moment each in `make check`, as long
as is asked with `make stress SECONDS_EACH=3600`."""

import os
import subprocess

import pytest
from under import BUILD, HANG, NOT_FOR_ANY_PROGRAM, described_specs

SECONDS = float(os.environ.get("ALLOTROPE_STRESS_SECONDS", "0.6"))
# libc keeps pointers into blocks that the collector of 1992 would not follow.
SPECS = [spec for spec in described_specs() if spec not in NOT_FOR_ANY_PROGRAM]
SPECS += ["gc:classic,pointers=interior"]


@pytest.mark.parametrize("spec", SPECS)
def test_no_block_is_lost_or_corrupt(spec: str) -> None:
    result = subprocess.run(
        [str(BUILD / "tests" / "stress" / "stress"), str(SECONDS)],
        env=os.environ | {"ALLOTROPE": spec},
        capture_output=True,
        text=True,
        timeout=HANG + 10 * SECONDS,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert ", 0 refused" in result.stdout
    print(result.stdout, end="")


@pytest.mark.parametrize("words", [[], ["x"], ["-1"], ["1", "2", "3"]])
def test_bad_arguments_are_refused(words: list[str]) -> None:
    program = [str(BUILD / "tests" / "stress" / "stress"), *words]
    result = subprocess.run(program, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.startswith("usage: ")
