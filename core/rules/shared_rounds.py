"""A round of shared pools, chosen from the queue's image: by the queue when a round begins, and once more where a choice is explained."""

from collections.abc import Container, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.images.sharing import Sharing
from core.nouns.ids import WorkloadId
from core.nouns.instant import Instant
from core.nouns.sharing import BESIDE, ISOLATED, WHOLE, ShareColumn, place_name
from core.rules.shared_pools import CanRun, Pooled, anywhere, problem_of
from core.sharing.accounts import ROUND, Place
from core.sharing.policies import POLICIES
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
        name = place_name(self._names[place.column], place.beside)
        return self._lags.get(job, {}).get(name, 0) / ROUND

    def overdue(self, job: str) -> int | None:
        """Return since which round an overdue job waits."""
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
    """Return the scene of a choice, with the shares that hold.

    columns   GPUs by column, in the order of the problem's
    kept      GPUs by name of a column that no choice can give away
    """
    left = (gpus - kept.get(column.name, 0) for column, gpus in columns.items())
    problem = replace(pooled.problem, gpus=tuple(max(0, gpus) for gpus in left))
    index = {column.name: place for place, column in enumerate(columns)}
    runs_there = problem.speeds > 0
    beside = {one.name for one in problem.classes}
    targets: dict[str, dict[Place, float]] = {}
    for number, members in enumerate(pooled.members):
        mine: dict[Place, float] = {}
        for name, share in sharing.targets_of(members[0]).items():
            column, _, other = name.partition(BESIDE)
            # Shares in a column that does not take the class now, or beside a class that is not there, are nobody's.
            if (
                share
                and column in index
                and runs_there[number, index[column]]
                and (not other or other in beside)
            ):
                mine[Place(index[column], other)] = share / WHOLE
        targets |= dict.fromkeys(members, mine)
    span = sharing.settings.round_span
    pauses = [sharing.pause_of(sharing.jobs[members[0]].kind) / span for members in pooled.members]
    present = Present(problem, pooled.members, pauses=pauses)
    present.targets = targets
    runs = [
        Run((job, pick.beside) if pick.beside in present.class_of else (job,), index[pick.column])
        for job, pick in sharing.picks.items()
        if job in present.class_of and pick.column in index and not pick.is_guest
    ]
    runs += [
        Run((job,), index[pick.column])
        for job, pick in sharing.picks.items()
        if job in present.class_of
        and pick.column in index
        and pick.is_guest
        and pick.beside not in present.class_of
    ]
    return Scene(tuple(columns), present, runs)


def owed_at(
    sharing: Sharing, scene: Scene, number: int, at: Instant, resting: Container[WorkloadId]
) -> Ahead:
    """Return what jobs are owed once a round has begun, in which some rest."""
    ahead = sharing.at_round(number, at, resting)
    return Ahead(ahead.lags, ahead.overdue, scene.columns)


def next_round_at(sharing: Sharing) -> Instant:
    """Return when the next round begins."""
    return Instant((sharing.number + 1) * sharing.settings.round_span)


def choice_of(sharing: Sharing, scene: Scene, owed: Ahead) -> list[Run]:
    """Return the runs of a round that begins."""
    return chosen(scene.present, owed, scene.runs, sharing.settings.stay / ROUND)


class Changes(Struct, frozen=True):
    """What changes when a round begins; jobs in none of these stay where they are."""

    joins: dict[WorkloadId, int]
    """The column, by place in the scene, of each that is to run there anew."""
    leaves: tuple[WorkloadId, ...]
    """Jobs that leave a column; those that join one too go on there."""
    beside: dict[WorkloadId, WorkloadId]
    """Of those that join, the jobs that come to the GPU of another."""


def changes_of(sharing: Sharing, scene: Scene, runs: Sequence[Run]) -> Changes:
    """Return how jobs come to these runs from where they are picked now, so that as few as can be leave their GPU.

    Of two that shared one and do not any more, the one that came to it last leaves. Of two that are to share one, the job that is in
    the column already stays, and the other comes to it.
    """
    column_of = {job: run.column for run in runs for job in run.jobs}
    names, picks = [column.name for column in scene.columns], sharing.picks

    def is_there(job: WorkloadId) -> bool:
        return job in column_of and job in picks and picks[job].column == names[column_of[job]]

    def keeps_gpu(job: WorkloadId) -> bool:
        return is_there(job) and not (picks[job].is_guest and is_there(picks[job].beside))

    joins: dict[WorkloadId, int] = {}
    beside: dict[WorkloadId, WorkloadId] = {}
    for run in runs:
        first, *others = map(WorkloadId, run.jobs)
        if not others:
            if not keeps_gpu(first):
                joins[first] = run.column
            continue
        (second,) = others
        if is_there(first) and is_there(second) and picks[first].beside == second:
            continue
        host, guest = (first, second) if keeps_gpu(first) or not keeps_gpu(second) else (second, first)
        if not keeps_gpu(host):
            joins[host] = run.column
        joins[guest], beside[guest] = run.column, host
    return Changes(joins, tuple(job for job in picks if job not in column_of or job in joins), beside)
