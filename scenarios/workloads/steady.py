"""Arrivals at any time with the same likelihood."""

import random

from scenarios.workload import Workload


class Steady(Workload, frozen=True):
    """So many workloads over so many hours."""

    def times(self, dice: random.Random) -> list[float]:
        """Uniform."""
        return [dice.random() for _ in range(self.workloads)]
