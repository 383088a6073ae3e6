"""A region's history in a few words: who runs where, what is closed, who was asked and what was said."""

from collections.abc import Mapping

from msgspec.structs import replace

from core.events.control import (
    ClaimRevised,
    ControlAnswered,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    OperationsBegun,
    OperationsRequested,
    OperationsStuck,
    TasksDown,
    TasksGone,
    TasksUp,
)
from core.events.region import CheckpointCommitted, ClaimGranted, GangStarted, NodesJoined
from core.fact import Event
from core.images import RegionImage
from core.nouns.fleet import Inventory, NodeGroup
from core.nouns.ids import TenantName, WorkerName, WorkloadId
from core.nouns.instant import SECOND, Instant
from core.nouns.maintenance import ClosureKind, MaintenanceKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import (
    WHOLE,
    Ack,
    Answer,
    BegunBy,
    ControlSpec,
    OperationKind,
    TaskMove,
    task_number,
)
from core.nouns.placement import runs_of
from core.nouns.workload import EndCause, Kind
from tests.builders import NODE, START, a_claim, a_job, a_spread, folded

MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
W1, W2, W3 = WorkloadId("w-1"), WorkloadId("w-2"), WorkloadId("w-3")


def at(sequence: int) -> Instant:
    """When the fact of this number was recorded: a second after the one before."""
    return Instant(START + sequence * SECOND)


def region(*events: Event) -> RegionImage:
    """Eight nodes in four racks of two: `w0` has racks 0 and 1 in zone-0, `w1` the others in zone-1; and what happened then."""
    return folded(RegionImage.empty(), [nodes("w0", 0), nodes("w1", 4), *events])


def nodes(worker: str, first: int, *, power: str = "", pool: str = "training", rack: int = -1) -> NodesJoined:
    """Four of them."""
    zone = f"zone-{first // 4}"
    group = NodeGroup(first, 4, NODE, "H100", first // 2 if rack < 0 else rack, 2, zone, power, pool)
    return NodesJoined(WorkerName(worker), Inventory(WorkerName(worker), (group,)))


def gang(workload: str, placed: Mapping[int, int], controller: str = "", epoch: int = 1) -> tuple[Event, ...]:
    """One that runs."""
    claim = a_claim(workload, epoch, placed)
    spec = ControlSpec(controller=controller)
    claim = replace(claim, tenant=TenantName("ml"), control=spec)
    key = (claim.workload, claim.epoch)
    return ClaimGranted(*key, claim, False), GangStarted(*key)


def service(
    workload: str, placed: Mapping[int, int], controller: str = "", unavailable_max: int = 0
) -> tuple[Event, ...]:
    """Tasks that stand alone, and run; they are numbered node by node."""
    claim = a_claim(workload, 1, placed, kind=Kind.SERVICE)
    spec = ControlSpec(controller=controller, unavailable_max=unavailable_max)
    claim = replace(claim, tenant=TenantName("ml"), control=spec)
    key = (claim.workload, claim.epoch)
    return ClaimGranted(*key, claim, False), GangStarted(*key)


def two_jobs(workload: str, first: Mapping[int, int], second: Mapping[int, int]) -> tuple[Event, ...]:
    """A gang of two."""
    jobs = (a_job(sum(first.values()), name="train"), a_job(sum(second.values()), name="eval"))
    claim = a_claim(workload, 1, jobs=jobs, spreads=(a_spread(first), a_spread(second)))
    return ClaimGranted(claim.workload, 1, claim, False), GangStarted(claim.workload, 1)


def drained(*closed: int, source: str = "d-1", deadline: int = 0) -> NodesClosed:
    """These nodes, by Ada."""
    return NodesClosed(source, ClosureKind.DRAIN, runs_of(closed), "new PDU", deadline, "ada@desk")


def planned(
    *closed: int,
    source: str = "m-1",
    kind: MaintenanceKind = MaintenanceKind.POWER,
    starts_in: int = HOUR,
    lead: int = 30 * MINUTE,
) -> MaintenancePlanned:
    """A window of 90 minutes on these nodes."""
    scope = Scope(ScopeKind.NODE, tuple(str(node) for node in closed))
    return MaintenancePlanned(
        source, kind, scope, runs_of(closed), starts_in, 90 * MINUTE, lead, "new PDU", "ada@desk"
    )


def noticed(*closed: int, source: str = "m-1") -> tuple[Event, ...]:
    """As the store records it: the nodes are closed in the same batch."""
    phase = MaintenanceMoved(source, MaintenancePhase.NOTICED)
    return phase, NodesClosed(source, ClosureKind.MAINTENANCE, runs_of(closed), "new PDU")


def opens(source: str = "m-1") -> MaintenanceMoved:
    """Its window has come."""
    return MaintenanceMoved(source, MaintenancePhase.OPEN)


def asked(
    workload: str,
    *tasks: int,
    source: str = "d-1",
    kind: OperationKind = OperationKind.MOVE,
    deadline: int = 0,
    first: int = 1,
    requester: str = "operator:ada@desk",
) -> OperationsRequested:
    """An operation for each of the tasks, by rank in the first job; for none, the whole gang."""
    numbers = tuple(task_number(0, rank) for rank in tasks) or (WHOLE,)
    return OperationsRequested(
        WorkloadId(workload), 1, first, kind, numbers, "new PDU", source, deadline, requester
    )


def answered(workload: str, *acks: Ack) -> ControlAnswered:
    """Its controller's word."""
    return ControlAnswered(WorkloadId(workload), 1, 0, acks)


def ack(operation: int = 1, answer: Answer = Answer.PROCEED, *, after_checkpoint: bool = False) -> Ack:
    """On one operation."""
    return Ack(operation, answer, after_checkpoint)


def begun(workload: str, *operations: int) -> OperationsBegun:
    """They are carried out now."""
    return OperationsBegun(WorkloadId(workload), 1, operations or (1,), BegunBy.ACK, "operator:ada@desk")


def stuck(workload: str, operation: int = 1) -> OperationsStuck:
    """It takes too long."""
    return OperationsStuck(WorkloadId(workload), 1, (operation,))


def gone(workload: str, *ranks: int) -> TasksGone:
    """Nothing of them runs; of none, nothing of the gang."""
    return TasksGone(WorkloadId(workload), 1, tuple(task_number(0, rank) for rank in ranks) or (WHOLE,))


def failed(workload: str, rank: int, *, is_gone: bool = False) -> TasksDown:
    """One of its tasks, by itself."""
    cause = EndCause.TASK_FAILED
    return TasksDown(WorkloadId(workload), 1, (task_number(0, rank),), cause, 1, is_gone)


def moved(workload: str, rank: int, node_from: int, node_to: int, revision: int = 1) -> ClaimRevised:
    """Its next run is there."""
    move = TaskMove(task_number(0, rank), node_from, node_to)
    return ClaimRevised(WorkloadId(workload), 1, revision, (move,))


def up(workload: str, rank: int) -> TasksUp:
    """It is healthy."""
    return TasksUp(WorkloadId(workload), 1, (task_number(0, rank),))


def saved(workload: str, step: int) -> CheckpointCommitted:
    """A checkpoint of it."""
    return CheckpointCommitted(WorkloadId(workload), 1, step)
