"""Shortest job first, as it is stated: the line of `fifo`, by the time that each job needs where it is fastest."""

from core.sharing.problem import SharingProblem
from runtime.solvers.reference.fifo import WaitingJob, served, waiting


def sjf(problem: SharingProblem) -> list[tuple[int, int]]:
    """Return (class, column) of the jobs that run, in the order in which they were served."""

    def key(job: WaitingJob) -> tuple[float, int]:
        one = problem.classes[job.of]
        within = [
            speed
            for speed, pool in zip(job.speeds, problem.pool_of.tolist(), strict=True)
            if problem.gpus[pool] >= job.gpus
        ]
        return one.steps / max(within), one.order

    return served(problem, sorted(waiting(problem), key=key))
