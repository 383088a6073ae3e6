"""Plans of the planner, and reports of data services.

A data service repeats a report until the log shows the end; a report about an order that does not stand is ignored.
"""

from collections.abc import Callable

from components.job_queue.copies.queries import ASKED_OF_COPIES, CopyQueries
from components.job_queue.state.copy_notes import CopyMoved
from components.job_queue.state.queue_state import QueueState
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.events.copies import CopyFailed, CopyMade, DataPlanned, DatasetHashed, DropMade
from core.fact import Event
from core.messages.base import Envelope, Message
from core.messages.copies import DataPlanAnswered, ReportCopy, ReportDrop, ReportHash, SetDataPlan
from core.nouns.data import COPY_FAILURES, CopyFailure, DataBasis
from core.nouns.ids import RegionName
from core.nouns.limits import PLAN_ACTIONS_MAX
from core.nouns.reasons import Reason
from core.rules.data.copies import parts_of

HEARD_OF_COPIES: tuple[type[Message], ...] = (
    SetDataPlan,
    ReportCopy,
    ReportHash,
    ReportDrop,
    *ASKED_OF_COPIES,
)


class CopyRecords:
    """The queue's deciders for plans, reports and questions about copies."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SetDataPlan: self._plan,
            ReportCopy: self._copy,
            ReportHash: self._hash,
            ReportDrop: self._drop,
            **CopyQueries().deciders,
        }

    def _plan(self, state: QueueState, envelope: Envelope) -> Decision:
        """Record a plan that follows on the newest one, without what an operator has said of datasets since. A repeat is answered again."""
        message = envelope.message
        assert isinstance(message, SetDataPlan)
        number = state.image.copies.plan.number
        if message.number == number:
            return answered(DataPlanAnswered(number))
        if message.number != number + 1:
            return refused(Reason.SUPERSEDED, (f"number: the newest plan is {number}",))
        if len(message.actions) > PLAN_ACTIONS_MAX:
            return refused(Reason.TOO_LARGE, (f"actions: {PLAN_ACTIONS_MAX} are the most",))
        known = state.image.datasets.rows
        actions = [
            action
            for action in message.actions
            if action.dataset in known and not 0 < action.revision < known[action.dataset].said
        ]
        actions.sort(key=lambda action: -action.level)
        events: list[Event] = []
        for part in parts_of(actions):
            events.append(
                DataPlanned(
                    message.number,
                    part,
                    message.gain,
                    message.bytes,
                    message.before,
                    message.after,
                    message.sequence,
                    is_more=bool(events),
                    basis=DataBasis() if events else message.basis,
                )
            )
        return answered(DataPlanAnswered(message.number), *events)

    def _copy(self, state: QueueState, envelope: Envelope) -> Decision:
        """Record the end of a copy; note how far one is."""
        message = envelope.message
        assert isinstance(message, ReportCopy)
        order = state.image.copies.orders.get(message.copy)
        if order is None or order.target != message.region:
            return NOTHING
        if not message.is_over:
            return Decision(events=(CopyMoved(message.copy, message.moved),))
        if message.reason:
            # More or less than was measured is other content.
            is_other = message.reason == CopyFailure.SIZE_DIFFERS
            reason = CopyFailure.HASH_DIFFERS if is_other else message.reason
            return Decision(events=(_failed(state, message.copy, reason, message.moved),))
        row = state.image.datasets.rows[order.dataset]
        is_move = order.is_move and not row.is_pinned
        leaves = is_move and not order.keeps and row.home != order.target
        left = row.home if leaves else None
        made = CopyMade(
            message.copy, order.dataset, order.target, row.revision + 1, is_move, left or RegionName("")
        )
        return Decision(events=(made,))

    def _hash(self, state: QueueState, envelope: Envelope) -> Decision:
        """Record a dataset's hash. Orders for fewer bytes than there are end, and are made anew with the right number."""
        message = envelope.message
        assert isinstance(message, ReportHash)
        order = state.image.copies.orders.get(message.copy)
        if order is None or order.source != message.region or order.hash:
            return NOTHING
        if message.reason:
            return Decision(events=(_failed(state, message.copy, message.reason, 0),))
        row = state.image.datasets.rows[order.dataset]
        hashed = DatasetHashed(order.dataset, row.revision, message.region, message.hash, message.bytes)
        small = [
            CopyFailed(number, one.dataset, one.target, CopyFailure.SIZE_DIFFERS)
            for number, one in state.image.copies.orders.items()
            if one.dataset == order.dataset and one.bytes < message.bytes
        ]
        return Decision(events=(hashed, *small))

    def _drop(self, state: QueueState, envelope: Envelope) -> Decision:
        """Record that a copy is deleted."""
        message = envelope.message
        assert isinstance(message, ReportDrop)
        if not state.image.copies.drops.get(message.dataset, {}).get(message.region):
            return NOTHING
        return Decision(events=(DropMade(message.dataset, message.region),))


def _failed(state: QueueState, copy: int, reason: str, moved: int) -> CopyFailed:
    order = state.image.copies.orders[copy]
    known = reason if reason in set(COPY_FAILURES) else CopyFailure.COMMAND_FAILED
    return CopyFailed(copy, order.dataset, order.target, str(known), moved)
