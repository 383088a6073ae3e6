"""Names come and go for ever: a broker remembers agents, workers and attempts only while they can matter."""

import pytest
from msgspec.structs import replace

from components.region_broker.state import BrokerState
from core.events.region import AttemptEnded
from core.messages.agents import AgentPresent
from core.messages.workers import InventoryWanted
from core.nouns.ids import AgentName, WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import AGENTS_MAX, PRESENCE_SILENCE_MAX, STRANGER_SPAN, STRANGERS_MAX
from core.nouns.workload import EndCause
from tests.builders import EU, EU_LOG, attempt, joined
from tests.components.support.region_broker import RUNNING, W0, W1, Start, a_broker, with_gang
from tests.matching import said

A0 = AgentName("a0")


def test_agents_that_came_and_went_are_forgotten(start: Start) -> None:
    """Each start of an agent under a new name leaves nothing once the agent is silent; one that still shows itself stays."""
    broker = a_broker(start)
    for number in range(20):
        broker.machine.hear(AgentPresent(EU, AgentName(f"b{number}")))
        broker.machine.hear(AgentPresent(EU, A0))
        broker.machine.wait(PRESENCE_SILENCE_MAX)
    broker.machine.hear(AgentPresent(EU, A0))
    broker.machine.hear(AgentPresent(EU, AgentName("b20")))
    assert {A0, "b20"} == set(broker.machine.state.agents)


def test_agents_of_one_moment_are_bounded(start: Start) -> None:
    """Of more than a region can have, those heard longest ago are forgotten."""
    broker = a_broker(start)
    for number in range(AGENTS_MAX + 10):
        broker.machine.wait(Nanoseconds(1))
        broker.machine.hear(AgentPresent(EU, AgentName(f"b{number}")))
    agents = broker.machine.state.agents
    assert AGENTS_MAX == len(agents)
    assert {"b9", "b10", f"b{AGENTS_MAX + 9}"} & set(agents) == {"b10", f"b{AGENTS_MAX + 9}"}


def remembered(state: BrokerState) -> set[str]:
    """Workers of which anything is remembered."""
    health = state.health
    return {
        *state.orders,
        *state.counted,
        *state.strangers,
        *state.shares._by_worker,
        *health.heard,
        *health.beating,
        *health.ill,
    }


@pytest.mark.parametrize("is_silent", [True, False])
def test_workers_without_nodes_are_forgotten(start: Start, *, is_silent: bool) -> None:
    """A worker that never joins is asked for its nodes at each beat, and leaves nothing once it is silent or others are too many."""
    broker = a_broker(start)
    strangers = [WorkerName(f"s{number}") for number in range(3 if is_silent else STRANGERS_MAX + 3)]
    for worker in strangers:
        told = broker.beat(worker, replace(RUNNING, workload=f"w-{worker}"))
        assert [worker] == [one.worker for one in said(told, InventoryWanted)]
    if is_silent:
        broker.wait(STRANGER_SPAN, every=Nanoseconds(STRANGER_SPAN // 10))
    last = WorkerName("last")
    broker.beat(last)
    kept = {last} if is_silent else {last, *strangers[4:]}
    assert {W0, W1, *kept} == remembered(broker.machine.state)
    assert {"w-1", *(f"w-{one}" for one in kept - {last})} >= {
        key[0] for key in broker.machine.state.shares._by_attempt
    }


def test_worker_that_joins_is_no_stranger(start: Start) -> None:
    """What it reported before stays, so that an older report changes nothing."""
    broker = a_broker(start)
    late = WorkerName("w2")
    broker.beat(late, order=(1, 7))
    broker.machine.fact(EU_LOG, joined("w2", 4, 2))
    broker.wait(STRANGER_SPAN, W0, W1, every=Nanoseconds(STRANGER_SPAN // 60))
    broker.beat(WorkerName("other"))
    assert (1, 7) == broker.machine.state.orders[late]


def test_attempt_that_ended_unheard_is_forgotten(start: Start) -> None:
    """The broker missed the end, and starts from an image in which the attempt has ended."""
    broker = with_gang(start)
    assert {attempt()} == set(broker.machine.state.first_seen)
    broker.machine.adopt(EU_LOG, AttemptEnded(*attempt(), EndCause.COMPLETED))
    assert {} == broker.machine.state.first_seen
