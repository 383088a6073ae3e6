"""Notes about reservations that the queue may make: blocked workloads, requests for earliest starts, and deadlines."""

from core.agenda import Agenda
from core.fact import Note
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import PROSPECT_LOOK, PROSPECT_RETRY, RESERVE_AFTER


class FoundBlocked(Note, frozen=True):
    """No region bid for a workload, and at least one lacked the capacity."""

    workload: WorkloadId


class EarliestStartsWanted(Note, frozen=True):
    """Candidates were searched; regions are asked for an earliest start of these."""

    workloads: tuple[WorkloadId, ...] = ()


class NoEarliestStart(Note, frozen=True):
    """No region could promise a start."""

    workload: WorkloadId
    is_barred: bool = False
    """True if other reservations prevent a promise, and not work without a guaranteed end."""


class PromiseSeen(Note, frozen=True):
    """A promise's next step was taken; the next look is due at `again_at`, or at the next change."""

    workload: WorkloadId
    again_at: Instant | None


NOTES = (FoundBlocked, EarliestStartsWanted, NoEarliestStart, PromiseSeen)


class ReservationCandidates:
    """Workloads that may get a reservation. All may be lost: blocked workloads are found again, and promises are in the image."""

    def __init__(self) -> None:
        self.blocked: dict[WorkloadId, Instant] = {}
        """The time since which each workload is blocked."""
        self.wanted: dict[WorkloadId, None] = {}
        """Workloads for which abstaining regions report an earliest start."""
        self.barred: dict[WorkloadId, None] = {}
        """Workloads that only other reservations prevent from a promise; no workload behind is promised a start on the same hardware."""
        self.tried: dict[WorkloadId, Instant] = {}
        """End of the pause before a workload is tried again."""
        self.look_at: Instant | None = None
        self.due: Agenda[WorkloadId] = Agenda()
        """Time of the next look at each promise."""

    def note(self, note: Note, at: Instant) -> None:
        """Fold one of this module's notes."""
        match note:
            case FoundBlocked(workload):
                self.blocked.setdefault(workload, at)
                if self.look_at is None:
                    self.look_at = after(at, RESERVE_AFTER)
            case EarliestStartsWanted(workloads):
                self.wanted.update(dict.fromkeys(workloads))
                self.tried.update(dict.fromkeys(workloads, after(at, PROSPECT_RETRY)))
                self.look_at = after(at, PROSPECT_LOOK) if self.blocked else None
            case NoEarliestStart(workload, is_barred):
                self.wanted.pop(workload, None)
                if is_barred:
                    self.barred[workload] = None
                else:
                    self.barred.pop(workload, None)
            case PromiseSeen(workload, again_at):
                if again_at is None:
                    self.due.drop(workload)
                else:
                    self.due.put(workload, again_at)

    def blocked_again(self, workload: WorkloadId, revision: int, at: Instant) -> None:
        """Record that a promise was not kept: the next is tried after a pause, without another wait of `RESERVE_AFTER`.

        The pause is `PROSPECT_LOOK` for each promise so far, at most `PROSPECT_RETRY`, because a queue and a region that never
        agree on a start would otherwise make promises at every look.
        """
        self.blocked[workload] = Instant(at - RESERVE_AFTER)
        self.tried[workload] = after(at, Nanoseconds(min(PROSPECT_RETRY, revision * PROSPECT_LOOK)))
        self.look_at = earliest(self.look_at, self.tried[workload])

    def forget(self, workload: WorkloadId) -> None:
        """Drop a workload that is awarded, is promised a start, or has left the order."""
        self.blocked.pop(workload, None)
        self.wanted.pop(workload, None)
        self.barred.pop(workload, None)
        self.tried.pop(workload, None)
