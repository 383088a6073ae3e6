"""Words of callers that come late, twice, too often, or after their caller was forgotten."""

from typing import Any

import pytest

from core.messages.functions import CallFunction, CallsRefused
from core.nouns.function_limits import CALLER_SILENCE_MAX, CALLS_AT_ONCE_MAX, CALLS_TAKEN_MAX
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.quantities import NOTHING
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
    sized,
)
from tests.matching import said, said_once


def test_word_that_comes_after_a_later_one_is_ignored(start: Any) -> None:
    """Its calls were given back meanwhile, and may run in another region."""
    router, server = a_router(start), a_server(start, cores=1)
    carry_reports(server, router)
    router.wait(seconds(4))
    server.now = router.now
    carry_reports(server, router)
    word = CallFunction(EU, "r0", router.state.life, ML, "c1", 7, 1, a_function(), calls(1, 2, once=True))
    router.hear(word, tenant=ML)
    router.wake()
    server.hear(sized(NOTHING))
    carry_reports(server, router)
    refused = said_once(router.wait(seconds(1)), CallsRefused)
    assert ((2,), 7) == (refused.numbers, refused.word)
    router.hear(word, tenant=ML)
    assert router.state.call((ML, "c1", 2)) is None


@pytest.mark.parametrize("once", [True, False])
def test_caller_may_have_been_forgotten(start: Any, once: bool) -> None:
    """Nobody heard it for minutes, and it says its call again: servers are asked who has the call, if it may be begun once only."""
    router = a_router(start)
    carry_reports(a_server(start), router)
    call(router, calls(1, once=once))
    router.wait(Nanoseconds(2 * CALLER_SILENCE_MAX))
    assert {} == router.state.callers
    carry_reports(a_server(start), router)
    again = call(router, calls(1, once=once), since=Nanoseconds(2 * CALLER_SILENCE_MAX))
    assert [Reason.OTHER_ROUTER] * once == [one.reason for one in said(again, CallsRefused)]
    assert once == (router.state.call((ML, "c1", 1)) is None)


def test_caller_that_floods_is_refused_and_others_are_not(start: Any) -> None:
    """It may have so many calls without an answer at a router; the rest is to be said again later."""
    router = a_router(start)
    for first in range(1, CALLS_TAKEN_MAX + 1, CALLS_AT_ONCE_MAX):
        assert [] == said(call(router, calls(*range(first, first + CALLS_AT_ONCE_MAX))), CallsRefused)
    refused = said_once(call(router, calls(CALLS_TAKEN_MAX + 1)), CallsRefused)
    assert (Reason.ROUTER_FULL, (CALLS_TAKEN_MAX + 1,)) == (refused.reason, refused.numbers)
    assert refused.again_in > 0
    assert [] == said(call(router, calls(1), caller="another"), CallsRefused)
