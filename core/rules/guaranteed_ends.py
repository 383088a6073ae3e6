"""Guaranteed ends: the time by which an attempt certainly holds no capacity, whichever nodes are lost or components restarted.

An attempt is one continuous run. The longest duration counts from the first start, at the latest from `START_SPAN` after the
grant, by the clock of the store that recorded both; a pause of a gang does not stop the count. If no broker orders the stop,
because the broker restarted and counts from then, the store does (`STOP_SLACK`). A lost node ends its attempts; a workload that
is placed again gets another attempt, with a bound of its own from the new grant. An attempt past its bound has shown that the
bound does not hold, so no reservation relies on that attempt.
"""

from core.images.capacity import Holding
from core.nouns.instant import Instant
from core.nouns.limits import END_SLACK, GRACE, PROMISE_SPAN, START_SPAN, STOP_SLACK
from core.nouns.placement import Claim
from core.nouns.workload import Kind


def is_bounded(kind: str, max_duration: int) -> bool:
    """Return whether an attempt certainly ends by itself. A service has no end, even where its tasks do."""
    return max_duration > 0 and kind != Kind.SERVICE


def stops_by(claim: Claim, granted_at: int, started_at: int) -> Instant | None:
    """Return when the store orders an attempt to stop, unless a broker did so before; None: never."""
    if not is_bounded(claim.kind, claim.max_duration):
        return None
    return Instant(_counts_from(granted_at, started_at) + claim.max_duration + STOP_SLACK)


def ends_by(held: Holding, now: Instant) -> Instant | None:
    """Return the time by which an attempt has certainly ended; None: unknown, or past."""
    claim = held.claim
    rest = (claim.grace or GRACE) + END_SLACK
    bounds: list[int] = []
    if held.is_ending:
        bounds.append(held.stopped_at + rest)
    if is_bounded(claim.kind, claim.max_duration):
        bounds.append(_counts_from(held.granted_at, held.started_at) + claim.max_duration + rest)
    bound = min(bounds, default=0)
    return Instant(bound) if bound >= now else None


def newcomer_ends_by(
    kind: str, max_duration: int, grace: int, now: Instant, *, has_victims: bool = False
) -> Instant | None:
    """Return the time by which an attempt granted now, or promised now over victims, has certainly ended; None: unknown."""
    if not is_bounded(kind, max_duration):
        return None
    granted_by = now + (PROMISE_SPAN if has_victims else 0)
    return Instant(granted_by + START_SPAN + max_duration + (grace or GRACE) + END_SLACK)


def _counts_from(granted_at: int, started_at: int) -> int:
    """Return the time from which the longest duration counts: the recorded start, at the latest `START_SPAN` after the grant.

    A start recorded later than that was reported late.
    """
    latest = granted_at + START_SPAN
    return min(started_at, latest) if started_at else latest
