"""Jobs played over a fleet in rounds, as our mechanism would run them.

At the begin of a round the shares are computed anew where they can have changed, every job is owed its targets, and the runs of the
round are chosen. Within a round a job completes when its last step is done, and idle GPUs are given away at once, unless they are to be
left idle. A job that starts again, or on other GPUs, makes no headway for as long as a move is charged; its first start is not charged.
"""

from collections.abc import Callable, Sequence
from math import floor, inf

from msgspec import Struct, field
from msgspec.structs import replace

from core.sharing.accounts import Accounts, Place
from core.sharing.building import Built, JobProgress, Pool, built
from core.sharing.jobs import SharingJob
from core.sharing.outcomes import HOUR, Outcome, Played
from core.sharing.problem import Column, Shares, SharingProblem
from core.sharing.rounds import STAY, Present, Run, chosen, filled, idle_gpus
from core.sharing.speeds import SpeedTable

ROUND_SECONDS = 360.0
ROUNDS_MAX = 1_000_000
"""More than eleven years of six minutes: a replay that has not ended by then never will."""
IDLE_ROUNDS_MAX = 1_000
"""Rounds in a row in which no job runs though some are there, and none is to come. A share of a job that is owed a round less often than
that is as good as none."""
EVENTS_MAX = 1_000_000
"""Of one round: a job arrives once and ends once, and no trace is as long."""
DONE = 1e-9
"""Steps, relative to all of a job's, that may be missing at its completion: sums of floats are exact to less."""


class NeverEnds(Exception):
    """A replay in which some jobs never complete; the text is one sentence for people."""


class Fleet(Struct, frozen=True):
    """The hardware of a replay, how fast it is, and what each entity's part of it weighs."""

    pools: tuple[Pool, ...]
    speeds: SpeedTable
    has_placement: bool = False
    entity_weights: tuple[tuple[str, float], ...] = ()
    """By name; an entity that is not named has weight 1."""

    @property
    def gpus(self) -> int:
        """Return all GPUs."""
        return sum(pool.gpus for pool in self.pools)


class Chooser(Struct, frozen=True):
    """A policy, as a replay calls it."""

    shares: Callable[[SharingProblem], Shares]
    is_by_job: bool = False
    """Whether it reads steps, age or order: each job is a class then, and shares are computed in every round."""
    has_pairs: bool = False
    reads_entities: bool = True
    """Whether it tells jobs of two entities apart where they are alike in all else."""


class ActiveJob(Struct):
    """A job that arrived and has steps left."""

    job: SharingJob
    order: int
    steps: float
    """Steps that are left."""
    isolated_age: float = 0.0
    """Seconds that the steps done so far would have taken on an equal part of the fleet."""
    isolated_speed: float = 0.0
    """Steps a second on such a part, as many jobs as there are now."""
    started: float | None = None
    moves: int = 0
    gpu_seconds: dict[str, float] = field(default_factory=dict)
    cost: float = 0.0

    def advance(self, steps: float, column: Column, gpu_seconds: float) -> None:
        """Record steps done, and GPUs used."""
        self.steps -= steps
        self.isolated_age += steps / self.isolated_speed if steps else 0.0
        self.gpu_seconds[column.gpu_type] = self.gpu_seconds.get(column.gpu_type, 0.0) + gpu_seconds
        self.cost += gpu_seconds / HOUR * column.price

    def outcome(self, completed: float) -> Outcome:
        """Return what became of the job."""
        assert self.started is not None, self.job.id
        return Outcome(
            self.job, self.started, completed, self.moves, self.gpu_seconds, self.cost, self.isolated_age
        )


def built_of(
    active: Sequence[ActiveJob],
    fleet: Fleet,
    now: float,
    chooser: Chooser,
    last: tuple[SharingProblem, Shares] | None = None,
) -> Built:
    """Return the problem of the jobs that are there, and let each know its isolated speed."""
    progress = [
        JobProgress(one.job, one.steps, now - one.job.arrival, one.isolated_age, one.order) for one in active
    ]
    found = built(
        progress,
        fleet.pools,
        fleet.speeds,
        is_by_job=chooser.is_by_job,
        has_pairs=chooser.has_pairs,
        has_placement=fleet.has_placement,
        reads_entities=chooser.reads_entities,
        entity_weights=fleet.entity_weights,
        last=last,
    )
    speeds = found.problem.isolated_speeds.tolist()
    by_job = {job: speed for jobs, speed in zip(found.members, speeds, strict=True) for job in jobs}
    for one in active:
        one.isolated_speed = by_job[one.job.id]
    return found


class _Stint(Struct):
    """A job at work, since it was last booked."""

    run: Run
    place: Place
    since: float
    ready: float
    """When the job makes headway: after the seconds that a move is charged."""
    speed: float

    def steps(self, now: float) -> float:
        return max(0.0, now - max(self.ready, self.since)) * self.speed

    def end(self, steps: float) -> float:
        return max(self.ready, self.since) + steps / self.speed if self.speed > 0 else inf


class Replay:
    """One policy over the jobs of one trace."""

    def __init__(
        self,
        jobs: Sequence[SharingJob],
        fleet: Fleet,
        chooser: Chooser,
        *,
        round_seconds: float = ROUND_SECONDS,
        charge_seconds: float = 0.0,
        stay: float = STAY,
        fills: bool = True,
        jumps: bool = True,
    ) -> None:
        """Ready to play.

        charge_seconds   what each move costs a job: a checkpoint, a restore, and a start
        fills            idle GPUs are given to jobs that are owed nothing; without, they stay idle
        jumps            rounds in which the same runs must go on are played as one; without, the outcome is the same
        """
        self._queue = sorted(jobs, key=lambda one: one.arrival)[::-1]
        self._fleet, self._chooser = fleet, chooser
        self._round, self._charge, self._stay = round_seconds, charge_seconds, stay
        self._fills, self._jumps = fills, jumps
        self._active: dict[str, ActiveJob] = {}
        self._stints: dict[str, _Stint] = {}
        self._runs: list[Run] = []
        self._accounts = Accounts()
        self._present: Present
        self._last: tuple[SharingProblem, Shares] | None = None
        self._is_stale = True
        self._arrived = self._leases = self._extended = self._rounds = self._solved = 0
        self._busy = self._phantom = 0.0
        self._outcomes: list[Outcome] = []

    def play(self, until: Sequence[str] = ()) -> Played:
        """Play until all jobs are complete, or those with these ids. Raises NeverEnds."""
        begun = self._queue[-1].arrival if self._queue else 0.0
        wanted = frozenset(until or [job.id for job in self._queue])
        number, seen, idle = floor(begun / self._round), 0, 0
        for _ in range(ROUNDS_MAX):
            wanted -= {one.job.id for one in self._outcomes[seen:]}
            seen = len(self._outcomes)
            if not wanted or not (self._active or self._queue):
                break
            if not self._active:
                number = max(number, floor(self._queue[-1].arrival / self._round))
            begin = number * self._round
            self._arrive(begin)
            if self._active:
                self._begin(begin)
            idle = 0 if self._stints or self._queue else idle + 1
            if idle >= IDLE_ROUNDS_MAX:
                raise NeverEnds(f"{len(self._active)} jobs never complete: no job has run for {idle} rounds")
            rounds = self._alike(begin)
            number += rounds
            self._within(number * self._round)
            self._end(number * self._round, rounds)
        else:
            raise NeverEnds(f"{len(wanted)} jobs do not complete within {ROUNDS_MAX} rounds")
        outcomes = tuple(self._outcomes)
        return Played(
            outcomes=outcomes,
            begun=begun,
            ended=max((one.completed for one in outcomes), default=begun),
            gpus=self._fleet.gpus,
            busy_gpu_seconds=self._busy,
            leases=self._leases,
            extended=self._extended,
            rounds=self._rounds,
            solved=self._solved,
            phantom_gpu_rounds=self._phantom,
        )

    def _arrive(self, now: float) -> bool:
        """Take the jobs that have arrived; return whether there are any."""
        before = self._arrived
        while self._queue and self._queue[-1].arrival <= now:
            job = self._queue.pop()
            self._active[job.id] = ActiveJob(job, self._arrived, job.steps)
            self._arrived += 1
        self._is_stale |= self._arrived > before
        return self._arrived > before

    def _begin(self, now: float) -> None:
        """Begin a round: shares, accounts, and runs."""
        if self._is_stale or self._chooser.is_by_job:
            found = built_of(list(self._active.values()), self._fleet, now, self._chooser, self._last)
            shares = self._chooser.shares(found.problem)
            self._last = found.problem, shares
            self._present = Present(found.problem, found.members, shares)
            self._is_stale = False
            self._solved += 1
        self._accounts.owe(self._present.targets)
        before = self._runs
        self._runs = chosen(self._present, self._accounts, before, self._stay, fills=self._fills)
        stints, self._stints = self._stints, {}
        heirs = _heirs(self._runs, before)
        for run in self._runs:
            for job in run.jobs:
                stays = job in heirs.get(run.jobs, ())
                self._start(job, run, now, stints[job].ready if stays else None)
                self._extended += stays
        self._leases += len(stints)
        self._rounds += 1
        self._phantom += idle_gpus(self._present, self._runs, self._waiting())

    def _waiting(self) -> list[str]:
        return [job for job in self._active if job not in self._stints]

    def _start(self, job: str, run: Run, now: float, ready: float | None) -> None:
        """Start a job; `ready` is set where it goes on with the same GPUs."""
        one = self._active[job]
        if ready is None:
            ready = now
            if one.started is None:
                one.started = now
            else:
                one.moves += 1
                ready += self._charge
        place, speed = self._present.place(run, job), self._present.speed(run, job)
        self._stints[job] = _Stint(run, place, now, ready, speed)

    def _alike(self, begin: float) -> int:
        """Return for how many rounds these runs go on.

        Where each job has a target of 1 in the place where it runs, its lag stays as it is after the first round, and the runs all fit
        in any order. So the next round is the same, until a job ends or arrives.
        """
        is_whole = len(self._stints) == len(self._active) and all(
            self._present.targets[job].get(stint.place, 0.0) >= 1.0 for job, stint in self._stints.items()
        )
        if not (self._jumps and self._stints and is_whole) or self._chooser.is_by_job:
            return 1
        rounds = max(1, floor((self._next_event() - begin) / self._round))
        self._rounds += rounds - 1
        self._leases += (rounds - 1) * len(self._stints)
        self._extended += (rounds - 1) * len(self._stints)
        return rounds

    def _next_event(self) -> float:
        arrival = self._queue[-1].arrival if self._queue else inf
        return min(
            arrival,
            min((stint.end(self._active[job].steps) for job, stint in self._stints.items()), default=inf),
        )

    def _within(self, end: float) -> None:
        """Play what happens before the end of the round."""
        for _ in range(EVENTS_MAX):
            now = self._next_event()
            if now >= end:
                return
            done = [job for job, stint in self._stints.items() if stint.end(self._active[job].steps) <= now]
            for job in done:
                self._complete(job, now)
            if self._arrive(now) and self._fills:
                chooser = replace(self._chooser, has_pairs=False)
                found = built_of(list(self._active.values()), self._fleet, now, chooser)
                self._present = Present(found.problem, found.members)
            if self._fills and len(self._active) > len(self._stints):
                for run in filled(self._present, self._runs, self._waiting()):
                    self._runs.append(run)
                    self._start(run.jobs[0], run, now, None)
        raise AssertionError("too many events in a round")

    def _complete(self, job: str, now: float) -> None:
        """End a job. Another that shared its GPUs goes on there alone."""
        run = self._stints[job].run
        for one in run.jobs:
            self._book(one, now)
        ready = [self._stints.pop(one).ready for one in run.jobs]
        self._runs.remove(run)
        self._outcomes.append(self._active.pop(job).outcome(now))
        self._accounts.forget(job)
        self._is_stale = True
        for one, was_ready in zip(run.jobs, ready, strict=True):
            if one != job:
                alone = Run((one,), run.column)
                self._runs.append(alone)
                self._start(one, alone, now, was_ready)

    def _end(self, now: float, rounds: int) -> None:
        """End a round, or several that were alike."""
        for job in list(self._stints):
            self._book(job, now, owed=rounds - 1)
        for job in [job for job in self._stints if self._active[job].steps <= 0]:
            self._complete(job, now)

    def _book(self, job: str, now: float, owed: int = 0) -> None:
        """Record what a job had since it was last booked; `owed`: rounds for which it was not told of its targets."""
        one, stint = self._active[job], self._stints[job]
        seconds = now - stint.since
        steps = min(one.steps, stint.steps(now))
        if one.steps - steps <= DONE * one.job.steps:
            steps = one.steps
        gpu_seconds = seconds * one.job.gpus / len(stint.run.jobs)
        one.advance(steps, self._present.problem.columns[stint.run.column], gpu_seconds)
        self._busy += gpu_seconds
        self._accounts.receive(job, stint.place, seconds / self._round - owed)
        stint.since = now


def _heirs(runs: Sequence[Run], before: Sequence[Run]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return by the jobs of a run those whose GPUs it keeps: of one run before in the same column, and of each run before one does."""
    of = {job: run for run in before for job in run.jobs}
    kept: dict[tuple[str, ...], tuple[str, ...]] = {}
    gone: dict[tuple[str, ...], None] = {}
    for run in sorted(
        runs, key=lambda run: -sum(job not in of or of[job].jobs == run.jobs for job in run.jobs)
    ):
        for job in run.jobs:
            source = of.get(job)
            if source is not None and source.column == run.column and source.jobs not in gone:
                gone[source.jobs] = None
                kept[run.jobs] = source.jobs
                break
    return kept
