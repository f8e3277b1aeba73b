# SPDX-License-Identifier: MIT
"""One ratio of several machines.

A ratio of one machine says how that machine differs from itself under another allocator. Its
interval says what another run there would give, not what another machine would. So machines are
the sample: each gives one figure, the logarithm of its ratio, and of M such figures

    mean ± t(M - 1) * s / sqrt(M)

is the interval of the mean over machines of this kind (Student, 1908). It assumes that machines
differ about normally, as logarithms. How well each was measured is in s: noise of a machine adds
to the differences between machines. Times are never pooled, for one machine is faster than another.
"""

import math
import statistics
from typing import Sequence

from .intervals import JUDGED_CONFIDENCE, Estimate

LEAST_MACHINES = 3  # with two the interval is 127 standard errors on either side


def pooled(ratios: Sequence[float], confidence: float = JUDGED_CONFIDENCE) -> Estimate | None:
    """Of one ratio from each machine, all positive; None below LEAST_MACHINES."""
    from scipy import special  # here, for it takes long to start, and stats three times as long

    if len(ratios) < LEAST_MACHINES:
        return None
    logarithms = [math.log(ratio) for ratio in ratios]
    middle = statistics.fmean(logarithms)
    error = statistics.stdev(logarithms) / math.sqrt(len(ratios))
    reach = float(special.stdtrit(len(ratios) - 1, (1 + confidence) / 2)) * error
    return Estimate(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))
