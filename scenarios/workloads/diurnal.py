"""Arrivals that follow the day: many at its peak, few at night."""

import math
import random
from typing import Annotated

from msgspec import Meta

from scenarios.schema.parts import Share
from scenarios.workload import Workload

HOURS_OF_A_DAY = 24
Hour = Annotated[float, Meta(ge=0.0, lt=24.0)]


class Diurnal(Workload, frozen=True):
    """The rate of arrivals is a cosine over each day; the load begins at midnight."""

    peak_hour: Hour = 14.0
    """Of the day, when most arrive; twelve hours later fewest do."""
    trough_share: Share = 0.2
    """How many arrive then, of those that arrive at the peak in the same time."""

    def rate(self, hour: float) -> float:
        """Of arrivals at this hour since the load began, as a share of the peak's."""
        angle = 2 * math.pi * (hour - self.peak_hour) / HOURS_OF_A_DAY
        return self.trough_share + (1.0 - self.trough_share) * (1.0 + math.cos(angle)) / 2

    def times(self, dice: random.Random) -> list[float]:
        """By thinning: a time that is drawn is kept as often as its rate says (Lewis & Shedler, 1979)."""
        kept: list[float] = []
        while len(kept) < self.workloads:
            share = dice.random()
            if dice.random() < self.rate(share * self.hours):
                kept.append(share)
        return kept
