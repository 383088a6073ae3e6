"""The allocation agent keeps to what its region's pools are set to, and says so where that leaves no room."""

from typing import Any

import pytest
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from core.component import Decision
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded, NodesJoined
from core.fact import Event
from core.messages.agents import BidSettled, ClaimAnswered, FindBid, PlaceAward
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.fleet import Inventory
from core.nouns.ids import AgentName, WorkerName, WorkloadId
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind, Topology
from tests.builders import EU, EU_LOG, a_claim, a_job, an_inventory, attempt, granted, joined
from tests.components.support.machine import Machine
from tests.components.support.placement_store import Start
from tests.matching import said_once

A0 = AgentName("a0")


def is_set(reserve: int = 0, limit: int = 1_000, rules: str = "") -> PoolChanged:
    """The fact that the pool of all nodes is set so."""
    return PoolChanged("training", PoolSettings(rules, reserve, limit), "olga")


def an_agent(start: Start, *events: Event, nodes: int = 4) -> Machine[Any]:
    """One whose region has so many empty nodes of 8 GPUs, and in which this happened then."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, joined("w0", 0, nodes), *events)
    machine.wake()
    return machine


def ask(
    machine: Machine[Any], *jobs: JobSpec, workload: str = "w-1", is_healing: bool = False, priority: int = 3
) -> Decision:
    """The broker hands it a request for a bid."""
    name = f"auction of {workload}"
    request = SolicitBid(EU, WorkloadId(workload), name, jobs, priority, Kind.TRAINING, is_healing=is_healing)
    return machine.hear(FindBid(EU, A0, request))


def nodes_bid(decision: Decision) -> set[int]:
    """On which nodes it would place the tasks."""
    return {node for spread in said_once(decision, Bid).spreads for node in spread.nodes}


def reason_of(decision: Decision) -> str:
    """Why it does not bid."""
    return said_once(decision, Abstention).reason


def test_agent_leaves_the_reserve_to_work_that_heals(start: Start) -> None:
    """P23: it abstains rather than claim what the store would refuse; for a job that heals it bids."""
    machine = an_agent(start, is_set(reserve=3))
    assert Reason.RESERVED == reason_of(ask(machine, a_job(2, 8)))
    assert 2 == len(nodes_bid(ask(machine, a_job(2, 8), is_healing=True)))


def test_agent_goes_round_the_reserve(start: Start) -> None:
    """Small work shares nodes that are in use; a gang takes what is spare, and no more, of the empty ones."""
    machine = an_agent(start, granted(a_claim("w-9", placed={1: 4})), is_set(reserve=3))
    assert {1} == nodes_bid(ask(machine, a_job(4, 1)))
    assert Reason.OPEN_BIDS == reason_of(ask(machine, a_job(1, 1), workload="w-2"))
    machine.fact(EU_LOG, is_set(reserve=2))
    taken = nodes_bid(ask(machine, a_job(1, 8), workload="w-3"))
    assert 1 == len(taken - {1})
    assert Reason.OPEN_BIDS == reason_of(ask(machine, a_job(1, 8), workload="w-4"))
    machine.fact(EU_LOG, is_set())
    assert not taken & nodes_bid(ask(machine, a_job(2, 8), workload="w-5"))


def test_reserve_stays_despite_preemptions(start: Start) -> None:
    """Capacity that victims leave may be taken; an empty node of the reserve may not."""
    busy = [granted(a_claim(f"w-{node + 7}", placed={node: 8}, priority=1)) for node in range(2)]
    machine = an_agent(start, *busy, is_set(reserve=2))
    told = said_once(ask(machine, a_job(2, 8), priority=5), Bid)
    assert ({0, 1}, 2) == ({node for spread in told.spreads for node in spread.nodes}, len(told.victims))
    settle = BidSettled(EU, A0, WorkloadId("w-1"), "auction of w-1", has_won=False)
    machine.hear(settle)
    assert Reason.NO_CAPACITY == reason_of(ask(machine, a_job(3, 8), workload="w-2", priority=5))


def test_one_task_goes_where_it_pushes_out_and_not_into_the_reserve(start: Start) -> None:
    """Whoever is drawn: an empty node that is kept is none of the choices."""
    busy = granted(a_claim("w-7", placed={1: 8}, priority=1))
    for number in range(6):
        machine = an_agent(start, busy, is_set(reserve=3))
        assert {1} == nodes_bid(ask(machine, a_job(1, 8), workload=f"w-{number + 10}", priority=5))


def test_agent_keeps_to_the_limit(start: Start) -> None:
    """P24: one percent more of 400 GPUs makes it bid for four more, and not for a fifth."""
    full = granted(a_claim("w-9", placed=dict.fromkeys(range(45), 8)))
    machine = an_agent(start, full, is_set(limit=900), nodes=50)
    assert Reason.OVER_LIMIT == reason_of(ask(machine, a_job(1, 0.5)))
    machine.fact(EU_LOG, is_set(limit=910))
    for number in range(1, 5):
        assert nodes_bid(ask(machine, a_job(1, 1), workload=f"w-{number}"))
    assert Reason.OPEN_BIDS == reason_of(ask(machine, a_job(1, 1), workload="w-5"))
    assert nodes_bid(ask(machine, a_job(1, 8), workload="w-6", is_healing=True))


def test_later_jobs_of_a_workload_see_the_nodes_of_the_first(start: Start) -> None:
    """The whole workload keeps to the pool's settings."""
    machine = an_agent(start, is_set(limit=750))
    two = (a_job(2, 8, name="trainers"), a_job(1, 8, name="readers"))
    assert 3 == len(nodes_bid(ask(machine, *two)))
    more = (*two, a_job(1, 0.5, name="evaluator"))
    assert Reason.OVER_LIMIT == reason_of(ask(an_agent(start, is_set(limit=750)), *more, workload="w-2"))


def test_bid_names_the_settings_it_was_made_with(start: Start) -> None:
    """By their revision: enough to choose again by the same rules."""
    machine = an_agent(start)
    assert 0 == said_once(ask(machine, a_job()), Bid).view.settings_revision
    machine.fact(EU_LOG, is_set(rules="plain"), is_set(limit=990))
    assert 2 == said_once(ask(machine, a_job(), workload="w-2"), Bid).view.settings_revision


def chosen(start: Start, rules: str) -> set[int]:
    """Where twelve agents put a task of one GPU, each for itself, where all nodes but two are empty."""
    used = [granted(a_claim(f"w-{gpus}", placed={node: gpus})) for node, gpus in ((0, 4), (1, 6))]
    return {
        node
        for number in range(12)
        for node in nodes_bid(
            ask(an_agent(start, *used, is_set(rules=rules), nodes=9), a_job(), workload=f"w-1{number}")
        )
    }


def test_pool_is_searched_by_the_rules_it_is_set_to(start: Start) -> None:
    """P9: how many steps a rule has is a setting, and with fewer of them it tells fewer nodes apart."""
    assert {1} == chosen(start, "best_fit:16")
    assert chosen(start, "best_fit:2") - {0, 1}
    assert {0, 1} == chosen(start, "avoid_empty:2, best_fit:2")


@pytest.mark.parametrize("rules", ["belt:2", "no-such-set", "best_fit:8,belt:2", ","])
def test_unknown_rules_stop_no_agent(start: Start, rules: str) -> None:
    """A log may be from another build: its pool is searched like one without settings."""
    assert chosen(start, "") == chosen(start, rules)


def test_data_is_near_where_it_can_be(start: Start) -> None:
    """Of zones that are as full as each other the one that has the data is chosen; if it has no room, another."""
    groups = [
        replace(an_inventory("w0", node, 1).groups[0], rack_first=node, zone=f"z{node}") for node in range(3)
    ]

    worker = WorkerName("w0")

    def zones_of(topology: Topology, tasks: int = 1) -> list[set[int]]:
        machine = start(AllocationAgent(EU, A0))
        machine.fact(EU_LOG, NodesJoined(worker, Inventory(worker, tuple(groups))))
        machine.wake()
        job = replace(a_job(1, 8), topology=topology)
        return [nodes_bid(ask(machine, job, workload=f"w-{number}")) for number in range(tasks)]

    assert [{0}] == zones_of(Topology(near=("z0",)))
    assert [{1}] == zones_of(Topology(near=("z1",)))
    assert [{2}] == zones_of(Topology(near=("z2", "mars")))
    assert [{1}] == zones_of(Topology(zones=("z1",), near=("z2",)))
    assert [{0}, {1}, {2}] == sorted(zones_of(Topology(near=("z2",)), tasks=3), key=min)


def test_settings_outlive_the_agent(start: Start) -> None:
    """One that starts again folds them, and so does one whose log became known anew."""
    machine = an_agent(start, is_set(reserve=4))
    assert Reason.RESERVED == reason_of(ask(machine.restart(), a_job()))
    machine.adopt(EU_LOG, is_set(reserve=3))
    assert nodes_bid(ask(machine, a_job(), workload="w-2"))


def test_claim_of_healing_work_says_so(start: Start) -> None:
    """The store judges by it."""
    machine = an_agent(start, is_set(reserve=4))
    award = ExecuteAward(EU, *attempt(), 7, 3, Kind.TRAINING, (a_job(),), A0, (), is_healing=True)
    assert said_once(machine.hear(PlaceAward(EU, A0, award)), SubmitClaim).claim.is_healing
    ordinary = replace(award, workload=WorkloadId("w-2"), jobs=(a_job(1, 8),), is_healing=False)
    declined = said_once(machine.hear(PlaceAward(EU, A0, ordinary)), DeclineAward)
    assert Reason.NO_CAPACITY == declined.reason


def test_claim_that_met_a_new_reserve_is_tried_elsewhere(start: Start) -> None:
    """Once the view has caught up with what the store refused it for."""
    machine = an_agent(start, granted(a_claim("w-9", placed={3: 8})))
    award = ExecuteAward(EU, *attempt(), 7, 3, Kind.TRAINING, (a_job(),), A0, ())
    first = said_once(machine.hear(PlaceAward(EU, A0, award)), SubmitClaim).claim
    sequence = machine.sequence(EU_LOG) + 2
    answer = ClaimAnswered(EU, A0, *attempt(), first.claim, "conflict", Reason.RESERVED, sequence=sequence)
    assert () == machine.hear(answer).messages
    machine.fact(EU_LOG, is_set(reserve=4), AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    assert Reason.NO_CAPACITY == said_once(machine.wake(), DeclineAward).reason
    machine.fact(EU_LOG, is_set(reserve=3))
    again = said_once(machine.hear(PlaceAward(EU, A0, replace(award, epoch=2))), SubmitClaim).claim
    assert 1 == len(again.spreads[0].nodes)
