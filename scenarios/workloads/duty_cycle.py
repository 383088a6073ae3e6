"""Inference services whose devices are idle for a part of the time, and lent meanwhile; some of them never lend."""

import random
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import MILLI
from core.nouns.workload import JobSpec, WorkloadSpec
from scenarios.duty_cycles import Cycle, drawn_cycles
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import PositiveFloat, Share
from scenarios.workloads.services import Services

Spans = Annotated[int, Meta(ge=1, le=500)]
SPAN_MIN = 0.25
"""Seconds."""
DAY_SECONDS = 82_000.0
"""Of a cycle, that are looked at: all of it."""


class DutyCycle(Services, frozen=True):
    """As `services`. Each plays the duty cycle of an image-generation pod, with idle times as in a public trace, from somewhere on (GenTD26)."""

    faster: PositiveFloat = 1.0
    """By how much idle and busy times are shorter than those of the trace."""
    spans: Spans = 8
    """Idle times in one cycle of a service; then it begins anew."""
    floor_share: Share = 0.0
    """Services that never lend, as those of recommendation models, of which the load has a floor."""
    keeps_share: Share = 0.4
    """Of its memory, what a task keeps while its devices are idle."""

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """A service that runs until the span is over."""
        spec = super().draw(fleet, dice, number)
        if dice.random() < self.floor_share:
            return spec
        cycle = dice.choice(drawn_cycles(dice.randrange(1 << 30)))
        return replace(spec, jobs=tuple(self._idling(job, cycle, dice) for job in spec.jobs))

    def _idling(self, job: JobSpec, cycle: Cycle, dice: random.Random) -> JobSpec:
        assert job.emulation is not None, job
        devices = job.need.gpu_milli // MILLI
        runs = [one for one in cycle.idle_runs(DAY_SECONDS) if one.end > one.seen]
        first = dice.randrange(len(runs))
        played: list[tuple[Nanoseconds, int]] = []
        at = runs[first].begin
        for run in runs[first : first + self.spans]:
            # A rule that waits one sample lends from the second idle one on.
            for span, idle in ((run.seen - at, 0), (run.end - run.seen, devices)):
                played.append((seconds(max(SPAN_MIN, round(span / self.faster, 2))), idle))
            at = run.end
        keeps = round(job.need.memory_bytes * self.keeps_share)
        return replace(job, emulation=replace(job.emulation, idle=tuple(played), keeps_bytes=keeps))
