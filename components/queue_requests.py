"""What users ask of the job queue: submit, cancel, hold, release, requeue, show. Each answer is told once it is durable."""

from collections.abc import Callable

from components.auctions import settled
from components.queue_state import (
    AuctionClosed,
    QueueState,
    eligible,
)
from core.component import Decision
from core.events.queue import (
    CancelRequested,
    RequeueRequested,
    WorkloadCancelled,
    WorkloadHeld,
    WorkloadReleased,
    WorkloadSubmitted,
)
from core.fact import Event
from core.images.queue import WorkloadRow, key_of
from core.messages.base import Answer, Envelope, Message, Refused
from core.messages.queue import (
    Acknowledged,
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    RequeueWorkload,
    ShowWorkload,
    Submitted,
    SubmitWorkload,
    WorkloadShown,
)
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.reasons import Reason, sentence
from core.nouns.workload import Phase, WorkloadSpec
from core.rules.submission import could_fit, problems_of


class UserRequests:
    """The queue's deciders for users' messages."""

    def __init__(self, regions: tuple[RegionName, ...]) -> None:
        self.regions = regions
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            SubmitWorkload: self._submit,
            CancelWorkload: self._cancel,
            HoldWorkload: self._hold,
            ReleaseWorkload: self._release,
            RequeueWorkload: self._requeue,
            ShowWorkload: self._show,
        }

    def _submit(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, SubmitWorkload)
        workloads = state.image.workloads
        if message.key:
            known = workloads.keys.get(key_of(message.submitter, message.key))
            if known is not None:
                return _answered(Submitted(known))
        problems = problems_of(message.spec)
        if problems:
            return _refused(Reason.INVALID, problems)
        refusal = self._never(state, message.spec)
        if refusal is not None:
            return _refused(*refusal)
        number = workloads.submitted + 1
        workload = WorkloadId(f"w-{number}")
        submitted = WorkloadSubmitted(workload, number, message.spec, message.submitter, message.key)
        return Decision((submitted,), (Submitted(workload),))

    def _never(self, state: QueueState, spec: WorkloadSpec) -> tuple[Reason, tuple[str, ...]] | None:
        """Refused for good only when every region that it may run in is known, has nodes, and could not hold it."""
        unknown = [region for region in spec.regions if region not in self.regions]
        if unknown:
            return Reason.UNKNOWN_REGION, tuple(
                f"regions: {region} is not in the fleet" for region in unknown
            )
        for region in spec.regions or self.regions:
            image = state.regions[region]
            if image is None or not image.hardware.rows or could_fit(spec, image.hardware):
                return None
        problems = tuple(
            f"jobs[{index}]: {job.tasks} tasks of {job.need.gpu_milli} GPU milli on {job.gpu_type}"
            for index, job in enumerate(spec.jobs)
        )
        return Reason.NEVER_FITS, problems

    def _cancel(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, CancelWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase == Phase.CANCELLED or row.is_cancel_requested:
            return _answered(Acknowledged(message.workload))
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        event: Event = (
            CancelRequested(message.workload) if row.is_standing else WorkloadCancelled(message.workload)
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
        """A repeat finds what it asked for; what was said before a newer word is refused."""
        row = state.image.workloads.rows.get(workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if row.is_held == is_held and revision in (row.hold_revision, row.hold_revision - 1):
            return _answered(Acknowledged(workload, row.hold_revision))
        if revision != row.hold_revision:
            return _refused(Reason.SUPERSEDED, (f"revision: it is {row.hold_revision} now",))
        newer = revision + 1
        event: Event = WorkloadHeld(workload, newer) if is_held else WorkloadReleased(workload, newer)
        return self._stop_auction(state, workload, (event,), Acknowledged(workload, newer))

    def _stop_auction(
        self, state: QueueState, workload: WorkloadId, events: tuple[Event, ...], answer: Answer
    ) -> Decision:
        """What is no longer to be awarded has no auction."""
        auction = state.house.open.get(workload)
        if auction is None:
            return Decision(events, (answer,))
        told = tuple(settled(bid, has_won=False) for bid in auction.ranked())
        return Decision((*events, AuctionClosed(workload, None)), (answer, *told))

    def _requeue(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RequeueWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        if row.phase.is_terminal:
            return _refused(Reason.ALREADY_ENDED, (f"it is {row.phase}",))
        if message.epoch < row.epoch or not row.is_standing or row.requeued_epoch == row.epoch:
            return _answered(Acknowledged(message.workload))
        if message.epoch > row.epoch:
            return _refused(Reason.INVALID, (f"epoch: it is {row.epoch} now",))
        return Decision((RequeueRequested(message.workload, row.epoch),), (Acknowledged(message.workload),))

    def _show(self, state: QueueState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ShowWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return _refused(Reason.UNKNOWN_WORKLOAD)
        reason = self._reason(state, message.workload, row)
        shown = WorkloadShown(
            workload=message.workload,
            name=row.spec.name,
            phase=row.phase,
            reason=reason or "",
            sentence=sentence(reason) if reason else "",
            epoch=row.epoch,
            region=row.region,
            hold_revision=row.hold_revision,
            is_held=row.is_held,
        )
        return _answered(shown)

    def _reason(self, state: QueueState, workload: WorkloadId, row: WorkloadRow) -> Reason | None:
        """Why it does not run, if it does not."""
        if row.is_standing:
            is_unreachable = row.phase == Phase.AWARDED and state.silent.get(row.region, True)
            return Reason.REGION_UNREACHABLE if is_unreachable else None
        if row.phase != Phase.PENDING:
            return None
        if row.is_held:
            return Reason.HELD
        asked = eligible(state, row.spec)
        refused = state.house.refused_by(row.spec.shape)
        if asked and any(region not in refused for region in asked):
            return Reason.WAITING_TURN
        reasons = [refused[region] for region in asked if region in refused]
        if not reasons:
            is_heard = all(not state.silent.get(region, True) for region in row.spec.regions or self.regions)
            return Reason.NO_SUCH_HARDWARE if is_heard else Reason.REGION_UNREACHABLE
        return Reason(Reason.NO_CAPACITY if Reason.NO_CAPACITY in reasons else reasons[0])


def _answered(answer: Answer) -> Decision:
    return Decision(messages=(answer,))


def _refused(reason: Reason, problems: tuple[str, ...] = ()) -> Decision:
    return Decision(messages=(Refused(reason, sentence(reason), problems),))
