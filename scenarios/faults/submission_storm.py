"""A herd of submissions, all at once."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from core.nouns.instant import Nanoseconds
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, NotNegative, Positive, PositiveFloat
from scenarios.workload import Priority, Workload
from scenarios.workloads.steady import Steady

HOUR = 3600.0


class SubmissionStorm(Fault, frozen=True):
    """So many workloads within seconds, beside those of the load."""

    is_misfortune: ClassVar[bool] = False
    workloads: Positive = 100
    seconds: NotNegative = 1.0
    """Within which all are submitted."""
    minutes_median: PositiveFloat = 1.0
    minutes_max: PositiveFloat = 5.0
    priority: Priority | None = None
    """Of all of them; as in the published fleet, if this is not said, or its tenant's level, if it is said whose they are."""
    tenant: str = ""
    """Whose all of them are; if this is not said, each is of one of the scenario's tenants, or of twenty where it has none."""
    gpus_max: Positive | None = None
    """Of one workload; as many as one region has, if this is not said."""
    data: tuple[str, ...] = ()
    """Datasets of which each reads one, drawn; nobody reads any, if this is not said."""

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That one of them could never fit."""
        return self._load().problem(fleet, path)

    @property
    def of_tenants(self) -> tuple[str, ...]:
        """The one that it names."""
        return (self.tenant,) if self.tenant else ()

    async def strike(self, stage: Stage) -> None:
        """Each insists until it is answered, also when misfortune has ended."""
        load = self._load()
        if stage.tenants and not self.tenant:
            load = replace(load, tenants=dict.fromkeys(stage.tenants, 1.0))
        arrivals = load.arrivals(stage.fleet, stage.dice)
        sooner = [
            replace(arrival, at=Nanoseconds(round(arrival.at * self.seconds / HOUR))) for arrival in arrivals
        ]
        stage.users.play(sooner, f"storm-{stage.dice.getrandbits(64):016x}")

    def _load(self) -> Workload:
        return Steady(
            workloads=self.workloads,
            hours=1.0,
            minutes_median=self.minutes_median,
            minutes_max=self.minutes_max,
            gpus_max=self.gpus_max,
            priority=self.priority,
            tenant=self.tenant,
            data=self.data,
        )
