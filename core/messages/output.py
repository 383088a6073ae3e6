"""How the output of a task is read: page by page, from the worker that has it. Components never hear these."""

from core.messages.base import Answer, Message
from core.nouns.ids import RegionName, WorkerName, WorkloadId


class ReadOutput(Message, frozen=True, tag="read-output"):
    """What a task wrote, from some byte on."""

    region: RegionName
    worker: WorkerName
    workload: WorkloadId
    epoch: int
    job: str
    rank: int
    offset: int
    """Of the first byte wanted; less than zero: so many bytes before the end."""
    bytes_max: int
    """An answer may hold less, and is never empty while there is more."""


class FindOutput(Message, frozen=True, tag="find-output"):
    """Which of a region's workers has what tasks of this job wrote? Only one that has some of it answers."""

    region: RegionName
    workload: WorkloadId
    epoch: int
    job: str
    rank: int = -1
    """-1: of any."""
    known: tuple[WorkerName, ...] = ()
    """These have answered: who asks hears one answer at a time."""


class OutputFound(Answer, frozen=True, tag="output-found"):
    """This worker has what these tasks wrote there."""

    worker: WorkerName
    ranks: tuple[tuple[int, bool], ...]
    """Ascending, each with whether its task has ended there."""


class OutputPage(Answer, frozen=True, tag="output-page"):
    """Consecutive bytes of a task's standard output and error, as they came."""

    workload: WorkloadId
    epoch: int
    job: str
    rank: int
    data: bytes
    offset: int
    """Of its first byte: more than was asked for where the bytes between were dropped to make room."""
    next_offset: int
    """What to ask for next."""
    is_ended: bool
    """The task has ended, and nothing comes after this page."""


MESSAGES: tuple[type[Message], ...] = (FindOutput, OutputFound, ReadOutput, OutputPage)
