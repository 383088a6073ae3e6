"""Victims for a workload that does not fit: attempts of lower priority, the cheapest first, and only those that are needed.

Their lost work stays within the region's caps (core/images/preemption.py).

source    MAST §4.3: lowest priority first, then the cheapest (core/rules/placement/eviction_cost.py), until the workload fits; then
          the largest of the chosen first, and victims that are not needed are released. An attempt that holds far more than the
          request comes after all others of its priority, however little would be lost: a request of 48 GPUs must not end a gang of
          376 (kai-scheduler PR#1565)
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import groupby, islice

from core.device_shares import part_of, shared_in
from core.images.capacity import NOT_UP, Capacity
from core.images.preemption import Preemption
from core.images.promised_capacity import leaving_of
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import START_SPAN
from core.nouns.placement import Spread, gpu_milli_of, need_of, needs_of
from core.nouns.preemption import VictimOrder
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import JobSpec, Kind
from core.placing.index.owners import Now, Owners, key_of
from core.placing.pick.nodes import Choice
from core.placing.pool_set import Asker, JobFound, PoolSet, request_of, unwatched
from core.placing.preemption.capacity_bound import CapacityBound
from core.placing.preemption.victim_index import Victim, VictimIndex, may_go
from core.placing.preemption.without_victims import sum_of, vacated
from core.rules.placement.eviction_cost import counted_until, destroyed, eviction_cost, told_until
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import PASSING
from core.rules.preemption import pledged

Spreads = tuple[Spread, ...]
FAR_MORE = 4
"""A multiple of the requested GPUs. An attempt with more is preempted only if smaller ones of its priority, and all of lower
priorities, do not free enough capacity."""


def find_with_victims(
    pools: PoolSet,
    capacity: Capacity,
    jobs: Sequence[JobSpec],
    asker: Asker,
    choice: Choice,
    owners: Owners | None = None,
    watch: Callable[[JobFound], None] = unwatched,
    index: VictimIndex | None = None,
    preemption: Preemption | None = None,
    spared: Container[AttemptKey] = (),
) -> tuple[Spreads, tuple[Victim, ...]] | Reason:
    """Return places for all tasks once some attempts of lower priority have ended, and these victims. Raises RuleFailed.

    owners      owners of nodes; None: owners do not matter
    watch       called with each job's place in the result
    index       index of all possible victims; None: built from scratch
    preemption  the region's caps and order of victims; None: default settings, and no lost work so far
    spared      victims of other offers and claims: the same capacity is never offered twice
    """
    terms = preemption or Preemption()
    most, span, order = terms.left(asker.at), terms.settings.ask_span, terms.settings.order
    if index is None:
        index = VictimIndex(capacity, terms)
    index.refresh(pools)
    bound = CapacityBound(pools, capacity, jobs, asker)
    if bound.is_in_vain(index.gpu_milli_under(asker.priority, bound.where)):
        return Reason.NO_CAPACITY

    most_each = FAR_MORE * gpu_milli_of(tuple(jobs)) if order is VictimOrder.COST else 0

    def there(candidates: Iterator[Victim]) -> Iterator[Victim]:
        """Yield the candidates that are victims of no other offer or claim."""
        left = (victim for victim in candidates if victim[:2] not in spared)
        return narrow_first(left, most_each) if most_each else left

    def affordable(candidates: Iterator[Victim]) -> Iterator[Victim]:
        """Yield the candidates, in their order, with pledges that fit into the caps beside the pledges of those before."""
        left = most
        for victim in there(candidates):
            cost = pledged(victim[2], asker.at, span)
            if cost <= left:
                left -= cost
                yield victim

    def over(
        of: Callable[[Iterator[Victim]], Iterator[Victim]],
    ) -> tuple[Spreads, tuple[Victim, ...]] | Reason:
        return _over(pools, capacity, jobs, asker, choice, owners, watch, index, bound, of, order)

    found = over(there)
    if not isinstance(found, Reason) and _destroy(found[1], asker.at, span) > most:
        # Rare: search again without candidates that exceed the caps beside those before them.
        found = over(affordable)
        if isinstance(found, Reason) or _destroy(found[1], asker.at, span) > most:
            return Reason.DESTROYS_TOO_MUCH
    return found


def narrow_first(candidates: Iterator[Victim], most: int) -> Iterator[Victim]:
    """Yield the candidates by priority; within each, those with at most `most` GPU milli before the larger ones."""
    for _, mine in groupby(candidates, key=lambda victim: victim[2].claim.priority):
        wide = []
        for victim in mine:
            if gpu_milli_of(victim[2].claim.jobs) <= most:
                yield victim
            else:
                wide.append(victim)
        yield from wide


def _destroy(victims: Sequence[Victim], at: Instant, span: int) -> int:
    return sum(pledged(held, at, span) for _, _, held in victims)


def _over(
    pools: PoolSet,
    capacity: Capacity,
    jobs: Sequence[JobSpec],
    asker: Asker,
    choice: Choice,
    owners: Owners | None,
    watch: Callable[[JobFound], None],
    index: VictimIndex,
    bound: CapacityBound,
    of: Callable[[Iterator[Victim]], Iterator[Victim]],
    order: VictimOrder,
) -> tuple[Spreads, tuple[Victim, ...]] | Reason:
    """Return places and victims in preemption order, regardless of the lost work.

    of   selects the candidates to consider, in their order
    """
    known: dict[frozenset[AttemptKey], Spreads | Reason] = {}

    def tried(victims: Sequence[Victim]) -> Spreads | Reason:
        who = frozenset((workload, epoch) for workload, epoch, _ in victims)
        if who not in known:
            known[who] = looked_for(victims, unwatched)
        return known[who]

    def looked_for(victims: Sequence[Victim], watch: Callable[[JobFound], None]) -> Spreads | Reason:
        left = {} if owners is None else left_by(owners, victims)
        freed = sum_of(freed_by(capacity, victims))
        with vacated(pools, freed, left, shared_without(capacity, victims)) as shown:
            return shown.find(jobs, asker, choice, watch=watch)

    chosen: list[Victim] | Reason = Reason.NO_CAPACITY
    for where in bound.wheres():
        candidates = index.under(asker.priority, asker.at, where)
        chosen = _first_enough(bound, of(candidates), tried)
        if chosen is not Reason.NO_CAPACITY:
            break
    if isinstance(chosen, Reason):
        return chosen
    chosen.sort(key=lambda victim: (-gpu_milli_of(victim[2].claim.jobs), victim[0], victim[1]))
    enough = _first_enough(bound, iter(chosen), tried)
    if isinstance(enough, Reason):
        return enough  # A rule raised for fewer victims; all of them together would suffice.
    spreads = tried(enough) if watch is unwatched else looked_for(enough, watch)
    assert not isinstance(spreads, Reason), spreads
    return spreads, Needed(pools, capacity, jobs, spreads, asker, owners).of(enough, order)


def candidates_under(
    capacity: Capacity, priority: int, at: Instant, order: VictimOrder = VictimOrder.COST
) -> list[Victim]:
    """Return all attempts that a priority may preempt at a time, in preemption order.

    Lost work is counted up to the minute of the newest record of an attempt: the same log gives the same order to every reader at
    every time. Searches read the same order from core/placing/preemption/victim_index.py, which is updated by facts.
    """
    if priority <= OVER_LEVEL:
        return []  # No level is lower.
    promised = {
        key for epochs in capacity.promises.values() for claim in epochs.values() for key in claim.victims
    }
    found = [
        (workload, epoch, held)
        for workload, epoch, held in capacity.live()
        if held.claim.priority < priority
        and may_go(held)
        and held.spared_until <= at
        and (workload, epoch) not in promised
    ]
    counted = counted_until(max((told_until(held) for _, _, held in capacity.live()), default=0))
    found.sort(key=lambda victim: (eviction_cost(victim[2], counted, order), victim[0], victim[1]))
    return found


def _told_of(victims: Sequence[Victim]) -> int:
    return max((told_until(held) for _, _, held in victims), default=0)


def spared_for(capacity: Capacity, priority: int, at: Instant) -> Nanoseconds:
    """Return the time until the next attempt below a priority has reached its minimum run time; 0: all have."""
    waits = [
        held.spared_until - at
        for epochs in capacity.holdings.values()
        for held in epochs.values()
        if held.claim.run_min and held.claim.priority < priority and held.claim.kind != Kind.INTERACTIVE
    ]
    # An attempt that is not up yet, so that its minimum run time has not begun, must be up after START_SPAN: check again then.
    return Nanoseconds(
        min((wait if wait < NOT_UP - at else START_SPAN for wait in waits if wait > 0), default=0)
    )


def freed_by(capacity: Capacity, victims: Sequence[Victim]) -> list[tuple[int, Amount]]:
    """Return the nodes and amounts that the end of these victims makes available, on open nodes only.

    A lost node frees no capacity, and a cordoned one takes no tasks.
    """
    return [
        (node, need_of(held.claim, job).times(count))
        for _, _, held in victims
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True)
        for node, count in zip(spread.nodes, spread.tasks, strict=True)
        if capacity.is_open(node)
    ]


def shared_without(capacity: Capacity, victims: Sequence[Victim]) -> dict[int, tuple[int, ...]]:
    """Return the milli free on shared devices once these victims have ended, by open node on which they hold parts of devices."""
    if not any(held.parts for _, _, held in victims):
        return {}
    leaving = leaving_of(capacity, [(workload, epoch) for workload, epoch, _ in victims])
    return {
        node: shared_in(capacity.room(node).after(left).shared)
        for node, left in leaving.items()
        if left.parts and capacity.is_open(node)
    }


def destroyed_gpu_seconds(victims: Sequence[Victim], now: Instant) -> int:
    """Return the work in GPU-seconds that would be lost now: of each victim, since its newest checkpoint or its start."""
    return sum(destroyed(held, now) for _, _, held in victims)


def left_by(owners: Owners, victims: Sequence[Victim]) -> Mapping[int, int]:
    """Return the owner of each of the victims' nodes once the victims are gone."""
    keys = [key_of((workload, epoch)) for workload, epoch, _ in victims]
    return {node: owners.at(node, keys) for node in owners.nodes_of(keys)}


def _first_enough(
    bound: CapacityBound, candidates: Iterator[Victim], tried: Callable[[Sequence[Victim]], Spreads | Reason]
) -> list[Victim] | Reason:
    """Return the shortest prefix of the candidates with which the workload fits, or the reason why no prefix was found.

    Prefixes that the capacity bound excludes are not tried. From there on the step doubles, and the last step is halved: more
    capacity almost never prevents a fit. Jobs of unlike tasks may be placed differently; then the result may be longer than the
    shortest prefix, but the workload fits with it.
    """
    taken: list[Victim] = []
    tally = bound.tally()
    for victim in candidates:
        taken.append(victim)
        tally.add(victim[2])
        if tally.could_fit:
            break
    if not tally.could_fit:
        return Reason.NO_CAPACITY
    low, step = len(taken), 1
    found = tried(taken)
    while isinstance(found, Reason):
        if found is Reason.RULE_FAILED:
            return found
        low = len(taken) + 1
        taken.extend(islice(candidates, step))
        if len(taken) < low:
            return found
        step *= 2
        found = tried(taken)
    high = len(taken)
    while low < high:
        middle = (low + high) // 2
        if isinstance(tried(taken[:middle]), Reason):
            low = middle + 1
        else:
            high = middle
    return taken[:high]


class Needed:
    """The chosen victims that a claim needs at its place: if one of them stayed, the claim would not fit."""

    def __init__(
        self,
        pools: PoolSet,
        capacity: Capacity,
        jobs: Sequence[JobSpec],
        spreads: Spreads,
        asker: Asker,
        owners: Owners | None,
    ) -> None:
        self._pools, self._capacity, self._owners = pools, capacity, owners
        self._requests: dict[int, list[Request]] = {}
        self._wanted: dict[int, Amount] = {}
        self._parts: dict[int, list[int]] = {}
        for job, spread in zip(jobs, spreads, strict=True):
            request = request_of(job, asker)
            for node, count in zip(spread.nodes, spread.tasks, strict=True):
                self._requests.setdefault(node, []).append(request)
                self._wanted[node] = self._wanted.get(node, Amount()).plus(job.need.times(count))
                if part_of(job.need.gpu_milli):
                    self._parts.setdefault(node, []).extend([part_of(job.need.gpu_milli)] * count)

    def of(self, chosen: Sequence[Victim], order: VictimOrder) -> tuple[Victim, ...]:
        """Return the needed victims in the order of `chosen`. The most expensive victim that is not needed is released first."""
        short = {node for node in self._wanted if not self._is_well(node, ())}
        rest = {victim[:2]: victim for victim in chosen if not short.isdisjoint(needs_of(victim[2].claim))}
        there: dict[int, list[Victim]] = {}
        for victim in rest.values():
            for node in self._wanted.keys() & needs_of(victim[2].claim).keys():
                there.setdefault(node, []).append(victim)
        now = _told_of([*rest.values()])
        dearest_first = sorted(rest.values(), key=lambda one: (eviction_cost(one[2], now, order), *one[:2]))
        for victim in reversed(dearest_first):
            nodes = sorted(self._wanted.keys() & needs_of(victim[2].claim).keys())
            if all(
                self._is_well(node, [one for one in there[node] if one[:2] in rest and one is not victim])
                for node in nodes
            ):
                del rest[victim[:2]]
        return tuple(rest.values())

    def _is_well(self, node: int, gone: Sequence[Victim]) -> bool:
        """Return whether a node has capacity for the claim and admits the claim once these victims on the node have ended."""
        if not self._is_allowed(node, gone):
            return False
        freed = freed_by(self._capacity, gone)
        mine = [amount for at, amount in freed if at == node]
        room = self._pools.available(node)
        for amount in mine:
            room = room.plus(amount)
        if not room.covers(self._wanted[node]):
            return False
        parts = self._parts.get(node, ())
        if parts or node in self._capacity.devices.by_node:
            shared = {at: of for at, of in shared_without(self._capacity, gone).items() if at == node}
            after = self._pools.released([(node, amount) for amount in mine], None, shared)
            if not after.has_capacity(node, self._wanted[node], parts):
                return False
        return True

    def _is_allowed(self, node: int, gone: Sequence[Victim]) -> bool:
        if self._owners is None:
            return True
        now = Now(self._capacity, self._owners, [(workload, epoch) for workload, epoch, _ in gone])
        return all(rule.allows_at(now, node, request) for request in self._requests[node] for rule in PASSING)
