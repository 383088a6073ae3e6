"""The order of pending workloads: kept incrementally, and equal to a full sort and scan."""

from hypothesis import given
from hypothesis import strategies as st

from core.nouns.ids import WorkloadId
from core.pending import PendingOrder
from tests.core.properties import PROPERTY

SHAPES = ("small", "large", "huge")
Row = tuple[int, int, str]
"""Priority, number, shape."""

steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 6), st.sampled_from(SHAPES)),
        st.tuples(st.just("drop"), st.integers(0, 30), st.just("")),
    ),
    max_size=40,
)


def ordered(rows: dict[WorkloadId, Row]) -> list[WorkloadId]:
    """The full sort: higher priority first, then first come."""
    return sorted(rows, key=lambda workload: (-rows[workload][0], rows[workload][1]))


def played(moves: list[tuple[str, int, str]]) -> tuple[PendingOrder, dict[WorkloadId, Row]]:
    """The order after these moves, and the same as plain rows. A drop names a number that may not be there."""
    order, rows = PendingOrder(), {}
    for number, (move, value, shape) in enumerate(moves):
        if move == "add":
            workload = WorkloadId(f"w-{number}")
            order.add(workload, value, number, shape)
            rows[workload] = (value, number, shape)
        else:
            workload = WorkloadId(f"w-{value}")
            order.drop(workload)
            rows.pop(workload, None)
    return order, rows


@PROPERTY
@given(steps)
def test_order_equals_full_sort(moves: list[tuple[str, int, str]]) -> None:
    """M6: `all`, `rank`, `ahead_of`, `len`, `in` and `shape_of` say what sorting everybody anew would say."""
    order, rows = played(moves)
    wanted = ordered(rows)
    assert wanted == order.all()
    assert len(wanted) == len(order)
    assert list(range(len(wanted))) == [order.rank(workload) for workload in wanted]
    for rank, workload in enumerate(wanted):
        assert wanted[max(0, rank - 3) : rank] == order.ahead_of(workload, 3)
    assert [rows[workload][2] for workload in wanted] == [order.shape_of(workload) for workload in wanted]
    assert all(workload in order for workload in wanted)
    assert WorkloadId("w-99") not in order


@PROPERTY
@given(steps, st.integers(0, 5), st.sets(st.sampled_from(SHAPES)), st.sets(st.integers(0, 39)))
def test_first_equals_full_scan(
    moves: list[tuple[str, int, str]], count: int, wanted: set[str], busy: set[int]
) -> None:
    """`first` finds what walking through the sorted whole finds, whoever is wanted or free."""
    order, rows = played(moves)

    def is_free(workload: WorkloadId, shape: str) -> bool:
        assert shape == rows[workload][2]
        return rows[workload][1] not in busy

    scanned = [w for w in ordered(rows) if rows[w][2] in wanted and is_free(w, rows[w][2])]
    assert scanned[:count] == order.first(count, lambda shape, _: shape in wanted, is_free)


@PROPERTY
@given(steps)
def test_first_asks_each_shape_once_and_shows_its_head(moves: list[tuple[str, int, str]]) -> None:
    """Whether a shape is wanted is asked once, with the workload of that shape that stands furthest ahead."""
    order, rows = played(moves)
    asked: list[tuple[str, WorkloadId]] = []

    def is_wanted(shape: str, example: WorkloadId) -> bool:
        asked.append((shape, example))
        return False

    assert [] == order.first(3, is_wanted, lambda _workload, _shape: True)
    heads = {
        shape: next(w for w in ordered(rows) if rows[w][2] == shape)
        for shape in {r[2] for r in rows.values()}
    }
    assert heads == dict(asked)
    assert len(heads) == len(asked)


def test_order_when_priorities_are_equal() -> None:
    """M6: who came first is served first, though its number sorts later as text."""
    order = PendingOrder()
    for number in (10, 9, 2):
        order.add(WorkloadId(f"w-{number}"), 3, number, "small")
    assert ["w-2", "w-9", "w-10"] == order.all()


def test_first_looks_no_further_than_it_must() -> None:
    """Nobody behind the last that is wanted is asked whether it is free: the cost is not one for each that is pending."""
    order = PendingOrder()
    for number in range(100):
        order.add(WorkloadId(f"w-{number}"), 3, number, SHAPES[number % 3])
    asked: list[WorkloadId] = []

    def is_free(workload: WorkloadId, shape: str) -> bool:
        asked.append(workload)
        return True

    assert ["w-0", "w-1"] == order.first(2, lambda shape, example: True, is_free)
    assert 2 == len(asked)
