"""Budgets of destruction: whoever asks for more to be stopped than a minute allows is refused, and that is told once."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import NOTHING, Decision
from core.events.control import DestructionHalted, OperationsBegun
from core.events.queue import CancelRequested
from core.events.region import ClaimGranted, StopOrdered
from core.messages.nodes import CloseNodes
from core.messages.store import OrderStop, RecordJoin, RecordStarted
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import DESTRUCTION_MIN, DESTRUCTION_SHARE
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import WHOLE, BegunBy, ControlSpec, OperationKind
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, EU_LOG, a_claim, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    Start,
    a_store,
    agreed,
    award,
    begin,
    claim,
    consent,
    fail,
    operate,
    place,
    promise,
    serve,
    stop,
)
from tests.matching import facts

MANY = DESTRUCTION_MIN + 40
MINUTE = seconds(60)
RESTART = OperationKind.RESTART


def crowd(start: Start, count: int = MANY) -> Machine[Any]:
    """So many gangs of one task without any GPU."""
    machine = a_store(start)
    for number in range(count):
        place(machine, f"w-{number}", {0: 1}, gpus=0, priority=1)
    return machine


def order(
    machine: Machine[Any],
    workload: str,
    cause: EndCause = EndCause.TASK_FAILED,
    by: str = "",
    sender: str = "broker.eu",
) -> Decision:
    """A component orders a stop."""
    return machine.hear(OrderStop(EU, *attempt(workload), cause, WorkloadId(by)), sender=sender)


def stopped(machine: Machine[Any]) -> list[StopOrdered]:
    """All orders that were recorded."""
    events = (fact.event for fact in machine.logs[EU_LOG])
    return [event for event in events if isinstance(event, StopOrdered)]


@pytest.mark.parametrize(
    "cause",
    [EndCause.TASK_FAILED, EndCause.START_FAILED, EndCause.REQUEUED, EndCause.NODE_LOST, EndCause.CANCELLED],
)
def test_broker_that_orders_everything_to_stop(start: Start, cause: EndCause) -> None:
    """T27: it stops at most its budget in a minute, and that it wanted more is told once; so it goes on, minute by minute."""
    machine = crowd(start)
    halted: list[DestructionHalted] = []
    for minute in (1, 2):
        for number in range(MANY):
            decision = order(machine, f"w-{number}", cause)
            halted.extend(event for event in facts(decision) if isinstance(event, DestructionHalted))
        assert min(MANY, minute * DESTRUCTION_MIN) == len(stopped(machine))
        machine.wait(MINUTE)
    assert [DestructionHalted("broker.eu", 1, DESTRUCTION_MIN)] == halted
    assert {"broker.eu"} == {event.requester for event in stopped(machine)}


def test_budget_within_any_minute(start: Start) -> None:
    """T27: it is a sliding minute, by the log's own time: no burst at the turn of one."""
    machine = crowd(start)
    for number in range(MANY):
        machine.wait(seconds(0.5))
        order(machine, f"w-{number}")
    times = [fact.at for fact in machine.logs[EU_LOG] if isinstance(fact.event, StopOrdered)]
    assert DESTRUCTION_MIN == max(sum(at <= other < at + MINUTE for other in times) for at in times)


def test_budgets_are_each_their_own(start: Start) -> None:
    """T27: one component that has used its own up hinders no other."""
    machine = crowd(start)
    for number in range(DESTRUCTION_MIN):
        order(machine, f"w-{number}")
    assert [DestructionHalted] == [type(event) for event in facts(order(machine, "w-90"))]
    assert NOTHING == order(machine, "w-90")
    assert [StopOrdered] == [type(event) for event in facts(order(machine, "w-90", sender="control.eu"))]


def test_budget_of_a_large_region(start: Start) -> None:
    """T27: one in so many of its nodes."""
    machine = a_store(start)
    nodes = (DESTRUCTION_MIN + 5) * DESTRUCTION_SHARE
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, nodes - 4)))
    for number in range(DESTRUCTION_MIN + 10):
        place(machine, f"w-{number}", {0: 1}, gpus=0)
        order(machine, f"w-{number}")
    assert DESTRUCTION_MIN + 5 == len(stopped(machine))


def test_stops_that_a_log_calls_for_count_against_no_requester(start: Start) -> None:
    """T27: attempts that their user cancelled, by the queue's log; that a promise preempts; that are out of time; on lost nodes."""
    machine = crowd(start, 4)
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 1)))
    machine.fact(GLOBAL_LOG, CancelRequested(WorkloadId("w-0")))
    assert [StopOrdered(*attempt("w-0"), EndCause.CANCELLED)] == facts(
        order(machine, "w-0", EndCause.CANCELLED)
    )
    place(machine, "w-8", {1: 8}, priority=1)
    promise(machine, "w-9", {1: 8}, (attempt("w-8"),))
    wanted = StopOrdered(*attempt("w-8"), EndCause.PREEMPTED, WorkloadId("w-9"))
    assert [wanted] == facts(order(machine, "w-8", EndCause.PREEMPTED, "w-9"))
    place(machine, "w-7", {4: 1})
    machine.hear(CloseNodes(EU, ClosureKind.QUARANTINE, (4,), "ill"))
    wanted = StopOrdered(*attempt("w-7"), EndCause.NODE_FAILED)
    assert [wanted] == facts(order(machine, "w-7", EndCause.NODE_FAILED))
    assert 0 == machine.state.image.destruction.spent("broker.eu", machine.now)


def test_time_that_is_up(start: Start) -> None:
    """By the store's clock, from the start of the gang: not before, not without a start, never without a limit."""
    machine = a_store(start)
    limit = seconds(50)
    made = a_claim("w-1", award_sequence=award(machine))
    claim(machine, replace(made, max_duration=limit))
    place(machine, "w-2", {1: 1})
    machine.hear(RecordStarted(EU, *attempt("w-2")))
    machine.wait(limit)
    assert NOTHING == stop(machine, "w-1", EndCause.TIMEOUT), "it has not started"
    machine.hear(RecordStarted(EU, *attempt("w-1")))
    machine.wait(Nanoseconds(limit - 1))
    assert NOTHING == stop(machine, "w-1", EndCause.TIMEOUT)
    machine.wait(Nanoseconds(1))
    assert [StopOrdered(*attempt("w-1"), EndCause.TIMEOUT)] == facts(stop(machine, "w-1", EndCause.TIMEOUT))
    assert NOTHING == stop(machine, "w-2", EndCause.TIMEOUT)


@pytest.mark.parametrize(
    "cause",
    [EndCause.COMPLETED, EndCause.DRAINED, EndCause.MAINTENANCE, EndCause.MOVED, EndCause.CHANGED],
)
def test_cause_without_stop_orders(start: Start, cause: EndCause) -> None:
    """T11: a stop that its controller is to be asked about does not happen by a bare order."""
    machine = crowd(start, 1)
    assert NOTHING == order(machine, "w-0", cause)


# Operations.


def test_planner_that_wants_everything_moved(start: Start) -> None:
    """T27, T30: though all is acknowledged, no more than its budget begins in a minute, and that it wants more is told."""
    machine = a_store(start)
    serve(machine, {0: MANY}, gpus=0, control=ControlSpec("shards", unavailable_max=MANY))
    decision = agreed(machine, OperationKind.MOVE, by="rebalancer")
    halted, begun = facts(decision)
    assert DestructionHalted("rebalancer", MANY, DESTRUCTION_MIN) == halted
    assert isinstance(begun, OperationsBegun)
    assert (DESTRUCTION_MIN, DESTRUCTION_MIN) == (len(begun.operations), begun.charged)
    rest = tuple(range(DESTRUCTION_MIN + 1, MANY + 1))
    machine.wait(Nanoseconds(MINUTE - 1))
    assert NOTHING == begin(machine, *rest)
    machine.wait(Nanoseconds(1))
    [more] = facts(begin(machine, *rest))
    assert isinstance(more, OperationsBegun)
    assert MANY - DESTRUCTION_MIN == more.charged


def test_a_drain_is_no_reason_to_stop_without_a_word(start: Start) -> None:
    """T17, T27: a node that is to be empty has not failed: what a broker stops there for that counts against its budget."""
    machine = crowd(start, 2)
    machine.hear(CloseNodes(EU, ClosureKind.SUSPECT, (0,), "missed beats"))
    order(machine, "w-0", EndCause.NODE_FAILED)
    assert 1 == machine.state.image.destruction.spent("broker.eu", machine.now)


def test_victims_that_are_not_in_the_way_are_left_alone(start: Start) -> None:
    """T27: a claim that fits as it is ends nobody, whomever it names."""
    machine = crowd(start, 2)
    made = a_claim(
        "w-9",
        placed={3: 1},
        victims=(attempt("w-0"), attempt("w-1")),
        priority=6,
        award_sequence=award(machine, "w-9"),
    )
    [granted] = facts(claim(machine, made))
    assert isinstance(granted, ClaimGranted)


def test_only_its_user_forces_an_operation_on_an_application(start: Start) -> None:
    """T17, T27: a rebalancer's deadline counts for nothing; a user's does, within the job's own limits."""
    machine = a_store(start)
    serve(machine, {0: 8}, gpus=0, control=ControlSpec("shards", unavailable_max=2))
    operate(machine, RESTART, by="rebalancer", deadline=1)
    machine.wait(seconds(1))
    assert [] == facts(begin(machine, *range(1, 9), by=BegunBy.DEADLINE))
    serve(machine, {1: 8}, gpus=0, workload="w-2", control=ControlSpec("shards", unavailable_max=2))
    operate(machine, RESTART, workload="w-2", by="user:ada", deadline=1)
    machine.wait(seconds(1))
    [begun] = facts(begin(machine, *range(1, 9), workload="w-2", by=BegunBy.DEADLINE))
    assert isinstance(begun, OperationsBegun)
    assert 2 == len(begun.operations)


def test_users_and_deadlines_have_no_budget(start: Start) -> None:
    """T15, T27: a user's own work is for its own limits to pace, and a deadline is a deadline."""
    machine = a_store(start)
    serve(machine, {0: MANY}, gpus=0, control=ControlSpec("shards", unavailable_max=MANY))
    [begun] = facts(agreed(machine, RESTART, by="user:ada"))
    assert isinstance(begun, OperationsBegun)
    assert (MANY, 0) == (len(begun.operations), begun.charged)
    serve(machine, {0: MANY}, gpus=0, workload="w-2", control=ControlSpec("shards", unavailable_max=MANY))
    operate(machine, RESTART, workload="w-2", by="user:ada", deadline=1)
    machine.wait(seconds(1))
    [begun] = facts(begin(machine, *range(1, MANY + 1), workload="w-2", by=BegunBy.DEADLINE))
    assert isinstance(begun, OperationsBegun)
    assert (MANY, 0) == (len(begun.operations), begun.charged)


def test_task_that_is_down_already_costs_nothing(start: Start) -> None:
    """T27: a replacement destroys nothing: a common loss does not use up what an operator's drain may stop."""
    machine = a_store(start)
    serve(machine, {0: MANY}, gpus=0, control=ControlSpec("shards", unavailable_max=MANY))
    tasks = tuple(range(MANY - 1))
    fail(machine, *tasks)
    [begun] = facts(agreed(machine, OperationKind.MOVE, *tasks, by="health"))
    assert isinstance(begun, OperationsBegun)
    assert (MANY - 1, 0) == (len(begun.operations), begun.charged)


def test_gang_counts_once(start: Start) -> None:
    """T27: its operation is charged to whoever asked, and the order to stop that follows is charged to nobody."""
    machine = a_store(start)
    serve(machine, kind=Kind.TRAINING)
    operate(machine, OperationKind.MOVE, by="rebalancer")
    consent(machine, 1)
    wanted = [
        OperationsBegun(*attempt(), (1,), BegunBy.ACK, "rebalancer", 1),
        StopOrdered(*attempt(), EndCause.MOVED),
    ]
    assert wanted == facts(begin(machine, 1))
    spent = machine.state.image.destruction.spent
    assert (1, 0) == (spent("rebalancer", machine.now), spent("somebody", machine.now))
    assert WHOLE in machine.state.image.control.row(*attempt()).tasks


def test_request_without_a_name_has_the_senders(start: Start) -> None:
    """T27: a component cannot do without a name what it may not do under its own."""
    machine = a_store(start)
    serve(machine)
    operate(machine, RESTART, 0, by="", sender="planner.0")
    consent(machine, 1)
    begin(machine, 1)
    assert 1 == machine.state.image.destruction.spent("planner.0", machine.now)


def test_budget_outlives_the_store(start: Start) -> None:
    """T27: it is in the log: a store that starts again has not forgotten what was spent."""
    machine = crowd(start)
    for number in range(DESTRUCTION_MIN):
        order(machine, f"w-{number}")
    again = machine.restart()
    assert [DestructionHalted] == [type(event) for event in facts(order(again, "w-90"))]
