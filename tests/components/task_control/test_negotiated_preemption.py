"""Whoever names a controller is asked before it is pushed out: it yields, asks for time, offers another, or says nothing."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from core.events.control import ControlAnswered, OperationsBegun, OperationsDone, OperationsRequested
from core.events.queue import WorkloadAwarded
from core.events.region import AttemptEnded, ClaimGranted, ClaimPromised, PromiseRevised, StopOrdered
from core.images.preemption import Preemption
from core.messages.agents import ClaimAnswered
from core.messages.control import TaskControlResponse
from core.messages.nodes import DrainNodes
from core.messages.preemption import SetPreemption
from core.messages.store import (
    DeclineAward,
    OrderStop,
    RecordCheckpoint,
    RecordLoss,
    RecordStarted,
    SubmitClaim,
)
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import PREEMPTION_ASK_SPAN
from core.nouns.maintenance import Scope, ScopeKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    OperationPhase,
    Outcome,
)
from core.nouns.placement import Claim
from core.nouns.preemption import PreemptionSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, attempt
from tests.components.support.task_control import ALONE, SHARDS, TENANT, W1, Pair, Start, a_gang, a_service
from tests.matching import facts, said, said_once

W2, W8, W9 = WorkloadId("w-2"), WorkloadId("w-8"), WorkloadId("w-9")
PREEMPT = OperationKind.PREEMPT
SPAN = PREEMPTION_ASK_SPAN


class Scene(Pair):
    """A region in which a gang `w-1` of two nodes runs, whose controller is asked."""

    def __init__(self, start: Start, victim: Claim | None = None) -> None:
        super().__init__(start)
        self.grant(victim or a_gang())

    def promise(
        self, workload: WorkloadId = W9, victims: tuple[WorkloadId, ...] = (W1,), **parts: Any
    ) -> ClaimAnswered:
        """Somebody of higher priority claims the nodes 0 and 1 over these."""
        award = self.queue(WorkloadAwarded(workload, 1, EU, 0, ()))
        parts.setdefault("placed", {0: 1, 1: 1})
        parts.setdefault("gpus", 8)
        parts.setdefault("priority", 5)
        keys = tuple(attempt(victim) for victim in victims)
        claim = a_claim(workload, victims=keys, award_sequence=award, **parts)
        return said_once(self.hear(SubmitClaim(EU, claim)), ClaimAnswered)

    def answers(self, ack: Ack, workload: WorkloadId = W1) -> None:
        """Its controller says this on the newest request."""
        on = self.row(workload).changed
        response = TaskControlResponse(EU, TENANT, "shards", workload, 1, on, (ack,))
        self._deliver(self.control.hear(response, sender="controller.shards"))
        self.settle()

    def ordered(self, workload: WorkloadId = W1, by: WorkloadId = W9) -> bool:
        """Whether the broker's bare order is followed."""
        order = OrderStop(EU, workload, 1, EndCause.PREEMPTED, by)
        return any(isinstance(fact, StopOrdered) for fact in facts(self.hear(order)))

    def withdrawn(self, workload: WorkloadId = W9) -> None:
        """The queue asked for its award back."""
        self.hear(DeclineAward(EU, workload, 1, 1, Reason.WITHDRAWN))

    def is_told(self, workload: WorkloadId = W1) -> bool:
        """Whether it was ordered to stop."""
        row = self.store.state.image.attempts.row(workload, 1)
        return bool(row is not None and row.stop_cause)

    @property
    def image(self) -> Preemption:
        """What the store counts."""
        image = self.store.state.image.preemption
        assert isinstance(image, Preemption)
        return image


# Asking.


def test_victim_with_a_controller_is_asked_first(start: Start) -> None:
    """Its operation has the promise's name and deadline, and nothing happens to it before a word or that."""
    scene = Scene(start)
    assert "promised" == scene.promise().verdict
    (asked,) = scene.request().requests
    assert (PREEMPT, WHOLE, SPAN) == (asked.kind, asked.task, asked.deadline)
    assert "w-9" in asked.reason
    (event,) = scene.recorded(OperationsRequested)
    assert ("p-w-9.1", "preemption") == (event.source, event.requester)
    assert not scene.ordered()
    assert not scene.is_told()


def test_victim_without_a_controller_is_stopped_at_once(start: Start) -> None:
    """Nobody is asked: it has its grace to save in."""
    scene = Scene(start, a_gang(control=ControlSpec()))
    scene.promise()
    assert [] == scene.recorded(OperationsRequested)
    assert scene.ordered()
    scene.end(EndCause.PREEMPTED)
    assert isinstance(scene.facts[-1], ClaimGranted)


def test_controller_says_yes(start: Start) -> None:
    """It is stopped now, for the one that was promised its room, whose grant stands beside its end."""
    scene = Scene(start)
    scene.promise()
    scene.ack(1)
    (begun,) = scene.recorded(OperationsBegun)
    assert (BegunBy.ACK, 0) == (begun.by, begun.charged), "what a promise destroys has caps of its own"
    assert [StopOrdered(*attempt(), EndCause.PREEMPTED, W9)] == scene.recorded(StopOrdered)
    scene.end(EndCause.PREEMPTED)
    assert [AttemptEnded, ClaimGranted] == [type(event) for event in scene.facts[-2:]]


def test_controller_wants_a_checkpoint_first(start: Start) -> None:
    """M18: stopped once one has been committed that is newer than the word, and nothing of its work is destroyed."""
    scene = Scene(start)
    scene.hear(RecordCheckpoint(EU, *attempt(), 10))
    scene.wait(seconds(20))
    scene.promise()
    scene.ack(1, after_checkpoint=True)
    scene.wait(seconds(30))
    assert not scene.is_told()
    scene.hear(RecordCheckpoint(EU, *attempt(), 20))
    assert scene.is_told()
    scene.end(EndCause.PREEMPTED)
    assert 0 == scene.recorded(AttemptEnded)[0].destroyed


def test_controller_wants_some_time(start: Start) -> None:
    """In so many seconds, after a checkpoint or not: whichever comes first, it is stopped then and no sooner."""
    scene = Scene(start)
    scene.promise()
    scene.answers(Ack(1, after_checkpoint=True, within=seconds(15)))
    scene.wait(seconds(14))
    assert not scene.is_told()
    scene.wait(seconds(2))
    assert scene.is_told()
    other = Scene(start)
    other.promise()
    other.answers(Ack(1, within=seconds(15)))
    other.hear(RecordCheckpoint(EU, *attempt(), 20))
    assert not other.is_told(), "it asked for time, and not for a checkpoint"
    other.wait(seconds(16))
    assert other.is_told()


@pytest.mark.parametrize("within", [0, seconds(3600)])
def test_deadline_bounds_a_controllers_postponement(start: Start, within: int) -> None:
    """A checkpoint that does not come, and a time that is longer than there is."""
    scene = Scene(start)
    scene.promise()
    scene.answers(Ack(1, after_checkpoint=True, within=within))
    scene.wait(seconds(59))
    assert not scene.is_told()
    scene.wait(seconds(2))
    assert [BegunBy.DEADLINE] == [event.by for event in scene.recorded(OperationsBegun)]
    assert scene.is_told()


def test_silence_is_stopped_at_the_deadline(start: Start) -> None:
    """A controller that is dead, or says nothing that counts, delays by so much and no more."""
    scene = Scene(start)
    scene.promise()
    for number in range(29):
        scene.wait(seconds(2))
        scene.ack(7 + number)
    assert not scene.is_told()
    scene.wait(seconds(3))
    assert scene.is_told()


def test_broker_stops_it_where_task_control_does_not(start: Start) -> None:
    """The region's task control is dead: the store lets a bare order pass once the time to answer is over."""
    scene = Scene(start)
    scene.promise()
    store = scene.store
    store.wait(seconds(59))
    order = OrderStop(EU, W1, 1, EndCause.PREEMPTED, W9)
    assert [] == facts(store.hear(order))
    store.wait(seconds(1))
    assert [StopOrdered] == [type(event) for event in facts(store.hear(order))]


def test_service_is_asked_as_a_whole(start: Start) -> None:
    """All its tasks go, so its controller is asked once, beside whatever it is asked of each of them."""
    scene = Scene(start, a_service(4))
    scene.promise()
    scene.operate(OperationKind.RESTART, 0)
    assert [WHOLE, 0] == sorted(asked.task for asked in scene.request().requests)
    scene.ack(1)
    assert scene.is_told()
    scene.end(EndCause.PREEMPTED)
    assert isinstance(scene.facts[-1], ClaimGranted)


def test_service_is_stopped_at_the_deadline(start: Start) -> None:
    """As a gang is."""
    scene = Scene(start, a_service(4))
    scene.promise()
    scene.wait(SPAN)
    assert scene.is_told()


# What may happen meanwhile.


def test_promise_is_withdrawn_first(start: Start) -> None:
    """Its victim is spared, and its controller is told that the request is over."""
    scene = Scene(start)
    scene.promise()
    scene.ack(1, after_checkpoint=True)
    scene.withdrawn()
    assert [OperationsDone(*attempt(), (1,), Outcome.WITHDRAWN)] == scene.recorded(OperationsDone)
    scene.wait(seconds(2))
    (told,) = scene.request().completed
    assert (1, Outcome.WITHDRAWN) == (told.operation, told.outcome)
    scene.hear(RecordCheckpoint(EU, *attempt(), 20))
    scene.wait(seconds(120))
    assert not scene.is_told()
    assert 0 == scene.image.metered(scene.store.now)


def test_yes_comes_after_the_withdrawal(start: Start) -> None:
    """It was said on a request that is not the newest any more."""
    scene = Scene(start)
    scene.promise()
    on = scene.row().changed
    scene.withdrawn()
    scene.ack(1, sequence=on)
    assert not scene.is_told()


def test_victim_ends_by_itself(start: Start) -> None:
    """Its end grants the promise; its controller is told that there is nothing to decide any more."""
    scene = Scene(start)
    scene.promise()
    scene.end(EndCause.COMPLETED)
    assert isinstance(scene.facts[-1], ClaimGranted)
    (told,) = scene.request().completed
    assert Outcome.GONE == told.outcome
    assert 0 == scene.image.preempted


def test_node_of_the_victim_is_lost(start: Start) -> None:
    """It ends by that; its room is not there to be granted, and the promise is broken."""
    scene = Scene(start)
    scene.promise()
    scene.hear(RecordLoss(EU, WorkerName("w0"), 1))
    scene.hear(OrderStop(EU, W1, 1, EndCause.NODE_LOST))
    scene.end(EndCause.NODE_LOST)
    assert scene.store.state.image.capacity.promise(*attempt("w-9")) is None
    assert {} == scene.image.pledges


def test_two_promises_want_one_victim(start: Start) -> None:
    """Who comes first has it; the other is told of a conflict, and the victim is asked once."""
    scene = Scene(start)
    scene.promise()
    assert ("conflict", Reason.CONFLICT) == (
        (answer := scene.promise(W8, placed={0: 1}, priority=6)).verdict,
        answer.reason,
    )
    assert 1 == len(scene.recorded(OperationsRequested))


def test_drain_is_asked_for_at_the_same_time(start: Start) -> None:
    """One that can wait gives way to the promise; when that is withdrawn, it is asked for again."""
    scene = Scene(start)
    scene.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "fan", 0, 0, "olga"))
    assert OperationKind.MOVE == scene.request().requests[0].kind
    scene.promise(placed={1: 1})
    (asked,) = scene.request().requests
    assert PREEMPT == asked.kind
    scene.withdrawn()
    assert OperationKind.MOVE == scene.request().requests[0].kind


def test_drain_with_a_nearer_deadline_frees_the_capacity(start: Start) -> None:
    """Its controller is asked about that, and the end by it grants the promise on the nodes that are open."""
    scene = Scene(start)
    scene.promise(placed={1: 1})
    scene.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "fan", 0, seconds(20), "olga"))
    assert OperationKind.MOVE == scene.request().requests[0].kind
    scene.wait(seconds(21))
    assert [EndCause.DRAINED] == [event.cause for event in scene.recorded(StopOrdered)]
    scene.end(EndCause.DRAINED)
    assert isinstance(scene.facts[-1], ClaimGranted)
    assert 0 == scene.image.preempted


def test_gang_that_restarts_is_not_asked_again(start: Start) -> None:
    """Its controller has agreed to its stop already, and what is under way is not undone: the broker's order counts at once."""
    scene = Scene(start)
    scene.operate(OperationKind.RESTART)
    scene.ack(1)
    scene.promise()
    assert scene.ordered()


def test_task_control_and_store_start_again(start: Start) -> None:
    """All of it is in the log: the asked controller, since when, and until when."""
    scene = Scene(start)
    scene.promise()
    scene.wait(seconds(40))
    scene.store = scene.store.restart()
    scene.control = scene.control.restart()
    scene.settle()
    assert not scene.is_told()
    scene.wait(seconds(21))
    assert scene.is_told()


# Another in its place.


def an_offer(workload: str = "w-2", operation: int = 1) -> Ack:
    """Take that one."""
    return Ack(operation, Answer.INSTEAD, instead=workload)


def half(workload: str, tenant: TenantName = TENANT, **parts: Any) -> Claim:
    """Four GPUs of node 0."""
    claim = a_claim(workload, placed={0: 1}, gpus=4, **parts)
    return replace(claim, control=SHARDS if workload == "w-1" else ALONE, tenant=tenant)


def offering(start: Start, other: Claim | None = None, *, gpus: int = 4) -> Scene:
    """`w-1` and another share node 0, of which `w-9` is promised the half that `w-1` has."""
    scene = Scene(start, half("w-1"))
    scene.grant(other or half("w-2"))
    assert "promised" == scene.promise(placed={0: 1}, gpus=gpus).verdict
    return scene


def test_offered_workload_is_taken(start: Start) -> None:
    """It is the tenant's own, and as good: it ends, and whoever offered it runs on and is told so."""
    scene = offering(start)
    scene.answers(an_offer())
    (revised,) = scene.recorded(PromiseRevised)
    assert ((attempt("w-2"),), attempt()) == (revised.victims, revised.spared)
    assert [OperationsDone(*attempt(), (1,), Outcome.WITHDRAWN)] == scene.recorded(OperationsDone)
    assert scene.ordered(W2)
    assert not scene.ordered(W1)
    scene.end(EndCause.PREEMPTED, W2)
    assert isinstance(scene.facts[-1], ClaimGranted)
    assert not scene.is_told()


def test_offered_workload_is_asked_too(start: Start) -> None:
    """If it names a controller; what is left of the time is all that it has."""
    scene = offering(start, replace(half("w-2"), control=SHARDS))
    scene.wait(seconds(20))
    scene.answers(an_offer())
    (asked,) = scene.request(W2).requests
    assert seconds(40) == asked.deadline
    scene.wait(seconds(41))
    assert scene.is_told(W2)


def elsewhere() -> Claim:
    """It makes no room on node 0."""
    return replace(half("w-2"), spreads=a_claim(placed={1: 1}).spreads)


OFFERS: dict[str, tuple[Callable[[], Claim], str]] = {
    "another tenant's": (lambda: half("w-2", TenantName("web")), "another tenant's"),
    "of higher priority": (lambda: half("w-2", priority=4), "higher priority"),
    "interactive": (lambda: half("w-2", kind=Kind.INTERACTIVE), "higher priority"),
    "no room": (elsewhere, "does not make room"),
    "spared": (lambda: replace(half("w-2"), run_min=seconds(600)), "not run as long"),
}


@pytest.mark.parametrize("offer", OFFERS)
def test_offer_that_counts_for_nothing(start: Start, offer: str) -> None:
    """Whoever offered it is asked on, its deadline stays, and operators see why."""
    made, why = OFFERS[offer]
    scene = offering(start, made(), gpus=8 if offer == "no room" else 4)
    scene.answers(an_offer())
    assert [] == scene.recorded(PromiseRevised)
    assert [] == scene.recorded(ControlAnswered)
    assert why in scene.control.state.controllers[TENANT, "shards"].why
    scene.wait(SPAN)
    assert scene.is_told()


@pytest.mark.parametrize("named", ["w-1", "w-9", "w-77", ""])
def test_offer_of_an_impossible_substitute(start: Start, named: str) -> None:
    """The victim itself, the workload that is to have the capacity, and one that does not run here."""
    scene = offering(start)
    scene.answers(an_offer(named))
    assert [] == scene.recorded(PromiseRevised)
    assert not scene.ordered()


def test_victim_offers_only_one_substitute(start: Start) -> None:
    """For another promise its own turn has come: offers defer no preemption for ever."""
    scene = offering(start)
    scene.grant(replace(half("w-3"), spreads=a_claim(placed={0: 1}).spreads, jobs=a_claim(gpus=0).jobs))
    scene.answers(an_offer())
    scene.withdrawn()
    scene.promise(W8, placed={0: 1}, gpus=4)
    (asked,) = scene.request().requests
    scene.answers(an_offer(operation=asked.operation))
    assert "offered another before" in scene.control.state.controllers[TENANT, "shards"].why
    assert 1 == len(scene.recorded(PromiseRevised))


def test_two_offer_the_same(start: Start) -> None:
    """It makes room for one alone."""
    scene = offering(start)
    scene.answers(an_offer())
    scene.promise(W8, placed={0: 1}, gpus=4)
    (asked,) = [one for one in scene.request().requests if one.kind == PREEMPT]
    scene.answers(an_offer(operation=asked.operation))
    assert 1 == len(scene.recorded(PromiseRevised))


# What may be destroyed.


def test_destroyed_work_is_pledged_and_then_counted(start: Start) -> None:
    """N8: GPU-seconds: what it may come to when it is promised, and what it came to when it ended."""
    scene = Scene(start)
    scene.wait(seconds(100))
    scene.promise()
    assert (16 * 160,) == scene.recorded(ClaimPromised)[0].destroyed
    assert 16 * 160 == scene.image.metered(scene.store.now)
    scene.wait(seconds(10))
    scene.ack(1)
    scene.wait(seconds(5))
    scene.end(EndCause.PREEMPTED)
    assert 16 * 110 == scene.recorded(AttemptEnded)[0].destroyed
    assert 16 * 110 == scene.image.metered(scene.store.now) == scene.image.destroyed
    scene.wait(seconds(3_700))
    assert 0 == scene.image.metered(scene.store.now)
    assert 1 == scene.image.preempted


def settings(scene: Scene, **parts: Any) -> None:
    """An operator sets this."""
    scene.hear(SetPreemption(EU, PreemptionSettings(**parts), scene.image.revision, "olga"))


def test_claim_that_would_destroy_too_much(start: Start) -> None:
    """N8: the store refuses it, with its reason; after a checkpoint it would be promised."""
    scene = Scene(start)
    settings(scene, claim_max=16 * 100)
    scene.wait(seconds(60))
    answer = scene.promise()
    assert ("refused", Reason.DESTROYS_TOO_MUCH) == (answer.verdict, answer.reason)
    scene.hear(RecordCheckpoint(EU, *attempt(), 10))
    assert "promised" == scene.promise(W8).verdict


def test_hour_that_would_destroy_too_much(start: Start) -> None:
    """N8: all claims of an hour together; what is only pledged counts too."""
    scene = Scene(start, a_gang(control=ControlSpec()))
    scene.grant(a_gang(control=ControlSpec(), workload="w-2", first=2))
    settings(scene, hour_max=16 * 130)
    scene.wait(seconds(100))
    assert "promised" == scene.promise().verdict
    more = scene.promise(W8, (W2,), placed={2: 1, 3: 1})
    assert Reason.DESTROYS_TOO_MUCH == more.reason
    scene.withdrawn()
    assert "promised" == scene.promise(WorkloadId("w-7"), (W2,), placed={2: 1, 3: 1}).verdict


def test_offer_that_would_destroy_too_much(start: Start) -> None:
    """The cap holds for whom a controller offers as well."""
    scene = Scene(start, half("w-1"))
    scene.grant(half("w-2"))
    settings(scene, claim_max=4 * 200)
    scene.wait(seconds(300))
    scene.hear(RecordCheckpoint(EU, *attempt(), 10))
    assert "promised" == scene.promise(placed={0: 1}, gpus=4).verdict
    scene.answers(an_offer())
    assert "more to lose" in scene.control.state.controllers[TENANT, "shards"].why
    assert [] == scene.recorded(PromiseRevised)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"ask_span": seconds(90)}, "ask_span"),
        ({"ask_span": -1}, "ask_span"),
        ({"claim_max": -1}, "claim_max"),
        ({"hour_max": 1 << 70}, "hour_max"),
        ({"claim_max": 9, "hour_max": 8}, "claim_max"),
    ],
)
def test_settings_that_cannot_be(start: Start, parts: dict[str, Any], field: str) -> None:
    """Every problem with its field, and nothing is recorded."""
    scene = Scene(start)
    decision = scene.hear(SetPreemption(EU, PreemptionSettings(**parts), 0, "olga"))
    (refused,) = decision.messages
    assert getattr(refused, "problems")[0].startswith(f"{field}:")  # noqa: B009 (whatever it is)
    assert 0 == scene.image.revision


# An operator's own.


def test_operator_preempts(start: Start) -> None:
    """Asked with a deadline, it goes back to its place for nobody in particular."""
    scene = Scene(start)
    scene.operate(PREEMPT, by="operator:olga", deadline=seconds(30))
    assert seconds(30) == scene.request().requests[0].deadline
    scene.ack(1)
    assert [StopOrdered(*attempt(), EndCause.PREEMPTED)] == scene.recorded(StopOrdered)
    scene.end(EndCause.PREEMPTED)
    assert 1 == scene.image.preempted


def test_operator_preempts_unanswered_at_its_deadline(start: Start) -> None:
    """And where nobody is to be asked at once."""
    scene = Scene(start)
    scene.operate(PREEMPT, by="operator:olga", deadline=seconds(30))
    scene.wait(seconds(31))
    assert scene.is_told()
    alone = Scene(start, a_gang(control=ControlSpec()))
    alone.operate(PREEMPT, by="operator:olga", deadline=seconds(30))
    assert alone.is_told()


def test_interactive_work_is_never_preempted(start: Start) -> None:
    """Nor by an operator: who means it, requeues it."""
    scene = Scene(start, replace(a_gang(), kind=Kind.INTERACTIVE))
    (refused,) = scene.operate(PREEMPT, by="operator:olga", deadline=1).messages
    assert Reason.NOT_ALLOWED == getattr(refused, "reason")  # noqa: B009 (whatever it is)


def test_no_substitute_is_taken_for_an_operators_victim(start: Start) -> None:
    """The operator means the named workload."""
    scene = offering(start)
    scene.withdrawn()
    scene.operate(PREEMPT, by="operator:olga")
    number = max(scene.row().operations)
    scene.answers(an_offer(operation=number))
    assert OperationPhase.ASKED == scene.row().operations[number].phase
    assert not said(scene.control.wake(), DeclineAward)


def test_no_other_requester_preempts_in_the_name_of_a_promise(start: Start) -> None:
    """A source that names no promise over the victim is refused, and no other requester may take the name of promises."""
    scene = Scene(start)
    scene.operate(PREEMPT, by="preemption", source="p-w-9.1", deadline=1)
    assert [] == scene.recorded(OperationsRequested)
    scene.operate(PREEMPT, by="preemption", deadline=seconds(9))
    assert "somebody" == scene.recorded(OperationsRequested)[0].requester
    assert EU_LOG in scene.store.logs
    scene.hear(RecordStarted(EU, W1, 1))
