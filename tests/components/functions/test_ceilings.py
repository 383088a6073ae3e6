"""Ceilings of a router: no caller and no tenant closes it to others, and it forgets what is of no use any more."""

from typing import Any
from unittest.mock import patch

import pytest

from core.messages.functions import CallFunction, CallsRefused, RunCalls
from core.nouns.function import Call
from core.nouns.function_limits import CALL_BYTES_MAX, CALLS_HELD_BYTES_MAX, KEEP_ALIVE_MAX, RANGES_TOLD_MAX
from core.nouns.ids import TenantName
from core.nouns.instant import SECOND, seconds
from core.nouns.reasons import Reason
from tests.builders import EU
from tests.components.support.functions import (
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
    started,
)
from tests.components.support.machine import Machine
from tests.matching import said

NLP = TenantName("nlp")
LARGE = bytes(CALL_BYTES_MAX)


def refused(decision: Any) -> list[tuple[Reason, tuple[int, ...]]]:
    """Which calls are not taken, and why."""
    return [(Reason(one.reason), one.numbers) for one in said(decision, CallsRefused)]


def one_of_another_tenant(router: Machine[Any]) -> Any:
    """A call of another tenant comes."""
    function = a_function(tenant=NLP)
    message = CallFunction(EU, "r0", router.state.life, NLP, "c9", 1, 1, function, calls(1))
    return router.hear(message, tenant=NLP)


def test_large_arguments_of_a_tenant_leave_room_for_others(start: Any) -> None:
    """Of one caller a quarter of the bytes is taken, and of its tenant half of them."""
    router = a_router(start)
    taken: dict[str, int] = {}
    for caller in ("c1", "c2", "c3"):
        number = 1
        while not refused(call(router, (Call(number, LARGE),), caller=caller)):
            number += 1
        taken[caller] = number - 1
    quarter = CALLS_HELD_BYTES_MAX // 4 // CALL_BYTES_MAX
    assert {"c1": quarter, "c2": quarter, "c3": 0} == taken
    assert [] == refused(one_of_another_tenant(router))


def test_many_calls_of_a_tenant_leave_room_for_others(start: Any) -> None:
    """Under however many names it calls."""
    router = a_router(start)
    with patch("components.function_router.taking.CALLS_HELD_MAX", 8):
        for caller in ("c1", "c2", "c3", "c4"):
            assert [] == refused(call(router, calls(1), caller=caller))
        assert [(Reason.ROUTER_FULL, (1,))] == refused(call(router, calls(1), caller="c5"))
        assert [] == refused(one_of_another_tenant(router))


def test_many_callers_of_a_tenant_leave_room_for_others(start: Any) -> None:
    """Those that are known call on."""
    router = a_router(start)
    with patch("components.function_router.taking.CALLERS_MAX", 8):
        for caller in ("c1", "c2", "c3", "c4"):
            assert [] == refused(call(router, calls(1), caller=caller))
        assert [(Reason.ROUTER_FULL, (1,))] == refused(call(router, calls(1), caller="c5"))
        assert [] == refused(call(router, calls(2), caller="c1"))
        assert [] == refused(one_of_another_tenant(router))


@pytest.mark.parametrize(
    "answered",
    [tuple((3 * place, 3 * place + 1) for place in range(1, RANGES_TOLD_MAX + 2)), ((5, 4),), ((0, 1),)],
)
def test_ranges_that_no_caller_tells_are_refused(start: Any, answered: tuple[tuple[int, int], ...]) -> None:
    """More than go with a message, or none at all: a router would remember them."""
    router = a_router(start)
    message = CallFunction(
        EU, "r0", router.state.life, ML, "c1", 1, 1, a_function(), calls(9_999), answered=answered
    )
    assert [(Reason.INVALID, (9_999,))] == refused(router.hear(message, tenant=ML))
    assert {} == router.state.callers


def test_functions_that_are_called_no_more_are_forgotten(start: Any) -> None:
    """Each lambda of a notebook is a function of its own."""
    router, server = a_router(start), a_server(start)
    carry_reports(server, router)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    ends(server, 1, 1)
    carry_reports(server, router)
    for _ in range(KEEP_ALIVE_MAX // (60 * SECOND) + 2):
        router.wait(seconds(60))
        server.now = router.now
        carry_reports(server, router)
        told = router.state.told
        if told is not None:
            router.hear(remembered(told))
    assert {} == router.state.functions


def remembered(told: Any) -> Any:
    """The store's answer to counts."""
    from core.messages.functions import FunctionsRemembered

    return FunctionsRemembered(told.region, told.router, told.life, told.number)


def test_call_that_is_sent_twice_waited_once(start: Any) -> None:
    """Its server is gone, and it waits for another: each wait is counted, none twice."""
    router = a_router(start)
    first, second = a_server(start, "w0", cores=1), a_server(start, "w1", cores=1)
    for server in (first, second):
        carry_reports(server, router)
    call(router, calls(1, 2))
    runs = said(router.wake(), RunCalls)
    assert {"w0", "w1"} == {one.server for one in runs}
    for one in runs:
        (first if one.server == "w0" else second).hear(one)
    comes_up(second, *started(second.wake()))
    second.wake()
    for _ in range(20):
        router.wait(seconds(1))
        second.now = router.now
        carry_reports(second, router)
    ends(second, 1, 1)
    carry_reports(second, router)
    assert 1 == len(carry_runs(router, second))
    (row,) = router.state.functions.values()
    assert seconds(5) < row.counts.waited <= seconds(20)
