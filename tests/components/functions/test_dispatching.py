"""Which call goes to which server: by the policy of the region, and to ready executors if the call has waited."""

from typing import Any

import pytest

from components.function_router.component import FunctionRouter
from core.messages.functions import RunCalls, ServerReport
from core.nouns.quantities import Amount
from core.routing import POLICIES
from tests.builders import EU
from tests.components.support.functions import (
    CORE,
    ML,
    ROUTERS,
    a_function,
    a_server,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    given,
    started,
)
from tests.matching import said, said_once

OTHER = a_function("other")


def test_call_that_has_just_come_goes_where_the_policy_says(start: Any) -> None:
    """H-6: the shortest queue is joined although another server has a ready executor."""
    router = start(FunctionRouter(EU, "r0", ROUTERS, "jsq"))
    router.wake()
    warm, empty = a_server(start, "w0"), a_server(start, "w1")
    carry_reports(warm, router)
    call(router, calls(1))
    call(router, calls(2), function=OTHER)
    carry_runs(router, warm)
    comes_up(warm, *started(warm.wake()))
    warm.wake()
    ends(warm, 1, 1)
    carry_reports(warm, router)
    carry_reports(empty, router)
    call(router, calls(3))
    (sent,) = carry_runs(router, empty)
    assert ("w1", [3]) == (sent.server, [run.call.number for run in sent.runs])


def test_call_that_has_waited_goes_to_an_executor_of_its_own_function(start: Any) -> None:
    """H-4: before a call of another function that is due earlier, as long as none is late."""
    router, server = start(FunctionRouter(EU, "r0", ROUTERS)), a_server(start, "w0", cores=1)
    router.wake()
    carry_reports(server, router)
    call(router, calls(1))
    carry_runs(router, server)
    comes_up(server, *started(server.wake()))
    server.wake()
    call(router, calls(2), function=OTHER)
    call(router, calls(3))
    router.wake()
    ends(server, 1, 1)
    carry_reports(server, router)
    (sent,) = carry_runs(router, server)
    assert [3] == [run.call.number for run in sent.runs]
    decision = server.wake()
    assert ([1], []) == (list(given(decision)), started(decision))


def test_routers_share_the_part_that_a_tenant_holds(start: Any) -> None:
    """A core is used by a run of another router, of the three that are lent: the router sends two calls, and one waits."""
    router = start(FunctionRouter(EU, "r0", ("r0", "r1")))
    router.wake()
    size, one_core = Amount(0, 3_000, 64 << 30), Amount(0, 1_000, 1 << 30)
    router.hear(ServerReport(EU, "r0", "w0", "a life", 1, 0, size, ((ML, one_core),), ((ML, size),)))
    call(router, calls(1, 2, 3))
    (sent,) = said(router.wake(), RunCalls)
    assert [1, 2] == [run.call.number for run in sent.runs]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_call_is_never_sent_where_there_is_no_room_for_it_ever(start: Any, policy: str) -> None:
    """Also by policies that send beyond the size of servers: the server would send the call back again and again."""
    router, small = start(FunctionRouter(EU, "r0", ROUTERS, policy)), a_server(start, "w0", cores=1)
    router.wake()
    carry_reports(small, router)
    call(router, calls(1), function=a_function("wide", need=CORE.times(2)))
    assert [] == said(router.wake(), RunCalls)
    call(router, calls(2))
    assert [2] == [run.call.number for run in said_once(router.wake(), RunCalls).runs]
