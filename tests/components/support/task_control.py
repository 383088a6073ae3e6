"""A region's task control beside the store that judges its words: what one says the other hears, at once.

The broker's part, which stops and starts what runs, is played by hand: `stopped`, `up`, `failed`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from components.task_control.component import TaskControl
from core.component import Decision
from core.events.queue import RegionAdded, WorkloadAwarded
from core.fact import Event
from core.images.control import AttemptControl
from core.messages.base import Message
from core.messages.control import (
    OperateTasks,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
    TaskControlRequest,
    TaskControlResponse,
)
from core.messages.store import RecordEnd, RecordJoin, RecordStarted, SubmitClaim
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import GLOBAL_LOG, RegionName, TenantName, WorkerName, WorkloadId
from core.nouns.instant import Nanoseconds, after
from core.nouns.operation import WHOLE, Ack, Answer, ControlSpec, OperationKind, TaskMove, task_number
from core.nouns.placement import Claim
from core.nouns.workload import EndCause, Kind
from tests.builders import EU, EU_LOG, NODE, US, a_claim, attempt
from tests.components.support.machine import Machine
from tests.matching import said

Start = Callable[..., Machine[Any]]
W1 = WorkloadId("w-1")
TENANT = TenantName("ml")
SHARDS = ControlSpec(controller="shards", unavailable_max=100)
ALONE = ControlSpec(unavailable_max=1)
"""Nobody is asked: the job's limits decide."""


class Pair:
    """A store and a task control, and all that the store recorded."""

    def __init__(self, start: Start, *, nodes: int = 8, domains: int = 2) -> None:
        """Workers `w0` ... of four nodes each, of 8 GPUs, two to a rack; a power domain each of `domains`, in turn."""
        self.store = start(PlacementStore(EU))
        self.control = start(TaskControl(EU))
        self.told = 0
        self.facts: list[Event] = []
        self.queue(RegionAdded(EU), RegionAdded(US))
        for number in range(nodes // 4):
            group = NodeGroup(
                4 * number, 4, NODE, "H100", 2 * number, 2, power_domain=f"power-{number % domains}"
            )
            self.hear(RecordJoin(EU, Inventory(WorkerName(f"w{number}"), (group,))))

    # The queue and the agents.

    def queue(self, *events: Event) -> int:
        """The queue's log shows this."""
        self.control.fact(GLOBAL_LOG, *events)
        return self.store.fact(GLOBAL_LOG, *events)

    def grant(self, claim: Claim) -> Claim:
        """It is awarded, granted and started."""
        award = self.queue(WorkloadAwarded(claim.workload, claim.epoch, EU, 0, ()))
        made = replace(claim, award_sequence=award)
        self.hear(SubmitClaim(EU, made))
        self.hear(RecordStarted(EU, claim.workload, claim.epoch))
        assert self.store.state.image.attempts.row(claim.workload, claim.epoch) is not None
        return made

    # The broker.

    def stopped(self, *tasks: int, workload: WorkloadId = W1, epoch: int = 1) -> None:
        """Nothing runs of them any more."""
        self.hear(RecordTasksGone(EU, workload, epoch, self._runs(tasks, workload, epoch)))

    def failed(self, *tasks: int, cause: str = EndCause.TASK_FAILED, workload: WorkloadId = W1) -> None:
        """They ended by themselves."""
        runs = self._runs(tasks, workload, 1)
        self.hear(RecordTasksDown(EU, workload, 1, runs, cause, 1, is_gone=True))

    def again(self, *tasks: int, node: int | None = None, workload: WorkloadId = W1, epoch: int = 1) -> None:
        """They are given new runs: where they were, or on this node."""
        row = self.row(workload, epoch)
        moves = tuple(
            TaskMove(task, row.tasks[task].node, row.tasks[task].node if node is None else node)
            for task in tasks
        )
        self.hear(ReviseClaim(EU, workload, epoch, row.claim_revision + 1, moves))

    def up(self, *tasks: int, workload: WorkloadId = W1, epoch: int = 1) -> None:
        """Their newest runs are healthy."""
        self.hear(RecordTasksUp(EU, workload, epoch, self._runs(tasks, workload, epoch)))

    def done(self, *tasks: int) -> None:
        """Stopped, started again where they were, and healthy."""
        self.stopped(*tasks)
        self.again(*tasks)
        self.up(*tasks)

    def end(self, cause: EndCause, workload: WorkloadId = W1, epoch: int = 1) -> None:
        """Nothing of the attempt runs."""
        self.hear(RecordEnd(EU, workload, epoch, cause))

    def _runs(self, tasks: Iterable[int], workload: WorkloadId, epoch: int) -> tuple[tuple[int, int], ...]:
        row = self.row(workload, epoch)
        return tuple((task, row.tasks[task].run) for task in tasks)

    # Asking and answering.

    def operate(self, kind: OperationKind, *tasks: int, by: str = "user:ada", **more: Any) -> Decision:
        """Somebody wants something done to tasks of `w-1`."""
        row = self.store.state.image.control.spec_of(*attempt())
        more.setdefault("first", row.next_operation if row is not None else 0)
        return self.hear(OperateTasks(EU, *attempt(), kind, tasks, "because", requester=by, **more))

    def request(self, workload: WorkloadId = W1, epoch: int = 1) -> TaskControlRequest:
        """What its controller was asked last."""
        found = self.requests(workload, epoch)
        assert found, "nobody was asked"
        return found[-1]

    def requests(self, workload: WorkloadId = W1, epoch: int = 1) -> list[TaskControlRequest]:
        """All that its controller was asked."""
        asked = [
            request for _, decision in self.control.heard for request in said(decision, TaskControlRequest)
        ]
        return [one for one in asked if (one.job.workload, one.job.epoch) == (workload, epoch)]

    def ack(
        self,
        *operations: int,
        answer: Answer = Answer.PROCEED,
        after_checkpoint: bool = False,
        sequence: int | None = None,
        controller: str = "shards",
        tenant: str = TENANT,
        workload: WorkloadId = W1,
        epoch: int = 1,
    ) -> Decision:
        """The controller's word on the newest request, or on another."""
        acks = tuple(Ack(operation, answer, after_checkpoint) for operation in operations)
        on = self.row(workload, epoch).changed if sequence is None else sequence
        response = TaskControlResponse(EU, TenantName(tenant), controller, workload, epoch, on, acks)
        decision = self.control.hear(response, sender=f"controller.{controller}")
        self._deliver(decision)
        self.settle()
        return decision

    # Time.

    def hear(self, message: Message, sender: str = "somebody") -> Decision:
        """The store hears this; then task control and the store talk until nothing is left to say."""
        decision = self.store.hear(message, sender=sender)
        self._forward()
        self.settle()
        return decision

    def settle(self) -> None:
        """Whatever is due now."""
        self._deliver(self.control.wake())

    def wait(self, span: Nanoseconds) -> None:
        """So much time passes; both clocks go alike."""
        end = after(self.control.now, span)
        while (due := self.control.component.due(self.control.state)) is not None and due <= end:
            self._tick(due)
            self.settle()
        self._tick(end)
        self.settle()

    def _tick(self, at: Any) -> None:
        self.control.now = max(self.control.now, at)
        self.store.wake(self.control.now)
        self._forward()

    def _deliver(self, decision: Decision) -> None:
        for message in decision.messages:
            if type(message) in self.store.component.hears:
                self.store.hear(message, sender=self.control.component.name)
        self._forward()
        if (due := self.control.component.due(self.control.state)) is not None and due <= self.control.now:
            self._deliver(self.control.wake())

    def _forward(self) -> None:
        fresh = self.store.logs[EU_LOG][self.told :]
        self.told += len(fresh)
        self.facts.extend(fact.event for fact in fresh if isinstance(fact.event, Event))
        for fact in fresh:
            self.control.logs[EU_LOG].append(replace(fact, heard_at=self.control.now))
            self.control.fold(self.control.logs[EU_LOG][-1])

    # Looking.

    def row(self, workload: WorkloadId = W1, epoch: int = 1) -> AttemptControl:
        """What the store's image has of it."""
        row: AttemptControl | None = self.store.state.image.control.row(workload, epoch)
        assert row is not None, (workload, epoch)
        return row

    def recorded(self, kind: type[Event]) -> list[Any]:
        """All facts of one type."""
        return [event for event in self.facts if isinstance(event, kind)]


def a_service(
    tasks: int = 4, *, control: ControlSpec = SHARDS, workload: str = "w-1", first: int = 0
) -> Claim:
    """So many tasks of one GPU that stand alone, one a node."""
    placed = {first + number: 1 for number in range(tasks)}
    claim = a_claim(workload, placed=placed, kind=Kind.SERVICE)
    return replace(claim, control=control, tenant=TENANT)


def a_gang(
    tasks: int = 2, *, control: ControlSpec = SHARDS, workload: str = "w-1", epoch: int = 1, first: int = 0
) -> Claim:
    """A gang of so many tasks of 8 GPUs, one a node."""
    placed = {first + number: 1 for number in range(tasks)}
    return replace(a_claim(workload, epoch, placed=placed, gpus=8), control=control, tenant=TENANT)


def t(rank: int, job: int = 0) -> int:
    """A task's number."""
    return task_number(job, rank)


REGION: RegionName = EU
GANG = WHOLE
