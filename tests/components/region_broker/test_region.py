"""What the broker does for its region: hands requests to agents, and watches who is there."""

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.region import AttemptEnded, AwardDeclined, GangStarted, NodesLost, NodesReturned, StopOrdered
from core.messages.agents import AgentPresent, FindBid, PlaceAward, PresenceWanted
from core.messages.base import BusBack, BusLost
from core.messages.broker import ExecuteAward, SolicitBid, StopAttempt, WithdrawAward
from core.messages.nodes import RecordDomainLoss
from core.messages.store import DeclineAward, OrderStop, RecordJoin, RecordLoss, RecordReturn
from core.messages.workers import (
    BeatHeard,
    EndRecorded,
    InventoryWanted,
    StopTasks,
    TasksState,
    WorkerInventory,
)
from core.nouns.ids import AgentName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.limits import COMMAND_SAY_AGAIN, HEAD_INTERVAL, PRESENCE_SILENCE_MAX, STRIPE_SPAN
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind
from core.placing.partitions import owned_by
from tests.builders import EU, EU_LOG, a_claim, a_job, an_inventory, attempt, granted, joined, promised
from tests.components.support.region_broker import (
    ENDED,
    GANG,
    PREPARED,
    RUNNING,
    STOPPING,
    W0,
    W1,
    Broker,
    Start,
    a_broker,
)
from tests.matching import said, said_once

SOLICIT = SolicitBid(EU, WorkloadId("w-1"), "1.0", (a_job(),), 3, Kind.TRAINING)
A0, A1 = AgentName("a0"), AgentName("a1")


def execute(agent: AgentName = A0) -> ExecuteAward:
    """An award that this agent bid for."""
    return ExecuteAward(EU, *attempt(), 1, 3, Kind.TRAINING, (a_job(),), agent, ())


def with_agents(start: Start, *agents: AgentName) -> Broker:
    """These agents have shown that they are there."""
    broker = a_broker(start)
    for agent in agents:
        broker.machine.hear(AgentPresent(EU, agent))
    return broker


# Agents.


def test_requests_are_handed_to_agents_in_turn(start: Start) -> None:
    """As they came, whatever they ask for."""
    broker = with_agents(start, A1, A0)
    handed = [said_once(broker.machine.hear(SOLICIT), FindBid) for _ in range(4)]
    assert [A0, A1, A0, A1] == [one.agent for one in handed]
    assert {SOLICIT} == {one.request for one in handed}


def test_agents_look_at_other_pods_first(start: Start) -> None:
    """At any moment each of them at another set, and in turn each at all of them."""
    broker = with_agents(start, A0, A1)
    seen: dict[AgentName, set[int]] = {A0: set(), A1: set()}
    for _ in range(2):
        handed = [said_once(broker.machine.hear(SOLICIT), FindBid) for _ in range(2)]
        assert {2} == {one.turn.agents for one in handed}
        assert all(one.turn.is_full for one in handed)
        owned = [set(owned_by(one.turn, 2)) for one in handed]
        assert not owned[0] & owned[1]
        for one, mine in zip(handed, owned, strict=True):
            seen[one.agent] |= mine
        broker.machine.wait(STRIPE_SPAN)
        for agent in (A0, A1):
            broker.machine.hear(AgentPresent(EU, agent))
    assert {A0: {0, 1}, A1: {0, 1}} == seen


def test_request_when_no_agent_is_there(start: Start) -> None:
    """Silence: the auction closes without this region, and the award is said again."""
    broker = a_broker(start)
    assert NOTHING == broker.machine.hear(SOLICIT)
    assert NOTHING == broker.machine.hear(execute())


def test_agent_that_fell_silent_is_handed_nothing(start: Start) -> None:
    """Until it is heard again."""
    broker = with_agents(start, A0, A1)
    broker.wait(Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000), W0, W1)
    broker.machine.hear(AgentPresent(EU, A1))
    broker.wait(Nanoseconds(2_000_000_000), W0, W1)
    assert [A1, A1] == [said_once(broker.machine.hear(SOLICIT), FindBid).agent for _ in range(2)]
    broker.machine.hear(AgentPresent(EU, A0))
    assert {A0, A1} == {said_once(broker.machine.hear(SOLICIT), FindBid).agent for _ in range(2)}


def test_award_is_handed_to_the_agent_that_bid(start: Start) -> None:
    """P2: its bid counts as taken in its own view. When it is gone, another searches anew."""
    broker = with_agents(start, A0, A1)
    told = said_once(broker.machine.hear(execute(A1)), PlaceAward)
    assert (A1, execute(A1)) == (told.agent, told.award)
    gone = execute(AgentName("a9"))
    assert said_once(broker.machine.hear(gone), PlaceAward).agent in (A0, A1)


@pytest.mark.parametrize("phase", ["promised", "granted", "declined"])
def test_award_that_is_answered_in_the_log(start: Start, phase: str) -> None:
    """The queue is about to read it."""
    broker = with_agents(start, A0)
    claim = a_claim()
    event = {
        "promised": promised(claim),
        "granted": granted(claim),
        "declined": AwardDeclined(*attempt(), "", 1),
    }
    broker.machine.fact(EU_LOG, event[phase])
    assert NOTHING == broker.machine.hear(execute())


def test_started_broker_asks_for_presence(start: Start) -> None:
    """A broker that has just started knows no agent, and asks until one shows itself."""
    broker = a_broker(start, is_known=False)
    assert PresenceWanted(EU, broker.life) in broker.woken.messages
    assert [PresenceWanted(EU, broker.life)] == said(
        broker.wait(HEAD_INTERVAL, every=HEAD_INTERVAL), PresenceWanted
    )
    assert broker.life != broker.restart().life
    broker.machine.hear(AgentPresent(EU, A0))
    assert [] == said(broker.wait(Nanoseconds(5 * HEAD_INTERVAL)), PresenceWanted)


# The queue's other words.


def test_withdrawn_award_is_declined(start: Start) -> None:
    """When nothing of it is in the log: the store decides whether it is too late."""
    broker = a_broker(start)
    withdraw = WithdrawAward(EU, *attempt(), 7, is_overdue=True)
    wanted = DeclineAward(EU, *attempt(), 7, Reason.WITHDRAWN)
    assert (wanted,) == broker.machine.hear(withdraw).messages


@pytest.mark.parametrize("is_overdue", [False, True])
def test_withdrawn_award_that_is_promised(start: Start, *, is_overdue: bool) -> None:
    """A promise has a deadline of its own: it is given up for a wish, and not for being late."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, promised(a_claim()))
    decision = broker.machine.hear(WithdrawAward(EU, *attempt(), 7, is_overdue))
    assert (not is_overdue) == bool(said(decision, DeclineAward))


@pytest.mark.parametrize("is_overdue", [False, True])
def test_withdrawn_award_that_is_granted(start: Start, *, is_overdue: bool) -> None:
    """Too late."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(a_claim()))
    assert NOTHING == broker.machine.hear(WithdrawAward(EU, *attempt(), 7, is_overdue))


def test_attempt_that_the_queue_wants_stopped(start: Start) -> None:
    """The order is recorded, once, for the attempt that is meant."""
    broker = a_broker(start)
    stop = StopAttempt(EU, *attempt(), EndCause.CANCELLED)
    assert NOTHING == broker.machine.hear(stop)
    broker.machine.fact(EU_LOG, granted(GANG))
    assert (OrderStop(EU, *attempt(), EndCause.CANCELLED),) == broker.machine.hear(stop).messages
    assert NOTHING == broker.machine.hear(replace(stop, epoch=2))
    broker.machine.fact(EU_LOG, StopOrdered(*attempt(), EndCause.TIMEOUT))
    assert NOTHING == broker.machine.hear(stop)


# Workers that come.


def test_beat_is_acknowledged(start: Start) -> None:
    """With its order and the log's sequence: a worker obeys while it is heard, and nothing older."""
    broker = a_broker(start)
    decision = broker.beat(W0, order=(1, 9))
    assert (BeatHeard(EU, W0, 2, (1, 9), broker.life),) == decision.messages


def test_unknown_worker(start: Start) -> None:
    """It is asked for its inventory at each beat, and its nodes are recorded until the log has them."""
    broker = a_broker(start)
    w9 = WorkerName("w9")
    assert InventoryWanted(EU, w9) in broker.beat(w9).messages
    inventory = an_inventory("w9", 8, 2)
    told = WorkerInventory(EU, w9, inventory)
    assert (RecordJoin(EU, inventory),) == broker.machine.hear(told).messages
    broker.machine.fact(EU_LOG, joined("w9", 8, 2))
    assert NOTHING == broker.machine.hear(told)
    assert [] == said(broker.beat(w9), InventoryWanted)


# Workers that fall silent.


def losses(broker: Broker, span: Nanoseconds, *alive: WorkerName) -> list[WorkerName]:
    """Who is said to be lost while so much time passes, alone or together."""
    decision = broker.wait(span, *alive)
    alone = [one.worker for one in said(decision, RecordLoss)]
    return alone + [worker for one in said(decision, RecordDomainLoss) for worker in one.workers]


def test_silent_worker_is_lost(start: Start) -> None:
    """After its patience, and again until the log shows it; one that beats is not."""
    broker = a_broker(start)
    assert [] == losses(broker, Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000), W0)
    assert [W1] == losses(broker, Nanoseconds(1_000_000_000), W0)
    assert [W1] == losses(broker, COMMAND_SAY_AGAIN, W0)
    broker.machine.fact(EU_LOG, NodesLost(W1, (2, 3)))
    assert [] == losses(broker, Nanoseconds(3 * PRESENCE_SILENCE_MAX), W0)


def test_loss_names_the_sequence_at_which_it_was_seen(start: Start) -> None:
    """So that a later return is not undone by it."""
    broker = a_broker(start)
    told = said(broker.wait(PRESENCE_SILENCE_MAX, W0), RecordLoss)
    assert {2} == {one.sequence for one in told}
    again = a_broker(start)
    together = said(again.machine.wait(PRESENCE_SILENCE_MAX), RecordDomainLoss)
    assert {2} == {one.sequence for one in together}


def test_report_counts_as_a_sign_of_life(start: Start) -> None:
    """Not only a beat."""
    broker = a_broker(start)
    broker.wait(Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000), W0)
    broker.report(W1, PREPARED)
    assert [] == losses(broker, Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000), W0)


def test_silence_counts_from_the_brokers_start(start: Start) -> None:
    """It heard nobody before."""
    broker = a_broker(start)
    broker.machine.wait(Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000))
    again = broker.restart()
    assert [] == losses(again, Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000))
    assert {W0, W1} == set(losses(again, Nanoseconds(1_000_000_000)))


def test_silence_says_nothing_while_the_bus_is_lost(start: Start) -> None:
    """The broker's own words do not come back either; and afterwards it counts from zero."""
    broker = a_broker(start)
    broker.machine.hear(BusLost())
    assert [] == losses(broker, Nanoseconds(5 * PRESENCE_SILENCE_MAX))
    broker.machine.hear(BusBack())
    assert [] == losses(broker, Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000))
    assert {W0, W1} == set(losses(broker, Nanoseconds(1_000_000_000)))


def test_silence_before_the_bus_was_lost_does_not_count(start: Start) -> None:
    """Silence that was counted before the bus was lost is forgotten."""
    broker = a_broker(start)
    broker.machine.wait(Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000))
    broker.machine.hear(BusLost())
    broker.machine.hear(BusBack())
    assert [] == losses(broker, Nanoseconds(PRESENCE_SILENCE_MAX - 1_000_000_000))


# Workers that return.


def lost(start: Start) -> Broker:
    """The second worker is lost, and with it a gang of both."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(GANG), GangStarted(*attempt()), NodesLost(W1, (2, 3)))
    broker.machine.wake()
    return broker


def test_lost_worker_that_has_nothing_left_returns(start: Start) -> None:
    """At the sequence at which that was seen; ended shares are nothing."""
    broker = lost(start)
    back = RecordReturn(EU, W1, broker.machine.sequence(EU_LOG))
    assert back in broker.beat(W1).messages
    assert back in broker.beat(W1, ENDED).messages


@pytest.mark.parametrize("share", [PREPARED, RUNNING, STOPPING])
def test_lost_worker_that_still_has_something(start: Start, share: TasksState) -> None:
    """It stays lost until it reports empty."""
    broker = lost(start)
    assert [] == said(broker.beat(W1, share), RecordReturn)


def test_lost_worker_with_a_beat_to_the_broker_before(start: Start) -> None:
    """It was empty then. It is asked to repeat its beat to this one, and returns when it does."""
    broker = lost(start)
    again = broker.restart()
    decision = again.beat(W1, life=broker.life)
    assert again.life == said_once(decision, BeatHeard).life
    assert [] == said(decision, RecordReturn)
    assert [W1] == [one.worker for one in said(again.beat(W1), RecordReturn)]


def test_lost_worker_with_an_attempt_that_ended_without_it(start: Start) -> None:
    """Its share is stopped, then its end acknowledged, and then it returns."""
    broker = lost(start)
    from_log = broker.machine
    from_log.fact(EU_LOG, StopOrdered(*attempt(), EndCause.NODE_LOST))
    from_log.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.NODE_LOST))
    decision = broker.beat(W1, RUNNING)
    assert W1 == said_once(decision, StopTasks).worker
    assert [] == said(decision, RecordReturn)
    decision = broker.beat(W1, ENDED)
    assert W1 == said_once(decision, EndRecorded).worker
    assert [W1] == [one.worker for one in said(decision, RecordReturn)]
    from_log.fact(EU_LOG, NodesReturned(W1, (2, 3)))
    assert [] == said(broker.beat(W1), RecordReturn)
    assert {W1} == set(losses(broker, PRESENCE_SILENCE_MAX, W0))


# Reports that come late.


def test_late_report_says_nothing(start: Start) -> None:
    """It was so once: repeated, or overtaken by a later one, it neither changes anything nor is it answered."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, granted(GANG))
    broker.machine.wake()
    broker.report(W0, RUNNING, order=(1, 5))
    assert NOTHING == broker.report(W0, PREPARED, order=(1, 4))
    assert NOTHING == broker.report(W0, ENDED, order=(1, 5))
    assert NOTHING == broker.beat(W0, order=(1, 3))
    broker.report(W1, RUNNING, order=(1, 6))
    assert {"RecordStarted"} == {type(one).__name__ for one in broker.machine.wake().messages}


def test_reports_order_begins_again_with_a_workers_start(start: Start) -> None:
    """A later start is later, however few its reports; an earlier one is old, however many."""
    broker = a_broker(start)
    broker.beat(W0, order=(1, 900))
    assert BeatHeard(EU, W0, 2, (2, 0), broker.life) in broker.beat(W0, order=(2, 0)).messages
    assert NOTHING == broker.beat(W0, order=(1, 901))


def test_workers_orders_are_their_own(start: Start) -> None:
    """One that reports often does not make another late."""
    broker = a_broker(start)
    broker.beat(W0, order=(5, 900))
    assert NOTHING != broker.beat(W1, order=(1, 50))
