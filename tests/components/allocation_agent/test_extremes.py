"""Agents that are asked for extreme workloads, on ordinary nodes and on the largest ones: they bid or abstain, and never raise."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from components.allocation_agent.component import AllocationAgent
from core.codec import encode
from core.component import Decision
from core.events.pools import PoolChanged
from core.events.region import GangStarted, NodesJoined
from core.events.starts import StartReserved
from core.fact import Event
from core.messages.agents import FindBid, PlaceAward
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.limits import NODE_BYTES_MAX, NODE_CPU_MILLI_MAX, NODE_GPU_MILLI_MAX, SPAN_MAX
from core.nouns.placement import Claim
from core.nouns.pool import PoolSettings
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import JobSpec, Kind, WorkloadSpec
from core.rules.inventory import problems_of
from core.rules.placement.rule_sets import RULE_SETS
from tests.builders import EU, EU_LOG, NODE, a_claim, a_job, a_spread, attempt, granted
from tests.components.allocation_agent.test_bids_and_claims import A0
from tests.components.support.machine import Machine
from tests.core.properties import PROPERTY
from tests.worlds.extremes import well_formed

Start = Callable[..., Machine[Any]]
LARGEST = Amount(NODE_GPU_MILLI_MAX, NODE_CPU_MILLI_MAX, NODE_BYTES_MAX)
RULES = [*RULE_SETS, "best_fit:8,islands:2,fragmentation"]
LARGE = NodeGroup(8, 4, LARGEST, "H100", 4, 2, gpu_memory=80 << 30, island=1_000)


def region(rules: str, *, has_large_nodes: bool, is_full: bool) -> list[Event]:
    """Return facts of a region with ordinary nodes and the largest ones, shared devices, victims and a reservation."""
    ordinary = NodeGroup(0, 4, NODE, "H100", 0, 2, gpu_memory=80 << 30, island=4)
    others = NodeGroup(4, 2, NODE, "A100", 2, 2, "zone-1")
    cpus = NodeGroup(6, 2, Amount(0, 96_000, 1 << 40), "cpu", 3, 2)
    groups = (ordinary, others, cpus, *([LARGE] if has_large_nodes else []))
    inventory = Inventory(WorkerName("w0"), groups)
    assert () == problems_of(inventory)
    events: list[Event] = [NodesJoined(inventory.worker, inventory)]
    events.append(PoolChanged("training", PoolSettings(rules, reserve=1, limit=990)))
    for node in range(4 if is_full else 1):
        half = replace(a_job(8, 0.5), is_alone=node == 0)
        claim = replace(
            held(f"v-{node}", node, half), max_duration=SPAN_MAX, grace=SPAN_MAX, priority=node % 2
        )
        events += [granted(claim), GangStarted(*attempt(f"v-{node}"))]
    if is_full and has_large_nodes:
        huge = JobSpec("main", 1, LARGEST, "H100")
        events.append(granted(replace(held("v-9", 9, huge), priority=1)))
    job, owner = a_job(1, 8), WorkloadId("r-1")
    spread = a_spread({3: 1})
    reserved = StartReserved(
        owner, 1, seconds(1_000), 3, Kind.TRAINING, TenantName("default"), (job,), (spread,), 1
    )
    return [*events, reserved]


def held(workload: str, node: int, job: JobSpec) -> Claim:
    """Return the claim of all tasks of a job on one node."""
    return a_claim(workload, jobs=(job,), spreads=(a_spread({node: job.tasks}),))


def assert_answered(decision: Decision, *kinds: type) -> None:
    """Assert that one message of these kinds was said, that all can be sent, and that no rule failed."""
    assert 1 == len(decision.messages)
    (answer,) = decision.messages
    assert isinstance(answer, kinds)
    encode(answer)
    if isinstance(answer, Abstention | DeclineAward):
        assert Reason.RULE_FAILED != answer.reason


@pytest.mark.parametrize("rules", RULES)
@settings(PROPERTY, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(well_formed(), min_size=1, max_size=4), st.booleans(), st.booleans())
def test_agent_answers_whatever_it_is_asked(
    start: Start,
    rules: str,
    specs: Sequence[WorkloadSpec],
    has_large_nodes: bool,  # drawn
    is_full: bool,  # drawn
) -> None:
    """Gangs, single tasks, priced pools, victims, reservations and the earliest start: the queue would not ask for some of it."""
    machine = Machine(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, *region(rules, has_large_nodes=has_large_nodes, is_full=is_full))
    machine.wake()
    for number, spec in enumerate(specs):
        name, level = WorkloadId(f"w-{number}"), 3 if spec.priority is None else spec.priority
        request = SolicitBid(
            EU, name, f"auction {number}", spec.jobs, level, spec.kind, spec.tenant,
            max_duration=min(spec.max_duration, SPAN_MAX), grace=min(spec.grace, SPAN_MAX), wants_prospect=True,
        )  # fmt: skip
        assert_answered(machine.hear(FindBid(EU, A0, request)), Bid, Abstention)
        award = ExecuteAward(EU, name, 1, 7, level, spec.kind, spec.jobs, A0, (), tenant=spec.tenant)
        assert_answered(machine.hear(PlaceAward(EU, A0, award)), SubmitClaim, DeclineAward)
    machine.wait(seconds(5))


def test_agent_uses_the_largest_nodes_whole(start: Start) -> None:
    """Columns hold all that a node may have: a task of all GPUs, cores and bytes of a node finds a place."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, *region("default", has_large_nodes=True, is_full=False))
    machine.fact(EU_LOG, PoolChanged("training", PoolSettings()))
    machine.wake()
    job = JobSpec("main", 2, LARGEST, "H100")
    decision = machine.hear(FindBid(EU, A0, SolicitBid(EU, WorkloadId("w-1"), "1", (job,), 3, Kind.TRAINING)))
    (bid,) = [message for message in decision.messages if isinstance(message, Bid)]
    assert {8, 9, 10, 11} >= set(bid.spreads[0].nodes)


@pytest.mark.parametrize(
    "total",
    [replace(LARGEST, gpu_milli=NODE_GPU_MILLI_MAX + 1), replace(LARGEST, cpu_milli=NODE_CPU_MILLI_MAX + 1),
     replace(LARGEST, memory_bytes=NODE_BYTES_MAX + 1)],
)  # fmt: skip
def test_nodes_wider_than_columns_do_not_join(total: Amount) -> None:
    """Their worker is told why; a fact of them would end every agent."""
    (problem,) = problems_of(Inventory(WorkerName("w0"), (replace(LARGE, total=total),)))
    assert problem.startswith("nodes from 8 on: of ")
