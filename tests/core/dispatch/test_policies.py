"""C-2 and C-5: the ranks of each policy by example, and the checks of what operators set."""

import pytest

from core.dispatch.context import LATE_MAX, Urgency, is_believed
from core.dispatch.policies import POLICIES
from core.dispatch.policy import Policy, Waiting
from core.dispatch.settings import problems_of_settings
from core.nouns.dispatch import TARGETS, DispatchSettings, Target, UrgencyClass
from core.nouns.instant import MILLISECOND, SECOND, Instant, Nanoseconds, seconds

NOW = Instant(1_000 * SECOND)


def policy(name: str, **settings: int) -> Policy:
    """One by its name."""
    return POLICIES[name](DispatchSettings(name, rate=settings.get("rate", 20)))


def waiting(
    tick: int = 1, left: int = 200 * MILLISECOND, cost: int = 0, way: int = 0, sender: str = "a"
) -> Waiting:
    """A message that arrives now."""
    one = Waiting()
    one.heard, one.deadline, one.within, one.tick = NOW, NOW + left, 200 * MILLISECOND, tick
    one.sender, one.tenant, one.cost, one.way = sender, "", cost, way
    return one


def order_of(ranking: Policy, *all_of_them: Waiting) -> list[int]:
    """Ticks in the order in which the policy would have them."""
    for one in all_of_them:
        one.rank = ranking.rank(one)
    return [one.tick for one in sorted(all_of_them, key=lambda one: (one.rank, one.tick))]


def test_start_deadline_is_what_is_left_less_the_cost_here_and_onward() -> None:
    """C-2: ddl = t + L − C − C_path."""
    assert (NOW + 193 * MILLISECOND, 0) == policy("llf").rank(
        waiting(cost=2 * MILLISECOND, way=5 * MILLISECOND)
    )
    assert (NOW + 195 * MILLISECOND, 0) == policy("edf").rank(
        waiting(cost=2 * MILLISECOND, way=5 * MILLISECOND)
    )
    assert (2 * MILLISECOND, 0) == policy("sjf").rank(waiting(cost=2 * MILLISECOND, way=5 * MILLISECOND))
    assert (7, 0) == policy("fifo").rank(waiting(7))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("fifo", [1, 2, 3]), ("llf", [3, 2, 1]), ("edf", [2, 3, 1]), ("sjf", [1, 2, 3]), ("token", [3, 2, 1])],
)
def test_policies_differ_by_cost(name: str, expected: list[int]) -> None:
    """Three messages: a short one, an urgent one, and one that takes long."""
    short = waiting(1, 200 * MILLISECOND, cost=MILLISECOND)
    urgent = waiting(2, 100 * MILLISECOND, cost=2 * MILLISECOND)
    long = waiting(3, 150 * MILLISECOND, cost=80 * MILLISECOND)
    assert expected == order_of(policy(name), short, urgent, long)


def test_round_robin_takes_one_of_each_sender_in_turn() -> None:
    """Who comes later gets the present turn, and no earlier one."""
    many = [waiting(tick, sender="many") for tick in range(1, 5)]
    few = [waiting(5, sender="few"), waiting(6, sender="few")]
    ranking = policy("rr")
    assert [1, 5, 2, 6, 3, 4] == order_of(ranking, *many, *few)
    for one in many[:3]:
        ranking.taken(one)
    late = waiting(7, sender="new")
    assert (2, 7) == ranking.rank(late), "who comes now gets the present turn, and no earlier one"


def test_tokens_come_evenly_and_are_a_second_s_worth() -> None:
    """Each tenant has tokens of its own."""
    ranking = policy("token", rate=4)
    assert [True] * 4 + [False] * 6 == [ranking.is_within_rate("ads", NOW) for _ in range(10)]
    assert ranking.is_within_rate("maps", NOW), "each tenant has its own"
    later = Instant(NOW + seconds(0.25))
    assert [True, False] == [ranking.is_within_rate("ads", later) for _ in range(2)]
    much_later = Instant(NOW + seconds(60))
    assert [True] * 4 + [False] == [ranking.is_within_rate("ads", much_later) for _ in range(5)]
    assert all(policy("llf").is_within_rate("ads", NOW) for _ in range(100))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (DispatchSettings("lifo"), "policy: there is no 'lifo'; there are llf, edf, sjf, token, rr, fifo"),
        (
            DispatchSettings(targets={"urgent": Target(seconds(1), seconds(1))}),
            "class: there is no 'urgent'; there are system, interactive, query, placement, gang, report, bulk",
        ),
        (
            DispatchSettings(targets={"query": Target(Nanoseconds(MILLISECOND - 1), seconds(1))}),
            "query: a target is 1 ms at least",
        ),
        (
            DispatchSettings(targets={"query": Target(seconds(2), seconds(1))}),
            "query: the longest wait cannot be shorter than the target",
        ),
        (DispatchSettings(quantum=Nanoseconds(-1)), "quantum: it is from 0 to 1 s"),
        (DispatchSettings(rate=0), "rate: it is from 1 to 1000000 requests of a tenant in a second"),
    ],
)
def test_bad_settings_are_one_sentence(settings: DispatchSettings, problem: str) -> None:
    """With the names that there are."""
    assert [problem] == problems_of_settings(settings)


def test_default_settings_are_good() -> None:
    """So that each can be set to what it is."""
    assert [] == problems_of_settings(DispatchSettings(targets=TARGETS))


def test_urgency_that_claims_too_much_is_not_believed() -> None:
    """Bad input: a class that the message cannot have, or an absurd span."""
    targets = DispatchSettings().all_targets()
    possible = frozenset((UrgencyClass.SYSTEM, UrgencyClass.QUERY))
    within = TARGETS[UrgencyClass.QUERY].within

    def believed(sort: str, left: int) -> bool:
        return is_believed(Urgency(sort, left), possible, targets)

    assert believed("query", within)
    assert not believed("query", within + 1)
    assert believed("query", -LATE_MAX)
    assert not believed("query", -LATE_MAX - 1)
    assert not believed("interactive", 0)
    assert not believed("no such class", 0)
    assert believed("system", 0)
