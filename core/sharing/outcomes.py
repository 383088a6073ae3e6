"""The result of a replay: what became of each job, and the figures by which policies and mechanisms are compared."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from core.sharing.jobs import SharingJob

HOUR = 3_600.0


class Outcome(Struct, frozen=True):
    """A job that completed."""

    job: SharingJob
    started: float
    """Seconds from the begin of the trace, as the next."""
    completed: float
    moves: int
    """Starts after the first: on other GPUs than in the round before, or after a wait."""
    gpu_seconds: dict[str, float]
    """By GPU type; two jobs that share GPUs are charged half each."""
    cost: float
    """Dollars."""
    isolated_seconds: float
    """How long the job's steps would have taken on an equal part of the fleet, given the jobs that were there at each time."""

    @property
    def completion_seconds(self) -> float:
        """Return the time from submission to completion."""
        return self.completed - self.job.arrival

    @property
    def is_late(self) -> bool:
        """Return whether a promise to complete by a time was not kept."""
        return 0 < self.job.within < self.completion_seconds


class Played(Struct, frozen=True):
    """A whole replay."""

    outcomes: tuple[Outcome, ...]
    """By completion."""
    begun: float
    ended: float
    gpus: int
    busy_gpu_seconds: float
    leases: int
    """Jobs that ran at the end of a round and had steps left, summed over rounds."""
    extended: int
    """Those that kept their GPUs in the next round."""
    rounds: int
    solved: int
    """How often shares were computed."""
    phantom_gpu_rounds: float
    """GPUs that stayed idle for a round though a job waited that could run there, summed over rounds; by the published mechanism, GPUs
    kept for jobs that have no shares yet."""


class Summary(Struct, frozen=True):
    """The figures of a replay."""

    jobs: int
    mean_hours: float
    """From submission to completion, as the next two."""
    p50_hours: float
    p99_hours: float
    """The next higher of the times there are, as the published figures have it: of fewer than 100 jobs, the longest."""
    makespan_hours: float
    """From the first submission to the last completion."""
    utilisation: float
    """The part of all GPU-seconds in which a job ran."""
    lease_share: float
    """The part of leases that were extended; 1 where there were none."""
    moves: int
    cost: float
    """Dollars."""
    fairness_worst: float
    """Finish-time fairness: the largest completion time relative to the job's isolated completion time."""
    fairness_mean: float
    promises: int
    """Jobs that were promised to complete within a time."""
    late: tuple[str, ...]
    """The ids of those whose promise was not kept, by arrival."""


def summary_of(played: Played, measured: Sequence[str] = ()) -> Summary:
    """Return the figures of the jobs with these ids; of none named, of all. The makespan, leases and use are of the whole replay."""
    chosen = frozenset(measured)
    mine = [one for one in played.outcomes if not chosen or one.job.id in chosen]
    hours = np.array([one.completion_seconds for one in mine]) / HOUR
    if not mine:
        hours = np.zeros(1)
    unfair = [one.completion_seconds / one.isolated_seconds for one in mine if one.isolated_seconds > 0]
    span = played.ended - played.begun
    return Summary(
        jobs=len(mine),
        mean_hours=float(hours.mean()),
        p50_hours=float(np.percentile(hours, 50)),
        p99_hours=float(np.percentile(hours, 99, method="higher")),
        makespan_hours=span / HOUR,
        utilisation=played.busy_gpu_seconds / (played.gpus * span) if span else 0.0,
        lease_share=played.extended / played.leases if played.leases else 1.0,
        moves=sum(one.moves for one in mine),
        cost=sum(one.cost for one in mine),
        fairness_worst=max(unfair, default=0.0),
        fairness_mean=sum(unfair) / len(unfair) if unfair else 0.0,
        promises=sum(one.job.within > 0 for one in mine),
        late=tuple(one.job.id for one in sorted(mine, key=lambda one: one.job.arrival) if one.is_late),
    )
