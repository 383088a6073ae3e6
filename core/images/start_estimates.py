"""A section of the queue's image: estimated starts of workloads, and their outcomes, from which the next bands are drawn.

A start is judged when the first gang of a workload is up. A workload that was held, changed or cancelled before that starts at
another time, or never: that is no error of the estimate, and is left out.
"""

from msgspec import Struct, field

from core.estimating.bands import Bands, StartEstimate
from core.events.queue import (
    AttemptClosed,
    CancelRequested,
    PrioritySet,
    WorkloadBound,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadSubmitted,
)
from core.fact import Fact
from core.images.base import Section
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import STARTS_JUDGED_MAX


class Awaited(Struct, array_like=True):
    """An estimate of which it is not known yet whether it was right."""

    said_at: Instant
    estimate: StartEstimate
    is_sampled: bool = False
    """Whether bands are drawn by what comes of it."""


class Starts(Section):
    """Estimates and outcomes."""

    FOLDS = {
        WorkloadSubmitted: "_submitted",
        WorkloadBound: "_bound",
        AttemptClosed: "_closed",
        WorkloadHeld: "_left_out",
        WorkloadChanged: "_left_out",
        PrioritySet: "_left_out",
        CancelRequested: "_left_out",
        WorkloadCancelled: "_left_out",
    }

    bands: Bands = field(default_factory=Bands)
    awaited: dict[WorkloadId, Awaited] = field(default_factory=dict)
    outcomes: list[int] = field(default_factory=list)
    """Of the newest starts: -1 sooner than the band, 0 inside, 1 later; the newest last."""
    judged: int = 0
    """Starts ever."""
    inside: int = 0
    """Of those, in their bands."""

    def held_share(self) -> float:
        """Of the newest, those that were inside; 0 of none."""
        return self.outcomes.count(0) / len(self.outcomes) if self.outcomes else 0.0

    def _submitted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadSubmitted)
        if event.start is not None:
            is_sampled = self.bands.said(event.start, fact.at)
            self.awaited[event.workload] = Awaited(fact.at, event.start, is_sampled)

    def _bound(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, WorkloadBound)
        awaited = self.awaited.pop(event.workload, None)
        if awaited is None:
            return
        waited = Nanoseconds(fact.at - awaited.said_at)
        outcome = self.bands.came(awaited.estimate, waited, is_sampled=awaited.is_sampled)
        self.outcomes.append(outcome)
        del self.outcomes[:-STARTS_JUDGED_MAX]
        self.judged += 1
        self.inside += outcome == 0

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptClosed)
        if event.phase.is_terminal:
            self._leave_out(event.workload)

    def _left_out(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(
            event, WorkloadHeld | WorkloadChanged | PrioritySet | CancelRequested | WorkloadCancelled
        )
        self._leave_out(event.workload)

    def _leave_out(self, workload: WorkloadId) -> None:
        awaited = self.awaited.pop(workload, None)
        if awaited is not None and awaited.is_sampled:
            self.bands.unsaid(awaited.estimate)
