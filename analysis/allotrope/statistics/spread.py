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
out: with Q the matrix of the quadratic form and V the variances of the cells,

    D = y'Qy - tr QV,    var D = 4 y'QVQy - 2 tr QVQV    (about; y normal)
"""

import math
from typing import Any, Sequence

from .intervals import Estimate

Z = 1.96  # of a normal distribution, 95%


def interaction_excess(
    cells: Sequence[Sequence[float]], variances: Sequence[Sequence[float]]
) -> Estimate | None:
    """D as a standard deviation: its square root, with its sign. `cells`: a row for each program,
    mean logarithms; `variances`: of these means. None without two of either."""
    if len(cells) < 2 or len(cells[0]) < 2:
        return None
    import numpy

    values = numpy.array(cells, dtype=float).ravel()
    spread = numpy.array(variances, dtype=float).ravel()
    form = _form(len(cells), len(cells[0]))
    weighted = form * spread  # Q V, V being diagonal
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
