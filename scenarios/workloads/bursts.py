"""Arrivals in bursts: nobody for a while, and then everybody within seconds."""

import random

from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Positive, PositiveFloat, Share
from scenarios.workload import Workload


class Bursts(Workload, frozen=True):
    """So many bursts at times that are drawn, in which most arrive; the others come at any time."""

    bursts: Positive = 4
    burst_seconds: PositiveFloat = 10.0
    """How long each lasts; a span that is divided by `compression`, too."""
    burst_share: Share = 0.9
    """Who arrive in one."""

    def problem(self, fleet: FleetSpec, path: tuple[str | int, ...]) -> FieldError | None:
        """A burst must be over before the load is."""
        if self.burst_seconds > 3600 * self.hours:
            text = f"a burst of {self.burst_seconds:g} s does not fit in {self.hours:g} hours"
            return FieldError((*path, "burst_seconds"), text)
        return super().problem(fleet, path)

    def times(self, dice: random.Random) -> list[float]:
        """A burst is drawn for each who arrives in one, and a time within it."""
        length = self.burst_seconds / (3600 * self.hours)
        begins = [dice.uniform(0.0, 1.0 - length) for _ in range(self.bursts)]
        return [
            dice.choice(begins) + dice.uniform(0.0, length)
            if dice.random() < self.burst_share
            else dice.random()
            for _ in range(self.workloads)
        ]
