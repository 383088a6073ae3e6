"""Copies of data from one region to another stand still, or move slowly, for a while."""

from collections.abc import Sequence

from core.nouns.ids import RegionName
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range


class DataLink(Fault, frozen=True):
    """A link that is cut, if no speed is said; drawn, if no ends are named."""

    source: str = ""
    target: str = ""
    permille: int = 0
    """Thousandths of the usual rate; 0: nothing moves."""
    for_seconds: Range = (30.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """Cut it, and restore it."""
        source, target = drawn_link(stage, self.source, self.target)
        async with stage.lasting(stage.world.slow_data(source, target, self.permille)):
            await stage.wait(self.for_seconds)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That there is no data service at an end."""
        return no_service(units, path, source=self.source, target=self.target)


def drawn_link(stage: Stage, source: str, target: str) -> tuple[RegionName, RegionName]:
    """Return the ends of a link between two data services; those that are not named are drawn."""
    regions = served_regions(stage)
    sources = [RegionName(source)] if source else [region for region in regions if region != target]
    begin = sources[stage.dice.randrange(len(sources))]
    targets = [RegionName(target)] if target else [region for region in regions if region != begin]
    return begin, targets[stage.dice.randrange(len(targets))]


def served_regions(stage: Stage) -> list[RegionName]:
    """Return the regions with a data service, or all if none has one: then nothing comes of it."""
    served = [unit.region for unit in stage.world.units if unit.role == "data_service"]
    return served or list(stage.world.plan.region_names())


def no_service(units: Sequence[Unit], path: tuple[str | int, ...], **named: str) -> FieldError | None:
    """That fewer than two regions have a data service, or a named one has none."""
    regions = sorted(unit.region for unit in units if unit.role == "data_service")
    if len(regions) < 2:
        return FieldError(path, "it needs a fleet with `data`, of two regions or more")
    for field, name in named.items():
        if name and name not in regions:
            return FieldError(
                (*path, field), f"there is no data service in `{name}`; there is one in {', '.join(regions)}"
            )
    return None
