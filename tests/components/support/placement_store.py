"""A placement store with four empty nodes, awards that the queue's log shows, and services whose tasks are touched."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from components.placement_store.component import PlacementStore
from core.component import Decision
from core.events.queue import AttemptClosed, AwardReturned, RegionAdded, WorkloadAwarded
from core.images.control import AttemptControl
from core.messages.agents import ClaimAnswered
from core.messages.control import (
    BeginOperations,
    OperateTasks,
    RecordAnswer,
    RecordTasksDown,
    RecordTasksGone,
    RecordTasksUp,
    ReviseClaim,
)
from core.messages.store import DeclineAward, OrderStop, RecordEnd, RecordJoin, RecordStarted, SubmitClaim
from core.nouns.ids import GLOBAL_LOG, AgentName, AttemptKey, LogName, RegionName, TenantName, WorkloadId
from core.nouns.operation import Ack, Answer, BegunBy, ControlSpec, OperationKind, TaskMove
from core.nouns.placement import Claim
from core.nouns.reasons import Reason
from core.nouns.workload import EndCause, Kind, Phase
from tests.builders import EU, US, a_claim, an_inventory, attempt
from tests.components.support.machine import Machine
from tests.matching import said_once

Start = Callable[..., Machine[Any]]
REGIONS = (RegionAdded(EU), RegionAdded(US))
FIRST = 3
"""Sequence of the first award."""
W1, W2, W3 = WorkloadId("w-1"), WorkloadId("w-2"), WorkloadId("w-3")


def a_store(start: Start, *, unknown: tuple[LogName, ...] = ()) -> Machine[Any]:
    """Worker `w0` with nodes 0 to 3 of 8 GPUs each has joined, and the queue's log shows two regions."""
    machine = start(PlacementStore(EU), unknown=unknown)
    if GLOBAL_LOG not in unknown:
        machine.fact(GLOBAL_LOG, *REGIONS)
    machine.hear(RecordJoin(EU, an_inventory()))
    return machine


def award(machine: Machine[Any], workload: str = "w-1", epoch: int = 1, region: RegionName = EU) -> int:
    """The queue's log shows this award standing. Returns its sequence."""
    return machine.fact(GLOBAL_LOG, WorkloadAwarded(WorkloadId(workload), epoch, region, 0, ()))


def close(machine: Machine[Any], workload: str = "w-1", epoch: int = 1) -> int:
    """The queue's log shows that the attempt is closed."""
    closed = AttemptClosed(WorkloadId(workload), epoch, EndCause.PREEMPTED, Phase.PENDING, EU, 1)
    return machine.fact(GLOBAL_LOG, closed)


def give_back(machine: Machine[Any], workload: str = "w-1", epoch: int = 1) -> int:
    """The queue's log shows that the award was returned."""
    return machine.fact(GLOBAL_LOG, AwardReturned(WorkloadId(workload), epoch, "", EU, 1))


def claim(machine: Machine[Any], made: Claim) -> Decision:
    """An agent claims."""
    return machine.hear(SubmitClaim(EU, made))


def place(
    machine: Machine[Any], workload: str = "w-1", placed: dict[int, int] | None = None, **parts: Any
) -> Claim:  # Any: parts of a claim
    """It is awarded, and granted exactly this."""
    made = a_claim(workload, placed=placed, award_sequence=award(machine, workload), **parts)
    assert "granted" == verdict(claim(machine, made))
    return made


def promise(
    machine: Machine[Any],
    workload: str,
    placed: dict[int, int],
    victims: tuple[AttemptKey, ...],
    priority: int = 5,
) -> Claim:
    """It is awarded, and promised this."""
    made = a_claim(
        workload, placed=placed, victims=victims, priority=priority, award_sequence=award(machine, workload)
    )
    assert "promised" == verdict(claim(machine, made))
    return made


def answer(decision: Decision) -> ClaimAnswered:
    """What the agent hears."""
    return said_once(decision, ClaimAnswered)


def verdict(decision: Decision) -> str:
    """The word of it that counts."""
    return answer(decision).verdict


def refusal(decision: Decision) -> tuple[str, str]:
    """The verdict and the reason."""
    told = answer(decision)
    return told.verdict, told.reason


def stop(
    machine: Machine[Any], workload: str = "w-1", cause: EndCause = EndCause.CANCELLED, by: str = ""
) -> Decision:
    """It must end."""
    return machine.hear(OrderStop(EU, *attempt(workload), cause, WorkloadId(by)))


def end(machine: Machine[Any], workload: str = "w-1", cause: EndCause = EndCause.COMPLETED) -> Decision:
    """No node runs any of it."""
    return machine.hear(RecordEnd(EU, *attempt(workload), cause))


def decline(
    machine: Machine[Any],
    workload: str = "w-1",
    epoch: int = 1,
    *,
    reason: Reason = Reason.NO_CAPACITY,
    sequence: int = FIRST,
) -> Decision:
    """The region will not start it."""
    return machine.hear(DeclineAward(EU, WorkloadId(workload), epoch, sequence, reason))


# Tasks, and operations on them.

SHARDS = ControlSpec("shards", unavailable_max=9)
"""A controller decides; the job's own limit is out of the way."""


def serve(
    machine: Machine[Any],
    placed: dict[int, int] | None = None,
    *,
    workload: str = "w-1",
    control: ControlSpec = SHARDS,
    kind: Kind = Kind.SERVICE,
    is_started: bool = True,
    **parts: Any,  # Any: parts of a claim
) -> Claim:
    """A service of so many tasks on each node, two on the first two by default, is granted and up; or a gang."""
    made = a_claim(
        workload,
        placed=placed or {0: 2, 1: 2},
        award_sequence=award(machine, workload),
        kind=kind,
        **parts,
    )
    made = replace(made, tenant=TenantName("ml"), control=control)
    assert "granted" == verdict(claim(machine, made))
    if is_started:
        machine.hear(RecordStarted(EU, *attempt(workload)))
    return made


def row_of(machine: Machine[Any], workload: str = "w-1") -> AttemptControl:
    """What the store's log shows of its tasks."""
    row = machine.state.image.control.spec_of(*attempt(workload))
    assert isinstance(row, AttemptControl)
    return row


def operate(
    machine: Machine[Any],
    kind: OperationKind,
    *tasks: int,
    workload: str = "w-1",
    source: str = "",
    deadline: int = 0,
    by: str = "user:ada",
    sender: str = "somebody",
) -> Decision:
    """Somebody wants this to happen to these tasks, or to all; asked for on what is so now."""
    known = machine.state.image.control.spec_of(*attempt(workload))
    first = known.next_operation if known is not None else 1
    asked = OperateTasks(EU, *attempt(workload), kind, tasks, "because", source, deadline, by, first)
    return machine.hear(asked, sender=sender)


def consent(
    machine: Machine[Any],
    *operations: int,
    workload: str = "w-1",
    answer: Answer = Answer.PROCEED,
    after_checkpoint: bool = False,
    sequence: int | None = None,
) -> Decision:
    """Its controller acknowledges these, on the newest request unless told otherwise."""
    acks = tuple(Ack(operation, answer, after_checkpoint) for operation in operations)
    given_on = row_of(machine, workload).changed if sequence is None else sequence
    return machine.hear(RecordAnswer(EU, *attempt(workload), given_on, acks))


def begin(
    machine: Machine[Any], *operations: int, by: BegunBy = BegunBy.ACK, workload: str = "w-1"
) -> Decision:
    """Task control says that these may begin."""
    return machine.hear(BeginOperations(EU, *attempt(workload), operations, by))


def agreed(
    machine: Machine[Any], kind: OperationKind, *tasks: int, workload: str = "w-1", **parts: Any
) -> Decision:  # Any: parts of the asking
    """Asked for, acknowledged and begun: what its begin records."""
    first = row_of(machine, workload).next_operation
    operate(machine, kind, *tasks, workload=workload, **parts)
    numbers = range(first, row_of(machine, workload).next_operation)
    consent(machine, *numbers, workload=workload)
    return begin(machine, *numbers, workload=workload)


def runs(machine: Machine[Any], tasks: tuple[int, ...], workload: str = "w-1") -> tuple[tuple[int, int], ...]:
    """These tasks with their newest runs."""
    known = row_of(machine, workload).tasks
    return tuple((task, known[task].run) for task in tasks)


def fail(
    machine: Machine[Any],
    *tasks: int,
    cause: EndCause = EndCause.TASK_FAILED,
    is_gone: bool = True,
    workload: str = "w-1",
) -> Decision:
    """They fail, and nothing of them is left."""
    newest = runs(machine, tasks, workload)
    return machine.hear(RecordTasksDown(EU, *attempt(workload), newest, cause, 1, is_gone))


def gone(machine: Machine[Any], *tasks: int, workload: str = "w-1") -> Decision:
    """Nothing of their newest runs is left."""
    return machine.hear(RecordTasksGone(EU, *attempt(workload), runs(machine, tasks, workload)))


def up(machine: Machine[Any], *tasks: int, workload: str = "w-1") -> Decision:
    """Their newest runs are healthy."""
    return machine.hear(RecordTasksUp(EU, *attempt(workload), runs(machine, tasks, workload)))


def revise(
    machine: Machine[Any],
    *moves: tuple[int, int, int],
    agent: str = "a0",
    revision: int | None = None,
    workload: str = "w-1",
) -> Decision:
    """An agent found room: each task with where it was and where it goes. No agent: they stay."""
    number = row_of(machine, workload).claim_revision + 1 if revision is None else revision
    found = tuple(TaskMove(*move) for move in moves)
    return machine.hear(ReviseClaim(EU, *attempt(workload), number, found, AgentName(agent)))
