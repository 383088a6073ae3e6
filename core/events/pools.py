"""Events of a region's log about its pools."""

from core.fact import Event
from core.nouns.pool import PoolSettings


class PoolChanged(Event, frozen=True, tag="pool-changed"):
    """An operator set by which rules a pool is searched, and what of it stays free."""

    pool: str
    settings: PoolSettings
    by: str = ""


EVENTS: tuple[type[Event], ...] = (PoolChanged,)
