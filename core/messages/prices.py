"""How prices come to a region: a planner asks its solver for them, and the region's placement store to record them."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName
from core.nouns.prices import Prices
from core.nouns.solved_from import SolvedFrom


class SetPrices(Message, frozen=True, tag="set-prices"):
    """A region's agents are to go by these."""

    region: RegionName
    prices: Prices
    """Their revision follows on the one that they replace; of any other they are refused as superseded."""
    solved_from: SolvedFrom
    by: str = ""


class PricesAnswered(Answer, frozen=True, tag="prices-answered"):
    """A region has prices of this revision."""

    revision: int


MESSAGES: tuple[type[Message], ...] = (SetPrices, PricesAnswered)
