"""The placement store's records of nodes: joins, losses and returns, drains, maintenance, quarantine and suspicion.

Requests of operators are answered, with every problem at once. Reports of the broker and of task control are dropped when the log
shows that they no longer apply.
"""

from collections.abc import Callable

from components.placement_store.node_joins import is_too_large, joining
from components.placement_store.pool_moves import opened, parts_of, pooled
from components.placement_store.state import StoreState
from components.placement_store.task_runs import leaves
from components.replies import answered, refused
from core.component import NOTHING, Decision
from core.events.control import (
    DomainLost,
    MaintenanceMoved,
    MaintenancePlanned,
    NodesClosed,
    NodesOpened,
)
from core.events.region import NodesLost, NodesReturned
from core.fact import Event
from core.images.capacity import Capacity
from core.messages.base import Envelope, Message
from core.messages.nodes import (
    CancelMaintenance,
    CloseNodes,
    DrainNodes,
    LiftDrain,
    MoveMaintenance,
    NodesAnswered,
    OpenNodes,
    PlanMaintenance,
    RecordDomainLoss,
    ReleaseNodes,
    UndrainNodes,
)
from core.messages.store import RecordJoin, RecordLoss, RecordReturn
from core.nouns.ids import WorkerName, WorkloadId
from core.nouns.limits import (
    DEFRAGMENTATION_SPAN_MAX,
    MAINTENANCE_AHEAD_MAX,
    MAINTENANCE_LEAD_MAX,
    MAINTENANCE_SPAN_MAX,
    NAME_LENGTH_MAX,
    REASON_LENGTH_MAX,
    SCOPE_NAMES_MAX,
)
from core.nouns.maintenance import ClosureKind, MaintenancePhase, Scope, ScopeKind
from core.nouns.operation import DRAIN, MAINTENANCE, OperationKind, OperationPhase
from core.nouns.placement import numbers_in, runs_of
from core.nouns.reasons import Reason
from core.rules.scopes import is_vacant, lifts_itself, nodes_in, vacated

QUARANTINE = "quarantine"
SUSPICION = "suspicion"
SOURCES = {ClosureKind.QUARANTINE: QUARANTINE, ClosureKind.SUSPECT: SUSPICION}
"""Source by kind, for the closures that a region has once; each drain and each maintenance has a name of its own."""
SCATTERED = "scope: its nodes are too scattered to be told in one fact; name fewer at once"
TIME_OVER = "its time is over"
NEXT_PHASE = {
    MaintenancePhase.NOTICED: (MaintenancePhase.PLANNED,),
    MaintenancePhase.OPEN: (MaintenancePhase.NOTICED,),
    MaintenancePhase.OVER: (MaintenancePhase.OPEN,),
}
"""The phases from which each phase is entered when its time has come."""


HEARD_OF_NODES: tuple[type[Message], ...] = (
    RecordJoin,
    RecordLoss,
    RecordDomainLoss,
    RecordReturn,
    DrainNodes,
    UndrainNodes,
    LiftDrain,
    PlanMaintenance,
    CancelMaintenance,
    MoveMaintenance,
    CloseNodes,
    OpenNodes,
    ReleaseNodes,
)


class NodeRecords:
    """The store's deciders for nodes."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            RecordJoin: self._join,
            RecordLoss: self._loss,
            RecordDomainLoss: self._domain_loss,
            RecordReturn: self._return,
            DrainNodes: self._drain,
            UndrainNodes: self._undrain,
            LiftDrain: self._lift,
            PlanMaintenance: self._plan,
            CancelMaintenance: self._cancel,
            MoveMaintenance: self._move,
            CloseNodes: self._close,
            OpenNodes: self._open,
            ReleaseNodes: self._release,
        }

    # Joins, losses, returns.

    def _join(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordJoin)
        return joining(state, message)

    def _loss(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordLoss)
        lost = _silent(state.image.capacity, (message.worker,), message.sequence)
        if not lost:
            return NOTHING
        nodes = state.image.capacity.workers[message.worker].inventory.numbers()
        return Decision(events=(NodesLost(message.worker, tuple(nodes)),))

    def _domain_loss(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecordDomainLoss)
        capacity = state.image.capacity
        lost = _silent(capacity, message.workers, message.sequence)
        if not lost:
            return NOTHING
        return Decision(events=_domain_losses(capacity, message.domain, lost))

    def _return(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record the return of a lost worker's nodes, once no gang that the loss must end still holds one of them."""
        message = envelope.message
        assert isinstance(message, RecordReturn)
        capacity = state.image.capacity
        row = capacity.workers.get(message.worker)
        if row is None or not row.is_lost or row.sequence > message.sequence:
            return NOTHING
        nodes = tuple(row.inventory.numbers())
        mine = set(nodes)
        for workload, epoch, held in capacity.live():
            if self._outlives_loss(state, workload, epoch):
                continue
            if any(not mine.isdisjoint(spread.nodes) for spread in held.claim.spreads):
                return NOTHING
        events: list[Event] = [NodesReturned(message.worker, nodes)]
        for key in state.image.control.all_keys():
            control = state.image.control.row(*key)
            if control is not None and control.stands_alone:
                # Tasks on these nodes that stop for good are gone with the return.
                stops = {
                    operation.task: number
                    for number, operation in control.operations.items()
                    if operation.kind is OperationKind.STOP and operation.phase is OperationPhase.BEGUN
                    if operation.task in control.tasks and control.tasks[operation.task].node in mine
                }
                events.extend(leaves(control, *key, stops))
        return Decision(events=tuple(events))

    def _outlives_loss(self, state: StoreState, workload: WorkloadId, epoch: int) -> bool:
        """Return whether an attempt outlives the loss of a node: independent tasks do, and a gang that is paused in place."""
        row = state.image.control.row(workload, epoch)
        return row is not None and (row.stands_alone or row.is_paused)

    # Drains.

    def _drain(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, DrainNodes)
        maintenance = state.image.maintenance
        for source, closure in state.image.capacity.closures.items():
            if message.key and closure.key == message.key:
                count = len(numbers_in(closure.nodes))
                return answered(NodesAnswered(source, count, maintenance.revision))
        nodes, problems = _named(state.image.capacity, message.scope)
        if problems:
            return refused(Reason.UNKNOWN_PLACE, problems)
        if message.deadline < 0:
            return refused(Reason.WINDOW_PAST, ("deadline: it must not be negative",))
        wrong = _too_long(message.reason, message.by, message.key)
        if message.deadline > MAINTENANCE_AHEAD_MAX:
            wrong.append("deadline: it is a year ahead at most")
        if not 0 <= message.lasts <= DEFRAGMENTATION_SPAN_MAX:
            wrong.append("lasts: it must not be negative, and a day is the most")
        if wrong:
            return refused(Reason.INVALID, tuple(wrong))
        if message.revision != maintenance.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {maintenance.revision} now",))
        newest = max(state.image.capacity.changed[node] for node in nodes)
        if 0 < message.sequence < newest:
            return refused(Reason.SUPERSEDED, (f"sequence: one of them changed at {newest}",))
        source = f"{DRAIN}{maintenance.drains + 1}"
        closed = NodesClosed(
            source,
            ClosureKind.DRAIN,
            runs_of(nodes),
            message.reason,
            message.deadline,
            message.by,
            # A scope of nodes means these nodes alone; to any other scope more nodes may join.
            scope=message.scope if message.scope.kind is not ScopeKind.NODE else None,
            lasts=message.lasts,
            key=message.key,
        )
        if is_too_large(closed):
            return refused(Reason.TOO_LARGE, (SCATTERED,))
        return answered(NodesAnswered(source, len(nodes), message.revision + 1), closed)

    def _undrain(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, UndrainNodes)
        maintenance, closures = state.image.maintenance, state.image.capacity.closures
        drains = {source: one for source, one in closures.items() if one.kind is ClosureKind.DRAIN}
        if message.drain:
            drains = {source: one for source, one in drains.items() if source == message.drain}
            nodes = [node for closure in drains.values() for node in numbers_in(closure.nodes)]
        else:
            nodes, problems = _named(state.image.capacity, message.scope)
            if problems:
                return refused(Reason.UNKNOWN_PLACE, problems)
        if message.revision != maintenance.revision:
            return refused(Reason.SUPERSEDED, (f"revision: it is {maintenance.revision} now",))
        wrong = _too_long("", message.by)
        if wrong:
            return refused(Reason.INVALID, tuple(wrong))
        events = [
            NodesOpened(source, closure.kind, runs, "undrained", message.by)
            for source, closure in drains.items()
            for runs in parts_of(set(numbers_in(closure.nodes)) & set(nodes))
        ]
        if not events:
            return refused(Reason.NOT_DRAINED)
        count = len({node for event in events for node in numbers_in(event.nodes)})
        names = ",".join(dict.fromkeys(event.source for event in events))
        revision = maintenance.revision + len(events)
        return Decision(tuple(events), (NodesAnswered(names, count, revision),))

    def _lift(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, LiftDrain)
        capacity = state.image.capacity
        if not lifts_itself(state.image, message.drain, envelope.at):
            return NOTHING  # A task came back to a node, or the sender's clock is ahead of the store's.
        closure = capacity.closures[message.drain]
        nodes = numbers_in(closure.nodes)
        if closure.pool:
            free = vacated(state.image, closure)
            events: list[Event] = [*pooled(free, closure.pool, state.image.pools.plan.number)]
            events += opened(message.drain, free, f"they are in pool {closure.pool} now")
            if closure.at + closure.lasts <= envelope.at:
                events += opened(message.drain, sorted(set(nodes) - set(free)), TIME_OVER)
            return Decision(tuple(events))
        is_free = all(is_vacant(capacity, node) for node in nodes)
        return Decision(opened(message.drain, nodes, "its nodes are free" if is_free else TIME_OVER))

    # Maintenance.

    def _plan(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, PlanMaintenance)
        for name, row in state.image.maintenance.rows.items():
            if message.key and row.key == message.key:
                return answered(
                    NodesAnswered(name, len(numbers_in(row.nodes)), state.image.maintenance.revision)
                )
        nodes, unknown = _named(state.image.capacity, message.scope)
        if unknown:
            return refused(Reason.UNKNOWN_PLACE, unknown)
        if message.starts_in < 0:
            return refused(Reason.WINDOW_PAST, ("starts_in: the window begins in the past",))
        known = state.image.maintenance.planned
        if message.planned != known:
            return refused(Reason.SUPERSEDED, (f"planned: it is {known} now",))
        problems = _too_long(message.reason, message.by, message.key)
        if message.starts_in > MAINTENANCE_AHEAD_MAX:
            problems.append("starts_in: the window begins a year from now at most")
        if not 0 < message.lasts <= MAINTENANCE_SPAN_MAX:
            problems.append("lasts: the window must last more than nothing, and 30 days at most")
        if not 0 <= message.lead <= MAINTENANCE_LEAD_MAX:
            problems.append("lead: notice is given 7 days before the window at most")
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        name = f"{MAINTENANCE}{state.image.maintenance.planned + 1}"
        planned = MaintenancePlanned(
            name,
            message.kind,
            message.scope,
            runs_of(nodes),
            message.starts_in,
            message.lasts,
            message.lead,
            message.reason,
            message.by,
            message.key,
        )
        if is_too_large(planned):
            return refused(Reason.TOO_LARGE, (SCATTERED,))
        return answered(NodesAnswered(name, len(nodes), state.image.maintenance.revision), planned)

    def _cancel(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, CancelMaintenance)
        row = state.image.maintenance.rows.get(message.maintenance)
        if row is None:
            return refused(Reason.UNKNOWN_MAINTENANCE)
        problems = _too_long(message.reason, message.by)
        if problems:
            return refused(Reason.INVALID, tuple(problems))
        is_open = row.phase is MaintenancePhase.OPEN
        phase = MaintenancePhase.OVER if is_open else MaintenancePhase.CANCELLED
        events = self._moved(state, message.maintenance, phase, message.reason)
        answer = NodesAnswered(
            message.maintenance, len(numbers_in(row.nodes)), state.image.maintenance.revision
        )
        return answered(answer, *events)

    def _move(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, MoveMaintenance)
        row = state.image.maintenance.rows.get(message.maintenance)
        if row is None or row.phase not in NEXT_PHASE.get(message.phase, ()):
            return NOTHING
        due = row.starts_at
        if message.phase is MaintenancePhase.NOTICED:
            due -= row.lead
        elif message.phase is MaintenancePhase.OVER:
            due += row.lasts
        if envelope.at < due:
            return NOTHING  # The sender's clock is ahead of the store's.
        return Decision(events=tuple(self._moved(state, message.maintenance, message.phase, "")))

    def _moved(
        self, state: StoreState, maintenance: str, phase: MaintenancePhase, reason: str
    ) -> list[Event]:
        """Return the facts of a maintenance's new phase.

        The nodes are closed with the notice, and opened just before the maintenance is over, because no later fact would open them.
        """
        row = state.image.maintenance.rows[maintenance]
        moved = MaintenanceMoved(maintenance, phase, reason)
        if phase is MaintenancePhase.NOTICED:
            why = row.reason or row.kind
            return [moved, NodesClosed(maintenance, ClosureKind.MAINTENANCE, row.nodes, why)]
        if maintenance in state.image.capacity.closures and not phase.is_active:
            why = f"maintenance {phase}"
            return [NodesOpened(maintenance, ClosureKind.MAINTENANCE, row.nodes, why), moved]
        return [moved]

    # Quarantine and suspicion.

    def _close(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, CloseNodes)
        capacity = state.image.capacity
        source = SOURCES.get(message.kind, "")
        known = capacity.closures.get(source)
        already = set(numbers_in(known.nodes)) if known else set()
        there = [node for node in message.nodes if capacity.has_node(node) and node not in already]
        nodes = _unchanged_since(capacity, there, message.sequence)
        if not nodes or not source:
            return NOTHING
        return Decision(
            events=tuple(
                NodesClosed(source, message.kind, runs, message.reason, until_checked=message.until_checked)
                for runs in parts_of(nodes)
            )
        )

    def _open(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, OpenNodes)
        source = SOURCES.get(message.kind, "")
        capacity = state.image.capacity
        nodes = _unchanged_since(capacity, _closed_by(capacity, source, message.nodes), message.sequence)
        if not nodes:
            return NOTHING
        return Decision(
            events=tuple(NodesOpened(source, message.kind, runs, message.reason) for runs in parts_of(nodes))
        )

    def _release(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, ReleaseNodes)
        nodes, problems = _named(state.image.capacity, message.scope)
        if problems:
            return refused(Reason.UNKNOWN_PLACE, problems)
        too_long = _too_long(message.reason, message.by)
        if too_long:
            return refused(Reason.INVALID, tuple(too_long))
        mine = _closed_by(state.image.capacity, QUARANTINE, nodes)
        revision = state.image.maintenance.revision
        if not mine:
            return answered(NodesAnswered(QUARANTINE, 0, revision))
        newest = max(state.image.capacity.changed[node] for node in mine)
        if newest > message.sequence:
            return refused(Reason.SUPERSEDED, (f"sequence: one of them changed at {newest}",))
        opened = tuple(
            NodesOpened(QUARANTINE, ClosureKind.QUARANTINE, runs, message.reason, message.by)
            for runs in parts_of(mine)
        )
        return Decision(opened, (NodesAnswered(QUARANTINE, len(mine), revision),))


def _silent(capacity: Capacity, workers: tuple[WorkerName, ...], sequence: int) -> tuple[WorkerName, ...]:
    """Return the workers that are neither lost already, nor back since `sequence`."""
    rows = [(worker, capacity.workers.get(worker)) for worker in dict.fromkeys(workers)]
    return tuple(
        worker for worker, row in rows if row is not None and not row.is_lost and row.sequence <= sequence
    )


def _domain_losses(
    capacity: Capacity, domain: str, workers: tuple[WorkerName, ...]
) -> tuple[DomainLost, ...]:
    """Return one fact, or several if the nodes of so many workers are too scattered for one."""
    nodes = [node for worker in workers for node in capacity.workers[worker].inventory.numbers()]
    whole = DomainLost(domain, workers, runs_of(nodes))
    half = len(workers) // 2
    if not half or not is_too_large(whole):
        return (whole,)
    return _domain_losses(capacity, domain, workers[:half]) + _domain_losses(capacity, domain, workers[half:])


def _unchanged_since(capacity: Capacity, nodes: list[int], sequence: int) -> list[int]:
    """Return the nodes without a change since the sender's view; all of them if `sequence` is 0, because the view is unknown."""
    return [node for node in nodes if not sequence or capacity.changed[node] <= sequence]


def _too_long(reason: str, by: str, key: str = "") -> list[str]:
    found = []
    if len(reason) > REASON_LENGTH_MAX:
        found.append(f"reason: {REASON_LENGTH_MAX} characters are the most")
    if len(by) > NAME_LENGTH_MAX:
        found.append(f"by: {NAME_LENGTH_MAX} characters are the most")
    if len(key) > NAME_LENGTH_MAX:
        found.append(f"key: {NAME_LENGTH_MAX} characters are the most")
    return found


def _named(capacity: Capacity, scope: Scope) -> tuple[list[int], tuple[str, ...]]:
    if len(scope.names) > SCOPE_NAMES_MAX:
        return [], (f"{scope.kind}: {SCOPE_NAMES_MAX} names are the most at once",)
    nodes, unknown = nodes_in(capacity, scope)
    problems = tuple(f"{scope.kind}: there is no {name[:NAME_LENGTH_MAX]}" for name in unknown)
    if not nodes and not problems:
        problems = (f"{scope.kind}: none is named",)
    return nodes, problems


def _closed_by(capacity: Capacity, source: str, nodes: list[int] | tuple[int, ...]) -> list[int]:
    closure = capacity.closures.get(source)
    return sorted(set(numbers_in(closure.nodes)) & set(nodes)) if closure else []
