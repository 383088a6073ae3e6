"""Users' requests: submit, change, cancel, hold, release, requeue, set a priority. Answers are sent once the facts are durable.

Answers to queries are in components/job_queue/requests/queries.py.
"""

from collections.abc import Callable

from msgspec.structs import replace

from components.job_queue.quota.classification import against_growth
from components.job_queue.requests.admission import above_level, against_tenant, never_fits, too_many
from components.job_queue.requests.queries import UserAnswers
from components.job_queue.requests.start_queries import StartAnswers
from components.job_queue.start_estimates import estimated_start
from components.job_queue.state.auctions import settled
from components.job_queue.state.queue_state import AuctionClosed, QueueState
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.events.queue import (
    CancelRequested,
    PrioritySet,
    RequeueRequested,
    WorkloadCancelled,
    WorkloadChanged,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.fact import Event
from core.messages.base import Answer, Envelope, Message
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    ChangeWorkload,
    ExplainWorkload,
    HoldUnhandled,
    HoldWorkload,
    ListWorkloads,
    ReleaseWorkload,
    RequeueWorkload,
    SetPriority,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
)
from core.nouns.ids import RegionName, WorkloadId, submission_key
from core.nouns.limits import REASON_LENGTH_MAX
from core.nouns.reasons import Reason
from core.nouns.workload import Kind, Phase, WorkloadSpec
from core.rules.submission import (
    problems_of,
    problems_of_change,
    problems_of_priority,
    problems_of_sender,
)

HEARD_OF_USERS: tuple[type[Message], ...] = (
    SubmitWorkload,
    CancelWorkload,
    HoldWorkload,
    HoldUnhandled,
    ReleaseWorkload,
    RequeueWorkload,
    ChangeWorkload,
    SetPriority,
    ShowWorkload,
    ListWorkloads,
    ExplainWorkload,
)


class UserRequests:
    """The queue's deciders for users' requests and queries."""

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.regions = regions
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SubmitWorkload: self._submit,
            CancelWorkload: self._cancel,
            HoldWorkload: self._hold,
            HoldUnhandled: self._hold_unhandled,
            ReleaseWorkload: self._release,
            RequeueWorkload: self._requeue,
            ChangeWorkload: self._change,
            SetPriority: self._set_priority,
            **UserAnswers(regions).deciders,
            **StartAnswers(regions, self.refusal).deciders,
        }

    def _submit(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SubmitWorkload)
        workloads = state.image.workloads
        if message.key:
            known = workloads.keys.get(submission_key(message.submitter, message.key))
            if known is not None:
                return answered(Submitted(known))
        problems = problems_of_sender(message.submitter, message.key)
        if state.image.pipelines.known_as(message.submitter, message.key) is not None:
            problems += ("key: a pipeline was submitted under it",)
        refusal = self.refusal(state, message.spec, problems)
        if refusal is not None:
            return refusal
        number = workloads.submitted + 1
        workload = WorkloadId(f"w-{number}")
        start = estimated_start(state, message.spec, envelope.at)
        submitted = WorkloadSubmitted(workload, number, message.spec, message.submitter, message.key, start)
        return Decision((submitted,), (Submitted(workload),))

    def refusal(
        self, state: QueueState, spec: WorkloadSpec, problems: tuple[str, ...] = ()
    ) -> Decision | None:
        """Return the refusal of a submission with all its problems, if there are any; `problems` are those of the sender."""
        problems += problems_of(spec)
        if problems:
            return refused(Reason.INVALID, problems)
        against = against_tenant(state, spec) or never_fits(state, spec) or too_many(state, spec.tenant)
        return refused(*against) if against is not None else None

    def _cancel(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, CancelWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase == Phase.CANCELLED or row.is_cancel_requested:
            return answered(Acknowledged(message.workload))
        if row.phase.is_terminal:
            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        event: Event = (
            CancelRequested(message.workload) if row.is_active else WorkloadCancelled(message.workload)
        )
        return self._stop_auction(state, message.workload, (event,), Acknowledged(message.workload))

    def _hold(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, HoldWorkload)
        return self._set_hold(state, message.workload, message.revision, is_held=True)

    def _release(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ReleaseWorkload)
        return self._set_hold(state, message.workload, message.revision, is_held=False)

    def _set_hold(self, state: QueueState, workload: WorkloadId, revision: int, *, is_held: bool) -> Decision:
        """Hold or release a workload. A repeat is answered again; a request older than the newest revision is refused."""
        row = state.image.workloads.rows.get(workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if row.is_held == is_held and revision in (row.hold_revision, row.hold_revision - 1):
            return answered(Acknowledged(workload, row.hold_revision))
        if revision != row.hold_revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {row.hold_revision} now",))
        newer = revision + 1
        event: Event = WorkloadHeld(workload, newer) if is_held else WorkloadReleased(workload, newer)
        return self._stop_auction(state, workload, (event,), Acknowledged(workload, newer))

    def _hold_unhandled(self, state: QueueState, envelope: Envelope) -> Decision:
        """Hold a workload whose message a unit cannot handle, unless the workload is held already or has ended."""
        message = envelope.message
        assert isinstance(message, HoldUnhandled)
        row = state.image.workloads.rows.get(message.workload)
        if row is None or row.phase.is_terminal or row.is_held or row.hold_incident == message.incident:
            return NOTHING
        reason = f"{message.unit}, {message.message}: {message.error}"[:REASON_LENGTH_MAX]
        event = WorkloadHeld(message.workload, row.hold_revision + 1, reason, message.incident)
        return self._stop_auction(state, message.workload, (event,))

    def _stop_auction(
        self, state: QueueState, workload: WorkloadId, events: tuple[Event, ...], *answers: Answer
    ) -> Decision:
        """Return these events and, if the workload has an open auction, the end of that auction without an award."""
        auction = state.auctions.open.get(workload)
        if auction is None:
            return Decision(events, answers)
        told = tuple(settled(bid, has_won=False) for bid in auction.bids.values())
        return Decision((*events, AuctionClosed(workload, None)), (*answers, *told))

    def _requeue(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RequeueWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if message.epoch < row.epoch or not row.is_active or row.requeued_epoch == row.epoch:
            return answered(Acknowledged(message.workload))
        if message.epoch > row.epoch:
            return refused(Reason.INVALID, (f"epoch: it is {row.epoch} now",))
        return Decision((RequeueRequested(message.workload, row.epoch),), (Acknowledged(message.workload),))

    def _set_priority(self, state: QueueState, envelope: Envelope) -> Decision:
        """Set a priority. A repeat is answered again. An open auction goes on, and its award has the level of the auction."""
        message = envelope.message
        assert isinstance(message, SetPriority)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if row.spec.kind is Kind.SHARED:
            problem = "priority: in a shared pool weights decide; submit it with another share.weight"
            return refused(Reason.INVALID, (problem,))
        revision, problems = row.priority_revision, problems_of_priority(message.priority)
        if row.spec.priority == message.priority and message.revision in (revision, revision - 1):
            return answered(Acknowledged(message.workload, revision))
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        above = above_level(state, row.spec.tenant, message.priority)
        if above:
            return refused(Reason.ABOVE_LEVEL, tuple(above))
        if message.revision != revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {revision} now",))
        event = PrioritySet(message.workload, revision + 1, message.priority)
        return answered(Acknowledged(message.workload, revision + 1), event)

    def _change(self, state: QueueState, envelope: Envelope) -> Decision:
        """Change a workload's jobs. A repeat is answered again; a request based on outdated jobs is refused."""
        message = envelope.message
        assert isinstance(message, ChangeWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        revision = row.spec_revision
        if message.jobs == row.spec.jobs and message.revision in (revision, revision - 1):
            return answered(Acknowledged(message.workload, revision))
        problems = problems_of_change(row.spec, message.jobs)
        if message.revision != revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {revision} now", *problems))
        if problems:
            return refused(Reason.INVALID, problems)
        refusal = never_fits(state, replace(row.spec, jobs=message.jobs)) or against_growth(
            state, row, message.jobs, envelope.at
        )
        if refusal is not None:
            return refused(*refusal)
        changed = WorkloadChanged(message.workload, revision + 1, message.jobs)
        answer = Acknowledged(message.workload, revision + 1)
        return self._stop_auction(state, message.workload, (changed,), answer)
