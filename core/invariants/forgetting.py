"""Rule 3 for what leaves the images: neither log forgets a workload or an attempt that may still come to something."""

from core.events.queue import WorkloadsForgotten
from core.events.region import AttemptsForgotten
from core.fact import Event, Note
from core.images import GlobalImage, RegionImage
from core.images.region import AttemptPhase
from core.invariants.control import Finding

OVER = (AttemptPhase.ENDED, AttemptPhase.DECLINED)
"""Phases in which an attempt may be forgotten."""


def check_forgotten_workloads(event: WorkloadsForgotten, before: GlobalImage) -> list[str]:
    """Return violations by workloads that the queue forgets: each must be known, and in a terminal phase."""
    found = []
    for workload in event.workloads:
        row = before.workloads.rows.get(workload)
        if row is None or not row.phase.is_terminal:
            found.append(f"{workload}: forgotten, and it is {row.phase if row is not None else 'not known'}")
    return found


def check_forgotten_attempts(
    event: Event | Note, before: RegionImage, queue: GlobalImage | None
) -> list[Finding]:
    """Return violations by attempts that a region forgets: each must be over, and superseded in the queue's log, if that is known."""
    if not isinstance(event, AttemptsForgotten):
        return []
    found = []
    for workload, epoch in event.attempts:
        row = before.attempts.row(workload, epoch)
        if row is None or row.phase not in OVER:
            phase = row.phase if row is not None else "not known"
            found.append((3, f"{workload}.{epoch}: forgotten, and it is {phase}"))
        elif queue is not None and not queue.awards.has_superseded(workload, epoch):
            found.append((3, f"{workload}.{epoch}: forgotten, and its award stands"))
    return found
