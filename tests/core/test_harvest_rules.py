"""How often harvested capacity is recalled, and how often a call is lost by that."""

import pytest

from core.images.harvest_history import HOUR, WHOLE, HarvestHour, PoolHistory
from core.nouns.instant import MILLISECOND, Nanoseconds, seconds
from core.nouns.quantities import NOTHING, Amount
from core.rules.harvest.odds import HALF_LIFE, MILLION, loss_odds, recalls_per_node_hour

NODE = Amount(8_000, 64_000, 1)
NOW = 1_000 * HOUR


def a_history(nodes: int, recalls: int, *, hours_ago: int = 0, part: int = 8) -> PoolHistory:
    """So many nodes were harvested for one hour, and recalled so often, in so many of eight devices."""
    hour = HarvestHour(nodes * HOUR // MILLISECOND, recalls, recalls * WHOLE * part // 8)
    return PoolHistory(hours={NOW // HOUR - hours_ago: hour})


def test_recalls_are_expected_as_they_were() -> None:
    """Of many node-hours the expectation of a fresh region is a small part."""
    found = recalls_per_node_hour((a_history(100, 50),), NOW)
    assert 0.5 == pytest.approx(found / MILLION, rel=0.05)


def test_region_without_experience_expects_one_recall_a_day() -> None:
    """Of each node."""
    assert round(MILLION / 24) == recalls_per_node_hour((), NOW)


def test_recall_of_some_devices_counts_for_their_part() -> None:
    """For a call runs on one of them."""
    few, all_ = (recalls_per_node_hour((a_history(100, 80, part=part),), NOW) for part in (1, 8))
    assert 8 == pytest.approx(all_ / few, rel=0.2)


def test_older_hours_count_less() -> None:
    """Half as much after the half-life."""
    calm, wild = a_history(100, 0), a_history(100, 100, hours_ago=HALF_LIFE)
    found = recalls_per_node_hour((calm, wild), NOW)
    assert 1 / 3 == pytest.approx(found / MILLION, rel=0.05)


def test_nodes_that_are_harvested_now_count_until_now() -> None:
    """Though none of their facts has come since."""
    history = PoolHistory()
    for _ in range(50):
        history.begin(NOW)
    assert round(MILLION / 24) == recalls_per_node_hour((history,), NOW)
    assert MILLION // 500 > recalls_per_node_hour((history,), NOW + HOUR)


def test_cores_that_are_taken_from_a_node_end_no_call() -> None:
    """Calls go on more slowly until the node's harvest ends."""
    history = PoolHistory()
    history.begin(NOW)
    history.recall(NOW, Amount(0, 64_000, 1), Amount(0, 64_000, 1), Amount(0, 32_000, 1))
    assert 0 == history.hours[NOW // HOUR].weight
    history.recall(NOW, Amount(0, 32_000, 1), Amount(0, 32_000, 1), NOTHING)
    assert WHOLE == history.hours[NOW // HOUR].weight


def test_call_is_lost_if_more_than_the_grace_of_it_is_left() -> None:
    """H-9: λ times the time in which a recall ends the call."""
    once_an_hour = MILLION
    assert 0 == loss_odds(once_an_hour, [(seconds(30), 1)], seconds(30))
    assert MILLION // 60 == pytest.approx(loss_odds(once_an_hour, [(seconds(90), 1)], seconds(30)), abs=1)
    mixed = [(seconds(90), 1), (seconds(1), 3)]
    assert MILLION // 240 == pytest.approx(loss_odds(once_an_hour, mixed, seconds(30)), abs=1)
    assert MILLION == loss_odds(once_an_hour, [(seconds(86_400), 1)], seconds(30))
    assert 0 == loss_odds(once_an_hour, [], seconds(30))


def test_releases_and_hours_are_kept_for_a_day() -> None:
    """And the newest thousand releases."""
    history = PoolHistory()
    history.begin(NOW)
    for hour in range(30):
        history.recall(NOW + hour * HOUR, NODE, NODE, Amount(4_000, 64_000, 1))
    assert [NOW // HOUR + hour for hour in range(6, 30)] == sorted(history.hours)
    assert {HOUR // MILLISECOND} == {
        one.node_span for at, one in history.hours.items() if at < NOW // HOUR + 29
    }
    for number in range(1_500):
        history.release(Nanoseconds(number))
    assert list(range(476, 1_500)) == history.releases


def test_figures_of_a_day_are_of_the_day_until_the_reader() -> None:
    """Hours that nothing has dropped since, as nothing was recalled, count no more; nor does a longer span of one that goes on."""
    history = a_history(100, 100, hours_ago=23)
    assert (100 * HOUR // MILLISECOND, 100) == (
        history.day_until(NOW).node_span,
        history.day_until(NOW).recalls,
    )
    assert HarvestHour() == history.day_until(NOW + HOUR)
    assert (
        round(MILLION / 24)
        == recalls_per_node_hour((history,), NOW + HOUR)
        < recalls_per_node_hour((history,), NOW)
    )
    history.begin(NOW)
    assert 24 * HOUR // MILLISECOND == history.day_until(NOW + 100 * HOUR).node_span
