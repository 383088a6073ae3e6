"""Events of a region's log about what room in it is worth."""

from core.fact import Event
from core.nouns.prices import NO_PRICES, Prices
from core.nouns.solved_from import SolvedFrom


class PricesSet(Event, frozen=True, tag="prices-set"):
    """From here on agents that search by prices go by these."""

    prices: Prices = NO_PRICES
    solved_from: SolvedFrom = SolvedFrom()
    by: str = ""


EVENTS: tuple[type[Event], ...] = (PricesSet,)
