"""The newest checkpoints of shared work, and the average speeds that they show."""

from collections.abc import Container

from msgspec import Struct

from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Instant, Nanoseconds
from core.nouns.limits import NEED_MAX
from core.nouns.sharing import MICRO_STEPS

SPEEDS_AVERAGED = 4
"""A new speed counts for one part of so many of the moving average."""


class SpeedKey(Struct, frozen=True, order=True):
    """Jobs of which one's speed tells those of all (core/sharing/classes.py), on a GPU type."""

    jobs: str
    gpu_type: str
    beside: str = ""
    """The key of the jobs on the same GPU; empty: they run alone."""


class Mark(Struct, frozen=True):
    """A checkpoint from which the next speed is measured."""

    epoch: int
    step: int
    at: Instant
    """By the region's clock."""
    beside: str = ""
    """The job on the same GPU at that time, and its attempt; empty: none."""


class SpeedMeter:
    """Measures speeds from checkpoints."""

    def __init__(self) -> None:
        self.averages: dict[SpeedKey, int] = {}
        """Millionths of a step in a second."""
        self.differing: dict[SpeedKey, Instant] = {}
        """The averages that differ from the speeds that are known, and since when."""
        self.recorded: dict[SpeedKey, int] = {}
        """The number of the round in which each was recorded last."""
        self._marks: dict[WorkloadId, Mark] = {}

    def saved(self, workload: WorkloadId, mark: Mark, span_min: Nanoseconds) -> int:
        """Return the speed since an earlier checkpoint of the attempt, at least `span_min` before, in millionths of a step in a second.

        0: there was none, or the speed is no number that a fact can hold.
        """
        before = self._marks.get(workload)
        if before is None or (before.epoch, before.beside) != (mark.epoch, mark.beside):
            self._marks[workload] = mark
            return 0
        span = mark.at - before.at
        if span < max(1, span_min):
            return 0
        self._marks[workload] = mark
        speed = (mark.step - before.step) * MICRO_STEPS * SECOND // span
        return speed if 0 < speed <= NEED_MAX else 0

    def average(self, key: SpeedKey, speed: int, measured: int) -> int:
        """Return the moving average with a new speed in it. It begins with the speed that was measured before; 0: none was."""
        average = self.averages.get(key, measured) or speed
        average += (speed - average) // SPEEDS_AVERAGED
        self.averages[key] = average
        return average

    def keep(self, jobs: Container[str]) -> None:
        """Forget averages of all other jobs, but for those that are to be recorded: a later job begins with what was recorded."""
        self.averages = {
            key: average
            for key, average in self.averages.items()
            if key.jobs in jobs or key in self.differing
        }
        self.recorded = {key: number for key, number in self.recorded.items() if key in self.averages}

    def forget(self, workload: WorkloadId) -> None:
        """Forget the checkpoint of an attempt that is over."""
        self._marks.pop(workload, None)
