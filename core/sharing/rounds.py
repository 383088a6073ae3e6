"""Which job runs where in the next round, so that over time each job receives its shares.

1. Targets, in one queue over all columns: first the jobs that are overdue, the longest waiting first; then by lag, with `STAY` rounds
   more where the job runs; then by target, then by id. A job with a target beside another class stands in the queue with the lag of
   the best partner added to its own, for both use the same GPUs; at its turn it runs with the best partner that is left. A job that
   does not fit is passed over.
2. A job that was passed over takes the GPUs of a job that can go to another of its columns, if the sum of their lags is more then.
3. Idle GPUs go to the jobs that are left, by speed relative to the job's best. This is done between rounds too, when a job ends or
   arrives, and stops none.

No job starves. Each round begins with all GPUs free, so of the jobs that are overdue in a pool the first always fits. So a job with
targets that sum to x starts within 1 / x rounds until it is owed a round, `PATIENCE` rounds until it is overdue, and one round for each
job that was overdue before it; where gangs do not pack, x is smaller by the part that is not delivered.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Protocol

from msgspec import Struct

from core.sharing.accounts import Place, Targets
from core.sharing.problem import MILLIONTHS, Shares, SharingProblem

STAY = 2.0
"""Rounds of lag by which a job is preferred where it runs, because a move costs a checkpoint and a restore. At 60 s a move, 2 rounds
brought the makespan of a trace of 100 jobs from 20.9 to 18.6 h; one-GPU jobs fell 4.5 rounds behind at most where they fell 2.7."""


class Owed(Protocol):
    """What a round reads of the accounts (core/sharing/accounts.py)."""

    def lag(self, job: str, place: Place) -> float:
        """Return the rounds owed less those received."""

    def overdue(self, job: str) -> int | None:
        """Return since which round the job waits, if it is overdue."""


class Run(Struct, frozen=True):
    """A job, or two that share the same GPUs, at work in a column."""

    jobs: tuple[str, ...]
    column: int


class Present:
    """The jobs that are there and their targets: all that a round reads of a problem, in the form in which it does."""

    def __init__(
        self,
        problem: SharingProblem,
        members: Sequence[Sequence[str]],
        shares: Shares | None = None,
        pauses: Sequence[float] = (),
    ) -> None:
        """With the ids of the jobs of each class; without shares, no job has a target.

        pauses   (classes,) rounds for which a job does not run when it moves: it is preferred by these too where it runs
        """
        self._pauses = pauses
        self.problem = problem
        self.members = members
        self.names = [one.name for one in problem.classes]
        self.class_of = {job: number for number, jobs in enumerate(members) for job in jobs}
        self.by_name = dict(zip(self.names, members, strict=True))
        self.pool_of: list[int] = problem.pool_of.tolist()
        self._widths = [one.gpus for one in problem.classes]
        self._pairs = {(pair.first, pair.second): pair for pair in problem.pairs}
        self.fastest: list[list[tuple[float, int]]] = []
        """By class, (-speed relative to the best, column) of the columns where it runs, fastest first."""
        for row in (problem.speeds * problem.runs).tolist():
            best = max(row)
            self.fastest.append(
                sorted((-speed / best, column) for column, speed in enumerate(row) if speed > 0)
            )
        self.targets: Targets = {} if shares is None else self._targets(shares)

    def _targets(self, shares: Shares) -> Targets:
        """Return the targets of all jobs: the shares of a pair of classes are divided evenly among the members of each."""
        by_class: list[dict[Place, float]] = [
            {Place(column): share for column, share in enumerate(row) if share > 0}
            for row in (shares.alone / MILLIONTHS).tolist()
        ]
        for pair, row in zip(self.problem.pairs, (shares.together / MILLIONTHS).tolist(), strict=True):
            for column, share in enumerate(row):
                if share > 0:
                    for mine, other in ((pair.first, pair.second), (pair.second, pair.first)):
                        place = Place(column, self.names[other])
                        each = share / self.problem.classes[mine].count
                        by_class[mine][place] = by_class[mine].get(place, 0.0) + each
        return {job: by_class[index] for index, jobs in enumerate(self.members) for job in jobs}

    def width(self, job: str) -> int:
        """Return the GPUs of the job."""
        return self._widths[self.class_of[job]]

    def pause(self, job: str) -> float:
        """Return the rounds that a move costs the job, as far as they are known."""
        return self._pauses[self.class_of[job]] if self._pauses else 0.0

    def place(self, run: Run, job: str) -> Place:
        """Return the place of a job in a run."""
        for other in run.jobs:
            if other != job:
                return Place(run.column, self.names[self.class_of[other]])
        return Place(run.column)

    def speed(self, run: Run, job: str) -> float:
        """Return the steps a second of a job in a run."""
        mine = self.class_of[job]
        for one in run.jobs:
            if one != job:
                other = self.class_of[one]
                if (mine, other) in self._pairs:
                    return float(self._pairs[mine, other].speeds[0, run.column])
                return float(self._pairs[other, mine].speeds[1, run.column])
        return float(self.problem.speeds[mine, run.column])

    def room(self, runs: Iterable[Run]) -> list[int]:
        """Return the GPUs that the runs leave idle, by pool."""
        left = list(self.problem.gpus)
        for run in runs:
            left[self.pool_of[run.column]] -= self.width(run.jobs[0])
        return left


class _Entry(Struct, frozen=True, order=True):
    """A job in the queue for a place; the least is served first."""

    waits_since: float
    """The number of a round; infinite unless the job is overdue."""
    minus_lag: float
    minus_target: float
    job: str
    place: Place


def chosen(
    present: Present, accounts: Owed, running: Sequence[Run] = (), stay: float = STAY, *, fills: bool = True
) -> list[Run]:
    """Return the runs of the next round.

    accounts   the targets are owed for this round already
    running    the runs of the round before, without the jobs that ended
    stay       rounds of lag more for a job where it runs, besides its pause
    fills      GPUs that the shares leave idle are given away; without, a job runs only in a place where it is owed time, or in a pair
               that is, so that over time no job has more than its shares
    """
    lags = _Lags(present, accounts, running, stay, must_be_owed=not fills)
    queue = _queue(present, accounts, lags)
    left = present.room(())
    run_of: dict[str, Run] = {}
    for entry in queue:
        job, place = entry.job, entry.place
        pool, width = present.pool_of[place.column], present.width(job)
        if job in run_of or width > left[pool]:
            continue
        run = Run((job,), place.column)
        if place.beside:
            partner = lags.partner(job, place, run_of)
            if partner is None or not lags.may_run(job, place, partner[0]):
                continue
            run = Run((job, partner[0]), place.column)
        run_of |= dict.fromkeys(run.jobs, run)
        left[pool] -= width
    for entry in queue:
        if entry.job not in run_of and not entry.place.beside and any(left):
            _place_again(present, lags, entry, run_of, left)
    runs = list(dict.fromkeys(run_of.values()))
    if not fills:
        return runs
    waiting = [job for job in present.class_of if job not in run_of]
    return [*runs, *filled(present, runs, waiting, running)]


def _queue(present: Present, accounts: Owed, lags: "_Lags") -> list[_Entry]:
    queue = []
    for job, places in present.targets.items():
        since = accounts.overdue(job)
        for place, target in places.items():
            lag, other = lags.lag(job, place), ""
            if place.beside:
                partner = lags.partner(job, place, {})
                if partner is None:
                    continue
                lag, other = lag + partner[1], partner[0]
            if lags.may_run(job, place, other):
                queue.append(_Entry(inf if since is None else since, -lag, -target, job, place))
    return sorted(queue)


def _place_again(
    present: Present, lags: "_Lags", entry: _Entry, run_of: dict[str, Run], left: list[int]
) -> None:
    """Let a job that was passed over run where there is room by now, or where another can make room."""
    pool, width = present.pool_of[entry.place.column], present.width(entry.job)
    if width > left[pool]:
        _make_room(present, lags, entry, run_of, left)
        return
    run_of[entry.job] = Run((entry.job,), entry.place.column)
    left[pool] -= width


def _make_room(
    present: Present, lags: "_Lags", entry: _Entry, run_of: dict[str, Run], left: list[int]
) -> None:
    """Let a job run in a full column, if a job there has a target elsewhere and room for it, and both together gain by their lags."""
    column, width = entry.place.column, present.width(entry.job)
    best: tuple[float, str, int] | None = None
    for job, run in run_of.items():
        if run.column != column or len(run.jobs) > 1 or present.width(job) < width:
            continue
        for place in present.targets[job]:
            other = present.pool_of[place.column]
            if not place.beside and other != present.pool_of[column] and present.width(job) <= left[other]:
                if not lags.may_run(job, place):
                    continue
                loses = lags.lag(job, Place(column)) - lags.lag(job, place)
                if best is None or (loses, job, place.column) < best:
                    best = loses, job, place.column
    # Else the job there would be moved on in each round, and never have what it is owed in this column.
    if best is not None and best[0] < -entry.minus_lag:
        _, job, other_column = best
        run_of[job] = Run((job,), other_column)
        run_of[entry.job] = Run((entry.job,), column)
        left[present.pool_of[other_column]] -= present.width(job)
        left[present.pool_of[column]] += present.width(job) - width


def filled(
    present: Present, runs: Sequence[Run], waiting: Iterable[str], running: Sequence[Run] = ()
) -> list[Run]:
    """Return further runs, of waiting jobs on GPUs that these runs leave idle: by relative speed, then where they ran, then by id."""
    left = present.room(runs)
    if not any(left):
        return []
    column_of = {job: run.column for run in running for job in run.jobs}
    queue = sorted(
        (slow, column_of.get(job) != column, job, column)
        for job in waiting
        for slow, column in present.fastest[present.class_of[job]]
    )
    taken: dict[str, None] = {}
    more = []
    for _, _, job, column in queue:
        pool, width = present.pool_of[column], present.width(job)
        if job not in taken and width <= left[pool]:
            more.append(Run((job,), column))
            taken[job] = None
            left[pool] -= width
    return more


def idle_gpus(present: Present, runs: Sequence[Run], waiting: Iterable[str]) -> int:
    """Return the idle GPUs that a waiting job could use: of each pool where one fits."""
    left = present.room(runs)
    usable = {
        present.pool_of[column]: None
        for job in waiting
        for _, column in present.fastest[present.class_of[job]]
        if present.width(job) <= left[present.pool_of[column]]
    }
    return sum(left[pool] for pool in usable)


class _Lags:
    """The lags of jobs, with more where they ran in the round before."""

    def __init__(
        self, present: Present, accounts: Owed, running: Sequence[Run], stay: float, *, must_be_owed: bool
    ) -> None:
        self._present, self._accounts, self._stay = present, accounts, stay
        self._must_be_owed = must_be_owed
        self._run_of = {job: run for run in running for job in run.jobs}
        self._place_of = {job: present.place(run, job) for job, run in self._run_of.items()}

    def lag(self, job: str, place: Place) -> float:
        """Return the lag of a job in a place."""
        more = self._stay + self._present.pause(job) if self._place_of.get(job) == place else 0.0
        return self._accounts.lag(job, place) + more

    def may_run(self, job: str, place: Place, partner: str = "") -> bool:
        """Return whether the job may run there, alone or with this partner: always, or only if they are owed time."""
        if not self._must_be_owed:
            return True
        owed = self._accounts.lag(job, place)
        if partner:
            owed += self._accounts.lag(partner, self._beside(job, place))
        return owed > 0

    def _beside(self, job: str, place: Place) -> Place:
        """Return the place of a partner of the job there."""
        return Place(place.column, self._present.names[self._present.class_of[job]])

    def partner(self, job: str, place: Place, taken: Mapping[str, object]) -> tuple[str, float] | None:
        """Return the job that lags most beside this one, with its lag. A job that ran beside it is preferred."""
        there = self._beside(job, place)
        run = self._run_of.get(job)
        best: tuple[str, float] | None = None
        for other in self._present.by_name[place.beside]:
            if other == job or other in taken:
                continue
            lag = self._accounts.lag(other, there)
            if run is not None and run.column == place.column and other in run.jobs:
                lag += self._stay + self._present.pause(other)
            if best is None or (lag, best[0]) > (best[1], other):
                best = other, lag
        return best
