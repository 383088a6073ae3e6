"""What the job queue notes about starts that it might promise: who is blocked, whom it asks for, and when to look at what."""

from core.agenda import Agenda
from core.fact import Note
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import PROSPECT_LOOK, PROSPECT_RETRY, RESERVE_AFTER


class FoundBlocked(Note, frozen=True):
    """Every region that was asked lacks the room."""

    workload: WorkloadId


class ProspectsWanted(Note, frozen=True):
    """It was looked for whom a start could be promised; for these, regions are asked what they could promise."""

    workloads: tuple[WorkloadId, ...] = ()


class NoProspect(Note, frozen=True):
    """No region could promise anything."""

    workload: WorkloadId
    is_barred: bool = False
    """Only what is reserved for others is in the way."""


class PromiseSeen(Note, frozen=True):
    """A promise's next step was taken; it is looked at again then, if at all."""

    workload: WorkloadId
    again_at: Instant | None


NOTES = (FoundBlocked, ProspectsWanted, NoProspect, PromiseSeen)


class ReservationCandidates:
    """All of it may be forgotten: who is blocked is found so again, and promises are in the image."""

    def __init__(self) -> None:
        self.blocked: dict[WorkloadId, Instant] = {}
        """Since when."""
        self.wanted: dict[WorkloadId, None] = {}
        """For these, whoever abstains says from when on they could start."""
        self.barred: dict[WorkloadId, None] = {}
        """For these only what is reserved for others is in the way: nobody behind them is promised a start on the same hardware."""
        self.tried: dict[WorkloadId, Instant] = {}
        """Until when these are not asked for again."""
        self.look_at: Instant | None = None
        self.due: Agenda[WorkloadId] = Agenda()
        """When each standing promise is looked at."""

    def note(self, note: Note, at: Instant) -> None:
        """One of this module's."""
        match note:
            case FoundBlocked(workload):
                self.blocked.setdefault(workload, at)
                if self.look_at is None:
                    self.look_at = after(at, RESERVE_AFTER)
            case ProspectsWanted(workloads):
                self.wanted.update(dict.fromkeys(workloads))
                self.tried.update(dict.fromkeys(workloads, after(at, PROSPECT_RETRY)))
                self.look_at = after(at, PROSPECT_LOOK) if self.blocked else None
            case NoProspect(workload, is_barred):
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
        """What it was promised was not kept. It has waited for long enough; but each time it happens to it, it waits a little longer,
        for whoever cannot agree on a start would go on about it without an end.
        """
        self.blocked[workload] = Instant(at - RESERVE_AFTER)
        self.tried[workload] = after(at, Nanoseconds(min(PROSPECT_RETRY, revision * PROSPECT_LOOK)))
        self.look_at = earliest(self.look_at, self.tried[workload])

    def forget(self, workload: WorkloadId) -> None:
        """It is awarded, promised a start, or not asked for any more."""
        self.blocked.pop(workload, None)
        self.wanted.pop(workload, None)
        self.barred.pop(workload, None)
        self.tried.pop(workload, None)
