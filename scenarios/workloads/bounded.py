"""Work whose users say how long it may last at the most, and rather too much than too little."""

import random
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from core.nouns.instant import Nanoseconds
from core.nouns.workload import WorkloadSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import Positive
from scenarios.workload import draw_region
from scenarios.workloads.steady import Steady

SURELY_ENOUGH = 1.1
"""Of what it works, the least that anybody asks for: what it saves and how it is started take time as well."""


class Bounded(Steady, frozen=True):
    """Arrivals at any time, each with a longest duration."""

    gpus: Positive | None = None
    """Of each of them; as many as are drawn, if this is not said."""
    overestimate: Annotated[float, Meta(ge=SURELY_ENOUGH)] = 3.0
    """By so much of what it works is the longest duration too long at the most; drawn alike between 1.1 and this.

    A guess. Users of batch systems are known to ask for several times of what they need.
    """

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """What one of them is."""
        spec = super().draw(fleet, dice, number)
        if self.gpus is not None:
            (job,) = spec.jobs
            assert job.emulation is not None, "a drawn load is emulated"
            region = draw_region(fleet, dice, job.gpu_type)
            spec = replace(spec, jobs=(self.job(region, self.at_most(self.gpus, region), job.emulation),))
        works = max(job.emulation.work for job in spec.jobs if job.emulation is not None)
        longest = round(works * dice.uniform(SURELY_ENOUGH, self.overestimate))
        return replace(spec, max_duration=Nanoseconds(longest))
