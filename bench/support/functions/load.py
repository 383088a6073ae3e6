"""Functions, and calls that arrive at a rate: drawn from a seed, the same calls for every policy and rate.

Rates by function follow Zipf's law with exponent 1. An executor needs 1 to 4 cores, the published limits, and 256 MiB (the default of
OpenWhisk) to 2 GiB, so that joining the shortest queue starts as many executors at 10 calls a second as published. Mean run times of functions
are lognormal (sigma 0.7 of the logarithm), scaled so that a call takes 3.8 core-seconds in the mean; the run times of one function are
lognormal too (sigma 0.3).

A run begins without executors. The rate rises over the first minutes, so that no policy starts with a backlog which lasts.
"""

import random
from collections.abc import Iterator
from math import exp, sqrt

from msgspec import Struct

from core.nouns.function import FunctionSpec, WarmSpans
from core.nouns.ids import TenantName
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import MILLI, Amount

TENANT = TenantName("ml")
CORES = (1, 2, 3, 4)
"""source: spec/cameo-harvest.md 2.2"""
MEMORY_MIB = (256, 512, 1_024, 2_048)
CORE_SECONDS = 3.8
"""Mean of a call. source: spec/cameo-harvest.md 2.5, as run here"""
SIGMA_OF_FUNCTIONS, SIGMA_OF_CALLS = 0.7, 0.3


class Arrival(Struct, frozen=True, gc=False):
    """One call."""

    at: Nanoseconds
    """From the start."""
    function: int
    """Place in `CallLoad.functions`."""
    run_time: Nanoseconds


class CallLoad:
    """Functions, and their calls."""

    def __init__(self, seed: int, functions: int, cold_seconds: float) -> None:
        dice = random.Random(f"functions/{seed}")
        self._seed = seed
        self._weights = [1 / rank for rank in range(1, functions + 1)]
        cores = [dice.choice(CORES) for _ in range(functions)]
        means = [exp(dice.gauss(0, SIGMA_OF_FUNCTIONS)) for _ in range(functions)]
        drawn = sum(
            weight * mean * many for weight, mean, many in zip(self._weights, means, cores, strict=True)
        )
        scale = CORE_SECONDS * sum(self._weights) / drawn
        self._means = [scale * mean for mean in means]
        warm = WarmSpans(process=seconds(cold_seconds))
        self.functions = [
            FunctionSpec(
                TENANT,
                f"f{number}",
                f"{seed:08x}",
                Amount(0, MILLI * many, dice.choice(MEMORY_MIB) << 20),
                warm=warm,
            )
            for number, many in enumerate(cores)
        ]

    def arrivals(self, rate: float, rise_seconds: float) -> Iterator[Arrival]:
        """Yield calls without end: a Poisson process of `rate` a second, less in the first `rise_seconds`, in which the rate rises from 0."""
        dice = random.Random(f"calls/{self._seed}")
        numbers = range(len(self.functions))
        rise = rate * rise_seconds / 2
        count = 0.0
        while True:
            for function in dice.choices(numbers, self._weights, k=100):
                count += dice.expovariate(1.0)
                at = (
                    sqrt(2 * count * rise_seconds / rate)
                    if count < rise
                    else rise_seconds + (count - rise) / rate
                )
                spread = exp(dice.gauss(0, SIGMA_OF_CALLS) - SIGMA_OF_CALLS**2 / 2)
                yield Arrival(seconds(at), function, seconds(self._means[function] * spread))
