"""A rule that raises costs a search its place and nothing else: the agent says so where it is asked, and lives."""

from collections.abc import Callable
from typing import Any

import pytest

from components.allocation_agent.component import AllocationAgent
from core.component import Decision
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded
from core.fact import Event
from core.messages.agents import AgentPresent, FindBid
from core.messages.broker import SolicitBid
from core.messages.control import PlaceTasks
from core.messages.queue import Abstention, Bid
from core.nouns.ids import AgentName, TenantName, WorkloadId
from core.nouns.limits import PRESENCE_INTERVAL
from core.nouns.operation import TaskMove
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.preemption import victims
from core.rules.placement import rule_sets
from core.rules.placement.rule import ClusterValidator, NodeValidator, Request, Rule
from tests.builders import EU, EU_LOG, a_claim, a_job, amount, attempt, granted, joined
from tests.components.support.machine import Machine
from tests.components.support.placement_store import Start
from tests.core.placing.rooms import a_group, alone, hard_and, here
from tests.core.placing.test_rule_sets import Fails, FailsOfFew, FailsOfRack, FailsToAllow
from tests.matching import said, said_once

A0 = AgentName("a0")
RAISES = [Fails(2), FailsToAllow(), FailsOfRack(2), FailsOfFew()]
"""Each where five GPUs are free."""
AgentWith = Callable[..., Machine[Any]]


class FailsOnCluster(ClusterValidator):
    """Asked about batch work."""

    name = "fails"
    traits = frozenset({"kind"})
    reason = Reason.INVALID

    def admits(self, cluster: object, request: Request) -> bool:
        if request.kind is Kind.BATCH:
            raise KeyError("zone")
        return True


class FailsAtGrant(FailsToAllow):
    """Asked about one node."""

    def allows(self, rows: Any, request: Request) -> Any:  # Any: of rows, flags
        return rows.gpu >= 0

    def allows_at(self, present: object, node: int, request: Request) -> bool:
        raise KeyError(node)


@pytest.fixture
def agent_with(start: Start, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> AgentWith:
    """One whose pool is searched by the hard rules and this one; by default its region has two nodes of 8 GPUs, a rack each."""

    def agent(rule: Rule, *events: Event) -> Machine[Any]:
        name = request.node.name  # A plan is remembered by its name.
        monkeypatch.setitem(rule_sets.RULE_SETS, name, hard_and(rule))
        machine = start(AllocationAgent(EU, A0))
        settings = PoolChanged("training", PoolSettings(name), "olga")
        machine.fact(EU_LOG, *(events or (here(a_group(0, 2)),)), settings)
        machine.wake()
        return machine

    return agent


def ask(
    machine: Machine[Any],
    *jobs: JobSpec,
    workload: str = "w-1",
    kind: Kind = Kind.TRAINING,
    priority: int = 3,
) -> Decision:
    """The broker hands it a request for a bid."""
    request = SolicitBid(
        EU, WorkloadId(workload), f"auction of {workload}", jobs, priority, kind, tenant=TenantName("me")
    )
    return machine.hear(FindBid(EU, A0, request))


def reason_of(decision: Decision) -> str:
    """Why it does not bid."""
    return said_once(decision, Abstention).reason


def leaves_five(node: int = 0) -> Event:
    """Somebody holds three GPUs of it."""
    return granted(a_claim("w-9", placed={node: 3}))


@pytest.mark.parametrize("rule", RAISES, ids=lambda rule: type(rule).__name__)
def test_beat_goes_on(agent_with: AgentWith, rule: Rule) -> None:
    """P6: what an agent works out while nobody waits may raise: it still says that it is there, and bids once it can again."""
    machine = agent_with(rule)
    assert Reason.NO_SUCH_HARDWARE == reason_of(ask(machine, a_job(3, 8)))
    machine.fact(EU_LOG, leaves_five())
    assert said(machine.wait(PRESENCE_INTERVAL), AgentPresent)
    assert Reason.RULE_FAILED == reason_of(ask(machine, a_job(), workload="w-2"))
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    said_once(ask(machine, a_job(), workload="w-2"), Bid)


@pytest.mark.parametrize("rule", RAISES, ids=lambda rule: type(rule).__name__)
def test_tasks_stay_where_they_are(agent_with: AgentWith, rule: Rule) -> None:
    """P6: no room is found for tasks that should move, however often they are asked for, and what is known stays right."""
    service = granted(a_claim("w-1", placed={0: 8}, kind=Kind.SERVICE))
    machine = agent_with(rule, here(a_group(0, 3)), service, leaves_five(1))
    for _ in range(2):
        asked = PlaceTasks(EU, A0, *attempt(), 1, (TaskMove(0, 0, -1),))
        assert () == machine.hear(asked).messages
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    said_once(ask(machine, a_job(2, 8)), Bid)


def test_rule_on_clusters_raises_for_tasks_that_move(agent_with: AgentWith) -> None:
    """P6: and for a bid."""
    machine = agent_with(
        FailsOnCluster(), here(a_group(0, 3)), granted(a_claim(placed={0: 1}, kind=Kind.BATCH))
    )
    assert () == machine.hear(PlaceTasks(EU, A0, *attempt(), 1, (TaskMove(0, 0, -1),))).messages
    assert Reason.RULE_FAILED == reason_of(ask(machine, a_job(), workload="w-2", kind=Kind.BATCH))
    said_once(ask(machine, a_job(), workload="w-2"), Bid)


def test_rule_that_raises_for_empty_nodes_alone(agent_with: AgentWith) -> None:
    """P6: asked whether a job could ever fit, which is asked of nodes as if nothing ran there."""
    nodes = joined("w0", 0, 2, total=amount(5, 64, 512))
    busy = [granted(a_claim(f"w-{node + 7}", placed={node: 1})) for node in range(2)]
    machine = agent_with(FailsToAllow(), nodes, *busy)
    assert Reason.RULE_FAILED == reason_of(ask(machine, a_job(1, 5)))
    said_once(ask(machine, a_job(1, 4), workload="w-2"), Bid)


def test_rule_that_raises_for_capacity_of_victims(agent_with: AgentWith) -> None:
    """P6: a rack that a rule cannot judge is not taken for one that the rule judges best."""
    busy = (
        granted(a_claim("w-8", placed={0: 3}, priority=7)),
        granted(a_claim("w-7", placed={0: 5}, priority=1)),
    )
    machine = agent_with(FailsOfRack(2), here(a_group(0)), *busy)
    assert Reason.RULE_FAILED == reason_of(ask(machine, a_job(1, 5), priority=5))


def test_rule_that_raises_about_a_node_that_victims_leave(
    agent_with: AgentWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: asked who of those that could be pushed out is in the way."""
    rule: NodeValidator = FailsAtGrant()
    monkeypatch.setattr(victims, "PASSING", (rule,))
    machine = agent_with(rule, here(a_group(0)), granted(a_claim("w-7", placed={0: 8}, priority=1)))
    assert Reason.RULE_FAILED == reason_of(ask(machine, alone(a_job(1, 5)), priority=5))
