"""Which tasks may be down together, told from where replicas lie."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.control.shards import Counts, Flags, Shards

TABLES = st.lists(st.lists(st.integers(-1, 9), min_size=3, max_size=3), min_size=1, max_size=25)


def one_by_one(shards: Shards, order: Counts, room: Counts) -> Flags:
    """What `first_fit` does, as a loop."""
    left, taken = room.copy(), np.zeros(len(shards.tasks), dtype=np.bool_)
    for place in order:
        mine = (shards.table == place).any(axis=1)
        if (left[mine] >= 1).all():
            taken[place] = True
            left[mine] -= 1
    return taken


@settings(max_examples=300, deadline=None)
@given(TABLES, st.randoms(use_true_random=False), st.integers(1, 3))
def test_rounds_equal_the_loop(table: list[list[int]], dice: object, room: int) -> None:
    """Whatever the order and however much may be lost: the fast version takes exactly whom the slow one takes."""
    shards = Shards(table)
    generator = np.random.default_rng(getattr(dice, "getrandbits")(32))  # noqa: B009  # its type is private
    order = generator.permutation(len(shards.tasks))[: generator.integers(len(shards.tasks) + 1)]
    left = np.clip(room - generator.integers(0, 3, len(table)), -1, None)
    assert one_by_one(shards, order, left).tolist() == shards.first_fit(order, left).tolist()


@settings(max_examples=200, deadline=None)
@given(TABLES, st.booleans())
def test_no_task_can_be_added_to_a_large_fit(table: list[list[int]], has_zones: bool) -> None:
    """The tasks that go leave each shard what it must keep, and any task that stays behind would take that from some shard."""
    zones = {task: task % 3 for task in range(10)} if has_zones else None
    shards = Shards(table, zones=zones)
    room = np.ones(len(table), dtype=np.int64)
    everybody = np.ones(len(shards.tasks), dtype=np.bool_)
    fit = shards.largest_fit(everybody, room)
    left = room - shards.lost(fit)
    assert (left >= 0).all()
    assert not shards.admissible(everybody & ~fit, left).any()


def test_a_whole_zone_goes_where_replicas_are_in_different_ones() -> None:
    """No order of single tasks finds the largest zone; whoever is told the zones does."""
    dice = np.random.default_rng(3)
    table = [[zone * 40 + int(dice.integers(40 - zone)) for zone in range(3)] for _ in range(2_000)]
    zones = {task: task // 40 for task in range(120)}
    everybody = np.ones(117, dtype=np.bool_)
    room = np.ones(len(table), dtype=np.int64)
    told, not_told = Shards(table, zones=zones), Shards(table)
    assert list(range(40)) == told.numbers(told.largest_fit(everybody, room))
    assert int(not_told.largest_fit(everybody, room).sum()) < 40


def test_two_replicas_on_one_task_are_one_loss() -> None:
    """They go together whatever anybody does, and the task can still be updated."""
    shards = Shards([[4, 4, 7], [7, -1, -1]])
    assert [4, 7] == shards.tasks.tolist()
    assert [1, 0] == shards.lost(shards.flags([4])).tolist()
    assert [2, 1] == shards.lost(shards.flags([4, 7])).tolist()


def test_tasks_without_replicas_are_in_no_array() -> None:
    """A task that holds nothing takes nothing from any shard when it is down."""
    shards = Shards([[1, 2, 3]])
    assert not shards.holds(4)
    assert [0] == shards.lost(shards.flags([4, 900])).tolist()
