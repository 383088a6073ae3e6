"""What a region's task control remembers: its region, the queue's awards, and whom it asked what."""

from msgspec import Struct

from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.nouns.ids import AttemptKey, TenantName
from core.nouns.instant import Instant, Nanoseconds

ControllerKey = tuple[TenantName, str]


class Attended(Note, frozen=True):
    """An attempt was looked at; it is looked at again then, if at all."""

    key: AttemptKey
    again_at: Instant | None


class Asked(Note, frozen=True):
    """Its controller was asked, with this request."""

    key: AttemptKey
    sequence: int


class ControllerHeard(Note, frozen=True):
    """A controller answered."""

    controller: ControllerKey
    key: AttemptKey
    sequence: int
    """0: of no request that is known here."""
    ignored: int
    """Of what it said, what counted for nothing."""
    why: str = ""
    is_another: bool = False
    """Somebody else spoke for its work: it was not heard itself."""


class Watched(Note, frozen=True):
    """A maintenance, or a drain that lifts itself, was looked at; it is looked at again then, if at all."""

    maintenance: str
    again_at: Instant | None


class ControllerRow(Struct):
    """What is known of one controller."""

    heard_at: Instant | None = None
    ignored: int = 0
    why: str = ""
    """What was wrong with the newest of these."""


class AskedRow(Struct):
    """What one attempt's controller was asked, and what it answered."""

    sequence: int = 0
    asked_at: Instant = Instant(0)
    first_at: Instant = Instant(0)
    """When this request was first made."""
    answered: int = 0


class ControlState:
    """The region's image, the queue's awards, and whom it asked what."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.awards = GlobalImage.empty(("awards",))
        self.closing: dict[int, tuple[str, ...]] = {}
        """By which drains and maintenances each node is to be emptied, the nearest first."""
        self.ahead: Nanoseconds = Nanoseconds(0)
        """How far the keeper's clock is ahead of ours, at least: deadlines are on its clock."""
        self.attempts_due: Agenda[AttemptKey] = Agenda()
        self.maintenance_due: Agenda[str] = Agenda()
        self.asked: dict[AttemptKey, AskedRow] = {}
        self.controllers: dict[ControllerKey, ControllerRow] = {}


SECTIONS = ("attempts", "capacity", "control", "maintenance", "preemption")
