"""A region's task control: operations on tasks begin with their application's consent or at a deadline (Twine §2.4-2.5).

The component keeps no log. Operations that the region's image calls for (components/task_control/operations.py) are requested from
the store. The controller that must agree is asked repeatedly (components/task_control/requests.py). Operations that were
acknowledged, or have reached their deadline, are proposed to the store as ready to begin. The store judges each message by its own
log and clock, so a repeated, early or outdated one has no effect. The broker carries out operations that have begun.

    asked       the controller is asked; without a controller, the job's limits decide
    acked       begun, if need be after a window or checkpoint; without such a wait, asked again after `ACK_LEASE`
    overdue     begun without consent, if involuntary
    begun       marked as stuck after `STUCK_SPAN`
    moot        withdrawn: the drain was lifted, the maintenance cancelled, the promise ended
"""

from collections.abc import Callable, Iterator

from components.task_control.closures import lift, next_phase
from components.task_control.operations import closing_of, is_moot, operations_wanted
from components.task_control.requests import request_of, says_something
from components.task_control.state import (
    SECTIONS,
    Asked,
    AskedRow,
    Attended,
    ControllerHeard,
    ControllerKey,
    ControllerRow,
    ControlState,
    Watched,
)
from core.agenda import Agenda
from core.component import NOTHING, Decision, Follow, ImageAdopted, Images
from core.events.control import (
    ClaimRevised,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
    ScopeJoined,
)
from core.events.moves import MoveBegun
from core.events.region import AttemptEnded, AwardDeclined, ClaimPromised, NodesReturned, PromiseRevised
from core.events.sharing import RoundBegun
from core.events.starts import StartUnreserved
from core.fact import NO_LOG, Fact, Note
from core.images import GlobalImage, RegionImage
from core.images.control import AttemptControl
from core.messages.base import Envelope, Message, Woken
from core.messages.control import (
    BeginOperations,
    ControllerShown,
    ControllersShown,
    ExpireAcks,
    FinishOperations,
    ForgetControl,
    MarkStuck,
    RecordAnswer,
    ShowControllers,
    TaskControlResponse,
)
from core.nouns.ids import GLOBAL_LOG, AttemptKey, LogName, RegionName, TenantName, WorkloadId, region_log
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import (
    ACK_LEASE,
    COMMAND_SAY_AGAIN,
    CONTROL_ASK_AGAIN,
    CONTROL_RETENTION,
    CONTROL_SAY_AGAIN,
    POOLED_TOGETHER,
    STUCK_SPAN,
)
from core.nouns.operation import Answer, BegunBy, OperationPhase, Outcome
from core.nouns.placement import numbers_in
from core.rules.operations import counts, is_overdue, is_stale, may_begin, within_limits
from core.rules.preemption import why_no_offer


class TaskControl:
    """The task control of one region."""

    keeps: LogName | None = None
    hears: tuple[type[Message], ...] = (TaskControlResponse, ShowControllers)

    def __init__(self, region: RegionName) -> None:
        self.region = region
        self.name = f"control.{region}"
        self.noun = "control"
        self.scope = (region,)
        self.follows = (
            Follow(region_log(region), SECTIONS),
            Follow(GLOBAL_LOG, ("awards",), is_required=False),
        )
        self._deciders: dict[type[Message], Callable[[ControlState, Envelope], Decision]] = {
            Woken: self._woken,
            TaskControlResponse: self._response,
            ShowControllers: self._show,
        }

    def initial(self, images: Images) -> ControlState:
        """Return the state from the followed images, with every attempt and every maintenance due at once."""
        state = ControlState(images.at)
        for image, _ in images.followed.values():
            self._adopt(state, image, images.at)
        return state

    def due(self, state: ControlState) -> Instant | None:
        """Return when the next attempt, maintenance or drain is to be examined."""
        return earliest(state.attempts_due.due(), state.maintenance_due.due())

    def decide(self, state: ControlState, envelope: Envelope) -> Decision:
        """Return the messages that the image calls for, or the effects of a controller's answer."""
        decider = self._deciders.get(type(envelope.message))
        return decider(state, envelope) if decider else NOTHING

    # Folding.

    def evolve(self, state: ControlState, fact: Fact) -> ControlState:
        """Fold a fact of the region or of the queue, or a note."""
        if fact.log == GLOBAL_LOG:
            state.awards.fold(fact)
            for key in self._about(state, fact):
                state.attempts_due.put(key, fact.heard_at)
        elif fact.log != NO_LOG:
            self._fold_region(state, fact)
        else:
            self._evolve_note(state, fact)
        return state

    def _about(self, state: ControlState, fact: Fact) -> Iterator[AttemptKey]:
        """Yield the attempts that a fact of the queue is about."""
        event, awards = fact.event, state.awards.awards.rows
        workload = getattr(event, "workload", WorkloadId(""))
        if isinstance(event, MoveBegun):
            yield workload, event.epoch
        elif isinstance(event, RoundBegun):
            yield from ((job, awards[job].epoch) for job in event.leaves if job in awards)
        else:
            yield from ((workload, epoch) for epoch in state.image.control.rows.get(workload, ()))

    def _fold_region(self, state: ControlState, fact: Fact) -> None:
        now, event = fact.heard_at, fact.event
        state.ahead = Nanoseconds(max(state.ahead, fact.at - now))
        state.image.fold(fact)
        match event:
            case MaintenancePlanned(maintenance=name) | MaintenanceMoved(maintenance=name):
                state.maintenance_due.put(name, now)
                self._look_at_drains(state, now)
            case AttemptEnded() | ClaimRevised() | NodesReturned() | StartUnreserved():
                self._look_at_drains(state, now)
            case ClaimPromised() | PromiseRevised():
                claim = state.image.capacity.promise(event.workload, event.epoch)
                for victim in claim.victims if claim is not None else ():
                    state.attempts_due.put(victim, now)
                self._look_at_all_rows(state, now)
            case AwardDeclined():
                self._look_at_drains(state, now)
                self._look_at_all_rows(state, now)
            case NodesClosed(nodes=nodes) | NodesOpened(nodes=nodes) | ScopeJoined(nodes=nodes):
                self._look_at_drains(state, now)
                state.closing = closing_of(state.image)
                self._look_at_all_on(state, set(numbers_in(nodes)), now)
        workload, epoch = getattr(event, "workload", None), getattr(event, "epoch", 0)
        if workload is None:
            self._look_at_all_rows(state, now)
        elif isinstance(event, ClaimRevised):
            pass  # A new run of a task calls for no operation before the task is up or fails.
        elif state.image.control.spec_of(workload, epoch) is not None:
            state.attempts_due.put((workload, epoch), now)
        elif isinstance(event, AttemptEnded):
            state.attempts_due.drop((workload, epoch))
        if workload is not None and state.image.control.row(workload, epoch) is None:
            state.asked.pop((workload, epoch), None)  # Requests are about rows.

    def _look_at_drains(self, state: ControlState, now: Instant) -> None:
        """Mark the drains as due that end without an operator: for defragmentation at once, for other pools soon, with the nodes of all that ends until then.

        Each fact that moves nodes between pools makes every agent lay out the region anew.
        """
        due = state.maintenance_due
        for name, closure in state.image.capacity.closures.items():
            if closure.pool:
                soon = after(now, POOLED_TOGETHER)
                due.put(name, min(soon, due.at(name) or soon))
            elif closure.lasts:
                due.put(name, now)

    def _look_at_all_on(self, state: ControlState, nodes: set[int], now: Instant) -> None:
        for workload, epoch, held in state.image.capacity.live():
            if any(not nodes.isdisjoint(spread.nodes) for spread in held.claim.spreads):
                state.attempts_due.put((workload, epoch), now)
        self._look_at_all_rows(state, now)

    def _look_at_all_rows(self, state: ControlState, now: Instant) -> None:
        for key in state.image.control.all_keys():
            state.attempts_due.put(key, now)

    def _evolve_note(self, state: ControlState, fact: Fact) -> None:
        match fact.event:
            case Attended(key, again_at):
                if again_at is None:
                    state.attempts_due.drop(key)
                else:
                    state.attempts_due.put(key, again_at)
            case Watched(maintenance, again_at):
                if again_at is None:
                    state.maintenance_due.drop(maintenance)
                else:
                    state.maintenance_due.put(maintenance, again_at)
            case Asked(key, sequence):
                row = state.asked.setdefault(key, AskedRow())
                if row.sequence != sequence:
                    row.sequence, row.first_at = sequence, fact.at
                row.asked_at = fact.at
            case ControllerHeard():
                self._heard(state, fact.event, fact.at)
            case ImageAdopted(_, image, _):
                self._adopt(state, image, fact.at)

    def _heard(self, state: ControlState, heard: ControllerHeard, at: Instant) -> None:
        controller = state.of_controller(heard.controller)
        if not heard.is_another:
            controller.heard_at = at
        controller.ignored += heard.ignored
        controller.why = heard.why or controller.why
        asked = state.asked.get(heard.key)
        if asked is not None and heard.sequence:
            asked.answered = max(asked.answered, heard.sequence)

    def _adopt(self, state: ControlState, image: object, at: Instant) -> None:
        if isinstance(image, GlobalImage):
            state.awards = image
            for workload, epoch, _ in state.image.capacity.live():
                state.attempts_due.put((workload, epoch), at)
        else:
            assert isinstance(image, RegionImage), image
            state.image = image
            state.asked = {
                key: row for key, row in state.asked.items() if image.control.row(*key) is not None
            }
            state.closing = closing_of(image)
            state.attempts_due, state.maintenance_due = Agenda(), Agenda()
            for workload, epoch, _ in image.capacity.live():
                state.attempts_due.put((workload, epoch), at)
            for name in image.maintenance.rows:
                state.maintenance_due.put(name, at)
            self._look_at_drains(state, at)
        self._look_at_all_rows(state, at)

    # Controllers.

    def _response(self, state: ControlState, envelope: Envelope) -> Decision:
        """Record a controller's answer about an attempt of that controller, if the answer names the newest request."""
        said = envelope.message
        assert isinstance(said, TaskControlResponse)
        key = (said.workload, said.epoch)
        controller = (said.tenant, said.controller)
        row = state.image.control.row(*key)
        if row is None or (row.tenant, row.spec.controller) != controller:
            if row is None or not row.spec.controller:
                return NOTHING  # Not counted: such answers could name any number of attempts.
            # Counted under the workload's own controller: answers could come under any number of invented names.
            own = (TenantName(row.tenant), row.spec.controller)
            why = f"{said.controller} of {said.tenant} answers for its work"
            return Decision(events=(ControllerHeard(own, key, 0, 1 + len(said.acks), why, is_another=True),))
        if said.sequence != row.changed:
            why = f"it answers request {said.sequence}, and the newest is {row.changed}"
            return Decision(events=(ControllerHeard(controller, key, 0, max(1, len(said.acks)), why),))
        maintenance = state.image.maintenance
        known = {ack.operation: ack for ack in said.acks if counts(row, ack, maintenance)}
        why = "it acknowledges what does not wait for it" if len(known) < len(said.acks) else ""
        keepers = self._keepers(state, envelope.at)
        for ack in [ack for ack in known.values() if ack.answer is Answer.INSTEAD]:
            problem = why_no_offer(state.image, key, ack, keepers)
            if problem:
                del known[ack.operation]
                why = problem
        acks = tuple(known.values())
        ignored = len(said.acks) - len(acks)
        heard = ControllerHeard(controller, key, said.sequence, ignored, why)
        has_heard = any(not operation.is_live for operation in row.operations.values())
        messages: list[Message] = []
        if acks or has_heard:
            messages.append(RecordAnswer(self.region, *key, said.sequence, acks))
        at_once = [
            ack.operation
            for ack in acks
            if ack.answer in (Answer.PROCEED, Answer.MOVE) and not ack.after_checkpoint and not ack.within
        ]
        begin = tuple(within_limits(row, at_once))
        if begin:
            # Sent right after the answer: the store has folded the answer when it judges this message.
            messages.append(BeginOperations(self.region, *key, begin, BegunBy.ACK))
        return Decision((heard,), tuple(messages))

    def _show(self, state: ControlState, envelope: Envelope) -> Decision:
        waiting: dict[ControllerKey, int] = dict.fromkeys(state.controllers, 0)
        since: dict[ControllerKey, int] = {}
        for key in state.image.control.all_keys():
            row = state.image.control.row(*key)
            assert row is not None, key
            if row.spec.controller:
                name = (TenantName(row.tenant), row.spec.controller)
                asked = [o for o in row.operations.values() if o.phase is OperationPhase.ASKED]
                waiting[name] = waiting.get(name, 0) + len(asked)
                if asked:
                    oldest = min(operation.requested_at for operation in asked)
                    since[name] = min(since.get(name, oldest), oldest)
        keepers, shown = self._keepers(state, envelope.at), []
        for name in sorted(waiting):
            known = state.controllers.get(name, ControllerRow())
            ago = envelope.at - known.heard_at if known.heard_at is not None else -1
            asked_ago = max(0, keepers - since[name]) if name in since else -1
            shown.append(ControllerShown(*name, ago, waiting[name], known.ignored, known.why, asked_ago))
        return Decision(messages=(ControllersShown(tuple(shown)),))

    # Time.

    def _woken(self, state: ControlState, envelope: Envelope) -> Decision:
        now = envelope.at
        events: list[Note] = []
        messages: list[Message] = []
        for key in state.attempts_due.passed(now):
            said, asked, again_at = self._look(state, key, now)
            messages.extend(said)
            events.extend(asked)
            events.append(Attended(key, again_at))
        for name in state.maintenance_due.passed(now):
            planned, keepers = state.image.maintenance.rows.get(name), self._keepers(state, now)
            if planned is not None:
                move, again_at = next_phase(self.region, name, planned, keepers, now)
            else:
                move, again_at = lift(self.region, state.image, name, keepers, now)
            messages.extend(move)
            events.append(Watched(name, again_at))
        return Decision(tuple(events), tuple(messages))

    def _keepers(self, state: ControlState, now: Instant) -> Instant:
        """Return the estimated time on the keeper's clock: rather early than late, unless that clock is behind this one."""
        return after(now, state.ahead)

    def _look(
        self, state: ControlState, key: AttemptKey, now: Instant
    ) -> tuple[list[Message], list[Note], Instant | None]:
        """Return the messages that one attempt calls for now, a note if the controller is asked, and when to look again."""
        row = state.image.control.spec_of(*key)
        if row is None:
            return [], [], None
        keepers = self._keepers(state, now)
        messages: list[Message] = []
        if row.is_ended:
            messages.extend(self._after_the_end(state, key, row, keepers))
        else:
            image, award = state.image, state.awards.awards.rows.get(key[0])
            messages.extend(operations_wanted(self.region, image, state.closing, key, row, keepers, award))
            messages.extend(self._next_steps(state, key, row, keepers))
        asked, ask_again_at = self._ask(state, key, row, now)
        again_at = earliest(ask_again_at, self._next_time(row, keepers, now))
        if messages:
            again_at = earliest(again_at, after(now, COMMAND_SAY_AGAIN))
        if not asked:
            return messages, [], again_at
        messages.append(request_of(self.region, state.image, state.closing, key, row, keepers))
        return messages, [Asked(key, row.changed)], again_at

    def _after_the_end(
        self, state: ControlState, key: AttemptKey, row: AttemptControl, keepers: Instant
    ) -> list[Message]:
        """Return the message that finishes the operations of an ended attempt, or forgets the attempt after `CONTROL_RETENTION`.

        An operation that ended a gang is done once the workload is healthy again in any region, or has ended for good.
        """
        workload, epoch = key
        begun = tuple(n for n, operation in row.operations.items() if operation.is_live)
        award = state.awards.awards.rows.get(workload)
        if begun and award is not None and award.epoch > epoch and award.is_bound:
            return [FinishOperations(self.region, *key, begun, Outcome.HEALTHY)]
        if begun and award is not None and award.is_over:
            return [FinishOperations(self.region, *key, begun, Outcome.GONE)]
        if row.ended_at + CONTROL_RETENTION <= keepers:
            return [ForgetControl(self.region, *key)]
        return []

    def _next_steps(
        self, state: ControlState, key: AttemptKey, row: AttemptControl, keepers: Instant
    ) -> list[Message]:
        """Return the messages that begin, expire, finish or mark as stuck the attempt's operations."""
        held = state.image.capacity.holding(*key)
        if held is None or held.is_ending:
            return []
        maintenance, award = state.image.maintenance, state.awards.awards.rows.get(key[0])
        begins: dict[BegunBy, list[int]] = {by: [] for by in (BegunBy.DEADLINE, BegunBy.ACK, BegunBy.LIMITS)}
        stale: list[int] = []
        stuck: list[int] = []
        moot: list[int] = []
        ignored: list[int] = []
        for number, operation in row.operations.items():
            if operation.phase is OperationPhase.BEGUN:
                if not operation.is_stuck and operation.begun_at + STUCK_SPAN <= keepers:
                    stuck.append(number)
            elif not operation.is_live:
                continue
            elif is_moot(state.image, key, row, operation, award):
                (ignored if operation.answer is Answer.IGNORE else moot).append(number)
            elif is_stale(operation, keepers) and not is_overdue(operation, keepers):
                stale.append(number)
            else:
                by = next((by for by in begins if may_begin(row, number, by, maintenance, keepers)), None)
                if by is not None:
                    begins[by].append(number)
        messages: list[Message] = []
        for by, numbers in begins.items():
            allowed = numbers if by is BegunBy.DEADLINE else within_limits(row, numbers)
            if allowed:
                messages.append(BeginOperations(self.region, *key, tuple(allowed), by))
        if stale:
            messages.append(ExpireAcks(self.region, *key, tuple(stale)))
        if stuck:
            messages.append(MarkStuck(self.region, *key, tuple(stuck)))
        if moot:
            messages.append(FinishOperations(self.region, *key, tuple(moot), Outcome.WITHDRAWN))
        if ignored:
            messages.append(FinishOperations(self.region, *key, tuple(ignored), Outcome.IGNORED))
        return messages

    def _next_time(self, row: AttemptControl, keepers: Instant, now: Instant) -> Instant | None:
        """Return when the next step is due by time alone."""
        times = []
        if row.is_ended:
            times.append(row.ended_at + CONTROL_RETENTION)
        for operation in row.operations.values():
            if operation.phase is OperationPhase.BEGUN and not operation.is_stuck:
                times.append(operation.begun_at + STUCK_SPAN)
            if operation.phase is OperationPhase.ACKED:
                times += [operation.acked_at + ACK_LEASE, operation.acked_at + operation.within]
            if operation.deadline and operation.phase in (OperationPhase.ASKED, OperationPhase.ACKED):
                times.append(operation.requested_at + operation.deadline)
        ahead = [at for at in times if at > keepers]
        return after(now, Nanoseconds(min(ahead) - keepers)) if ahead else None

    def _ask(
        self, state: ControlState, key: AttemptKey, row: AttemptControl, now: Instant
    ) -> tuple[bool, Instant | None]:
        """Return whether to ask the controller now, and when to ask again without a change."""
        if not row.spec.controller or not says_something(row):
            return False, None
        asked = state.asked.get(key)
        if asked is None or asked.sequence != row.changed:
            return True, after(now, CONTROL_SAY_AGAIN)
        span = CONTROL_ASK_AGAIN if asked.answered == row.changed else CONTROL_SAY_AGAIN
        at = after(asked.asked_at, span)
        return (True, after(now, span)) if at <= now else (False, at)
