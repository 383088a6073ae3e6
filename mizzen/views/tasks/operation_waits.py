"""What an operation waits for, in words: a controller, a checkpoint, a window, others of its job, room, or its own end."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from core.images import RegionImage
from core.images.control import AttemptControl, OperationRow, TaskPhase
from core.messages.control import ControllerShown
from core.nouns.instant import Instant
from core.nouns.limits import CONTROL_SILENCE_MAX
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import WHOLE, Answer, OperationKind, OperationPhase, job_and_rank
from core.rules.operations import returns_here
from core.rules.scopes import is_drained
from mizzen.views.phrases.durations import short_text

Controllers = Mapping[tuple[str, str], ControllerShown]
"""By tenant and name; those of whom nothing is known are not in it."""


class Wait(Struct, frozen=True):
    """What an operation waits for."""

    code: str
    """One word, for programs: as whoever empties nodes is told, where it is the same (leaving.py)."""
    text: str
    """What follows `it waits for`."""
    is_unreachable: bool = False
    """Whether it is a controller that does not answer."""


def left_of(operation: OperationRow, now: Instant) -> int:
    """Nanoseconds until it begins unasked, one at least; 0: it never does, or has begun."""
    waits = operation.phase in (OperationPhase.ASKED, OperationPhase.ACKED)
    is_left_alone = operation.phase is OperationPhase.ACKED and operation.answer is Answer.IGNORE
    if not operation.deadline or not waits or is_left_alone:
        return 0
    return max(1, operation.requested_at + operation.deadline - now)


def is_unreachable(shown: ControllerShown, asked_for: int) -> bool:
    """Whether a controller that is asked for so long already says nothing, to nobody."""
    is_silent = shown.heard_ago < 0 or shown.heard_ago > CONTROL_SILENCE_MAX
    return is_silent and asked_for > CONTROL_SILENCE_MAX


class Waits:
    """Of one attempt's live operations. What is the same for all of them is looked up once."""

    def __init__(
        self, row: AttemptControl, image: RegionImage, now: Instant, controllers: Controllers
    ) -> None:
        """`now` is on the keeper's clock, as well as can be told."""
        self._row, self._image, self._now, self._controllers = row, image, now, controllers
        self._down = Counter(job_and_rank(task)[0] for task in row.unavailable())

    def of(self, operation: OperationRow) -> Wait:
        """What one of them waits for."""
        if operation.phase is OperationPhase.BEGUN:
            return self._begun(operation)
        wait: Wait | None = None
        if operation.phase is OperationPhase.ACKED:
            wait = self._acked(operation)
        elif self._row.spec.controller:
            wait = self._asked(operation)
        wait = wait or self._agreed(operation)
        left = left_of(operation, self._now)
        return replace(wait, text=f"{wait.text}, for {short_text(left)} at the most") if left else wait

    def _asked(self, operation: OperationRow) -> Wait:
        name = self._row.spec.controller
        text = f"the word of controller {name}"
        shown = self._controllers.get((self._row.tenant, name))
        if shown is None or not is_unreachable(shown, self._now - operation.requested_at):
            return Wait("controller", text)
        ago = f"last heard {short_text(shown.heard_ago)} ago" if shown.heard_ago >= 0 else "never heard"
        return Wait("controller", f"{text}, which is unreachable ({ago})", is_unreachable=True)

    def _acked(self, operation: OperationRow) -> Wait | None:
        if operation.answer is Answer.IGNORE:
            return Wait("stays", "nothing: its controller wants it to be left alone")
        left = operation.acked_at + operation.within - self._now if operation.within else 0
        if operation.after_step >= 0 and self._row.saved_step <= operation.after_step:
            more = f", or {short_text(left)} to pass" if left > 0 else ""
            return Wait("checkpoint", f"a checkpoint after step {operation.after_step}{more}")
        if left > 0:
            return Wait("time", f"{short_text(left)} to pass, which its controller asked for")
        planned = self._image.maintenance.rows.get(operation.source)
        if operation.answer is not Answer.STOP_AND_RETURN or planned is None:
            return None
        if planned.phase is MaintenancePhase.OPEN:
            return None
        opens = short_text(planned.starts_at - self._now)
        return Wait("window", f"the window of {operation.source}, which opens in {opens}")

    def _agreed(self, operation: OperationRow) -> Wait:
        """Nobody need agree any more, and it has not begun."""
        row = self._row
        if self._image.destruction.is_told(operation.requester, self._now):
            return Wait("budget", f"the budget of stops a minute, which {operation.requester} has used up")
        task = row.tasks.get(operation.task)
        if row.stands_alone and operation.kind.stops and task is not None and task.phase is TaskPhase.UP:
            job, _ = job_and_rank(operation.task)
            most = row.spec.unavailable_limit(row.jobs[job].tasks)
            if self._down[job] >= most:
                return Wait("limit", f"others of its job, of which {most} may be down at once")
        return Wait("turn", "its turn, which is next")

    def _begun(self, operation: OperationRow) -> Wait:
        task = self._row.tasks.get(operation.task)
        is_gang = operation.task == WHOLE
        if is_gang and self._row.stands_alone:
            return Wait("stopping", "all its tasks to stop")
        if task is None or task.phase in (TaskPhase.DOWN, TaskPhase.UP):
            return Wait("stopping", "its gang to stop" if is_gang else "its run to stop")
        if task.phase is TaskPhase.STARTING:
            return Wait("start", "its gang to come up" if is_gang else "its new run to come up")
        comes_back = operation.answer is Answer.STOP_AND_RETURN and "capacity" in self._image.sections
        if comes_back and task.node >= 0 and is_drained(self._image.capacity, task.node):
            return Wait("room", "capacity on another node: its own is drained")
        if operation.answer is Answer.STOP_AND_RETURN and operation.source in self._image.maintenance.rows:
            return Wait("return", f"the end of {operation.source}, after which it starts there again")
        if returns_here(operation) or (operation.kind is OperationKind.START and task.node >= 0):
            return Wait("node", "its node, on which it starts again")
        return Wait("room", "capacity on another node" if task.node >= 0 else "capacity on a node")
