"""A controller for training gangs: nothing stops them before they have written a checkpoint, if there is time for one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog
from msgspec import Struct, field
from msgspec.structs import replace

from core.messages.control import JobHandle, OperationAsked, TaskControlRequest
from core.nouns.instant import Nanoseconds, seconds
from core.nouns.limits import DOCKETS_MAX
from core.nouns.operation import WHOLE, Ack, OperationKind, job_and_rank
from mizzen.control.parallelism import Parallelism
from runtime.control.controller import TaskController

logger = structlog.get_logger()

Checkpoint = Callable[[], Awaitable[None]]
"""Has the application write a checkpoint now, and returns when it is complete."""
Resize = Callable[[int], Awaitable[None]]
"""Asks for another number of tasks (`mizzen resize`), and returns when that is recorded."""

MARGIN: Nanoseconds = seconds(60)
"""What happens unasked so soon is acknowledged at once: a checkpoint that begins now might not be complete, and who is told
to stop writes one in its grace."""


class _Gang(Struct):
    """One attempt."""

    epoch: int
    saved: set[int] = field(default_factory=set)
    """Operations that were asked for before the newest complete checkpoint was begun."""
    unsaved: set[int] = field(default_factory=set)
    """Operations for which the application could not be made to write one."""
    saving: asyncio.Task[None] | None = None
    leaving: set[int] = field(default_factory=set)
    """Tasks because of which the gang was asked to become smaller."""
    copies: int = 0
    """Of the model that it was asked to come back with; 0: as many as now."""


class TrainingGang(TaskController):
    """Acknowledges what stops a gang once it has a checkpoint that is newer than the request.

    By default the region sees to that: the operation is acknowledged for when the next checkpoint has been committed. With
    `checkpoint`, the application is made to write one now, and the operation waits for that; one checkpoint does for all that
    was asked for before it began. A gang that does not run has nothing to lose, and is never kept waiting.

    With `elastic`, before it lets a drain or a maintenance move the gang, it asks by `resize` for as many tasks as the whole
    copies of the model need that are on none of the nodes concerned, if any are left. What that does today, and what it does
    not: a gang is touched whole, so all of it still stops, after a checkpoint, and comes back from the queue without the
    copies that had to leave. It therefore needs no spare nodes, but it does not train on meanwhile; for that a region would
    have to take some ranks of an attempt away and let the others form a new process group. Nor does it grow again by
    itself: ask for that when there is room. Which ranks are concerned is read from the request's notices; where these
    name the gang as a whole, it is moved as it is.

    One controller serves one workload. Tasks of other kinds of work than gangs are acknowledged at once.
    """

    def __init__(
        self,
        parallelism: Parallelism | None = None,
        *,
        checkpoint: Checkpoint | None = None,
        resize: Resize | None = None,
        elastic: bool = False,
        job: int = 0,
        ranks_per_task: int = 1,
        margin: Nanoseconds = MARGIN,
    ) -> None:
        """`job`: which of the workload's jobs trains, if it has others; `ranks_per_task`: how many ranks each of its tasks
        starts, as torchrun does one for each device.
        """
        if elastic and (parallelism is None or resize is None):
            raise ValueError("to be elastic it needs to know the parallelism, and how to ask for fewer tasks")
        if parallelism is not None and parallelism.ranks % ranks_per_task:
            raise ValueError(f"{parallelism.ranks} ranks are no whole number of tasks of {ranks_per_task}")
        self.parallelism = parallelism
        """Of the newest attempt. It has fewer copies of the model once this has asked for that; whoever asks for another
        number by other means assigns it."""
        self._checkpoint = checkpoint
        self._resize = resize if elastic else None
        self._job = job
        self._ranks_per_task = ranks_per_task
        self._margin = margin
        self._gangs: dict[str, _Gang] = {}

    async def process(self, request: TaskControlRequest) -> Iterable[Ack]:
        """What need not wait; the rest once the checkpoint is there."""
        gang = self._gang(request)
        if gang is None:
            return []
        acks = []
        for asked in request.requests:
            if not self._needs_checkpoint(request, asked):
                acks.append(Ack(asked.operation))
                continue
            await self._ask_for_less(request, asked, gang)
            if asked.operation in gang.saved:
                acks.append(Ack(asked.operation))
            elif self._checkpoint is None or asked.operation in gang.unsaved:
                acks.append(Ack(asked.operation, after_checkpoint=True))
            elif gang.saving is None:
                waiting = {other.operation for other in request.requests}
                # It may take longer than a request may be thought about, so it is not waited for here. It is the gang's
                # own, which is asked about again when it is over.
                gang.saving = asyncio.get_running_loop().create_task(
                    self._save(self._checkpoint, request.job, gang, waiting), name="checkpoint"
                )
        return acks

    def copies_left(self, tasks: Iterable[int]) -> int:
        """How many whole copies of the model have no rank on these tasks, and fill a whole number of tasks."""
        assert self.parallelism is not None
        lost = [
            rank
            for job, first in map(job_and_rank, tasks)
            if job == self._job
            for rank in range(first * self._ranks_per_task, (first + 1) * self._ranks_per_task)
        ]
        each = self.parallelism.ranks_of_replica
        left = self.parallelism.data - len(self.parallelism.give_up(*lost)) // each
        while left * each % self._ranks_per_task:  # No part of a task can be asked for.
            left -= 1
        return left

    def _needs_checkpoint(self, request: TaskControlRequest, asked: OperationAsked) -> bool:
        # A preemption has little time from the first, and its deadline, and grace, are there if a checkpoint takes longer.
        is_near = 0 < asked.deadline <= self._margin and asked.kind is not OperationKind.PREEMPT
        runs = asked.task == WHOLE and WHOLE not in request.unhealthy
        return runs and asked.kind.stops and not is_near

    async def _ask_for_less(self, request: TaskControlRequest, asked: OperationAsked, gang: _Gang) -> None:
        """Ask once for a gang without the copies of the model that would have to leave."""
        if self._resize is None or asked.kind is not OperationKind.MOVE:
            return
        named = {task for notice in request.notices if notice.notice == asked.notice for task in notice.tasks}
        if WHOLE in named or named <= gang.leaving:
            return
        left = self.copies_left(sorted(named | gang.leaving))
        if left:
            assert self.parallelism is not None
            await self._resize(left * self.parallelism.ranks_of_replica // self._ranks_per_task)
            gang.copies = left
        gang.leaving |= named

    async def _save(self, checkpoint: Checkpoint, job: JobHandle, gang: _Gang, waiting: set[int]) -> None:
        """A checkpoint that fails is left to the application, which writes another some time."""
        try:
            await checkpoint()
        except Exception as error:  # noqa: BLE001  # whatever a user's code raises
            logger.error("checkpoint_failed", workload=job.workload, epoch=job.epoch, error=repr(error))
            gang.unsaved |= waiting
        else:
            gang.saved |= waiting
        gang.saving = None
        self.reconsider(job)

    def _gang(self, request: TaskControlRequest) -> _Gang | None:
        """The attempt; None when a newer one is known."""
        known = self._gangs.get(request.job.workload)
        if known is None or known.epoch < request.job.epoch:
            if known is not None and known.copies and self.parallelism is not None:
                self.parallelism = replace(self.parallelism, data=known.copies)
            while known is None and len(self._gangs) >= DOCKETS_MAX:
                del self._gangs[next(iter(self._gangs))]
            known = self._gangs[request.job.workload] = _Gang(request.job.epoch)
        if known.epoch > request.job.epoch:
            return None
        over = {done.operation for done in request.completed}
        known.saved -= over
        known.unsaved -= over
        return known
