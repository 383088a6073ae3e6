"""Numbers that have come, against a set of them."""

from hypothesis import given
from hypothesis import strategies as st

from core.calls.numbers import Numbers
from tests.core.properties import PROPERTY

MOST = 60
numbers = st.integers(1, MOST)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), numbers, st.just(0)),
        st.tuples(st.just("range"), numbers, numbers),
        st.tuples(st.just("up to"), numbers, st.just(0)),
    ),
    max_size=40,
)


@PROPERTY
@given(steps)
def test_numbers_are_a_set(taken: list[tuple[str, int, int]]) -> None:
    """Whatever comes in whatever order: the same are in, `taken` is the last before the first gap, and ranges are as few as can be."""
    found, known = Numbers(), set[int]()
    for step, first, last in taken:
        if step == "add":
            found.add(first)
            known.add(first)
        elif step == "range":
            found.add_range(first, last)
            known.update(range(first, last + 1))
        else:
            found.take_up_to(first)
            known.update(range(1, first + 1))
        assert known == {number for number in range(1, MOST + 2) if number in found}
        gap = next(number for number in range(1, MOST + 2) if number not in known)
        assert gap - 1 == found.taken
        assert ranges_of({number for number in known if number > found.taken}) == found.ranges(MOST)


@PROPERTY
@given(st.sets(numbers), st.integers(0, 5))
def test_ranges_tell_all(known: set[int], most: int) -> None:
    """Who hears `taken` and the ranges knows the same numbers; who hears only some ranges knows the lowest."""
    said, heard, part = Numbers(), Numbers(), Numbers()
    for number in sorted(known, key=lambda one: (one % 7, one)):
        said.add(number)
    for other, count in ((heard, MOST), (part, most)):
        other.take_up_to(said.taken)
        other.add_ranges(said.ranges(count))
    assert known == {number for number in range(1, MOST + 2) if number in heard}
    assert part.ranges(MOST) == said.ranges(most)
    assert part.taken == said.taken


def ranges_of(known: set[int]) -> tuple[tuple[int, int], ...]:
    """First and last of each run of numbers without a gap."""
    firsts = sorted(number for number in known if number - 1 not in known)
    lasts = sorted(number for number in known if number + 1 not in known)
    return tuple(zip(firsts, lasts, strict=True))
