"""The state of a planner: the followed images, and for each concern the rows of its keys.

A key is a part of a concern that is solved by itself, for example a region. A row is idle; or its problem is being solved; or its
command is being said; or the last attempt failed, and another follows.
"""

from collections.abc import Mapping

from msgspec import Struct

from core.agenda import Agenda
from core.fact import Note
from core.images import GlobalImage, RegionImage
from core.messages.base import Message
from core.nouns.ids import RegionName
from core.nouns.instant import Instant, Nanoseconds, after


class Pace(Struct, frozen=True):
    """How soon and how often a concern acts."""

    solve: Nanoseconds
    """From the request until the solver counts as failed."""
    retry: Nanoseconds
    """From the first failure until the next look; doubled with each failure in a row."""
    retry_max: Nanoseconds
    said_max: int
    """Times that a command is said which is not recorded."""
    settle: Nanoseconds = Nanoseconds(0)
    """From a change until the look: changes that come meanwhile are part of it."""
    between: Nanoseconds = Nanoseconds(0)
    """The least time from one look to the next that a change makes due."""


class Problem(Struct, frozen=True):
    """A problem to solve, because the recorded answer is old."""

    revision: int
    """Revision of the recorded answer."""
    problem: Struct
    """As in `Solve`."""
    basis: Struct
    """Values that the command names beside the answer, for example how far the logs were read."""


class Row(Struct, frozen=True):
    """The state of one key."""

    solving: Problem | None = None
    command: tuple[Message, ...] = ()
    """Messages that are said together, until the log shows the answer."""
    said: int = 0
    """Number of times that the command was said."""
    failures: int = 0
    """Failures in a row."""
    why: str = ""
    """Reason of the newest failure, a sentence."""
    looked_at: Instant | None = None

    @property
    def is_under_way(self) -> bool:
        """Return whether the solver works on the key, or its command is being said."""
        return self.solving is not None or bool(self.command)


class RowChanged(Note, frozen=True):
    """A look at a key, or an answer, led to this row."""

    concern: str
    key: str
    row: Row
    look_at: Instant | None
    """Time of the next look, as in `Rows.put`."""
    has_solver: bool = True


class RegionSilent(Note, frozen=True):
    """A region's log fell silent, or is heard again."""

    region: RegionName
    is_silent: bool


class Rows:
    """The keys of one concern, and when each is looked at next. Only folds change rows."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.by_key: dict[str, Row] = {}
        self.looks: Agenda[str] = Agenda()
        self.has_solver = True
        """False once a solver is known to be missing: then no key is looked at in this life of the planner."""

    def begin(self, key: str, at: Instant) -> None:
        """Forget the past of a key, or add the key, and look at once: the log of its answers may have another history."""
        self.put(key, Row(), at)

    def moved(self, key: str, at: Instant) -> None:
        """Schedule a look, because an input of the key changed. A key under way, or waiting after a failure, has its look already."""
        row = self.by_key.setdefault(key, Row())
        if row.is_under_way or row.failures:
            return
        soon = after(at, self.pace.settle)
        if row.looked_at is not None:
            soon = max(soon, after(row.looked_at, self.pace.between))
        known = self.looks.at(key)
        if known is None or soon < known:
            self.put(key, row, soon)

    def recorded(self, key: str) -> None:
        """Forget the request and the failures of a key: its log shows an answer, this planner's or another's."""
        self.put(key, Row(looked_at=self.by_key[key].looked_at), None)

    def forgive(self, key: str) -> None:
        """Forget the failures of a key that waits to try again: they were of another setting."""
        if self.by_key[key].failures and not self.by_key[key].is_under_way:
            self.recorded(key)

    def put(self, key: str, row: Row, look_at: Instant | None) -> None:
        """Set the row of a key, and the time of its next look; None: at the next change."""
        self.by_key[key] = row
        self.looks.drop(key)
        if look_at is not None and self.has_solver:
            self.looks.put(key, look_at)


class PlannerState:
    """The images that all concerns follow, and the rows of each concern."""

    def __init__(self, of_queue: tuple[str, ...], paces: Mapping[str, Pace]) -> None:
        """`of_queue` names the sections of the queue's image, `paces` the concerns."""
        self.queue = GlobalImage.empty(of_queue)
        self.queue_sequence = 0
        self.regions: dict[RegionName, RegionImage] = {}
        self.sequences: dict[RegionName, int] = {}
        self.silent: dict[RegionName, bool] = {}
        """Whether a region's log is silent; a region whose log never was is missing."""
        self.rows = {name: Rows(pace) for name, pace in paces.items()}
