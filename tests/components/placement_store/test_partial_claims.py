"""A claim for which there is no longer room everywhere: whole or nothing, or as much as there is."""

from typing import Any

import pytest
from msgspec.structs import replace

import core.claims.partial
from core.claims.checks import has_capacity
from core.events.control import ClaimRevised
from core.events.region import AttemptEnded, ClaimGranted, GangStarted
from core.images.capacity import Capacity
from core.invariants.consistency import check_grant, check_ledger, check_region_fact
from core.invariants.control import check_control
from core.messages.agents import ClaimAnswered, FindBid
from core.messages.broker import SolicitBid
from core.messages.control import PlaceTasks, ReviseClaim
from core.messages.pools import SetPool
from core.messages.queue import Bid
from core.messages.store import OrderStop, RecordEnd
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.instant import seconds
from core.nouns.placement import Claim, NodeRow, gpu_milli_of
from core.nouns.pool import PoolSettings
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Extent, Kind, Topology
from core.rules.operations import missing_tasks
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, amount, attempt, granted, joined
from tests.components.allocation_agent.test_bids_and_claims import A0, an_agent, an_award, claimed, full
from tests.components.allocation_agent.test_bids_and_claims import place as hand
from tests.components.placement_store.test_pools import set_pool
from tests.components.support.machine import Machine
from tests.components.support.placement_store import (
    W1,
    Start,
    a_store,
    answer,
    award,
    claim,
    close,
    end,
    fail,
    place,
    row_of,
    stop,
    verdict,
)
from tests.components.support.region import Region
from tests.matching import facts, said_once


def a_part(machine: Machine[Any], placed: dict[int, int], **parts: Any) -> Claim:  # Any: parts of a claim
    """A claim of a service that is content with a part, as awarded."""
    made = a_claim(placed=placed, kind=Kind.SERVICE, award_sequence=award(machine), **parts)
    return replace(made, is_incremental=True)


@pytest.mark.parametrize("is_incremental", [False, True])
def test_both_modes_on_the_same_conflict(start: Start, *, is_incremental: bool) -> None:
    """L1, P22: whole, nothing is granted; incremental, one fact grants what fits, and the answer tells how many tasks were not
    placed, the rows of the nodes without room for them, and up to where these hold.
    """
    machine = a_store(start)
    place(machine, "w-9", {0: 6, 1: 8})
    made = a_part(machine, {0: 3, 1: 1, 2: 2})
    decision = claim(machine, replace(made, is_incremental=is_incremental))
    rows = (NodeRow(0, amount(2, 64, 512), is_open=True), NodeRow(1, amount(0, 64, 512), is_open=True))
    told = answer(decision)
    assert (rows, 3) == (told.rows, told.sequence)
    if not is_incremental:
        assert ((), "conflict", ()) == (decision.events, told.verdict, told.unplaced)
        return
    assert ("granted", Reason.CONFLICT, (2,)) == (told.verdict, told.reason, told.unplaced)
    (event,) = facts(decision)
    part = replace(made, jobs=(a_job(4),), spreads=(a_spread({0: 2, 2: 2}),))
    assert ClaimGranted(W1, 1, part, is_merged=True, unplaced=(2,)) == event
    assert [] == check_ledger(machine.state.image.capacity)
    row = row_of(machine)
    assert ({0: 0, 1: 0, 2: 2, 3: 2}, 6) == ({n: t.node for n, t in row.tasks.items()}, row.jobs[0].tasks)
    assert [4, 5] == missing_tasks(row)


def test_part_by_devices(start: Start) -> None:
    """L1: parts of GPUs fit by device: of three tasks of 0.6 the two devices that are left hold two."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    decision = claim(machine, a_part(machine, {0: 3}, gpus=0.6))
    assert ("granted", (1,)) == (answer(decision).verdict, answer(decision).unplaced)
    assert 6_000 + 2 * 600 == machine.state.image.capacity.gpu.held[0]


def test_part_of_very_many_parts(start: Start) -> None:
    """L1: nodes that have room for all of theirs are not counted task by task, and of the others only a few counts are tried."""
    machine = a_store(start)
    place(machine, "w-9", {0: 6})
    made = a_part(machine, {0: 160, 1: 160}, gpus=0.05)
    asked: list[int] = []

    def counted(capacity: Capacity, node: int, *need: Any) -> bool:  # Any: what has_capacity takes
        asked.append(node)
        return has_capacity(capacity, node, *need)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core.claims.partial, "has_capacity", counted)
        decision = claim(machine, made)
    assert ("granted", (120,)) == (answer(decision).verdict, answer(decision).unplaced)
    assert {0} == set(asked)
    assert len(asked) <= 30  # Each decision is taken three times.


def two_jobs(machine: Machine[Any], of_first: dict[int, int], of_second: dict[int, int]) -> Claim:
    """Two jobs of one service."""
    jobs = tuple(
        a_job(sum(placed.values()), 4, name=name) for name, placed in (("a", of_first), ("b", of_second))
    )
    return a_part(machine, {}, jobs=jobs, spreads=(a_spread(of_first), a_spread(of_second)))


def test_part_of_several_jobs(start: Start) -> None:
    """L1: what one job takes of a node, the next does not find there."""
    machine = a_store(start)
    place(machine, "w-9", {0: 1}, gpus=4)
    decision = claim(machine, two_jobs(machine, {0: 1}, {0: 1, 1: 1}))
    assert ("granted", (0, 1)) == (answer(decision).verdict, answer(decision).unplaced)
    (event,) = facts(decision)
    assert isinstance(event, ClaimGranted)
    assert (a_spread({0: 1}), a_spread({1: 1})) == event.claim.spreads


@pytest.mark.parametrize(
    "why",
    ["no task of a job", "over victims", "a gang", "nothing fits", "the pool keeps it free", "one rack"],
)
def test_no_part_is_granted(start: Start, why: str) -> None:
    """L1: never without a job, over victims, of a gang, or against what the pool keeps free; then it is a conflict, whole."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    made = a_part(machine, {0: 1, 1: 1})
    match why:
        case "no task of a job":
            made = two_jobs(machine, {0: 1}, {1: 1})
        case "over victims":
            place(machine, "w-8", {1: 8})
            made = replace(made, spreads=(a_spread({0: 1, 2: 1}),), victims=(attempt("w-8"),), priority=5)
        case "a gang":
            made = replace(made, kind=Kind.TRAINING)
        case "nothing fits":
            made = replace(made, jobs=(a_job(1),), spreads=(a_spread({0: 1}),))
        case "one rack":
            packed = replace(made.jobs[0], topology=Topology(pack=Extent.RACK))
            made = replace(made, jobs=(packed,))
        case "the pool keeps it free":
            set_pool(machine, reserve=3)
    decision = claim(machine, made)
    assert ((), "conflict") == (decision.events, verdict(decision))
    assert answer(decision).rows


def test_grant_in_part_is_given_once(start: Start) -> None:
    """L5: the same claim again is granted already, also where there is room for the rest by now."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    made = a_part(machine, {0: 1, 1: 1})
    claim(machine, made)
    end(machine, "w-9")
    decision = claim(machine, made)
    assert ((), "granted") == (decision.events, verdict(decision))


def test_part_ends_only_with_the_rest(start: Start) -> None:
    """L1: its tasks that have a place have done their work; the attempt has not, for the others have yet to run."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    claim(machine, a_part(machine, {0: 1, 1: 1}))
    fail(machine, 0, cause=EndCause.COMPLETED)
    assert () == machine.hear(RecordEnd(EU, *attempt(), EndCause.COMPLETED)).events


def test_part_is_cancelled_and_frees_its_capacity(start: Start) -> None:
    """L1: cancelled with tasks still missing, it ends, frees the capacity that it held and no more, and is forgotten."""
    machine = a_store(start)
    place(machine, "w-9", {0: 8})
    claim(machine, a_part(machine, {0: 1, 1: 1}))
    stop(machine)
    ended = [event for event in facts(end(machine)) if isinstance(event, AttemptEnded)]
    assert [1_000] == [event.gpu_milli for event in ended]
    assert [8_000, 0] == list(machine.state.image.capacity.gpu.held[:2])
    assert [] == check_ledger(machine.state.image.capacity)
    close(machine)
    machine.wait(seconds(120))
    assert machine.state.image.attempts.row(*attempt()) is None


def test_auditor_finds_a_gang_that_is_granted_in_part(start: Start) -> None:
    """L1: of a service that said so it is as it should be."""
    machine = a_store(start)
    made = replace(a_claim(kind=Kind.SERVICE), is_incremental=True)
    before = machine.state.image
    for one, count in (
        (made, 0),
        (replace(made, kind=Kind.BATCH), 1),
        (replace(made, is_incremental=False), 1),
    ):
        fact = replace(machine.logs[EU_LOG][-1], event=replace(granted(one), unplaced=(3,)))
        found = [text for rule, text in check_region_fact(EU, fact, before, None) if rule == 2]
        assert count == len(found)
        assert [] == check_grant(one, before)


# The agent.


def test_agent_learns_where_the_rest_has_no_capacity(start: Start) -> None:
    """L1, L3: of a claim that was granted in part it believes the rows, and counts the part, though the log tells nothing yet: its next
    search finds other nodes, and the claim is closed.
    """
    machine = an_agent(start, joined("w0", 0, 3))
    jobs, spreads = (a_job(2, 4),), (a_spread({0: 1, 1: 1}),)
    award = replace(an_award("w-1", 1, *jobs, spreads=spreads), kind=Kind.SERVICE, is_incremental=True)
    made = claimed(hand(machine, award))
    assert made.is_incremental
    machine.hear(
        ClaimAnswered(EU, A0, W1, 1, made.claim, "granted", Reason.CONFLICT, (full(1),), 9, unplaced=(1,))
    )
    assert {} == machine.state.claims
    request = SolicitBid(EU, WorkloadId("w-2"), "2.0", (a_job(3, 4),), 3, Kind.TRAINING)
    assert (a_spread({0: 1, 2: 2}),) == said_once(machine.hear(FindBid(EU, A0, request)), Bid).spreads


# The whole path.


def test_rest_is_placed_like_the_growth_of_a_job(start: Start) -> None:
    """L1, T9: the part runs; the others are asked for by the one form of request that failures and growth use, wait while there is no
    capacity, and come up where it comes free. Nothing runs twice.
    """
    region = Region(start)
    region.wait(seconds(1))
    region.grant(a_claim("w-9", placed={1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, gpus=8))
    made = a_claim("w-1", placed={0: 1, 1: 1}, gpus=8, kind=Kind.SERVICE)
    region.grant(replace(made, is_incremental=True))
    region.until(lambda: len(region.recorded(GangStarted)) == 2, seconds(5))
    region.wait(seconds(30))
    assert ({0: 0, 1: -1}, [0]) == (region.nodes(), sorted(task for task in region.running() if task >= 0))
    asked = [one for one in region.said if isinstance(one, PlaceTasks)]
    assert {(1, -1, -1)} == {(move.task, move.node_from, move.node_to) for one in asked for move in one.tasks}
    assert [] == [one for one in region.said if isinstance(one, ReviseClaim)]
    region.hear(OrderStop(EU, *attempt("w-9"), EndCause.CANCELLED))
    region.until(region.is_up, seconds(20))
    assert {0: 0, 1: 0} == region.runs()
    (revised,) = region.recorded(ClaimRevised)
    assert (1, -1) == (revised.moves[0].task, revised.moves[0].node_from)
    assert [] == region.doubles()
    held = region.store.state.image.capacity.holding(*attempt())
    assert 16_000 == gpu_milli_of(held.claim.jobs)
    assert [] == [*check_ledger(region.store.state.image.capacity), *check_control(region.store.state.image)]


def test_part_that_loses_its_node(start: Start) -> None:
    """L1: with a task still missing, another is lost with its node: both come up once there is room again."""
    region = Region(start)
    region.wait(seconds(1))
    region.grant(a_claim("w-9", placed={2: 1, 3: 1, 4: 1, 5: 1}, gpus=8))
    made = a_claim("w-1", placed={0: 1, 1: 1, 3: 1}, gpus=8, kind=Kind.SERVICE)
    region.grant(replace(made, is_incremental=True))
    region.until(lambda: len(region.recorded(GangStarted)) == 2, seconds(5))
    region.workers[WorkerName("w0")].is_cut = True
    region.until(lambda: not region.is_up(0, 1), seconds(60))
    region.hear(OrderStop(EU, *attempt("w-9"), EndCause.CANCELLED))
    region.until(region.is_up, seconds(60))
    assert {2, 3, 4, 5} >= set(region.nodes().values())
    assert [0, 1, 2] == region.tasks()
    assert [] == check_control(region.store.state.image)


def test_rest_takes_nothing_that_its_pool_keeps_free(start: Start) -> None:
    """L1, P23: it heals nothing and had no room before, so it waits beside the reserve as the whole claim would have; where less
    is kept it comes up.
    """
    region = Region(start)
    region.wait(seconds(1))
    region.grant(a_claim("w-9", placed={1: 1, 2: 1, 3: 1}, gpus=8))
    region.hear(SetPool(EU, "training", PoolSettings(reserve=2), 0, "olga"))
    made = a_claim("w-1", placed={0: 1, 1: 1}, gpus=8, kind=Kind.SERVICE)
    region.grant(replace(made, is_incremental=True))
    region.wait(seconds(60))
    assert {0: 0, 1: -1} == region.nodes()
    region.hear(SetPool(EU, "training", PoolSettings(reserve=1), 1, "olga"))
    region.until(region.is_up, seconds(20))
    assert region.nodes()[1] in (4, 5)
