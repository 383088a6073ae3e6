"""Pools and their needs: for how long each had what it needs, and whether plans say what is so. Counted here anew, node by node."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from core.events.control import DomainLost, NodesClosed, NodesOpened, ScopeJoined
from core.events.pools import NodesPooled, PoolChanged, PoolsApplied, PoolsPlanned
from core.events.region import NodesJoined, NodesLost, NodesReturned
from core.fact import Fact
from core.images import Image, RegionImage
from core.nouns.ids import LogName
from core.nouns.placement import numbers_in
from core.nouns.pool import Survives

OF_NODES = (NodesJoined, NodesLost, NodesReturned, DomainLost, NodesClosed, NodesOpened, ScopeJoined)
MOVES_NODES = (*OF_NODES, NodesPooled, PoolChanged, PoolsApplied)
"""Facts that may change what a pool has, or needs."""
TO_BEGIN_SECONDS = 60.0
"""From when a need is stated until it is to be met: a plan is made, and empty nodes move."""
Place = tuple[str, str]
"""A pool and a node type."""


def gpus_by_domain(image: RegionImage, targets: Mapping[int, str] | None = None) -> dict[Place, Counter[str]]:
    """Return the GPUs that take work, by pool and type, and by power domain.

    targets   pools in which nodes are to be; None: nodes count where they are, and those that are closed to move do not
    """
    capacity = image.capacity
    away: set[int] = set()
    for closure in capacity.closures.values():
        is_ours = bool(closure.pool)
        if closure.kind in ("drain", "maintenance", "quarantine") and not (is_ours and targets is not None):
            away.update(numbers_in(closure.nodes))
    found: dict[Place, Counter[str]] = {}
    for row in capacity.workers.values():
        for group in row.inventory.groups:
            for node in group.numbers():
                if capacity.is_lost[node] or node in away:
                    continue
                pool = (targets or {}).get(node, group.pool)
                domain = group.power_domain or group.zone
                found.setdefault((pool, group.node_type), Counter())[domain] += group.total.gpu_milli // 1_000
    return found


class Need(Struct):
    """One need of one region."""

    stated_at: float
    counts: bool = False
    """Whether it was met before, or has had its time."""
    is_met: bool = False
    met: float = 0.0
    counted: float = 0.0


class _Region(Struct):
    needs: dict[Place, Need] = {}
    last_at: float = 0.0
    is_dirty: bool = False
    changed: int = 0
    """Sequence of the newest fact that changed the nodes that take work."""


class PoolsHeld:
    """Told of each fact of a region before its image folds it."""

    def __init__(self) -> None:
        self.regions: dict[LogName, _Region] = {}
        self.planned = 0
        self.moved = 0
        self.wrong: list[str] = []
        """Plans that say of pools what is not so."""

    def take(self, fact: Fact, at: float, image: Image) -> None:
        """Count the time before the fact, and check a plan against the nodes as they are."""
        event = fact.event
        if not isinstance(event, (*MOVES_NODES, PoolsPlanned)) or not isinstance(image, RegionImage):
            return
        region = self.regions.setdefault(fact.log, _Region(last_at=at))
        self._count(region, image, at)
        if isinstance(event, PoolChanged):
            for node_type, _ in event.settings.needs:
                region.needs.setdefault((event.pool, node_type), Need(at))
        if isinstance(event, NodesPooled):
            self.moved += len(numbers_in(event.nodes))
        if isinstance(event, OF_NODES) and not getattr(event, "pool", ""):
            region.changed = fact.sequence
        if isinstance(event, PoolsPlanned) and not event.is_more:
            self.planned += 1
            if event.plan.basis.sequence >= region.changed:
                self.wrong += [f"{fact.log} {fact.sequence}: {text}" for text in wrong_in(event, image)]
        region.is_dirty = True

    def figures(self, at: float, images: Mapping[LogName, Image]) -> dict[str, float]:
        """Return the figures of a run that ends then."""
        for log, region in self.regions.items():
            image = images[log]
            assert isinstance(image, RegionImage), log
            self._count(region, image, at)
        needs = [need for region in self.regions.values() for need in region.needs.values()]
        counted = sum(need.counted for need in needs)
        held = sum(need.met for need in needs) / counted if counted else 1.0
        return {
            "pools_planned": float(self.planned),
            "nodes_pooled": float(self.moved),
            "needs_held_share": held,
        }

    def _count(self, region: _Region, image: RegionImage, at: float) -> None:
        if region.is_dirty:
            has = gpus_by_domain(image)
            wanted = {
                (pool, node_type): gpus
                for pool, settings in image.pools.settings.items()
                for node_type, gpus in settings.needs
            }
            region.needs = {place: need for place, need in region.needs.items() if place in wanted}
            for place, need in region.needs.items():
                need.is_met = sum(has.get(place, {}).values()) >= wanted[place]
                need.counts = need.counts or need.is_met
            region.is_dirty = False
        for need in region.needs.values():
            since = region.last_at if need.counts else max(region.last_at, need.stated_at + TO_BEGIN_SECONDS)
            if at > since:
                need.counts = True
                need.counted += at - since
                need.met += (at - since) * need.is_met
        region.last_at = max(region.last_at, at)


def wrong_in(planned: PoolsPlanned, image: RegionImage) -> list[str]:
    """Return what a plan says of pools that is not so, where nothing has changed the region's nodes since it was made.

    A plan by hand says what would be so; what it does not name is where it is.
    """
    plan = planned.plan
    targets = {node: move.pool_to for move in plan.moves for node in numbers_in(move.nodes)}
    has = gpus_by_domain(image, targets)
    found = []
    for one in plan.standings:
        domains = has.get((one.pool, one.node_type), Counter())
        total = sum(domains.values())
        left = total - max(domains.values(), default=0)
        survives = image.pools.of(one.pool).survives is Survives.POWER_DOMAIN
        short = max(0, one.needs - (left if survives else total))
        if (one.has, one.left, one.short) != (total, left, short):
            found.append(
                f"plan {plan.number} says that {one.pool} has {one.has} {one.node_type}, {one.left} of them without its largest domain, and "
                f"lacks {one.short}; there are {total}, {left} and {short}"
            )
    return found
