"""Memory of a region's task control: the region's image, the queue's awards, and the requests to controllers."""

from msgspec import Struct

from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.nouns.ids import AttemptKey, TenantName
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import CONTROLLERS_KEPT_MAX

ControllerKey = tuple[TenantName, str]


class Attended(Note, frozen=True):
    """An attempt was examined; the next time by the clock is `again_at`, if set."""

    key: AttemptKey
    again_at: Instant | None


class Asked(Note, frozen=True):
    """The request of this sequence was sent to the attempt's controller."""

    key: AttemptKey
    sequence: int


class ControllerHeard(Note, frozen=True):
    """A controller answered about an attempt."""

    controller: ControllerKey
    key: AttemptKey
    sequence: int
    """Sequence of the newest request, if the answer names that request; else 0."""
    ignored: int
    """Number of acknowledgements, or whole answers, without effect."""
    why: str = ""
    is_another: bool = False
    """True if another controller answered for the workload of `controller`."""


class Watched(Note, frozen=True):
    """A maintenance, or a drain for defragmentation, was examined; the next time by the clock is `again_at`, if set."""

    maintenance: str
    again_at: Instant | None


class ControllerRow(Struct):
    """The newest answer of one controller, and the count of answers without effect."""

    heard_at: Instant | None = None
    ignored: int = 0
    why: str = ""
    """Reason why the newest ignored answer had no effect."""


class AskedRow(Struct):
    """The newest request to one attempt's controller, and the newest answer."""

    sequence: int = 0
    asked_at: Instant = Instant(0)
    first_at: Instant = Instant(0)
    """When the request of this sequence was first sent."""
    answered: int = 0


class ControlState:
    """The region's image, the queue's awards, and the requests to controllers."""

    def __init__(self, at: Instant) -> None:
        self.image = RegionImage.empty(SECTIONS)
        self.awards = GlobalImage.empty(("awards",))
        self.closing: dict[int, tuple[str, ...]] = {}
        """Drains and maintenances that are to empty each node, the nearest deadline first."""
        self.ahead: Nanoseconds = Nanoseconds(0)
        """Least lead of the keeper's clock over this one, from facts received; 0 if behind. Deadlines are on the keeper's clock."""
        self.attempts_due: Agenda[AttemptKey] = Agenda()
        self.maintenance_due: Agenda[str] = Agenda()
        self.asked: dict[AttemptKey, AskedRow] = {}
        self.controllers: dict[ControllerKey, ControllerRow] = {}
        """Controllers that answered, the one heard longest ago first."""

    def of_controller(self, key: ControllerKey) -> ControllerRow:
        """Return the row of a controller that is heard now. Of more than `CONTROLLERS_KEPT_MAX`, the longest silent is forgotten."""
        row = self.controllers[key] = self.controllers.pop(key, ControllerRow())
        while len(self.controllers) > CONTROLLERS_KEPT_MAX:
            del self.controllers[next(iter(self.controllers))]
        return row


SECTIONS = ("attempts", "capacity", "control", "maintenance", "preemption", "starts")
