"""Which parts of GPUs and which cores executors have, and which executors go when holdings do."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.messages.executors import PlaceRead
from core.nouns.function import GpuPart, Holding, Place
from core.nouns.ids import TenantName
from core.nouns.quantities import MILLI, Amount
from core.nouns.workload import Serves
from runtime.functions.devices import (
    HeldPart,
    Use,
    beyond,
    cpu_slots_for,
    cpus_of,
    is_in_pieces,
    parts_for,
    read,
)
from tests.builders import START
from tests.runtime.functions.aids import ANNA, BERT, holding

GPU = Amount(gpu_milli=1000)
HELD = Place()


def gpus(share: str, *indexes: int, tenant: TenantName = ANNA, milli: int = MILLI, **others: Any) -> Holding:
    """A holding of GPUs, or of so much of each."""
    parts = tuple(GpuPart(index, milli) for index in indexes)
    return holding(share, tenant, gpus=parts, amount=Amount(gpu_milli=milli * len(indexes)), **others)


def own(share: str, *indexes: int, tenant: TenantName = ANNA, milli: int = MILLI) -> Holding:
    """A holding for one tenant alone."""
    return gpus(share, *indexes, tenant=tenant, milli=milli, serves=Serves.OWN)


def test_book_counts_what_does_not_end() -> None:
    """Own holdings are lent, and in the size too."""
    found = read([
        holding("a", cores=2), holding("b", BERT, serves=Serves.OWN, cores=3), holding("c", BERT, serves=Serves.OWN, cores=1),
        holding("d", cores=8, is_ending=True),
    ])  # fmt: skip
    assert (PlaceRead(HELD, Amount(cpu_milli=6000), ((BERT, Amount(cpu_milli=4000)),)),) == found.places


def test_own_gpus_come_first() -> None:
    """Then those for all; another tenant's never."""
    holdings = [gpus("all", 0, 1), own("mine", 3), own("theirs", 4, tenant=BERT)]
    taken = parts_for(holdings, [], HELD, ANNA, Amount(gpu_milli=2000))
    assert (HeldPart("mine", 3, 1000), HeldPart("all", 0, 1000)) == taken
    assert None is parts_for(holdings, [], HELD, ANNA, Amount(gpu_milli=4000))


def test_part_of_a_gpu_fills_the_one_with_least_left() -> None:
    """Whole GPUs stay whole for others."""
    used = [Use(ANNA, Amount(gpu_milli=400), (HeldPart("all", 1, 400),))]
    assert (HeldPart("all", 1, 600),) == parts_for(
        [gpus("all", 0, 1)], used, HELD, ANNA, Amount(gpu_milli=600)
    )
    assert (HeldPart("all", 0, 700),) == parts_for(
        [gpus("all", 0, 1)], used, HELD, ANNA, Amount(gpu_milli=700)
    )


def test_pieces_of_two_gpus_are_no_gpu() -> None:
    """Enough in all, but in two pieces."""
    used = [Use(ANNA, Amount(gpu_milli=500), (HeldPart("all", index, 500),)) for index in (0, 1)]
    assert None is parts_for([gpus("all", 0, 1)], used, HELD, ANNA, GPU)


def test_pieces_that_hold_enough_in_all() -> None:
    """Whatever is used now: two halves are no GPU for one executor, and one GPU is none of two; too little in all is another matter."""
    halves = [gpus("a", 0, milli=500), gpus("b", 1, milli=500)]
    assert is_in_pieces(halves, HELD, ANNA, GPU)
    assert not is_in_pieces(halves, HELD, ANNA, Amount(gpu_milli=500))
    assert not is_in_pieces(halves, HELD, ANNA, Amount(gpu_milli=1500))
    assert not is_in_pieces([*halves, gpus("c", 2)], HELD, ANNA, GPU)
    assert is_in_pieces([*halves, own("theirs", 2, 3, tenant=BERT)], HELD, ANNA, GPU)


def test_gpu_is_not_given_while_an_executor_leaves_it() -> None:
    """A new holding of the same GPU changes nothing for the executor of the old one."""
    used = [Use(ANNA, GPU, (HeldPart("old", 0, 1000),))]
    assert None is parts_for(
        [gpus("new", 0), gpus("more", 1, milli=500)], used, HELD, BERT, Amount(gpu_milli=600)
    )
    assert (HeldPart("new", 0, 1000),) == parts_for([gpus("new", 0)], [], HELD, BERT, GPU)


def test_slots_that_are_cpus_are_counted_alone() -> None:
    """Where no holding has a GPU, GPU milli are CPU slots."""
    held = holding(amount=Amount(2000, 2000))
    assert () == parts_for([held], [], HELD, ANNA, Amount(2000, 2000))
    assert None is parts_for([held], [Use(BERT, GPU)], HELD, ANNA, Amount(2000, 2000))


def test_cpus_of_a_tenant_are_its_own_and_those_for_all() -> None:
    """Slots beyond the CPUs of this process wrap around."""
    holdings = [
        holding("a", cpu_slots=(0, 1)), holding("b", BERT, serves=Serves.OWN, cpu_slots=(2, 5)), holding("c", cpu_slots=(3,), is_ending=True),
    ]  # fmt: skip
    assert (0, 1) == cpu_slots_for(holdings, ANNA, HELD)
    assert (0, 1, 2, 5) == cpu_slots_for(holdings, BERT, HELD)
    assert (4, 6, 9) == cpus_of((0, 1, 2, 5), (4, 6, 9))
    assert () == cpus_of((), (4, 6))


def test_executors_on_gpus_that_are_held_no_more_go() -> None:
    """And the newest beyond the size, unless their tenant's own part holds them."""
    uses = {
        1: Use(ANNA, GPU, (HeldPart("a", 0, 1000),)), 2: Use(BERT, GPU, (HeldPart("b", 1, 1000),)), 3: Use(ANNA, GPU, (HeldPart("a", 2, 1000),)),
    }  # fmt: skip
    assert [] == beyond([gpus("a", 0, 2), own("b", 1, tenant=BERT)], uses, START)
    assert [3] == beyond([gpus("a", 0), own("b", 1, tenant=BERT)], uses, START)
    assert [1, 3] == beyond([own("b", 1, tenant=BERT)], uses, START)
    cores = {
        number: Use(tenant, Amount(cpu_milli=1000)) for number, tenant in enumerate((ANNA, ANNA, BERT), 1)
    }
    lent = holding("b", BERT, serves=Serves.OWN, cores=1)
    assert [2] == beyond([holding("a", cores=1), lent], cores, START)
    assert [3] == beyond([holding("a", cores=2)], cores, START)


@given(
    st.lists(
        st.tuples(st.sampled_from([ANNA, BERT]), st.sampled_from([200, 500, 700, 1000, 1500, 2000])),
        max_size=12,
    ),
    st.sets(st.integers(0, 11)),
)
def test_no_gpu_is_used_twice(needs: list[tuple[TenantName, int]], ended: set[int]) -> None:
    """Whoever starts and ends, no part of a GPU is had by two, and nothing is had that is another tenant's own."""
    holdings = [gpus("all", 0, 1, milli=1000), own("mine", 2), own("theirs", 3, tenant=BERT, milli=500)]
    uses: dict[int, Use] = {}
    for number, (tenant, milli) in enumerate(needs):
        need = Amount(gpu_milli=milli)
        parts = parts_for(holdings, uses.values(), HELD, tenant, need)
        if parts is not None:
            assert milli == sum(part.milli for part in parts)
            uses[number] = Use(tenant, need, parts)
        uses.pop(min(ended), None) if ended and number > min(ended) else None
    held = {(one.share, gpu.index): gpu.milli for one in holdings for gpu in one.gpus}
    for use in uses.values():
        for part in use.parts:
            held[part.share, part.index] -= part.milli
            assert part.share != {ANNA: "theirs", BERT: "mine"}[use.tenant]
    assert min(held.values()) >= 0
    assert [] == beyond(holdings, uses, START)
