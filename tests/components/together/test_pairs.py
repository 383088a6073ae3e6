"""Two jobs on one device of a region whose parts work together: one ends, is stopped, restarted, drained or lost, and the other goes on."""

from random import Random

import pytest
from msgspec.structs import replace

from core.events.region import AttemptEnded, ClaimGranted, GangStarted, StopOrdered
from core.invariants.consistency import check_ledger
from core.messages.broker import StopAttempt
from core.messages.nodes import DrainNodes, PlanMaintenance
from core.messages.workers import PrepareTasks
from core.nouns.ids import AttemptKey, ShareKey, WorkerName
from core.nouns.instant import seconds
from core.nouns.limits import PRESENCE_SILENCE_MAX
from core.nouns.maintenance import MaintenanceKind, Scope, ScopeKind
from core.nouns.operation import OperationKind
from core.nouns.placement import Claim
from core.nouns.pool import SHARED_POOL
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, a_claim, a_job, attempt
from tests.components.support.region import Region, Start

W0 = WorkerName("w0")
HOST, GUEST, NEXT = attempt("w-1"), attempt("w-2"), attempt("w-3")


def one(key: AttemptKey, beside: AttemptKey | None = None) -> Claim:
    """A job of one task in the pool, on the first node."""
    made = a_claim(*key, kind=Kind.SHARED, jobs=(a_job(1, 1, cpus=8),))
    return replace(made, beside=beside, grace=seconds(5))


def a_pair(start: Start) -> Region:
    """Host and guest run."""
    region = Region(start, workers=2, nodes=1, pool=SHARED_POOL)
    region.wait(seconds(1))
    region.grant(one(HOST))
    region.grant(one(GUEST, HOST))
    region.wait(seconds(1))
    assert [HOST, GUEST] == [(fact.workload, fact.epoch) for fact in region.recorded(GangStarted)]
    assert held(region) == (1, {HOST, GUEST})
    return region


def held(region: Region) -> tuple[int, set[AttemptKey]]:
    """GPUs that are held or ending on the first node, after a look at the whole ledger, and the attempts that live."""
    capacity = region.store.state.image.capacity
    assert [] == check_ledger(capacity)
    assert [] == check_ledger(region.agent.state.image.capacity)
    gpus = (capacity.gpu.held[0] + capacity.gpu.ending[0]) // 1_000
    return gpus, {(workload, epoch) for workload, epoch, _ in capacity.live()}


def complete(region: Region, key: AttemptKey) -> None:
    """It ends by itself."""
    region.workers[W0].end(ShareKey(*key), 0)
    region.workers[W0].beat()
    region.wait(seconds(1))


def running(region: Region) -> set[AttemptKey]:
    """What runs on the first worker."""
    return {ran.key.attempt for ran in region.ran if ran.ended is None}


def test_guest_goes_on_when_its_host_ends(start: Start) -> None:
    """Its device is never free in between, its worker hears nothing, and it may be host to a next guest."""
    region = a_pair(start)
    commands = len([one for one in region.said if isinstance(one, PrepareTasks)])
    complete(region, HOST)
    assert (1, {GUEST}) == held(region)
    assert commands == len([one for one in region.said if isinstance(one, PrepareTasks)])
    region.grant(one(NEXT, GUEST))
    region.wait(seconds(1))
    assert (1, {GUEST, NEXT}) == held(region)
    complete(region, GUEST)
    complete(region, NEXT)
    assert (0, set()) == held(region)
    assert [HOST, GUEST, NEXT] == [ran.key.attempt for ran in region.ran]


def test_pair_of_which_one_is_told_to_leave(start: Start) -> None:
    """At a round's end one saves and stops; the other is not touched."""
    for leaves, stays in ((HOST, GUEST), (GUEST, HOST)):
        region = a_pair(start)
        region.hear(StopAttempt(EU, *leaves, EndCause.CANCELLED))
        region.wait(seconds(10))
        assert ((1, {stays}), {stays}) == (held(region), running(region))
        assert [leaves] == [(fact.workload, fact.epoch) for fact in region.recorded(StopOrdered)]


def test_host_that_is_restarted_where_it_is(start: Start) -> None:
    """It holds its device meanwhile, and so does its guest."""
    region = a_pair(start)
    region.operate(OperationKind.RESTART)
    region.wait(seconds(30))
    assert [0, 0, 1] == [ran.key.run for ran in region.ran]
    assert ((1, {HOST, GUEST}), {HOST, GUEST}) == (held(region), running(region))


@pytest.mark.parametrize("how", ["drain", "maintenance"])
def test_node_of_a_pair_that_is_to_be_empty(start: Start, how: str) -> None:
    """Both leave, each for itself, and no next guest comes."""
    region = a_pair(start)
    scope = Scope(ScopeKind.WORKER, (W0,))
    if how == "drain":
        region.hear(DrainNodes(EU, scope, "because", 0, seconds(60)))
    else:
        region.hear(
            PlanMaintenance(EU, scope, MaintenanceKind.REBOOT, seconds(70), seconds(100), seconds(60), 0)
        )
    region.wait(seconds(90))
    assert ((0, set()), set()) == (held(region), running(region))
    ended = region.recorded(AttemptEnded)
    wanted = EndCause.DRAINED if how == "drain" else EndCause.MAINTENANCE
    assert {HOST: wanted, GUEST: wanted} == {(fact.workload, fact.epoch): fact.cause for fact in ended}
    assert region.store.state.image.capacity.closed[0]


def test_node_of_a_pair_that_is_lost(start: Start) -> None:
    """Both end, and the node is whole when its worker is back."""
    region = a_pair(start)
    worker = region.workers[W0]
    worker.is_cut = True
    region.wait(seconds(2 * PRESENCE_SILENCE_MAX // seconds(1)))
    assert (0, set()) == held(region)
    worker.is_cut = False
    worker.lose_power()
    region.wait(seconds(30))
    assert 8_000 == region.store.state.image.capacity.available(0).gpu_milli
    assert (0, set()) == held(region)


@pytest.mark.parametrize("seed", range(8))
def test_pairs_whatever_happens(start: Start, seed: int) -> None:
    """Jobs come, end and are stopped in any order, messages are lost and brokers die: the device is held once, or free."""
    dice = Random(seed)
    region = Region(start, workers=1, nodes=1, pool=SHARED_POOL)
    region.wait(seconds(1))
    region.loses = 0.2
    pairs = 0
    for number in range(1, 16):
        _, live = held(region)
        key = attempt(f"w-{number}")
        beside = dice.choice(sorted(live)) if live and dice.random() < 0.8 else None
        made = one(key, beside)
        for _ in range(5):
            region.grant(made)
            region.wait(seconds(1))
        pairs += any(fact.workload == key[0] and fact.claim.beside for fact in region.recorded(ClaimGranted))
        for gone in sorted(running(region)):
            if dice.random() < 0.4:
                region.hear(StopAttempt(EU, *gone, EndCause.CANCELLED))
            elif dice.random() < 0.3:
                region.workers[W0].end(ShareKey(*gone), 0)
        if dice.random() < 0.3:
            region.restart("broker")
        region.wait(seconds(dice.randrange(8)))
        held(region)
    assert pairs > 1
    region.loses = 0.0
    for gone in sorted(held(region)[1]):
        region.hear(StopAttempt(EU, *gone, EndCause.CANCELLED))
    region.wait(seconds(60))
    assert ((0, set()), set()) == (held(region), running(region))
    assert [] == region.doubles()
