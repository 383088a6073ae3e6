"""One region's placement store and task control, without hosts, logs or a bus: what one says the other hears at once.

They are the components that a real region runs, so a controller meets the same rules in its tests. The queue is played here
as far as they look at it: it awards, and sees what ended.
"""

from collections.abc import Callable

from components.placement_store.component import PlacementStore
from components.task_control.component import TaskControl
from core.component import Decision, Images
from core.events.queue import AttemptClosed, RegionAdded, WorkloadAwarded, WorkloadBound
from core.fact import NO_LOG, Event, Fact, Note
from core.images import RegionImage
from core.images.capacity import Capacity
from core.messages.base import Answer, Envelope, Message, Woken
from core.messages.control import JobHandle, TaskControlRequest
from core.nouns.ids import GLOBAL_LOG, LogName, RegionName, WorkloadId, region_log
from core.nouns.instant import SECOND, Instant, earliest
from core.nouns.workload import EndCause, Phase
from core.rules.scopes import is_drained, keeps_away

REGION = RegionName("test")
WORKLOAD = WorkloadId("w-1")
"""The only one there is."""
START = Instant(1_000_000 * SECOND)
STEPS_MAX = 100_000
"""Looks at one instant; more means that something is said without end."""


class RegionInMemory:
    """A region with one workload, in a time that only its user moves."""

    def __init__(self, seen: Callable[[Event], None]) -> None:
        """`seen` is told of every fact of the region's log."""
        self.now = START
        self.requests: dict[JobHandle, TaskControlRequest] = {}
        """By attempt, what its controller is asked; until it is taken."""
        self._seen = seen
        self._store = PlacementStore(REGION)
        self._control = TaskControl(REGION)
        self._stored = self._store.initial(Images(START))
        self._controlled = self._control.initial(Images(START))
        self._sequences = {region_log(REGION): 0, GLOBAL_LOG: 0}
        self.queue(RegionAdded(REGION))

    @property
    def image(self) -> RegionImage:
        """Of its log."""
        return self._stored.image

    @property
    def capacity(self) -> Capacity:
        """Its nodes, and who has them."""
        return self._stored.image.capacity

    @property
    def sequence(self) -> int:
        """Of its log's newest fact."""
        return self._sequences[region_log(REGION)]

    @property
    def ignored(self) -> int:
        """Of what controllers said, what counted for nothing."""
        return sum(row.ignored for row in self._controlled.controllers.values())

    def may_start(self, node: int) -> bool:
        """Whether a task that was on a node may start there again."""
        return not keeps_away(self.capacity, self.image.maintenance, node)

    def is_drained(self, node: int) -> bool:
        """Whether what was to return to a node moves instead."""
        return is_drained(self.capacity, node)

    def take_request(self) -> TaskControlRequest | None:
        """One that a controller is asked now. What is out of date by now will be asked anew."""
        while self.requests:
            request = self.requests.pop(next(iter(self.requests)))
            row = self.image.control.row(request.job.workload, request.job.epoch)
            if row is not None and row.changed == request.sequence:
                return request
        return None

    # Speaking.

    def command(self, message: Message, sender: str = "harness") -> Message | None:
        """Say something to the store; what it answers."""
        decision = self._store.decide(self._stored, self._envelope(message, sender))
        self._fold(region_log(REGION), decision, message, sender)
        answers = [said for said in decision.messages if isinstance(said, Answer)]
        return answers[0] if answers else None

    def hear(self, message: Message) -> None:
        """A controller says something to task control."""
        self._controls(self._control.decide(self._controlled, self._envelope(message, "controller")), message)

    def due(self) -> Instant | None:
        """When something happens by itself."""
        return earliest(self._store.due(self._stored), self._control.due(self._controlled))

    def wake(self) -> None:
        """Let happen what is due by now."""
        for _ in range(STEPS_MAX):
            due = self.due()
            if due is None or due > self.now:
                return
            self.command(Woken())
            self.hear(Woken())
        raise AssertionError("it never comes to rest")

    # The queue.

    def queue(self, *events: Event) -> int:
        """The queue's log shows this; the sequence of the last."""
        for event in events:
            fact = self._fact(GLOBAL_LOG, event, "queue", "queue")
            self._stored = self._store.evolve(self._stored, fact)
            self._controlled = self._control.evolve(self._controlled, fact)
        return self._sequences[GLOBAL_LOG]

    def award(self, epoch: int) -> int:
        """This region may start the next attempt; the award's sequence."""
        return self.queue(WorkloadAwarded(WORKLOAD, epoch, REGION, 0, ()))

    def bound(self, epoch: int) -> None:
        """The queue saw that it runs."""
        self.queue(WorkloadBound(WORKLOAD, epoch, REGION, self.sequence))

    def closed(self, epoch: int, cause: EndCause, phase: Phase = Phase.PENDING) -> None:
        """The queue saw that it ended."""
        self.queue(AttemptClosed(WORKLOAD, epoch, cause, phase, REGION, self.sequence))

    # Folding.

    def _controls(self, decision: Decision, cause: Message) -> None:
        self._fold(NO_LOG, decision, cause, "control")
        for said in decision.messages:
            if isinstance(said, TaskControlRequest):
                self.requests[said.job] = said
            elif not isinstance(said, Answer):
                self.command(said, self._control.name)  # What is refused it says again, if it still wants it.

    def _fold(self, log: LogName, decision: Decision, cause: Message, sender: str) -> None:
        for event in decision.events:
            if isinstance(event, Event):
                fact = self._fact(log, event, str(type(cause).__struct_config__.tag), sender)
                self._stored = self._store.evolve(self._stored, fact)
                self._controlled = self._control.evolve(self._controlled, fact)
                self._seen(event)
            elif log == NO_LOG:
                self._controlled = self._control.evolve(self._controlled, self._note(event))
            else:
                self._stored = self._store.evolve(self._stored, self._note(event))

    def _fact(self, log: LogName, event: Event, cause: str, actor: str) -> Fact:
        self._sequences[log] += 1
        return Fact(log, self._sequences[log], self.now, cause, actor, event, self.now)

    def _note(self, note: Note) -> Fact:
        return Fact(NO_LOG, 0, self.now, "", "", note, self.now)

    def _envelope(self, message: Message, sender: str) -> Envelope:
        return Envelope(message, sender, "", self.now, "reply")
