"""Attempts that the queue gave up while it did not hear this region: a store that reads of it ends them, whatever they do.

They have been awarded elsewhere since, or will be. Nothing that they save from then on is recorded.
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


def note_given_up(state: StoreState, workload: WorkloadId, epoch: int, row: AttemptRow) -> None:
    """Look at an attempt by what the queue's log shows of its award, read past that."""
    is_alive = row.phase.is_live or row.phase is AttemptPhase.PROMISED
    if not is_alive or row.stop_cause or state.global_sequence < row.award_sequence:
        return
    if state.awards.awards.has_superseded(workload, epoch):
        state.abandoned[workload, epoch] = None


def index_given_up(state: StoreState, event: Event | Note) -> None:
    """Follow a fact of the region that the image has folded."""
    if isinstance(event, StopOrdered | AttemptEnded | AwardDeclined):
        state.abandoned.pop((event.workload, event.epoch), None)


def ended_given_up(state: StoreState) -> Decision | None:
    """What runs is stopped; who waits for victims waits no more, and they are spared."""
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
