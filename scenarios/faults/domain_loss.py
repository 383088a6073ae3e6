"""A power domain fails: a main switchboard, which reaches into any zone and many racks."""

from collections.abc import Sequence

from runtime.wiring import Unit
from scenarios.fault import RegionFault, Stage
from scenarios.play.topology import lose_power, workers_by_domain
from scenarios.schema.fleet import FleetSpec, plan_of
from scenarios.schema.parts import FieldError, Range


class DomainLoss(RegionFault, frozen=True):
    """One power domain of a region: the one that is named, or one that is drawn."""

    domain: str = ""
    down_seconds: Range = (10.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """All of its nodes at one instant, and all come back together."""
        domains = workers_by_domain(stage.world.plan, stage.world.units, self.drawn(stage))
        name = self.domain or stage.dice.choice(sorted(domains))
        await lose_power(stage, domains[name], self.down_seconds)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That a region has no such power domain."""
        wrong = super().problem(fleet, units, path)
        if wrong is not None or not self.domain:
            return wrong
        plan = plan_of(fleet, "domains")
        for region in plan.region_names():
            if self.region in ("", region) and self.domain not in workers_by_domain(plan, units, region):
                return FieldError((*path, "domain"), f"region {region} has no power domain {self.domain}")
        return None
