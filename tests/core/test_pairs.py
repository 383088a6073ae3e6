"""Pairs on one device: what the ledger counts of a host and its guest."""

import pytest
from msgspec.structs import replace

from core.codec import decode_event, encode
from core.defrag.what_if import movers_of
from core.events.control import OperationsRequested
from core.events.region import (
    AttemptEnded,
    GangStarted,
    NodesLost,
    NodesReturned,
    StopOrdered,
)
from core.fact import Event
from core.images import RegionImage
from core.images.pairs import partner_of, place_beside
from core.invariants.consistency import check_ledger
from core.nouns.defragmentation import Immovable
from core.nouns.ids import AttemptKey, WorkerName
from core.nouns.instant import SECOND, Instant
from core.nouns.operation import WHOLE, Ack, Answer, OperationKind
from core.nouns.placement import Claim, NodeRow
from core.nouns.quantities import Amount
from core.nouns.workload import EndCause, Kind
from core.rules.preemption import why_no_offer
from tests.builders import a_claim, a_job, a_region, amount, attempt, granted, promised
from tests.components.support.shared_pool import pool_nodes

HOST, GUEST, NEXT = attempt("w-1"), attempt("w-2"), attempt("w-3")
NODES = pool_nodes(1, 2, "H100")


def one(key: AttemptKey, beside: AttemptKey | None = None, *, gpus: float = 1, cpus: float = 8) -> Claim:
    """A job of one task in the shared pool."""
    made = a_claim(key[0], key[1], kind=Kind.SHARED, jobs=(a_job(1, gpus, cpus=cpus, gib=16),))
    return replace(made, beside=beside)


PAIR: tuple[Event, ...] = (NODES, granted(one(HOST)), granted(one(GUEST, HOST)))


def ended(key: AttemptKey) -> AttemptEnded:
    """It is over."""
    return AttemptEnded(*key, EndCause.COMPLETED)


def stopped(key: AttemptKey) -> StopOrdered:
    """It is told to stop."""
    return StopOrdered(*key, EndCause.ROUND_OVER)


def gpus(image: RegionImage) -> tuple[int, int, int]:
    """Milli of GPUs free, held and ending, after a look at the whole ledger."""
    assert [] == check_ledger(image.capacity)
    gpu = image.capacity.gpu
    return gpu.free[0], gpu.held[0], gpu.ending[0]


def test_guest_holds_cpus_and_memory_alone() -> None:
    """A pair holds one device, and the CPUs and memory of both."""
    image = a_region(*PAIR)
    assert (1_000, 1_000, 0) == gpus(image)
    assert NodeRow(0, amount(1, 80, 1024 - 32), is_open=True) == image.capacity.node_row(0)
    assert (GUEST, HOST) == (partner_of(image.capacity, *HOST), partner_of(image.capacity, *GUEST))


def test_device_when_the_guest_ends_first() -> None:
    """Its CPUs are free again, and no GPU is; the host may have a next guest."""
    image = a_region(*PAIR, ended(GUEST))
    assert (1_000, 1_000, 0) == gpus(image)
    assert 88_000 == image.capacity.available(0).cpu_milli
    assert None is partner_of(image.capacity, *HOST)
    assert (1_000, 1_000, 0) == gpus(a_region(*PAIR, ended(GUEST), granted(one(NEXT, HOST))))


def test_device_when_the_host_ends_first() -> None:
    """The device passes to the guest, which holds it as if it had been placed alone, and takes a next guest."""
    alone = a_region(*PAIR, ended(HOST))
    assert (1_000, 1_000, 0) == gpus(alone)
    assert (None, None) == (partner_of(alone.capacity, *GUEST), partner_of(alone.capacity, *HOST))
    placed = a_region(NODES, granted(one(HOST)), ended(HOST), granted(one(GUEST)))
    assert placed.capacity.node_row(0) == alone.capacity.node_row(0)
    again = (*PAIR, ended(HOST), granted(one(NEXT, GUEST)))
    assert (1_000, 1_000, 0) == gpus(a_region(*again))
    assert (1_000, 1_000, 0) == gpus(a_region(*again, ended(GUEST)))
    assert (2_000, 0, 0) == gpus(a_region(*again, ended(GUEST), ended(NEXT)))


@pytest.mark.parametrize(
    ("first", "second", "during", "after"),
    [
        pytest.param(HOST, GUEST, (1_000, 0, 1_000), (1_000, 1_000, 0), id="host"),
        pytest.param(GUEST, HOST, (1_000, 1_000, 0), (1_000, 1_000, 0), id="guest"),
    ],
)
def test_device_when_one_is_told_to_stop(
    first: AttemptKey, second: AttemptKey, during: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    """The device is ending with its host; then the guest holds it, or lets go of it if the guest was told too."""
    assert during == gpus(a_region(*PAIR, stopped(first)))
    assert after == gpus(a_region(*PAIR, stopped(first), ended(first)))
    both = (*PAIR, stopped(first), stopped(second))
    assert (1_000, 0, 1_000) == gpus(a_region(*both))
    assert (1_000, 0, 1_000) == gpus(a_region(*both, ended(first)))
    assert (2_000, 0, 0) == gpus(a_region(*both, ended(first), ended(second)))


@pytest.mark.parametrize("gone", [HOST, GUEST])
def test_pair_on_a_node_that_is_lost_and_comes_back(gone: AttemptKey) -> None:
    """Whichever of the two ends while the node is lost: the other holds one device when the node is back."""
    lost = (*PAIR, NodesLost(WorkerName("w0"), (0,)))
    assert (0, 0, 0) == gpus(a_region(*lost, ended(gone)))
    back = NodesReturned(WorkerName("w0"), (0,))
    assert (1_000, 1_000, 0) == gpus(a_region(*lost, back))
    assert (1_000, 1_000, 0) == gpus(a_region(*lost, ended(gone), back))
    assert (2_000, 0, 0) == gpus(a_region(*lost, ended(HOST), ended(GUEST), back))


def test_guest_of_an_attempt_that_is_gone_holds_a_device() -> None:
    """No image counts a device that nothing holds."""
    image = a_region(NODES, granted(one(GUEST, HOST)))
    assert (1_000, 1_000, 0) == gpus(image)
    held = image.capacity.holding(*GUEST)
    assert held is not None
    assert held.claim.beside is None


def test_host_that_may_take_a_guest() -> None:
    """A live attempt of the pool with one GPU that is neither in a pair, nor to stop, nor to be preempted."""
    job, wide = one(GUEST).jobs, a_job(1, 2)
    spreads = one(HOST).spreads
    takes = place_beside(a_region(NODES, granted(one(HOST))).capacity, HOST, Kind.SHARED, job)
    assert spreads == takes
    assert spreads == place_beside(a_region(*PAIR, ended(HOST)).capacity, GUEST, Kind.SHARED, job)
    victim = promised(a_claim("w-9", jobs=(wide,), kind=Kind.SHARED, priority=4, victims=(HOST,)))
    for history, kind in (
        ((NODES,), Kind.SHARED),
        ((NODES, granted(one(HOST))), Kind.TRAINING),
        ((NODES, granted(one(HOST, gpus=2))), Kind.SHARED),
        ((NODES, granted(one(HOST, gpus=0.5))), Kind.SHARED),
        ((NODES, granted(replace(one(HOST), kind=Kind.TRAINING))), Kind.SHARED),
        (PAIR, Kind.SHARED),
        ((NODES, granted(one(HOST)), stopped(HOST)), Kind.SHARED),
        ((NODES, granted(one(HOST)), victim), Kind.SHARED),
    ):
        assert None is place_beside(a_region(*history).capacity, HOST, kind, job)
    assert None is place_beside(a_region(*PAIR).capacity, GUEST, Kind.SHARED, job)
    assert None is place_beside(a_region(NODES, granted(one(HOST))).capacity, HOST, Kind.SHARED, (wide,))


def test_pair_is_read_again() -> None:
    """A fact names the host, and a snapshot has both sides of the pair."""
    fact = granted(one(GUEST, HOST))
    assert fact == decode_event(encode(fact))
    image = a_region(*PAIR)
    again = RegionImage.decode(image.encode())
    assert image.digest() == again.digest()
    assert GUEST == partner_of(again.capacity, *HOST)
    assert Amount(1_000, 80_000, (1024 - 32) << 30) == again.capacity.available(0)


def test_attempt_of_a_pair_is_no_substitute() -> None:
    """A victim may offer another of its tenant's jobs in its place, but none of which the end frees no GPU."""
    wide = a_claim("w-9", jobs=(a_job(1, 2),), kind=Kind.SHARED, priority=4, victims=(NEXT,))
    asked = OperationsRequested(*NEXT, 1, OperationKind.PREEMPT, (WHOLE,), "because", "p-w-9.1")
    for before, said in ((PAIR, "shares its device with another job"), ((*PAIR, ended(HOST)), "")):
        history = (*before, granted(one(NEXT)), replace(promised(wide), ask_span=SECOND), asked)
        why = why_no_offer(a_region(*history), NEXT, Ack(1, Answer.INSTEAD, instead="w-2"), Instant(0))
        assert ("shares its device with another job" in why) is bool(said), why


def test_pair_is_not_moved_to_gather_room() -> None:
    """Defragmentation leaves both where they are: the place of one is not free without the other."""
    movers = movers_of(a_region(*PAIR, GangStarted(*HOST), GangStarted(*GUEST)), Instant(0))
    assert [Immovable.PAIRED] * 2 == [mover.why_not for mover in movers.values()]
    (mover,) = movers_of(a_region(*PAIR, GangStarted(*GUEST), ended(HOST)), Instant(0)).values()
    assert mover.why_not is None
