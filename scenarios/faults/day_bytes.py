"""Operators let copies have few bytes a day, and after a while as many as before."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec.structs import replace

from core.nouns.data import DEFAULT_POLICY
from runtime.wiring import Unit
from scenarios.fault import Fault, Stage
from scenarios.faults.data_link import no_service
from scenarios.play.data_settings import set_data_policy
from scenarios.schema.data import GB
from scenarios.schema.fleet import FleetSpec
from scenarios.schema.parts import FieldError, Range


class DayBytes(Fault, frozen=True):
    """Copies beyond the day's bytes wait until then."""

    is_misfortune: ClassVar[bool] = False
    gb: Range = (0.1, 2.0)
    """That all copies of a day may have together."""
    for_seconds: Range = (30.0, 600.0)

    async def strike(self, stage: Stage) -> None:
        """Set the policy, and set it back."""
        data = stage.fleet.data
        usual = data.policy if data is not None else DEFAULT_POLICY
        tight = replace(usual, day_permille=0, day_bytes_min=round(stage.draw(self.gb) * GB))
        try:
            stage.problems += await set_data_policy(stage.users, tight)
            await stage.wait(self.for_seconds)
        finally:
            await stage.undo(lambda: set_data_policy(stage.users, usual))

    def problem(
        self, fleet: FleetSpec, units: Sequence[Unit], path: tuple[str | int, ...]
    ) -> FieldError | None:
        """That fewer than two regions have a data service."""
        return no_service(units, path)
