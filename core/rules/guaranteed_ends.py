"""By when an attempt surely holds nothing any more, whatever is lost or starts anew meanwhile.

An attempt is one continuous run. Its longest duration counts from its first start, and at the latest from `START_SPAN` after its
grant, in the clock of the store that recorded these; it goes on while a gang is paused. If no broker orders the stop, because it
was started anew and counts from then, the store does (`STOP_SLACK`). A node that is lost ends its
attempts, and one that is placed anew is another attempt, judged anew when it is granted. What has passed its own bound has shown
that it does not keep it, so nothing is promised on it.
"""

from core.images.capacity import Holding
from core.nouns.instant import Instant
from core.nouns.limits import END_SLACK, GRACE, PROMISE_SPAN, START_SPAN, STOP_SLACK
from core.nouns.placement import Claim
from core.nouns.workload import Kind


def is_bounded(kind: str, max_duration: int) -> bool:
    """Whether it surely ends by itself. A service goes on for ever, whatever each of its tasks does."""
    return max_duration > 0 and kind != Kind.SERVICE


def stops_by(claim: Claim, granted_at: int, started_at: int) -> Instant | None:
    """When its store orders it to stop, if nobody has; None: never."""
    if not is_bounded(claim.kind, claim.max_duration):
        return None
    return Instant(_counts_from(granted_at, started_at) + claim.max_duration + STOP_SLACK)


def ends_by(held: Holding, now: Instant) -> Instant | None:
    """By when it surely has ended; None: nobody can say."""
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
    """By when what is granted now, or promised now over victims, surely will have ended; None: nobody can say."""
    if not is_bounded(kind, max_duration):
        return None
    granted_by = now + (PROMISE_SPAN if has_victims else 0)
    return Instant(granted_by + START_SPAN + max_duration + (grace or GRACE) + END_SLACK)


def _counts_from(granted_at: int, started_at: int) -> int:
    """A start that is recorded later than it may come was late in being told."""
    latest = granted_at + START_SPAN
    return min(started_at, latest) if started_at else latest
