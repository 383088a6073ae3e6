"""Moves of running workloads from one region to another. Each step of a move is a fact.

    a user requests a move             the new region is asked for capacity; without capacity the move is refused
    the new region bids                MovePlanned with the move's cost, and StartPromised in the new region
    the log there has the reservation  MoveBegun: task control asks the controller, and stops the old attempt
    the old attempt has closed         the workload waits for its checkpoint; then the new region alone is asked
    the workload runs there            the move is over
    the reservation ends before        MoveEnded: a running attempt stays, a stopped workload may start anywhere

An attempt is stopped only after the new region has reserved capacity for it, and a move preempts no other work.
"""

from collections.abc import Callable

from components.job_queue.start_estimates import run_time_of
from components.job_queue.state.auctions import settled
from components.job_queue.state.queue_state import (
    MoveArrived,
    MoveAsked,
    MoveDropped,
    MoveHeard,
    MoveLooked,
    MoveRefused,
    QueueState,
    against,
    eligible,
)
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.queue import AttemptClosed, WorkloadAwarded
from core.events.starts import StartPromised, StartPromiseEnded
from core.fact import Event, Fact, Note
from core.images.queue import WorkloadRow
from core.messages.base import Envelope, Message
from core.messages.broker import SolicitBid
from core.messages.moves import MoveAnswered, MoveWorkload
from core.messages.queue import Abstention, Bid
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds, after
from core.nouns.limits import (
    AUCTION_SPAN_MAX,
    MOVE_ANSWER_HOLDS,
    MOVE_DEADLINE,
    MOVES_MAX,
    NAME_LENGTH_MAX,
    START_ALLOWANCE,
)
from core.nouns.moving import MoveCost, PlannedMove
from core.nouns.reasons import Reason
from core.nouns.starts import StartOver
from core.nouns.workload import Kind, Phase
from core.rules.moving import cost_of
from core.rules.never_fits import could_fit
from core.rules.quota import narrowed

HEARD_OF_MOVES: tuple[type[Message], ...] = (MoveWorkload,)
Against = tuple[Reason, tuple[str, ...]]
OF_A_MOVE = "move."
"""Prefix of the name of an auction in which one region is asked for capacity for a move."""


class Moving:
    """The queue's deciders and folds for moves of workloads."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[QueueState, Envelope], Decision]] = {
            MoveWorkload: self._asked
        }

    # Folding.

    def index_all(self, state: QueueState, at: Instant) -> None:
        """Schedule a look at every move."""
        for workload, row in state.image.workloads.rows.items():
            if row.move is not None:
                state.moves_due.put(workload, at)

    def hear(self, state: QueueState, fact: Fact) -> None:
        """Follow a fact of the queue after the image has folded the fact."""
        workload = getattr(fact.event, "workload", None)
        row = state.image.workloads.rows.get(workload) if workload is not None else None
        if workload is None or row is None:
            return
        if row.move is not None:
            state.moves_due.put(workload, fact.at)
        else:
            state.moves_due.drop(workload)
        if isinstance(fact.event, MovePlanned | AttemptClosed | WorkloadAwarded):
            state.moves_asked.pop(workload, None)
            state.moves_refused.pop(workload, None)
        if isinstance(fact.event, MoveEnded):
            state.auctions.forget_memos()
            state.open_at = fact.at

    def hear_region(self, state: QueueState, fact: Fact) -> None:
        """Follow a fact of a region, which may have reserved the capacity for a move."""
        workload = getattr(fact.event, "workload", None)
        row = state.image.workloads.rows.get(workload) if workload is not None else None
        if workload is not None and row is not None and row.move is not None:
            state.moves_due.put(workload, fact.heard_at)

    def note(self, state: QueueState, fact: Fact) -> bool:
        """Fold a note about moves. Return whether the note was one."""
        match fact.event:
            case MoveAsked(workload):
                state.moves_asked[workload] = fact.event
            case MoveHeard(workload, why):
                state.moves_asked.pop(workload, None)
                state.moves_refused[workload] = why
            case MoveDropped(workload):
                state.moves_asked.pop(workload, None)
            case MoveLooked(workload, again_at):
                if again_at is None:
                    state.moves_due.drop(workload)
                else:
                    state.moves_due.put(workload, again_at)
            case MoveArrived():
                state.auctions.forget_memos()
                state.open_at = fact.at
            case _:
                return False
        return True

    # Requests of users.

    def _asked(self, state: QueueState, envelope: Envelope) -> Decision:
        """Decide a request to move. A repeat is answered again; a request to stay calls off a move not yet begun."""
        message = envelope.message
        assert isinstance(message, MoveWorkload)
        row = state.image.workloads.rows.get(message.workload)
        if row is None:
            return refused(Reason.UNKNOWN_WORKLOAD)
        so = _so_already(row, message)
        if so is not None:
            return answered(so)
        if message.revision != row.move_revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {row.move_revision} now",))
        if row.is_active and message.region == row.region and message.epoch == row.epoch:
            stayed = _stayed(state, message.workload, row)
            if stayed is not None:
                return stayed
        no = _why_not(state, message, row)
        if no is not None:
            return refused(*no)
        told = run_time_of(state, message.workload, envelope.at)
        cost = cost_of(row.spec, told.left if told is not None else None)
        if not cost.pays and not message.is_forced:
            left, pause = cost.left // SECOND, cost.pause // SECOND
            text = f"it would run for {left} s, and the move pauses it for {pause} s"
            return refused(Reason.MOVE_DOES_NOT_PAY, (text,))
        return self._ask(state, message, row, cost, envelope.at)

    def _ask(
        self, state: QueueState, message: MoveWorkload, row: WorkloadRow, cost: MoveCost, now: Instant
    ) -> Decision:
        """Ask the region for capacity, unless the same request is open or was refused within `MOVE_ANSWER_HOLDS`."""
        why = state.moves_refused.get(message.workload)
        if why is not None and why.region == message.region and why.until > now:
            return refused(why.reason, why.problems)
        known = state.moves_asked.get(message.workload)
        answer = MoveAnswered(message.workload, message.region, 0, cost)
        if known is not None and known.region == message.region and known.until > now:
            return answered(answer)
        auction = f"{OF_A_MOVE}{state.image.regions.term}.{now}"
        until = after(now, AUCTION_SPAN_MAX)
        asked = MoveAsked(message.workload, message.region, auction, row.epoch, cost, until, message.by)
        return Decision((asked,), (answer, _solicited(message.region, message.workload, auction, row)))

    # Answers of regions.

    def bid(self, state: QueueState, bid: Bid, now: Instant) -> Decision | None:
        """Plan the move and promise the start that a region has bid for, if the bid is for a move."""
        if not bid.auction.startswith(OF_A_MOVE):
            return None
        told = settled(bid, has_won=False)
        asked = state.moves_asked.get(bid.workload)
        row = state.image.workloads.rows.get(bid.workload)
        if asked is None or row is None or not _counts(asked, bid, row, now) or _are_too_many(state):
            return Decision(messages=(told,))
        planned = MovePlanned(
            bid.workload, row.move_revision + 1, row.epoch, bid.region, asked.cost, asked.by
        )
        # The longest time until the old attempt has stopped and its checkpoint has arrived: the region keeps the
        # capacity for that time and `START_ALLOWANCE`.
        keeps = Nanoseconds(MOVE_DEADLINE + asked.cost.pause)
        promised = StartPromised(
            bid.workload,
            row.start_revision + 1,
            bid.region,
            Nanoseconds(keeps + START_ALLOWANCE),
            keeps,
            bid.spreads,
            row.level,
            is_move=True,
        )
        return Decision((planned, promised), (told,))

    def abstention(self, state: QueueState, said: Abstention, now: Instant) -> Decision | None:
        """Note that a region has no capacity for a move, if the abstention is about a move."""
        if not said.auction.startswith(OF_A_MOVE):
            return None
        asked = state.moves_asked.get(said.workload)
        if asked is None or (asked.auction, asked.region) != (said.auction, said.region):
            return NOTHING
        problems = (f"{said.region}: {said.missing_gpu_milli / 1000:g} GPUs must come free there first",)
        told = problems if said.missing_gpu_milli else ()
        why = MoveRefused(said.region, Reason(said.reason), told, after(now, MOVE_ANSWER_HOLDS))
        return Decision(events=(MoveHeard(said.workload, why),))

    # Time.

    def woken(self, state: QueueState, now: Instant) -> Decision:
        """Return the next step of each move that is due for a look."""
        passed = state.moves_due.passed(now)
        if not passed:
            return NOTHING
        events: list[Event | Note] = []
        for workload in passed:
            more, again_at = _step(state, workload, now)
            events += [MoveLooked(workload, again_at), *more]
        return Decision(tuple(events))


def _so_already(row: WorkloadRow, message: MoveWorkload) -> MoveAnswered | None:
    """Return the answer to a repeated request, if the move was planned or has arrived already."""
    move, workload = row.move, message.workload
    is_newer = message.revision == row.move_revision - 1
    if move is not None and is_newer and (move.epoch, move.region) == (message.epoch, message.region):
        return MoveAnswered(workload, move.region, move.revision, move.cost)
    is_there = row.is_active and row.region == message.region
    if is_there and move is None and row.epoch > message.epoch and is_newer:
        return MoveAnswered(workload, row.region, row.move_revision, cost_of(row.spec, None))
    return None


def _stayed(state: QueueState, workload: WorkloadId, row: WorkloadRow) -> Decision | None:
    """Return the decision on a request to stay, which calls off a requested or planned move that has not begun.

    Once it moved, or a move of it was called off, nobody can tell a repeat of such a request from a new one: both
    are answered alike. None: there is nothing to call off.
    """
    move, cost = row.move, cost_of(row.spec, None)
    answer = MoveAnswered(workload, row.region, max(1, row.move_revision), cost)
    if move is not None and not move.is_begun:
        return Decision(_ended(state, workload, move, StartOver.GIVEN_UP), (answer,))
    if move is None and workload in state.moves_asked:
        return Decision((MoveDropped(workload),), (answer,))
    return answered(answer) if move is None and row.move_revision > 0 else None


def _counts(asked: MoveAsked, bid: Bid, row: WorkloadRow, now: Instant) -> bool:
    """Return whether a bid answers the open request in time, without victims, while the same attempt still runs."""
    is_meant = (asked.auction, asked.region) == (bid.auction, bid.region) and asked.until > now
    runs_on = row.phase == Phase.RUNNING and row.epoch == asked.epoch and not row.is_cancel_requested
    return is_meant and runs_on and row.move is None and not bid.victims


def _are_too_many(state: QueueState) -> bool:
    """Return whether `MOVES_MAX` moves are under way."""
    return sum(row.is_move for row in state.image.start_promises.rows.values()) >= MOVES_MAX


def _step(
    state: QueueState, workload: WorkloadId, now: Instant
) -> tuple[tuple[Event | Note, ...], Instant | None]:
    """Return the events of a move's next step, and the time of the next look; None: at the next change."""
    row = state.image.workloads.rows.get(workload)
    move = row.move if row is not None else None
    if row is None or move is None or (row.is_active and row.region == move.region):
        return (), None
    promise = state.image.start_promises.rows.get(workload)
    if promise is None or not promise.is_move:
        why = state.image.start_promises.broken.get(workload, StartOver.GIVEN_UP)
        return (MoveEnded(workload, move.revision, why),), None
    if row.is_active:
        image = state.regions.get(move.region)
        kept = image.starts.rows.get(workload) if image is not None else None
        if not move.is_begun and kept is not None and kept.revision == promise.revision:
            begun = MoveBegun(workload, move.revision, move.epoch, MOVE_DEADLINE, move.region, kept.sequence)
            return (begun,), None
        return (), None
    if move.arrives_at > now:
        return (), Instant(move.arrives_at)
    return (MoveArrived(workload),), None


def _ended(state: QueueState, workload: WorkloadId, move: PlannedMove, why: StartOver) -> tuple[Event, ...]:
    """Return the facts that end a move and the move's reservation."""
    promise = state.image.start_promises.rows.get(workload)
    ended: list[Event] = []
    if promise is not None and promise.is_move:
        ended.append(StartPromiseEnded(workload, promise.revision, why))
    return (*ended, MoveEnded(workload, move.revision, why))


def _why_not(state: QueueState, message: MoveWorkload, row: WorkloadRow) -> Against | None:
    """Return the reason against a move that holds with any amount of free capacity, if there is one."""
    region, spec = message.region, row.spec
    if region not in state.regions:
        return Reason.UNKNOWN_REGION, (f"region: {region} is not in the fleet",)
    if len(message.by) > NAME_LENGTH_MAX:
        return Reason.INVALID, (f"by: {NAME_LENGTH_MAX} characters are the most",)
    if row.phase.is_terminal:
        return Reason.ALREADY_ENDED, (f"it is {row.phase}",)
    if row.move is not None:
        return Reason.MOVES_ALREADY, (f"it moves to {row.move.region}",)
    if row.phase != Phase.RUNNING or row.epoch != message.epoch or row.is_cancel_requested:
        return Reason.NOT_RUNNING, (f"it is {row.phase}, attempt {row.epoch}",)
    if row.region == region:
        return Reason.ALREADY_THERE, ()
    if _are_too_many(state):
        return Reason.MOVES_FULL, (f"{MOVES_MAX} are on their way",)
    if spec.kind is Kind.SHARED:
        return Reason.NOT_ALLOWED, ("in a shared pool rounds decide where it runs",)
    if spec.kind == Kind.SERVICE:
        return Reason.NOT_ALLOWED, ("the tasks of a service stand alone, and are placed with their region",)
    if spec.regions and region not in spec.regions:
        return Reason.REGION_EXCLUDED, (f"it names {', '.join(spec.regions)}",)
    no = against(state, region, spec, row.level)
    if no is not None:
        missing = state.image.datasets.missing_in(region, spec.data)
        return no, (f"{region} lacks {', '.join(missing)}",) if missing else ()
    image = state.regions[region]
    if image is None or state.silent.get(region, True):
        return Reason.REGION_UNREACHABLE, ()
    if not could_fit(spec, image.hardware):
        return Reason.NO_SUCH_HARDWARE, (f"{region} could not hold it even if nothing else ran there",)
    return None


def regions_for(state: QueueState, row: WorkloadRow, level: int, now: Instant) -> tuple[RegionName, ...]:
    """Return the regions that may be asked for a pending workload.

    A moving workload may run only in its new region, and only once its checkpoint has arrived there; one of a shared pool only where it is
    picked.
    """
    found = eligible(state, row.spec, level)
    if row.pick is not None:
        return tuple(region for region in found if region == row.pick.region)
    if row.move is None:
        return found
    return tuple(region for region in found if region == row.move.region and row.move.arrives_at <= now)


def _solicited(region: RegionName, workload: WorkloadId, auction: str, row: WorkloadRow) -> SolicitBid:
    """Return the request for capacity for a move: without victims, because a move preempts no other work."""
    spec = row.spec
    return SolicitBid(
        region,
        workload,
        auction,
        narrowed(spec.jobs, row.types),
        row.level,
        spec.kind,
        spec.tenant,
        row.is_healing,
        spec.max_duration,
        spec.grace,
        spares_all=True,
        held_for=AUCTION_SPAN_MAX,
    )
