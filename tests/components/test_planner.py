"""The planner's concern for prices: when they are solved, that the store hears of them, and that a solver that fails changes nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from core.component import NOTHING
from core.events.pools import PoolChanged
from core.events.region import NodesLost
from core.messages.prices import SetPrices
from core.messages.solving import Unsolved
from core.nouns.ids import GLOBAL_LOG, WorkerName
from core.nouns.instant import Nanoseconds
from core.nouns.limits import (
    COMMAND_SAY_AGAIN,
    PRICES_LOOK,
    PRICES_RETRY,
    PRICES_RETRY_MAX,
    PRICES_SAID_MAX,
    PRICES_SPAN,
)
from core.nouns.pool import PoolSettings
from core.nouns.solved_from import SolvedFrom
from core.pricing.problem import PricingProblem
from core.rules.repricing import next_arrived
from tests.builders import EU, EU_LOG, joined, opened
from tests.components.support.machine import Machine
from tests.components.support.planner import EVERY, FIRST, SECOND, Planning, some_prices
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]


def settled(planning: Planning, tasks: int = FIRST) -> None:
    """Prices were solved from so many tasks, and are recorded."""
    assert planning.ask_for(tasks)
    planning.answer()
    planning.record()


def test_prices_are_solved_when_enough_was_asked_for(start: Start) -> None:
    """Of what was counted, and of the room that is open; not a task earlier."""
    planning = Planning(start)
    assert [] == planning.ask_for(FIRST - 1)
    (asked,) = planning.ask_for(FIRST)
    assert (EU, 0) == (asked.key, asked.revision)
    assert isinstance(asked.problem, PricingProblem)
    assert (FIRST, 64_000) == (asked.problem.arrivals, asked.problem.gpu_milli)


@pytest.mark.parametrize(("known", "wanted"), [(0, 100), (99, 100), (100, 300), (300, 1_150), (1_150, 2_000)])
def test_prices_are_old_after_so_many_tasks(known: int, wanted: int) -> None:
    """The first soon, the second a little later, and then every 850."""
    assert wanted == next_arrived(known)


def test_new_prices_are_not_solved_again(start: Start) -> None:
    """Until as many have arrived as make them old."""
    planning = Planning(start)
    settled(planning)
    assert [] == planning.ask_for(SECOND - 1)
    assert [1] == [asked.revision for asked in planning.ask_for(SECOND)]


def test_store_is_told_until_its_log_shows_the_prices(start: Start) -> None:
    """With the revision that follows, and with what they were solved from; then nothing more is said."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    command = said_once(planning.answer(), SetPrices)
    assert 1 == command.prices.revision
    assert SolvedFrom(FIRST, 1, 1, 64_000) == command.solved_from
    for _ in range(2):
        assert command == said_once(planning.machine.wait(COMMAND_SAY_AGAIN), SetPrices)
    planning.record()
    assert [] == said(planning.machine.wait(Nanoseconds(2 * COMMAND_SAY_AGAIN)), SetPrices)


def test_store_that_records_nothing_is_not_told_for_ever(start: Start) -> None:
    """Some time later the prices are solved anew, from what is so then."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    planning.answer()
    planning.machine.wait(Nanoseconds(PRICES_SAID_MAX * COMMAND_SAY_AGAIN))
    assert [] == said(planning.machine.wait(Nanoseconds(PRICES_RETRY // 2)), SetPrices)
    assert 1 == len(planning.wait(PRICES_RETRY))


def test_prices_that_others_set_meanwhile_stand(start: Start) -> None:
    """A solution for older ones is dropped, whether it was said already or is still to come."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    late = planning.row.solving
    assert late is not None
    assert isinstance(late.basis, SolvedFrom)
    planning.record(SetPrices(EU, some_prices(1), late.basis, "planner"))
    assert NOTHING == planning.answer(revision=0)
    assert [] == said(planning.machine.wait(COMMAND_SAY_AGAIN), SetPrices)


def test_unexpected_answer_is_dropped(start: Start) -> None:
    """It was asked for in another life, or came twice."""
    planning = Planning(start)
    assert NOTHING == planning.answer()
    planning.ask_for(FIRST)
    planning.answer()
    assert NOTHING == planning.answer()


def test_solver_that_fails_is_asked_later_and_later(start: Start) -> None:
    """And what prices there are stay."""
    planning = Planning(start)
    settled(planning)
    planning.ask_for(SECOND)
    spans = []
    for _ in range(9):
        planning.fail()
        before = planning.machine.now
        planning.machine.wake(planning.machine.component.due(planning.machine.state))
        spans.append(planning.machine.now - before)
    wanted = [min(PRICES_RETRY << number, PRICES_RETRY_MAX) for number in range(9)]
    assert wanted == spans
    assert 1 == planning.revision
    planning.answer()
    planning.record()
    assert 0 == planning.row.failures


def test_solver_that_says_nothing_has_failed(start: Start) -> None:
    """It is asked again; what it says at last counts if it is the newest answer."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    planning.machine.wait(PRICES_SPAN)
    assert NOTHING == planning.answer()
    assert 1 == len(planning.wait(PRICES_RETRY))
    assert said(planning.answer(), SetPrices)


def test_without_a_solver_nothing_is_asked(start: Start) -> None:
    """In this life of the planner; its next one looks again."""
    planning = Planning(start)
    planning.ask_for(FIRST)
    planning.fail(is_for_good=True)
    assert [] == planning.ask_for(EVERY)
    assert planning.machine.component.due(planning.machine.state) is None
    assert said_solving(planning.machine.restart())


def test_planner_that_dies_forgets_nothing_that_counts(start: Start) -> None:
    """Wherever it was: prices that are old are solved again, and those in the log are not."""
    for stop in range(4):
        planning = Planning(start)
        steps: list[Callable[[], object]] = [
            lambda planning=planning: planning.ask_for(FIRST),  # type: ignore[misc]
            lambda planning=planning: planning.answer(),  # type: ignore[misc]
            lambda planning=planning: planning.record(),  # type: ignore[misc]
        ]
        for step in steps[:stop]:
            step()
        again = planning.machine.restart()
        assert (stop in (1, 2)) == said_solving(again)


def test_capacity_that_changed_much_makes_prices_old(start: Start) -> None:
    """Nodes that come or go; a few of many do not."""
    planning = Planning(start)
    settled(planning)
    planning.machine.fact(EU_LOG, joined("w1", 100, 1))
    assert 1 == len(planning.wait(PRICES_LOOK))
    planning.answer()
    planning.record()
    planning.machine.fact(EU_LOG, NodesLost(WorkerName("w1"), (100,)))
    assert 1 == len(planning.wait(PRICES_LOOK))
    planning.answer()
    planning.record()
    assert [] == planning.wait(Nanoseconds(2 * PRICES_LOOK))


def test_region_is_looked_at_now_and_then(start: Start) -> None:
    """However much happens in it."""
    planning = Planning(start)
    looked_at = planning.row.looked_at
    for number in range(5):
        planning.machine.fact(EU_LOG, joined(f"w{number + 1}", 100 + number, 1))
        planning.machine.wake()
    assert looked_at == planning.row.looked_at


def test_region_without_nodes_or_tasks_for_it_has_no_prices(start: Start) -> None:
    """There is nothing to solve."""
    planning = Planning(start)
    planning.machine.fact(EU_LOG, NodesLost(WorkerName("w0"), tuple(range(8))))
    assert [] == planning.ask_for(FIRST)
    planning.machine.fact(GLOBAL_LOG, opened())
    assert NOTHING == planning.machine.hear(Unsolved("prices", EU, 0, "", is_for_good=True))


def test_unused_prices_are_not_solved(start: Start) -> None:
    """Until a pool is searched by them again."""
    planning = Planning(start)
    for rules in ("plain", "default"):
        planning.machine.fact(EU_LOG, PoolChanged("training", PoolSettings(rules)))
        assert (rules == "default") == bool(planning.ask_for(FIRST + len(rules)))


def said_solving(machine: Machine[Any]) -> bool:
    """Whether the solver is asked at once."""
    return bool(machine.wake().effects)
