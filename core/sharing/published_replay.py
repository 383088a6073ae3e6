"""Jobs played over a fleet as the published simulator plays them, with the published mechanism.

A round ends when the last of its jobs has done its steps: as many whole steps as fit into a round at its speed. A job may complete
earlier; its GPUs are then idle until the round ends. A job that is slower than a step a round does one. Pairs are not played.

The published simulator drops a job whose last steps are fewer than its GPUs, as some of its workers get none. Here such a job completes
and is counted: of 500 jobs of one load one, which is .1 % of the mean completion time.

source    the authors' code, stanford-futuredata/gavel at c4fa4009, read and not copied
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from core.sharing.jobs import SharingJob
from core.sharing.outcomes import Outcome, Played
from core.sharing.problem import MILLIONTHS, Column
from core.sharing.published import Assigned, PublishedRounds
from core.sharing.replay import ROUND_SECONDS, ROUNDS_MAX, ActiveJob, Chooser, Fleet, built_of

Shuffle = Callable[[list[int]], None]


class _Turn(Struct, frozen=True):
    """A job in a round."""

    kind: int
    steps: float
    end: float


class PublishedReplay:
    """One policy over the jobs of one trace."""

    def __init__(
        self,
        jobs: Sequence[SharingJob],
        fleet: Fleet,
        chooser: Chooser,
        *,
        round_seconds: float = ROUND_SECONDS,
        charge_seconds: float = 0.0,
        is_fifo: bool = False,
        shuffle: Shuffle | None = None,
    ) -> None:
        """Ready to play, with the types filled in the order of the fleet's pools.

        charge_seconds   what each move costs a job; the published simulator charges nothing
        is_fifo          no job runs where its share is 0
        shuffle          puts the types into a new order each round, as the published simulator does for policies that know no speeds
        """
        self._queue = sorted(jobs, key=lambda one: one.arrival)[::-1]
        self._fleet, self._chooser = fleet, chooser
        self._round, self._charge, self._shuffle = round_seconds, charge_seconds, shuffle
        gpus = [pool.gpus for pool in fleet.pools]
        self._mechanism = PublishedRounds(gpus, round_seconds, is_fifo=is_fifo)
        self._columns: tuple[Column, ...] = ()
        self._active: dict[str, ActiveJob] = {}
        self._turns: dict[str, _Turn] = {}
        self._outcomes: list[Outcome] = []
        self._arrived = self._leases = self._extended = self._rounds = self._solved = 0
        self._busy, self._phantom = 0.0, 0

    def play(self, until: Sequence[str] = ()) -> Played:
        """Play until all jobs are complete, or those with these ids."""
        begun = now = self._queue[-1].arrival if self._queue else 0.0
        wanted = frozenset(until or [job.id for job in self._queue])
        seen = 0
        for _ in range(ROUNDS_MAX):
            if not wanted:
                break
            self._arrive(now)
            self._share(now)
            self._begin(now)
            end = max((turn.end for turn in self._turns.values()), default=now)
            self._end(now)
            if end == now and self._queue:
                end = self._queue[-1].arrival
            elif end == now:
                self._mechanism.force()
            now = end
            wanted -= {one.job.id for one in self._outcomes[seen:]}
            seen = len(self._outcomes)
        else:
            raise AssertionError(f"{len(wanted)} jobs do not complete")
        return Played(
            outcomes=tuple(sorted(self._outcomes, key=lambda one: one.completed)),
            begun=begun,
            ended=max((one.completed for one in self._outcomes), default=begun),
            gpus=self._fleet.gpus,
            busy_gpu_seconds=self._busy,
            leases=self._leases,
            extended=self._extended,
            rounds=self._rounds,
            solved=self._solved,
            phantom_gpu_rounds=self._phantom,
        )

    def _arrive(self, now: float) -> None:
        while self._queue and self._queue[-1].arrival <= now:
            job = self._queue.pop()
            self._active[job.id] = ActiveJob(job, self._arrived, job.steps)
            self._arrived += 1
            self._mechanism.add(
                job.id, job.gpus, [self._speed(job, kind) for kind in range(len(self._fleet.pools))]
            )

    def _speed(self, job: SharingJob, kind: int) -> float:
        pool = self._fleet.pools[kind]
        return self._fleet.speeds.alone[job.model, job.gpus].get(pool.gpu_type, 0.0)

    def _share(self, now: float) -> None:
        """Compute shares if they are due."""
        if not self._active or not self._mechanism.is_due(now):
            return
        found = built_of(list(self._active.values()), self._fleet, now, self._chooser)
        self._columns = found.problem.columns
        rows = (self._chooser.shares(found.problem).alone / MILLIONTHS).tolist()
        self._solved += 1
        self._mechanism.reset(
            now, {job: row for jobs, row in zip(found.members, rows, strict=True) for job in jobs}
        )

    def _begin(self, now: float) -> None:
        """Begin a round: choose jobs, place them, and give each its steps."""
        order = list(range(len(self._fleet.pools)))
        if self._shuffle is not None:
            self._shuffle(order)
        before = self._mechanism.assigned
        selected = self._mechanism.selected(order)
        placed = self._mechanism.assign(selected)
        self._leases += sum(job in self._active for job in before)
        self._phantom += sum(self._active[job].job.gpus for job in selected if job not in placed)
        self._rounds += bool(placed)
        for job, at in placed.items():
            self._start(job, at, now, stays=before.get(job) == at)

    def _start(self, job: str, at: Assigned, now: float, *, stays: bool) -> None:
        one, charge = self._active[job], 0.0
        self._extended += stays
        if one.started is None:
            one.started = now
        elif not stays:
            one.moves += 1
            charge = self._charge
        speed = self._speed(one.job, at.kind)
        steps = min(max(1.0, float(int(speed * (self._round - charge)))), one.steps)
        self._turns[job] = _Turn(at.kind, steps, now + charge + steps / speed)

    def _end(self, begun: float) -> None:
        """End the round: book what each job had, and complete those without steps."""
        turns, self._turns = self._turns, {}
        for job, turn in turns.items():
            one, seconds = self._active[job], turn.end - begun
            gpu_seconds = seconds * one.job.gpus
            self._busy += gpu_seconds
            self._mechanism.book(job, turn.kind, seconds)
            one.advance(turn.steps, self._columns[turn.kind], gpu_seconds)
            if one.steps <= 0:
                self._outcomes.append(one.outcome(turn.end))
                self._mechanism.end(job)
                del self._active[job]
