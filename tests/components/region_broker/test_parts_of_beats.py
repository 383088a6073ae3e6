"""A beat of which the host leaves shares out, because the broker failed on their like (runtime/status/put_aside.py)."""

from core.events.region import GangStarted, NodesLost
from core.messages.nodes import CloseNodes
from core.messages.store import OrderStop, RecordLoss, RecordReturn
from core.messages.workers import BeatHeard
from core.nouns.limits import PRESENCE_INTERVAL, PRESENCE_SILENCE_MAX
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
    a_broker,
    running,
    words,
)
from tests.matching import said, said_once


def test_share_that_is_left_out_stays_as_it_was(start: Start) -> None:
    """Its gang runs on; a share that is missing from the whole beat has ended."""
    broker = running(start)
    assert [BeatHeard] == [type(word) for word in words(broker.part_of_beat(W1, unsaid=RUNNING.key))]
    assert NEVER == words(broker.machine.wake())
    broker.beat(W1)
    assert [OrderStop(EU, *attempt(), EndCause.NODE_FAILED)] == words(broker.machine.wake())


def test_share_that_a_new_broker_never_heard_of_is_there(start: Start) -> None:
    """The first beat ends shares that it does not name; one that is left out is named."""
    again = running(start).restart()
    again.beat(W0, RUNNING)
    again.part_of_beat(W1, unsaid=RUNNING.key)
    assert NEVER == words(again.machine.wake())


def test_worker_with_a_share_that_is_left_out_is_heard(start: Start) -> None:
    """Its beats are acknowledged, and it is never taken for silent."""
    broker = running(start)
    for _ in range(2 * PRESENCE_SILENCE_MAX // PRESENCE_INTERVAL):
        broker.beat(W0, RUNNING)
        assert W1 == said_once(broker.part_of_beat(W1, unsaid=RUNNING.key), BeatHeard).worker
        assert NEVER == words(broker.machine.wait(PRESENCE_INTERVAL), CloseNodes, RecordLoss)


def test_lost_worker_with_a_share_that_is_left_out_is_not_empty(start: Start) -> None:
    """What nobody told of may still run."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(GANG), GangStarted(*attempt()), NodesLost(W1, (2, 3)))
    broker.machine.wake()
    assert [] == said(broker.part_of_beat(W1, unsaid=ENDED.key), RecordReturn)
    assert [W1] == [one.worker for one in said(broker.beat(W1, ENDED), RecordReturn)]
