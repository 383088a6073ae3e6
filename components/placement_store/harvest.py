"""The placement store's records of harvested capacity: offers, recalls and releases.

Each is judged against the present image. Nodes of a proposal that have changed are left out: functions may use only capacity that is free,
open and not promised, and no more of a zone than the pool's settings allow. A recall that no function server has released in time is
recorded as released, unconfirmed; the node is offered again only after the server was heard.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from components.placement_store.state import StoreState
from core.codec import encode
from core.component import NOTHING, Decision
from core.events.harvest import HarvestOffered, HarvestRecalled, HarvestReleased
from core.events.log import LogOpened
from core.fact import Fact
from core.images.harvest import HarvestedNode, needs_in_devices, whole_devices
from core.messages.base import Envelope, Message
from core.messages.harvest import OfferHarvest, RecallHarvest, ReleaseHarvest, TaskLends
from core.nouns.harvest import HarvestPart, ReleasedPart, Why, release_due
from core.nouns.harvest_limits import HARVEST_AT_ONCE_MAX
from core.nouns.ids import AttemptKey, WorkloadId
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import FACT_BYTES_MAX, NUMBER_MAX
from core.nouns.operation import TaskMove, job_and_rank
from core.nouns.placement import Claim, need_of, runs_of
from core.nouns.pool import harvest_of
from core.nouns.quantities import MILLI, Amount
from core.nouns.quantities import NOTHING as NO_AMOUNT
from core.rules.harvest.lending import lent_by, may_lend
from core.rules.harvest.zones import HarvestZones, ZoneKey, free_in_devices, is_empty, offerable, units
from core.rules.scopes import group_of

HEARD_OF_HARVEST: tuple[type[Message], ...] = (OfferHarvest, RecallHarvest, ReleaseHarvest, TaskLends)

SPARE_BYTES_MAX = 64
"""Of the spare of one node in a grant, encoded."""

_Alike = tuple[str, Nanoseconds, Amount]
"""Pool, grace and size of nodes that one part tells."""


class HarvestRecords:
    """The store's decider for harvested capacity."""

    def __init__(self) -> None:
        self.deciders: dict[type[Message], Callable[[StoreState, Envelope], Decision]] = {
            OfferHarvest: self._offer,
            RecallHarvest: self._recall,
            ReleaseHarvest: self._release,
            TaskLends: self._lend,
        }

    # Deadlines.

    def index_all(self, state: StoreState) -> None:
        """Compute the deadline of every recall."""
        for node in state.image.harvest.recalling:
            self._index_node(state, node)

    def index(self, state: StoreState, fact: Fact, touched: Iterable[int]) -> None:
        """Compute deadlines anew after a fact.

        touched   nodes of which the fact may have changed the harvest
        """
        if isinstance(fact.event, LogOpened):
            self.index_all(state)
        for node in touched:
            self._index_node(state, node)
        if state.harvest_zones is not None:
            state.harvest_zones.update(touched)

    def _index_node(self, state: StoreState, node: int) -> None:
        harvest = state.image.harvest
        known = harvest.nodes.get(node)
        if known is None or not known.recalls:
            state.harvest_due.drop(node)
            return
        at = min(release_due(one.at, harvest.opened_at, one.within) for one in known.recalls)
        if state.harvest_due.at(node) != at:
            state.harvest_due.put(node, at)

    def due(self, state: StoreState) -> Instant | None:
        """Return when the first recall's time is over."""
        return state.harvest_due.due()

    def woken(self, state: StoreState, now: Instant) -> Decision | None:
        """Return the decision that records recalls of which the time is over as released, if there are any."""
        harvest = state.image.harvest
        parts = []
        for node in state.harvest_due.passed(now):
            over = [
                one
                for one in harvest.nodes[node].recalls
                if release_due(one.at, harvest.opened_at, one.within) <= now
            ]
            revision = max(one.revision for one in over)
            after = Nanoseconds(now - min(one.at for one in over))
            parts.append(ReleasedPart(node, revision, after, is_confirmed=False))
        return Decision((HarvestReleased(tuple(parts)),)) if parts else None

    # Free capacity.

    def _offer(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, OfferHarvest)
        harvest = state.image.harvest
        if message.revision > harvest.revision:
            return NOTHING
        found: dict[_Alike, list[int]] = {}
        more: dict[ZoneKey, tuple[int, int]] = {}
        for node, size in _each(state, message.parts):
            alike = self._offered(state, node, size, message, more)
            if alike is not None:
                found.setdefault(alike, []).append(node)
        events = []
        for place, within in enumerate(sorted({within for _, within, _ in found})):
            parts = tuple(
                HarvestPart(runs_of(nodes), size, pool=pool)
                for (pool, grace, size), nodes in found.items()
                if grace == within
            )
            events.append(HarvestOffered(harvest.revision + 1 + place, parts, within))
        return Decision(tuple(events))

    def _offered(
        self,
        state: StoreState,
        node: int,
        size: Amount,
        message: OfferHarvest,
        more: dict[ZoneKey, tuple[int, int]],
    ) -> _Alike | None:
        """Return the part in which an offer of one node is recorded; None if the offer is refused.

        The harvester alone knows how long capacity was calm, so an offer from before a node's newest change is refused.

        more   by zone, units and empty nodes that the offers before add to the harvest; increased by this offer
        """
        capacity, pools = state.image.capacity, state.image.pools
        zone = _zones(state).of(node)
        settings = harvest_of(zone.pool, pools.of(zone.pool))
        known = state.image.harvest.nodes.get(node)
        was = known.free if known is not None else NO_AMOUNT
        is_growth = size.covers(was) and size != was
        is_regraded = known is not None and size == was != NO_AMOUNT and known.within != settings.grace
        if not settings.is_on or not (is_growth or is_regraded):
            return None
        if known is not None and (not known.is_calm or known.revision > message.revision):
            return None
        if capacity.changed[node] > message.sequence:
            return None
        if size.gpu_milli % MILLI or not offerable(capacity, node).covers(size):
            return None
        grown, begun = more.get(zone.key, (0, 0))
        added = units(capacity, node, size) - units(capacity, node, was)
        fresh = int(is_empty(capacity, node) and not units(capacity, node, was))
        if added and zone.harvested + grown + added > zone.may_have(pools):
            return None
        if fresh and zone.empty_harvested + begun + fresh > zone.empty_may_be(pools):
            return None
        more[zone.key] = (grown + added, begun + fresh)
        return zone.pool, settings.grace, size

    def _recall(self, state: StoreState, envelope: Envelope) -> Decision:
        message = envelope.message
        assert isinstance(message, RecallHarvest)
        harvest = state.image.harvest
        if message.revision > harvest.revision:
            return NOTHING
        parts, less = [], _Recalled()
        for part in message.parts:
            nodes = []
            for node, size in _each(state, (part,)):
                known = harvest.nodes.get(node)
                was = _size_of(known, part.primary)
                if known is None or known.revision > message.revision or size.covers(was):
                    continue
                if less.take(state, node, was, size, part.primary):
                    nodes.append(node)
            if nodes:
                parts.append(HarvestPart(runs_of(nodes), part.size, part.primary))
        return _recorded(HarvestRecalled(harvest.revision + 1, tuple(parts), Why.SET))

    def _release(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record releases of recalls that stand, and that a server is heard again."""
        message = envelope.message
        assert isinstance(message, ReleaseHarvest)
        harvest = state.image.harvest
        parts: dict[int, ReleasedPart] = {}
        for part in message.parts[:HARVEST_AT_ONCE_MAX]:
            known = harvest.nodes.get(part.node)
            if known is None or part.revision > harvest.revision or not 0 <= part.lost <= NUMBER_MAX:
                continue
            over = [one.at for one in known.recalls if one.revision <= part.revision]
            is_back = known.unconfirmed_at > 0 and part.revision >= known.revision
            if over or is_back:
                after = Nanoseconds(envelope.at - min(over, default=envelope.at))
                span = Nanoseconds(min(max(0, part.lost_span), NUMBER_MAX))
                parts[part.node] = ReleasedPart(part.node, part.revision, after, part.lost, span)
        return Decision((HarvestReleased(tuple(parts.values())),)) if parts else NOTHING

    # Lent capacity.

    def _lend(self, state: StoreState, envelope: Envelope) -> Decision:
        """Record the capacity that an attempt lends on a node, no more than the attempt holds there, or wants back."""
        message = envelope.message
        assert isinstance(message, TaskLends)
        capacity, harvest = state.image.capacity, state.image.harvest
        key, node, size = (WorkloadId(message.workload), message.epoch), message.node, message.size
        if not capacity.has_node(node):
            return NOTHING
        was, number = lent_by(harvest, key, node)
        if size == was or not size.covers(NO_AMOUNT) or message.number <= number:
            return NOTHING
        pool = group_of(capacity, node).pool
        part = HarvestPart(((node, node),), size, key, pool, message.number)
        if was.covers(size):
            return _recorded(HarvestRecalled(harvest.revision + 1, (part,), Why.WANTED))
        if not may_lend(capacity, harvest, state.image.pools, key, node, size):
            return NOTHING
        settings = harvest_of(pool, state.image.pools.of(pool))
        return Decision((HarvestOffered(harvest.revision + 1, (part,), settings.grace),))


class _Recalled:
    """The recalls of one proposal, judged against the present settings: no more is recalled than is harvested beyond them."""

    def __init__(self) -> None:
        self._less: dict[ZoneKey, tuple[int, int]] = {}
        """By zone: units and empty nodes that are recalled already."""

    def take(
        self, state: StoreState, node: int, was: Amount, size: Amount, primary: AttemptKey | None
    ) -> bool:
        """Return whether the settings call for a recall of one node to this size, and count it then."""
        capacity, pools = state.image.capacity, state.image.pools
        zone = _zones(state).of(node)
        if not harvest_of(zone.pool, pools.of(zone.pool)).is_on:
            return True
        if primary is not None:
            return False
        recalled, emptied = self._less.get(zone.key, (0, 0))
        less = units(capacity, node, was) - units(capacity, node, size)
        over = zone.harvested - recalled - zone.may_have(pools)
        over_empty = zone.empty_harvested - emptied - zone.empty_may_be(pools)
        is_surplus = over_empty > 0 and is_empty(capacity, node)
        if not is_surplus and (over <= 0 or less >= over + MILLI):
            return False
        self._less[zone.key] = (recalled + less, emptied + is_surplus)
        return True


def spares_of(
    state: StoreState, claim: Claim, freed: dict[int, Amount] | None = None
) -> tuple[tuple[int, Amount], ...]:
    """Return the part of a claim's need that lies beside the harvest of its nodes, by node, where functions keep more for that.

    freed  capacity that events before the grant, of the same decision, free on nodes; reduced by the claim's needs. Of devices only
           those that one task held whole
    """
    nodes, found = state.image.harvest.nodes, []
    for node, need in needs_in_devices(claim).items() if nodes else ():
        more = freed.get(node, NO_AMOUNT) if freed is not None else NO_AMOUNT
        if freed is not None:
            freed[node] = more.minus(need)
        known = nodes.get(node)
        if known is None:
            continue
        beside = free_in_devices(state.image.capacity, node).plus(more).minus(known.free)
        spare = beside.largest(NO_AMOUNT).smallest(need)
        leaving, wanted = (known.free.minus(one).largest(NO_AMOUNT) for one in (need, need.minus(spare)))
        if leaving != wanted:
            found.append((node, spare))
    if len(found) * SPARE_BYTES_MAX > FACT_BYTES_MAX - SPARE_BYTES_MAX * 16 - len(encode(claim)):
        return ()  # Then functions give back all that the tasks need, as if nothing lay beside.
    return tuple(found)


def freed_by(claim: Claim) -> dict[int, Amount]:
    """Return the capacity that the end of a claim frees on each node, of devices only those that one task held whole."""
    total: dict[int, Amount] = {}
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        need = need_of(claim, job)
        for node, tasks in zip(spread.nodes, spread.tasks, strict=True):
            gpu_milli = need.gpu_milli // MILLI * MILLI * tasks
            amount = Amount(gpu_milli, need.cpu_milli * tasks, need.memory_bytes * tasks)
            total[node] = total.get(node, NO_AMOUNT).plus(amount)
    return total


def takes_of(state: StoreState, claim: Claim, moves: Iterable[TaskMove]) -> tuple[tuple[int, Amount], ...]:
    """Return the capacity that functions give back on the harvested nodes to which tasks come, by node: what tasks need beyond the rest."""
    coming = Counter(
        (move.node_to, job_and_rank(move.task)[0])
        for move in moves
        if move.node_to != move.node_from and move.node_to in state.image.harvest.nodes
    )
    total: dict[int, Amount] = {}
    for (node, job), tasks in coming.items():
        amount = whole_devices(need_of(claim, claim.jobs[job]), tasks)
        total[node] = total[node].plus(amount) if node in total else amount
    return tuple((node, need.minus(_beside(state, node)).largest(NO_AMOUNT)) for node, need in total.items())


def _beside(state: StoreState, node: int) -> Amount:
    """Return the free capacity of a harvested node that is not harvested."""
    free = free_in_devices(state.image.capacity, node)
    return free.minus(state.image.harvest.nodes[node].free).largest(NO_AMOUNT)


def _recorded(event: HarvestRecalled) -> Decision:
    return Decision((event,)) if event.parts else NOTHING


def _size_of(known: HarvestedNode | None, primary: AttemptKey | None) -> Amount:
    if known is None:
        return NO_AMOUNT
    if primary is None:
        return known.free
    lent = known.lent_by(primary)
    return lent.size if lent is not None else NO_AMOUNT


def _each(state: StoreState, parts: Iterable[HarvestPart]) -> Iterable[tuple[int, Amount]]:
    """Yield the known nodes of a proposal, each once and with the size, `HARVEST_AT_ONCE_MAX` at most."""
    seen: set[int] = set()
    size_max = len(state.image.capacity.node_type)
    for part in parts:
        if not part.size.covers(NO_AMOUNT):
            continue
        for first, last in part.nodes:
            for node in range(max(0, first), min(last + 1, size_max)):
                if len(seen) == HARVEST_AT_ONCE_MAX:
                    return
                if node not in seen and state.image.capacity.has_node(node):
                    seen.add(node)
                    yield node, part.size


def _zones(state: StoreState) -> HarvestZones:
    """Return the memo of harvested and available capacity by zone, counted over all nodes at the first call."""
    if state.harvest_zones is None:
        state.harvest_zones = HarvestZones(state.image.capacity, state.image.harvest)
    return state.harvest_zones
