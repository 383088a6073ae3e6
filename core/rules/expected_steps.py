"""How many steps a job of a shared pool is taken to have that told none: some policies order jobs by the steps that are left."""

from core.images.history import History
from core.images.sharing import UNKNOWN_SPEED, Sharing
from core.nouns.ids import WorkloadId
from core.nouns.instant import SECOND, Nanoseconds
from core.nouns.sharing import MICRO_STEPS


def expected_steps(sharing: Sharing, history: History) -> dict[WorkloadId, int]:
    """Return the steps of each job that told none: those of its predicted run time (core/estimating/prediction.py) at its highest known speed."""
    return {
        workload: steps_in(sharing, workload, history.live[workload].prediction.duration)
        for workload, job in sharing.jobs.items()
        if not job.steps and workload in history.live
    }


def steps_in(sharing: Sharing, workload: WorkloadId, duration: Nanoseconds) -> int:
    """Return the steps that a job makes in a span at its highest known speed, one at least."""
    speeds = sharing.speeds_of(sharing.jobs[workload].kind)
    fastest = max(speeds.values(), default=round(UNKNOWN_SPEED * MICRO_STEPS))
    return max(1, duration * fastest // (MICRO_STEPS * SECOND))
