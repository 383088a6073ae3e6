"""Health: which workers a region's broker takes for silent, lost or flapping, and which nodes for ill or for black holes.

The memory is the broker's own: when each worker was last heard, and the latest reports about nodes. The conclusions are
commands to the store, repeated until the log shows them.

    worker silent for SUSPECT_SILENCE          suspected: no new task is placed there until the worker is heard again
    worker silent for PRESENCE_SILENCE_MAX     lost; workers of one power domain or zone that fall due together are one loss
    all workers silent                         no worker is lost before one is heard or REGION_PATIENCE has passed
    worker lost more than FLAPS_MAX times      taken back only after beats without a gap, for longer after each loss
    node fails the tasks that start there      in quarantine until an operator releases the node
    worker reports a node as ill               in quarantine until the node passes a check

Silence counts only while the broker's own round trip works, from zero after the broker's start and after the bus's return.
"""

from collections.abc import Iterable

from core.agenda import Agenda
from core.events.control import DomainLost, NodesClosed, NodesOpened, TasksDown
from core.events.region import AttemptEnded, NodesJoined, NodesLost, NodesReturned
from core.fact import Fact, Note
from core.images.capacity import Capacity
from core.images.closures import ClosedNode
from core.messages.base import Message
from core.messages.nodes import CloseNodes, OpenNodes, RecordDomainLoss
from core.messages.store import RecordLoss
from core.messages.workers import CheckNodes, NodesChecked
from core.nouns.fleet import Inventory
from core.nouns.ids import RegionName, WorkerName
from core.nouns.instant import Instant, Nanoseconds, after, earliest
from core.nouns.limits import (
    CLOSED_AT_ONCE_MAX,
    COMMAND_SAY_AGAIN,
    DOMAIN_LOSS_WORKERS_MAX,
    DOMAIN_PATIENCE,
    FLAP_HOLD,
    FLAP_HOLD_MAX,
    FLAPS_MAX,
    PRESENCE_SILENCE_MAX,
    QUARANTINE_CHECK,
    REGION_PATIENCE,
    REGION_WORKERS_MIN,
    SUSPECT_SILENCE,
)
from core.nouns.maintenance import ClosureKind
from core.nouns.placement import numbers_in
from core.rules.health import failures_in_a_row, may_quarantine

Ill = tuple[tuple[int, str], ...]
"""Nodes, each with a text that describes the fault."""
MISSED = "missed beats"
HEARD = "heard again"
PASSED = "passed a check"


class WorkersWatched(Note, frozen=True):
    """The silence of these workers was judged; each is judged again at the given time, or if None when heard."""

    again: tuple[tuple[WorkerName, Instant | None], ...]


class NodesAccused(Note, frozen=True):
    """Quarantine was requested for these black holes; the request is repeated at `again_at`."""

    nodes: tuple[int, ...]
    again_at: Instant | None


class ChecksAsked(Note, frozen=True):
    """Checks of nodes in quarantine were requested; the next request is due at `again_at`."""

    again_at: Instant | None


class NodeHealth:
    """When each worker was last heard, and the latest reports about nodes."""

    def __init__(self, at: Instant) -> None:
        self.heard: dict[WorkerName, Instant] = {}
        """The time from which each worker's silence counts."""
        self.beating: dict[WorkerName, Instant] = {}
        """The start of each worker's beats without a gap; only workers heard since silence counts."""
        self.heard_any = at
        """When any worker was last heard."""
        self.is_bus_lost = False
        self.ill: dict[WorkerName, Ill] = {}
        """Ill nodes by worker, as in the newest beat."""
        self.suspects: dict[WorkerName, None] = {}
        """Workers with at least one suspected node in the log."""
        self.domains: dict[WorkerName, str] = {}
        self.mates: dict[str, list[WorkerName]] = {}
        """Workers by domain."""
        self.workers_due: Agenda[WorkerName] = Agenda()
        self.accused: dict[int, None] = {}
        """Nodes on which work failed lately: each may be a black hole."""
        self.accuse_at: Instant | None = None
        self.check_at: Instant | None = None

    def due(self) -> Instant | None:
        """Return when to look next."""
        return earliest(self.workers_due.due(), self.accuse_at, self.check_at)

    # Folding.

    def adopt(self, capacity: Capacity, at: Instant) -> None:
        """Adopt an image of the region; every worker's silence counts from now."""
        self.domains, self.mates, self.suspects = {}, {}, {}
        for worker in capacity.workers:
            self._know(capacity, worker)
        for closure in capacity.closures.values():
            if closure.kind is ClosureKind.SUSPECT:
                self.suspects = _workers_of(capacity, numbers_in(closure.nodes))
        self.accused = dict.fromkeys(capacity.failures.by_node)
        self.accuse_at = at if self.accused else None
        self.check_at = after(at, QUARANTINE_CHECK) if _to_check(capacity) else None
        self.count_from(capacity, at)

    def count_from(self, capacity: Capacity, at: Instant) -> None:
        """Count every worker's silence from `at`."""
        self.heard_any = at
        self.beating = {}
        self.workers_due = Agenda()
        for worker, row in capacity.workers.items():
            self.heard[worker] = at
            if not row.is_lost:
                self.workers_due.put(worker, after(at, SUSPECT_SILENCE))

    def bus_seen(self, capacity: Capacity, at: Instant, *, is_back: bool) -> None:
        """Record that the broker's own round trip fails, or works again."""
        self.is_bus_lost = not is_back
        self.count_from(capacity, at)

    def hear(self, capacity: Capacity, worker: WorkerName, at: Instant, ill: Ill | None) -> None:
        """Record that a worker was heard. `ill` has the ill nodes of a beat; None: the message was no beat."""
        if self._is_region_silent(capacity, at):
            self.count_from(capacity, at)
        last = self.heard.get(worker, at)
        if worker not in self.beating or after(last, SUSPECT_SILENCE) <= at:
            self.beating[worker] = at
        self.heard[worker] = self.heard_any = at
        if ill is not None:
            self.ill[worker] = ill
        row = capacity.workers.get(worker)
        if row is None or row.is_lost:
            return
        if worker in self.suspects:
            self.workers_due.put(worker, at)
        elif worker not in self.workers_due:
            self.workers_due.put(worker, after(at, SUSPECT_SILENCE))

    def forget(self, worker: WorkerName) -> None:
        """Forget a worker that has no nodes in the region."""
        self.heard.pop(worker, None)
        self.beating.pop(worker, None)
        self.ill.pop(worker, None)

    def fold(self, capacity: Capacity, fact: Fact) -> None:
        """Fold a fact of the region that `capacity` has folded."""
        now = fact.heard_at
        match fact.event:
            case NodesJoined(worker=worker) | NodesReturned(worker=worker):
                self._know(capacity, worker)
                self.heard[worker] = now
                self.workers_due.put(worker, now if worker in self.suspects else after(now, SUSPECT_SILENCE))
            case NodesLost(worker=worker):
                self._lost(worker)
            case DomainLost(workers=workers):
                for worker in workers:
                    self._lost(worker)
            case NodesClosed(kind=ClosureKind.SUSPECT, nodes=nodes):
                for worker in _workers_of(capacity, numbers_in(nodes)):
                    self.suspects[worker] = None
                    if not capacity.workers[worker].is_lost:
                        self.workers_due.put(worker, now)
            case NodesOpened(kind=ClosureKind.SUSPECT, nodes=nodes):
                for worker in _workers_of(capacity, numbers_in(nodes)):
                    if not _is_suspected(capacity, worker):
                        self.suspects.pop(worker, None)
            case NodesOpened(kind=ClosureKind.QUARANTINE):
                # The quarantine may have headroom now for nodes that exceeded its share.
                self.accused = dict.fromkeys(capacity.failures.by_node)
                self.accuse_at = now if self.accused else None
            case NodesClosed(kind=ClosureKind.QUARANTINE, until_checked=True):
                self.check_at = self.check_at or after(now, QUARANTINE_CHECK)
            case AttemptEnded(failed_nodes=nodes) | TasksDown(failed_nodes=nodes) if nodes:
                self.accused.update(dict.fromkeys(nodes))
                self.accuse_at = now

    def note(self, note: Note) -> None:
        """Fold one of this module's notes."""
        match note:
            case WorkersWatched(again):
                for worker, at in again:
                    if at is None:
                        self.workers_due.drop(worker)
                    else:
                        self.workers_due.put(worker, at)
            case NodesAccused(nodes, again_at):
                self.accused = dict.fromkeys(nodes)
                self.accuse_at = again_at
            case ChecksAsked(again_at):
                self.check_at = again_at

    def _lost(self, worker: WorkerName) -> None:
        self.beating.pop(worker, None)
        self.workers_due.drop(worker)

    def _know(self, capacity: Capacity, worker: WorkerName) -> None:
        domain = _domain_of(capacity.workers[worker].inventory)
        if worker not in self.domains:
            self.domains[worker] = domain
            self.mates.setdefault(domain, []).append(worker)

    # Reading.

    def silent_at(self, worker: WorkerName) -> Instant:
        """Return when a worker counts as lost, unless heard before."""
        return after(self.heard[worker], PRESENCE_SILENCE_MAX)

    def is_region_silent(self, capacity: Capacity, now: Instant) -> bool:
        """Return whether no worker counts as lost yet because all are silent; false once `REGION_PATIENCE` has passed."""
        return self._is_region_silent(capacity, now) and now < after(self.heard_any, REGION_PATIENCE)

    def _is_region_silent(self, capacity: Capacity, now: Instant) -> bool:
        # SUSPECT_SILENCE, because the first worker may be due some beats before the last one is. When all fall silent at
        # once, a failed switch, link or firewall is likelier than the death of all workers. Their tasks still run, and to
        # end them would turn a network partition into the loss of all their work.
        if now < after(self.heard_any, SUSPECT_SILENCE):
            return False
        return sum(not row.is_lost for row in capacity.workers.values()) >= REGION_WORKERS_MIN

    def may_return(self, capacity: Capacity, worker: WorkerName, now: Instant) -> bool:
        """Return whether a lost worker that is heard may be taken back.

        After more than `FLAPS_MAX` losses the worker must have beaten without a gap for `FLAP_HOLD`, doubled with each
        further loss up to `FLAP_HOLD_MAX`.
        """
        losses = len(capacity.workers[worker].losses)
        if losses <= FLAPS_MAX:
            return True
        hold = min(FLAP_HOLD_MAX, FLAP_HOLD << (losses - FLAPS_MAX - 1))
        since = self.beating.get(worker)
        is_gapless = since is not None and now < after(self.heard[worker], SUSPECT_SILENCE)
        return is_gapless and since is not None and after(since, Nanoseconds(hold)) <= now


class HealthWords:
    """The commands that health calls for at one moment, and the notes that record them."""

    def __init__(
        self, region: RegionName, capacity: Capacity, sequence: int, health: NodeHealth, now: Instant
    ) -> None:
        self.region, self.capacity, self.sequence = region, capacity, sequence
        self.health, self.now = health, now
        self.notes: list[Note] = []
        self.messages: list[Message] = []
        self._again: dict[WorkerName, Instant | None] = {}
        self._say_again = after(now, COMMAND_SAY_AGAIN)

    # Due work.

    def look(self) -> None:
        """Judge the workers that are due, and request the quarantines and checks that are due."""
        health = self.health
        workers = health.workers_due.passed(self.now)
        if workers and health.is_bus_lost:
            # Without the bus, silence proves no loss. All workers are judged again when the bus is back.
            self._again = dict.fromkeys(workers)
        elif workers:
            self._watch(workers)
        if self._again:
            self.notes.append(WorkersWatched(tuple(self._again.items())))
        if health.accuse_at is not None and health.accuse_at <= self.now:
            self._accuse()
        if health.check_at is not None and health.check_at <= self.now:
            self._ask_for_checks()

    def _watch(self, workers: list[WorkerName]) -> None:
        suspected: list[WorkerName] = []
        lost: list[WorkerName] = []
        for worker in workers:
            heard = self.health.heard[worker]
            is_suspect = worker in self.health.suspects
            if self.capacity.workers[worker].is_lost:
                self._again[worker] = None
            elif self.now < after(heard, SUSPECT_SILENCE):
                self._again[worker] = after(heard, SUSPECT_SILENCE)
                if is_suspect and worker in self.health.beating:
                    self._again[worker] = self._say_again
                    self._open(ClosureKind.SUSPECT, self.capacity.workers[worker].inventory.numbers(), HEARD)
            else:
                silent_at = self.health.silent_at(worker)
                is_closed = is_suspect and not _unsuspected(self.capacity, worker)
                self._again[worker] = silent_at if is_closed else min(silent_at, self._say_again)
                if not is_closed:
                    suspected.append(worker)
                if silent_at <= self.now:
                    lost.append(worker)
        self._suspect(suspected)
        self._lose(lost)

    def _suspect(self, workers: list[WorkerName]) -> None:
        nodes: list[int] = []
        for worker in workers:
            mine = _unsuspected(self.capacity, worker)
            if nodes and len(nodes) + len(mine) > CLOSED_AT_ONCE_MAX:
                self._close(ClosureKind.SUSPECT, nodes, MISSED)
                nodes = []
            nodes.extend(mine)
        if nodes:
            self._close(ClosureKind.SUSPECT, nodes, MISSED)

    def _lose(self, workers: list[WorkerName]) -> None:
        """Report lost workers: those of one domain that are silent together as one loss, the others each alone."""
        if workers and self.health.is_region_silent(self.capacity, self.now):
            again = min(after(self.now, SUSPECT_SILENCE), after(self.health.heard_any, REGION_PATIENCE))
            self._again.update(dict.fromkeys(workers, again))
            return
        for domain in dict.fromkeys(self.health.domains[worker] for worker in workers):
            if domain:
                self._lose_domain(domain)
            else:
                for worker in workers:
                    if not self.health.domains[worker]:
                        self._again[worker] = self._say_again
                        self.messages.append(RecordLoss(self.region, worker, self.sequence))

    def _lose_domain(self, domain: str) -> None:
        health, rows = self.health, self.capacity.workers
        mates = [(health.silent_at(mate), mate) for mate in health.mates[domain] if not rows[mate].is_lost]
        together = after(min(mates)[0], DOMAIN_PATIENCE)
        lost = sorted(mate for at, mate in mates if at <= self.now)
        awaited = [at for at, _ in mates if self.now < at <= together]
        self._again.update(dict.fromkeys(lost, min(awaited) if awaited else self._say_again))
        if awaited:
            return
        if len(lost) == 1:
            self.messages.append(RecordLoss(self.region, lost[0], self.sequence))
            return
        for first in range(0, len(lost), DOMAIN_LOSS_WORKERS_MAX):
            some = tuple(lost[first : first + DOMAIN_LOSS_WORKERS_MAX])
            self.messages.append(RecordDomainLoss(self.region, domain, some, self.sequence))

    def _accuse(self) -> None:
        """Request quarantine for black holes, up to `may_quarantine`: if many nodes fail, the work is the likelier cause."""
        accused = [node for node in sorted(self.health.accused) if not self._is_in_quarantine(node)]
        failed = {node: count for node in accused if (count := failures_in_a_row(self.capacity, node))}
        allowed = max(0, may_quarantine(self.capacity)) if failed else 0
        guilty = tuple(failed)[:allowed]
        for node in guilty:
            count = failed[node]
            reason = f"failed {count} of {count} attempts soon after their start; an operator must release it"
            self._close(ClosureKind.QUARANTINE, [node], reason)
        self.notes.append(NodesAccused(guilty, self._say_again if guilty else None))

    def _ask_for_checks(self) -> None:
        nodes = _to_check(self.capacity)
        by_worker: dict[WorkerName, list[int]] = {}
        for node in nodes:
            by_worker.setdefault(WorkerName(self.capacity.worker_of[node]), []).append(node)
        for worker, mine in by_worker.items():
            if not self.capacity.workers[worker].is_lost:
                self.messages.append(CheckNodes(self.region, worker, tuple(mine)))
        self.notes.append(ChecksAsked(after(self.now, QUARANTINE_CHECK) if nodes else None))

    # Reports of workers about their nodes.

    def close_ill(self, worker: WorkerName, ill: Ill) -> None:
        """Request quarantine for nodes that their worker reports as ill, at each beat until they are in quarantine."""
        for text in dict.fromkeys(text for _, text in ill):
            nodes = [node for node, what in ill if what == text and self._is_of(node, worker)]
            nodes = [node for node in nodes if not self._is_in_quarantine(node)]
            if nodes:
                self._close(ClosureKind.QUARANTINE, nodes, text, until_checked=True)

    def checked(self, report: NodesChecked) -> None:
        """Release nodes that passed a check, unless the newest beat reports them as ill or they wait for an operator."""
        self.close_ill(report.worker, report.ill)
        still_ill = {node for node, _ in (*report.ill, *self.health.ill.get(report.worker, ()))}
        waiting = set(_to_check(self.capacity))
        well = [
            node
            for node in report.well
            if node in waiting and node not in still_ill and self._is_of(node, report.worker)
        ]
        if well and report.worker in self.health.ill:
            self._open(ClosureKind.QUARANTINE, well, PASSED)

    # Helpers.

    def _is_of(self, node: int, worker: WorkerName) -> bool:
        return self.capacity.has_node(node) and self.capacity.worker_of[node] == worker

    def _is_in_quarantine(self, node: int) -> bool:
        closures = self.capacity.closures.values()
        return any(closure.kind is ClosureKind.QUARANTINE and node in closure.each for closure in closures)

    def _close(
        self, kind: ClosureKind, nodes: list[int], reason: str, *, until_checked: bool = False
    ) -> None:
        closes = CloseNodes(self.region, kind, tuple(nodes), reason, until_checked, self.sequence)
        self.messages.append(closes)

    def _open(self, kind: ClosureKind, nodes: Iterable[int], reason: str) -> None:
        self.messages.append(OpenNodes(self.region, kind, tuple(nodes), reason, self.sequence))


def _domain_of(inventory: Inventory) -> str:
    """Return the power domain, or else the zone, that has all of a worker's nodes; empty if they are in several."""
    names = {group.power_domain or group.zone for group in inventory.groups}
    return min(names) if len(names) == 1 else ""


def _workers_of(capacity: Capacity, nodes: Iterable[int]) -> dict[WorkerName, None]:
    return dict.fromkeys(WorkerName(capacity.worker_of[node]) for node in nodes)


def _suspected(capacity: Capacity) -> dict[int, ClosedNode]:
    closures = capacity.closures.values()
    return next((closure.each for closure in closures if closure.kind is ClosureKind.SUSPECT), {})


def _is_suspected(capacity: Capacity, worker: WorkerName) -> bool:
    """Return whether any of the worker's nodes is suspected.

    The store keeps the closure of a node that changed after the request to open it was decided, until the next request.
    """
    suspected = _suspected(capacity)
    return any(node in suspected for node in capacity.workers[worker].inventory.numbers())


def _unsuspected(capacity: Capacity, worker: WorkerName) -> list[int]:
    suspected = _suspected(capacity)
    return [node for node in capacity.workers[worker].inventory.numbers() if node not in suspected]


def _to_check(capacity: Capacity) -> list[int]:
    """Return the nodes that a passed check releases from quarantine, ascending."""
    return sorted(
        node
        for closure in capacity.closures.values()
        if closure.kind is ClosureKind.QUARANTINE
        for node, row in closure.each.items()
        if row.until_checked
    )
