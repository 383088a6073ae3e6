"""Services of many small tasks that stand alone, most of them there from the beginning to the end."""

import random

from msgspec.structs import replace

from core.nouns.instant import Nanoseconds, seconds
from core.nouns.workload import Emulation, Kind, PlacementMode, RetryLimits, WorkloadSpec
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import NotNegative, Positive
from scenarios.workload import Workload, draw_region


class Services(Workload, frozen=True):
    """Each of as many tasks, of as many GPUs each; they arrive one after the other in the first tenth of the span."""

    tasks: Positive = 4
    gpus: Positive = 1
    """Of one task."""
    is_incremental: bool = False
    """Whether tasks for which there is room start without the others, where others of the service came too late for theirs."""
    stop_seconds: NotNegative = 5.0
    """From the order to stop until a task has left."""

    @property
    def lasts(self) -> float:
        """Seconds: until the end of the span, and a little longer."""
        return 1.1 * self.span

    def times(self, dice: random.Random) -> list[float]:
        """Evenly, so that the fleet fills up without a crowd."""
        return [0.1 * number / self.workloads for number in range(self.workloads)]

    def draw(self, fleet: FleetSpec, dice: random.Random, number: int) -> WorkloadSpec:
        """A service that runs until the span is over."""
        region = draw_region(fleet, dice, self.gpu_type)
        emulation = Emulation(
            work=seconds(self.lasts), checkpoint_every=Nanoseconds(0), stop_span=seconds(self.stop_seconds)
        )
        job = replace(self.job(region, self.gpus, emulation), tasks=self.tasks)
        spec = WorkloadSpec(
            name=f"{self.name}-{number}",
            jobs=(job,),
            tenant=self.draw_tenant(dice),
            kind=Kind.SERVICE,
            priority=self.draw_priority(dice),
            retry=RetryLimits(task_failed=-1),
            placement=PlacementMode.INCREMENTAL if self.is_incremental else PlacementMode.GANG,
        )
        return self._controlled(spec)
