"""Lags: the rounds that each job is owed in each place, less those it received.

A target of .4 in a place promises two rounds of five. A lag stays within ±`LAG_MAX`. Where gangs do not pack, a column cannot deliver
all of its targets; then the column's clock stands still while any job there has reached `LAG_MAX`, so that all jobs of the column lose
the same part of their targets. An overdue job stops no clock: it is served first, and one that cannot run would stop the clock for all
others. A job that had more than its targets for long is remembered for `LAG_MAX` rounds of it.

In regions with the same GPU type a job is equally fast, so what it had in one of them counts as if it were had in all, evenly: jobs do not
change places between regions for shares that either would deliver.

Where new shares take a job to other places, its lag goes with it. Rounds in a place without a target are not booked: such GPUs were
idle, and no job was owed them.
"""

from collections.abc import Callable, Hashable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

ROUND = 1_000_000
"""Millionths."""
LAG_MAX = 5.0
"""Rounds. Jobs of one GPU with shares that do not change stay within it, so it acts where gangs do not pack, or shares change."""
OWED = 1.0
"""Rounds that a job is owed, over all places, from which on it counts as waiting if it does not run."""
MOST = round(LAG_MAX * ROUND)
"""The same, in millionths."""
PATIENCE = 20
"""Rounds for which a job may wait until it is overdue. In loads of jobs with 1 to 8 GPUs, 10 to 40 rounds gave mean completion times
within 1 %; 5 gave 40 % more moves."""


class Place(NamedTuple):
    """Where a job may run: alone in a column, or there beside a job of a class."""

    column: int
    beside: str = ""
    """The name of the class of the other job; empty: alone."""


Key = Any  # Any: a place in a replay; in a log's image, where columns come and go, the name of one
Targets = Mapping[str, Mapping[Place, float]]
"""By job and place, the part of each round that is owed, > 0."""


def itself(place: Key) -> Hashable:
    """Return the place: no two are alike."""
    found: Hashable = place
    return found


class Accounts:
    """The lags of all jobs, in whole millionths of a round, so that a log in which they are folded comes to the same lags again."""

    def __init__(
        self,
        column_of: Callable[[Key], Hashable] = attrgetter("column"),
        type_of: Callable[[Key], Hashable] = itself,
        lags: dict[str, dict[Key, int]] | None = None,
        waits: dict[str, int] | None = None,
        number: int = 0,
    ) -> None:
        """Open the accounts.

        column_of   the column of a place
        type_of     what alike places have in common: what a job has in one of them counts in all in which it has a lag
        lags        by job and place, those that there are already: they are changed in place, as is the next
        waits       by job that is owed a round and does not run, the number of the round since which that is so
        number      of the newest round
        """
        self._column_of = column_of
        self._type_of = type_of
        self._lags = {} if lags is None else lags
        self._waits = {} if waits is None else waits
        self.number = number

    def owe(self, targets: Mapping[str, Mapping[Key, float]]) -> None:
        """Begin a round: each job is owed its target in each place, or the part of it that its column's clock allows."""
        self.number += 1
        clocks: dict[Hashable, float] = {}
        owed = {
            job: {place: round(target * ROUND) for place, target in places.items()}
            for job, places in targets.items()
        }
        for job, places in owed.items():
            mine = self._moved(job, places)
            for place, target in places.items() if self.overdue(job) is None else ():
                left = max(0, MOST - mine.get(place, 0))
                column = self._column_of(place)
                if left < target * clocks.get(column, 1.0):
                    clocks[column] = left / target
        for job, places in owed.items():
            mine = self._lags[job]
            for place, target in places.items():
                more = int(target * clocks.get(self._column_of(place), 1.0))
                mine[place] = min(mine.get(place, 0) + more, MOST)
            if sum(lag for lag in mine.values() if lag > 0) >= OWED * ROUND:
                self._waits.setdefault(job, self.number)

    def receive(self, job: str, place: Key, rounds: float) -> None:
        """Record that the job ran there for so many rounds, or for a part of one."""
        self._waits.pop(job, None)
        mine = self._lags.get(job, {})
        if place in mine:
            mine[place] = max(mine[place] - round(rounds * ROUND), -MOST)
            self._level(mine, self._type_of(place))

    def lag(self, job: str, place: Key) -> float:
        """Return the rounds owed less those received, within ±5."""
        return self._lags.get(job, {}).get(place, 0) / ROUND

    def overdue(self, job: str) -> int | None:
        """Return the number of the round since which the job waits, if that is `PATIENCE` rounds ago; else None."""
        since = self._waits.get(job)
        return since if since is not None and self.number - since >= PATIENCE else None

    def forget(self, job: str) -> None:
        """Close the account of a job that ended."""
        self._lags.pop(job, None)
        self._waits.pop(job, None)

    def _level(self, mine: dict[Key, int], kind: Hashable) -> None:
        """Divide a job's lags in alike places evenly."""
        alike = [place for place in mine if self._type_of(place) == kind]
        each, left = divmod(sum(mine[place] for place in alike), len(alike))
        for number, place in enumerate(alike):
            mine[place] = each + (number < left)

    def _moved(self, job: str, places: Mapping[Key, int]) -> dict[Key, int]:
        """Divide the lags of places that have no target any more among the others, by target; return the lags of the job."""
        mine = self._lags.setdefault(job, {})
        gone = [place for place in mine if place not in places]
        if gone and places:
            left = sum(mine.pop(place) for place in gone)
            total = sum(places.values())
            for place, target in places.items():
                lag = mine.get(place, 0) + (left * target // total if total else 0)
                mine[place] = min(max(lag, -MOST), MOST)
        return mine
