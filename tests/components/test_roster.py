"""The roster: every unit of the plan and every one that was heard, with its newest status."""

from collections.abc import Callable
from typing import Any

from components.auditor.component import Auditor
from components.auditor.roster import SWEEP_INTERVAL, Roster
from core.messages.units import SeenUnit, ShowUnits, UnitsShown
from core.nouns.instant import Instant, after, seconds
from core.nouns.limits import UNIT_FORGOTTEN_AFTER, UNITS_SHOWN_MAX
from tests.builders import EU, START, a_status
from tests.components.support.machine import Machine
from tests.matching import said_once

Start = Callable[..., Machine[Any]]


def names(shown: UnitsShown) -> list[str]:
    """Of the units shown."""
    return [one.unit for one in shown.units]


def test_planned_unit_is_listed_before_it_has_told_anything(start: Start) -> None:
    """So that one which never comes up is missed."""
    machine = start(Auditor((EU,), ("job_queue", "auditor")))
    machine.wait(seconds(4))
    machine.hear(a_status("job_queue"))
    machine.wait(seconds(2))
    shown = said_once(machine.hear(ShowUnits()), UnitsShown)
    assert (
        SeenUnit("auditor", None, seconds(6), 0),
        SeenUnit("job_queue", a_status("job_queue"), seconds(2), 1),
    ) == shown.units
    assert "" == shown.following


def test_other_life_is_a_restart() -> None:
    """Where no supervisor counts them, as in containers."""
    roster = Roster((), START)
    for life in ("one", "one", "two", "three", "three"):
        roster.hear(a_status("agent.eu.a0", life=life), START)
    assert [3] == [one.lives for one in roster.shown("", START).units]


def test_many_units_are_shown_page_by_page() -> None:
    """In the order of their names, each once."""
    count = 2 * UNITS_SHOWN_MAX + 1
    planned = tuple(f"worker.eu.w{number:05}" for number in range(count))
    roster = Roster(planned, START)
    found, behind, pages = [], "", 0
    while True:
        shown = roster.shown(behind, START)
        found += names(shown)
        pages += 1
        behind = shown.following
        if not behind:
            break
    assert (3, list(planned)) == (pages, found)


def test_last_page_may_be_full() -> None:
    """Then nothing follows."""
    roster = Roster(tuple(f"u{number:05}" for number in range(UNITS_SHOWN_MAX)), START)
    assert "" == roster.shown("", START).following


def test_unit_that_no_plan_names_is_forgotten_in_a_day() -> None:
    """An agent that was added by hand and is gone; one of the plan stays."""
    roster = Roster(("job_queue",), START)
    roster.hear(a_status("job_queue"), START)
    roster.hear(a_status("agent.eu.extra"), START)
    late = after(START, UNIT_FORGOTTEN_AFTER)
    assert ["agent.eu.extra", "job_queue"] == names(roster.shown("", late))
    roster.hear(a_status("agent.eu.new"), late)
    assert ["agent.eu.new", "job_queue"] == names(roster.shown("", late))


def test_units_are_looked_through_once_an_hour() -> None:
    """Not at each one that joins: 10,000 that join at once are not looked through 10,000 times."""
    roster = Roster((), START)
    roster.hear(a_status("one"), Instant(START - UNIT_FORGOTTEN_AFTER))
    roster.hear(a_status("two"), START)
    assert ["one", "two"] == names(roster.shown("", START))
    roster.hear(a_status("three"), after(START, SWEEP_INTERVAL))
    assert ["three", "two"] == names(roster.shown("", START))
