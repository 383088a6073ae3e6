"""How the broker ends what is strict: never before all of it must have stopped by itself."""

from msgspec.structs import replace

from core.events.region import NodesLost, StopOrdered
from core.messages.store import OrderStop, RecordEnd
from core.messages.workers import PrepareTasks, StopTasks
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import GRACE
from core.nouns.operation import ControlSpec
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, attempt, granted
from tests.components.support.region_broker import (
    ENDED,
    GANG,
    NEVER,
    RUNNING,
    W0,
    W1,
    Start,
    running,
    with_gang,
    words,
)
from tests.matching import said, said_once

STRICT = ControlSpec(is_strict=True, isolation=seconds(40))


def test_isolation_is_told_to_the_workers_of_a_strict_gang(start: Start) -> None:
    """No other gang's share stops by itself."""
    told = said(with_gang(start, replace(GANG, control=STRICT)).machine.wake(), PrepareTasks)
    assert [seconds(40), seconds(40)] == [one.isolation for one in told]
    lax = ControlSpec(isolation=seconds(40))
    told = said(with_gang(start, replace(GANG, control=lax)).machine.wake(), PrepareTasks)
    assert [0, 0] == [one.isolation for one in told]


def test_strict_attempt_that_lost_a_worker(start: Start) -> None:
    """T26: it is over only once what was cut off has stopped by itself, and has had its grace: never do two runs live."""
    broker = running(start, granted(replace(GANG, control=STRICT)))
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    assert [OrderStop(EU, *attempt(), EndCause.NODE_LOST)] == words(broker.machine.wake())
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.NODE_LOST))
    broker.machine.wake()
    broker.report(W0, replace(ENDED, exit_code=143))
    sure = Nanoseconds(seconds(40) + GRACE)
    assert NEVER == words(broker.wait(Nanoseconds(sure - seconds(1)), W0), RecordEnd)
    assert {EndCause.NODE_LOST} == {one.cause for one in said(broker.wait(seconds(1), W0), RecordEnd)}


def test_strict_attempt_that_lost_all_its_workers(start: Start) -> None:
    """The order is recorded at once, and the end when it is sure; whoever starts the broker anew counts from then."""
    broker = running(start, granted(replace(GANG, control=STRICT)))
    broker.machine.fact(EU_LOG, NodesLost(W0, (0, 1)), NodesLost(W1, (2, 3)))
    assert [OrderStop(EU, *attempt(), EndCause.NODE_LOST)] == words(broker.machine.wake())
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.NODE_LOST))
    broker.wait(seconds(60))
    again = broker.restart()
    sure = Nanoseconds(seconds(40) + GRACE)
    assert NEVER == words(again.wait(Nanoseconds(sure - seconds(1))), RecordEnd)
    assert {EndCause.NODE_LOST} == {one.cause for one in said(again.wait(seconds(1)), RecordEnd)}


def test_strict_attempt_on_a_lost_worker_that_is_heard_again(start: Start) -> None:
    """Its share is stopped at the worker's first beat, and once the worker says that it has ended nothing is waited for."""
    broker = running(start, granted(replace(GANG, control=STRICT)))
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)), StopOrdered(*attempt(), EndCause.NODE_LOST))
    broker.machine.wake()
    broker.report(W0, replace(ENDED, exit_code=143))
    assert NEVER == words(broker.machine.wake(), RecordEnd)
    assert [W1] == [one.worker for one in said(broker.beat(W1, RUNNING), StopTasks)]
    broker.beat(W1, replace(ENDED, exit_code=143))
    assert EndCause.NODE_LOST == said_once(broker.machine.wake(), RecordEnd).cause
