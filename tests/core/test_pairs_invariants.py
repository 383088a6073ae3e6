"""The rules of pairs: a torn pair, a wrong guest and a wrong pick are found, and a right pair gives no finding."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from core.events.region import PromiseRevised
from core.events.sharing import RoundBegun
from core.fact import Event
from core.images import RegionImage
from core.images.capacity import Holding
from core.invariants.pairs import check_pair_fact, check_pairs
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.placement import Claim
from core.nouns.workload import Kind
from tests.builders import a_claim, a_fact, a_job, a_region, a_spread, granted, promised, submitted
from tests.components.support.shared_pool import pool_nodes
from tests.core.test_pairs import GUEST, HOST, NEXT, PAIR, ended, one, stopped
from tests.core.test_sharing_invariants import THREE, W1, W2, W3, a_round, shared, told

TWO_NODES = pool_nodes(2, 2, "H100")
HOSTED: tuple[Event, ...] = (TWO_NODES, granted(one(HOST)))
"""One attempt alone on its device, and room beside it."""


def away(claim: Claim) -> Claim:
    """Return the same claim on the other node."""
    return replace(claim, spreads=(a_spread({1: 1}),))


# The ledger of a region.


def holding(image: RegionImage, key: AttemptKey) -> Holding:
    """Return the capacity that an attempt holds."""
    held = image.capacity.holding(*key)
    assert held is not None
    return held


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(PAIR, id="both run"),
        pytest.param((*PAIR, stopped(HOST)), id="the host is to end"),
        pytest.param((*PAIR, ended(HOST)), id="the guest is alone"),
        pytest.param((*PAIR, ended(GUEST)), id="the host is alone"),
        pytest.param((*PAIR, ended(HOST), granted(one(NEXT, GUEST))), id="the guest became the host"),
    ],
)
def test_right_pair_gives_no_finding(history: tuple[Event, ...]) -> None:
    """Each fact of the history and the ledger after it keep the rules."""
    for begun, longer in pairwise(range(len(history) + 1)):
        image = a_region(*history[:begun])
        assert [] == check_pair_fact(a_fact(history[begun], longer), image)
        assert [] == check_pairs(a_region(*history[:longer]).capacity)


@pytest.mark.parametrize(
    ("named", "texts"),
    [
        (None, ["w-2.1: lies beside w-1.1, which is not its host"]),
        (
            NEXT,
            [
                "w-1.1: hosts w-3.1, which does not lie beside it",
                "w-2.1: lies beside w-1.1, which is not its host",
            ],
        ),
    ],
)
def test_host_that_names_another_guest(named: AttemptKey | None, texts: list[str]) -> None:
    """Of two in a pair each names the other."""
    image = a_region(*PAIR)
    holding(image, HOST).guest = named
    assert texts == check_pairs(image.capacity)


@pytest.mark.parametrize("key", [HOST, GUEST])
def test_pair_that_may_be_none(key: AttemptKey) -> None:
    """Host and guest are both of the shared pool, with one task of one GPU."""
    text = "w-2.1: shares a device with w-1.1, and may not"
    for jobs, kind in (
        ((a_job(),), Kind.TRAINING),
        ((a_job(1, 2),), Kind.SHARED),
        ((a_job(1, 0.5),), Kind.SHARED),
        ((a_job(2),), Kind.SHARED),
        ((a_job(), a_job()), Kind.SHARED),
    ):
        image = a_region(*PAIR)
        held = holding(image, key)
        held.claim = replace(held.claim, jobs=jobs, kind=kind)
        assert [text] == check_pairs(image.capacity), (jobs, kind)


@pytest.mark.parametrize("key", [HOST, GUEST])
def test_pair_on_two_nodes(key: AttemptKey) -> None:
    """The guest lies where its host lies."""
    image = a_region(*PAIR)
    held = holding(image, key)
    held.claim = away(held.claim)
    assert ["w-2.1: lies elsewhere than its host w-1.1"] == check_pairs(image.capacity)


def test_guest_that_is_a_host() -> None:
    """A guest of a guest would be the third on one device."""
    image = a_region(*PAIR, granted(one(NEXT)))
    last = holding(image, NEXT)
    last.claim = replace(last.claim, beside=GUEST)
    holding(image, GUEST).guest = NEXT
    assert ["w-2.1: is guest and host at once"] == check_pairs(image.capacity)


# Facts of a region.


VICTIM = promised(a_claim("w-9", jobs=(a_job(1, 2),), kind=Kind.SHARED, priority=4, victims=(HOST,)))
NARROW = "w-2.1: granted beside w-1.1, and not both have one task of one GPU in a shared pool"
TO_END = "w-2.1: granted beside w-1.1, which is to end"


@pytest.mark.parametrize(
    ("history", "claim", "text"),
    [
        pytest.param(
            (TWO_NODES,),
            one(GUEST, HOST),
            "w-2.1: granted beside w-1.1, which holds nothing",
            id="no host",
        ),
        pytest.param(HOSTED, one(GUEST, HOST, gpus=2), NARROW, id="guest of two GPUs"),
        pytest.param(HOSTED, replace(one(GUEST, HOST), kind=Kind.TRAINING), NARROW, id="guest of no pool"),
        pytest.param(
            (TWO_NODES, granted(one(HOST, gpus=2))), one(GUEST, HOST), NARROW, id="host of two GPUs"
        ),
        pytest.param(
            (TWO_NODES, granted(replace(one(HOST), kind=Kind.TRAINING))),
            one(GUEST, HOST),
            NARROW,
            id="host of no pool",
        ),
        pytest.param(
            HOSTED,
            away(one(GUEST, HOST)),
            "w-2.1: granted beside w-1.1, and lies elsewhere",
            id="another node",
        ),
        pytest.param(
            PAIR,
            one(NEXT, HOST),
            "w-3.1: granted beside w-1.1, which shares its device already",
            id="beside a host",
        ),
        pytest.param(
            PAIR,
            one(NEXT, GUEST),
            "w-3.1: granted beside w-2.1, which shares its device already",
            id="beside a guest",
        ),
        pytest.param((*HOSTED, stopped(HOST)), one(GUEST, HOST), TO_END, id="the host is told to stop"),
        pytest.param((*HOSTED, VICTIM), one(GUEST, HOST), TO_END, id="the host is a victim"),
    ],
)
def test_guest_that_may_not_be_granted(history: tuple[Event, ...], claim: Claim, text: str) -> None:
    """A guest is granted beside one live host that goes on, and only if the two can be a pair."""
    assert [(1, text)] == check_pair_fact(a_fact(granted(claim), 9), a_region(*history))


@pytest.mark.parametrize("key", [HOST, GUEST])
def test_attempt_of_a_pair_is_not_preempted(key: AttemptKey) -> None:
    """A promise takes neither host nor guest as a victim, at first or revised; an attempt that is alone may be a victim."""
    text = f"{key[0]}.{key[1]}: to be preempted, and its end frees no GPU, for it shares its device"
    promise = promised(replace(VICTIM.claim, victims=(NEXT, key)))
    paired = (*PAIR, granted(one(NEXT)))
    assert [(5, text)] == check_pair_fact(a_fact(promise, 9), a_region(*paired))
    revised = PromiseRevised(WorkloadId("w-9"), 1, (NEXT, key), (0,), NEXT)
    before = (*paired, promised(replace(VICTIM.claim, victims=(NEXT,))))
    assert [(5, text)] == check_pair_fact(a_fact(revised, 9), a_region(*before))
    alone = a_region(TWO_NODES, granted(one(key)), granted(one(NEXT)))
    assert [] == check_pair_fact(a_fact(promise, 9), alone)


# Picks of the queue.


W4 = WorkloadId("w-4")
FOUR = (*THREE, submitted(4, shared()))
"""Three jobs of one GPU, and w-3 of two; there are one V100 and two K80."""
BEGUN = replace(a_round(1, w_1=0, w_2=0), beside={W2: W1})
"""A V100 for w-1, and w-2 beside it."""


@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(a_round(2), id="both stay"),
        pytest.param(a_round(2, leaves=(W1,)), id="the host leaves"),
        pytest.param(a_round(2, leaves=(W2,)), id="the guest leaves"),
        pytest.param(replace(a_round(2, leaves=(W2,), w_4=0), beside={W4: W1}), id="a new guest"),
        pytest.param(replace(a_round(2, leaves=(W1,), w_4=0), beside={W4: W2}), id="a new host"),
        pytest.param(replace(a_round(2, leaves=(W1,), w_1=0), beside={W1: W2}), id="turned about"),
    ],
)
def test_round_of_a_right_pair(begun: RoundBegun) -> None:
    """Two jobs of one GPU are picked for one column, and count for one GPU of the column."""
    assert [] == told(*FOUR, BEGUN)
    assert [] == told(*FOUR, BEGUN, begun)


@pytest.mark.parametrize(
    ("begun", "beside", "text"),
    [
        (a_round(1, w_1=0, w_2=1), {W2: W1}, "w-2: picked beside w-1, which is picked for eu/V100"),
        (a_round(1, w_1=0), {W2: W1}, "w-2: picked beside w-1, which is picked for eu/V100"),
        (a_round(1, w_2=0), {W2: W1}, "w-2: picked beside w-1, which is picked for None"),
        (a_round(1, w_1=1, w_3=1), {W3: W1}, "w-3: picked to share a GPU, and it has more than one"),
        (a_round(1, w_1=1, w_3=1), {W1: W3}, "w-3: picked to share a GPU, and it has more than one"),
    ],
)
def test_picks_that_are_no_pair(begun: RoundBegun, beside: dict[WorkloadId, WorkloadId], text: str) -> None:
    """Both are picked, for one column, and each has one GPU."""
    assert [text] == told(*FOUR, replace(begun, beside=beside))


@pytest.mark.parametrize(("host", "wrong"), [(W1, (W2, W4)), (W2, (W4,))])
def test_third_job_on_one_gpu(host: WorkloadId, wrong: tuple[WorkloadId, ...]) -> None:
    """A round picks no job beside a job that shares its GPU already, be that the host or the guest."""
    begun = replace(a_round(2, w_4=0), beside={W4: host})
    text = f"picked beside {host}, which shares its GPU with another"
    assert [f"{job}: {text}" for job in wrong] == told(*FOUR, BEGUN, begun)
