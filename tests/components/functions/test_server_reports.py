"""Ended runs in a server's reports: told until their router has heard of them, and then no more."""

from typing import Any

import pytest

from components.function_server.state import ENDS_TOLD_MAX
from core.messages.functions import Run, RunCalls, ServerReport
from core.nouns.function_limits import SERVER_REPORT
from core.nouns.instant import SECOND, Nanoseconds, after
from tests.builders import EU
from tests.components.support.functions import (
    HELD,
    ML,
    a_function,
    a_router,
    a_server,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    reports,
    started,
)
from tests.matching import all_of, said


def words(server: Any, *runs: int, floor: int = 1, heard: int = 0, life: str = "1") -> RunCalls:
    """A router says these runs, all of one call."""
    (one,) = calls(1)
    spec = a_function() if runs else None
    sent = tuple(Run(number, "c1", ML, one) for number in runs)
    return RunCalls(EU, "w0", server.state.life, "r0", life, floor, spec, sent, heard)


@pytest.fixture
def server(start: Any) -> Any:
    """A server that has told the end of run 1; later runs of that call have ended when they come."""
    server = a_server(start, cores=1)
    server.hear(words(server, 1))
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    (report,) = next_reports(server)
    server.hear(words(server, floor=2, heard=report.number))
    return server


def next_reports(server: Any) -> list[ServerReport]:
    """Let the next whole report come, and what else is told until then."""
    server.wake()
    server.now = after(server.now, SERVER_REPORT)
    return [one for one in reports(server) if one.is_whole]


def told(report: ServerReport) -> list[int]:
    """The runs of which a report tells the end."""
    return [one.number for one in report.ended]


def test_ends_behind_a_run_that_stays_open_are_forgotten(start: Any) -> None:
    """The floor is that run's, for as long as it runs; the router says which report was heard."""
    router, server = a_router(start), a_server(start, cores=2)
    carry_reports(server, router)
    call(router, calls(*range(1, 21)))
    for _ in range(40):
        router.now = server.now = after(server.now, Nanoseconds(SECOND // 4))
        carry_runs(router, server)
        before = server.wake()
        comes_up(server, *started(before))
        given = server.wake()
        for ticket, run in list(server.state.runs.items()):
            if ticket > 1 and run.executor:
                ends(server, run.executor, ticket)
        for report in said(all_of((before, given, server.wake())), ServerReport):
            router.hear(report)
    assert [1] == list(server.state.runs)
    assert 1 == router.state.servers["w0/0"].floor
    assert {} == server.state.place(HELD).links["r0"].ended
    assert [] == said(router.wait(SERVER_REPORT), RunCalls), "the server knows that they were heard"


def test_end_is_told_until_a_report_with_it_was_heard(server: Any) -> None:
    """Any of them that is whole: another may have been lost."""
    server.hear(words(server, 3, floor=2))
    (first,) = next_reports(server)
    server.hear(words(server, 4, floor=2))
    (second,) = next_reports(server)
    assert ([3], [3, 4]) == (told(first), told(second))
    server.hear(words(server, floor=2, heard=first.number))
    (third,) = next_reports(server)
    assert [4] == told(third)
    server.hear(words(server, floor=2, heard=third.number))
    (last,) = next_reports(server)
    assert [] == told(last)


def test_router_of_an_idle_server_is_silent(start: Any) -> None:
    """There is no word for each report that tells no end."""
    router, server = a_router(start), a_server(start)
    for _ in range(5):
        router.now = server.now = after(server.now, SERVER_REPORT)
        carry_reports(server, router)
        assert [] == said(router.wake(), RunCalls)


def test_another_life_of_a_router_has_heard_nothing(server: Any) -> None:
    """Its runs have numbers of their own."""
    server.hear(words(server, 3, floor=2))
    (first,) = next_reports(server)
    server.hear(words(server, 3, life="2", heard=first.number))
    (second,) = next_reports(server)
    assert ("2", [3]) == (second.router_life, told(second))
    server.hear(words(server, life="2", heard=first.number))
    (third,) = next_reports(server)
    assert [3] == told(third)


def test_report_tells_so_many_ends_at_most(server: Any) -> None:
    """The oldest until they are heard, and then the others at once; each is told soon, in reports that are not whole."""
    numbers = list(range(3, 3 + 2 * ENDS_TOLD_MAX + 5))
    server.hear(words(server, *numbers, floor=2))
    soon = [told(report) for report in reports(server)]
    assert [ENDS_TOLD_MAX, ENDS_TOLD_MAX, 5] == [len(one) for one in soon]
    assert numbers == [number for one in soon for number in one]
    (first,) = next_reports(server)
    (again,) = next_reports(server)
    assert numbers[:ENDS_TOLD_MAX] == told(first) == told(again)
    server.hear(words(server, floor=2, heard=again.number))
    (second,) = reports(server)
    assert (True, numbers[ENDS_TOLD_MAX : 2 * ENDS_TOLD_MAX]) == (second.is_whole, told(second))
    server.hear(words(server, floor=2, heard=second.number))
    (third,) = next_reports(server)
    assert numbers[2 * ENDS_TOLD_MAX :] == told(third)


@pytest.mark.parametrize("floor", [5, 1_000_000_000_000])
def test_floor_forgets_ends_below(server: Any, floor: int) -> None:
    """However far it is, and whichever of them were told."""
    server.hear(words(server, 6, 3, 4, floor=2))
    server.wake()
    server.hear(words(server, floor=floor))
    (report,) = next_reports(server)
    assert [number for number in (6,) if number >= floor] == told(report)
    server.hear(words(server, 4, floor=floor))
    assert [number for number in (6,) if number >= floor] == told(next_reports(server)[-1]), (
        "late, and heard before"
    )


def test_floor_is_no_work_for_ends_above(server: Any) -> None:
    """Many words come while one run stays open: each looks at the runs that it passes alone."""
    server.hear(words(server, *range(4, 2_000), floor=2))
    link = server.state.place(HELD).links["r0"]
    link.ended = Counted(link.ended)
    server.hear(words(server, floor=3))
    assert 0 == link.ended.walks
    assert 1_996 == len(link.ended)


class Counted(dict[int, Any]):
    """Counts how often all of it is walked over."""

    walks = 0

    def __iter__(self) -> Any:
        self.walks += 1
        return super().__iter__()
