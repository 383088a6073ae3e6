"""A controller for services that keep replicas of shards: no shard loses two of them at the same time by anybody's plan.

source    Twine §2.4, §5.1 and figure 14: of 1,000 tasks with 15,000 shards of three replicas, 274 are released at once
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field

from core.messages.control import OperationAsked, TaskControlRequest
from core.nouns.ids import WorkloadId
from core.nouns.operation import WHOLE, Ack
from mizzen.control.acknowledged import ALONE, Acknowledged, Attempts
from mizzen.control.shards import Counts, Flags, Shards
from runtime.control.controller import TaskController

OPTIONAL = "\0optional"
"""Stands for the notice of what no notice calls for. None has such a name."""


class Release(Struct):
    """What is being released on one attempt: one plan after another, each a set of tasks that may all be down together.

    Whoever acknowledges whatever is possible at each moment soon has a few tasks of every zone down, beside which hardly
    any other may go: of 1,000 tasks some 50 instead of 250. So a plan is made as if the one before it were over, and only
    its tasks are acknowledged, each as soon as those still down leave room for it.
    """

    epoch: int
    wave: int = 1
    plan: Flags | None = None
    """Its tasks, also those that are under way and over."""
    has_begun: bool = False
    """Whether any of it was acknowledged. Until then it is made anew whenever anything is heard."""
    known: set[int] = field(default_factory=set)
    """The involuntary operations that were there when it was made: a new one makes it out of date."""

    def end(self) -> None:
        """Make room for the next plan."""
        self.wave, self.plan, self.has_begun = self.wave + 1, None, False


class ReplicaAware(TaskController):
    """Acknowledges as many operations together as leave every shard with all its replicas but one.

    A replica counts as lost when its task is unhealthy for whatever reason, or when an operation on it was acknowledged
    that is not known to be over. Operations that are done unasked at a deadline come first, in the order of their deadlines
    and all of one maintenance together. What is asked for a task that is down already is acknowledged at once, because it
    is how the task comes back; but an optional one waits while any of its shards has lost more than it may.

    Tell `zones` to the shards wherever replicas are put into different ones: then a whole zone goes at once. One controller
    serves one layout: every workload that asks under its name is taken to hold its shards as `shards` says. An operation on
    a whole gang is never acknowledged, because it takes every replica down.
    """

    def __init__(self, shards: Shards, *, down_max: int = 1) -> None:
        """`down_max`: how many replicas of a shard may be down at once."""
        self.shards = shards
        self.down_max = down_max
        self._attempts = Attempts()
        self._releases: dict[WorkloadId, Release] = {}

    def lay_out(self, shards: Shards) -> None:
        """The replicas have moved: from now on they are where this says."""
        self.shards = shards
        for release in self._releases.values():
            release.end()
        for known in self._attempts.rows.values():
            known.forget_gone()

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        """As many as may go now."""
        return self.decide(request)

    def decide(self, request: TaskControlRequest) -> list[Ack]:
        """The same, for who does not wait."""
        known = self._attempts.hear(request)
        if known is None:
            return []
        release = self._release(request)
        waiting = {asked.task: asked for asked in known.waiting(request) if asked.task != WHOLE}
        self._acknowledge_harmless(request, known, waiting)
        while waiting and self._take_a_step(request, known, release, waiting):
            pass
        return list(known.answer)

    def fit(self, candidates: Flags, down: Flags) -> Flags:
        """A large set of candidates that may go together while these are down."""
        return self.shards.largest_fit(candidates, self.room(down))

    def admit(self, planned: Flags, down: Flags) -> Flags:
        """Those of a plan that may go now, while these are down."""
        return self.shards.first_fit(np.flatnonzero(planned), self.room(down))

    def possible(self, candidates: Flags, down: Flags) -> Flags:
        """Those of the candidates that might go now, each if no other did."""
        return self.shards.admissible(candidates, self.room(down))

    def room(self, down: Flags) -> Counts:
        """(shards,) replicas that each may still lose."""
        return self.down_max - self.shards.lost(down)

    def _release(self, request: TaskControlRequest) -> Release:
        """What is known of it; of workloads that are forgotten nothing is kept."""
        for name in [name for name in self._releases if name not in self._attempts.rows]:
            del self._releases[name]
        known = self._releases.get(request.job.workload)
        if known is None or known.epoch != request.job.epoch:
            known = self._releases[request.job.workload] = Release(request.job.epoch)
        return known

    def _acknowledge_harmless(
        self, request: TaskControlRequest, known: Acknowledged, waiting: dict[int, OperationAsked]
    ) -> None:
        """What takes no replica down that is there."""
        shards = self.shards
        down = self._down(request, known)
        unhealthy = set(request.unhealthy)
        suffering = shards.touching(self.room(down) < 0)
        is_suffering = set(shards.numbers(suffering & down))
        for task, asked in list(waiting.items()):
            may_wait = asked.kind.stops and not asked.deadline and task in is_suffering
            if not shards.holds(task) or (task in unhealthy and not may_wait):
                known.give(asked.operation, task, ALONE)
                del waiting[task]

    def _take_a_step(
        self,
        request: TaskControlRequest,
        known: Acknowledged,
        release: Release,
        waiting: dict[int, OperationAsked],
    ) -> bool:
        """Acknowledge what the plan allows, or make the next; whether there may be more to do."""
        shards = self.shards
        down = self._down(request, known)
        before = shards.flags(known.tasks(release.wave - 1))
        involuntary = {asked.operation for asked in waiting.values() if asked.deadline}
        if release.has_begun and not involuntary <= release.known:
            release.end()
            before = shards.flags(known.tasks(release.wave - 1))
        # 1. A plan is made as if the one before it were over; none is while nothing at all could go.
        if release.plan is None or not release.has_begun:
            if not self.possible(shards.flags(waiting), down).any():
                return False
            release.plan = self._planned(waiting, down, down & ~before)
            release.known = involuntary
        # 2. Of it goes whatever has room now.
        planned = release.plan & shards.flags(waiting)
        goes = self.admit(planned, down)
        for task in shards.numbers(goes):
            known.give(waiting.pop(task).operation, task, release.wave)
            release.has_begun = True
        if not release.has_begun:
            return False
        # 3. It is over when nothing of it waits, or when what waits does so for tasks that are not on their way back: for
        #    failures, or for an operation of the plan before that is stuck while all of this one is over.
        rest = planned & ~goes
        is_under_way = bool(known.tasks(release.wave))
        if rest.any() and is_under_way and shards.admissible(rest, self.room(down & ~before)).any():
            return False
        release.end()
        return True

    def _planned(self, waiting: dict[int, OperationAsked], down: Flags, later: Flags) -> Flags:
        """One set after the other: the maintenance that is due first, then the next, and all that is optional last.

        down    now
        later   once the plan before this one is over
        """
        groups: dict[str, list[OperationAsked]] = {}
        for asked in waiting.values():
            groups.setdefault(asked.notice if asked.deadline else OPTIONAL, []).append(asked)
        plan = np.zeros_like(down)
        for name in sorted(groups, key=lambda name: (name == OPTIONAL, _due(groups[name]), name)):
            wanted = self.shards.flags(asked.task for asked in groups[name])
            plan |= self._planned_of(wanted, down | plan, later | plan)
        return plan

    def _planned_of(self, wanted: Flags, down: Flags, later: Flags) -> Flags:
        """The largest set, and of two as large the one of which something can go at once."""
        largest = self.fit(wanted, later)
        possible = self.possible(wanted, down)
        if not possible.any() or bool((possible == wanted).all()):
            return largest
        soon = self.fit(possible, later)
        soon |= self.fit(wanted & ~soon, later | soon)
        return soon if int(soon.sum()) >= int(largest.sum()) else largest

    def _down(self, request: TaskControlRequest, known: Acknowledged) -> Flags:
        """Every task of which a replica is not there, or may any moment not be."""
        return self.shards.flags((*request.unhealthy, *request.acked, *known.tasks()))


def _due(group: list[OperationAsked]) -> int:
    return min(asked.deadline for asked in group)
