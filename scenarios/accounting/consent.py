"""The accounts of consent: what was done to tasks with their application's word, without it, and too early.

Kept from facts alone, as somebody outside the plane sees them: an operation that nobody agreed to and nothing forced, one
that was forced before its deadline, and a window that began while something that had to leave still ran.
"""

from collections import Counter

from msgspec import Struct

from core.events.control import (
    DestructionHalted,
    MaintenanceMoved,
    OperationsBegun,
    OperationsDone,
    OperationsRequested,
)
from core.events.region import AttemptEnded, ClaimPromised, PromiseRevised
from core.fact import Fact
from core.images import Image, RegionImage
from core.images.control import TaskPhase
from core.nouns.ids import LogName
from core.nouns.instant import SECOND
from core.nouns.limits import GRACE
from core.nouns.maintenance import MaintenancePhase
from core.nouns.operation import BegunBy, OperationKind, OperationPhase, Outcome
from core.nouns.placement import numbers_in

STOP_SECONDS = GRACE / SECOND + 30.0
"""From the beginning of a window until its nodes must be empty: whatever is stopped then has its grace, and is reported."""


class Window(Struct, frozen=True):
    """A window that has begun, and is to be looked at once its nodes have had time to become empty."""

    log: LogName
    maintenance: str
    nodes: tuple[int, ...]
    due_at: float


class Consent:
    """Told of each fact, and of the image as it was before."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        """Operations, by what allowed them to begin."""
        self.healthy = 0
        self.unasked = 0
        self.early = 0
        self.missed = 0
        self.windows = 0
        self.halted = 0
        self.preempt_asked = 0
        self.preempt_acked = 0
        self.preempt_forced = 0
        self.preempt_withdrawn = 0
        self.offers_taken = 0
        self.destroyed = 0
        self.claim_destroyed_max = 0
        self._open: list[Window] = []

    def take(self, fact: Fact, at: float, before: Image, images: dict[LogName, Image]) -> None:
        """A fact that became durable then."""
        self._look(at, images)
        if not isinstance(before, RegionImage):
            return
        event = fact.event
        match event:
            case OperationsBegun():
                self._count_begun(fact, event, before)
            case OperationsRequested(kind=OperationKind.PREEMPT):
                self.preempt_asked += 1
            case ClaimPromised() | PromiseRevised():
                self.offers_taken += isinstance(event, PromiseRevised)
                self.claim_destroyed_max = max(self.claim_destroyed_max, sum(event.destroyed))
            case AttemptEnded(destroyed=destroyed):
                self.destroyed += destroyed
            case OperationsDone(outcome=Outcome.WITHDRAWN):
                known = before.control.row(event.workload, event.epoch)
                kinds = [known.operations[number].kind for number in event.operations] if known else []
                self.preempt_withdrawn += kinds.count(OperationKind.PREEMPT)
            case OperationsDone(outcome=Outcome.HEALTHY):
                self.healthy += len(event.operations)
            case DestructionHalted():
                self.halted += 1
            case MaintenanceMoved(phase=MaintenancePhase.OPEN):
                row = before.maintenance.rows[event.maintenance]
                self.windows += 1
                if row.kind.needs_empty:
                    nodes = tuple(numbers_in(row.nodes))
                    self._open.append(Window(fact.log, event.maintenance, nodes, at + STOP_SECONDS))

    def figures(self, at: float, images: dict[LogName, Image]) -> dict[str, float]:
        """What it can say of a run that ends then (scenarios/schema/expectations.py)."""
        self._look(at, images)
        return {
            "operations": float(sum(self.begun.values())),
            "operations_acked": float(self.begun[BegunBy.ACK]),
            "operations_forced": float(self.begun[BegunBy.DEADLINE]),
            "operations_healthy": float(self.healthy),
            "operations_unasked": float(self.unasked),
            "early_stops": float(self.early),
            "windows": float(self.windows),
            "missed_windows": float(self.missed),
            "halts": float(self.halted),
            "victims_asked": float(self.preempt_asked),
            "victims_agreed": float(self.preempt_acked),
            "victims_forced": float(self.preempt_forced),
            "victims_spared": float(self.preempt_withdrawn),
            "offers_taken": float(self.offers_taken),
            "destroyed_gpu_seconds": float(self.destroyed),
            "destroyed_by_claim_max": float(self.claim_destroyed_max),
        }

    def _count_begun(self, fact: Fact, event: OperationsBegun, before: RegionImage) -> None:
        row = before.control.row(event.workload, event.epoch)
        assert row is not None, event
        self.begun[event.by] += len(event.operations)
        for number in event.operations:
            operation = row.operations[number]
            if operation.kind is OperationKind.PREEMPT:
                self.preempt_acked += event.by is BegunBy.ACK
                self.preempt_forced += event.by is BegunBy.DEADLINE
            if event.by is BegunBy.DEADLINE:
                self.early += operation.deadline == 0 or fact.at < operation.requested_at + operation.deadline
            elif event.by is BegunBy.ACK:
                self.unasked += operation.phase is not OperationPhase.ACKED
            else:
                self.unasked += bool(row.spec.controller)

    def _look(self, at: float, images: dict[LogName, Image]) -> None:
        for window in [window for window in self._open if window.due_at <= at]:
            self._open.remove(window)
            image = images[window.log]
            assert isinstance(image, RegionImage), window
            self.missed += _runs_on(image, window)


def _runs_on(image: RegionImage, window: Window) -> bool:
    """Whether anything runs on nodes that are being worked on. What is lost with them ran there when it began."""
    if window.maintenance not in image.maintenance.rows:
        return False  # Cancelled meanwhile, or over.
    nodes = set(window.nodes)
    for workload, epoch, held in image.capacity.live():
        if all(nodes.isdisjoint(spread.nodes) for spread in held.claim.spreads):
            continue
        row = image.control.row(workload, epoch)
        if row is None or (not row.stands_alone and not row.is_paused):
            return True
        if any(task.node in nodes and task.phase is not TaskPhase.GONE for task in row.tasks.values()):
            return True
    return False
