"""How prices come to a region: a planner asks its solver for them, and the region's placement store to record them."""

from core.messages.base import Answer, Message, Notice
from core.nouns.ids import RegionName
from core.nouns.prices import Prices
from core.nouns.solved_from import SolvedFrom


class PricesSolved(Notice, frozen=True, tag="prices-solved"):
    """The solver's answer to the planner that asked it."""

    region: RegionName
    revision: int
    """Of the prices that these are to replace."""
    prices: Prices


class PricesUnsolved(Notice, frozen=True, tag="prices-unsolved"):
    """The solver has no answer."""

    region: RegionName
    revision: int
    why: str
    is_for_good: bool = False
    """Whether asking it again is of no use: there is no solver in this process."""


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
