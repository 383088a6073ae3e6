"""How an agent finds new nodes for tasks of what runs already: as many as have room, at the store's word."""

import pytest
from msgspec.structs import replace

from components.allocation_agent.state import AgentState
from core.component import NOTHING, Decision
from core.events.control import ClaimRevised, NodesClosed, NodesOpened
from core.events.region import AttemptEnded, ClaimGranted, NodesJoined, NodesLost
from core.fact import Event
from core.messages.control import PlaceTasks, ReviseClaim, RevisionAnswered
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import AgentName, TenantName, WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import CLAIM_TRIES_MAX, OPEN_BID_SPAN
from core.nouns.maintenance import ClosureKind
from core.nouns.operation import TaskMove, task_number
from core.nouns.placement import NodeRow
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Extent, Kind, Topology
from tests.builders import EU, EU_LOG, NODE, a_claim, a_job, a_spread, amount, attempt, granted, joined
from tests.components.allocation_agent.test_bids_and_claims import (
    A0,
    Start,
    an_agent,
    an_award,
    ask,
    bid_on,
    claimed,
    full,
    place,
    refusal,
    settle,
)
from tests.components.support.machine import Machine
from tests.matching import said, said_once

LOST0 = NodesLost(WorkerName("w0"), (0, 1))


def with_service(
    start: Start, *events: Event, gpus: float = 8, placed: dict[int, int] | None = None
) -> Machine[AgentState]:
    """Two tasks of 8 GPUs stand alone on the first two of four nodes of two workers."""
    claim = a_claim("w-1", placed=placed or {0: 1, 1: 1}, gpus=gpus, kind=Kind.SERVICE)
    return an_agent(start, joined("w0", 0, 2), joined("w1", 2, 2), granted(claim), *events)


def wants(
    machine: Machine[AgentState], *tasks: tuple[int, int], revision: int = 1, workload: str = "w-1"
) -> Decision:
    """The broker wants another node for each of these tasks, from the node that is named with it."""
    moves = tuple(TaskMove(task, node, -1) for task, node in tasks)
    return machine.hear(PlaceTasks(EU, A0, *attempt(workload), revision, moves))


def found(decision: Decision) -> dict[int, int]:
    """Where it asks the store to have tasks moved to."""
    return {move.task: move.node_to for move in said_once(decision, ReviseClaim).moves}


def other_than(node: int) -> int:
    """Of the second worker's two nodes, which are as good, the one that is left."""
    return {2: 3, 3: 2}[node]


def answered(
    machine: Machine[AgentState],
    verdict: str,
    *,
    revision: int = 1,
    rows: tuple[NodeRow, ...] = (),
    sequence: int = 0,
) -> Decision:
    """The store answers a revision."""
    return machine.hear(RevisionAnswered(EU, A0, *attempt(), revision, verdict, rows, sequence))


# Finding.


def test_tasks_are_given_nodes_with_capacity(start: Start) -> None:
    """T9: each task by itself, at the claim's next revision and in the agent's name, so that the store answers it."""
    machine = with_service(start, LOST0)
    told = said_once(wants(machine, (0, 0), (1, 1)), ReviseClaim)
    moves = (TaskMove(0, 0, 2), TaskMove(1, 1, 3))
    seen = machine.state.sequence
    assert ReviseClaim(EU, *attempt(), 1, moves, A0, view_sequence=seen) == told


def test_task_that_moves_leaves_its_node(start: Start) -> None:
    """Though there is room: it is to be elsewhere."""
    machine = with_service(start, gpus=1)
    assert found(wants(machine, (1, 1)))[1] != 1


def test_nodes_that_are_closed_take_nothing(start: Start) -> None:
    """Whatever closes them."""
    machine = with_service(start, NodesClosed("d-1", ClosureKind.DRAIN, ((0, 2),), "because"))
    assert {0: 3} == found(wants(machine, (0, 0), (1, 1)))


def test_as_many_tasks_as_have_capacity_move(start: Start) -> None:
    """The others are asked for again: half a job moved is better than none. The agent sends nothing when there is capacity for none."""
    machine = with_service(start, LOST0, granted(a_claim("w-9", placed={2: 1})))
    assert {0: 3} == found(wants(machine, (0, 0), (1, 1)))
    machine.fact(EU_LOG, granted(a_claim("w-8", placed={3: 1})))
    assert () == wants(machine, (0, 0), (1, 1), revision=2).messages


def test_task_that_has_no_node(start: Start) -> None:
    """Its job grew: any node will do."""
    machine = with_service(start)
    assert found(wants(machine, (2, -1), (3, -1))) in ({2: 2, 3: 3}, {2: 3, 3: 2})


def test_tasks_of_several_jobs(start: Start) -> None:
    """Each as its job needs, of its job's type."""
    jobs = (a_job(1, 4, name="main"), a_job(1, 1, name="cache", gpu_type="A100"))
    claim = a_claim("w-1", jobs=jobs, spreads=(a_spread({0: 1}), a_spread({4: 1})), kind=Kind.SERVICE)
    machine = an_agent(
        start, joined("w0", 0, 2), joined("w1", 4, 2, gpu_type="A100"), joined("w2", 8, 1, gpu_type="B200")
    )
    machine.fact(EU_LOG, granted(claim))
    cache = task_number(1, 0)
    assert {0: 1, cache: 5} == found(wants(machine, (cache, 4), (0, 0)))


@pytest.mark.parametrize(
    ("placed", "a100s", "moved", "expected"),
    [
        pytest.param({4: 1, 5: 1}, 2, ((0, 4),), {}, id="no room on its type"),
        pytest.param({4: 1, 5: 1}, 3, ((0, 4),), {0: 6}, id="room on its type"),
        pytest.param({4: 1, 5: 1}, 2, ((2, -1),), {}, id="one that comes"),
        pytest.param({4: 1}, 1, ((0, 4),), {0: 0}, id="one task alone"),
        pytest.param({4: 1}, 1, ((0, 4), (1, -1)), {}, id="one that leaves and one that comes"),
    ],
)
def test_tasks_stay_on_the_type_of_their_job(
    start: Start,
    placed: dict[int, int],
    a100s: int,
    moved: tuple[tuple[int, int], ...],
    expected: dict[int, int],
) -> None:
    """T4: where the others are, though another type would do and has room; a task that is alone may go there."""
    machine = an_agent(start, joined("w0", 0, 1), joined("w1", 4, a100s, gpu_type="A100"))
    job = replace(a_job(len(placed), 8), or_types=("A100",))
    claim = a_claim("w-1", jobs=(job,), spreads=(a_spread(placed),), kind=Kind.SERVICE)
    machine.fact(EU_LOG, granted(claim))
    decision = wants(machine, *moved)
    assert expected == (found(decision) if decision.messages else {})


@pytest.mark.parametrize(("full_nodes", "expected"), [((), ({2}, {3})), ((2, 3), ({0, 1},))])
def test_tasks_that_all_move_from_all_nodes(
    start: Start, full_nodes: tuple[int, ...], expected: tuple[set[int], ...]
) -> None:
    """To nodes that none of them leaves; when those have no room, to each other's."""
    machine = with_service(start, gpus=1)
    for node in full_nodes:
        machine.fact(EU_LOG, granted(a_claim(f"w-{90 + node}", placed={node: 8})))
    told = found(wants(machine, (0, 0), (1, 1)))
    assert set(told.values()) in expected
    assert all(told[task] != task for task in (0, 1))


def test_task_that_leaves_the_only_node_with_capacity(start: Start) -> None:
    """It finds no node; another task may go there."""
    machine = with_service(start, gpus=5, placed={0: 1, 1: 1})
    for node, count in ((1, 3), (2, 8), (3, 8)):
        machine.fact(EU_LOG, granted(a_claim(f"w-{90 + node}", placed={node: count})))
    assert () == wants(machine, (0, 0)).messages
    tight = with_service(start, gpus=3, placed={0: 1, 1: 1})
    for node, count in ((1, 5), (2, 8), (3, 8)):
        tight.fact(EU_LOG, granted(a_claim(f"w-{90 + node}", placed={node: count})))
    assert {1: 0} == found(wants(tight, (0, 0), (1, 1)))


def test_tasks_of_an_attempt_that_is_not_there(start: Start) -> None:
    """It ended meanwhile, or is of a revision that has passed: nothing is said."""
    machine = with_service(start)
    assert NOTHING == wants(machine, (0, 0), workload="w-7")
    machine.fact(EU_LOG, ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 2),)))
    assert NOTHING == wants(machine, (1, 1), revision=1)
    machine.fact(EU_LOG, AttemptEnded(*attempt(), EndCause.COMPLETED))
    assert NOTHING == wants(machine, (1, 1), revision=2)


# What is open.


def test_open_revision_counts_as_taken(start: Start) -> None:
    """By bids and claims as by other revisions; and what they took is not offered to tasks either."""
    machine = with_service(start, LOST0)
    left = other_than(found(wants(machine, (0, 0)))[0])
    assert [{left: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-3"))[0]
    settle(machine, "w-2", has_won=False)
    assert [left] == [
        spread.nodes[0] for spread in claimed(place(machine, an_award("w-2", 1, a_job(1, 8)))).spreads
    ]
    machine.fact(EU_LOG, granted(a_claim("w-5", placed={}, jobs=(a_job(0),), kind=Kind.SERVICE)))
    other = wants(machine, (7, -1), workload="w-5")
    assert () == other.messages


def test_revision_that_the_log_shows_counts_once(start: Start) -> None:
    """Its room is held then, and not taken a second time."""
    machine = with_service(start, LOST0, gpus=2)
    wants(machine, (0, 0), (1, 1))
    assert NOTHING == answered(machine, "granted")
    machine.fact(EU_LOG, ClaimRevised(*attempt(), 1, (TaskMove(0, 0, 2), TaskMove(1, 1, 2))))
    assert [{2: 1}] == bid_on(ask(machine, a_job(1, 4), workload="w-2"))


def test_granted_revision_counts_until_the_log_shows_it(start: Start) -> None:
    """The answer may come before the fact."""
    machine = with_service(start, LOST0)
    left = other_than(found(wants(machine, (0, 0)))[0])
    answered(machine, "granted")
    assert [{left: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_refused_revision_is_free_again(start: Start) -> None:
    """At once: another came first, and the broker sees it in the log."""
    machine = with_service(start, LOST0)
    wants(machine, (0, 0))
    assert () == answered(machine, "refused").messages
    assert [{2: 1, 3: 1}] == bid_on(ask(machine, a_job(2, 8), workload="w-2"))


def test_unanswered_revision_is_free_after_a_while(start: Start) -> None:
    """The broker asks again."""
    machine = with_service(start, LOST0)
    wants(machine, (0, 0))
    machine.wait(Nanoseconds(OPEN_BID_SPAN - 1))
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(2, 8), workload="w-2"))[0]
    machine.wait(Nanoseconds(1))
    assert [{2: 1, 3: 1}] == bid_on(ask(machine, a_job(2, 8), workload="w-2"))


def test_request_said_twice(start: Start) -> None:
    """The same revision is said again; no second one is made."""
    machine = with_service(start, LOST0)
    first = said_once(wants(machine, (0, 0)), ReviseClaim)
    again = wants(machine, (0, 0))
    assert ((), (first,)) == (again.events, again.messages)


def test_next_request_takes_the_place_of_the_one_before(start: Start) -> None:
    """What it asked for then has been answered, or never will be."""
    machine = with_service(start, LOST0)
    node = found(wants(machine, (0, 0)))[0]
    machine.fact(EU_LOG, ClaimRevised(*attempt(), 1, (TaskMove(0, 0, node),)))
    assert {1: other_than(node)} == found(wants(machine, (1, 1), revision=2))
    assert NOTHING == answered(machine, "refused", revision=1)
    assert Reason.OPEN_BIDS == refusal(ask(machine, a_job(1, 8), workload="w-2"))[0]


# Conflicts.


def conflict(machine: Machine[AgentState], *events: Event, rows: tuple[NodeRow, ...] = ()) -> Decision:
    """The store answers that these came first, and then its log tells them. Returns what is done then."""
    sequence = machine.sequence(EU_LOG) + len(events)
    assert () == answered(machine, "conflict", rows=rows, sequence=sequence).messages
    assert () == machine.wake().messages
    machine.fact(EU_LOG, *events)
    return machine.wake()


def test_conflict_is_tried_again_elsewhere(start: Start) -> None:
    """T6: once the view is as new as what took the room; for tasks that found none before, too."""
    machine = with_service(start, LOST0)
    node = found(wants(machine, (0, 0)))[0]
    again = conflict(machine, granted(a_claim("w-9", placed={node: 1})), rows=(full(node),))
    assert {0: other_than(node)} == found(again)
    assert NOTHING == machine.wake()


def test_own_revision_is_no_hindrance_when_it_is_tried_again(start: Start) -> None:
    """What it took itself is there for it."""
    machine = with_service(start, LOST0)
    assert {0: 2, 1: 3} == found(wants(machine, (0, 0), (1, 1)))
    again = conflict(machine, granted(a_claim("w-9", placed={3: 1})), rows=(full(3),))
    assert {0: 2} == found(again)


def test_rows_of_a_conflict_are_believed_meanwhile(start: Start) -> None:
    """What is bid before the log tells is bid elsewhere."""
    machine = with_service(start, LOST0)
    node = found(wants(machine, (0, 0)))[0]
    answered(machine, "conflict", rows=(full(node),), sequence=machine.sequence(EU_LOG) + 1)
    assert NodeRow(node, amount(0), is_open=True) == full(node)
    assert [{other_than(node): 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_conflict_that_leaves_no_capacity(start: Start) -> None:
    """The agent sends nothing, and nothing counts as taken: the broker asks again."""
    machine = with_service(start, LOST0)
    wants(machine, (0, 0))
    taken = [granted(a_claim("w-9", placed={2: 1})), granted(a_claim("w-8", placed={3: 1}))]
    assert () == conflict(machine, *taken).messages
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    assert [{2: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_conflicts_have_an_end(start: Start) -> None:
    """After so many tries the broker has to ask again."""
    machine = with_service(start, LOST0)
    told = [said_once(wants(machine, (0, 0)), ReviseClaim)]
    for number in range(CLAIM_TRIES_MAX):
        closed = NodesClosed("d-1", ClosureKind.DRAIN, ((0, 0),), "because")
        event = closed if number % 2 == 0 else NodesOpened("d-1", ClosureKind.DRAIN, ((0, 0),))
        told += said(conflict(machine, event), ReviseClaim)
    assert CLAIM_TRIES_MAX == len(told)


def test_conflict_of_a_revision_that_was_passed(start: Start) -> None:
    """Another revision came meanwhile: there is nothing left to try."""
    machine = with_service(start, LOST0)
    wants(machine, (0, 0))
    assert () == conflict(machine, ClaimRevised(*attempt(), 1, (TaskMove(1, 1, 3),))).messages
    assert [{2: 1}] == bid_on(ask(machine, a_job(1, 8), workload="w-2"))


def test_answer_to_an_unknown_revision(start: Start) -> None:
    """The answer was meant for the agent that was here before."""
    machine = with_service(start)
    for verdict in ("granted", "conflict", "refused"):
        assert NOTHING == answered(machine, verdict, sequence=9)
    assert AgentName("a0") == A0


def test_agent_that_starts_again_remembers_no_revision(start: Start) -> None:
    """What it took is free, and the broker asks again."""
    machine = with_service(start, LOST0)
    wants(machine, (0, 0))
    again = machine.restart()
    assert [{2: 1, 3: 1}] == bid_on(ask(again, a_job(2, 8), workload="w-2"))


# Room in several pools, and tasks that lie together.


def in_pools(**pools: tuple[int, int, int]) -> NodesJoined:
    """Nodes by pool: the first one's number, how many, and how many in a rack."""
    groups = tuple(
        NodeGroup(first, count, NODE, "H100", first, per_rack, pool=pool)
        for pool, (first, count, per_rack) in pools.items()
    )
    return NodesJoined(WorkerName("w0"), Inventory(WorkerName("w0"), groups))


def test_tasks_go_to_several_pools(start: Start) -> None:
    """T9: one node is free in each of two: both tasks move, and the job's own pool is filled first."""
    claim = granted(a_claim("w-1", placed={0: 1, 1: 1}, gpus=8))
    machine = an_agent(start, in_pools(training=(0, 3, 1), free=(8, 2, 1)), claim)
    assert {0: 2} == found(wants(machine, (0, 0)))
    machine = an_agent(start, in_pools(training=(0, 3, 1), free=(8, 1, 1)), claim)
    assert {0: 2, 1: 8} == found(wants(machine, (0, 0), (1, 1)))
    assert {0: 2, 1: 8} == found(wants(machine.restart(), (0, 0), (1, 1)))


def of_a_rack(placed: dict[int, int], tasks: int, kind: Kind = Kind.TRAINING) -> ClaimGranted:
    """A job whose tasks take a node each, and were to lie in one rack."""
    job = replace(a_job(tasks, 8), topology=Topology(pack=Extent.RACK))
    return granted(a_claim("w-1", jobs=(job,), spreads=(a_spread(placed),), kind=kind))


@pytest.mark.parametrize("kind", [Kind.TRAINING, Kind.SERVICE])
def test_tasks_of_a_packed_job_move(start: Start, kind: Kind) -> None:
    """Into one rack where one has the room; else wherever there is some, rather than stay where they cannot run."""
    pools = in_pools(training=(0, 8, 2))
    packed = of_a_rack({0: 1, 1: 1}, 2, kind)
    machine = an_agent(start, pools, packed, granted(a_claim("w-9", placed={2: 8, 4: 8})))
    assert {0: 6, 1: 7} == found(wants(machine, (0, 0), (1, 1)))
    busy = granted(a_claim("w-9", placed={2: 8, 4: 8, 6: 8}))
    machine = an_agent(start, pools, packed, busy)
    told = found(wants(machine, (0, 0), (1, 1)))
    assert {0, 1} == told.keys()
    assert set(told.values()) < {3, 5, 7}


def test_zones_of_a_job_hold_for_tasks_that_move(start: Start) -> None:
    """They say where its data may be, whatever happens to a node."""
    groups = [
        NodeGroup(first, count, NODE, "H100", first, 1, zone)
        for first, count, zone in ((0, 2, "a"), (4, 1, "a"), (6, 4, "b"))
    ]
    joined_in_zones = NodesJoined(WorkerName("w0"), Inventory(WorkerName("w0"), tuple(groups)))
    job = replace(a_job(2, 8), topology=Topology(zones=("a",)))
    claim = granted(a_claim("w-1", jobs=(job,), spreads=(a_spread({0: 1, 1: 1}),)))
    assert {0: 4} == found(wants(an_agent(start, joined_in_zones, claim), (0, 0), (1, 1)))


def test_task_moves_to_no_node_on_which_another_tenant_is_alone(start: Start) -> None:
    """Tenants apart: also where there would be room, and also while the log does not show yet who moves there."""
    machine = with_service(start, LOST0, gpus=1)
    alone = replace(a_job(1, 1), is_alone=True)
    other = replace(a_claim("w-7", jobs=(alone,), spreads=(a_spread({2: 1}),)), tenant=TenantName("ada"))
    machine.fact(EU_LOG, granted(other))
    assert {0: 3} == found(wants(machine, (0, 0)))
