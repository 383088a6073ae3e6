"""Retention: the sweeps by which ended workloads leave the image, a day after their end.

An ended workload is forgotten once its regions have forgotten its attempts (docs/decisions/0009-who-remembers-what-ended.md). If
more have ended than operators let the queue remember, the oldest ends go before their day is over (docs/decisions/0040-ceilings.md).
"""

from collections.abc import Iterator
from itertools import islice

from components.job_queue.regions import is_remembered
from components.job_queue.state.queue_state import QueueState, Swept
from core.component import Decision
from core.events.queue import WorkloadsForgotten
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant, after, earliest
from core.nouns.limits import (
    BLOCKED_INTERVAL,
    FORGET_AGAIN,
    FORGET_INTERVAL,
    FORGOTTEN_AT_ONCE_MAX,
    RETENTION,
)


def sweep_due(state: QueueState) -> Instant | None:
    """Return the time of the next sweep."""
    first = next(_expiries(state), None)
    due = earliest(first[1] if first else None, state.remembered.blocked.due())
    return None if due is None else max(due, state.sweep_at)


def swept(state: QueueState, now: Instant) -> Decision:
    """Return facts that forget ended workloads, after their regions forgot the attempts."""
    rows, blocked = state.image.workloads.rows, state.remembered.blocked
    first = [workload for workload, at in islice(_expiries(state), FORGOTTEN_AT_ONCE_MAX) if at <= now]
    again = blocked.passed(now, FORGOTTEN_AT_ONCE_MAX - len(first))
    known = [workload for workload in (*first, *again) if workload in rows]
    stays = tuple(workload for workload in known if is_remembered(state, workload))
    gone = tuple(workload for workload in known if workload not in set(stays))
    note = Swept(stays, len(first), has_more=len(first) + len(again) == FORGOTTEN_AT_ONCE_MAX)
    return Decision(events=(WorkloadsForgotten(gone), note) if gone else (note,))


def note_swept(state: QueueState, note: Swept, now: Instant) -> None:
    """Fold a sweep."""
    counts = state.remembered
    for _ in range(note.looked_at):
        counts.ended.popleft()
    for workload in note.blocked:
        counts.blocked.put(workload, after(now, BLOCKED_INTERVAL))
    state.sweep_at = after(now, FORGET_AGAIN if note.has_more else FORGET_INTERVAL)


def _expiries(state: QueueState) -> Iterator[tuple[WorkloadId, Instant]]:
    """Yield ended workloads with the time at which each may be forgotten, in order; 0: at once, as it is over the ceiling."""
    rows, counts = state.image.workloads.rows, state.remembered
    over = counts.ended_in_all - state.image.tenants.ranking.remembered_max
    for place, workload in enumerate(counts.ended):
        row = rows.get(workload)
        yield workload, after(Instant(row.ended_at), RETENTION) if row and place >= over else Instant(0)
