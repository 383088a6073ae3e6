"""Events of the log `global` about regions that were lost: whether what stands there may be given up."""

from core.fact import Event
from core.nouns.ids import RegionName


class RegionAbandoned(Event, frozen=True, tag="region-abandoned"):
    """An operator gave a region up: recorded consent that what it was awarded runs elsewhere, though it may still run there."""

    about_field = "region"
    region: RegionName
    revision: int
    """Of whether the region is given up: it grows with each of these events."""
    by: str = ""


class RegionReadmitted(Event, frozen=True, tag="region-readmitted"):
    """An operator wants the region to have work again."""

    about_field = "region"
    region: RegionName
    revision: int
    by: str = ""


EVENTS: tuple[type[Event], ...] = (RegionAbandoned, RegionReadmitted)
