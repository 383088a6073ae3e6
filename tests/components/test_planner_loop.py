"""The loop of the planner, with concerns of two lines: what each concern is promised, whatever it is about."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from components.planner.component import Planner
from components.planner.loop import Concern, Found, LookAgain, Loop
from components.planner.state import Pace, PlannerState, Problem, Rows
from core.component import NOTHING
from core.effects import Solve
from core.events.prices import PricesSet
from core.events.queue import WorkloadSubmitted
from core.fact import Fact
from core.messages.base import LogSilent, Message
from core.messages.planning import ConcernShown, ShowConcern
from core.messages.solving import Solved, Unsolved
from core.nouns.ids import GLOBAL_LOG, LogName
from core.nouns.instant import Instant, Nanoseconds, seconds
from core.nouns.limits import COMMAND_SAY_AGAIN
from core.nouns.solved_from import SolvedFrom
from tests.builders import EU, EU_LOG, submitted
from tests.components.support.machine import Machine
from tests.components.support.planner import some_prices
from tests.matching import said, said_once

Start = Callable[..., Machine[Any]]  # Any: a planner's state
KEY = "all"
RETRIES = [10, 20, 40, 80, 80]
"""Seconds from each failure in a row until the next look."""
BAD = 13
"""A number that no problem is made of."""


class Number(Struct, frozen=True):
    """A problem, and its answer."""

    number: int


class Part(Message, frozen=True, tag="part"):
    """One of the two messages of a command."""

    concern: str
    part: int
    number: int


class Toy:
    """A concern that wants all tasks that were asked for counted, and counts those up to the newest prices of a region as recorded."""

    pace = Pace(seconds(60), seconds(10), seconds(80), 3, settle=seconds(1), between=seconds(300))
    of_queue: tuple[str, ...] = ("demand",)
    of_regions: tuple[str, ...] = ("prices",)
    unrecorded = "nobody records the number"

    def __init__(self, name: str) -> None:
        self.name = name

    def adopted(self, rows: Rows, log: LogName, at: Instant) -> None:
        """Begin again."""
        rows.begin(KEY, at)

    def follow(self, state: PlannerState, rows: Rows, fact: Fact, at: Instant) -> None:
        """Prices are recorded, tasks are submitted."""
        if isinstance(fact.event, PricesSet):
            rows.recorded(KEY)
        if isinstance(fact.event, PricesSet | WorkloadSubmitted):
            rows.moved(KEY, at)

    def look(self, state: PlannerState, key: str, now: Instant) -> Found:
        """Return the number of all tasks, if it is another one; a day later nothing has changed either."""
        number, prices = state.queue.demand.arrived, state.regions[EU].prices
        if number == BAD:
            return "it is a bad number"
        if number == prices.revision:
            return LookAgain(Instant(now + seconds(86_400)))
        return Problem(prices.revision, Number(number), Number(number))

    def is_outdated(self, state: PlannerState, key: str, problem: Problem) -> bool:
        """Return whether a region is silent: then no answer is wanted."""
        return state.silent.get(EU, False)

    def command(self, state: PlannerState, key: str, problem: Problem, answer: Struct) -> Found:
        """Return two messages; none for an answer of nought, and no answer is below that."""
        assert isinstance(answer, Number)
        assert isinstance(problem.basis, Number)
        if answer.number < 0:
            return "it is a negative number"
        if not answer.number:
            return LookAgain(None)
        return (Part(self.name, 1, problem.basis.number), Part(self.name, 2, answer.number))


class Toys:
    """A planner with two such concerns, of one region."""

    def __init__(self, start: Start) -> None:
        concerns: tuple[Concern, ...] = (Toy("one"), Toy("two"))
        self.machine = start(Planner((EU,), concerns))
        self.machine.wake()
        self._tasks = 0

    def ask_for_one(self) -> None:
        """One more task is submitted."""
        self._tasks += 1
        self.machine.fact(GLOBAL_LOG, submitted(self._tasks))

    def record(self, number: int) -> None:
        """An answer of so many tasks is in the log, and counts for both concerns."""
        self.machine.fact(EU_LOG, PricesSet(some_prices(number), SolvedFrom(0, 0, 0, 0), ""))

    def wait(self, span: Nanoseconds) -> list[str]:
        """Return the concerns whose problems the solver is given meanwhile."""
        effects = self.machine.wait(span).effects
        return [effect.concern for effect in effects if isinstance(effect, Solve)]

    def status(self, concern: str = "one") -> ConcernShown:
        """Of a concern now, as operators are told."""
        return said_once(self.machine.hear(ShowConcern(concern, KEY)), ConcernShown)

    def hear(self, message: Message) -> list[Part]:
        """Return the command that follows."""
        return said(self.machine.hear(message), Part)


def solved(concern: str = "one", number: int = 1, revision: int = 0) -> Solved:
    """An answer."""
    return Solved(concern, KEY, revision, Number(number))


def unsolved(concern: str = "one", why: str = "it is infeasible", *, is_for_good: bool = False) -> Unsolved:
    """No answer."""
    return Unsolved(concern, KEY, 0, why, is_for_good)


@pytest.fixture(name="toys")
def toys_of_a_planner(start: Start) -> Toys:
    """Both concerns have looked, and found nothing to solve; five minutes later one task is submitted."""
    toys = Toys(start)
    toys.machine.wait(seconds(300))
    toys.ask_for_one()
    return toys


def test_problem_is_solved_once_its_inputs_have_settled(toys: Toys) -> None:
    """A second after a change; both concerns at once."""
    assert [] == toys.wait(Nanoseconds(seconds(1) - 1))
    assert ["one", "two"] == toys.wait(Nanoseconds(1))
    assert ConcernShown(True, True, 0, "", seconds(60)) == toys.status()


def test_command_is_said_until_the_log_shows_its_answer(toys: Toys) -> None:
    """All of its messages, with what the solver found and what it was found from; then nothing more."""
    toys.wait(seconds(1))
    command = [Part("one", 1, 1), Part("one", 2, 7)]
    assert command == toys.hear(solved(number=7))
    assert command * 2 == said(toys.machine.wait(Nanoseconds(2 * COMMAND_SAY_AGAIN)), Part)
    toys.record(1)
    assert [] == said(toys.machine.wait(seconds(600)), Part)
    assert not toys.status().failures


def test_no_concern_waits_for_another(toys: Toys) -> None:
    """While the solver of one hangs, the other fails, is asked again, is solved, and is said."""
    toys.wait(seconds(1))
    for wait in RETRIES[:2]:
        toys.hear(unsolved("two"))
        assert ["two"] == toys.wait(seconds(wait))
    assert 2 == len(toys.hear(solved("two")))
    assert 2 == len(said(toys.machine.wait(COMMAND_SAY_AGAIN), Part))
    assert (True, 0) == (toys.status("one").is_solving, toys.status("one").failures)


def test_concern_that_fails_is_tried_later_and_later(toys: Toys) -> None:
    """It tells why, and how often in a row; the other concern goes on."""
    toys.wait(seconds(1))
    toys.hear(unsolved("two", "it is unbounded"))
    for number, wait in enumerate(RETRIES, start=1):
        toys.hear(unsolved("one"))
        assert ConcernShown(True, False, number, "it is infeasible", seconds(wait)) == toys.status()
        toys.ask_for_one()
        assert "one" not in toys.wait(Nanoseconds(seconds(wait) - 1)), "a change does not make it due earlier"
        assert "one" in toys.wait(Nanoseconds(1))
    assert "the solver does not answer" == toys.status("two").why
    toys.hear(solved())
    assert 5 == toys.status().failures, "nothing is recorded yet"
    toys.record(6)
    assert (0, "") == (toys.status().failures, toys.status().why)


def test_every_way_to_fail_is_told(toys: Toys) -> None:
    """No answer in time, an answer without a command, a command that is not recorded, and no problem."""
    toys.wait(seconds(1))
    toys.wait(seconds(60))
    assert "the solver does not answer" == toys.status().why
    toys.wait(seconds(10))
    assert [] == toys.hear(solved(number=-1))
    assert "it is a negative number" == toys.status().why
    toys.wait(seconds(20))
    assert toys.hear(solved())
    again = said(toys.machine.wait(Nanoseconds(3 * COMMAND_SAY_AGAIN)), Part)
    assert 4 == len(again), "three times two messages in all"
    assert "nobody records the number" == toys.status().why
    while toys.machine.state.queue.demand.arrived < BAD:
        toys.ask_for_one()
    toys.wait(seconds(40))
    assert (4, "it is a bad number") == (toys.status().failures, toys.status().why)


@pytest.mark.parametrize("late", [solved(), solved(number=9), unsolved(), unsolved(is_for_good=True)])
def test_late_and_repeated_answers_change_nothing(toys: Toys, late: Message) -> None:
    """Whether it was answered already, given up, or recorded meanwhile; and an answer for another revision, or a key that is not known."""
    toys.wait(seconds(1))
    toys.hear(solved())
    assert NOTHING == toys.machine.hear(late)
    toys.record(1)
    assert NOTHING == toys.machine.hear(late)
    toys.ask_for_one()
    toys.wait(seconds(300))
    assert toys.status().is_solving
    assert NOTHING == toys.machine.hear(late), "it is of revision 0"
    assert NOTHING == toys.machine.hear(Solved("one", "other", 1, Number(1)))
    toys.wait(seconds(60))
    assert NOTHING == toys.machine.hear(solved(revision=1)), "it was given up"


def test_concern_without_a_solver_says_so_and_asks_no_more(toys: Toys) -> None:
    """In this life; the other concern has its own solver."""
    toys.wait(seconds(1))
    toys.hear(unsolved("one", "no solver is installed", is_for_good=True))
    assert ConcernShown(False, False, 1, "no solver is installed", Nanoseconds(-1)) == toys.status()
    toys.hear(unsolved("two"))
    toys.ask_for_one()
    assert {"two"} == set(toys.wait(seconds(3_600)))
    again = toys.machine.restart().wake().effects
    assert ["one", "two"] == [effect.concern for effect in again if isinstance(effect, Solve)]


def test_concern_looks_now_and_then(toys: Toys) -> None:
    """After a change five minutes after its last look at the earliest, however much happens; without one a day later."""
    toys.wait(seconds(1))
    toys.hear(solved())
    toys.record(1)
    for _ in range(5):
        toys.ask_for_one()
        assert [] == toys.wait(seconds(59))
    assert ["one", "two"] == toys.wait(seconds(5))
    toys.hear(solved(number=0, revision=1))
    assert Nanoseconds(-1) == toys.status().again_in, "there is nothing to say, until the next change"
    toys.record(6)
    toys.wait(seconds(300))
    assert seconds(86_000) < toys.status().again_in <= seconds(86_400)


def test_answer_that_is_not_wanted_any_more_is_asked_for_again_at_once(toys: Toys) -> None:
    """It counts as no failure, unless there is no solver."""
    toys.wait(seconds(1))
    toys.machine.hear(LogSilent(EU_LOG))
    for answer in (solved(), unsolved()):
        assert [] == toys.hear(answer)
        assert not toys.status().failures
        assert "one" in toys.wait(Nanoseconds(0))
    toys.hear(unsolved(is_for_good=True))
    assert not toys.status().has_solver


def test_log_that_is_adopted_again_may_have_another_history(toys: Toys) -> None:
    """What was asked before counts no more, and failures are forgotten."""
    toys.wait(seconds(1))
    toys.hear(unsolved("two"))
    toys.machine.adopt(GLOBAL_LOG)
    assert NOTHING == toys.machine.hear(solved())
    assert 0 == toys.status("two").failures
    assert ["one", "two"] == toys.wait(Nanoseconds(0))


def test_two_concerns_of_one_name_are_a_mistake() -> None:
    """Their rows would be one."""
    with pytest.raises(AssertionError, match="two concerns have the same name"):
        Loop((Toy("one"), Toy("one")))
