"""When stages of pipelines could begin: a stage that waits for other stages, or for its window, does not wait for its start."""

from core.events.pipelines import PipelineSubmitted
from core.events.queue import AttemptClosed
from core.fact import Fact
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.pipeline import DailyWindow
from core.nouns.workload import Phase


class StagesReady:
    """Told of each fact of the queue."""

    def __init__(self) -> None:
        self.at: dict[WorkloadId, float] = {}
        """Seconds as the witness was told of them, by stage that waits for no other any more."""
        self._waits_for: dict[WorkloadId, set[WorkloadId]] = {}
        """Stages that have not completed, by stage that waits for them."""
        self._windows: dict[WorkloadId, DailyWindow] = {}

    def take(self, fact: Fact, at: float) -> None:
        """A fact that became durable then."""
        match fact.event:
            case PipelineSubmitted(stages=stages):
                for one in stages:
                    if one.begins is not None:
                        self._windows[one.workload] = one.begins
                    if one.after:
                        self._waits_for[one.workload] = {stages[before].workload for before in one.after}
                    else:
                        self._ready(one.workload, fact, at)
            case AttemptClosed(workload=workload, phase=Phase.COMPLETED):
                waiting = [name for name, before in self._waits_for.items() if workload in before]
                for name in waiting:
                    self._waits_for[name].discard(workload)
                    if not self._waits_for[name]:
                        del self._waits_for[name]
                        self._ready(name, fact, at)

    def _ready(self, workload: WorkloadId, fact: Fact, at: float) -> None:
        window = self._windows.pop(workload, None)
        now = Instant(fact.at)
        self.at[workload] = at if window is None else at + (window.begins_from(now) - now) / SECOND
