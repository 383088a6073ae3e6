"""Turns that the gangs of a run took in a shared pool, from the queue's log: what each received, of what it was owed.

Counted is the time in which all gangs were there: from the first round that begins after the last was submitted, until the first of
them has ended. In each round a gang is owed its share of the round, as the log has the shares when the round begins.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from core.events.queue import AttemptClosed, WorkloadBound
from core.events.sharing import RoundBegun
from core.fact import Fact
from core.images import GlobalImage, empty_image
from core.nouns.ids import GLOBAL_LOG, WorkloadId
from core.nouns.instant import SECOND
from core.nouns.sharing import WHOLE
from scenarios.play.live_gangs import GangLook


class TurnsOf(Struct, frozen=True):
    """One gang."""

    name: str
    workload: WorkloadId
    attempts: int
    """That ran."""
    received_seconds: float
    """While all were there, as the next."""
    owed_seconds: float
    received_part: float
    """Of what all received together."""
    owed_part: float
    """Of what all were owed together."""
    steps_lost: int
    """That it made, and had to make again."""
    resumed_at: list[int]
    """The steps at which it went on."""

    @property
    def share_error(self) -> float:
        """Return by how much its part is not what it was owed, of what it was owed."""
        return abs(self.received_part / self.owed_part - 1) if self.owed_part else 1.0


class _Received(Struct):
    owed: float = 0.0
    received: float = 0.0
    attempts: int = 0
    since: int = 0
    """When it started; 0: it does not run."""


def turns_of(facts: Iterable[Fact], gangs: Mapping[WorkloadId, GangLook]) -> list[TurnsOf]:
    """Return the turns of these gangs, from all facts of the queue's log; none, where one of them was in no shared pool."""
    image = empty_image(GLOBAL_LOG, ("sharing",))
    assert isinstance(image, GlobalImage)
    rows = {workload: _Received() for workload in gangs}
    begun = counted = 0
    """When counting began, and up to when all is counted; 0: not yet."""
    targets: dict[WorkloadId, float] = {}
    is_over = not gangs
    for fact in facts:
        if begun and not is_over:
            for workload, row in rows.items():
                row.owed += targets.get(workload, 0.0) * (fact.at - counted)
                row.received += fact.at - counted if row.since else 0
            counted = fact.at
        image.fold(fact)
        event = fact.event
        match event:
            case WorkloadBound(workload=workload) if workload in rows:
                rows[workload].since = fact.at
                rows[workload].attempts += 1
            case AttemptClosed(workload=workload, phase=phase) if workload in rows:
                rows[workload].since = 0
                is_over |= phase.is_terminal
            case RoundBegun() if all(workload in image.sharing.jobs for workload in gangs):
                targets = {
                    workload: sum(image.sharing.targets_of(workload).values()) / WHOLE for workload in gangs
                }
                if not begun:
                    begun = counted = fact.at
    owed, received = (sum(getattr(row, name) for row in rows.values()) for name in ("owed", "received"))
    if not owed or not received:
        return []
    return [
        TurnsOf(
            gangs[workload].name,
            workload,
            row.attempts,
            round(row.received / SECOND, 3),
            round(row.owed / SECOND, 3),
            row.received / received,
            row.owed / owed,
            gangs[workload].steps_lost,
            list(gangs[workload].resumed.values()),
        )
        for workload, row in rows.items()
    ]
