"""A round of shared pools, chosen from the queue's image: by the queue when a round begins, and once more where a choice is explained."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from core.images.sharing import Sharing
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.sharing import ISOLATED, ShareColumn
from core.rules.shared_pools import CanRun, Pooled, anywhere, problem_of
from core.sharing.accounts import ROUND, Place
from core.sharing.policies import POLICIES
from core.sharing.problem import Shares
from core.sharing.rounds import Present, Run, chosen

NOTHING_KEPT: Mapping[str, int] = {}


class Scene(Struct, frozen=True):
    """What a choice reads: the jobs that may run, and the columns where they may."""

    columns: tuple[ShareColumn, ...]
    present: Present
    runs: list[Run]
    """Of the jobs that are picked now."""


class Ahead:
    """What jobs are owed at the begin of a round, by place in the scene."""

    def __init__(
        self,
        lags: Mapping[str, Mapping[str, int]],
        overdue: Mapping[str, int],
        columns: tuple[ShareColumn, ...],
    ) -> None:
        """With lags in millionths of a round by job and name of column, and since which round jobs are overdue."""
        self._lags, self._overdue = lags, overdue
        self._names = [column.name for column in columns]

    def lag(self, job: str, place: Place) -> float:
        """Return the rounds owed less those received."""
        return self._lags.get(job, {}).get(self._names[place.column], 0) / ROUND

    def overdue(self, job: str) -> int | None:
        """Return since which round the job waits, if it is overdue."""
        return self._overdue.get(job)


def pooled_of(
    sharing: Sharing,
    columns: Mapping[ShareColumn, int],
    jobs: Sequence[WorkloadId],
    now: Instant,
    can_run: CanRun = anywhere,
) -> Pooled:
    """Return the problem of the jobs that may be picked, by class, or by job where the shares that hold are by job.

    columns   GPUs by column
    """
    policy = sharing.policy
    is_by_job = policy != ISOLATED and (policy not in POLICIES or POLICIES[policy].is_by_job)
    return problem_of(
        sharing, columns, tuple(jobs), now, is_by_job=is_by_job and bool(policy), can_run=can_run
    )


def scene_of(
    sharing: Sharing,
    columns: Mapping[ShareColumn, int],
    pooled: Pooled,
    kept: Mapping[str, int] = NOTHING_KEPT,
) -> Scene:
    """Return what a choice reads, with the shares that hold.

    columns   GPUs by column, in the order of the problem's
    kept      GPUs by name of a column that no choice can give away
    """
    left = (gpus - kept.get(column.name, 0) for column, gpus in columns.items())
    problem = replace(pooled.problem, gpus=tuple(max(0, gpus) for gpus in left))
    index = {column.name: place for place, column in enumerate(columns)}
    alone = np.zeros((len(problem.classes), len(columns)), dtype=np.int64)
    for number, members in enumerate(pooled.members):
        for name, share in sharing.targets_of(members[0]).items():
            if name in index:
                alone[number, index[name]] = share
    alone[problem.speeds <= 0] = 0  # Shares in a column that does not take the class now are nobody's.
    span = sharing.settings.round_span
    pauses = [sharing.pause_of(sharing.jobs[members[0]].kind) / span for members in pooled.members]
    present = Present(problem, pooled.members, Shares(alone, problem.none_together), pauses)
    runs = [
        Run((job,), index[pick.column])
        for job, pick in sharing.picks.items()
        if job in present.class_of and pick.column in index
    ]
    return Scene(tuple(columns), present, runs)


def owed_at(sharing: Sharing, scene: Scene, number: int, at: Instant) -> Ahead:
    """Return what jobs are owed once a round has begun."""
    ahead = sharing.at_round(number, at)
    return Ahead(ahead.lags, ahead.overdue, scene.columns)


def next_round_at(sharing: Sharing) -> Instant:
    """Return when the next round begins."""
    return Instant((sharing.number + 1) * sharing.settings.round_span)


def choice_of(sharing: Sharing, scene: Scene, owed: Ahead) -> list[Run]:
    """Return the runs of a round that begins."""
    return chosen(scene.present, owed, scene.runs, sharing.settings.stay / ROUND)
