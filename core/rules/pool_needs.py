"""Needs of pools: which are refused, how many nodes may move at once, and which plans are well formed."""

from itertools import pairwise

from core.images import RegionImage
from core.images.capacity import Capacity
from core.images.pools import Pools
from core.nouns.limits import (
    NAME_LENGTH_MAX,
    NEED_MAX,
    POOL_NEEDS_MAX,
    POOLED_AT_ONCE_MAX,
    POOLS_MAX,
)
from core.nouns.pool import PERMILLE, PoolSettings, Survives
from core.nouns.pooling import PoolingPolicy, PoolsPlan
from core.nouns.quantities import MILLI
from core.rules.scopes import domain_of_group


def gpus_by_domain(capacity: Capacity) -> dict[str, dict[str, int]]:
    """Return the GPUs of all nodes, lost and closed ones too, by node type and power domain."""
    found: dict[str, dict[str, int]] = {}
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            gpus = group.count * (group.total.gpu_milli // MILLI)
            if gpus:
                domains, domain = found.setdefault(group.node_type, {}), domain_of_group(group)
                domains[domain] = domains.get(domain, 0) + gpus
    return found


def problems_of_needs(settings: PoolSettings, pool: str, pools: Pools, capacity: Capacity) -> list[str]:
    """Return every problem of a pool's needs, each with its field."""
    found = []
    known = gpus_by_domain(capacity)
    names = [node_type for node_type, _ in settings.needs]
    if len(names) > POOL_NEEDS_MAX:
        found.append(f"needs: {POOL_NEEDS_MAX} node types are the most")
    if names != sorted(set(names)):
        found.append("needs: each node type stands once, in ascending order")
    if settings.needs and pool not in pools.settings and len(pools.settings) >= POOLS_MAX:
        found.append(f"pool: settings are kept of {POOLS_MAX} pools at most")
    for node_type, gpus in settings.needs:
        domains = known.get(node_type)
        if gpus <= 0 or gpus > NEED_MAX:
            found.append(
                f"needs: {gpus} GPUs cannot be needed of {node_type[:NAME_LENGTH_MAX]}; it is 1 or more"
            )
        elif domains is None:
            there = ", ".join(sorted(known)) or "no GPUs"
            found.append(f"needs: the region has no {node_type[:NAME_LENGTH_MAX]}; it has {there}")
        else:
            found += _problems_of_type(settings, pool, pools, node_type, gpus, domains)
    return found


def _problems_of_type(
    settings: PoolSettings, pool: str, pools: Pools, node_type: str, gpus: int, domains: dict[str, int]
) -> list[str]:
    there = sum(domains.values())
    others = sum(dict(one.needs).get(node_type, 0) for name, one in pools.settings.items() if name != pool)
    if gpus + others > there:
        more = f", and other pools need {others}" if others else ""
        return [f"needs: the region has {there} {node_type}{more}; {gpus} are too many"]
    if settings.survives is Survives.POWER_DOMAIN and len(domains) == 1:
        (domain,) = domains
        text = f"survives: all {node_type} of the region are in power domain {domain}, so nothing survives its loss"
        return [f"{text}; say that the pool survives none"]
    return []


def problems_of_policy(policy: PoolingPolicy) -> list[str]:
    """Return every problem of how nodes are to follow needs."""
    if 0 < policy.at_once <= PERMILLE:
        return []
    return [f"at_once: it is from 1 to {PERMILLE} permille of the region's nodes"]


def moves_max(policy: PoolingPolicy, image: RegionImage) -> int:
    """Return how many nodes one plan may move: one at least."""
    nodes = sum(group.count for row in image.capacity.workers.values() for group in row.inventory.groups)
    return min(POOLED_AT_ONCE_MAX, max(1, nodes * policy.at_once // PERMILLE))


def problems_of_plan(plan: PoolsPlan, image: RegionImage, sequence: int) -> list[str]:
    """Return every problem of a plan, whoever made it: of its form alone, because nodes may have changed since."""
    found = []
    runs = [run for move in plan.moves for run in move.nodes]
    if any(first > last or first < 0 for first, last in runs):
        found.append("moves: a run of nodes ends before it begins")
    elif plan.nodes > moves_max(image.pools.policy, image):
        found.append(f"moves: {plan.nodes} nodes are more than may move at once")
    else:
        ordered = sorted(runs)
        if any(second[0] <= first[1] for first, second in pairwise(ordered)):
            found.append("moves: a node is to move twice")
    if any(move.pool_from == move.pool_to for move in plan.moves):
        found.append("moves: nodes are to move to where they are")
    if any(not 0 < len(move.pool_to) <= NAME_LENGTH_MAX for move in plan.moves):
        found.append(f"moves: a pool's name has 1 to {NAME_LENGTH_MAX} characters")
    if plan.basis.sequence > sequence:
        found.append(f"basis: this log has come to {sequence}")
    return found
