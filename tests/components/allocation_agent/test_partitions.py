"""An agent that takes in node rows alone, partition by partition."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from components import AllocationAgent
from core.component import Follow
from core.events.agents import AgentsSet
from core.events.pools import PoolChanged
from core.events.region import AttemptEnded, NodesLost
from core.events.starts import StartReserved
from core.images import RegionImage
from core.messages.agents import AgentPresent, ClaimAnswered, FindBid
from core.messages.broker import SolicitBid
from core.messages.control import PlaceTasks
from core.messages.queue import Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.agents import AgentSettings, AgentView, Placing, Turn
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import PRESENCE_INTERVAL
from core.nouns.operation import TaskMove
from core.nouns.placement import NodeRow
from core.nouns.pool import PoolSettings
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Extent, Kind, Topology
from core.placing.believed import WANTED
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.placer import SECTIONS
from tests.builders import EU, EU_LOG, a_claim, a_job, a_spread, attempt, granted, joined
from tests.components.support.by_rows import (
    A0,
    FOUR,
    Start,
    ask,
    award_of,
    by_rows,
    claim_of,
    is_handed_back,
    nodes_of,
    place,
    settle,
    turn,
    view_of,
)
from tests.components.support.machine import Machine
from tests.matching import said, said_once

# Partition p of four has the nodes 2p and 2p + 1; in round r this agent owns partition r mod 4.


def node_of(decision: Any) -> int:
    """The one node of the one task."""
    ((node,),) = nodes_of(decision)
    return int(node)


def held(workload: str, *nodes: int) -> Any:
    """A grant of all GPUs of these nodes."""
    return granted(a_claim(workload, placed=dict.fromkeys(nodes, 8)))


# What it hears.


def test_agent_asks_for_few_facts_and_all_rows(start: Start) -> None:
    """From the first request of a turn with partitions on; and for everything again from one without."""
    machine = start(AllocationAgent(EU, A0))
    component = machine.component
    assert isinstance(component, AllocationAgent)
    machine.fact(EU_LOG, joined("w0", 0, 8), AgentsSet(FOUR))
    (before,) = component.follows_now(machine.state)
    assert before.facts is None
    ask(machine, turn=turn())
    (after,) = component.follows_now(machine.state)
    assert Follow(EU_LOG, SECTIONS, with_rows=True, facts=WANTED) == after
    assert machine.state.believed is not None
    ask(machine, workload="w-2", turn=Turn())
    assert (before,) == component.follows_now(machine.state)
    assert machine.state.believed is None


def test_request_in_a_stream_is_no_wish_for_rows(start: Start) -> None:
    """Whatever its turn says: the view is the setting's."""
    machine = start(AllocationAgent(EU, A0))
    machine.fact(EU_LOG, joined("w0", 0, 8))
    assert 1 == len(nodes_of(ask(machine, turn=turn())))
    assert machine.state.believed is None


def test_no_holding_is_folded(start: Start) -> None:
    """What is free it knows, and by whom the rest is held it does not."""
    machine = by_rows(start, held("w-9", 0))
    machine.fact(EU_LOG, held("w-8", 2))
    capacity = machine.state.image.capacity
    assert ({}, {}) == (capacity.holdings, capacity.promises)
    assert 0 == capacity.gpu.free[0]


# Partitions.


def test_owned_partition_comes_first(start: Start) -> None:
    """S2: in each round another one."""
    machine = by_rows(start)
    for number in (1, 2, 3, 4):
        found = ask(machine, a_job(1, 1), workload=f"w-{number}", turn=turn(number))
        assert number % 4 == node_of(found) // 2 == view_of(found).partition
        settle(machine, f"w-{number}", has_won=False)


def test_rows_are_held_back_until_their_partition_is_owned(start: Start) -> None:
    """A node's last row wins, and a partition that nobody asks for costs nothing: there is no timer."""
    machine = by_rows(start, settings=replace(FOUR, sync_every=seconds(600)))
    machine.fact(EU_LOG, held("w-8", 2, 3))
    machine.fact(EU_LOG, held("w-9", 4))
    assert 8_000 == machine.state.image.capacity.gpu.free[2]
    machine.wait(seconds(60))
    assert 8_000 == machine.state.image.capacity.gpu.free[2]
    found = ask(machine, a_job(1, 8), workload="w-1", turn=turn(1))
    assert 0 == machine.state.image.capacity.gpu.free[2] == machine.state.image.capacity.gpu.free[3]
    assert 8_000 == machine.state.image.capacity.gpu.free[4]
    assert node_of(found) not in (2, 3)


def test_release_is_seen_by_the_owner_at_its_next_request(start: Start) -> None:
    """S12: rows of a partition are taken in as they are told while it is owned."""
    machine = by_rows(start, held("w-9", *range(8)))
    assert is_handed_back(ask(machine, a_job(1, 8), workload="w-1", turn=turn(1)))
    machine.fact(EU_LOG, AttemptEnded(*attempt("w-9"), EndCause.COMPLETED))
    assert {2, 3} >= {node_of(ask(machine, a_job(1, 8), workload="w-2", turn=turn(1)))}


def test_old_turn_is_searched_with_the_newest_known(start: Start) -> None:
    """A request that was long on its way, and one of a number of agents that is no more."""
    machine = by_rows(start)
    ask(machine, workload="w-0", turn=turn(9))
    for number, other in enumerate((turn(2), turn(7, agents=8)), start=1):
        found = ask(machine, a_job(1, 1), workload=f"w-{number}", turn=other)
        assert 9 % 4 == view_of(found).partition
    assert turn(9) == machine.state.believed.turn


def test_statesync_takes_in_everything_once_in_its_span(start: Start) -> None:
    """S3: by a setting: all partitions are as old, and none is taken in within the span, however many rounds it has."""
    machine = by_rows(start, settings=replace(FOUR, view=AgentView.STATESYNC))
    machine.fact(EU_LOG, held("w-9", 0, 2, 4, 6))
    ask(machine, workload="w-1", turn=turn(1))
    assert 8_000 == machine.state.image.capacity.gpu.free[2]
    assert 1 == len(set(machine.state.believed.taken))
    ask(machine, workload="w-2", turn=turn(4))
    assert [0, 0, 0, 0] == [machine.state.image.capacity.gpu.free[node] for node in (0, 2, 4, 6)]
    assert {machine.sequence(EU_LOG)} == set(machine.state.believed.taken)


@pytest.mark.parametrize("changes", [False, True])
def test_no_partition_is_older_than_the_span_at_a_search(start: Start, changes: bool) -> None:
    """S3, S10: G, however seldom the agent is asked; twice that after the number of agents has changed."""
    dice, settings = random.Random(3), replace(FOUR, partitions=8)
    machine = by_rows(start, settings=settings, nodes=16)
    agents, oldest = 4, 0
    for number in range(300):
        machine.wait(Nanoseconds(round(dice.choice((0.01, 0.1, 0.4, 3.0)) * settings.sync_every)))
        if changes and not number % 7:
            agents = dice.choice((1, 3, 4, 5, 8))
        span = settings.sync_every // agents
        ask(machine, a_job(1, 1), workload=f"w-{number}", turn=turn(machine.now // span, agents=agents))
        settle(machine, f"w-{number}", has_won=False)
        oldest = max(oldest, machine.now - min(machine.state.believed.taken_at))
    assert settings.sync_every / 2 < oldest <= settings.sync_every * (2 if changes else 1)


def test_partitions_of_rounds_gone_by_are_less_fresh(start: Start) -> None:
    """S2: other agents own them by now, the latest one longest."""
    machine = by_rows(start)
    ask(machine, a_job(1, 1), workload="w-1", turn=turn(4))
    ask(machine, a_job(1, 1), workload="w-2", turn=turn(7))
    fresh = machine.state.believed.fresh.tolist()
    assert fresh == sorted(set(fresh))


def test_rows_taken_in_late_equal_the_fold_at_their_sequence(start: Start) -> None:
    """Of each partition, whatever was told since of others."""
    machine = by_rows(start)
    placed = {1: 3, 2: 5, 3: 0, 4: 7}
    for number, node in placed.items():
        machine.fact(EU_LOG, granted(a_claim(f"w-1{number}", placed={node: 8 - number})))
        ask(machine, workload=f"w-{number}", turn=turn(number))
    believed = machine.state.believed
    for partition in range(4):
        image = RegionImage.empty(SECTIONS)
        for fact in machine.logs[EU_LOG][: believed.taken[partition]]:
            image.fold(fact)
        for node in (2 * partition, 2 * partition + 1):
            assert image.capacity.available(node) == machine.state.image.capacity.available(node), node
    assert 1 < len(set(believed.taken))


def test_fact_that_is_folded_makes_everything_new(start: Start) -> None:
    """No partition is older than the rules by which it is searched; nodes that joined are in no partition before."""
    machine = by_rows(start)
    machine.fact(EU_LOG, held("w-9", 2))
    machine.fact(EU_LOG, PoolChanged("training", PoolSettings("plain")))
    ask(machine, workload="w-1", turn=turn(0))
    assert {machine.sequence(EU_LOG)} == set(machine.state.believed.taken)
    assert 0 == machine.state.image.capacity.gpu.free[2]
    machine.fact(EU_LOG, joined("w1", 8, 2), held("w-8", *range(8)))
    assert {8, 9} >= {node_of(ask(machine, a_job(1, 8), workload="w-2", turn=turn(0)))}


def test_lost_node_is_left_alone_once_its_row_is_taken_in(start: Start) -> None:
    """And before, it is claimed in vain."""
    machine = by_rows(start)
    machine.fact(EU_LOG, NodesLost(WorkerName("w0"), tuple(range(8))))
    assert not is_handed_back(ask(machine, workload="w-1", turn=turn(0, index=1)))
    for number in range(1, 5):
        ask(machine, workload=f"w-2{number}", turn=turn(number))
    assert is_handed_back(ask(machine, workload="w-3", turn=turn(4)))


# Strategies.


def test_placing_is_a_setting(start: Start) -> None:
    """S6, S7, S9: by freshness the owned one; by quality the one whose nodes are best for the task; and by tier, of the best tier."""
    near = replace(a_job(1, 1))
    for placing, partition in (
        (Placing.LATENCY_FIRST, 1),
        (Placing.TIER_FIRST, 1),
        (Placing.QUALITY_FIRST, 3),
    ):
        settings = replace(FOUR, placing=placing)
        machine = by_rows(
            start,
            PoolChanged("training", PoolSettings("best_fit:8")),
            granted(a_claim("w-9", placed={6: 7})),
            held("w-8", 7),
            settings=settings,
        )
        found = ask(machine, near, workload="w-1", turn=turn(1))
        assert partition == view_of(found).partition, placing
        assert placing == view_of(found).placing


def test_adaptive_follows_the_longest_wait(start: Start) -> None:
    """S8: it waits in the inbox, as the host tells, and is late until a request has waited for half as long."""
    settings = replace(FOUR, placing=Placing.ADAPTIVE)
    machine = by_rows(
        start,
        PoolChanged("training", PoolSettings("best_fit:8")),
        granted(a_claim("w-9", placed={6: 7})),
        held("w-8", 7),
        settings=settings,
    )
    found = []
    for number, waited in enumerate((0.0, 1.6, 1.0, 0.5, 1.0)):
        request = SolicitBid(
            EU, WorkloadId(f"w-{number}"), f"auction of w-{number}", (a_job(1, 1),), 3, Kind.TRAINING
        )
        machine.hear(FindBid(EU, A0, request, turn(1)), waited=seconds(waited))
        found.append(view_of(machine.wake()).partition if machine.state.waiting else machine.heard[-1][1])
        settle(machine, f"w-{number}", has_won=False)
    parts = [one if isinstance(one, int) else view_of(one).partition for one in found]
    assert [3, 1, 1, 3, 3] == parts


def test_wait_before_it_was_handed_on_counts(start: Start) -> None:
    """S8: what a broker tells is added to the wait in the inbox."""
    settings = replace(FOUR, placing=Placing.ADAPTIVE)
    machine = by_rows(
        start, PoolChanged("training", PoolSettings("best_fit:8")), granted(a_claim("w-9", placed={6: 7})), held("w-8", 7), settings=settings
    )  # fmt: skip
    found = []
    for number, told in enumerate((0.8, 1.0, 0.2)):
        request = SolicitBid(
            EU, WorkloadId(f"w-{number}"), f"auction of w-{number}", (a_job(1, 1),), 3, Kind.TRAINING
        )
        asked = FindBid(EU, A0, request, turn(1), waited=seconds(told))
        heard = machine.hear(asked, waited=seconds(0.5))
        found.append(view_of(machine.wake() if machine.state.waiting else heard).partition)
        settle(machine, f"w-{number}", has_won=False)
    assert [3, 1, 3] == found


def test_score_is_of_the_task(start: Start) -> None:
    """S15: two workloads with opposite preferences go to opposite ends of the region, though one partition is the freshest."""
    near = replace(a_job(1, 1), topology=Topology(near=("zone-1",)))
    far = replace(a_job(1, 1), topology=Topology(near=("zone-2",)))
    machine = start(AllocationAgent(EU, A0))
    one, other = joined("w0", 0, 4), joined("w1", 4, 4)
    zones = [
        replace(
            event,
            inventory=replace(
                event.inventory, groups=tuple(replace(group, zone=zone) for group in event.inventory.groups)
            ),
        )
        for event, zone in ((one, "zone-1"), (other, "zone-2"))
    ]
    machine.fact(EU_LOG, *zones, AgentsSet(FOUR))
    for number in range(4):
        assert node_of(ask(machine, near, workload=f"w-1{number}", turn=turn(number))) < 4
        assert node_of(ask(machine, far, workload=f"w-2{number}", turn=turn(number))) >= 4


# What rows cannot tell.


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"jobs": (replace(a_job(), is_alone=True),)}, id="alone on its node"),
        pytest.param({"jobs": (a_job(1, 0.5),)}, id="part of a device"),
        pytest.param({"beside": attempt("w-9")}, id="guest"),
        pytest.param({"wants_prospect": True}, id="when it could start"),
        pytest.param({"spares_all": True}, id="promised a start"),
        pytest.param({"jobs": (a_job(1, 16),)}, id="what no node has"),
        pytest.param({"jobs": (a_job(5, 8), a_job(4, 8, name="more"))}, id="more than there is"),
    ],
)
def test_request_that_rows_cannot_answer_is_handed_back(start: Start, fields: dict[str, Any]) -> None:
    """The broker gives it to an agent that folds every fact, which also says why."""
    assert is_handed_back(ask(by_rows(start), turn=turn(1), **fields))


def test_request_to_a_pool_that_keeps_something_free_is_handed_back(start: Start) -> None:
    """How much of a zone is free, the rows of one partition do not tell."""
    machine = by_rows(start, PoolChanged("training", PoolSettings(reserve=2)))
    assert is_handed_back(ask(machine, a_job(1, 8), turn=turn(1)))


def test_kept_nodes_are_left_alone(start: Start) -> None:
    """Of a promised start, and of work that is alone: rows say so, answers too."""
    reserved = StartReserved(
        WorkloadId("w-7"),
        1,
        seconds(600),
        3,
        Kind.TRAINING,
        TenantName(""),
        (a_job(2, 8),),
        (a_spread({0: 1, 1: 1}),),
        1,
    )
    alone = replace(a_claim("w-8", placed={2: 1}), jobs=(replace(a_job(1, 1), is_alone=True),))
    machine = by_rows(start, reserved, granted(alone))
    seen = {
        node_of(ask(machine, a_job(1, 1), workload=f"w-{number}", turn=turn(number))) for number in range(8)
    }
    assert seen <= {3, 4, 5, 6, 7}
    machine.fact(
        EU_LOG, granted(replace(a_claim("w-6", placed={4: 1}), jobs=(replace(a_job(1, 1), is_alone=True),)))
    )
    ask(machine, workload="w-10", turn=turn(10))
    assert machine.state.image.capacity.closed[4]


def test_node_with_shared_devices_has_whole_ones_too(start: Start) -> None:
    """A row tells what is free on shared devices, so whole devices are not promised twice."""
    part = granted(a_claim("w-9", jobs=(a_job(1, 0.5),), spreads=(a_spread({0: 1}),)))
    machine = by_rows(start, part, held("w-8", *range(1, 8)))
    assert is_handed_back(ask(machine, a_job(1, 8), workload="w-1", turn=turn(4)))
    assert {0: 1} == nodes_of(ask(machine, a_job(1, 7), workload="w-2", turn=turn(4)))[0]


def test_task_of_a_running_attempt_makes_the_agent_fold_everything(start: Start) -> None:
    """Where the others are, rows do not tell; the request waits until the image is there."""
    machine = by_rows(start, granted(a_claim("w-9", placed={0: 1}, kind=Kind.SERVICE)))
    machine.hear(PlaceTasks(EU, A0, *attempt("w-9"), 1, (TaskMove(0, 0, -1),)))
    assert machine.state.believed is None
    assert 1 == len(machine.wake().messages)


# Gangs.


def test_gang_goes_to_an_owned_rack(start: Start) -> None:
    """The tightest of them; and the view names the partition."""
    found = ask(by_rows(start), a_job(2, 8), turn=turn(3))
    assert [{6: 1, 7: 1}] == nodes_of(found)
    assert 3 == view_of(found).partition


def test_gang_that_no_owned_rack_holds_is_searched_for_everywhere(start: Start) -> None:
    """After everything was taken in; the view is of the whole region."""
    machine = by_rows(start)
    machine.fact(EU_LOG, held("w-9", 0))
    found = ask(machine, a_job(3, 8), turn=turn(3))
    assert not {0} & nodes_of(found)[0].keys()
    assert (-1, machine.sequence(EU_LOG)) == (view_of(found).partition, view_of(found).sequence)
    several = ask(machine, a_job(1, 8), a_job(1, 8, name="other"), workload="w-2", turn=turn(3))
    assert 2 == len(nodes_of(several))


def test_gang_that_is_spread_is_searched_for_everywhere(start: Start) -> None:
    """One rack is one unit."""
    job = replace(a_job(2, 8), topology=Topology(spread=Extent.RACK))
    nodes = nodes_of(ask(by_rows(start), job, turn=turn(3)))[0]
    assert 2 == len({node // 2 for node in nodes})


# Claims.


def test_award_is_claimed_where_it_was_bid(start: Start) -> None:
    """Without another search."""
    machine = by_rows(start)
    award = award_of("w-1", a_job(1, 8), spreads=(a_spread({5: 1}),))
    assert [{5: 1}] == nodes_of(place(machine, award, turn(1)))


def answer(machine: Machine[Any], claim: Any, verdict: str, *rows: NodeRow, sequence: int = 0) -> Any:
    """The store answers, and the agent is woken until nothing is due."""
    reason = Reason.CONFLICT if verdict == "conflict" else ""
    told = ClaimAnswered(EU, A0, claim.workload, claim.epoch, claim.claim, verdict, reason, rows, sequence)
    heard = machine.hear(told)
    assert not heard.messages or verdict != "conflict"
    return machine.wake()


def test_conflict_is_tried_again_at_once(start: Start) -> None:
    """Its rows are learnt: the next try goes elsewhere, though no fact was told."""
    machine = by_rows(start)
    first = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    node = first.spreads[0].nodes[0]
    again = answer(machine, first, "conflict", NodeRow(node, Amount(), is_open=True), sequence=9)
    assert node != node_of(again)
    assert "w-1.1.a0.2" == claim_of(again).claim


def test_learnt_row_is_forgotten_with_newer_rows(start: Start) -> None:
    """Once its partition is known at the answer's sequence, or a later one."""
    machine = by_rows(start)
    first = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    node = first.spreads[0].nodes[0]
    row = NodeRow(node, Amount(), is_open=True)
    answer(machine, first, "conflict", row, sequence=machine.sequence(EU_LOG) + 2)
    ask(machine, workload="w-2", turn=turn(2))
    machine.fact(EU_LOG, held("w-9", 0))
    machine.fact(EU_LOG, held("w-8", node))
    assert {node} == machine.state.overlay.learnt.keys()
    ask(machine, workload="w-3", turn=turn(5))
    assert {} == machine.state.overlay.learnt
    assert 0 == machine.state.image.capacity.gpu.free[node]


def test_kept_node_of_an_answer_is_left_alone(start: Start) -> None:
    """It has room, and is kept for somebody else."""
    machine = by_rows(start)
    first = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    node = first.spreads[0].nodes[0]
    row = NodeRow(node, Amount(8_000, 64_000, 512 << 30), is_open=True, is_kept=True)
    assert node != node_of(answer(machine, first, "conflict", row, sequence=9))


def test_granted_capacity_counts_until_newer_rows_are_taken_in(start: Start) -> None:
    """Of its partition: the grant is in no row before."""
    machine = by_rows(start)
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    node = claim.spreads[0].nodes[0]
    answer(machine, claim, "granted", sequence=machine.sequence(EU_LOG))
    assert node != node_of(ask(machine, a_job(1, 8), workload="w-2", turn=turn(2)))
    settle(machine, "w-2", has_won=False)
    machine.fact(EU_LOG, granted(claim))
    assert machine.state.granted
    assert 8_000 == machine.state.image.capacity.gpu.free[node]
    ask(machine, workload="w-3", turn=turn(5))
    assert {} == machine.state.granted
    assert 0 == machine.state.image.capacity.gpu.free[node]
    assert () == machine.state.overlay.taken_by(("claim", attempt("w-1")))


def test_award_without_a_place_is_handed_back(start: Start) -> None:
    """At once, or when the last partition turns out to be full: the award still stands."""
    machine = by_rows(start, held("w-9", *range(1, 8)))
    assert is_handed_back(place(machine, award_of("w-1", a_job(1, 16)), turn(1)))
    first = claim_of(place(machine, award_of("w-2", a_job(1, 8)), turn(1)))
    back = answer(machine, first, "conflict", NodeRow(0, Amount(), is_open=True), sequence=9)
    assert is_handed_back(back)
    assert {} == machine.state.claims


def test_tries_are_a_setting(start: Start) -> None:
    """After so many claims the award is declined."""
    machine = by_rows(start, settings=replace(FOUR, tries=2))
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    for number in (1, 2):
        node = claim.spreads[0].nodes[0]
        row = NodeRow(node, Amount(), is_open=True)
        told = ClaimAnswered(EU, A0, claim.workload, 1, claim.claim, "conflict", Reason.CONFLICT, (row,), 9)
        heard = machine.hear(told)
        if number == 1:
            claim = claim_of(machine.wake())
    assert Reason.CONFLICTS_EXHAUSTED == said_once(heard, DeclineAward).reason


# Switches, gaps, beats.


def test_switch_loses_no_request(start: Start) -> None:
    """Bids and claims that are open stay open, and requests that come in between are decided afterwards."""
    machine = by_rows(start)
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    ask(machine, a_job(1, 8), workload="w-2", turn=turn(1))
    machine.fact(EU_LOG, AgentsSet(AgentSettings()))
    found = ask(machine, a_job(1, 8), workload="w-3", turn=Turn())
    assert machine.state.believed is None
    taken = {claim.spreads[0].nodes[0], *nodes_of(found)[0]}
    assert 2 == len(taken)
    assert {attempt("w-1")} == machine.state.claims.keys()
    machine.fact(EU_LOG, AgentsSet(FOUR))
    assert 1 == len(said(ask(machine, a_job(1, 8), workload="w-4", turn=turn(9)), Bid))
    assert machine.state.believed is not None


def test_image_adopted_after_a_gap_is_reduced(start: Start) -> None:
    """Rows that were missed cannot be had otherwise; what was granted and is not in the image still counts."""
    machine = by_rows(start)
    claim = claim_of(place(machine, award_of("w-1", a_job(1, 8)), turn(1)))
    answer(machine, claim, "granted", sequence=machine.sequence(EU_LOG) + 5)
    machine.adopt(EU_LOG, held("w-9", 6))
    assert {} == machine.state.image.capacity.holdings
    assert {machine.sequence(EU_LOG)} == set(machine.state.believed.taken)
    assert 0 == machine.state.image.capacity.gpu.free[6]
    node = claim.spreads[0].nodes[0]
    assert node != node_of(ask(machine, a_job(1, 8), workload="w-2", turn=turn(1)))


def test_beat_tells_views_waits_and_ages(start: Start) -> None:
    """S5, S13: what `mizzen agents` shows of it."""
    machine = by_rows(start, settings=replace(FOUR, sync_every=seconds(4)))
    for number in (1, 2):
        machine.wait(seconds(1))
        ask(machine, a_job(1, 8), workload=f"w-{number}", turn=turn(number))
    place(machine, award_of("w-3", a_job(1, 16)), turn(2))
    figures = said(machine.wait(Nanoseconds(PRESENCE_INTERVAL)), AgentPresent)[0].figures
    assert (AgentView.PARSYNC, 4, 4, 1) == (
        figures.view,
        figures.partitions,
        figures.requests,
        figures.handed_back,
    )
    assert figures.oldest_ms - figures.freshest_ms == 2_000
    assert 3 == figures.picks
    assert 2_000 < figures.quality_permille <= 3_000


def test_choice_is_made_again_from_the_partition(start: Start) -> None:
    """P27: whatever became of the other partitions; and the partition's rows at another sequence would give another node."""
    machine = by_rows(start, granted(a_claim("w-9", placed={2: 4})))
    machine.fact(EU_LOG, held("w-8", 0, 4, 6))
    found = ask(machine, a_job(1, 2), workload="w-1", turn=turn(1))
    bid = said_once(found, Bid)
    machine.fact(EU_LOG, held("w-7", 3))
    image = RegionImage.empty(SECTIONS)
    for fact in machine.logs[EU_LOG][: bid.view.sequence]:
        image.fold(fact)
    claim = replace(a_claim("w-1", jobs=(a_job(1, 2),), spreads=bid.spreads), view=bid.view)
    again = retraced(image, claim)
    assert Outcome.EQUAL == again.outcome, again.why
    assert "partition" in {step.rule for step in again.choices[0].steps}
    other = a_spread({3: 1} if 2 in bid.spreads[0].nodes else {2: 1})
    assert Outcome.DIFFERENT == retraced(image, replace(claim, spreads=(other,))).outcome


def test_claim_is_what_the_store_hears(start: Start) -> None:
    """S13: each try is one, and counts as one."""
    machine = by_rows(start)
    found = place(machine, award_of("w-1", a_job(1, 8)), turn(1))
    assert 1 == len(said(found, SubmitClaim))
    assert (1, 0, 1) == (
        machine.state.tally.claims,
        machine.state.tally.conflicts,
        machine.state.tally.awards,
    )
