"""What may happen to a task, and what its application's controller answers (Twine §2.4-2.5).

An operation touches one task that stands alone, or a whole gang. It is asked for, acknowledged, begun and completed; an
optional one waits for the acknowledgement for ever, an involuntary one until its deadline.
"""

from enum import StrEnum

from msgspec import Struct

from core.nouns.instant import Nanoseconds

WHOLE = -1
"""The number under which a gang, which is touched whole, counts as one task."""
CHANGE, DRAIN, MAINTENANCE, TRANSFER, ROUND = "r-", "d-", "m-", "t-", "s-"
"""What the name of an operation's source begins with: a revision of its workload, a drain, a maintenance, its move to another region, a
round of a shared pool in which it is not picked."""
ROUNDS = "rounds"
"""Requester of stops of jobs of shared pools that are not picked for a round."""
_RANK_BITS = 20
"""A job has fewer than a million tasks (TASKS_MAX)."""


def task_number(job: int, rank: int) -> int:
    """One task of a workload: numbers of a job ascend with its ranks, and stay what they are when jobs grow or shrink."""
    return job << _RANK_BITS | rank


def job_and_rank(task: int) -> tuple[int, int]:
    """The job's place in its workload, and the rank, that `task_number` was made of."""
    return task >> _RANK_BITS, task & ((1 << _RANK_BITS) - 1)


class OperationKind(StrEnum):
    """What is to be done. Each but a start makes its task unavailable from its begin until it is healthy again."""

    START = "start"
    """A task that has no run gets one: after a failure, or because its job grew."""
    RESTART = "restart"
    """It stops and starts again where it is."""
    UPDATE = "update"
    """It stops, and starts again where it is as its changed job says."""
    MOVE = "move"
    """It stops and starts on another node; a gang goes back to the queue."""
    STOP = "stop"
    """It stops for good: its job shrank, or its gang is not wanted."""
    CHECKPOINT_AND_STOP = "checkpoint_and_stop"
    """A gang writes a checkpoint and goes back to the queue."""
    RESIZE = "resize"
    """A gang stops and goes back to the queue, to come back with as many tasks as its changed job says."""
    PREEMPT = "preempt"
    """The whole attempt, a gang or a service with all its tasks, stops for other work and returns to its place in the queue."""

    @property
    def stops(self) -> bool:
        """Whether a run ends by it."""
        return self is not OperationKind.START

    @property
    def ends_gang(self) -> bool:
        """Whether a gang's attempt ends by it: what it becomes then is for the queue to say."""
        return self not in (OperationKind.START, OperationKind.RESTART)


class Answer(StrEnum):
    """What a controller says to an operation. The first is for all; the last for a preemption, the others where maintenance needs room."""

    PROCEED = "proceed"
    """Do it, in the way it was asked for."""
    MOVE = "move"
    """Go elsewhere, now."""
    STOP_AND_RETURN = "stop_and_return"
    """Stop when the maintenance begins, and start again on the same node when it is over."""
    IGNORE = "ignore"
    """Do nothing: a few minutes without network are cheaper than a replica built anew. Not where nodes must be empty."""
    INSTEAD = "instead"
    """To a preemption for another workload's promise: preempt instead a workload of the same tenant, which the answer names."""


class OperationPhase(StrEnum):
    """Where an operation is in its life."""

    ASKED = "asked"
    ACKED = "acked"
    BEGUN = "begun"
    DONE = "done"
    """Over, and to be told to the controller once."""


class BegunBy(StrEnum):
    """What allowed an operation to begin."""

    ACK = "ack"
    """Its controller said so."""
    LIMITS = "limits"
    """No controller was named: the job's own limits allowed it."""
    DEADLINE = "deadline"
    """It was involuntary, and its time had come."""


class Outcome(StrEnum):
    """How an operation ended."""

    HEALTHY = "healthy"
    """The task is healthy after it."""
    GONE = "gone"
    """The task is no more, as asked; or its workload ended meanwhile."""
    IGNORED = "ignored"
    """The controller wanted nothing to be done, and nothing was."""
    WITHDRAWN = "withdrawn"
    """The operation is no longer wanted."""


class Ack(Struct, frozen=True):
    """A controller's word on one operation."""

    operation: int
    answer: Answer = Answer.PROCEED
    after_checkpoint: bool = False
    """Not before the gang has committed a checkpoint that is newer than this word."""
    within: int = 0
    """Of a preemption: nanoseconds from this word after which it may begin, though no checkpoint came if one is waited for; 0: at once,
    or only with the checkpoint."""
    instead: str = ""
    """With `Answer.INSTEAD`: the workload that should end in its place."""


class TaskMove(Struct, frozen=True):
    """One task's new run: on another node, on the same, or nowhere."""

    task: int
    node_from: int
    """-1: it had none."""
    node_to: int
    """-1: it is no more."""


class ControlSpec(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The controller that must agree before a workload's tasks are touched, and the number that may be touched at once."""

    controller: str = ""
    """A name within the tenant: the process that answers under it decides. Empty: the limits alone do."""
    unavailable_max: int = 0
    """Tasks of a job that may be unavailable, whatever the cause, while more are released; 0: a tenth of them, at least one."""
    is_strict: bool = False
    """Its tasks stop by themselves when their region has not been heard for `isolation`, so that never two runs live."""
    isolation: Nanoseconds = Nanoseconds(60_000_000_000)

    def unavailable_limit(self, tasks: int) -> int:
        """Of a job of so many tasks."""
        return self.unavailable_max or max(1, tasks // 10)
