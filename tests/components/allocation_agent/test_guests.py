"""Guests: an agent that is asked for a place beside an attempt finds it where that attempt lies, or nowhere."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.events.region import AttemptEnded, StopOrdered
from core.fact import Event
from core.messages.agents import ClaimAnswered, FindBid, PlaceAward
from core.messages.broker import ExecuteAward, SolicitBid
from core.messages.queue import Abstention, Bid
from core.messages.store import DeclineAward, SubmitClaim
from core.nouns.ids import AgentName, AttemptKey, WorkloadId
from core.nouns.placement import Spread
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, JobSpec, Kind
from core.placing.diagnosis.replay_choice import Outcome, retraced
from core.placing.preemption.victim_index import may_go
from mizzen.views.workloads.placement_choice import Chosen, lines_of
from tests.builders import EU, EU_LOG, a_claim, a_job, a_region, a_spread, attempt, granted
from tests.components.allocation_agent.test_bids_and_claims import A0, Start, an_agent
from tests.components.support.machine import Machine
from tests.components.support.shared_pool import pool_nodes
from tests.matching import said_once

HOST, GUEST = attempt("w-1"), attempt("w-2")
NODES = pool_nodes(2, 2, "H100")
JOB = a_job(1, 1, cpus=8)


def one(key: AttemptKey, node: int = 1, beside: AttemptKey | None = None, job: JobSpec = JOB) -> Event:
    """A job of one task in the pool has been granted there."""
    return granted(replace(a_claim(*key, {node: 1}, jobs=(job,), kind=Kind.SHARED), beside=beside))


def ask(machine: Machine[Any], job: JobSpec = JOB, kind: Kind = Kind.SHARED) -> Bid | Abstention:
    """The broker hands it a request for a place beside the host."""
    request = SolicitBid(EU, WorkloadId("w-2"), "auction", (job,), 3, kind, beside=HOST)
    (said,) = machine.hear(FindBid(EU, A0, request)).messages
    assert isinstance(said, (Bid, Abstention))
    return said


def reason(said: Bid | Abstention) -> str:
    """Why it does not bid."""
    assert isinstance(said, Abstention)
    return said.reason


def an_award(*spreads: Spread) -> ExecuteAward:
    """The queue's award, beside the host."""
    return ExecuteAward(EU, *GUEST, 7, 3, Kind.SHARED, (JOB,), A0, spreads, beside=HOST)


def test_guest_is_placed_where_its_host_lies(start: Start) -> None:
    """Nowhere else, also if other nodes are empty; what it counts as taken is CPUs and memory."""
    machine = an_agent(start, NODES, one(HOST))
    bid = ask(machine)
    assert isinstance(bid, Bid)
    assert ((a_spread({1: 1}),), ()) == (bid.spreads, bid.victims)
    machine.state.placer.refresh()
    room = machine.state.placer.pools.available(1)
    assert (1_000, 96_000 - 16_000) == (room.gpu_milli, room.cpu_milli)


def test_guest_on_a_device_of_a_full_node(start: Start) -> None:
    """No GPU need be free."""
    machine = an_agent(start, pool_nodes(1, 1, "H100"), one(HOST, 0))
    assert isinstance(ask(machine), Bid)


@pytest.mark.parametrize(
    ("history", "job", "kind"),
    [
        pytest.param((), JOB, Kind.SHARED, id="no host"),
        pytest.param(
            (one(HOST), AttemptEnded(*HOST, EndCause.COMPLETED)), JOB, Kind.SHARED, id="host is over"
        ),
        pytest.param(
            (one(HOST), StopOrdered(*HOST, EndCause.ROUND_OVER)), JOB, Kind.SHARED, id="host is to stop"
        ),
        pytest.param((one(HOST), one(attempt("w-3"), 1, HOST)), JOB, Kind.SHARED, id="host has a guest"),
        pytest.param((one(HOST, job=a_job(1, 2)),), JOB, Kind.SHARED, id="host is wide"),
        pytest.param((one(HOST),), a_job(1, 2), Kind.SHARED, id="guest is wide"),
        pytest.param((one(HOST),), a_job(1, 1, cpus=90), Kind.SHARED, id="too few CPUs"),
        pytest.param((one(HOST),), a_job(1, 1, gpu_type="V100"), Kind.SHARED, id="another GPU type"),
        pytest.param((one(HOST),), JOB, Kind.TRAINING, id="another kind"),
    ],
)
def test_guest_that_finds_no_place(
    start: Start, history: tuple[Event, ...], job: JobSpec, kind: Kind
) -> None:
    """It has a reason of its own, which says nothing of the region's free capacity."""
    said = ask(an_agent(start, NODES, *history), job, kind)
    assert isinstance(said, Abstention)
    assert (Reason.NO_HOST, 0, None) == (said.reason, said.missing_gpu_milli, said.shortage)


def test_award_of_a_guest_is_claimed_beside_its_host(start: Start) -> None:
    """As it was bid, or found again when the queue forgot where; what `explain` makes of it is equal."""
    for spreads in ((a_spread({1: 1}),), ()):
        machine = an_agent(start, NODES, one(HOST))
        bid = ask(machine)
        assert isinstance(bid, Bid)
        award = replace(an_award(*spreads), view=bid.view)
        claim = said_once(machine.hear(PlaceAward(EU, A0, award)), SubmitClaim).claim
        assert (HOST, (a_spread({1: 1}),)) == (claim.beside, claim.spreads)
        assert Outcome.EQUAL == retraced(a_region(NODES, one(HOST)), claim).outcome
        told = retraced(a_region(NODES, one(HOST, 0)), claim)
        assert (Outcome.DIFFERENT, "its host takes no guest there") == (told.outcome, told.why)
        assert "  it was paired with w-1 (attempt 1), on whose device it was placed" in lines_of(
            EU, Chosen(EU_LOG, told), "  "
        )


def test_guest_after_a_conflict(start: Start) -> None:
    """Once its view shows that the host has another guest, the agent gives the award back, and says why."""
    machine = an_agent(start, NODES, one(HOST))
    claim = said_once(machine.hear(PlaceAward(EU, A0, an_award(a_spread({1: 1})))), SubmitClaim).claim
    machine.fact(EU_LOG, one(attempt("w-3"), 1, HOST))
    conflict = ClaimAnswered(EU, A0, *GUEST, claim.claim, "conflict", Reason.CONFLICT, (), 3)
    back = said_once(machine.hear(conflict), DeclineAward)
    assert (Reason.NO_HOST, Reason.CONFLICT) == (back.reason, back.conflict)


def test_pair_is_not_chosen_as_victims(start: Start) -> None:
    """Neither host nor guest, until one of them has ended: then the other may be pushed out by a wide job."""
    machine = an_agent(start, pool_nodes(1, 2, "H100"), one(HOST, 0))
    wide = SolicitBid(EU, WorkloadId("w-9"), "wide", (a_job(1, 2),), 4, Kind.SHARED)

    def told(auction: str) -> Bid | Abstention:
        request = replace(wide, auction=auction)
        (said,) = machine.hear(FindBid(EU, AgentName("a0"), request)).messages
        assert isinstance(said, (Bid, Abstention))
        return said

    machine.fact(EU_LOG, one(GUEST, 0, HOST))
    capacity = machine.state.image.capacity
    assert [False, False] == [may_go(capacity.holdings[key[0]][1]) for key in (HOST, GUEST)]
    assert Reason.NO_CAPACITY == reason(told("paired"))
    machine.fact(EU_LOG, AttemptEnded(*HOST, EndCause.COMPLETED))
    bid = told("alone")
    assert isinstance(bid, Bid)
    assert (GUEST,) == bid.victims
