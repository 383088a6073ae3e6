"""Which ranks work together, as Megatron-LM numbers them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.control.parallelism import Parallelism

SIZES = st.integers(1, 4)
ANY = st.builds(Parallelism, SIZES, SIZES, SIZES, SIZES, st.booleans())


def test_groups_are_those_of_megatron() -> None:
    """The example in its `initialize_model_parallel`: 16 ranks, tensor size 2, pipeline size 4, and so data size 2."""
    of = Parallelism(tensor=2, pipeline=4, data=2)
    ranks = range(16)
    assert {(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11), (12, 14), (13, 15)} == {
        of.data_group(rank) for rank in ranks
    }
    assert {(first, first + 1) for first in range(0, 16, 2)} == {of.tensor_group(rank) for rank in ranks}
    assert {(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)} == {
        of.pipeline_group(rank) for rank in ranks
    }


def test_the_other_order_has_data_outermost() -> None:
    """With `--use-tp-pp-dp-mapping` each copy of the model is a run of ranks."""
    of = Parallelism(tensor=2, pipeline=2, data=2, is_data_outermost=True)
    assert [(0, 4), (1, 5), (2, 6), (3, 7)] == [of.data_group(rank) for rank in range(4)]
    assert (4, 5, 6, 7) == of.give_up(6)


@given(ANY)
def test_each_sort_of_group_holds_every_rank_once(of: Parallelism) -> None:
    """Whatever the sizes and the order; and each is as large as its size says."""
    for group_of, size in (
        (of.tensor_group, of.tensor),
        (of.pipeline_group, of.pipeline),
        (of.data_group, of.data),
    ):
        groups = {group_of(rank) for rank in range(of.ranks)}
        assert {size} == {len(group) for group in groups}
        assert list(range(of.ranks)) == sorted(rank for group in groups for rank in group)
        assert all(rank in group_of(rank) for rank in range(of.ranks))


@given(ANY, st.data())
def test_ranks_left_after_giving_up_are_whole_copies(of: Parallelism, data: st.DataObject) -> None:
    """No tensor or pipeline group loses a part, and a rank that leaves has lost one of its own copy."""
    lost = data.draw(st.lists(st.integers(0, of.ranks - 1), max_size=3))
    leaving = set(of.give_up(*lost))
    assert leaving.issuperset(lost)
    assert len(leaving) == of.ranks_of_replica * len({of.replica_of(rank) for rank in lost})
    for rank in range(of.ranks):
        for group in (of.tensor_group(rank), of.pipeline_group(rank)):
            assert leaving.issuperset(group) or leaving.isdisjoint(group)


def test_split_tensor_groups_are_found() -> None:
    """A group that has to cross the network in every layer is told; one that crosses only between stages is not."""
    of = Parallelism(tensor=4, pipeline=2)
    assert [] == of.groups_split([0, 0, 0, 0, 1, 1, 1, 1])
    assert [(0, 1, 2, 3)] == of.groups_split([0, 0, 1, 1, 2, 2, 2, 2])
    with pytest.raises(ValueError, match="8 ranks"):
        of.groups_split([0])


def test_impossible_sizes_and_ranks_are_refused() -> None:
    """No size of zero, and no rank that the gang does not have."""
    with pytest.raises(ValueError, match="at least one way"):
        Parallelism(tensor=0)
    with pytest.raises(ValueError, match="no rank 2"):
        Parallelism(tensor=2).replica_of(2)
