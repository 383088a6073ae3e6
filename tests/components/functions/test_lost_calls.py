"""Calls that are lost on harvested capacity: where they run again, and what their callers hear."""

from typing import Any

import pytest

from components.function_router.component import FunctionRouter
from core.component import Decision
from core.messages.executors import BookRead, PlaceRead
from core.messages.functions import RunCalls
from core.nouns.function import CallOutcome, Place
from core.nouns.function_limits import ANSWERS_KEPT_SPAN, CALL_TRIES_MAX, SERVER_REPORT
from core.nouns.harvest import HarvestUse
from core.nouns.instant import SECOND, after, seconds
from core.nouns.quantities import NOTHING
from tests.builders import EU
from tests.components.support.functions import (
    HELD,
    ML,
    ROUTERS,
    answers,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    reports,
    started,
)
from tests.components.support.harvested import (
    GPU,
    GRACE,
    HARVESTED,
    a_harvested_server,
    a_knowing_router,
    busy,
    gone,
    lose,
    on_gpu,
    read,
    tell_odds,
)
from tests.components.support.machine import Machine
from tests.matching import all_of, said


def _sent(messages: list[RunCalls]) -> list[Place]:
    """Where runs are sent."""
    return [message.place for message in messages if message.runs]


def _tried_again(server: Machine[Any], router: Machine[Any], *, gpus: int = 1, held: int = 0) -> Decision:
    """The router hears of a loss, and sends the call where it may. Return its words."""
    read(server, gpus, held=held)
    server.now = router.now = after(server.now, seconds(1))
    tell_odds(router)
    heard = all_of(tuple(router.hear(report) for report in reports(server)))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    return heard


def test_lost_call_is_tried_there_once_more_and_then_on_held_capacity(start: Any) -> None:
    """H-8: its caller hears of nothing, its lost seconds are counted, and the third run is where nothing is recalled."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    places = []
    for held in (0, 1):
        places.append(lose(server, held=held))
        read(server, 1, held=held)
        server.now = after(server.now, seconds(1))
        carry_reports(server, router)
        tell_odds(router)
        carry_runs(router, server)
        comes_up(server, *started(server.wake()))
        server.wake()
    places += [one.place for one in server.state.executors.values() if one.tickets]
    assert [HARVESTED, HARVESTED, HELD] == places
    counts = router.state.functions[on_gpu().id].counts
    assert (2, 0, 0) == (counts.retried, counts.lost, counts.failed)
    assert counts.lost_span >= 2 * (GRACE - seconds(1))


def test_call_that_is_lost_again_and_again_fails(start: Any) -> None:
    """H-8: without held capacity it is tried there so often, and then its caller hears of that, also when it says the call again."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    for tried in range(1, CALL_TRIES_MAX + 1):
        assert lose(server, held=0) == HARVESTED
        expected = {1: CallOutcome.FAILED} if tried == CALL_TRIES_MAX else {}
        assert expected == answers(_tried_again(server, router)), tried
    counts = router.state.functions[on_gpu().id].counts
    assert (CALL_TRIES_MAX - 1, 0, 1, 0) == (counts.retried, counts.lost, counts.failed, counts.done)
    assert not server.state.runs
    again = call(router, calls(1), function=on_gpu())
    assert ({1: CallOutcome.FAILED}, []) == (answers(again), said(again, RunCalls))
    assert [] == said(router.wake(), RunCalls)
    call(router, (), function=on_gpu(), floor=2)
    assert 0 == router.state.held


def test_tenant_with_a_bound_learns_from_losses(start: Any) -> None:
    """H-9: of a function without ended calls it is not known that it runs for long, until a call of it is lost."""
    use = HarvestUse(risk_max=0)
    router, server = a_knowing_router(start, use=use), a_harvested_server(start, gpus=1)
    busy(server, router, 1)
    assert lose(server, held=0) == HARVESTED
    for held, places in ((0, []), (1, [HELD])):
        read(server, 1, held=held)
        server.now = after(server.now, seconds(1))
        carry_reports(server, router)
        tell_odds(router, use=use)
        call(router, calls(1), function=on_gpu())
        assert places == _sent(carry_runs(router, server))


def test_lost_run_is_tried_again_wherever_its_router_sees_it(start: Any) -> None:
    """H-8: a router that has restarted sends the call to a held place of the server that runs it on harvested capacity."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    server.now = after(server.now, seconds(5))
    router = start(FunctionRouter(EU, "r0", ROUTERS), at=server.now)
    router.wake()
    tell_odds(router, use=HarvestUse(is_on=False))
    read(server, 1, held=1)
    carry_reports(server, router)
    server.now = after(server.now, SERVER_REPORT)
    carry_reports(server, router)
    call(router, calls(1), function=on_gpu())
    assert [HELD] == _sent(carry_runs(router, server))
    (run,) = server.state.runs.values()
    assert (HARVESTED, 2) == (run.place, len(run.sources))
    assert lose(server, held=1) == HARVESTED
    carry_reports(server, router)
    counts = router.state.functions[on_gpu().id].counts
    assert (1, 0, 0) == (counts.retried, counts.lost, counts.failed)
    assert counts.lost_span >= GRACE - seconds(1)
    assert [HELD] == _sent(carry_runs(router, server))
    comes_up(server, *started(server.wake()))
    (ticket,) = server.state.runs
    server.wake()
    assert {1: CallOutcome.DONE} == answers(ends(server, server.state.runs[ticket].executor, ticket))
    carry_reports(server, router)
    assert (1, 0, 0) == (counts.done, counts.lost, counts.harvested)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("why", ["none", "leaves", "bounded", ""])
def test_call_said_again_begins_only_where_it_may(start: Any, why: str, is_kept: bool) -> None:
    """Its end was told, and its answer did not come: the server that ran it answers again, or gives it back if it may not begin there."""
    server, router = a_harvested_server(start, gpus=3), a_knowing_router(start)
    busy(server, router, 3)
    ends(server, 1, 1, ran=100 * SECOND)
    carry_reports(server, router)
    if not is_kept:
        server.now = after(server.now, ANSWERS_KEPT_SPAN)
        ends(server, 2, 2)
        carry_reports(server, router)
    leaves = PlaceRead(HARVESTED, NOTHING, (), after(server.now, GRACE), slows=True)
    stays = PlaceRead(HARVESTED, GPU.times(3))
    server.hear(BookRead((leaves if why == "leaves" else stays, PlaceRead(HELD, GPU))))
    server.wake()
    for _ in range(2):
        carry_reports(server, router)
        server.now = after(server.now, SERVER_REPORT)
    uses = {"none": HarvestUse(is_on=False), "bounded": HarvestUse(risk_max=0)}
    tell_odds(router, use=uses.get(why))
    (again,) = said(call(router, calls(1), function=on_gpu()), RunCalls)
    assert (HARVESTED, [bool(why)]) == (again.place, [run.is_kept_only for run in again.runs])
    assert ({1: CallOutcome.DONE} if is_kept else {}) == answers(server.hear(again))
    carry_reports(server, router)
    assert [HELD] * bool(why and not is_kept) == _sent(carry_runs(router, server))
    assert [1] * (not is_kept) == [run.key[2] for run in server.state.runs.values() if run.key[2] == 1]
    known = router.state.call((ML, "c1", 1))
    assert known is not None
    assert (is_kept, True) == (known.is_over, known.may_have_begun)


def test_call_to_be_begun_once_is_lost(start: Any) -> None:
    """H-8: nobody begins it again, and its caller hears so."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1, once=True)
    server.hear(BookRead((PlaceRead(HARVESTED, NOTHING, (), after(server.now, GRACE), slows=True),)))
    server.wait(GRACE)
    assert {1: CallOutcome.LOST} == answers(gone(server, 1))
    carry_reports(server, router)
    counts = router.state.functions[on_gpu().id].counts
    assert (1, 0) == (counts.lost, counts.retried)
    assert counts.lost_span > 0


def test_done_calls_are_counted_by_where_they_ran(start: Any) -> None:
    """H-11: with their run time, which is what harvested capacity is paid for."""
    server, router = a_harvested_server(start, gpus=1), a_knowing_router(start)
    busy(server, router, 1)
    ends(server, 1, 1, ran=7 * SECOND)
    carry_reports(server, router)
    counts = router.state.functions[on_gpu().id].counts
    assert (1, 1, 7 * SECOND) == (counts.done, counts.harvested, counts.harvested_span)
