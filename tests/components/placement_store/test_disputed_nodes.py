"""Nodes that are claimed again and again by agents who should know better: closed for a while, so that their tries go elsewhere."""

from typing import Any

import pytest
from msgspec.structs import replace

from bench.support.agents.lagging import EAST, Asked, Crowd, LaggingAgent
from components.allocation_agent.component import AllocationAgent
from components.allocation_agent.state import AgentState
from components.placement_store.disputed_nodes import DISPUTE, Disputes, NodesDisputed
from core.events.control import NodesClosed, NodesOpened
from core.events.region import AwardDeclined
from core.fact import NO_LOG, Fact
from core.images import RegionImage
from core.invariants.consistency import check_ledger
from core.messages.base import Envelope, Message, Woken
from core.messages.control import ChangeAttempt, PlaceTasks, ReviseClaim, RevisionAnswered
from core.messages.nodes import DrainNodes
from core.messages.pools import SetPool
from core.messages.store import RecordJoin, SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, ClaimId, WorkerName
from core.nouns.instant import seconds
from core.nouns.limits import CLAIM_TRIES_MAX, DISPUTE_HOLD, DISPUTE_SPAN, DISPUTED_KEPT_MAX, DISPUTES_MAX
from core.nouns.maintenance import ClosureKind, Scope, ScopeKind
from core.nouns.operation import OperationKind, TaskMove
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from mizzen.views.nodes.node_states import NodeStates, state_text
from tests.builders import EU, EU_LOG, NODE, START, a_claim, a_job, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    Start,
    a_store,
    agreed,
    award,
    claim,
    fail,
    place,
    serve,
    verdict,
)
from tests.matching import facts, said_once

NEWEST = -1
"""A view of all that the store has recorded."""


class WrongAboutOne(AllocationAgent):
    """It believes one GPU of each of these full nodes to be free, whatever it is told."""

    nodes: tuple[int, ...] = (0,)

    def evolve(self, state: AgentState, fact: Fact) -> AgentState:
        """What is so, and then what is not."""
        state = super().evolve(state, fact)
        capacity = state.image.capacity
        for node in self.nodes:
            if capacity.has_node(node):
                capacity.gpu.free[node] = 1_000
                state.placer.touch((node,))
        return state


class WrongAboutThree(WrongAboutOne):
    """The same, about as many as are more than may be closed."""

    nodes = (0, 1, 2)


def poisoned(make: type[WrongAboutOne] = WrongAboutOne, nodes: int = 40) -> Crowd:
    """One such agent in a region of so many nodes, of which those are full."""
    group = NodeGroup(0, nodes, NODE, "H100", 0, 4, zone="zone-0")
    crowd = Crowd([Inventory(WorkerName("w0"), (group,))], agents=1, make=make)
    for node in make.nodes:
        award = crowd.award(Asked((a_job(8, 1),)))
        full = a_claim(award.workload, placed={node: 8}, award_sequence=award.award_sequence, region=EAST)
        crowd.say(SubmitClaim(EAST, full))
        assert 8_000 == crowd.capacity.gpu.held[node]
    return crowd


def where(crowd: Crowd) -> list[tuple[int, str]]:
    """The node that each claim named, and the verdict."""
    return [(one.spreads[0].nodes[0], said) for one, said, _ in crowd.claims]


def test_poisoned_node_is_left_out_within_the_window() -> None:
    """L7: an agent whose view of a node is wrong chooses it again, though it has heard all there is to hear, until it is closed;
    the same award goes elsewhere, and the next one at once.
    """
    crowd = poisoned()
    crowd.place(Asked((a_job(1, 1),)))
    assert [(0, "conflict")] * DISPUTES_MAX == where(crowd)[:-1]
    assert "granted" == where(crowd)[-1][1]
    (closed,) = crowd.recorded(NodesClosed)
    assert (ClosureKind.DISPUTED, ((0, 0),)) == (closed.kind, closed.nodes)
    crowd.place(Asked((a_job(1, 1),)))
    assert DISPUTES_MAX + 2 == len(crowd.claims)
    assert [] == check_ledger(crowd.capacity)


def test_node_opens_again_after_a_while() -> None:
    """L7: and if agents are still wrong, it is closed once more after as many refusals."""
    crowd = poisoned()
    crowd.place(Asked((a_job(1, 1),)))
    crowd.wait(DISPUTE_HOLD)
    (opened,) = crowd.recorded(NodesOpened)
    assert ((0, 0),) == opened.nodes
    assert crowd.capacity.is_open(0)
    crowd.place(Asked((a_job(1, 1),)))
    assert 2 * DISPUTES_MAX + 2 == len(crowd.claims)
    assert 2 == len(crowd.recorded(NodesClosed))


def test_abandonment_is_one_fact_with_its_reasons() -> None:
    """P19, L8: where no more nodes may be closed, the agent makes exactly its ten tries, and then one fact says that it gave up,
    how often it had tried, and what the last try was refused for and where.
    """
    crowd = poisoned(WrongAboutThree)
    (workload,) = crowd.place(Asked((a_job(1, 1),)))
    assert ["conflict"] * CLAIM_TRIES_MAX == [said for _, said in where(crowd)]
    (declined,) = crowd.recorded(AwardDeclined)
    last = where(crowd)[-1][0]
    assert (workload, Reason.CONFLICTS_EXHAUSTED, 10) == (declined.workload, declined.reason, declined.tries)
    assert (Reason.CONFLICT, (last,)) == (declined.conflict, declined.nodes)
    assert 2 == sum(not crowd.capacity.is_open(node) for node in range(40))
    assert not crowd.agents[0].state.claims


@pytest.mark.parametrize(
    ("view", "is_counted"),
    [
        pytest.param(0, False, id="old view"),
        pytest.param(NEWEST, True, id="new view"),
        pytest.param(99, False, id="a view of facts that the log has not"),
    ],
)
def test_only_refusals_that_the_agent_should_have_foreseen_count(
    start: Start, view: int, *, is_counted: bool
) -> None:
    """L7: where others came first after the view, that is what optimism costs, and no node is closed for it. Nor for what was told
    by a log whose end is lost.
    """
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    refuse(machine, DISPUTES_MAX, view)
    assert is_counted == (not machine.state.image.capacity.is_open(0))


def refuse(
    machine: Machine[Any], times: int, view: int = NEWEST, node: int = 0, first: int = 1, **parts: Any
) -> None:
    """So many claims for a full node, by as many agents."""
    for number in range(first, first + times):
        made = a_claim(
            f"w-{number}",
            placed={node: 1},
            award_sequence=award(machine, f"w-{number}"),
            view_sequence=machine.sequence(EU_LOG) if view == NEWEST else view,
            agent=f"a{number}",
            **parts,
        )
        assert "conflict" == verdict(claim(machine, made))


def test_claim_that_is_said_again_counts_once(start: Start) -> None:
    """L7: an agent says it until it is answered, and the bus may repeat it: it is one claim that was refused."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    seen = machine.sequence(EU_LOG)
    made = a_claim(placed={0: 1}, award_sequence=award(machine), view_sequence=seen)
    for _ in range(2 * DISPUTES_MAX):
        assert "conflict" == verdict(claim(machine, made))
    assert machine.state.image.capacity.is_open(0)
    refuse(machine, DISPUTES_MAX - 1, first=2)
    assert not machine.state.image.capacity.is_open(0)


def test_refusals_that_are_far_apart(start: Start) -> None:
    """L7: they count within a window."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    refuse(machine, DISPUTES_MAX - 1)
    machine.wait(DISPUTE_SPAN)
    refuse(machine, DISPUTES_MAX - 1, first=4)
    assert machine.state.image.capacity.is_open(0)
    refuse(machine, 1, first=7)
    assert not machine.state.image.capacity.is_open(0)


def test_few_nodes_are_closed_at_a_time(start: Start) -> None:
    """L7: one in twenty, and one at least: when more seem to be at fault, it is rather who looks at them."""
    machine = a_store(start)
    for node in range(4):
        place(machine, f"w-9{node}", {node: 8})
        refuse(machine, DISPUTES_MAX, node=node, first=10 * node + 1)
    assert [False, True, True, True] == [machine.state.image.capacity.is_open(node) for node in range(4)]
    assert 1 == sum(isinstance(fact.event, NodesClosed) for fact in machine.logs[EU_LOG])
    machine.hear(RecordJoin(EU, an_inventory("w1", 4, 36)))
    refuse(machine, 1, node=1, first=50)
    assert not machine.state.image.capacity.is_open(1)


def test_node_that_is_closed_already_is_not_disputed(start: Start) -> None:
    """L7: to claim it is a mistake, and closing it once more keeps nobody away who does not heed that it is closed."""
    machine = a_store(start)
    machine.hear(DrainNodes(EU, Scope(ScopeKind.NODE, ("0",)), "", 0))
    refuse(machine, DISPUTES_MAX)
    assert {} == machine.state.disputes.by_node
    assert 1 == sum(isinstance(fact.event, NodesClosed) for fact in machine.logs[EU_LOG])


def test_few_nodes_are_remembered() -> None:
    """L7: whatever is claimed, those that were disputed longest ago are forgotten."""
    disputes, many = Disputes(), 2 * DISPUTED_KEPT_MAX
    for node in range(many):
        disputes.hear(NodesDisputed((node,), ClaimId("w-1.1.a0.1")), START)
    assert list(range(many - DISPUTED_KEPT_MAX, many)) == list(disputes.by_node)


def test_claims_over_victims_do_not_count(start: Start) -> None:
    """L7: what victims would leave is not what the agent saw free."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8}, priority=1)
    place(machine, "w-8", {1: 8}, priority=1)
    refuse(machine, DISPUTES_MAX, priority=5, victims=(attempt("w-8"),))
    assert machine.state.image.capacity.is_open(0)


def test_store_that_starts_again_opens_its_closed_nodes(start: Start) -> None:
    """L7: the closure is a fact, and so is its end; disputes that were only counted are forgotten."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    refuse(machine, DISPUTES_MAX)
    again = machine.restart()
    assert not again.state.image.capacity.is_open(0)
    assert [] == facts(again.wait(seconds(1)))
    (opened,) = facts(again.wait(DISPUTE_HOLD))
    assert isinstance(opened, NodesOpened)
    assert again.state.image.capacity.is_open(0)
    assert again.component.due(again.state) is None


def test_operators_see_why(start: Start) -> None:
    """L7: `mizzen nodes` says that it is disputed, and why; `mizzen log` has the whole reason."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    refuse(machine, DISPUTES_MAX)
    image = machine.state.image
    assert isinstance(image, RegionImage)
    text = state_text(NodeStates(image).of(0), 0, "free", machine.now)
    assert "disputed (claims that should fit were refused 3 times in …)" == text
    (closed,) = (fact.event for fact in machine.logs[EU_LOG] if isinstance(fact.event, NodesClosed))
    assert closed.reason.endswith("it opens again after 300 s")


# Tasks of what runs.


def a_service_with_a_failed_task(start: Start) -> Machine[Any]:
    """Node 0 is full, and a task of a service on nodes 1 and 2 waits for a new run on another node."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    serve(machine, {1: 1, 2: 1})
    fail(machine, 0)
    agreed(machine, OperationKind.START, 0)
    return machine


def test_node_that_is_wrong_for_tasks_is_left_out_within_the_window(start: Start) -> None:
    """L7: an agent that finds new nodes for tasks is wrong about one as often, and the task goes elsewhere once it is closed."""
    machine = a_service_with_a_failed_task(start)
    agent = LaggingAgent(WrongAboutOne(EU, AgentName("a0")), machine.now)
    told = [TaskMove(0, 1, -1)]
    verdicts = []
    waiting: list[Message] = [PlaceTasks(EU, AgentName("a0"), *attempt(), 1, tuple(told))]
    while waiting:
        for fact in machine.logs[EU_LOG][agent.state.sequence :]:
            agent.tell(fact, b"", 0)
        decision = agent.component.decide(agent.state, Envelope(waiting.pop(), "test", "test", machine.now))
        for note in decision.events:
            agent.component.evolve(agent.state, Fact(NO_LOG, 0, machine.now, "", "", note, machine.now))
        for said in decision.messages:
            answer = said_once(machine.hear(said), RevisionAnswered)
            verdicts.append(answer.verdict)
            waiting.append(answer)
        if agent.state.revisions.caught_up(agent.state.sequence):
            waiting.append(Woken())
    assert ["conflict"] * DISPUTES_MAX + ["granted"] == verdicts
    assert [0] == list(machine.state.image.capacity.closures[DISPUTE].each)
    (node,) = (move.node_to for fact in machine.logs[EU_LOG] for move in getattr(fact.event, "moves", ()))
    assert node not in (0, 1)


def try_to_move(
    machine: Machine[Any], task: int, node: int, tries: int, view: int = NEWEST, to: int = 0
) -> str:
    """An agent's revision, and the verdict."""
    seen = machine.sequence(EU_LOG) if view == NEWEST else view
    moves = (TaskMove(task, node, to),)
    made = ReviseClaim(EU, *attempt(), 1, moves, AgentName("a0"), seen, tries)
    return said_once(machine.hear(made), RevisionAnswered).verdict


@pytest.mark.parametrize(
    "view", [pytest.param(0, id="unknown"), pytest.param(1, id="old"), pytest.param(99, id="ahead")]
)
def test_revisions_of_other_views_do_not_count(start: Start, view: int) -> None:
    """L7: as with claims."""
    machine = a_service_with_a_failed_task(start)
    for tries in range(1, DISPUTES_MAX + 1):
        assert "conflict" == try_to_move(machine, 0, 1, tries, view)
    assert {} == machine.state.disputes.by_node


def test_revision_that_is_said_again_counts_once(start: Start) -> None:
    """L7: as a claim does; and together with claims it is one more."""
    machine = a_service_with_a_failed_task(start)
    for _ in range(2 * DISPUTES_MAX):
        assert "conflict" == try_to_move(machine, 0, 1, 1)
    assert machine.state.image.capacity.is_open(0)
    refuse(machine, DISPUTES_MAX - 1, first=20)
    assert not machine.state.image.capacity.is_open(0)


def test_revision_against_a_pools_settings_disputes_no_node(start: Start) -> None:
    """L7: a pool's reserve or limit tells nothing about one node."""
    machine = a_store(start)
    made = serve(machine, {1: 1, 2: 1})
    machine.hear(ChangeAttempt(EU, *attempt(), 1, (replace(made.jobs[0], tasks=3),)))
    agreed(machine, OperationKind.START, 2)
    machine.hear(SetPool(EU, "training", PoolSettings(limit=50), 0, "olga"))
    assert "conflict" == try_to_move(machine, 2, -1, 1, to=3)
    assert {} == machine.state.disputes.by_node
