"""Deadlines of pipelines: when each is looked at next and why, and the windows in which stages may begin."""

from core.agenda import Agenda
from core.fact import Note
from core.nouns.ids import PipelineId, WorkloadId
from core.nouns.instant import Instant, earliest
from core.nouns.pipeline import Cause


class PipelineLooked(Note, frozen=True):
    """A pipeline was looked at; the next look is due at `again_at`, or at the next event of a stage."""

    pipeline: PipelineId
    again_at: Instant | None
    is_done: bool = True
    """False: the look led to other facts first, and is repeated after these, with the same cause."""


class WindowTurned(Note, frozen=True):
    """The window of a stage has opened or closed; `again_at` is the next turn."""

    workload: WorkloadId
    is_open: bool
    again_at: Instant


class PipelineLooks:
    """When pipelines and windows are due for a look."""

    def __init__(self) -> None:
        self.due: Agenda[PipelineId] = Agenda()
        self.causes: dict[PipelineId, tuple[Cause, WorkloadId]] = {}
        """The first event of a stage since the last look; none: time has passed."""
        self.windows: Agenda[WorkloadId] = Agenda()
        """Stages that wait for windows alone, by the next time at which the window opens or closes."""
        self.open: dict[WorkloadId, None] = {}
        """Stages of which the window is open."""

    def next_at(self) -> Instant | None:
        """Return the time of the next look of any kind."""
        return earliest(self.due.due(), self.windows.due())

    def look(self, pipeline: PipelineId, at: Instant, cause: Cause, workload: WorkloadId) -> None:
        """Have a pipeline looked at because of an event of a stage."""
        self.due.put(pipeline, at)
        self.causes.setdefault(pipeline, (cause, workload))

    def forget(self, pipeline: PipelineId) -> None:
        """Look at a pipeline no more."""
        self.due.drop(pipeline)
        self.causes.pop(pipeline, None)

    def forget_window(self, workload: WorkloadId) -> None:
        """Follow the window of a stage no more."""
        self.windows.drop(workload)
        self.open.pop(workload, None)
