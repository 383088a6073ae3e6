"""Rule 3 for abandoned regions: no attempt is abandoned without recorded consent, and an abandoned attempt counts no more."""

from core.events.queue import AttemptClosed
from core.events.region import CheckpointCommitted, StopOrdered
from core.fact import Event, Note
from core.images import GlobalImage, RegionImage
from core.images.queue import WorkloadRow
from core.invariants.control import Finding
from core.nouns.ids import RegionName, WorkloadId
from core.nouns.workload import Consent, EndCause, Phase


def was_abandoned(queue: GlobalImage | None, workload: WorkloadId, epoch: int) -> bool:
    """Return whether the attempt was abandoned by consent, and may run beside newer ones."""
    return queue is not None and queue.awards.was_abandoned(workload, epoch)


def check_abandoned(
    event: AttemptClosed, row: WorkloadRow, queue: GlobalImage, regions: dict[RegionName, RegionImage]
) -> list[str]:
    """Return violations of an abandonment: without consent, in a wrong phase, or with a checkpoint that its region never showed."""
    name, found = f"{event.workload}: AttemptClosed of epoch {event.epoch}", []
    agreed = {
        Consent.OPERATOR: event.region in queue.regions.abandoned,
        Consent.WORKLOAD: bool(row.spec.move_after),
    }
    if event.region != row.region or not agreed.get(event.consent, False):
        found.append(f"{name} in {event.region} gives it up, and nobody agreed to that")
    wanted = Phase.CANCELLED if row.is_cancel_requested else Phase.PENDING
    if event.phase != wanted:
        found.append(f"{name} makes it {event.phase}, and it should be {wanted}")
    image = regions.get(event.region)
    attempt = image.attempts.row(event.workload, event.epoch) if image is not None else None
    saved, shown = (event.saved_epoch, event.saved_step), attempt.saved_step if attempt is not None else 0
    is_older = saved == (row.resume_epoch, row.resume_step)
    if image is not None and not is_older and not (saved[0] == event.epoch and 0 < saved[1] <= shown):
        found.append(
            f"{name} keeps step {saved[1]} of epoch {saved[0]}, and {event.region} shows step {shown}"
        )
    return found


def check_stop_of_abandoned(
    event: Event | Note, before: RegionImage, queue: GlobalImage | None
) -> list[Finding]:
    """Return violations by an abandoned attempt's region: a stop before the award is superseded, or a checkpoint after the stop."""
    match event:
        case StopOrdered(cause=EndCause.ABANDONED) if queue is not None:
            is_so = queue.awards.has_superseded(event.workload, event.epoch)
            text = f"{event.workload}.{event.epoch}: stopped as given up, and its award stands"
            return [] if is_so else [(3, text)]
        case CheckpointCommitted():
            row = before.attempts.row(event.workload, event.epoch)
            is_over = row is not None and row.stop_cause == EndCause.ABANDONED
            text = f"{event.workload}.{event.epoch}: saved something after it was given up"
            return [(3, text)] if is_over else []
    return []
