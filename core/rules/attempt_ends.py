"""Ends of attempts by a broker's report, which may arrive twice, or long after the report was true."""

from core.images import RegionImage
from core.images.control import AttemptControl, TaskPhase
from core.messages.store import RecordEnd
from core.nouns.operation import WHOLE
from core.nouns.workload import EndCause
from core.rules.operations import missing_tasks
from core.rules.scopes import is_drained


def may_end(image: RegionImage, message: RecordEnd) -> bool:
    """Return whether the report concerns the attempt's present run, and a cause that still holds: no drain that was lifted."""
    key = (message.workload, message.epoch)
    attempt, held, control = image.attempts.row(*key), image.capacity.holding(*key), image.control.row(*key)
    if attempt is None or not attempt.phase.is_live or held is None:
        return False
    if message.cause is EndCause.ABANDONED and attempt.stop_cause != EndCause.ABANDONED:
        return False  # The store itself stops the attempts of an abandoned region.
    whole = control.tasks.get(WHOLE) if control is not None else None
    if message.run != (whole.run if whole is not None else 0):
        return False
    if attempt.stop_cause or control is None:
        return True
    if whole is None:
        return message.cause is not EndCause.COMPLETED or is_completed(control)
    if whole.phase is TaskPhase.GONE and message.cause is EndCause.DRAINED:
        nodes = (node for spread in held.claim.spreads for node in spread.nodes)
        return any(is_drained(image.capacity, node) for node in nodes)
    return True


def is_completed(control: AttemptControl) -> bool:
    """Return whether each independent task has completed; tasks that were not placed yet have not."""
    are_done = all(
        task.phase is TaskPhase.GONE and task.cause == EndCause.COMPLETED for task in control.tasks.values()
    )
    return are_done and not missing_tasks(control)
