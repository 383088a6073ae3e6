"""Copies of data within a sentence."""

from core.messages.copies import FailedCopy
from core.nouns.data import COPY_FAILURES, COPY_OBSTACLES, CopyFailure, CopyObstacle
from mizzen.views.phrases.durations import short_text


def failure_text(one: FailedCopy) -> str:
    """A copy that failed, and why."""
    known = one.reason in set(CopyFailure)
    why = COPY_FAILURES[CopyFailure(one.reason)] if known else one.reason
    times = "once" if one.times == 1 else f"{one.times} times"
    return f"{one.dataset} to {one.target} failed {times}, {short_text(one.age)} ago ({one.reason}): {why}"


def obstacle_text(reason: str) -> str:
    """Why no copy is ordered."""
    known = reason in set(CopyObstacle)
    return f"no copy is ordered ({reason}): {COPY_OBSTACLES[CopyObstacle(reason)]}" if known else reason
