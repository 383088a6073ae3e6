"""The status of a plane's processes: each unit tells its own, and the auditor keeps the newest of each."""

from msgspec import Struct

from core.messages.base import Answer, Message


class AsideMessage(Struct, frozen=True):
    """A sort of message that made its component fail twice in a row, and is not handled any more."""

    message: str
    """The message's type, by its tag."""
    subject: str
    """The thing that the message is about, as `workload w-7` (core/rules/message_subject.py)."""
    error: str
    """The error of the newest failure."""
    count: int = 0
    """Messages put aside since the unit's start."""


class StatusWanted(Message, frozen=True, tag="status-wanted"):
    """All units are asked for their status at once, not only every `STATUS_INTERVAL`."""


class UnitStatus(Message, frozen=True, tag="unit-status"):
    """The status of one unit."""

    unit: str
    """The unit's name in its plane (runtime/wiring.py)."""
    host: str
    """The machine's name."""
    build: str
    life: str
    """Drawn at each start of the unit, so that a restart is seen where no supervisor counts them."""
    up_for: int
    """Nanoseconds since the start."""
    again_in: int
    """Nanoseconds within which the next status comes."""
    restarts: int = 0
    """Lives before this one under the same supervisor."""
    last_end: str = ""
    """How the life before this one ended; empty: in order, or there was none."""
    behind: int = 0
    """Facts of followed logs that were announced and are not folded yet."""
    waiting: int = 0
    """Messages in the inbox."""
    late: int = 0
    """Nanoseconds by which the event loop was late, at worst, since the status before."""
    counts: dict[str, int] = {}
    """What was lost, dropped, refused or read again since the start, by the names in runtime/status/unit_status.py; zeros are left out."""
    aside: tuple[AsideMessage, ...] = ()
    grown: tuple[str, ...] = ()
    """Names of the counts that grew within the last two intervals, as far as the unit has told statuses since its start."""
    waits_for: str = ""
    """The operator's word for which the unit waits, as a sentence; empty: none."""


class ShowUnits(Message, frozen=True, tag="show-units"):
    """Which units belong to the plane, and what did each say last?"""

    after: str = ""
    """The unit's name behind which to go on."""


class SeenUnit(Struct, frozen=True):
    """One unit, as the auditor knows it."""

    unit: str
    status: UnitStatus | None = None
    """The newest status; None while the auditor has heard none."""
    silent_for: int = 0
    """Nanoseconds since that status."""
    lives: int = 0
    """Lives that the auditor has seen."""


class UnitsShown(Answer, frozen=True, tag="units-shown"):
    """Units in the order of their names, as many as fit."""

    units: tuple[SeenUnit, ...]
    following: str = ""
    """The name to go on after; empty: these were the last."""


MESSAGES: tuple[type[Message], ...] = (StatusWanted, UnitStatus, ShowUnits, UnitsShown)
