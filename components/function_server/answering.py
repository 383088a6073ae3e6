"""Answers of calls on their way to callers, so many in one message as messages may have."""

from collections.abc import Iterable, Iterator

from components.function_server.state import CallKey
from core.messages.functions import CallsAnswered
from core.nouns.function import CallAnswer
from core.nouns.function_limits import CALL_BATCH_BYTES, CALLS_AT_ONCE_MAX
from core.nouns.ids import RegionName, TenantName


def messages_of(
    region: RegionName, server: str, answers: Iterable[tuple[CallKey, CallAnswer]]
) -> Iterator[CallsAnswered]:
    """Return the messages that tell callers these answers: one that is larger than messages with several may be goes alone."""
    by_caller: dict[tuple[TenantName, str], list[CallAnswer]] = {}
    for (tenant, caller, _), answer in answers:
        by_caller.setdefault((tenant, caller), []).append(answer)
    for (tenant, caller), mine in by_caller.items():
        for batch in _batches(mine):
            yield CallsAnswered(tenant, caller, region, server, batch)


def _batches(answers: list[CallAnswer]) -> Iterator[tuple[CallAnswer, ...]]:
    begin = size = 0
    for place, answer in enumerate(answers):
        more = len(answer.value) + len(answer.problem)
        is_full = place - begin == CALLS_AT_ONCE_MAX or size + more > CALL_BATCH_BYTES
        if is_full and place > begin:
            yield tuple(answers[begin:place])
            begin, size = place, 0
        size += more
    yield tuple(answers[begin:])
