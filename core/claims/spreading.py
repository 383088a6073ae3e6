"""The store's check that tasks to be spread do not lie together although their agent could see capacity elsewhere.

An agent spreads a job max-min fair over the racks, pods or zones with capacity, so each has a task before any has two
(core/placing/pick/extents.py). Nodes that changed after the agent's view, and nodes that the view names as differing from the
log, do not count against a claim: no claim is refused for the age of a view.
"""

from collections.abc import Iterator, Sequence

from core.claims.checks import forbidden_for, groups_of, has_capacity
from core.device_shares import part_of
from core.images.pools import Pools
from core.nouns.cluster import cluster_of
from core.nouns.fleet import NodeGroup
from core.nouns.placement import Claim, Spread, needs_of, parts_of
from core.nouns.pool import PERMILLE
from core.nouns.quantities import Amount
from core.nouns.workload import Extent, JobSpec
from core.placing.index.owners import Now
from core.placing.pick.extents import pod_of_rack
from core.placing.pool_set import asker_of, request_of
from core.rules.placement.rule import Request
from core.rules.placement.rule_sets import PASSING

Unit = tuple[str, int]
"""Name of a zone, and number of a rack or pod in the zone; 0 for the zone itself."""


def left_out(claim: Claim, now: Now, pools: Pools, sequence: int) -> int | None:
    """Return a free node that the agent could see, in a unit without tasks of a job that has several in another; or None.

    sequence   sequence of the region's log: a view beyond that is not checked
    """
    view = claim.view
    if view.sequence > sequence or not view.is_whole or view.settings_revision != pools.revision:
        return None
    asker = asker_of(claim, 0)
    for job, spread in zip(claim.jobs, claim.spreads, strict=True):
        request = request_of(job, asker)
        if request.spread is Extent.ANY or job.tasks < 2:
            continue
        found = _Search(claim, job, spread, request, now, pools).run()
        if found is not None:
            return found
    return None


class _Search:
    """The search for a node that one job leaves out."""

    def __init__(
        self, claim: Claim, job: JobSpec, spread: Spread, request: Request, now: Now, pools: Pools
    ) -> None:
        self.claim, self.job, self.spread, self.request = claim, job, spread, request
        self.now, self.pools, self.capacity = now, pools, now.capacity
        self.groups = groups_of(self.capacity, spread.nodes)

    def run(self) -> int | None:
        """Return the first node left out, if any."""
        counts = self._counts()
        if max(counts.values()) == 1:
            return None  # Each task has its own unit.
        pack = self.request.pack
        inside = _unit(self.groups[0], self.spread.nodes[0], pack) if pack else None
        named = {row.node for row in self.claim.view.learnt} | {node for node, _ in self.claim.view.owners}
        needs, parts = needs_of(self.claim), parts_of(self.claim)
        for group, node in self._candidates():
            if _unit(group, node, self.request.spread) in counts or node in named:
                continue
            if inside is not None and _unit(group, node, pack) != inside:
                continue
            mine = needs.get(node, Amount()), parts.get(node, ())
            if self._admits(group, node) and self._has_room(node, *mine):
                return node
        return None

    def _counts(self) -> dict[Unit, int]:
        """Return the number of the job's tasks by unit."""
        counts: dict[Unit, int] = {}
        groups = iter(self.groups)
        group = next(groups)
        for node, tasks in zip(self.spread.nodes, self.spread.tasks, strict=True):
            while node not in group.numbers():
                group = next(groups)
            unit = _unit(group, node, self.request.spread)
            counts[unit] = counts.get(unit, 0) + tasks
        return counts

    def _candidates(self) -> Iterator[tuple[NodeGroup, int]]:
        """Yield the open nodes of the job's pools and type that have enough free and have not changed since the view.

        Only this step visits all nodes of a region, and therefore reads columns.
        """
        capacity, need, seen = self.capacity, self.job.need, self.claim.view.sequence
        gpu, cpu, memory = capacity.gpu.free, capacity.cpu.free, capacity.memory.free
        changed, closed = capacity.changed, capacity.closed
        pools, node_type = {group.pool for group in self.groups}, self.groups[0].node_type
        for row in capacity.workers.values():
            for group in () if row.is_lost else row.inventory.groups:
                if group.pool not in pools or group.node_type != node_type or self._is_limited(group.pool):
                    continue
                for node in group.numbers():
                    if (
                        gpu[node] >= need.gpu_milli
                        and changed[node] <= seen
                        and not closed[node]
                        and cpu[node] >= need.cpu_milli
                        and memory[node] >= need.memory_bytes
                    ):
                        yield group, node

    def _is_limited(self, pool: str) -> bool:
        """Return whether a limit binds the job in a pool: its agent then sees only the best nodes, as many as the limit admits."""
        heeds = self.request.heeds_limit and self.job.need.gpu_milli > 0
        return heeds and self.pools.of(pool).limit < PERMILLE

    def _admits(self, group: NodeGroup, node: int) -> bool:
        """Return whether hard rules admit the node, and no reserve can be keeping the node empty."""
        gpu = self.capacity.gpu
        is_spare = gpu.free[node] - gpu.reserved[node] == gpu.total[node]
        if is_spare and self.request.heeds_reserve and self.pools.of(group.pool).reserve:
            return False
        if forbidden_for(cluster_of(group), self.request) is not None:
            return False
        return all(rule.allows_at(self.now, node, self.request) for rule in PASSING)

    def _has_room(self, node: int, taken: Amount, parts: Sequence[int]) -> bool:
        """Return whether one more task fits on the node beside the claim's own."""
        need = self.job.need
        part = part_of(need.gpu_milli)
        return has_capacity(self.capacity, node, taken.plus(need), [*parts, *([part] if part else [])])


def _unit(group: NodeGroup, node: int, extent: Extent) -> Unit:
    """Return the unit of a node: racks and pods with the same number in two zones are two units."""
    if extent is Extent.ZONE:
        return group.zone, 0
    rack = group.rack_of(node)
    return group.zone, rack if extent is Extent.RACK else pod_of_rack(rack)
