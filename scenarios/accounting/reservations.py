"""What a run's witness knows of promised starts: how many were shown to anybody, and what came of each.

A promise is shown once its region has reserved it. It is kept if its workload was granted its capacity, wherever, by the promised
start; it is replaced if it ended before that with a reason of which nobody in the plane is the cause: a node that was lost or
closed, or work of a higher level. All else that its user did not want is broken, whatever the plane said of it.
"""

from msgspec import Struct

from core.events.queue import CancelRequested, WorkloadCancelled, WorkloadChanged, WorkloadHeld
from core.events.region import ClaimGranted
from core.events.starts import StartPromised, StartPromiseEnded, StartReserved
from core.fact import Fact
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND
from core.nouns.starts import StartOver

NOT_THE_PLANES = (StartOver.DISPLACED, StartOver.NODE_CLOSED)


class Shown(Struct):
    """One promise that waits for its outcome."""

    revision: int
    due: float
    """The promised start, in the witness' seconds."""
    is_reserved: bool = False


class KeptStarts:
    """Told of each fact, in the order of its log."""

    def __init__(self) -> None:
        self._open: dict[WorkloadId, Shown] = {}
        self.promised = self.kept = self.broken = self.replaced = 0
        self.early_seconds: list[float] = []
        """Of each that was kept, how much before its promised start."""

    def take(self, fact: Fact, at: float) -> None:
        """A fact that became durable then."""
        match fact.event:
            case StartPromised(workload=workload, revision=revision, start_in=start_in):
                self._settle(workload, at)
                self._open[workload] = Shown(revision, at + start_in / SECOND)
            case StartReserved(workload=workload, revision=revision):
                shown = self._open.get(workload)
                if shown is not None and shown.revision == revision and not shown.is_reserved:
                    shown.is_reserved = True
                    self.promised += 1
            case ClaimGranted(workload=workload):
                shown = self._open.pop(workload, None)
                if shown is not None and shown.is_reserved:
                    self.early_seconds.append(shown.due - at)
                    self.kept += at <= shown.due
                    self.broken += at > shown.due
            case StartPromiseEnded(workload=workload, reason=reason):
                self._settle(workload, at, is_excused=reason in NOT_THE_PLANES)
            case (
                CancelRequested(workload=workload)
                | WorkloadCancelled(workload=workload)
                | WorkloadHeld(workload=workload)
                | WorkloadChanged(workload=workload)
            ):
                shown = self._open.pop(workload, None)
                if shown is not None and shown.is_reserved and at > shown.due:
                    self.broken += 1

    def _settle(self, workload: WorkloadId, at: float, *, is_excused: bool = False) -> None:
        shown = self._open.pop(workload, None)
        if shown is None or not shown.is_reserved:
            return
        if is_excused and at <= shown.due:
            self.replaced += 1
        else:
            self.broken += 1

    def figures(self, at: float) -> dict[str, float]:
        """What it can say of a run that ends then (scenarios/schema/expectations.py)."""
        overdue = sum(shown.is_reserved and at > shown.due for shown in self._open.values())
        return {
            "promises": float(self.promised),
            "promises_kept": float(self.kept),
            "promises_replaced": float(self.replaced),
            "promises_broken": float(self.broken + overdue),
        }
