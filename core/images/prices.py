"""A section of a region's image: what room in it is worth, as a planner found it last."""

from core.events.prices import PricesSet
from core.fact import Fact
from core.images.base import Section
from core.nouns.prices import NO_PRICES, Prices
from core.nouns.solved_from import SolvedFrom


class PriceList(Section):
    """The newest prices."""

    FOLDS = {PricesSet: "_set"}

    prices: Prices = NO_PRICES
    solved_from: SolvedFrom = SolvedFrom()
    by: str = ""
    set_at: int = 0
    """When they were recorded; 0: there are none."""

    @property
    def revision(self) -> int:
        """Grows whenever prices are set; 0: they never were."""
        return self.prices.revision

    def _set(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, PricesSet)
        self.prices, self.solved_from = event.prices, event.solved_from
        self.by, self.set_at = event.by, fact.at
