"""Deadlines by key: kept in order, and equal to a plain dictionary that is sorted when asked."""

from hypothesis import given
from hypothesis import strategies as st

from core.agenda import Agenda
from core.nouns.instant import Instant
from tests.core.properties import PROPERTY

keys = st.sampled_from(["a", "b", "c", "d", "e"])
instants = st.integers(min_value=0, max_value=6).map(Instant)
puts = st.tuples(keys, st.one_of(st.none(), instants))


@PROPERTY
@given(st.lists(puts, max_size=40), instants, st.integers(min_value=0, max_value=6))
def test_agenda_equals_a_sorted_dictionary(
    steps: list[tuple[str, Instant | None]], now: Instant, count_max: int
) -> None:
    """After any puts and drops it says what a dictionary would, sorted by instant and then by key."""
    agenda: Agenda[str] = Agenda()
    plain: dict[str, Instant] = {}
    for key, at in steps:
        if at is None:
            agenda.drop(key)
            plain.pop(key, None)
        else:
            agenda.put(key, at)
            plain[key] = at
        ordered = sorted((at, key) for key, at in plain.items())
        assert len(ordered) == len(agenda)
        assert (ordered[0][0] if ordered else None) == agenda.due()
        assert [key for at, key in ordered if at <= now][:count_max] == agenda.passed(now, count_max)
        for one in "abcde":
            assert plain.get(one) == agenda.at(one)
            assert (one in plain) == (one in agenda)


def test_put_when_key_has_a_deadline() -> None:
    """The new deadline replaces the old one."""
    agenda: Agenda[str] = Agenda()
    agenda.put("a", Instant(5))
    agenda.put("a", Instant(9))
    assert [] == agenda.passed(Instant(8))
    assert ["a"] == agenda.passed(Instant(9))


def test_passed_changes_nothing() -> None:
    """Who asks what has passed must drop it, or is told again."""
    agenda: Agenda[str] = Agenda()
    agenda.put("a", Instant(1))
    assert agenda.passed(Instant(1)) == agenda.passed(Instant(1))
    assert 1 == len(agenda)
