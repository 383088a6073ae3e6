"""Whom a workload could push out: lower priority alone, the cheapest first, and nobody who need not go.

source    MAST §4.3: lowest priority first, among those the cheapest (core/rules/placement/eviction_cost.py), until it fits;
          then the largest of the chosen first, and those not needed are spared
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from core.images.capacity import NOT_UP, Capacity
from core.images.reserving import leaving_of
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant, Nanoseconds
from core.nouns.limits import START_SPAN
from core.nouns.placement import Spread, gpu_milli_of, needs_of
from core.nouns.quantities import Amount
from core.nouns.reasons import Reason
from core.nouns.tenant import OVER_LEVEL
from core.nouns.workload import JobSpec, Kind
from core.placing.owners import Now, Owners, key_of
from core.placing.picking import Choice
from core.placing.pool_set import Asker, JobFound, PoolSet, request_of, unwatched
from core.placing.room_bound import RoomBound
from core.placing.vacated import sum_of, vacated
from core.placing.victim_order import Victim, VictimOrder, may_go
from core.rules.devices import part_of, shared_in
from core.rules.placement.eviction_cost import counted_until, destroyed, eviction_cost, told_until
from core.rules.placement.rule_sets import PASSING

Spreads = tuple[Spread, ...]


def find_with_victims(
    pools: PoolSet,
    capacity: Capacity,
    jobs: Sequence[JobSpec],
    asker: Asker,
    choice: Choice,
    owners: Owners | None = None,
    watch: Callable[[JobFound], None] = unwatched,
    order: VictimOrder | None = None,
) -> tuple[Spreads, tuple[Victim, ...]] | Reason:
    """Places for all tasks once some attempts of lower priority have ended, and which. Raises RuleFailed.

    owners    who is where, if anybody shares a node with nobody
    watch     is told of each job's place among those that were chosen
    order     of all who may go; None: it is made anew
    """
    if order is None:
        order = VictimOrder(capacity)
    order.refresh(pools)
    bound = RoomBound(pools, capacity, jobs, asker)
    if bound.is_in_vain(order.gpu_milli_under(asker.priority, bound.where)):
        return Reason.NO_CAPACITY

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
        chosen = _first_enough(bound, order.under(asker.priority, asker.at, where), tried)
        if chosen is not Reason.NO_CAPACITY:
            break
    if isinstance(chosen, Reason):
        return chosen
    chosen.sort(key=lambda victim: (-gpu_milli_of(victim[2].claim.jobs), victim[0], victim[1]))
    enough = _first_enough(bound, iter(chosen), tried)
    if isinstance(enough, Reason):
        return enough  # A rule raised for fewer of them; all of them would do.
    spreads = tried(enough) if watch is unwatched else looked_for(enough, watch)
    assert not isinstance(spreads, Reason), spreads
    short = _short_of_room(pools, jobs, spreads)
    if owners is not None:
        now = Now(capacity, owners)
        for job, spread in zip(jobs, spreads, strict=True):
            request = request_of(job, asker)
            forbidden = {
                node
                for node in spread.nodes
                if not all(rule.allows_at(now, node, request) for rule in PASSING)
            }
            short |= forbidden
    return spreads, tuple(victim for victim in enough if not short.isdisjoint(needs_of(victim[2].claim)))


def candidates_under(capacity: Capacity, priority: int, at: Instant) -> list[Victim]:
    """All that may be pushed out by this priority at a time, the first to go first.

    What would be destroyed is counted up to the minute of the newest that the log tells of an attempt: the same log gives the same
    order, whoever reads it and when. A search reads the same of core/placing/victim_order.py, which keeps it.
    """
    if priority <= OVER_LEVEL:
        return []  # Nobody is below it, and nobody need be looked at.
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
    found.sort(key=lambda victim: (eviction_cost(victim[2], counted), victim[0], victim[1]))
    return found


def spared_for(capacity: Capacity, priority: int, at: Instant) -> Nanoseconds:
    """How long until the next may be pushed out that only has not run long enough; 0: there is none."""
    waits = [
        held.spared_until - at
        for epochs in capacity.holdings.values()
        for held in epochs.values()
        if held.claim.run_min and held.claim.priority < priority and held.claim.kind != Kind.INTERACTIVE
    ]
    # Who is not up yet is looked at again when it must be, at the latest.
    return Nanoseconds(
        min((wait if wait < NOT_UP - at else START_SPAN for wait in waits if wait > 0), default=0)
    )


def freed_by(capacity: Capacity, victims: Sequence[Victim]) -> list[tuple[int, Amount]]:
    """What becomes available where once these have ended: a lost node gives nothing back, a closed one takes nothing."""
    return [
        (node, job.need.times(count))
        for _, _, held in victims
        for job, spread in zip(held.claim.jobs, held.claim.spreads, strict=True)
        for node, count in zip(spread.nodes, spread.tasks, strict=True)
        if capacity.is_open(node)
    ]


def shared_without(capacity: Capacity, victims: Sequence[Victim]) -> dict[int, tuple[int, ...]]:
    """What is free on shared devices once these have ended, by node on which one of them has a part of one."""
    if not any(held.parts for _, _, held in victims):
        return {}
    leaving = leaving_of(capacity, [(workload, epoch) for workload, epoch, _ in victims])
    return {
        node: shared_in(capacity.room(node).after(left).shared)
        for node, left in leaving.items()
        if left.parts and capacity.is_open(node)
    }


def destroyed_gpu_seconds(victims: Sequence[Victim], now: Instant) -> int:
    """Work that would be lost: since the newest checkpoint of each, or since its start."""
    return sum(destroyed(held, now) for _, _, held in victims)


def left_by(owners: Owners, victims: Sequence[Victim]) -> Mapping[int, int]:
    """Who is where they were, once they are gone."""
    keys = [key_of((workload, epoch)) for workload, epoch, _ in victims]
    return {node: owners.at(node, keys) for node in owners.nodes_of(keys)}


def _first_enough(
    bound: RoomBound, candidates: Iterator[Victim], tried: Callable[[Sequence[Victim]], Spreads | Reason]
) -> list[Victim] | Reason:
    """The first so many as are enough, or why all of them are not.

    Fewer than those with which it could fit at most are not tried. From there on the steps double, and the last is halved: more
    room almost never makes it fit worse. Jobs of unlike tasks may be placed differently; then it ends elsewhere, and what it ends
    with is still a prefix with which it fits.
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


def _short_of_room(pools: PoolSet, jobs: Sequence[JobSpec], spreads: Spreads) -> set[int]:
    """Nodes where the claim needs more than is available: who holds nothing there need not end for it."""
    wanted: dict[int, Amount] = {}
    parts: dict[int, list[int]] = {}
    for job, spread in zip(jobs, spreads, strict=True):
        for node, count in zip(spread.nodes, spread.tasks, strict=True):
            wanted[node] = wanted.get(node, Amount()).plus(job.need.times(count))
            if part_of(job.need.gpu_milli):
                parts.setdefault(node, []).extend([part_of(job.need.gpu_milli)] * count)
    return {node for node, amount in wanted.items() if not pools.has_room(node, amount, parts.get(node, ()))}
