"""The state of a planner: the followed images, and the requests under way."""

from msgspec import Struct

from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.messages.prices import SetPrices
from core.messages.sharing import SetShares
from core.nouns.ids import RegionName
from core.nouns.instant import Instant
from core.nouns.solved_from import SolvedFrom

OF_QUEUE = ("demand", "history", "sharing", "tenants")
"""Sections of the queue's image that a planner follows."""


class SolveBegun(Note, frozen=True):
    """The solver was asked."""

    region: RegionName
    revision: int
    """Revision of the prices to be replaced."""
    solved_from: SolvedFrom


class RegionRow(Struct):
    """The state of one region's prices: being solved, being sent, or failed."""

    solving: SolveBegun | None = None
    command: SetPrices | None = None
    said: int = 0
    """Number of times that the command was sent."""
    failures: int = 0
    """Failures in a row."""
    looked_at: Instant | None = None


class SharesRow(Struct):
    """The state of the shares: being solved, being sent, or failed."""

    solving: int = -1
    """Revision of the shares to be replaced while the solver works; -1: it does not."""
    sequence: int = 0
    """Of the queue's log, when it was asked."""
    policy: str = ""
    """By which it solves."""
    command: SetShares | None = None
    said: int = 0
    """Number of times that the command was sent."""
    failures: int = 0
    """Failures in a row."""
    why: str = ""
    """Of the newest of these."""
    look_at: Instant | None = None
    """Time of the next look."""


class PlannerState:
    """Submitted demand, shared pools, each region's capacity and prices, and the requests under way."""

    def __init__(self) -> None:
        self.queue = GlobalImage.empty(OF_QUEUE)
        self.queue_sequence = 0
        self.regions: dict[RegionName, RegionImage] = {}
        self.sequences: dict[RegionName, int] = {}
        self.rows: dict[RegionName, RegionRow] = {}
        self.looks: Agenda[RegionName] = Agenda()
        self.shares = SharesRow()
        self.silent: dict[RegionName, bool] = {}
        """Regions whose logs fell silent: their GPUs are in no solve until they are heard again."""
        self.has_solver = True
