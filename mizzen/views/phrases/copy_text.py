"""Copies of data within a sentence."""

from core.messages.copies import FailedCopy
from core.nouns.data import COPY_FAILURES, CopyFailure
from mizzen.views.phrases.durations import short_text


def failure_text(one: FailedCopy) -> str:
    """A copy that failed, and why."""
    known = one.reason in set(CopyFailure)
    why = COPY_FAILURES[CopyFailure(one.reason)] if known else one.reason
    times = "once" if one.times == 1 else f"{one.times} times"
    return f"{one.dataset} to {one.target} failed {times}, {short_text(one.age)} ago ({one.reason}): {why}"
