"""Runs that wait on a server which has become too small for them: another server runs them."""

from typing import Any

import pytest

from core.messages.executors import BookRead, ExecutorChanged
from core.messages.functions import CallsAnswered, RunCalls, ServerReport
from core.nouns.function import WarmLevel
from core.nouns.ids import TenantName
from core.nouns.quantities import NOTHING, Amount
from tests.components.support.functions import (
    ML,
    a_router,
    a_server,
    answers,
    call,
    calls,
    carry_reports,
    carry_runs,
    comes_up,
    ends,
    given,
    sized,
    started,
    stopped,
)
from tests.matching import all_of, said

EIGHT = Amount(0, 8_000, 64 << 30)


@pytest.mark.parametrize(
    "book",
    [
        sized(NOTHING),
        sized(Amount(0, 500, 64 << 30)),
        sized(EIGHT, ((TenantName("other"), EIGHT),)),
    ],
)
def test_run_that_waits_goes_to_another_server(start: Any, book: BookRead) -> None:
    """Both that was taken from its executor, and one that may be begun once only and was not. The caller hears of its end alone."""
    first, router = a_server(start, "w0", cores=2), a_router(start)
    carry_reports(first, router)
    call(router, calls(1))
    call(router, calls(2, once=True))
    carry_runs(router, first)
    assert [1, 2] == started(first.wake())
    comes_up(first, 1)
    assert {1: [1]} == given(first.wake())
    first.hear(book)
    decision = first.wake()
    assert {1, 2} == {*stopped(decision)}
    for number in (1, 2):
        first.hear(ExecutorChanged(number, WarmLevel.COLD, is_gone=True))
    for report in said(all_of((decision, first.wake())), ServerReport):
        router.hear(report)
    assert {} == first.state.runs
    assert [] == said(router.wake(), RunCalls)
    second = a_server(start, "w1", cores=2)
    second.now = router.now
    carry_reports(second, router)
    (sent,) = carry_runs(router, second)
    assert ("w1", [1, 2]) == (sent.server, [run.call.number for run in sent.runs])
    comes_up(second, *started(second.wake()))
    second.wake()
    assert {1: "done", 2: "done"} == answers(ends(second, 1, 1)) | answers(ends(second, 2, 2))
    assert [] == said(first.wake(), CallsAnswered)
    carry_reports(second, router)
    assert router.state.call((ML, "c1", 1)).is_over
