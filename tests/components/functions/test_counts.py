"""Counts of calls: once a minute from a router to the region's store, and back to the router's next life."""

from typing import Any

from msgspec.structs import replace

from components import PlacementStore
from components.function_router.component import FunctionRouter
from core.events.functions import FunctionsCounted
from core.fact import Fact
from core.images.functions import HOUR, HOURS_KEPT, Functions
from core.messages.executors import ExecutorChanged
from core.messages.functions import CountFunctions, FunctionsRemembered
from core.nouns.function import FunctionCount, WarmLevel
from core.nouns.function_limits import FUNCTIONS_REMEMBERED_MAX
from core.nouns.ids import FunctionId, region_log
from core.nouns.instant import SECOND, Instant, Nanoseconds, after, seconds
from core.nouns.quantities import Amount
from tests.builders import EU, START
from tests.components.support.functions import (
    ROUTERS,
    a_function,
    a_router,
    a_server,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    sized,
    started,
)
from tests.matching import facts, said, said_once

SCORE = a_function().id
COUNT = FunctionCount(SCORE, 120, ran=seconds(60))


def counts(router: Any, span: Nanoseconds) -> list[CountFunctions]:
    """The router's words to the store within a span."""
    return said(router.wait(span), CountFunctions)


def a_told_router(start: Any, *, at: Instant = START) -> Any:
    """One that knows of no call before its life."""
    router = start(FunctionRouter(EU, "r0", ROUTERS), at=at)
    (asked,) = said(router.wake(), CountFunctions)
    assert 0 == asked.number
    router.hear(FunctionsRemembered(EU, "r0", router.state.life, 0))
    return router


def calls_run(router: Any, server: Any, *numbers: int) -> None:
    """Calls come, run for a second each, and end."""
    carry_reports(server, router)
    call(router, calls(*numbers))
    carry_runs(router, server)
    server.now = router.now
    comes_up(server, *started(server.wake()))
    server.wake()
    for place, number in enumerate(numbers, 1):
        ends(server, place, number, ran=SECOND)
    carry_reports(server, router)


def test_calls_are_counted_once_a_minute(start: Any) -> None:
    """Done, cold, and run times; told again until the store has them, and then counted no more."""
    router, server = a_told_router(start), a_server(start)
    calls_run(router, server, 1, 2)
    assert [] == counts(router, seconds(55))
    (told,) = counts(router, seconds(6))
    assert (1, (FunctionCount(SCORE, 2, cold=(2, 0, 0), ran=seconds(2)),)) == (told.number, told.counts)
    again = counts(router, seconds(5))
    assert [told] == again
    router.hear(FunctionsRemembered(EU, "r0", router.state.life, 1))
    assert [] == counts(router, seconds(200))


def test_calls_are_cold_by_the_level_at_which_they_come(start: Any) -> None:
    """H-7: no executor, a process, weights in host memory; those behind a ready one are not cold."""
    router, server = a_told_router(start), a_server(start, cores=4)
    onto_gpu = a_function(need=Amount(1_000, 1_000, 1 << 30))
    server.hear(sized(Amount(4_000, 4_000, 64 << 30)))
    carry_reports(server, router)
    for number, level in enumerate((WarmLevel.PROCESS, WarmLevel.HOST, WarmLevel.DEVICE), 1):
        call(router, calls(number), function=onto_gpu)
        carry_runs(router, server)
        server.now = router.now
        assert [number] == started(server.wake())
        server.hear(ExecutorChanged(1, level))
    call(router, calls(4), function=onto_gpu)
    carry_runs(router, server)
    for ticket in range(1, 5):
        server.wake()
        ends(server, 1, ticket)
    server.now = after(server.now, seconds(1))
    carry_reports(server, router)
    (told,) = counts(router, seconds(61))
    assert (4, (1, 1, 1)) == (told.counts[0].done, told.counts[0].cold)


def test_calls_that_end_while_the_store_is_told_are_in_the_next_count(start: Any) -> None:
    """No call is counted twice, and none is left out."""
    router, server = a_told_router(start), a_server(start)
    calls_run(router, server, 1)
    (first,) = counts(router, seconds(61))
    server.now = router.now
    carry_reports(server, router)
    call(router, calls(2), floor=2)
    carry_runs(router, server)
    server.wake()
    ends(server, 1, 2, ran=SECOND)
    carry_reports(server, router)
    router.hear(FunctionsRemembered(EU, "r0", router.state.life, 1))
    (second,) = counts(router, seconds(61))
    assert [1, 1] == [one.counts[0].done for one in (first, second)]
    assert (2, (0, 0, 0)) == (second.number, second.counts[0].cold)


def test_call_that_is_said_again_after_its_end_is_counted_once(start: Any) -> None:
    """The server gives the same answer, and runs nothing."""
    router, server = a_told_router(start), a_server(start)
    calls_run(router, server, 1)
    call(router, calls(1))
    carry_runs(router, server)
    carry_reports(server, router)
    (told,) = counts(router, seconds(61))
    assert [(1, 1)] == [(one.done, one.again) for one in told.counts]


def test_new_life_starts_from_the_counts(start: Any) -> None:
    """Its first estimate of a function is as if calls had come evenly in the minute before."""
    store = start(PlacementStore(EU))
    store.hear(CountFunctions(EU, "r0", "a life", 1, seconds(60), (COUNT,)))
    router = a_router(start)
    asked = CountFunctions(EU, "r0", router.state.life, 0)
    router.hear(said_once(store.hear(asked), FunctionsRemembered))
    carry_reports(a_server(start), router)
    call(router, calls(1))
    load = router.state.functions[SCORE].rates.load(router.now, a_function().need)
    assert (2, SECOND // 2) == (round(load.rate), load.run_time)


def test_store_records_a_count_once(start: Any) -> None:
    """However often it is told; and none of less than half a minute after the one before."""
    store = start(PlacementStore(EU))
    first = CountFunctions(EU, "r0", "a life", 1, seconds(60), (COUNT,))
    assert [FunctionsCounted("r0", "a life", 1, seconds(60), (COUNT,))] == facts(store.hear(first))
    again = store.hear(first)
    assert ([], 1) == (facts(again), said_once(again, FunctionsRemembered).number)
    second = replace(first, number=2)
    assert [] == facts(store.hear(second))
    store.now = after(store.now, seconds(31))
    assert 1 == len(facts(store.hear(second)))


def test_store_records_no_nonsense(start: Any) -> None:
    """Such bytes come of a spoiled message alone, and nobody is answered."""
    store = start(PlacementStore(EU))
    good = CountFunctions(EU, "r0", "a life", 1, seconds(60), (COUNT,))
    for bad in (
        replace(good, router="r 0"),
        replace(good, span=Nanoseconds(-1)),
        replace(good, counts=(COUNT, COUNT)),
        replace(good, counts=(replace(COUNT, done=-1),)),
        replace(good, counts=(replace(COUNT, ran=Nanoseconds(1 << 62)),)),
    ):
        decision = store.hear(bad)
        assert ([], ()) == (facts(decision), decision.messages), bad


def folded(*events: tuple[int, FunctionsCounted]) -> Functions:
    """The section after these, each at so many hours."""
    section = Functions()
    for number, (hour, event) in enumerate(events, 1):
        at = Instant(hour * HOUR)
        section._count(Fact(region_log(EU), number, at, "", "", event, at))
    return section


def test_image_holds_the_last_day() -> None:
    """By the hour; older hours go, and with the last one the function."""
    event = FunctionsCounted("r0", "a life", 1, seconds(60), (COUNT,))
    section = folded((100, event), (100, event), (101, event))
    assert {100: 240, 101: 120} == {hour: one.done for hour, one in section.rows[SCORE].hours.items()}
    other = replace(event, counts=(replace(COUNT, function=FunctionId("ml/other/0123abcd")),))
    section = folded((100, event), (100 + HOURS_KEPT, other))
    assert ["ml/other/0123abcd"] == list(section.rows)


def test_image_holds_so_many_functions_at_most() -> None:
    """The ones that were called last."""
    counted = [
        replace(COUNT, function=FunctionId(f"ml/f{number}/0123abcd"))
        for number in range(FUNCTIONS_REMEMBERED_MAX + 2)
    ]
    events = [(100, FunctionsCounted("r0", "a life", 1, seconds(60), (count,))) for count in counted]
    assert [count.function for count in counted[2:]] == list(folded(*events).rows)
