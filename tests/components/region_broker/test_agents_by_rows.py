"""Which agent gets which request where most agents take in rows alone, and what operators see of agents."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.component import NOTHING
from core.events.agents import AgentsSet
from core.events.starts import StartReserved, StartUnreserved
from core.messages.agents import (
    AgentFigures,
    AgentPresent,
    AgentsShown,
    AwardHandedBack,
    FindBid,
    PlaceAward,
    RequestHandedBack,
    ShowAgents,
)
from core.messages.broker import ExecuteAward, SolicitBid
from core.nouns.agents import AgentSettings, AgentView
from core.nouns.ids import AgentName, TenantName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import HANDED_BACK_SPAN, PRESENCE_SILENCE_MAX, SHAPES_HANDED_BACK_MAX
from core.nouns.starts import StartOver
from core.nouns.workload import Kind
from core.placing.partitions import owned_by
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, attempt, granted
from tests.components.support.region_broker import Broker, Start, a_broker
from tests.matching import said_once

SOLICIT = SolicitBid(EU, WorkloadId("w-1"), "1.0", (a_job(),), 3, Kind.TRAINING)
PARSYNC = AgentSettings(view=AgentView.PARSYNC, full=2)
FULL, BY_ROWS = ("a0", "a1"), ("a2", "a3", "a4")


def six(start: Start, settings: AgentSettings = PARSYNC) -> Broker:
    """Two full agents and three with partitions."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, AgentsSet(settings))
    for agent in (*FULL, *BY_ROWS):
        broker.machine.hear(AgentPresent(EU, AgentName(agent)))
    return broker


def asked(broker: Broker, request: SolicitBid = SOLICIT) -> FindBid:
    """Who is asked, and for what turn."""
    return said_once(broker.machine.hear(request), FindBid)


def award(**fields: Any) -> ExecuteAward:
    """An award of an agent's bid."""
    made = ExecuteAward(EU, *attempt("w-1"), 1, 3, Kind.TRAINING, (a_job(),), AgentName("a3"), ())
    return replace(made, **fields)


def test_agents_with_partitions_are_asked_in_turn(start: Start) -> None:
    """Each owns others at one moment."""
    broker = six(start)
    found = [asked(broker) for _ in range(6)]
    assert [*BY_ROWS, *BY_ROWS] == sorted(one.agent for one in found[:3]) + sorted(
        one.agent for one in found[3:]
    )
    owned = [set(owned_by(one.turn, 64)) for one in found[:3]]
    assert set(range(64)) == set().union(*owned)
    assert 64 == sum(map(len, owned))
    assert not any(one.turn.is_full for one in found)


def test_rounds_follow_the_clock(start: Start) -> None:
    """A third of the span later each owns what another owned before."""
    broker = six(start, replace(PARSYNC, sync_every=seconds(3)))
    before = {one.agent: one.turn.round for one in (asked(broker) for _ in range(3))}
    broker.machine.wait(seconds(1))
    after = {one.agent: one.turn.round for one in (asked(broker) for _ in range(3))}
    assert {agent: number + 1 for agent, number in before.items()} == after


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"jobs": (replace(a_job(), is_alone=True),)}, id="alone on its node"),
        pytest.param({"jobs": (a_job(1, 0.5),)}, id="part of a device"),
        pytest.param({"beside": attempt("w-9")}, id="guest"),
        pytest.param({"wants_prospect": True}, id="when it could start"),
        pytest.param({"spares_all": True}, id="promised a start"),
    ],
)
def test_what_rows_cannot_tell_goes_to_a_full_agent(start: Start, fields: dict[str, Any]) -> None:
    """At once."""
    found = asked(six(start), replace(SOLICIT, **fields))
    assert found.agent in FULL
    assert found.turn.is_full


def test_workload_with_a_reserved_start_goes_to_a_full_agent(start: Start) -> None:
    """Its request and its award: to other agents its nodes are kept for someone."""
    broker = six(start)
    reserved = StartReserved(
        SOLICIT.workload, 1, seconds(9), 3, "training", TenantName(""), SOLICIT.jobs, (a_spread({0: 1}),), 1
    )
    broker.machine.fact(EU_LOG, reserved)
    assert all(asked(broker).agent in FULL for _ in range(6))
    placed = said_once(broker.machine.hear(award(agent=AgentName("a4"))), PlaceAward)
    assert placed.agent in FULL
    broker.machine.fact(EU_LOG, StartUnreserved(SOLICIT.workload, 1, StartOver.GIVEN_UP))
    assert asked(broker).agent in BY_ROWS


def test_wait_in_the_brokers_inbox_counts(start: Start) -> None:
    """S8: an agent is told how long a request had waited before."""
    broker = six(start)
    found = said_once(broker.machine.hear(SOLICIT, waited=seconds(2)), FindBid)
    assert seconds(2) == found.waited
    placed = said_once(broker.machine.hear(award(), waited=seconds(3)), PlaceAward)
    assert seconds(3) == placed.waited


def test_request_that_is_handed_back_goes_to_a_full_agent(start: Start) -> None:
    """And for a second all of its shape; others still go to agents with partitions."""
    broker = six(start)
    handed = broker.machine.hear(RequestHandedBack(EU, AgentName("a2"), SOLICIT))
    assert said_once(handed, FindBid).agent in FULL
    same = replace(SOLICIT, workload=WorkloadId("w-2"), jobs=(replace(a_job(), name="other"),))
    assert asked(broker, same).agent in FULL
    assert asked(broker, replace(SOLICIT, jobs=(a_job(2, 1),))).agent in BY_ROWS
    broker.machine.wait(HANDED_BACK_SPAN)
    assert asked(broker, same).agent in BY_ROWS


def test_award_that_is_handed_back_goes_to_a_full_agent(start: Start) -> None:
    """Unless the log shows by now what became of it."""
    broker = six(start)
    back = AwardHandedBack(EU, AgentName("a3"), award())
    assert said_once(broker.machine.hear(back), PlaceAward).agent in FULL
    broker.machine.fact(EU_LOG, granted(a_claim("w-1")))
    assert () == broker.machine.hear(back).messages


def test_award_goes_to_the_agent_that_bid(start: Start) -> None:
    """With victims to a full one: another bid cannot be had of an agent that knows of none."""
    broker = six(start)
    assert "a3" == said_once(broker.machine.hear(award()), PlaceAward).agent
    over = award(victims=(attempt("w-9"),))
    assert said_once(broker.machine.hear(over), PlaceAward).agent in FULL
    full = award(victims=(attempt("w-9"),), agent=AgentName("a1"))
    assert "a1" == said_once(broker.machine.hear(full), PlaceAward).agent


def test_agents_that_die_change_the_numbers(start: Start) -> None:
    """S10, S11: the next by name are full then, and nobody's partitions are left out."""
    broker = six(start)
    for _ in range(3):
        broker.machine.wait(seconds(PRESENCE_SILENCE_MAX / 2e9))
        for agent in ("a1", "a3", "a4"):
            broker.machine.hear(AgentPresent(EU, AgentName(agent)))
    found = asked(broker)
    assert ("a4", 1) == (found.agent, found.turn.agents)
    assert set(range(64)) == set(owned_by(found.turn, 64))
    assert asked(broker, replace(SOLICIT, wants_prospect=True)).agent in ("a1", "a3")


def test_few_agents_are_all_full(start: Start) -> None:
    """Better two that know everything than none that knows of preemption."""
    broker = a_broker(start)
    broker.machine.fact(EU_LOG, AgentsSet(PARSYNC))
    for agent in FULL:
        broker.machine.hear(AgentPresent(EU, AgentName(agent)))
    assert asked(broker).turn.is_full


def test_handed_back_without_agents(start: Start) -> None:
    """Nobody is there: queue and broker repeat what stays unanswered."""
    broker = a_broker(start)
    assert NOTHING.messages == broker.machine.hear(RequestHandedBack(EU, AgentName("a2"), SOLICIT)).messages


def test_shapes_that_are_remembered_have_a_ceiling(start: Start) -> None:
    """The oldest is forgotten."""
    broker = six(start)
    for number in range(SHAPES_HANDED_BACK_MAX + 5):
        request = replace(SOLICIT, jobs=(a_job(number + 1, 1),))
        broker.machine.hear(RequestHandedBack(EU, AgentName("a2"), request))
    assert SHAPES_HANDED_BACK_MAX == len(broker.machine.state.handed_back)


def test_agents_are_shown(start: Start) -> None:
    """S13: as they told of themselves, how long ago, and who counts as full."""
    broker = six(start)
    told = AgentFigures(view="parsync", requests=7, claims=9, conflicts=2)
    broker.machine.hear(AgentPresent(EU, AgentName("a3"), told))
    broker.machine.wait(seconds(1))
    shown = said_once(broker.machine.hear(ShowAgents(EU)), AgentsShown)
    assert [*FULL, *BY_ROWS] == [one.agent for one in shown.agents]
    assert [True, True, False, False, False] == [one.is_full for one in shown.agents]
    assert told == shown.agents[3].figures
    assert seconds(1) <= shown.agents[3].heard < seconds(2)
    assert (PARSYNC, 1) == (shown.settings, shown.revision)
