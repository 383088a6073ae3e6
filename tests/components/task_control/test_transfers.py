"""A gang that moves to another region, in the region where it runs: its controller is asked, and it makes way for its next attempt."""

from typing import Any

import pytest

from components.task_control.component import TaskControl
from core.events.control import OperationsBegun, OperationsDone, OperationsRequested
from core.events.moves import MoveBegun, MoveEnded, MovePlanned
from core.events.queue import WorkloadAwarded
from core.events.region import StopOrdered
from core.events.sharing import RoundBegun
from core.events.starts import StartPromised, StartPromiseEnded
from core.fact import Event
from core.messages.base import Refused
from core.messages.control import OperateTasks
from core.messages.reserved_starts import ReserveStart
from core.nouns.ids import GLOBAL_LOG, TenantName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import MOVE_DEADLINE
from core.nouns.moving import MoveCost
from core.nouns.operation import WHOLE, OperationKind, Outcome
from core.nouns.sharing import ShareColumn
from core.nouns.starts import StartOver
from core.nouns.workload import EndCause, Kind
from core.rules.disruption_budget import MOVES
from tests.builders import EU, EU_LOG, US, a_job, a_spread, attempt, submitted
from tests.components.support import placement_store as storing
from tests.components.support.machine import Machine
from tests.components.support.task_control import ALONE, SHARDS, W1, Pair, Start, a_gang
from tests.matching import facts, said, said_once

COST = MoveCost(seconds(85), seconds(40), 85)
PLANNED = MovePlanned(W1, 1, 1, US, COST)
BEGUN = MoveBegun(W1, 1, 1, MOVE_DEADLINE, US, 2)


def runs(start: Start, *, is_controlled: bool = True) -> Pair:
    """A gang, with a controller or without."""
    pair = Pair(start)
    pair.grant(a_gang(control=SHARDS if is_controlled else ALONE))
    return pair


def of(pair: Pair, *kinds: type) -> list[object]:
    """What the store recorded of these."""
    return [event for event in pair.facts if isinstance(event, kinds)]


def test_nothing_is_asked_before_its_capacity_is_reserved(start: Start) -> None:
    """A plan alone stops no attempt."""
    pair = runs(start)
    pair.queue(PLANNED)
    pair.settle()
    assert [] == of(pair, OperationsRequested, StopOrdered)


def test_controller_is_asked_and_agrees(start: Start) -> None:
    """Once, with the reason and the deadline; then the gang is stopped as moved."""
    pair = runs(start)
    pair.queue(PLANNED, BEGUN)
    pair.settle()
    (asked,) = of(pair, OperationsRequested)
    wanted = OperationsRequested(
        *attempt(), 1, OperationKind.MOVE, (WHOLE,), "it moves to another region", "t-1", MOVE_DEADLINE, MOVES
    )
    assert wanted == asked
    assert [] == of(pair, StopOrdered)
    pair.ack(1)
    pair.settle()
    (stop,) = of(pair, StopOrdered)
    assert isinstance(stop, StopOrdered)
    assert EndCause.MOVED == stop.cause


def test_controller_that_is_silent_has_until_the_deadline(start: Start) -> None:
    """Not a moment less, and not for ever."""
    pair = runs(start)
    pair.queue(PLANNED, BEGUN)
    pair.settle()
    pair.wait(Nanoseconds(MOVE_DEADLINE - 1))
    assert [] == of(pair, OperationsBegun, StopOrdered)
    pair.wait(seconds(5))
    assert 1 == len(of(pair, StopOrdered))


def test_gang_without_a_controller_is_stopped_at_once(start: Start) -> None:
    """Nobody need be asked."""
    pair = runs(start, is_controlled=False)
    pair.queue(PLANNED, BEGUN)
    pair.settle()
    assert 1 == len(of(pair, StopOrdered))


def test_job_that_leaves_a_round_is_stopped_by_the_fact_that_began_it(start: Start) -> None:
    """At once, though nothing else happens in its region; one that stays goes on."""
    pair = runs(start, is_controlled=False)
    pair.grant(a_gang(workload="w-2", first=4, control=ALONE))
    pair.wait(seconds(60))
    pair.queue(RoundBegun(7, (ShareColumn(EU, "H100"),), {}, (W1,), seconds(30)))
    pair.settle()
    (stop,) = of(pair, StopOrdered)
    assert isinstance(stop, StopOrdered)
    assert (W1, EndCause.ROUND_OVER) == (stop.workload, stop.cause)


def test_move_that_is_over_is_withdrawn(start: Start) -> None:
    """Its controller is told, and a yes that comes late stops nothing."""
    pair = runs(start)
    pair.queue(PLANNED, BEGUN)
    pair.settle()
    pair.queue(MoveEnded(W1, 1, StartOver.DISPLACED))
    pair.settle()
    (done,) = of(pair, OperationsDone)
    assert isinstance(done, OperationsDone)
    assert Outcome.WITHDRAWN == done.outcome
    pair.wait(Nanoseconds(2 * MOVE_DEADLINE))
    assert [] == of(pair, StopOrdered)


def test_another_attempt_is_left_alone(start: Start) -> None:
    """What is said of one that is not here, or not any more, stops nobody."""
    pair = runs(start)
    pair.queue(MoveBegun(W1, 1, 2, MOVE_DEADLINE, US, 2))
    pair.settle()
    assert [] == of(pair, OperationsRequested)


@pytest.mark.parametrize(("source", "epoch"), [("t-1", 1), ("t-2", 1)])
def test_store_asks_the_queues_log(start: Start, source: str, epoch: int) -> None:
    """Whoever says that a gang is to make way, the log must show it, of this attempt and this move."""
    pair = runs(start)
    if source == "t-2":
        pair.queue(PLANNED, BEGUN)
    wanted = OperateTasks(EU, W1, epoch, OperationKind.MOVE, (WHOLE,), "x", source, MOVE_DEADLINE, MOVES)
    assert said(pair.store.hear(wanted), Refused)


def test_task_control_that_hears_of_it_late(start: Start) -> None:
    """It started while the queue was silent, and nothing was ever asked of the gang."""
    pair = runs(start)
    control = start(TaskControl(EU), unknown=(GLOBAL_LOG,))
    for event in [fact.event for fact in pair.store.logs[EU_LOG] if isinstance(fact.event, Event)]:
        control.fact(EU_LOG, event)
    control.wake()
    shown = [fact.event for fact in pair.store.logs[GLOBAL_LOG] if isinstance(fact.event, Event)]
    control.adopt(GLOBAL_LOG, *shown, PLANNED, BEGUN)
    assert "t-1" == said_once(control.wake(), OperateTasks).source


# Where it goes.


PROMISED = StartPromised(W1, 1, EU, seconds(700), seconds(680), (a_spread({0: 1}),), 3, is_move=True)
"""A gang that runs elsewhere is to go on here, with a checkpoint that takes ten minutes."""


def keeps(start: Start) -> Machine[Any]:
    """A store that keeps the room."""
    store = storing.a_store(start)
    store.fact(GLOBAL_LOG, submitted(1), WorkloadAwarded(W1, 1, US, 0, ()))
    sequence = store.fact(GLOBAL_LOG, PROMISED)
    tenant = TenantName("default")
    asked = ReserveStart(
        EU, W1, 1, PROMISED.reserve_in, 3, Kind.TRAINING, tenant, (a_job(),), PROMISED.spreads, sequence
    )
    assert 1 == len(facts(store.hear(asked)))
    return store


def test_capacity_is_kept_until_the_checkpoint_is_there(start: Start) -> None:
    """However long that takes, and a while longer; then it is for others."""
    store = keeps(start)
    assert [] == facts(store.wait(PROMISED.reserve_in))
    assert [StartOver.LAPSED] == [getattr(event, "reason", None) for event in facts(store.wait(seconds(120)))]


def test_capacity_of_a_move_that_is_called_off(start: Start) -> None:
    """It is not recorded as used: its workload runs where it ran."""
    store = keeps(start)
    store.fact(GLOBAL_LOG, StartPromiseEnded(WorkloadId("w-1"), 1, StartOver.GIVEN_UP))
    (over,) = facts(store.wake())
    assert StartOver.GIVEN_UP == getattr(over, "reason", None)
