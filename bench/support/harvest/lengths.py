"""Functions with run times like those of Azure's: few calls are long, and these have most of the time.

Run times of all calls together are lognormal, cut at an hour, so that 4.1 % of calls run for over 30 s and have 82 % of the time. That
spread is divided between functions, whose medians lie at equal steps of it, and the calls of one function.

source   Zhang et al., SOSP'21, by spec/cameo-harvest.md 2.1
"""

import random
from math import exp, log, sqrt
from statistics import NormalDist

from bench.support.functions.load import TENANT
from core.nouns.function import FunctionSpec, WarmSpans
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import MILLI, Amount

LONGEST_SECONDS = 3_600.0
MU, SIGMA = -1.607, 2.886
"""Of the logarithm of seconds: with these, calls cut at an hour have both shares. Computed."""
OF_FUNCTIONS = 0.7
"""Part of the variance that is between functions; the rest is between calls of one."""
NEED = Amount(0, MILLI, 256 << 20)
STANDARD = NormalDist()


class Lengths:
    """Functions, and run times of their calls."""

    def __init__(self, seed: int, functions: int) -> None:
        self._dice = random.Random(f"lengths/{seed}")
        spread = SIGMA * sqrt(OF_FUNCTIONS)
        self._medians = [
            MU + spread * STANDARD.inv_cdf((place + 0.5) / functions) for place in range(functions)
        ]
        self._spread = SIGMA * sqrt(1 - OF_FUNCTIONS)
        warm = WarmSpans(process=seconds(1.0))
        self.functions = [
            FunctionSpec(TENANT, f"f{number}", f"{seed:08x}", NEED, warm=warm) for number in range(functions)
        ]

    def run_time(self, function: int) -> Nanoseconds:
        """Return the run time of another call of a function."""
        while True:
            drawn = self._medians[function] + self._dice.gauss(0, self._spread)
            if drawn < log(LONGEST_SECONDS):
                return Nanoseconds(max(1, seconds(exp(drawn))))
