"""Classes of like nodes in a region's image: what a problem of pools is made of."""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from msgspec import Struct

from core.images import RegionImage
from core.nouns.pool import FREE_POOL, Survives
from core.nouns.quantities import MILLI
from core.pooling.moving import closed_to_pools, going_to, groups_by_node
from core.pooling.problem import NodeClass, PoolingProblem
from core.rules.scopes import domain_of_group, is_unused, kept_nodes, still_pools

SPREAD_POOLS = ("service",)
"""Pools that are spread over power domains: one domain's loss should leave replicas. Others keep whole racks together (MAST §4.4)."""

Wants = Mapping[tuple[str, str], int]
"""GPUs that refused work waits for, by pool and node type."""


class Likeness(Struct, frozen=True, order=True, array_like=True):
    """What all nodes of a class have in common."""

    node_type: str
    zone: str
    domain: str
    pool: str
    going: str
    """The pool to which an applied plan takes them; `pool` if none does."""
    is_in_use: bool
    gpus: int


class Standing(Struct, frozen=True):
    """A region's nodes as a problem of pools sees them."""

    nodes: dict[Likeness, list[int]]
    """Ascending by class, and ascending."""
    still: tuple[str, ...]
    """Pools that are left alone."""

    @property
    def pools(self) -> set[str]:
        """Return the pools that have nodes, or will have."""
        return {pool for one in self.nodes for pool in (one.pool, one.going)}

    @property
    def digest(self) -> str:
        """Return a digest of how many nodes of which type and domain each pool has, once all that are going have come. Work on them does not change it."""
        return self._digest((one, one.going, len(nodes)) for one, nodes in self.nodes.items())

    def digest_after(self, moved: Mapping[tuple[Likeness, str], int]) -> str:
        """Return that digest once an answer is applied, which calls back what it does not move.

        moved   nodes by their class and new pool
        """
        left = Counter({one: len(nodes) for one, nodes in self.nodes.items()})
        for (one, _), count in moved.items():
            left[one] -= count
        stays = [(one, one.pool, count) for one, count in left.items()]
        return self._digest([*stays, *((one, pool, count) for (one, pool), count in moved.items())])

    def _digest(self, found: Iterable[tuple[Likeness, str, int]]) -> str:
        counts: Counter[tuple[str, str, str, int]] = Counter()
        for one, pool, count in found:
            counts[one.node_type, one.domain, pool, one.gpus] += count
        text = repr((sorted(item for item in counts.items() if item[1]), self.still))
        return blake2b(text.encode(), digest_size=12).hexdigest()


def standing_of(image: RegionImage) -> Standing:
    """Return the nodes that take work, or will. Reads every node.

    Lost nodes, and those that are drained, worked on or in quarantine, count for no pool. Nodes are in use if anything is on them, promised of
    them or kept for a start, or if they are suspected: they move only once that is over.
    """
    capacity = image.capacity
    going, kept = going_to(capacity), kept_nodes(image.starts)
    closed, still = closed_to_pools(capacity), still_pools(capacity, image.maintenance)
    found: dict[Likeness, list[int]] = {}
    for node, group in enumerate(groups_by_node(capacity)):
        if group is None or capacity.is_lost[node] or node in closed or group.pool in still:
            continue
        gpus = group.total.gpu_milli // MILLI
        if not gpus:
            continue
        to = going.get(node, group.pool)
        to = group.pool if to in still else to
        is_suspected = capacity.closed[node] > (node in going)
        is_in_use = is_suspected or node in kept or not is_unused(capacity, node)
        domain = domain_of_group(group)
        like = Likeness(group.node_type, group.zone, domain, group.pool, to, is_in_use, gpus)
        found.setdefault(like, []).append(node)
    return Standing(dict(sorted(found.items())), tuple(sorted(still)))


def problem_of(image: RegionImage, standing: Standing, wants: Wants, moves_max: int) -> PoolingProblem:
    """Return the problem of a region's pools as they stand."""
    named = {name for name, one in image.pools.settings.items() if one.needs}
    pools = tuple(sorted((standing.pools | named | {pool for pool, _ in wants}).difference(standing.still)))
    needs = {(name, node_type): gpus for name in pools for node_type, gpus in image.pools.of(name).needs}
    node_types = tuple(sorted({node_type for _, node_type in (*needs, *wants)}))
    likes = [(like, nodes) for like, nodes in standing.nodes.items() if like.node_type in node_types]
    zones = tuple(sorted({like.zone for like, _ in likes}))
    domains = tuple(sorted({like.domain for like, _ in likes}))
    classes = tuple(
        NodeClass(
            node_types.index(like.node_type),
            zones.index(like.zone),
            domains.index(like.domain),
            pools.index(like.pool),
            pools.index(like.going),
            like.is_in_use,
            like.gpus,
            len(nodes),
        )
        for like, nodes in likes
    )
    return PoolingProblem(
        pools,
        node_types,
        zones,
        domains,
        tuple(tuple(needs.get((pool, one), 0) for one in node_types) for pool in pools),
        tuple(image.pools.of(pool).survives is Survives.POWER_DOMAIN for pool in pools),
        tuple(pool in SPREAD_POOLS for pool in pools),
        tuple(tuple(wants.get((pool, one), 0) for one in node_types) for pool in pools),
        classes,
        pools.index(FREE_POOL) if FREE_POOL in pools else -1,
        moves_max,
    )


def likeness_of(problem: PoolingProblem, one: NodeClass) -> Likeness:
    """Return what a class of a problem has in common, by names."""
    return Likeness(
        problem.node_types[one.node_type],
        problem.zones[one.zone],
        problem.domains[one.domain],
        problem.pools[one.pool],
        problem.pools[one.going],
        one.is_in_use,
        one.gpus,
    )
