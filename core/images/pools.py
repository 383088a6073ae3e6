"""A section of a region's image: what operators set of its pools."""

from msgspec import field

from core.events.pools import PoolChanged
from core.fact import Fact
from core.images.base import Section
from core.nouns.pool import UNSET, PoolSettings


class Pools(Section):
    """Settings by pool; a pool without settings has the defaults."""

    FOLDS = {PoolChanged: "_changed"}

    settings: dict[str, PoolSettings] = field(default_factory=dict)
    revision: int = 0
    """Grows with every change: a command names the one that it was given for, and a view the one that it was chosen by."""

    def of(self, pool: str) -> PoolSettings:
        """Of one pool."""
        return self.settings.get(pool, UNSET)

    def _changed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PoolChanged)
        self.settings[event.pool] = event.settings
        self.revision += 1
