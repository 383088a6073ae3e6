"""The store's check of whether a claim may be granted now: against the present region, not against the claim's view."""

from collections.abc import Sequence
from functools import lru_cache

from core.device_shares import Leaving
from core.images.capacity import Capacity
from core.images.pairs import may_pair, place_beside
from core.images.promised_capacity import leaving_of
from core.nouns.cluster import Cluster, cluster_of
from core.nouns.fleet import NodeGroup
from core.nouns.ids import AttemptKey
from core.nouns.instant import Instant
from core.nouns.operation import TaskMove
from core.nouns.placement import Claim, Spread, moved_spreads, needs_of, parts_of
from core.nouns.preemption import VictimOrder
from core.nouns.quantities import MILLI, Amount
from core.nouns.reasons import Reason
from core.nouns.workload import Extent, JobSpec, Kind
from core.placing.index.owners import Now, Owners
from core.placing.pick.extents import pod_of_rack
from core.placing.pool_set import Asker, request_of
from core.rules.placement.eviction_cost import eviction_cost, told_until
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import LASTING, PASSING
from core.rules.scopes import group_of


def is_well_formed(claim: Claim) -> bool:
    """Return whether a claim has exactly the tasks of its jobs, on distinct ascending nodes, over distinct victims."""
    if len(claim.spreads) != len(claim.jobs) or not claim.jobs:
        return False
    if len(set(claim.victims)) != len(claim.victims):
        return False  # A repeated victim's capacity would be counted twice.
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        ascending = all(before < after for before, after in zip(spread.nodes, spread.nodes[1:], strict=False))
        if (
            not ascending
            or len(spread.nodes) != len(spread.tasks)
            or any(count <= 0 for count in spread.tasks)
        ):
            return False
        if sum(spread.tasks) != job.tasks:
            return False
    return True


def check_nodes(claim: Claim, capacity: Capacity) -> Reason | None:
    """Return the lasting reason against the claim, if any: an unknown or unfit node, mixed types, or a broken topology."""
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        if not all(map(capacity.has_node, spread.nodes)):
            return Reason.UNKNOWN_NODE
        request = _request_of(claim, job)
        groups = groups_of(capacity, spread.nodes)
        for cluster in dict.fromkeys(map(cluster_of, groups)):
            refusal = forbidden_for(cluster, request)
            if refusal is not None:
                return refusal
        if len({group.node_type for group in groups}) > 1:
            return Reason.TYPES_MIXED
        most = job.topology.tasks_per_node
        if not _is_packed(capacity, job, spread, groups) or (most and max(spread.tasks) > most):
            return Reason.TOPOLOGY_BROKEN
    return None


def check_now(claim: Claim, now: Now) -> dict[int, Reason]:
    """Return the nodes on which a hard rule forbids the claim at present, with the rule's reason. All nodes must exist."""
    found: dict[int, Reason] = {}
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        request = _request_of(claim, job)
        for node in spread.nodes:
            for rule in PASSING:
                if node not in found and not rule.allows_at(now, node, request):
                    found[node] = rule.reason
    return found


def may_move_to(node: int, claim: Claim, job: JobSpec, now: Now) -> bool:
    """Return whether hard rules let one task of a granted claim run on a node now. Topology is left to the agent."""
    if not now.capacity.has_node(node):
        return False
    (group,) = groups_of(now.capacity, (node,))
    request = _request_of(claim, job)
    if forbidden_for(cluster_of(group), request) is not None:
        return False
    return all(rule.allows_at(now, node, request) for rule in PASSING)


def mixed_by(capacity: Capacity, claim: Claim, moves: Sequence[TaskMove]) -> bool:
    """Return whether moves, to nodes that exist, leave a job that accepts several types on nodes of more than one type."""
    if all(job.has_one_type for job in claim.jobs):
        return False
    spreads = moved_spreads(claim.spreads, moves)
    return any(len({capacity.node_type[node] for node in spread.nodes}) > 1 for spread in spreads)


def _request_of(claim: Claim, job: JobSpec) -> Request:
    return request_of(job, Asker(Kind(claim.kind), claim.tenant, claim.priority))


@lru_cache(maxsize=1024)
def forbidden_for(cluster: Cluster, request: Request) -> Reason | None:
    """Return the reason why the nodes of a cluster can never run a request, if any. Cached: the rules read only these two values."""
    return next((rule.reason for rule in LASTING if not rule.admits(cluster, request)), None)


def groups_of(capacity: Capacity, nodes: tuple[int, ...]) -> list[NodeGroup]:
    """Return the groups of ascending nodes: one entry for each run of nodes of the same group."""
    found: list[NodeGroup] = []
    for node in nodes:
        if found and node in found[-1].numbers():
            continue
        found.append(group_of(capacity, node))
    return found


def _is_packed(capacity: Capacity, job: JobSpec, spread: Spread, groups: list[NodeGroup]) -> bool:
    """Return whether all tasks lie in one node, rack, pod or zone, if the job requires that."""
    pack = job.topology.pack
    if pack is Extent.ANY:
        return True
    if pack is Extent.NODE:
        return len(set(spread.nodes)) <= 1
    if pack is Extent.ZONE:
        return len({group.zone for group in groups}) <= 1
    racks = {capacity.rack[node] for node in spread.nodes}
    return len(racks if pack is Extent.RACK else set(map(pod_of_rack, racks))) <= 1


def check_victims(claim: Claim, capacity: Capacity, now: Instant) -> Reason | None:
    """Return the reason against a victim of the claim, if any.

    A victim must have a lower priority, not be interactive, have run for its minimum time, share its device with no other attempt, and be
    no victim of another promise.
    """
    promised = {
        key for epochs in capacity.promises.values() for other in epochs.values() for key in other.victims
    }
    for workload, epoch in claim.victims:
        held = capacity.holding(workload, epoch)
        if held is None:
            continue  # The victim has ended meanwhile.
        if held.claim.priority >= claim.priority or held.claim.kind == Kind.INTERACTIVE:
            return Reason.VICTIM_NOT_LOWER
        if now < held.spared_until or held.is_paired:
            return Reason.CONFLICT
        if (workload, epoch) in promised:
            return Reason.CONFLICT
    return None


def check_guest(claim: Claim, capacity: Capacity) -> Reason | None:
    """Return the reason against the claim of a guest, if any: `CONFLICT` if its host takes no guest now. Room is checked apart."""
    if claim.beside is None:
        return None
    if claim.victims or claim.beside[0] == claim.workload or not may_pair(claim.kind, claim.jobs):
        return Reason.BAD_CLAIM
    spreads = place_beside(capacity, claim.beside, claim.kind, claim.jobs)
    return None if spreads == claim.spreads else Reason.CONFLICT


def victims_needed(
    claim: Claim,
    capacity: Capacity,
    owners: Owners | None = None,
    order: VictimOrder = VictimOrder.COST,
) -> tuple[AttemptKey, ...]:
    """Return the live victims without which the claim would not fit, or would break a hard rule, on its nodes.

    Victims that need not end are left out one by one, the highest priority and eviction cost first.
    """
    judged = owners if owners is not None and claim.victims else None
    nodes = [*needs_of(claim)]
    short = _nodes_not_well(claim, capacity, judged, (), nodes)
    held = {key: one for key in claim.victims if (one := capacity.holding(*key)) is not None}
    needed = [key for key, one in held.items() if not short.isdisjoint(needs_of(one.claim))]
    now = max((told_until(held[key]) for key in needed), default=0)
    for key in sorted(needed, key=lambda key: (eviction_cost(held[key], now, order), key), reverse=True):
        rest = tuple(other for other in needed if other != key)
        mine = [node for node in needs_of(held[key].claim) if node in needs_of(claim)]
        there = tuple(other for other in rest if not needs_of(held[other].claim).keys().isdisjoint(mine))
        if not _nodes_not_well(claim, capacity, judged, there, mine):
            needed.remove(key)
    return tuple(needed)


def _nodes_not_well(
    claim: Claim,
    capacity: Capacity,
    owners: Owners | None,
    gone: tuple[AttemptKey, ...],
    nodes: Sequence[int],
) -> set[int]:
    """Return those of the nodes on which the claim does not fit, or breaks a hard rule, once the victims `gone` have ended.

    owners   owners of each node; None: hard rules are not checked
    """
    parts, needs = parts_of(claim), needs_of(claim)
    theirs, leaving = _held_by(capacity, gone), leaving_of(capacity, gone)
    short = {
        node
        for node in nodes
        if not has_capacity(
            capacity, node, needs[node], parts.get(node, ()), theirs.get(node), leaving.get(node)
        )
    }
    if owners is not None:
        short |= check_now(claim, Now(capacity, owners, gone)).keys() & set(nodes)
    return short


def _held_by(capacity: Capacity, victims: Sequence[AttemptKey]) -> dict[int, Amount]:
    theirs: dict[int, Amount] = {}
    for workload, epoch in victims:
        held = capacity.holding(workload, epoch)
        if held is not None:
            for node, amount in needs_of(held.claim).items():
                theirs[node] = theirs.get(node, Amount()).plus(amount)
    return theirs


def nodes_without_capacity(claim: Claim, capacity: Capacity) -> tuple[int, ...]:
    """Return the nodes that are not open, or lack capacity for the claim, with the victims' capacity counted as free; ascending."""
    theirs = _held_by(capacity, claim.victims)
    leaving, parts = leaving_of(capacity, claim.victims), parts_of(claim)
    short = []
    for node, need in needs_of(claim).items():
        mine = parts.get(node, ())
        if not capacity.is_open(node) or not has_capacity(
            capacity, node, need, mine, theirs.get(node), leaving.get(node)
        ):
            short.append(node)
    return tuple(sorted(short))


def is_beyond(claim: Claim, capacity: Capacity) -> bool:
    """Return whether the claim needs more of a node than an empty node has."""
    for node, need in needs_of(claim).items():
        total = Amount(capacity.gpu.total[node], capacity.cpu.total[node], capacity.memory.total[node])
        if not total.covers(need):
            return True
    return False


def has_capacity(
    capacity: Capacity,
    node: int,
    need: Amount,
    parts: Sequence[int] = (),
    theirs: Amount | None = None,
    leaving: Leaving | None = None,
) -> bool:
    """Return whether a need fits on a node, and on the node's devices.

    parts     GPU milli within the need that are parts of one device each
    theirs    capacity that others will release for the need; `leaving` is the same by device
    """
    room = capacity.available(node)
    if theirs is not None:
        room = room.plus(theirs)
    if not room.covers(need):
        return False
    if not parts and node not in capacity.devices.by_node:
        return True
    devices = capacity.room(node).after(leaving or Leaving())
    return devices.take((need.gpu_milli - sum(parts)) // MILLI, parts)


def fits_promised(claim: Claim, capacity: Capacity) -> bool:
    """Return whether a promised claim fits on devices once the last victim has ended.

    Only a claim with parts of several sizes may fail: the parts may lie on other devices than at the time of the promise.
    """
    leaving, needs = leaving_of(capacity, claim.victims), needs_of(claim)
    for node, parts in parts_of(claim).items():
        devices = capacity.devices_if_kept(node).after(leaving.get(node, Leaving()))
        if not devices.take((needs[node].gpu_milli - sum(parts)) // MILLI, parts):
            return False
    return True
