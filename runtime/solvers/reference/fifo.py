"""First come, first served, as it is stated: a line of jobs, and a heap of free GPUs of each pool."""

from collections.abc import Iterable

from msgspec import Struct

from core.sharing.problem import SharingProblem


class WaitingJob(Struct, frozen=True):
    """A job in the line."""

    of: int
    """Its class."""
    gpus: int
    speeds: tuple[float, ...]
    """(columns,) steps a second; 0: it does not run there."""


def fifo(problem: SharingProblem) -> list[tuple[int, int]]:
    """Return (class, column) of the jobs that run, in the order in which they were served."""
    jobs = waiting(problem)
    return served(problem, sorted(jobs, key=lambda job: problem.classes[job.of].order))


def waiting(problem: SharingProblem) -> list[WaitingJob]:
    """Return every job; those of one class are alike."""
    return [
        WaitingJob(index, one.gpus, tuple(problem.speeds[index].tolist()))
        for index, one in enumerate(problem.classes)
        for _ in range(one.count)
    ]


def served(problem: SharingProblem, line: Iterable[WaitingJob]) -> list[tuple[int, int]]:
    """Serve the line until a job fits nowhere."""
    runs: list[tuple[int, int]] = []
    free = dict(enumerate(problem.gpus))
    for job in line:
        choices = {
            column: speed
            for column, speed in enumerate(job.speeds)
            if speed > 0 and free[int(problem.pool_of[column])] >= job.gpus
        }
        if not choices:
            return runs
        column = max(choices, key=lambda one: (choices[one], -one))
        free[int(problem.pool_of[column])] -= job.gpus
        runs.append((job.of, column))
    return runs
