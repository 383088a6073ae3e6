"""What a controller has acknowledged and does not know to be over: as good as down, whatever was heard of it."""

from msgspec import Struct, field

from core.messages.control import OperationAsked, TaskControlRequest
from core.nouns.ids import WorkloadId
from core.nouns.limits import DOCKETS_MAX
from core.nouns.operation import Ack, Answer, OperationKind, Outcome

ALONE = -1
"""The wave of operations on tasks that were down already: they take nobody down."""
GONE = -2
"""The wave of tasks that were stopped for good: what they held, nobody holds until somebody says who does."""


class Given(Struct, frozen=True):
    """One acknowledgement."""

    task: int
    wave: int
    """A number of the controller's own, by which it knows what it released together."""


class Acknowledged(Struct):
    """One attempt, as far as its controller remembers it.

    An acknowledgement counts from the moment it is given: the answer may be lost, and may be acted on late. It counts no
    more once the operation is told as completed, or is asked for again in a newer request, which shows that the answer
    came to nothing: the region takes no answer to an older one. In the same request asked again, it still may count.
    """

    epoch: int
    sequence: int = -1
    """Of the newest request."""
    given: dict[int, Given] = field(default_factory=dict)
    """By operation."""
    answer: list[Ack] = field(default_factory=list)
    """All that was said to the newest request. Whatever part of it was heard, saying all of it again is right."""

    def hear(self, request: TaskControlRequest) -> bool:
        """Take in a request; False when it is older than one that was heard, and so no answer to it counts."""
        if (request.job.epoch, request.sequence) < (self.epoch, self.sequence):
            return False
        if (request.job.epoch, request.sequence) == (self.epoch, self.sequence):
            return True
        if request.job.epoch > self.epoch:
            self.epoch, self.given = request.job.epoch, {}
        self.sequence, self.answer = request.sequence, []
        for asked in request.requests:
            self.given.pop(asked.operation, None)
        for done in request.completed:
            self.given.pop(done.operation, None)
            if done.kind is OperationKind.STOP and done.outcome is Outcome.GONE:
                self.given[done.operation] = Given(done.task, GONE)
        return True

    def waiting(self, request: TaskControlRequest) -> list[OperationAsked]:
        """What is asked for and was not acknowledged in answer to this very request."""
        return [asked for asked in request.requests if asked.operation not in self.given]

    def give(self, operation: int, task: int, wave: int = 0, answer: Answer = Answer.PROCEED) -> None:
        """Acknowledge one."""
        self.given[operation] = Given(task, wave)
        self.answer.append(Ack(operation, answer))

    def forget_gone(self) -> None:
        """What those held that were stopped for good is elsewhere now."""
        self.given = {number: given for number, given in self.given.items() if given.wave != GONE}

    def tasks(self, wave: int | None = None) -> list[int]:
        """The tasks of what was acknowledged: all, or of one wave."""
        return [given.task for given in self.given.values() if wave is None or given.wave == wave]


class Attempts(Struct):
    """What a controller remembers of all workloads that it was asked about; of too many, the first is forgotten."""

    rows: dict[WorkloadId, Acknowledged] = field(default_factory=dict)

    def hear(self, request: TaskControlRequest) -> Acknowledged | None:
        """The attempt that a request is about, which has taken it in; None when the request is out of date."""
        known = self.rows.get(request.job.workload)
        if known is None:
            while len(self.rows) >= DOCKETS_MAX:
                del self.rows[next(iter(self.rows))]
            known = self.rows[request.job.workload] = Acknowledged(request.job.epoch)
        return known if known.hear(request) else None
