"""Some endpoints and some others cannot hear each other."""

from collections.abc import Sequence

from runtime.wiring import Unit, bus_name_of
from scenarios.fault import Fault, Stage, nameless, outside
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range
from scenarios.worlds.interface import Link


class Partition(Fault, frozen=True):
    """Between endpoints by their names on the bus (`queue`, `store.eu`, `agent.eu.*`), or between two parts that are drawn."""

    ones: tuple[str, ...] = ()
    """Drawn, if nobody is named."""
    others: tuple[str, ...] = ()
    """All others and the users, if nobody is named."""
    one_way: bool = False
    """Only what the first say to the others is lost."""
    for_seconds: Range = (1.0, 120.0)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That a name is nobody's, or that others are named and ones are not."""
        if self.others and not self.ones:
            return FieldError((*path, "others"), "it needs `ones` too: those who cannot hear them")
        return nameless(units, self.ones, (*path, "ones")) or nameless(units, self.others, (*path, "others"))

    async def strike(self, stage: Stage) -> None:
        """Cut, and heal."""
        async with stage.lasting(stage.world.cut(Link(*self._sides(stage), is_one_way=self.one_way))):
            await stage.wait(self.for_seconds)

    def _sides(self, stage: Stage) -> tuple[tuple[str, ...], tuple[str, ...]]:
        units = stage.world.units
        if self.ones and self.others:
            return self.ones, self.others
        if self.ones:
            inside = [unit for unit in units if nameless([unit], self.ones, ()) is None]
            return self.ones, outside(units, inside)
        inside = stage.dice.sample(list(units), stage.dice.randint(1, len(units) - 1))
        return tuple(sorted(bus_name_of(unit) for unit in inside)), outside(units, inside)
