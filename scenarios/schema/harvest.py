"""Which pools of a fleet lend their free capacity to functions in a scenario: operators set it at the start."""

from typing import Annotated

from msgspec import Meta, Struct

from core.nouns.harvest import HarvestSettings
from core.nouns.instant import seconds
from scenarios.schema.parts import NotNegative

Grace = Annotated[float, Meta(gt=0, le=45)]
Keep = Annotated[int, Meta(ge=0, le=1_000_000)]


class HarvestSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The settings of one pool, in every region that runs functions."""

    pool: str = "training"
    grace_seconds: Grace = 30.0
    after_seconds: NotNegative = 10.0
    keep: Keep = 0
    """GPUs of each zone that are not lent."""
    takes_reserve: bool = False

    @property
    def settings(self) -> HarvestSettings:
        """Return the settings as the plane is told."""
        return HarvestSettings(
            True,
            seconds(self.grace_seconds),
            self.keep,
            seconds(self.after_seconds),
            takes_reserve=self.takes_reserve,
        )
