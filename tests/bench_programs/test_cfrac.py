# SPDX-License-Identifier: MIT
"""cfrac against Python's integers: factors multiply back, are prime, and arithmetic is right."""

from __future__ import annotations

import math
import random
import re
import subprocess

import pytest
from under import BUILD, HANG

FOLDER = BUILD / "bench_programs" / "cfrac"
PROGRAMS = ["cfrac", "cfrac_malloc", "cfrac_uncounted"]


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = FOLDER / program
    if not path.exists():
        pytest.skip(f"{path} is not built: run make")
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, timeout=HANG)


def factors_of(output: str) -> tuple[int, list[int]]:
    number, factors = output.strip().split(" = ")
    return int(number), [int(factor) for factor in factors.split(" * ")]


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, to the first 13 primes as bases: certain below 3.3e24."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if number < 2 or any(number % base == 0 for base in bases):
        return number in bases
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    return all(
        pow(base, odd, number) == 1
        or any(pow(base, odd << i, number) == number - 1 for i in range(twos))
        for base in bases
    )


def random_prime(generator: random.Random, digits: int) -> int:
    while True:
        candidate = generator.randrange(10 ** (digits - 1), 10**digits) | 1
        if is_prime(candidate):
            return candidate


@pytest.mark.parametrize("program", PROGRAMS)
def test_default_number_is_a_33_digit_product_of_two_primes(program: str) -> None:
    result = run(program, "--statistics")
    assert result.returncode == 0
    number, factors = factors_of(result.stdout)
    assert len(str(number)) == 33 and len(factors) == 2
    assert math.prod(factors) == number and all(map(is_prime, factors))
    made, from_malloc = map(int, re.findall(r"\d+", result.stderr))
    assert 3_000_000 <= made <= 4_000_000
    assert from_malloc < 5000 if program == "cfrac" else from_malloc == made


def test_every_number_up_to_3000() -> None:
    result = run("cfrac_malloc", *map(str, range(1, 3001)))
    lines = result.stdout.splitlines()
    assert len(lines) == 3000
    for expected, line in enumerate(lines, 1):
        number, factors = factors_of(line)
        assert number == expected and math.prod(factors) == number
        assert factors == sorted(factors)
        assert all(map(is_prime, factors)) or factors == [1]


@pytest.mark.parametrize("digits", [(6, 6), (6, 9), (7, 7, 7), (10, 10), (9, 14), (13, 15)])
def test_products_of_random_primes(digits: tuple[int, ...]) -> None:
    generator = random.Random(sum(digits) * 1000 + digits[0])
    wanted = [sorted(random_prime(generator, d) for d in digits) for _ in range(10)]
    result = run("cfrac_malloc", *(str(math.prod(factors)) for factors in wanted))
    assert result.returncode == 0, result.stderr
    assert [factors_of(line)[1] for line in result.stdout.splitlines()] == wanted


def test_squares_and_awkward_numbers() -> None:
    square = 1000003**2
    near = 999999000001 * 1000000000039  # close together, and far from small primes
    mixed = 2**40 * 3**20 * 1000003 * 10000019
    result = run("cfrac", *(map(str, (square, near, mixed, 2**127 - 1))))
    assert [factors_of(line)[1] for line in result.stdout.splitlines()] == [
        [1000003, 1000003],
        [999999000001, 1000000000039],
        [2] * 40 + [3] * 20 + [1000003, 10000019],
        [2**127 - 1],
    ]


def test_cube_of_a_large_prime_is_refused_in_one_line() -> None:
    result = run("cfrac", str(100003**3))
    assert result.returncode == 1
    assert result.stderr == (f"cfrac: cannot split {100003 ** 3}: the power of a prime, perhaps\n")


@pytest.mark.parametrize("text", ["0", "", "-5", "12x", " 7", "1" * 601])
def test_bad_number_is_named_in_one_line(text: str) -> None:
    result = run("cfrac", text)
    assert result.returncode == 2
    assert f"bad number '{text}'" in result.stderr and result.stderr.count("\n") == 1


def test_a_larger_base_finds_the_same_factors_and_keeps_more_of_them() -> None:
    number = "8539734222683240063890548097"
    plain, large = run("cfrac_malloc", number), run("cfrac_malloc", "--base=900", number)
    assert plain.stdout == large.stdout and factors_of(large.stdout)[0] == int(number)
    made = [
        int(re.findall(r"\d+", run("cfrac", "--statistics", *base, number).stderr)[0])
        for base in ([], ["--base=900"])
    ]
    assert made[0] != made[1]


@pytest.mark.parametrize("text", ["--base=", "--base=31", "--base=4001", "--base=9x", "--bases=90"])
def test_bad_option_is_named_in_one_line(text: str) -> None:
    result = run("cfrac", text)
    assert result.returncode == 2
    assert f"bad option '{text}'" in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_tables_are_no_roots(program: str) -> None:
    """A conservative collector reads all static data at each collection."""
    path = FOLDER / program
    if not path.exists():
        pytest.skip(f"{path} is not built: run make")
    sizes = subprocess.run(["size", str(path)], capture_output=True, text=True, check=True).stdout
    _, data, zeroed = map(int, sizes.splitlines()[1].split()[:3])
    assert data + zeroed < 4096


def test_program_without_leaks_of_numbers() -> None:
    """cfrac_malloc frees every number that it makes: valgrind counts what is left."""
    path = FOLDER / "cfrac_malloc"
    if not path.exists():
        pytest.skip(f"{path} is not built: run make")
    command = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=all"]
    result = subprocess.run(
        [*command, "--error-exitcode=9", str(path), "1000036000099", "6340506366799890153072173"],
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert result.returncode == 0, result.stderr
