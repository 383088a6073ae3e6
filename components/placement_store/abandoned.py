"""Abandoned attempts: the queue superseded them while this region was silent. A store that reads this ends them in any state.

Their workloads have been awarded elsewhere since, or will be. No checkpoint is recorded for them after the order to stop.
"""

from itertools import islice

from components.placement_store.state import StoreState
from core.component import Decision
from core.events.region import AttemptEnded, AwardDeclined, StopOrdered
from core.fact import Event, Note
from core.images.region import AttemptPhase, AttemptRow
from core.nouns.ids import WorkloadId
from core.nouns.limits import FORGOTTEN_AT_ONCE_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause


def note_abandoned(state: StoreState, workload: WorkloadId, epoch: int, row: AttemptRow) -> None:
    """Record a live or promised attempt as abandoned if the queue's log, read past its award, shows the attempt superseded."""
    is_alive = row.phase.is_live or row.phase is AttemptPhase.PROMISED
    if not is_alive or row.stop_cause or state.global_sequence < row.award_sequence:
        return
    if state.awards.awards.has_superseded(workload, epoch):
        state.abandoned[workload, epoch] = None


def index_abandoned(state: StoreState, event: Event | Note) -> None:
    """Drop an attempt from the abandoned ones if a fact of the region, folded by the image, stops, ends or declines it."""
    if isinstance(event, StopOrdered | AttemptEnded | AwardDeclined):
        state.abandoned.pop((event.workload, event.epoch), None)


def end_abandoned(state: StoreState) -> Decision | None:
    """Return orders to stop abandoned live attempts, and withdrawals of abandoned promises; None if there are none.

    A withdrawn promise releases its victims. At most `FORGOTTEN_AT_ONCE_MAX` attempts at a time.
    """
    events: list[Event] = []
    for workload, epoch in islice(state.abandoned, FORGOTTEN_AT_ONCE_MAX):
        row = state.image.attempts.row(workload, epoch)
        assert row is not None, (workload, epoch)
        if row.phase is AttemptPhase.PROMISED:
            events.append(AwardDeclined(workload, epoch, Reason.WITHDRAWN, row.award_sequence))
        else:
            sequence = state.global_sequence
            events.append(StopOrdered(workload, epoch, EndCause.ABANDONED, global_sequence=sequence))
    return Decision(tuple(events)) if events else None
