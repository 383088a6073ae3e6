"""A section of a region's image: capacity that functions may use, and capacity that they are giving back.

Grants, closures, losses, moves and ends recall within the fact that tells them, so that an owner never waits for a further fact. A recall
is over when the node's function server has released it, when the tasks that wanted it have started there, when the node is lost, or
when the store has recorded that its time is over.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct, field

from core.events.control import ClaimRevised, DomainLost, NodesClosed, ScopeJoined, TasksUp
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.log import LogOpened
from core.events.pools import NodesPooled
from core.events.region import AttemptEnded, ClaimGranted, GangStarted, NodesLost, StopOrdered
from core.fact import Fact
from core.images.base import Section
from core.images.harvest_history import PoolHistory
from core.nouns.harvest import Why
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Nanoseconds
from core.nouns.placement import Claim, need_of, numbers_in
from core.nouns.quantities import MILLI, NOTHING, Amount

Kept = TypeVar("Kept")


class Lent(Struct):
    """Capacity that the tasks of one attempt lend on one node."""

    workload: WorkloadId
    epoch: int
    size: Amount = NOTHING
    number: int = 0
    """Of the newest word of these tasks."""

    @property
    def key(self) -> AttemptKey:
        """Return the attempt."""
        return (self.workload, self.epoch)


class Recall(Struct):
    """Capacity of one node that functions are to give back."""

    revision: int
    at: int
    within: Nanoseconds
    size: Amount
    why: Why
    by: AttemptKey | None = None
    """The attempt that was granted it; None: the recall has another reason."""


class HarvestedNode(Struct):
    """One node that is harvested, or was."""

    pool: str
    within: Nanoseconds
    """Grace of a recall."""
    revision: int
    """Of the newest change of its sizes."""
    free: Amount = NOTHING
    """Of its free capacity, the part that functions may use."""
    lent: list[Lent] = field(default_factory=list)
    recalls: list[Recall] = field(default_factory=list)
    """The oldest first."""
    unconfirmed_at: int = 0
    """When the store stopped waiting for a release; 0: the node's function server has been heard since."""

    @property
    def size(self) -> Amount:
        """Return the capacity that functions may use, free and lent."""
        total = self.free
        for one in self.lent:
            total = total.plus(one.size)
        return total

    @property
    def recalled(self) -> Amount:
        """Return the capacity that functions may still be using, beyond the size."""
        total = NOTHING
        for one in self.recalls:
            total = total.plus(one.size)
        return total

    @property
    def is_calm(self) -> bool:
        """Return whether more may be offered: no recall stands, and the function server is heard."""
        return not self.recalls and not self.unconfirmed_at

    def lent_by(self, key: AttemptKey | None) -> Lent | None:
        """Return what an attempt lends here."""
        return next((one for one in self.lent if one.key == key), None)


class Harvest(Section):
    """Harvested capacity of a region."""

    FOLDS = {
        HarvestOffered: "_offered",
        HarvestRecalled: "_recalled",
        HarvestReleased: "_released",
        ClaimGranted: "_granted",
        ClaimRevised: "_revised",
        GangStarted: "_started",
        TasksUp: "_tasks_up",
        NodesClosed: "_closed",
        ScopeJoined: "_closed",
        NodesPooled: "_closed",
        NodesLost: "_lost",
        DomainLost: "_lost",
        StopOrdered: "_stopped",
        AttemptEnded: "_ended",
        LogOpened: "_opened",
    }

    revision: int = 0
    """Grows with every fact that changes what is harvested."""
    nodes: dict[int, HarvestedNode] = field(default_factory=dict)
    """Every node that was ever harvested: what comes late about it is known by the revision."""
    lenders: dict[WorkloadId, dict[int, list[int]]] = field(default_factory=dict)
    """By attempt, workload and epoch: the nodes on which its tasks lend or have lent something."""
    awaited: dict[WorkloadId, dict[int, list[int]]] = field(default_factory=dict)
    """By attempt that was granted harvested capacity and has not started: the nodes on which that was recalled."""
    coming: dict[WorkloadId, dict[int, dict[int, int]]] = field(default_factory=dict)
    """By attempt and task that stands alone: the node to which it comes, on which harvested capacity was recalled for it."""
    recalling: dict[int, int] = field(default_factory=dict)
    """When the oldest recall of each node began, by node with a recall; about the oldest first."""
    pools: dict[str, PoolHistory] = field(default_factory=dict)
    opened_at: int = 0
    """When the log was opened last while something was harvested."""

    # Reading.

    def touched_by(self, fact: Fact) -> Sequence[int]:
        """Return nodes whose harvest a fact may change. Ask before it is folded."""
        if not self.nodes and not isinstance(fact.event, HarvestOffered):
            return ()
        match fact.event:
            case HarvestOffered(parts=parts) | HarvestRecalled(parts=parts):
                return [node for part in parts for node in numbers_in(part.nodes)]
            case HarvestReleased(parts=released):
                return [part.node for part in released]
            case ClaimGranted(claim=claim):
                found: Iterable[int] = (node for spread in claim.spreads for node in spread.nodes)
            case ClaimRevised(moves=moves):
                found = (node for move in moves for node in (move.node_from, move.node_to))
            case NodesClosed() | ScopeJoined() | NodesPooled() | DomainLost():
                found = numbers_in(fact.event.nodes)
            case NodesLost(nodes=nodes):
                found = nodes
            case StopOrdered(workload=workload, epoch=epoch):
                found = self.lenders.get(workload, {}).get(epoch, ())
            case AttemptEnded(workload=workload, epoch=epoch):
                found = self.lenders.get(workload, {}).get(epoch, ())
            case GangStarted(workload=workload, epoch=epoch):
                found = self.awaited.get(workload, {}).get(epoch, ())
            case TasksUp(workload=workload, epoch=epoch, tasks=tasks):
                coming = self.coming.get(workload, {}).get(epoch, {})
                found = (coming[task] for task in tasks if task in coming)
            case _:
                return ()
        return list(dict.fromkeys(node for node in found if node in self.nodes))

    # Folding.

    def _offered(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, HarvestOffered)
        self.revision += 1
        for part in event.parts:
            for node in numbers_in(part.nodes):
                known = self.nodes.get(node)
                if known is None:
                    known = self.nodes[node] = HarvestedNode(part.pool, event.within, self.revision)
                was = known.size
                if part.primary is None:
                    known.free = part.size
                else:
                    self._lend(known, node, part.primary, part.size, part.number)
                if was == NOTHING != known.size:
                    known.pool = part.pool
                    self._history(part.pool).begin(fact.at)
                known.within, known.revision = event.within, self.revision

    def _lend(self, known: HarvestedNode, node: int, key: AttemptKey, size: Amount, number: int) -> None:
        lent = known.lent_by(key)
        if lent is None:
            lent = Lent(*key)
            known.lent.append(lent)
            self.lenders.setdefault(key[0], {}).setdefault(key[1], []).append(node)
        lent.size, lent.number = size, number

    def _recalled(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, HarvestRecalled)
        changes = 0
        for part in event.parts:
            for node in numbers_in(part.nodes):
                known = self.nodes.get(node)
                if known is None:
                    continue
                if part.primary is None:
                    changes += self._shrink(node, known, part.size, event.why, fact)
                    continue
                lent = known.lent_by(part.primary)
                if lent is not None:
                    lent.number = max(lent.number, part.number)
                    changes += self._shrink(node, known, part.size, event.why, fact, lent)
        self.revision += changes > 0

    def _released(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, HarvestReleased)
        for part in event.parts:
            known = self.nodes.get(part.node)
            if known is None:
                continue
            left = [one for one in known.recalls if one.revision > part.revision]
            history = self._history(known.pool)
            if len(left) < len(known.recalls):
                history.release(part.after)
            history.lose(fact.at, part.lost, part.lost_span)
            self._keep(part.node, known, left)
            known.unconfirmed_at = 0 if part.is_confirmed else fact.at

    def _granted(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, ClaimGranted)
        if not self.nodes:
            return
        key, recalled = (event.workload, event.epoch), []
        spares = dict(event.spares)
        for node, whole in needs_in_devices(event.claim).items():
            known = self.nodes.get(node)
            if known is None:
                continue
            need = whole.minus(spares.get(node, NOTHING)).largest(NOTHING)
            left = known.free.minus(need).largest(NOTHING)
            if self._shrink(node, known, left, Why.GRANTED, fact, by=key):
                recalled.append(node)
        if recalled:
            self.awaited.setdefault(event.workload, {})[event.epoch] = recalled
            self.revision += 1

    def _revised(self, fact: Fact) -> None:
        """Recall what tasks need that come to a node, all of the node where the fact does not say that, and what they lent before."""
        event = fact.event
        assert isinstance(event, ClaimRevised)
        changes, takes, key = 0, dict(event.takes), (event.workload, event.epoch)
        coming: dict[int, list[int]] = {}
        for move in event.moves if self.nodes else ():
            if move.node_to != move.node_from and move.node_to in self.nodes:
                coming.setdefault(move.node_to, []).append(move.task)
        for node, tasks in coming.items():
            come = self.nodes[node]
            left_free = come.free.minus(takes.get(node, come.free)).largest(NOTHING)
            if self._shrink(node, come, left_free, Why.GRANTED, fact, by=key if node in takes else None):
                changes += 1
                known = self.coming.setdefault(event.workload, {}).setdefault(event.epoch, {})
                known.update(dict.fromkeys(tasks, node))
        for move in event.moves if self.nodes else ():
            left = self.nodes.get(move.node_from)
            lent = left.lent_by(key) if left is not None else None
            if left is not None and lent is not None:
                changes += self._shrink(move.node_from, left, NOTHING, Why.ENDED, fact, lent)
        self.revision += changes > 0

    def _started(self, fact: Fact) -> None:
        """A machine prepares a share only when executors have left what it needs, so a start ends the attempt's recalls."""
        event = fact.event
        assert isinstance(event, GangStarted)
        key = (event.workload, event.epoch)
        for node in _pop(self.awaited, key, []):
            self._end_recalls(node, key, fact.at)

    def _tasks_up(self, fact: Fact) -> None:
        """As a start: the recalls on a node end once all tasks of the attempt are up that come there."""
        event = fact.event
        assert isinstance(event, TasksUp)
        coming = self.coming.get(event.workload, {}).get(event.epoch, {})
        arrived = dict.fromkeys(coming.pop(task) for task in event.tasks if task in coming)
        for node in arrived:
            if node not in coming.values():
                self._end_recalls(node, (event.workload, event.epoch), fact.at)
        if arrived and not coming:
            _pop(self.coming, (event.workload, event.epoch), {})

    def _end_recalls(self, node: int, key: AttemptKey, at: int) -> None:
        """End the recalls of a node that were for an attempt, which has started there: as a release that came only now."""
        known = self.nodes[node]
        over = [one.at for one in known.recalls if one.by == key]
        if over:
            self._history(known.pool).release(Nanoseconds(at - min(over)))
        self._keep(node, known, [one for one in known.recalls if one.by != key])

    def _closed(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, NodesClosed | ScopeJoined | NodesPooled)
        why = Why.POOLED if isinstance(event, NodesPooled) else Why.CLOSED
        changes = 0
        for node in numbers_in(event.nodes) if self.nodes else ():
            known = self.nodes.get(node)
            if known is None:
                continue
            changes += self._shrink(node, known, NOTHING, why, fact)
            for lent in known.lent:
                changes += self._shrink(node, known, NOTHING, why, fact, lent)
        self.revision += changes > 0

    def _lost(self, fact: Fact) -> None:
        """Nothing is left to wait for on lost nodes: their machines are silent, and report empty before they are used again."""
        event = fact.event
        assert isinstance(event, NodesLost | DomainLost)
        gone = event.nodes if isinstance(event, NodesLost) else numbers_in(event.nodes)
        changes = 0
        for node in gone if self.nodes else ():
            known = self.nodes.get(node)
            if known is None:
                continue
            changes += self._shrink(node, known, NOTHING, Why.LOST, fact)
            for lent in known.lent:
                changes += self._shrink(node, known, NOTHING, Why.LOST, fact, lent)
            self._keep(node, known, [])
            known.unconfirmed_at = 0
        self.revision += changes > 0

    def _stopped(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, StopOrdered)
        self._recall_lent((event.workload, event.epoch), fact)

    def _ended(self, fact: Fact) -> None:
        event = fact.event
        assert isinstance(event, AttemptEnded)
        key = (event.workload, event.epoch)
        self._recall_lent(key, fact)
        for node in _pop(self.lenders, key, []):
            known = self.nodes[node]
            known.lent = [one for one in known.lent if one.key != key]
        _pop(self.awaited, key, [])
        _pop(self.coming, key, {})

    def _opened(self, fact: Fact) -> None:
        if self.nodes:
            self.opened_at = fact.at

    def _recall_lent(self, key: AttemptKey, fact: Fact) -> None:
        changes = 0
        for node in self.lenders.get(key[0], {}).get(key[1], ()):
            known = self.nodes[node]
            lent = known.lent_by(key)
            assert lent is not None, (key, node)
            changes += self._shrink(node, known, NOTHING, Why.ENDED, fact, lent)
        self.revision += changes > 0

    def _shrink(
        self,
        node: int,
        known: HarvestedNode,
        size: Amount,
        why: Why,
        fact: Fact,
        lent: Lent | None = None,
        by: AttemptKey | None = None,
    ) -> bool:
        """Recall all beyond a size, of what an attempt lends or of free capacity. Return whether that is anything.

        The last device takes the cores and the memory along: where a node has devices, nothing is harvested without one.
        """
        was = known.free if lent is None else lent.size
        less = was.minus(size).largest(NOTHING)
        if was.gpu_milli and less.gpu_milli == was.gpu_milli:
            less = was
        if less == NOTHING:
            return False
        before = known.size
        first = before  # Before this fact, which may have recalled another part of the node already.
        for one in known.recalls:
            if one.revision > self.revision:
                first = first.plus(one.size)
        if lent is None:
            known.free = was.minus(less)
        else:
            lent.size = was.minus(less)
        known.revision = self.revision + 1
        self.recalling.setdefault(node, fact.at)
        known.recalls.append(Recall(known.revision, fact.at, known.within, less, why, by))
        self._history(known.pool).recall(fact.at, first, before, known.size)
        return True

    def _keep(self, node: int, known: HarvestedNode, recalls: list[Recall]) -> None:
        """Drop all other recalls of a node."""
        known.recalls = recalls
        self.recalling.pop(node, None)
        if recalls:
            self.recalling[node] = recalls[0].at

    def _history(self, pool: str) -> PoolHistory:
        return self.pools.setdefault(pool, PoolHistory())


def whole_devices(need: Amount, tasks: int) -> Amount:
    """Return what tasks need of one node, in whole devices: parts of devices lie together, on as few devices as hold them."""
    whole, part = divmod(need.gpu_milli, MILLI)
    shared = -(-tasks // (MILLI // part)) if part else 0
    return Amount((whole * tasks + shared) * MILLI, need.cpu_milli * tasks, need.memory_bytes * tasks)


def needs_in_devices(claim: Claim) -> dict[int, Amount]:
    """Return what a claim needs on each node, in whole devices."""
    total: dict[int, Amount] = {}
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        need = need_of(claim, job)
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            amount = whole_devices(need, tasks)
            total[node] = total[node].plus(amount) if node in total else amount
    return total


def _pop(index: dict[WorkloadId, dict[int, Kept]], key: AttemptKey, without: Kept) -> Kept:
    """Remove an attempt from an index, and return what was kept of it."""
    epochs = index.get(key[0], {})
    found = epochs.pop(key[1], without)
    if not epochs:
        index.pop(key[0], None)
    return found
