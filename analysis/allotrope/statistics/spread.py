# SPDX-License-Identifier: MIT
"""Which of two factors a table of times depends on.

A time of program i under allocator j, as a logarithm, is

    y(i, j) = program(i) + allocator(j) + interaction(i, j) + noise

`allocator` is what one algorithm is faster by in all programs, `interaction` by how much that
depends on the program. `program`, how long it runs at all, is no concern here. What is asked is
whether the variance of the interaction exceeds that of the allocators:

    D = variance of interaction - variance of allocators

Both have unbiased estimates from the mean squares of a two-way table (Searle, Casella and
McCulloch, Variance Components, 4.5). Noise alone would make both positive, so what it adds is taken
out: with Q the matrix of the quadratic form and V the covariances of the cells,

    D = y'Qy - tr QV,    var D = 4 y'QVQy - 2 tr QVQV    (about; y normal)

Of two programs the noise is independent. Of one program's cells it is not: the runs of a round
share what disturbs the machine meanwhile. Such a common part is in V and moves no difference.
"""

import math
from typing import Any, Sequence

from .intervals import Estimate

Z = 1.96  # of a normal distribution, 95%


def mean_logarithms(rounds: Sequence[Sequence[float]]) -> tuple[list[float], Any] | None:
    """Of the rounds, a row each: the columns' mean logarithms, and the covariances of these means.
    One round shows no covariance. None without a round."""
    if len(rounds) == 0:
        return None
    import numpy

    logs = numpy.log(numpy.array(rounds, dtype=float))
    count, columns = logs.shape
    spread = numpy.cov(logs, rowvar=False) / count if count > 1 else numpy.zeros((columns, columns))
    return logs.mean(axis=0).tolist(), spread


def interaction_excess(
    cells: Sequence[Sequence[float]], covariances: Sequence[Any]
) -> Estimate | None:
    """D as a standard deviation: its square root, with its sign. `cells`: a row for each program,
    mean logarithms; `covariances`: a matrix for each program, of these means. None without two of
    either."""
    if len(cells) < 2 or len(cells[0]) < 2:
        return None
    import numpy
    from scipy import linalg

    values = numpy.array(cells, dtype=float).ravel()
    form = _form(len(cells), len(cells[0]))
    weighted = form @ linalg.block_diag(*covariances)  # Q V
    noise = 2 * float(numpy.trace(weighted @ weighted))
    excess = float(values @ form @ values - numpy.trace(weighted))
    variance = max(noise, 4 * float(values @ weighted @ form @ values) - noise)
    reach = Z * math.sqrt(variance)
    return Estimate(_root(excess), _root(excess - reach), _root(excess + reach))


def _form(rows: int, columns: int) -> Any:
    """Q: the interaction's mean square and its share in the allocators', less the allocators'."""
    import numpy

    def centre(size: int) -> Any:
        return numpy.eye(size) - numpy.ones((size, size)) / size

    main = numpy.kron(numpy.ones((rows, rows)) / rows, centre(columns))
    interaction = numpy.kron(centre(rows), centre(columns))
    freedom = (rows - 1) * (columns - 1)
    return interaction * (1 + 1 / rows) / freedom - main / (rows * (columns - 1))


def _root(square: float) -> float:
    return math.copysign(math.sqrt(abs(square)), square)
