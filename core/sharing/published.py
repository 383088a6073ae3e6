"""The published mechanism: which jobs a round of Gavel runs, and on which GPUs. The yardstick for ours.

GPU types are filled in turn. Within a type, jobs go by priority: the share X over the fraction f of the type's time that the job had.
Shares are computed anew when a job arrived or ended, but no sooner than `RESET_SECONDS` after the last time. A job that came since has
no shares; it is given idle GPUs all the same, and leaves them empty.

Kept are the order and its corner cases: half a round on each account, 1e9 X where a type has no time of the job, jobs with X = 0 on
idle GPUs, deficits that break ties alone, no reservation for wide jobs.

source    Narayanan et al., OSDI 2020, section 5, and the authors' code, stanford-futuredata/gavel at c4fa4009, read and not copied
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

RESET_SECONDS = 1_920.0
NEVER_RAN = 1e9
"""The priority, by share, of a job without time on a type."""


class Account(Struct):
    """What the mechanism knows of a job, by GPU type."""

    gpus: int
    runs: list[bool]
    """Whether the job has a speed there."""
    seconds: list[float]
    """Run since the last reset, and what each job begins with."""
    deficit: list[float]
    """Seconds that the job should have run, less those it did, up to the last reset."""
    shares: list[float] | None = None
    """None: the job came after shares were computed."""


class Assigned(Struct, frozen=True):
    """The GPUs of a job in a round."""

    kind: int
    """The type, by its index."""
    gpus: tuple[int, ...]
    """By number, of the type."""


class PublishedRounds:
    """The state of the mechanism."""

    def __init__(
        self,
        gpus: Sequence[int],
        round_seconds: float,
        *,
        is_fifo: bool = False,
        begins_with: float | None = None,
    ) -> None:
        """Of a fleet.

        gpus          of each type, in the order in which types are filled
        is_fifo       no job runs where its share is 0
        begins_with   seconds on the account of each job at a reset; None: half a round
        """
        self._gpus = list(gpus)
        self._begins_with = round_seconds / 2 if begins_with is None else begins_with
        self._is_fifo = is_fifo
        self._accounts: dict[str, Account] = {}
        self._booked = [0.0] * len(gpus)
        self._last_reset = 0.0
        self._is_stale = True
        self.assigned: dict[str, Assigned] = {}
        """The last round."""

    def add(self, job: str, gpus: int, speeds: Sequence[float]) -> None:
        """Open the account of a job that arrived."""
        types = len(self._gpus)
        runs = [speed > 0 for speed in speeds]
        self._accounts[job] = Account(gpus, runs, [self._begins_with] * types, [0.0] * types)
        self._is_stale = True

    def end(self, job: str) -> None:
        """Close the account of a job that ended."""
        del self._accounts[job]
        self._is_stale = True

    def force(self) -> None:
        """Let shares be due whatever the time."""
        self._last_reset = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether shares are due: a job arrived or ended, and the last were computed long enough ago."""
        return self._is_stale and (self._last_reset == 0.0 or now - self._last_reset >= RESET_SECONDS)

    def reset(self, now: float, shares: Mapping[str, Sequence[float]]) -> None:
        """Take the shares of all jobs, by type, and begin new accounts."""
        elapsed = now - self._last_reset
        for job, one in self._accounts.items():
            for kind in range(len(self._gpus)):
                due = one.shares[kind] * elapsed if one.shares is not None else 0.0
                one.deficit[kind] += due - (one.seconds[kind] - self._begins_with)
                one.seconds[kind] = self._begins_with
            one.shares = list(shares[job])
        self._booked = [self._begins_with * len(self._accounts)] * len(self._gpus)
        self._last_reset = now
        self._is_stale = False

    def book(self, job: str, kind: int, seconds: float) -> None:
        """Record that a job ran on a type."""
        self._accounts[job].seconds[kind] += seconds
        self._booked[kind] += seconds

    def priority(self, job: str, kind: int) -> float:
        """Return the priority of a job on a type."""
        one = self._accounts[job]
        if one.shares is None or not one.runs[kind]:
            return 0.0
        if not one.seconds[kind]:
            return one.shares[kind] * NEVER_RAN
        return one.shares[kind] * self._booked[kind] / one.seconds[kind]

    def selected(self, order: Sequence[int] = ()) -> dict[str, int]:
        """Return the type of each job of the next round. Some of the jobs may have no shares.

        order   in which types are filled; empty: as they are given
        """
        taken: dict[str, int] = {}
        for kind in order or range(len(self._gpus)):
            left = self._gpus[kind]
            for job, priority in self._queue(kind):
                if not left:
                    break
                one = self._accounts[job]
                is_refused = self._is_fifo and priority <= 0
                if job not in taken and one.runs[kind] and one.gpus <= left and not is_refused:
                    taken[job] = kind
                    left -= one.gpus
        return taken

    def _queue(self, kind: int) -> list[tuple[str, float]]:
        """Return the jobs with their priorities on a type, ties by deficit, then by share, then by arrival."""
        keys = [
            (-self.priority(job, kind), -one.deficit[kind], -one.shares[kind] if one.shares else 0.0, number)
            for number, (job, one) in enumerate(self._accounts.items())
        ]
        jobs = list(self._accounts)
        return [(jobs[number], -priority) for priority, _, _, number in sorted(keys)]

    def assign(self, selected: Mapping[str, int]) -> dict[str, Assigned]:
        """Return the GPUs of the selected jobs that have shares: widest first, those of the last round where they are free."""
        placed: dict[str, Assigned] = {}
        for kind, count in enumerate(self._gpus):
            mine = [job for job, of in selected.items() if of == kind]
            free = dict.fromkeys(range(count))
            for width in sorted({self._accounts[job].gpus for job in mine}, reverse=True):
                same = [job for job in mine if self._accounts[job].gpus == width]
                for job in same:
                    before = self.assigned.get(job)
                    if before and before.kind == kind and all(gpu in free for gpu in before.gpus):
                        placed[job] = before
                        _drop(free, before.gpus)
                for job in same:
                    if job not in placed and self._accounts[job].shares is not None:
                        placed[job] = Assigned(kind, tuple(free)[:width])
                        _drop(free, placed[job].gpus)
        self.assigned = placed
        return placed


def _drop(free: dict[int, None], gpus: Sequence[int]) -> None:
    for gpu in gpus:
        del free[gpu]
