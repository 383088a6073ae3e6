"""How the size of a min-worker-set follows the shortest sufficient prefix of a function's walk: up at once, down slowly."""

from core.nouns.instant import Instant, Nanoseconds, seconds
from core.routing.policy import MemberSet

SHRINK_INTERVAL: Nanoseconds = seconds(30)
"""Time between two steps down of one set. source: spec/cameo-harvest.md 2.2"""


def resized(
    members: MemberSet | None, home: str, shortest: int, now: Instant, step: int | None = None
) -> MemberSet:
    """Return the set for a shortest sufficient prefix of `shortest` servers; the given set if it stays as it is.

    The size grows at once, shrinks at most once every `SHRINK_INTERVAL`, and takes any value when the home has changed.

    step   servers by which the size shrinks at once, at most; None: to the shortest prefix
    """
    if members is None or members.home != home:
        return MemberSet(home, shortest, now)
    if shortest > members.size:
        return MemberSet(home, shortest, members.shrunk_at)
    if shortest < members.size and now - members.shrunk_at >= SHRINK_INTERVAL:
        return MemberSet(home, shortest if step is None else max(shortest, members.size - step), now)
    return members
