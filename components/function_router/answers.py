"""Answers of calls that the router gives itself: of calls that are lost, too late, or ended too often with their capacity."""

from collections.abc import Iterable, Iterator

from components.function_router.state import CallerKey, CallKey, CallRow, RouterState
from core.messages.functions import CallsAnswered, ServerReport
from core.nouns.function import CallAnswer, CallOutcome, member_of
from core.nouns.function_limits import CALL_TRIES_MAX
from core.nouns.ids import RegionName


def messages_of(region: RegionName, answers: Iterable[tuple[CallKey, CallAnswer]]) -> list[CallsAnswered]:
    """Return the messages that tell callers these answers."""
    by_caller: dict[CallerKey, list[CallAnswer]] = {}
    for key, answer in answers:
        by_caller.setdefault(key[:2], []).append(answer)
    return [
        CallsAnswered(tenant, caller, region, "", tuple(mine)) for (tenant, caller), mine in by_caller.items()
    ]


def lost(number: int) -> CallAnswer:
    """Return the answer of a call to be begun once whose server is gone."""
    return CallAnswer(
        number, CallOutcome.LOST, problem="the server that had it is gone, and it may not be begun twice"
    )


def too_late(call: CallRow) -> CallAnswer:
    """Return the answer of a call that waits when the time is over that its caller had for it."""
    number = call.key[2]
    if call.may_have_begun:
        text = "the server that had it is gone, and there is no time to begin it anew"
        return CallAnswer(number, CallOutcome.LOST, problem=text)
    text = "it was not begun within the time that its caller had for it"
    return CallAnswer(number, CallOutcome.REFUSED, problem=text)


def given_up(number: int) -> CallAnswer:
    """Return the answer of a call whose capacity was taken back as often as a call is tried."""
    text = f"harvested capacity on which it ran was taken back before its end, {CALL_TRIES_MAX} times"
    return CallAnswer(number, CallOutcome.FAILED, problem=text)


def lost_too_often(state: RouterState, report: ServerReport) -> Iterator[CallKey]:
    """Yield the calls that are given up with a report: it tells their last loss. Folding the report ends them."""
    member = member_of(report.server, report.place)
    row = state.servers.get(member)
    if row is None or (row.life, state.life) != (report.life, report.router_life):
        return
    for number in dict.fromkeys(one.number for one in report.ended if one.outcome is CallOutcome.LOST):
        if number in row.runs:
            call = state.awaited(row.runs[number][0], member, number)
            if call is not None and not call.call.is_once and call.losses + 1 >= CALL_TRIES_MAX:
                yield call.key
