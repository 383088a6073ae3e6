"""A controller for replicated services that also asks what the loss of a power domain would do while tasks are down.

Twine's run (figure 14) loses no second replica by its own plan, but a switchboard with 50 tasks fails while 274 are being
updated, and 1,292 shards have two replicas down until those are back. How many is known before: so it can be bounded.
"""

from collections.abc import Iterator

import numpy as np

from mizzen.control.replica_aware import ReplicaAware
from mizzen.control.shards import Counts, Flags, Shards


class FailureAware(ReplicaAware):
    """Acknowledges together what leaves every shard with all its replicas but one, and `two_down_max` shards at the most
    with two replicas down when whichever power domain is worst is lost meanwhile.

    It is slower by as much as the bound is lower, and nothing can help that: n tasks that are down have 2 n r replicas of
    their shards elsewhere (of three each, r on a task), so a loss of one in m of the other tasks meets 2 n r / m of them on
    average, and the worst loss no fewer. While failures alone exceed the bound, whatever would take a healthy task down
    waits.
    """

    def __init__(self, shards: Shards, *, two_down_max: int) -> None:
        """Needs the `domains` of the shards."""
        super().__init__(shards)
        self.two_down_max = two_down_max
        self._risks = Risks(shards)

    @property
    def risks(self) -> "Risks":
        """Of the shards as they lie now."""
        if self._risks.shards is not self.shards:
            self._risks = Risks(self.shards)
        return self._risks

    def fit(self, candidates: Flags, down: Flags) -> Flags:
        """The largest of: the best of each zone alone, and of all zones together."""
        possible = self.shards.admissible(candidates, self.room(down))
        best = np.zeros_like(possible)
        for part in self._parts(possible):
            if int(part.sum()) > int(best.sum()):
                fit = self.risks.fit(part, down, self.two_down_max)
                best = fit if int(fit.sum()) > int(best.sum()) else best
        return best

    def admit(self, planned: Flags, down: Flags) -> Flags:
        """What keeps the bound beside what is down now."""
        possible = self.shards.admissible(planned, self.room(down))
        return self.risks.fit(possible, down, self.two_down_max)

    def possible(self, candidates: Flags, down: Flags) -> Flags:
        """Those that keep the bound too."""
        return self.risks.possible(super().possible(candidates, down), down, self.two_down_max)

    def _parts(self, possible: Flags) -> Iterator[Flags]:
        yield possible
        zones, sizes = np.unique(self.shards.zones[possible], return_counts=True)
        if len(zones) > 1:
            for zone in zones[np.argsort(-sizes, kind="stable")]:
                yield possible & (self.shards.zones == zone)


class Risks:
    """How many shards have two replicas down once one power domain more is lost."""

    def __init__(self, shards: Shards) -> None:
        self.shards = shards
        table, count = shards.table, len(shards.tasks)
        domain = np.append(shards.domains, -1)[table]
        numbers = np.unique(shards.domains[shards.domains >= 0])
        if not len(numbers):
            raise ValueError("no task's power domain is told, so the effect of losing one is not known")
        self._there: Flags = domain == numbers[:, None, None]
        """(domains, shards, replicas) whether the replica lies there."""
        self._added = self._exposure()
        self._holds = _shards_of(table, count)

    def at_loss(self, down: Flags) -> Counts:
        """(domains,) shards with two replicas down if that domain is lost while these tasks are down."""
        is_down = np.append(down, False)[self.shards.table]  # nobody is never down
        lost = (self._there | is_down).sum(axis=2)
        found: Counts = (lost >= 2).sum(axis=1)
        return found

    def possible(self, candidates: Flags, down: Flags, two_down_max: int) -> Flags:
        """Those of the candidates that keep the bound, each if no other goes."""
        after: Counts = self._added + self.at_loss(down)
        return candidates & (after <= two_down_max).all(axis=1)

    def fit(self, candidates: Flags, down: Flags, two_down_max: int) -> Flags:
        """Many candidates that may go together without more than so many shards with two down at the worst loss.

        One after the other, always the one after which the domains are loaded most evenly: what is added to them is nearly
        the same whoever goes, so that most can go when no domain is filled before the others.

        candidates   no shard of theirs has lost a replica
        """
        load = self.at_loss(down)
        taken = np.zeros_like(candidates)
        left = np.flatnonzero(candidates)
        is_possible = np.append(candidates, False)  # nobody is never a candidate
        while len(left):
            after = self._added[left] + load
            fits = (after <= two_down_max).all(axis=1)
            left, after = left[fits], after[fits]
            if not len(left):
                break
            first = int(left[np.argmin((after * after).sum(axis=1))])
            taken[first] = True
            load = load + self._added[first]
            is_possible[self.shards.table[self._holds[first]]] = False
            left = left[is_possible[left]]
        return taken

    def _exposure(self) -> Counts:
        """(tasks, domains) shards of each task that lose a second replica when the domain is lost while the task is down.

        A shard with two replicas in a domain loses both with it whoever is down, and counts already.
        """
        tasks, count = self.shards.table.ravel(), len(self.shards.tasks)
        found = np.zeros((count + 1, len(self._there)), dtype=np.int64)
        for number, there in enumerate(self._there):
            has_one = there.sum(axis=1) == 1
            added = (has_one[:, None] & ~there).ravel()
            found[:, number] = np.bincount(tasks[added], minlength=count + 1)
        return found[:-1]


def _shards_of(table: Counts, count: int) -> list[Counts]:
    """For each task the shards that it holds."""
    order = np.argsort(table, axis=None, kind="stable")
    tasks = table.ravel()[order]
    bounds = np.searchsorted(tasks, np.arange(count + 1))
    shards = order // table.shape[1]
    return [shards[bounds[task] : bounds[task + 1]] for task in range(count)]
