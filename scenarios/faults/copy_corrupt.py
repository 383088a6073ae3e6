"""Copies of data arrive with flipped bits: their hash is another one."""

from collections.abc import Sequence

from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.faults.data_link import drawn_link, no_service
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError


class CopyCorrupt(Fault, frozen=True):
    """The next copies over a link, drawn if no ends are named."""

    source: str = ""
    target: str = ""
    copies: int = 1

    async def strike(self, stage: Stage) -> None:
        """Spoil them."""
        source, target = drawn_link(stage, self.source, self.target)
        await stage.world.corrupt_data(source, target, self.copies)

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That there is no data service at an end."""
        return no_service(units, path, source=self.source, target=self.target)
